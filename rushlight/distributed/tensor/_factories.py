"""`zeros`, `ones`, `full`, `empty`, `rand` and `randn` of distributed tensors: each process makes its part.

Random numbers of a CPU mesh come from each process's own generator, drawn for its part, as PyTorch's do there: seed
processes alike for copies, and apart for parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ...base.shape import Size, strided
from ...op import find_op
from ..device_mesh import DeviceMesh, current_mesh
from ._api import DTensor
from ._dtensor_spec import DTensorSpec, TensorMeta, check_placements, local_shape, replicated
from .placement_types import Placement

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]


def _made(
    name: str, size: Any, fill: tuple, dtype: Any, layout: Any, requires_grad: bool, device_mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None,
) -> DTensor:
    if layout is not strided:
        raise RuntimeError(f"{name}: layout {layout} is not supported; distributed tensors are strided")
    mesh = device_mesh or current_mesh()
    if isinstance(size, int):
        size = (size,)
    elif len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    size = Size(size)
    lies = check_placements(name, replicated(mesh) if placements is None else placements, mesh, len(size))
    part = local_shape(size, mesh, lies)
    local = find_op(name)(part, *fill, dtype=dtype, device=_C.device(mesh.device_type))
    strides = _C.empty(tuple(size), None, local.dtype, _C.device("meta")).stride()
    return DTensor(local, DTensorSpec(mesh, lies, TensorMeta(size, strides, local.dtype)), requires_grad=requires_grad)


def _factory(name: str, promise: str) -> Callable[..., DTensor]:
    def make(
        *size: Any, requires_grad: bool = False, dtype: Any = None, layout: Any = strided,
        device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        return _made(name, size, (), dtype, layout, requires_grad, device_mesh, placements)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A distributed tensor {promise}; copies on every process unless `placements` says otherwise."
    return make


zeros, ones = _factory("zeros", "of zeros"), _factory("ones", "of ones")
empty = _factory("empty", "whose elements are undefined")
rand = _factory("rand", "of random numbers from [0, 1)")
randn = _factory("randn", "of normal random numbers")


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, layout: Any = strided, requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A distributed tensor of one number; copies on every process unless `placements` says otherwise."""
    return _made("full", size, (fill_value,), dtype, layout, requires_grad, device_mesh, placements)
