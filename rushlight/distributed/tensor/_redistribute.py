"""From one layout to another: which step along which mesh dimension, and the collective that each step is.

Enters: this process's part and two layouts of the same tensor. Leaves: its part in the second layout.

Placements apply from the first mesh dimension to the last, so what mesh dimension i holds is a cut of what those before
it left. A mesh dimension may therefore be changed when those before it stay, and is undone first when one of those
before it comes to cut the same tensor dimension otherwise. `steps` goes from the last to the first, changing what may
be changed and undoing what must be, then from the first to the last for the rest.

    part -> whole    all-gather            whole -> part    narrow
    terms -> whole   all-reduce            terms -> part    reduce-scatter
    part -> part of another dimension      all-to-all       whole -> terms   each an equal term
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...autograd.function import Function
from ...base import logs
from .. import _functional_collectives as functional
from ..device_mesh import DeviceMesh
from ._dtensor_spec import DTensorSpec, TensorMeta
from .placement_types import Partial, Placement, Replicate, Shard, is_cut, padded

__all__ = ["redistribute_local_tensor"]


def steps(source: Sequence[Placement], target: Sequence[Placement]) -> Iterator[tuple[int, Placement, Placement]]:
    """(mesh dimension, from, to), one after another."""
    now = list(source)
    for i in reversed(range(len(now))):
        wanted = target[i]
        if is_cut(wanted) and _cutting(now[:i], wanted.dim) != _cutting(target[:i], wanted.dim):
            wanted = Replicate()
        if now[i] != wanted and not (now[i].is_replicate() and wanted.is_partial()):
            yield i, now[i], wanted
            now[i] = wanted
    for i in range(len(now)):
        if now[i] != target[i]:
            yield i, now[i], target[i]
            now[i] = target[i]


def _cutting(placements: Sequence[Placement], dim: int) -> list[tuple[int, Placement]]:
    """Which of the placements cut a tensor dimension."""
    return [(i, placement) for i, placement in enumerate(placements) if is_cut(placement) and placement.dim == dim]


def redistribute_local_tensor(
    local_tensor: Any, current_spec: DTensorSpec, target_spec: DTensorSpec, *, async_op: bool = False
) -> Any:
    """This process's part in the target layout. (`async_op`: collectives here have ended when they return.)"""
    mesh = current_spec.mesh
    if mesh != target_spec.mesh:
        raise NotImplementedError("redistribute: a tensor stays on its mesh; from one mesh to another is not possible")
    place = mesh.get_coordinate()
    if place is None:
        return local_tensor
    now = list(current_spec.placements)
    if (log := logs.messages("torch.distributed.tensor", logs.DEBUG)) is not None:
        log.debug("redistribute %s on %s: %s to %s", list(current_spec.shape), mesh, current_spec.placements,
                  target_spec.placements)
    for i, source, target in steps(current_spec.placements, target_spec.placements):
        if mesh.size(i) > 1:
            before = _cut_shape(current_spec.shape, mesh, now[:i], place)
            local_tensor = _step(local_tensor, mesh, i, place[i], source, target, before)
        now[i] = target
    return local_tensor


def _cut_shape(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], place: list[int]) -> list[int]:
    """Sizes of what the first mesh dimensions leave to the next."""
    sizes = list(shape)
    for i, placement in enumerate(placements):
        if is_cut(placement):
            sizes[placement.dim] = placement.part_size(sizes[placement.dim], mesh.size(i), place[i])
    return sizes


def _step(
    local: Any, mesh: DeviceMesh, i: int, place: int, source: Placement, target: Placement, shape: list[int]
) -> Any:
    """One change along one mesh dimension; `shape` is that of what it holds, all parts together."""
    if source.is_replicate():
        if is_cut(target):
            return target.parts(local, mesh.size(i))[place].clone()
        return target.term(local, mesh.size(i))
    if isinstance(source, Partial):
        if target.is_replicate():
            return _reduced(local, mesh, i, source)
        if isinstance(target, Shard):
            return _reduced_part(local, mesh, i, place, source, target)
        if is_cut(target):
            return target.parts(_reduced(local, mesh, i, source), mesh.size(i))[place].clone()
    elif is_cut(source):
        if isinstance(source, Shard) and isinstance(target, Shard):
            return _recut(local, mesh, i, place, source, target, shape)
        whole = _gathered(local, mesh, i, source, shape[source.dim])
        if target.is_replicate():
            return whole
        if is_cut(target):
            return target.parts(whole, mesh.size(i))[place].clone()
    raise RuntimeError(f"redistribute: from {source!r} to {target!r} is not possible. Go by way of Replicate().")


