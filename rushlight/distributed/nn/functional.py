"""`torch.distributed.nn.functional`: collectives that gradients pass through.

Enters: tensors of this rank, as `torch.distributed` takes them. Leaves: new tensors (or the output tensors that were
given, where there are some) whose gradients come from the ranks that the values went to. Every collective here moves or
adds values, and its gradient moves them back: the two are a pair (`_Exchange`), each the other's gradient. Refuses:
being compiled (`_functional_collectives` are for graphs).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..._C import Tensor
from ...autograd.function import Function
from ...base.shape import contiguous_format
from ...dynamo.record import tracing
from ...op import find_op
from .. import collectives as c
from ..groups import get_rank, get_world_size
from ..reduce_op import ReduceOp

__all__ = ["all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce",
           "reduce_scatter", "scatter"]

_INSTEAD = "torch.distributed._functional_collectives."
_Way = Callable[..., Any]
_empty, _empty_like, _zeros_like = (find_op(name) for name in ("empty", "empty_like", "zeros_like"))


class _Exchange(Function):
    """A collective and the one that takes gradients back, which is undone by the first. What is done `now` is that, or
    the same into tensors of the caller's, which further derivatives must not write to."""

    @staticmethod
    def forward(ctx: Any, now: _Way, there: _Way, back: _Way, *tensors: Tensor) -> Any:
        ctx.there, ctx.back = there, back
        return now(*(t.contiguous() for t in tensors))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple:
        given = _Exchange.apply(ctx.back, ctx.back, ctx.there, *gradients)
        return None, None, None, *(given if isinstance(given, tuple) else (given,))


def _exchange(there: _Way, back: _Way, *tensors: Tensor, now: _Way | None = None) -> Any:
    return _Exchange.apply(there if now is None else now, there, back, *tensors)


def _check(name: str, instead: str = "") -> None:
    """Refuse to be compiled; say what has come after."""
    if tracing.is_compiling():
        raise RuntimeError(f"torch.distributed.nn.functional.{name} is not supported under torch.compile"
                           + (f": use {_INSTEAD}{instead}" if instead else ""))
    if instead:
        warnings.warn(f"torch.distributed.nn.functional.{name} is deprecated: use {_INSTEAD}{instead}", FutureWarning,
                      stacklevel=3)


def _broadcast(src: int, group: Any) -> _Way:
    def way(tensor: Tensor) -> Tensor:
        result = tensor.clone()
        c.broadcast(result, src, group=group)
        return result

    return way


def _reduce(dst: int, op: Any, group: Any, is_only_there: bool = False) -> _Way:
    """The reduction on rank `dst`; on others something, or zeros if it `is_only_there`."""
    def way(tensor: Tensor) -> Tensor:
        result = tensor.clone()
        c.reduce(result, dst, op=op, group=group)
        return result.zero_() if is_only_there and get_rank(group) != dst else result

    return way


def _gather(dst: int, group: Any) -> _Way:
    def way(tensor: Tensor) -> tuple[Tensor, ...]:
        results = [_zeros_like(tensor) for _ in range(get_world_size(group))]
        c.gather(tensor, results if get_rank(group) == dst else None, dst, group=group)
        return tuple(results)

    return way


def _scatter(src: int, group: Any) -> _Way:
    def way(*tensors: Tensor) -> Tensor:
        if any(t.shape != tensors[0].shape for t in tensors):
            raise AssertionError(f"scatter: tensors must have one shape, got {[tuple(t.shape) for t in tensors]}")
        result = _zeros_like(tensors[0])
        c.scatter(result, list(tensors) if get_rank(group) == src else None, src, group=group)
        return result

    return way


def _all_gather(group: Any) -> _Way:
    def way(tensor: Tensor) -> tuple[Tensor, ...]:
        results = [_empty_like(tensor) for _ in range(get_world_size(group))]
        c.all_gather(results, tensor, group=group)
        return tuple(results)

    return way


def _reduce_scatter(op: Any, group: Any, output: Tensor | None = None) -> _Way:
    def way(*tensors: Tensor) -> Tensor:
        result = _empty_like(tensors[get_rank(group)]) if output is None else output
        c.reduce_scatter(result, list(tensors), op=op, group=group)
        return result

    return way


