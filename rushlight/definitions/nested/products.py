"""Products of nested tensors with dense ones, and attention component by component."""

from __future__ import annotations

from typing import Any

from ...op import find_op
from .container import NestedTensor, is_nested, like, rule, size_of, values_of
from .pointwise import same_raggedness


def _last_is_regular(name: str, t: NestedTensor) -> None:
    if t._ragged == t.ndim - 1:
        raise RuntimeError(
            f"{name}: the last dim of the nested factor is ragged, and only dense factors are summed over"
        )


@rule("linear")
def linear(input: Any, weight: Any, bias: Any = None) -> NestedTensor:
    if is_nested(weight) or not is_nested(input):
        raise NotImplementedError("linear: only the input may be nested")
    _last_is_regular("linear", input)
    return like(input, find_op("linear")(values_of(input), weight, bias))


@rule("matmul", "bmm")
def matmul(a: Any, b: Any) -> Any:
    """nested @ dense: one matrix for all components, or one each."""
    if is_nested(a) and is_nested(b):
        return both_nested(a, b)
    if is_nested(b):
        raise NotImplementedError("matmul: dense @ nested is not supported. Transpose both sides.")
    _last_is_regular("matmul", a)
    if b.ndim == 2:
        return like(a, values_of(a) @ b)
    if b.ndim != a.ndim or b.shape[0] != len(a) or a._ragged != a.ndim - 2:
        raise RuntimeError(
            f"matmul: sizes ({', '.join(map(str, size_of(a)))}) and {list(b.shape)} cannot be multiplied"
        )
    parts = [x @ y for x, y in zip(a.unbind(), b.unbind(0), strict=True)]
    return joined(a, parts, a._ragged)


def both_nested(a: NestedTensor, b: NestedTensor) -> Any:
    """Two ragged factors: their ragged dims must be the ones summed over."""
    same = a._symbol is b._symbol or a._starts is b._starts
    if not same or a._ragged != a.ndim - 1 or b._ragged != b.ndim - 2:
        raise RuntimeError("matmul: two nested factors must share their raggedness in the dims that are summed over")
    return find_op("stack")([x @ y for x, y in zip(a.unbind(), b.unbind(), strict=True)])


def joined(pattern: NestedTensor, parts: list, ragged: int) -> NestedTensor:
    """Components, each as long as those of `pattern`, as one nested tensor."""
    if pattern._sizes is not None:
        raise NotImplementedError(
            "nested tensors with room between components cannot be computed component by component"
        )
    return like(pattern, find_op("cat")(parts, ragged - 1), ragged)


@rule("scaled_dot_product_attention")
def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> NestedTensor:
    """Attention within each component: [batch, heads, ragged, features]."""
    if not (is_nested(query) and is_nested(key) and is_nested(value)):
        raise RuntimeError("scaled_dot_product_attention: query, key and value must all be nested, or none")
    if attn_mask is not None:
        raise NotImplementedError(
            "scaled_dot_product_attention: attn_mask is not supported with nested tensors. Use is_causal, or pad."
        )
    if query.ndim != 4 or {query._ragged, key._ragged, value._ragged} != {2}:
        raise RuntimeError(
            "scaled_dot_product_attention: nested operands must be [batch, heads, ragged, features]. Use"
            " transpose(1, 2)."
        )
    same_raggedness("scaled_dot_product_attention", key, value)
    op = find_op("scaled_dot_product_attention")
    parts = [
        op(
            q.unsqueeze(0),
            k.unsqueeze(0),
            v.unsqueeze(0),
            None,
            dropout_p,
            is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
        ).squeeze(0)
        for q, k, v in zip(query.unbind(), key.unbind(), value.unbind(), strict=True)
    ]
    return joined(query, parts, 2)