def _gathered(local: Any, mesh: DeviceMesh, i: int, source: Any, size: int) -> Any:
    """The whole from everyone's part."""
    lengths = [source.part_size(size, mesh.size(i), rank) for rank in range(mesh.size(i))]
    piled = functional.all_gather_tensor(padded(local, source.dim, max(lengths)).unsqueeze(0), 0, (mesh, i))
    return source.joined([part.narrow(source.dim, 0, length) for part, length in zip(piled, lengths, strict=True)])


def _reduced(local: Any, mesh: DeviceMesh, i: int, source: Partial) -> Any:
    """The whole from everyone's term."""
    return source.after(functional.all_reduce(source.before(local), source.reduce_op, (mesh, i)))


def _reduced_part(local: Any, mesh: DeviceMesh, i: int, place: int, source: Partial, target: Shard) -> Any:
    """This process's part of the whole, from everyone's term."""
    size = local.shape[target.dim]
    parts, paddings = target._split_tensor(source.before(local), mesh.size(i))
    piled = functional.cat(parts, target.dim) if any(paddings) else source.before(local)
    part = functional.reduce_scatter_tensor(piled, source.reduce_op, target.dim, (mesh, i))
    return source.after(part.narrow(target.dim, 0, target.part_size(size, mesh.size(i), place)))


def _recut(
    local: Any, mesh: DeviceMesh, i: int, place: int, source: Shard, target: Shard, shape: list[int]
) -> Any:
    """The part along another dimension: everyone sends everyone the piece where their parts meet."""
    count = mesh.size(i)
    longest = source.part_size(shape[source.dim], count, 0)
    pieces, _ = target._split_tensor(padded(local, source.dim, longest), count)
    got = functional.all_to_all_single(functional.stack(pieces), None, None, (mesh, i))
    rows = target.part_size(shape[target.dim], count, place)
    lengths = [source.part_size(shape[source.dim], count, rank) for rank in range(count)]
    return source.joined(
        [piece.narrow(target.dim, 0, rows).narrow(source.dim, 0, n) for piece, n in zip(got, lengths, strict=True)]
    )


def gradient_placements(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """How a gradient lies that flows to a tensor of these placements: a term's gradient is that of the sum."""
    return tuple(Replicate() if placement.is_partial() else placement for placement in placements)


def returning(current: Sequence[Placement], before: Sequence[Placement]) -> tuple[Placement, ...]:
    """Where a gradient goes back to: terms are not made again of what is whole."""
    return tuple(
        Replicate() if was.is_partial() and not now.is_partial() else was
        for now, was in zip(current, before, strict=True)
    )


class Redistribute(Function):
    """`redistribute`, whose gradient goes the way back."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, placements: tuple[Placement, ...], dtype: Any, gradient_dtype: Any) -> Any:
        ctx.placements, ctx.dtype, ctx.gradient_dtype = tensor.placements, tensor.dtype, gradient_dtype
        return moved(tensor, placements, dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        placements = returning(gradient.placements, ctx.placements)
        result = Redistribute.apply(gradient, placements, ctx.gradient_dtype or ctx.dtype, None)
        return result if result.dtype is ctx.dtype else result.to(ctx.dtype), None, None, None


def moved(tensor: Any, placements: tuple[Placement, ...], dtype: Any = None) -> Any:
    """A distributed tensor in other placements (and, before it is sent, another type), outside every graph."""
    local, spec = tensor._local_tensor, tensor._spec
    if dtype is not None and dtype is not local.dtype:
        local = local.to(dtype)
        spec = spec.but(tensor_meta=TensorMeta(spec.shape, spec.stride, dtype))
    target = spec.but(placements=placements)
    return type(tensor)(redistribute_local_tensor(local, spec, target), target, requires_grad=False)
