"""Rows looked up in a table whose rows are spread over processes: each looks up those it has, the rest are zeros.

The results are terms of a sum, so that the table is never gathered: an embedding whose vocabulary is cut.
"""

from __future__ import annotations

from typing import Any

from ...base.shape import Size
from ...fake import FakeTensor
from . import _dispatch
from ._dtensor_spec import DTensorSpec, TensorMeta
from ._utils import compute_local_shape_and_global_offset
from .placement_types import Partial, Placement, Replicate, Shard


def select(bound: tuple, given: list[Any]) -> Any:
    """`index_select` along a dimension that is cut; NotImplemented for anything else."""
    table, index = given
    dim = bound[1] % max(table.ndim, 1)
    axes = [i for i, placement in enumerate(table.placements) if placement == Shard(dim)]
    if len(axes) != 1 or index.ndim != 1:
        return NotImplemented
    wanted, results = [], []
    for i, (lies, places) in enumerate(zip(table.placements, index.placements, strict=True)):
        found = _along(i == axes[0], lies, places, dim)
        if found is None:
            return NotImplemented
        wanted.append(found[0])
        results.append(found[1])
    at = _dispatch.moved_local(index, index._spec.but(placements=tuple(wanted)))
    wrong = (at < 0) | (at >= table.shape[dim])
    if not isinstance(at, FakeTensor) and bool(wrong.any()):
        raise IndexError(f"index_select: an index is out of bounds for dimension {dim} with size {table.shape[dim]}")
    shape, offset = compute_local_shape_and_global_offset(table.shape, table.device_mesh, table.placements)
    start, count = offset[dim], shape[dim]
    here = (at >= start) & (at < start + count)
    local = table._local_tensor
    if count:
        # in a graph, what is wrong is left for the op to find
        rows = local.index_select(dim, (at - start).clamp(0, count - 1).masked_fill(wrong, count))
        rows = rows.masked_fill(here.logical_not().view([-1 if d == dim else 1 for d in range(table.ndim)]), 0)
    else:
        rows = local.new_zeros([len(at) if d == dim else n for d, n in enumerate(local.shape)])
    sizes = Size(index.shape[0] if d == dim else n for d, n in enumerate(table.shape))
    meta = TensorMeta(sizes, _dispatch.row_major(sizes), rows.dtype)
    return type(table)(rows, DTensorSpec(table.device_mesh, tuple(results), meta), requires_grad=False)


def _along(is_cut: bool, lies: Placement, places: Placement, dim: int) -> tuple[Placement, Placement] | None:
    """(how the index must lie, how the result lies) along one mesh dimension; None where it must be otherwise."""
    if is_cut:
        return Replicate(), Partial()
    if lies.is_replicate() and (places.is_replicate() or places == Shard(0)):
        return places, Replicate() if places.is_replicate() else Shard(dim)
    if isinstance(lies, Shard):
        return Replicate(), lies
    return None


_dispatch.special["index_select"] = select
