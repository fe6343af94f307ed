"""Collectives that give new tensors in place of writing their arguments: what graphs are made of, and gradients.

A collective has ended when its result is given out, so that `wait_tensor` has nothing left to do; in a graph it is two
ops, one that begins it and one that waits (`_functional_ops.py`). All have gradients: of a sum the sum, of a gathering
the scattering, of an exchange the exchange back. (`..._autograd` are older names.)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..autograd.function import Function
from ..base.shape import contiguous_format
from ..dispatch.modes import state as mode_state
from ..dynamo.record import marks
from ..fake import FakeTensor
from ..op import find_op
from . import collectives as c
from ._functional_ops import group_called, name_of_reduction, ops, reduction as _op, sums_only as _sums_only, wait
from .device_mesh import DeviceMesh
from .group import ProcessGroup
from .groups import get_process_group_ranks, get_rank, resolve

cat, stack = find_op("cat"), find_op("stack")


class AsyncCollectiveTensor:
    """PyTorch wraps results that are still under way in this; here none is, so that nothing is an instance of it."""

    def __init__(self, *args: Any) -> None:
        raise TypeError("AsyncCollectiveTensor: collectives give plain tensors here")


def wait_tensor(tensor: Any) -> Any:
    """The tensor, when what fills it is done."""
    return ops.wait_tensor(tensor) if _is_recorded(tensor) else wait(tensor)


def _is_recorded(tensor: Any) -> bool:
    """Whether somebody watches ops, and is to see collectives as such."""
    return bool(mode_state.dispatch_modes) or isinstance(tensor, FakeTensor)


def _group(group: Any) -> Any:
    """A group from what functional collectives take: a group, a mesh of one dimension, (mesh, dim), or ranks."""
    if isinstance(group, DeviceMesh):
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, str):
        return group_called(group)
    if isinstance(group, (list, tuple)):
        from .groups import _world

        for result in _world.groups:
            if get_process_group_ranks(result) == list(group):
                return result
        raise ValueError(f"there is no process group of ranks {list(group)}: make one with new_group")
    return resolve(group)


def group_name(group: Any) -> str:
    """What ops call a group."""
    return _group(group).group_name


def group_size(group: Any) -> int:
    """How many ranks a group has."""
    return _group(group).size()


def group_rank(group: Any) -> int:
    """This process's place in a group."""
    return _group(group).rank()


marks.stands_for_itself(ProcessGroup)
marks.stands_for_itself(DeviceMesh)


def _all_reduce(self: Any, reduceOp: str, group: Any, tag: str = "") -> Any:   # noqa: N803
    """The reduction over the group."""
    result = self.detach().clone(memory_format=contiguous_format)
    c.all_reduce(result, _op(reduceOp), _group(group))
    return result


def _broadcast(self: Any, src: int, group: Any, tag: str = "") -> Any:
    """The tensor of one rank."""
    result = self.detach().clone(memory_format=contiguous_format)
    c.broadcast(result, src, _group(group))
    return result


