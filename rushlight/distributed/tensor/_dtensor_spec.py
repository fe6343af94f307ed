"""What is known of a distributed tensor without its elements: the mesh, how it lies there, sizes, strides and type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from ...base.shape import Size
from ..device_mesh import DeviceMesh
from .placement_types import Partial, Placement, Replicate, is_cut

__all__ = ["DTensorSpec", "TensorMeta"]
_numbers: dict[tuple, int] = {}


class TensorMeta(NamedTuple):
    """Sizes, strides and type of the whole tensor."""

    shape: Any
    stride: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class DTensorSpec:
    """A layout: `placements[i]` says how the tensor lies along dimension i of the mesh.

    Placements apply from the first mesh dimension to the last: each cuts what the ones before it left.
    """

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "placements", tuple(self.placements))

    def __reduce__(self) -> tuple:
        return DTensorSpec, (self.mesh, self.placements, self.tensor_meta)

    @cached_property
    def number(self) -> int:
        """A number of its placements, sizes and type: the same for equal ones, quicker to look up."""
        return _numbers.setdefault((self.placements, self.tensor_meta), len(_numbers))

    def _known(self) -> TensorMeta:
        if self.tensor_meta is None:
            raise ValueError("DTensorSpec: tensor_meta, the sizes and type of the tensor, is not set")
        return self.tensor_meta

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self.mesh

    @property
    def shape(self) -> Any:
        """Sizes of the whole tensor."""
        return self._known().shape

    @property
    def stride(self) -> tuple[int, ...]:
        """Strides of the whole tensor."""
        return self._known().stride

    @property
    def ndim(self) -> int:
        """How many dimensions the tensor has."""
        return len(self._known().shape)

    @property
    def num_shards(self) -> int:
        """How many parts there are."""
        count = 1
        for i, placement in enumerate(self.placements):
            count *= self.mesh.size(i) if is_cut(placement) else 1
        return count

    @property
    def dim_map(self) -> list[int]:
        """For each tensor dimension the mesh dimension that cuts it, or -1."""
        found = [-1] * self.ndim
        for i, placement in enumerate(self.placements):
            if is_cut(placement):
                if found[placement.dim] >= 0:
                    raise ValueError(f"dim_map: two mesh dimensions cut tensor dimension {placement.dim}")
                found[placement.dim] = i
        return found

    @property
    def sums(self) -> list[int]:
        """Mesh dimensions along which there are terms to be reduced."""
        return [i for i, placement in enumerate(self.placements) if placement.is_partial()]

    def is_replicated(self) -> bool:
        """Whether every process has the whole."""
        return all(placement.is_replicate() for placement in self.placements)

    def is_sharded(self) -> bool:
        """Whether some mesh dimension cuts it."""
        return any(is_cut(placement) for placement in self.placements)

    def but(self, **changes: Any) -> DTensorSpec:
        """The layout with something changed."""
        return replace(self, **changes)

    def shallow_copy_with_tensor_meta(self, tensor_meta: TensorMeta | None) -> DTensorSpec:
        """The layout for other sizes or another type."""
        return replace(self, tensor_meta=tensor_meta)

    def __str__(self) -> str:
        shape = tuple(self.tensor_meta.shape) if self.tensor_meta is not None else "unknown shape"
        placements = "".join(str(p) for p in self.placements)
        return f"Spec({placements} on {shape})"


def check_placements(name: str, placements: Sequence[Placement], mesh: DeviceMesh, ndim: int) -> tuple[Placement, ...]:
    """Placements with dimensions counted from the front; ValueError for those that cannot be."""
    if len(placements) != mesh.ndim:
        raise ValueError(
            f"{name}: placements must have the same length as the mesh has dimensions, got {len(placements)} for "
            f"{mesh.ndim}"
        )
    kinds = {placement.reduce_op for placement in placements if isinstance(placement, Partial)}
    if len(kinds - {"avg"} | ({"sum"} if "avg" in kinds else set())) > 1:
        raise ValueError(
            f"{name}: different reductions of one tensor ({', '.join(sorted(kinds))}) depend on their order. "
            "Redistribute one of them first."
        )
    return tuple(_counted(name, placement, ndim) for placement in placements)


def _counted(name: str, placement: Placement, ndim: int) -> Placement:
    if not isinstance(placement, Placement):
        raise TypeError(f"{name}: expected Shard, Replicate or Partial, got {placement!r}")
    if not is_cut(placement):
        return placement
    if not -ndim <= placement.dim < max(ndim, 1):
        raise ValueError(f"{name}: {placement!r} is of a dimension that a tensor of {ndim} dimensions does not have")
    return placement.at(placement.dim + ndim) if placement.dim < 0 else placement


def global_meta(local: Any, mesh: DeviceMesh, placements: Sequence[Placement]) -> TensorMeta:
    """Sizes and strides of the whole, if all parts are as long as this one."""
    shape, stride = list(local.shape), list(local.stride())
    for i, placement in enumerate(placements):
        if not is_cut(placement):
            continue
        dim, count = placement.dim, mesh.size(i)
        own = stride[dim]
        shape[dim] *= count
        for d in range(len(stride)):
            if d != dim and stride[d] >= own:      # rounds over the whole dimension are longer by as much
                stride[d] *= count
    return TensorMeta(Size(shape), tuple(stride), local.dtype)


def local_shape(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]) -> tuple[int, ...]:
    """Sizes of this process's part; (0,) for a process outside the mesh."""
    place = mesh.get_coordinate()
    if place is None:
        return (0,)
    sizes = list(shape)
    for i, placement in enumerate(placements):
        if is_cut(placement):
            sizes[placement.dim] = placement.part_size(sizes[placement.dim], mesh.size(i), place[i])
    return tuple(sizes)


def replicated(mesh: DeviceMesh) -> tuple[Placement, ...]:
    """Placements of a tensor that every process has."""
    return (Replicate(),) * mesh.ndim
