"""`distribute_module`: a module whose parameters and buffers are distributed tensors."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from ...nn import Module, Parameter
from ..device_mesh import DeviceMesh, current_mesh
from ._api import DTensor, distribute_tensor

__all__ = ["distribute_module"]


def distribute_module(
    module: Module, device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None, output_fn: Callable[..., Any] | None = None,
) -> Module:
    """The module, with its parameters distributed by `partition_fn(name, submodule, mesh)`; what that leaves is copied
    to every process. `input_fn(module, inputs, mesh)` and `output_fn(module, outputs, mesh)` run around its forward."""
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError("distribute_module: it was called on this module before")
    mesh = device_mesh or current_mesh()
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        _copy_rest(part, mesh)
    if input_fn is not None:
        takes_module = _takes_module("input_fn", input_fn)
        module.register_forward_pre_hook(
            lambda mod, inputs: input_fn(mod, inputs, mesh) if takes_module else input_fn(inputs, mesh)
        )
    if output_fn is not None:
        gives_module = _takes_module("output_fn", output_fn)
        module.register_forward_hook(
            lambda mod, _, outputs: output_fn(mod, outputs, mesh) if gives_module else output_fn(outputs, mesh)
        )
    module._distribute_module_applied = True
    return module


def _copy_rest(module: Module, mesh: DeviceMesh) -> None:
    """Parameters and buffers that are still plain, as copies on every process."""
    for name, param in module._parameters.items():
        if param is not None and not isinstance(param, DTensor):
            module.register_parameter(name, Parameter(distribute_tensor(param.data, mesh), param.requires_grad))
    for name, buffer in module._buffers.items():
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[name] = distribute_tensor(buffer, mesh)


def _takes_module(name: str, function: Callable[..., Any]) -> bool:
    """Whether a hook takes (module, values, mesh), or (values, mesh) as it once did."""
    count = len(inspect.signature(function).parameters)
    if count not in (2, 3):
        raise ValueError(f"distribute_module: {name} takes (module, values, device_mesh), got one that takes {count}")
    if count == 2:
        warnings.warn(
            f"{name} of two arguments is on its way out: let it take (module, values, device_mesh)",
            FutureWarning,
            stacklevel=3,
        )
    return count == 3
