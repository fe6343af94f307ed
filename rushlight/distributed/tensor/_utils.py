"""`torch.distributed.tensor._utils`: where a process's part of a tensor lies in the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..device_mesh import DeviceMesh
from .placement_types import Placement, _StridedShard, is_cut

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], skip_offset: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape of this process's part, where its first element lies); nothing for a process outside the mesh."""
    place = mesh.get_coordinate()
    return ((0,), ()) if place is None else shape_and_offset_at(global_shape, mesh, placements, place, skip_offset)


def shape_and_offset_at(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], place: Sequence[int],
    skip_offset: bool = False,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The same of the process at a place of the mesh."""
    shape = list(global_shape)
    held: list[Any] = [range(n) for n in global_shape]      # along each dimension, the elements this process has
    for i, placement in enumerate(placements):
        if not is_cut(placement):
            continue
        dim = placement.dim % max(len(shape), 1)
        cut, count = placement.at(dim), mesh.size(i)
        if isinstance(cut, _StridedShard):
            held[dim] = [held[dim][k] for k in cut.places(shape[dim], count)[place[i]]]
        else:
            length, start = cut.local_shard_size_and_offset(shape[dim], count, place[i])
            held[dim] = held[dim][start : start + length]
        shape[dim] = len(held[dim])
    if skip_offset:
        return tuple(shape), ()
    # a part without elements begins where the whole ends
    return tuple(shape), tuple(h[0] if len(h) else n for h, n in zip(held, global_shape, strict=True))