def _all_gather_tensor(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    """All ranks' tensors, one behind the other along a dimension."""
    resolved = _group(group)
    source = self.detach().contiguous()
    if source.dim() == 0:
        source = source.view(1)
    result = source.new_empty((resolved.size() * source.shape[0], *source.shape[1:]))
    c.all_gather_into_tensor(result, source, resolved)
    return result if gather_dim % max(self.dim(), 1) == 0 else cat(result.chunk(resolved.size()), gather_dim)


def _check_parts(tensor: Any, dim: int, count: int) -> None:
    if tensor.shape[dim] % count:
        raise ValueError(
            f"reduce_scatter_tensor: dimension {dim} of {tuple(tensor.shape)} cannot be cut into {count} equal parts"
        )


def _reduce_scatter_tensor(self: Any, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Any:   # noqa: N803
    """This rank's part of the reduction, cut along a dimension."""
    resolved = _group(group)
    _check_parts(self, scatter_dim, resolved.size())
    source = self.detach()
    if scatter_dim % self.dim():
        source = cat(source.chunk(resolved.size(), scatter_dim))
    source = source.contiguous()
    result = source.new_empty((source.shape[0] // resolved.size(), *source.shape[1:]))
    c.reduce_scatter_tensor(result, source, _op(reduceOp), resolved)
    return result


def _all_to_all_single(
    self: Any, output_split_sizes: list[int] | None, input_split_sizes: list[int] | None, group: Any, tag: str = ""
) -> Any:
    """Parts of all ranks' tensors along the first dimension."""
    resolved = _group(group)
    source = self.detach().contiguous()
    rows = sum(output_split_sizes) if output_split_sizes is not None else source.shape[0]
    result = source.new_empty((rows, *source.shape[1:]))
    c.all_to_all_single(result, source, output_split_sizes, input_split_sizes, resolved)
    return result


# --- the same as ops, for graphs --------------------------------------------------------------------------------------


def _recorded_all_reduce(self: Any, reduceOp: str, group: Any, tag: str = "") -> Any:   # noqa: N803
    return ops.wait_tensor(ops.all_reduce(self, name_of_reduction(reduceOp), group_name(group)))


def _recorded_broadcast(self: Any, src: int, group: Any, tag: str = "") -> Any:
    return ops.wait_tensor(ops.broadcast(self, src, group_name(group)))


def _recorded_all_gather(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    size = group_size(group)
    source = self if self.dim() else self.view(1)
    result = ops.wait_tensor(ops.all_gather_into_tensor(source, size, group_name(group)))
    return result if gather_dim % max(self.dim(), 1) == 0 else cat(result.chunk(size), gather_dim)


def _recorded_reduce_scatter(self: Any, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Any:   # noqa: N803
    size = group_size(group)
    _check_parts(self, scatter_dim, size)
    source = cat(self.chunk(size, scatter_dim)) if scatter_dim % self.dim() else self
    return ops.wait_tensor(
        ops.reduce_scatter_tensor(source, name_of_reduction(reduceOp), size, group_name(group))
    )


def _recorded_all_to_all(
    self: Any, output_split_sizes: list[int] | None, input_split_sizes: list[int] | None, group: Any, tag: str = ""
) -> Any:
    out, into = output_split_sizes or [], input_split_sizes or []
    return ops.wait_tensor(ops.all_to_all_single(self, list(out), list(into), group_name(group)))


def _with_gradient(
    forward: Callable[..., Any], backward: Callable[..., Any], recorded: Callable[..., Any]
) -> Callable[..., Any]:
    """`forward(tensor, *rest)` whose gradient is `backward(gradient, *rest)`; `recorded` is the same for graphs."""

    class Collective(Function):
        @staticmethod
        def forward(ctx: Any, tensor: Any, *rest: Any) -> Any:
            ctx.rest = rest
            return forward(tensor, *rest)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return backward(gradient.contiguous(), *ctx.rest), *(None for _ in ctx.rest)

    names = inspect.signature(forward)

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = names.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.args
        if _is_recorded(given[0]):
            return recorded(*given)
        return Collective.apply(*given) if given[0].requires_grad else forward(*given)

    call.__name__ = call.__qualname__ = Collective.__name__ = forward.__name__[1:]
    call.__doc__, call.__signature__ = forward.__doc__, names
    marks.substitutes[call] = recorded
    return call


def _reduce_back(g: Any, op: Any, group: Any, tag: str) -> Any:
    _sums_only("all_reduce", op)
    return all_reduce(g, op, group)


def _scatter_back(g: Any, op: Any, dim: int, group: Any, tag: str) -> Any:
    _sums_only("reduce_scatter_tensor", op)
    return all_gather_tensor(g, dim, group)


def _broadcast_back(g: Any, src: int, group: Any, tag: str) -> Any:
    """Everyone's gradient goes to the rank whose tensor everyone got."""
    total = all_reduce(g, "sum", group)
    return total if get_rank() == src else total * 0


all_reduce = _with_gradient(_all_reduce, _reduce_back, _recorded_all_reduce)
broadcast = _with_gradient(_broadcast, _broadcast_back, _recorded_broadcast)
all_gather_tensor = _with_gradient(
    _all_gather_tensor, lambda g, dim, group, tag: reduce_scatter_tensor(g, "sum", dim, group), _recorded_all_gather
)
reduce_scatter_tensor = _with_gradient(_reduce_scatter_tensor, _scatter_back, _recorded_reduce_scatter)
all_to_all_single = _with_gradient(
    _all_to_all_single, lambda g, out, into, group, tag: all_to_all_single(g, into, out, group), _recorded_all_to_all
)
all_reduce_autograd = all_reduce
all_gather_single = all_gather_single_autograd = all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single


def permute_tensor(self: Any, src_dst: list[int], group: Any, tag: str = "") -> Any:
    """Another rank's tensor: rank m's goes to rank `src_dst[m]`. Flat, as exchanges along the first dimension are."""
    size = group_size(group)
    if sorted(src_dst) != list(range(size)):
        raise ValueError(f"permute_tensor: src_dst must name each of the {size} ranks once, got {src_dst}")
    rank, count = group_rank(group), self.shape[0] if self.dim() else 1
    given, taken = [0] * size, [0] * size
    given[src_dst[rank]] = taken[src_dst.index(rank)] = count
    return all_to_all_single(self if self.dim() else self.view(1), taken, given, group).view(self.shape)


def all_reduce_coalesced(self: list[Any], reduceOp: str, group: Any, tag: str = "") -> list[Any]:   # noqa: N803
    """The reductions of several tensors."""
    return [all_reduce(t, reduceOp, group, tag) for t in self]


def all_gather_into_tensor_coalesced(self: list[Any], group: Any, tag: str = "") -> list[Any]:
    """The gatherings of several tensors."""
    return [all_gather_tensor(t, 0, group, tag) for t in self]


def reduce_scatter_tensor_coalesced(
    inputs: list[Any], reduceOp: str, scatter_dim: list[int], group: Any, tag: str = ""   # noqa: N803
) -> list[Any]:
    """The scatterings of several tensors."""
    return [reduce_scatter_tensor(t, reduceOp, d, group, tag) for t, d in zip(inputs, scatter_dim, strict=True)]


all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
