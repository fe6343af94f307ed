"""Elementwise ops of nested tensors: nested operands must share their raggedness, dense ones are broadcast to it."""

from __future__ import annotations

from typing import Any

from ... import _C
from ...op import find_op, ops
from .container import NestedTensor, is_nested, like, named_rules, places, rule, size_of, values_of


def same_raggedness(name: str, a: NestedTensor, b: NestedTensor) -> None:
    """Two nested operands must be ragged alike."""
    if (
        a._symbol is not b._symbol
        and a._starts is not b._starts
        and not (a._layout is b._layout and a._layout.name == "strided" and a._starts.tolist() == b._starts.tolist())
    ):
        raise RuntimeError(
            f"{name}: cannot combine nested tensors of shapes {_sizes(a)} and {_sizes(b)}. Make the second with the"
            " first one's offsets()."
        )
    if a._ragged != b._ragged and a.ndim == b.ndim:
        raise RuntimeError(f"{name}: nested tensors are ragged in different dims, {a._ragged} and {b._ragged}")


def _sizes(t: NestedTensor) -> str:
    return f"({', '.join(map(str, size_of(t)))})"


def broadcast(name: str, t: Any, to: NestedTensor) -> Any:
    """A dense operand as the values of `to` meet it."""
    if t.ndim < to.ndim - to._ragged:       # only dims behind the ragged one
        return t
    missing = to.ndim - t.ndim
    at = to._ragged - missing               # the dim of `t` that meets the ragged one
    if missing > 0 and t.shape[at] == 1:
        return t
    if missing > 0:
        raise RuntimeError(f"{name}: a tensor of sizes {list(t.shape)} cannot be broadcast to {_sizes(to)}")
    if t.ndim > to.ndim or t.shape[0] not in (1, len(to)):
        raise RuntimeError(f"{name}: a tensor of sizes {list(t.shape)} cannot be broadcast to {_sizes(to)}")
    if t.shape[at] == 1 and t.shape[0] == 1:
        return t.squeeze(0)
    if to._sizes is not None:
        raise NotImplementedError(
            f"{name}: operands by component are not supported where nested tensors leave room between components"
        )
    component, position, _ = places(to)
    ragged_next = t.movedim(at, 1)
    if t.shape[at] == 1:
        picked = ragged_next.squeeze(1).index_select(0, component)
    else:
        if t.shape[at] < to._max_seqlen:
            raise RuntimeError(
                f"{name}: a tensor of sizes {list(t.shape)} is too short for components of up to {to._max_seqlen}"
            )
        picked = ragged_next.expand(len(to), *ragged_next.shape[1:])[component, position]
    return picked.movedim(0, at - 1)


def pointwise(overload: Any, args: tuple) -> Any:
    """The op on the values."""
    name = overload.definition.name
    nested = [a for a in args if is_nested(a)]
    pattern = max(nested, key=lambda t: t.ndim)
    for other in nested:
        same_raggedness(name, pattern, other)
    if overload.definition.is_inplace:
        return in_place(overload, args, pattern)
    inner = [
        values_of(a) if is_nested(a) else broadcast(name, a, pattern) if isinstance(a, _C.Tensor) else a for a in args
    ]
    result = overload.redispatch(*inner)
    if isinstance(result, tuple):
        return type(result)([like(pattern, m) for m in result])
    return like(pattern, result)


def in_place(overload: Any, args: tuple, pattern: NestedTensor) -> Any:
    target = args[0]
    if not is_nested(target):
        raise RuntimeError(f"{overload.definition.name}: a dense tensor cannot become nested in place")
    if _C.is_grad_enabled() and any(isinstance(a, _C.Tensor) and a.requires_grad for a in args):
        raise RuntimeError(f"{overload.definition.name}: nested tensors in a graph cannot be changed in place")
    inner = [
        a._held if is_nested(a) else broadcast(overload.definition.name, a, pattern) if isinstance(a, _C.Tensor) else a
        for a in args
    ]
    overload.redispatch(*inner)
    _C.bump_version(target)
    return target


named_rules["pointwise"] = pointwise


def _on_values(name: str) -> None:
    """Ops that do the same to every element, wherever it is."""

    def apply(op: str, bound: dict[str, Any]) -> Any:
        (_, t), *rest = bound.items()
        if not is_nested(t):
            return NotImplemented
        result = ops[name](values_of(t), **dict(rest))
        return like(t, result)

    named_rules[name] = apply


for _name in (
    "dropout",
    "alpha_dropout",
    "feature_alpha_dropout",
    "empty_like",
    "zeros_like",
    "ones_like",
    "full_like",
    "rand_like",
    "randn_like",
    "randint_like",
    "bernoulli",
):
    _on_values(_name)


@rule("clone")
def clone(t: Any, memory_format: Any = None) -> NestedTensor:
    return like(t, values_of(t).clone())


@rule("contiguous")
def contiguous(t: Any, memory_format: Any = None) -> Any:
    return t if t._held.is_contiguous() else like(t, values_of(t).contiguous())


@rule("to")
def to(t: Any, *rest: Any) -> Any:
    """Another dtype; devices other than the present one are not supported."""
    result = t
    for a in rest:
        if isinstance(a, _C.dtype) and a is not result.dtype:
            result = like(result, values_of(result).to(a))
        elif isinstance(a, (str, _C.device)) and _C.device(a) != t.device:
            raise NotImplementedError("to: nested tensors stay on their device")
    return result


@rule("embedding")
def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> NestedTensor:
    if is_nested(weight):
        raise NotImplementedError("embedding: the table cannot be nested")
    return like(indices, find_op("embedding")(weight, values_of(indices), padding_idx, scale_grad_by_freq, sparse))
