"""`torch.distributed.tensor._utils`: where a process's part of a tensor lies in the whole."""

from __future__ import annotations

from collections.abc import Sequence

from ..device_mesh import DeviceMesh
from .placement_types import Placement, Shard

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape of this process's part, where it begins); nothing for a process outside the mesh."""
    place = mesh.get_coordinate()
    if place is None:
        return (0,), ()
    shape, offset = list(global_shape), [0] * len(global_shape)
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            dim = placement.dim % len(shape) if shape else 0
            length, start = Shard.local_shard_size_and_offset(shape[dim], mesh.size(mesh_dim), place[mesh_dim])
            shape[dim] = length
            offset[dim] += start
    return tuple(shape), tuple(offset)
