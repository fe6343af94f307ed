"""Parameters as one flat vector, and back.

Enters: parameters of one device. Leaves: a vector of all elements in order, or the parameters viewing parts of a given
one. Refuses: parameters on different devices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._C import Tensor
from ...op import find_op


def _same_device(tensors: list[Tensor]) -> list[Tensor]:
    if len({str(t.device) for t in tensors}) > 1:
        raise TypeError("the parameters lie on different devices; a vector holds those of one.")
    return tensors


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters in one vector."""
    return find_op("cat")([p.view(-1) for p in _same_device(list(parameters))])


def vector_to_parameters(vec: Any, parameters: Iterable[Tensor]) -> None:
    """Let the parameters be the parts of a vector, in order."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected a Tensor, but got: {type(vec).__name__}")
    start = 0
    for p in _same_device(list(parameters)):
        count = p.numel()
        p.data = vec[start : start + count].view_as(p).data
        start += count
