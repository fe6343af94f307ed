"""The `out=` form of every op: check, compute, and write into what the caller gave.

Enters: an overload, bound arguments and `out`. Leaves: `out` itself, resized if it was empty or of another shape
(with PyTorch's warning). Refuses: outputs whose dtype cannot hold the result, other devices, and recording.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .. import _C
from ..base import late
from ..base.promotion import can_cast
from ..base.tracebacks import users_level
from ..op.registry import KIND_POINTWISE


def call_out(overload: Any, args: tuple, out: Any, compute: Callable | None = None) -> Any:
    """Compute `overload` on `args` (with `compute` where keys are in play) into `out`."""
    outs = out if isinstance(out, (tuple, list)) else (out,)
    for o in outs:
        if not isinstance(o, _C.Tensor):
            raise TypeError(
                f"{overload.name}(): argument 'out' must be Tensor (or a tuple of Tensors), not {type(o).__name__}"
            )
    _refuse_recording(overload.name, (*args, *outs))
    definition = overload.definition
    if outs[0]._quantizer is not None:
        return late.provided("quantized out")(definition.spec.name, args, outs[0])
    if definition.takes_out_dtype:
        args = tuple(
            [
                outs[0].dtype if p.name == "dtype" and a is None else a
                for p, a in zip(definition.spec.params, args, strict=True)
            ]
        )
    own = definition.own_out
    alone = (
        [a for p, a in zip(definition.spec.params, args, strict=True) if own is True or p.name in own] if own else []
    )
    if definition.kind == KIND_POINTWISE or own:
        check_overlap(overload.name, tuple(outs), args, alone)
    if compute is None and (written := overload.into(args, tuple(outs))) is not None:
        return answer(definition, out, outs, written)
    result = overload.redispatch(*args) if compute is None else compute(overload, args)
    results = result if isinstance(result, (tuple, list)) else (result,)
    if len(results) != len(outs):
        raise TypeError(f"{overload.name}(): expected {len(results)} tensors in 'out', got {len(outs)}")
    for target, source in zip(outs, results, strict=True):
        if definition.exact_out and target.dtype is not source.dtype:
            raise RuntimeError(
                f"{overload.name}(): Expected out tensor to have dtype {source.dtype.name} (scalar type of the result),"
                f" but got {target.dtype.name} instead"
            )
        if own and target.shape != source.shape:   # the memory it takes in its new shape may be an input's
            resize_output(target, source.shape)
            check_overlap(overload.name, (target,), args, alone)
        _write(overload.name, target, source)
    return answer(definition, out, outs, result)


def write_results(name: str, compute: Callable, args: Sequence, out: Any) -> None:
    """The `out=` form of a call that has none of its own: compute, then write what it gave; None is no result."""
    outs = out if isinstance(out, (tuple, list)) else (out,)
    _refuse_recording(name, (*args, *outs))
    result = compute()
    results = result if isinstance(result, (tuple, list)) else (result,)
    if len(results) != len(outs):
        raise TypeError(f"{name}(): expected {len(results)} tensors in 'out', got {len(outs)}")
    for target, source in zip(outs, results, strict=True):
        if source is not None:
            _write(name, target, source)


def _refuse_recording(name: str, args: Sequence) -> None:
    if _C.is_grad_enabled() and any(_requires_grad(a) for a in args):
        raise RuntimeError(
            f"{name}: out= does not support automatic differentiation, and an argument requires grad. Leave"
            " out= away, or use no_grad()."
        )


def answer(definition: Any, out: Any, outs: Sequence[Any], result: Any) -> Any:
    """What a call with `out=` returns."""
    if isinstance(out, _C.Tensor):
        return out
    # a list of as many results as the call has: PyTorch answers with None
    if definition.spec.returns == ("Tensor[]",):
        return None
    return type(result)(outs) if isinstance(result, tuple) else out


def overwrite(name: str, target: Any, source: Any) -> Any:
    """In-place forms made of an op and a copy: refuse what the target cannot hold."""
    if not can_cast(source.dtype, target.dtype):
        raise RuntimeError(
            f"{name}: the result type {source.dtype.name} can't be cast to that of out, {target.dtype.name}"
        )
    if source.shape != target.shape:
        raise RuntimeError(
            f"{name}: output with shape {list(target.shape)} doesn't match the broadcast shape {list(source.shape)}"
        )
    return target.copy_(source)


def check_overlap(name: str, outs: tuple, args: tuple, alone: Sequence = ()) -> None:
    """Refuse an output that shares part of its memory with an input, or with itself;
    sharing all of it is fine but for those `alone`."""
    for out in outs:
        if out._overlaps_itself():
            raise RuntimeError(
                f"{name}: several elements of the written-to tensor refer to a single memory location. Write to"
                " tensor.clone()."
            )
        if any(out._overlap(a) == 2 for a in _tensors(args)) or any(out._overlap(a) in (1, 2) for a in _tensors(alone)):
            raise RuntimeError(
                f"{name}: an input and the written-to tensor share a single memory location at different places. Write"
                " to tensor.clone()."
            )


def _tensors(args: Any) -> Iterator[Any]:
    """Tensors among arguments, lists opened."""
    for a in args:
        if isinstance(a, _C.Tensor):
            yield a
        elif isinstance(a, (list, tuple)):
            yield from _tensors(a)


def _requires_grad(x: Any) -> bool:
    if isinstance(x, (tuple, list)):
        return any(_requires_grad(y) for y in x)
    return isinstance(x, _C.Tensor) and x.requires_grad


def _write(name: str, target: Any, source: Any) -> None:
    if not can_cast(source.dtype, target.dtype):
        raise RuntimeError(
            f"{name}(): the result type {source.dtype.name} can't be cast to that of out, {target.dtype.name}"
        )
    if target.device != source.device:
        raise RuntimeError(
            f"{name}: Expected all tensors to be on the same device, got 'out' on {target.device} and the result on"
            f" {source.device}"
        )
    if target.shape != source.shape:
        resize_output(target, source.shape)
    target.copy_(source)


def resize_output(target: Any, shape: tuple[int, ...]) -> None:
    """Give `out` the result's shape, warning when it held elements of another."""
    if target.numel():
        warnings.warn(
            f"out: a tensor with elements was resized from shape {list(target.shape)} "
            f"to {list(shape)}. Call out.resize_(0) first where that is meant.",
            UserWarning, stacklevel=users_level(),
        )
    target.resize_(shape)
