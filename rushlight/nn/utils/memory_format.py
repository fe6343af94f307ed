"""Weights of convolutions in another memory format.

Enters: a module tree and a memory format. Leaves: the same modules, their convolution weights laid out so.
Other layers stay.
"""

from __future__ import annotations

from typing import Any

from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module


def _convert(module: Module, kinds: tuple[type, ...], memory_format: Any) -> Module:
    for found in module.modules():
        if isinstance(found, kinds):
            found.weight.data = found.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """All 2-d convolution weights in `memory_format`."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """All 3-d convolution weights in `memory_format`."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