def _all_to_all(group: Any, outputs: Sequence[Any]) -> _Way:
    """An exchange into tensors, or into new ones of given shapes."""
    def way(*tensors: Tensor) -> tuple[Tensor, ...]:
        into = [to if isinstance(to, Tensor) else _empty(to, dtype=tensors[0].dtype, device=tensors[0].device)
                for to in outputs]
        c.all_to_all(into, list(tensors), group=group)
        return tuple(into)

    return way


def _all_to_all_single(group: Any, output: Any, into: Any, out_of: Any) -> _Way:
    def way(tensor: Tensor) -> Tensor:
        result = output if isinstance(output, Tensor) else _empty(output, dtype=tensor.dtype, device=tensor.device)
        c.all_to_all_single(result, tensor, into, out_of, group=group)
        return result

    return way


def _all_reduce(op: Any, group: Any) -> _Way:
    def way(tensor: Tensor) -> Tensor:
        result = tensor.clone(memory_format=contiguous_format)
        c.all_reduce(result, op=op, group=group)
        return result

    return way


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of rank `src`, on all; its gradient is the sum of all."""
    _check("broadcast", "broadcast")
    return _exchange(_broadcast(src, group), _reduce(src, ReduceOp.SUM, group, is_only_there=True), tensor)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks on rank `dst`, zeros on others."""
    _check("gather")
    return _exchange(_gather(dst, group), _scatter(dst, group), tensor)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """One of the tensors of rank `src`; others give tensors of the same shape, which are not looked at."""
    _check("scatter")
    return _exchange(_scatter(src, group), _gather(src, group), *tensors)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction over all ranks, on rank `dst`."""
    _check("reduce")
    return _exchange(_reduce(dst, op, group), _broadcast(dst, group), tensor)


def reduce_scatter(output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """`output`, filled with the reduction over what all ranks have for this one."""
    _check("reduce_scatter", "reduce_scatter_single")
    now = _reduce_scatter(op, group, output)
    return _exchange(_reduce_scatter(op, group), _all_gather(group), *input_list, now=now)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, on all; a tensor's gradient is the sum of what all ranks have for it."""
    _check("all_gather", "all_gather_single")
    return _exchange(_all_gather(group), _reduce_scatter(ReduceOp.SUM, group), tensor)


def _all_gather_base(output_tensor: Tensor, input_tensor: Tensor, group: Any = None) -> Tensor:
    """`output_tensor`, filled with the tensors of all ranks one behind the other."""
    _check("_all_gather_base")

    def into(output: Tensor) -> _Way:
        def way(tensor: Tensor) -> Tensor:
            c.all_gather_into_tensor(output, tensor, group=group)
            return output

        return way

    def there(tensor: Tensor) -> Tensor:
        return into(_empty_like(output_tensor))(tensor)

    def back(gradient: Tensor) -> Tensor:
        result = _empty_like(input_tensor, requires_grad=False)
        c.reduce_scatter_tensor(result, gradient, group=group)
        return result

    return _exchange(there, back, input_tensor, now=into(output_tensor))


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """The tensors of `output_tensor_list`, filled with what each rank has for this one."""
    _check("all_to_all")
    back = _all_to_all(group, [t.shape for t in input_tensor_list])
    there = _all_to_all(group, [t.shape for t in output_tensor_list])
    return _exchange(there, back, *input_tensor_list, now=_all_to_all(group, output_tensor_list))


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Tensor:
    """`output`, filled with the rows that each rank has for this one."""
    _check("all_to_all_single", "all_to_all_single")
    now, there = (_all_to_all_single(group, to, output_split_sizes, input_split_sizes) for to in (output, output.shape))
    back = _all_to_all_single(group, input.shape, input_split_sizes, output_split_sizes)
    return _exchange(there, back, input, now=now)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction over all ranks, on all; gradients are reduced in the same way."""
    _check("all_reduce", "all_reduce")
    return _exchange(_all_reduce(op, group), _all_reduce(op, group), tensor)
