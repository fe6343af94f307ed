"""multi_head_attention_forward: projections in, attention over heads, projection out.

Enters: query [L, N, E], key [S, N, K], value [S, N, V] (or without N), projection weights, masks. Leaves: the projected
result [L, N, E] and, where wanted, the weights [N, L, S] (averaged) or [N, heads, L, S]. Refuses: shapes that do not
fit together, by AssertionError as PyTorch's callers expect. Inside, heads are a dimension of their own:
everything is [N, heads, length, width].
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight.base.assertions import sym_sqrt

from ... import _C
from ...base.tracebacks import users_level
from ...op import Composite, find_op


def require(condition: bool, message: str) -> None:
    """AssertionError with `message` unless the condition holds."""
    if not condition:
        raise AssertionError("multi_head_attention_forward: " + message)


class MultiHeadAttentionForward(Composite):
    """Attention of several heads, with the projections around it."""

    schema = (
        "multi_head_attention_forward(Tensor query, Tensor key, Tensor value, int embed_dim_to_check, int num_heads,"
        " Tensor? in_proj_weight, Tensor? in_proj_bias, Tensor? bias_k, Tensor? bias_v, bool add_zero_attn, float"
        " dropout_p, Tensor out_proj_weight, Tensor? out_proj_bias, bool training=True, Tensor? key_padding_mask=None,"
        " bool need_weights=True, Tensor? attn_mask=None, bool use_separate_proj_weight=False, Tensor?"
        " q_proj_weight=None, Tensor? k_proj_weight=None, Tensor? v_proj_weight=None, Tensor? static_k=None, Tensor?"
        " static_v=None, bool average_attn_weights=True, bool is_causal=False) -> (Tensor, Tensor)"
    )
    namespace = "nn.functional"
    method = False
    out = False

    def compute(
        self, query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v,
        add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training, key_padding_mask, need_weights, attn_mask,
        use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, static_k, static_v, average_attn_weights,
        is_causal,
    ):
        is_batched = check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
        if not is_batched:
            shared = key is value, query is key
            query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
            value = key if shared[0] else value
            query = key if shared[1] else query
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        length, batch, width = query.shape
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "multi_head_attention_forward: is_causal is a hint about attn_mask and needs one. Pass attn_mask as"
                " well."
            )
        if attn_mask is not None and key_padding_mask is not None and attn_mask.dtype is not key_padding_mask.dtype:
            warnings.warn(
                "key_padding_mask and attn_mask of different dtypes are deprecated: give both one.",
                stacklevel=users_level(),
            )
        padding = added_mask("key_padding_mask", key_padding_mask, query.dtype)
        use_hint = is_causal and padding is None and not need_weights
        mask = None if use_hint else added_mask("attn_mask", attn_mask, query.dtype)
        require(
            width == embed_dim_to_check, f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}"
        )
        require(width % num_heads == 0, f"embed_dim {width} not divisible by num_heads {num_heads}")
        separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
        q, k, v = project(query, key, value, in_proj_weight, in_proj_bias, separate)
        mask = mask_of_heads(mask, batch, num_heads, length, key.shape[0])
        extra = 0
        require((bias_k is None) == (bias_v is None), "bias_k and bias_v must be given together")
        if bias_k is not None:
            require(static_k is None and static_v is None, "bias cannot be added to static key or value.")
            k, v = find_op("cat")([k, bias_k.repeat(1, batch, 1)]), find_op("cat")([v, bias_v.repeat(1, batch, 1)])
            extra += 1
        q = into_heads(q, batch, num_heads)
        k = (
            into_heads(k, batch, num_heads)
            if static_k is None
            else static_heads("static_k", static_k, batch, num_heads, width // num_heads)
        )
        v = (
            into_heads(v, batch, num_heads)
            if static_v is None
            else static_heads("static_v", static_v, batch, num_heads, width // num_heads)
        )
        if add_zero_attn:
            k, v = with_zero(k), with_zero(v)
            extra += 1
        mask = merged(wider(mask, extra), wider(padding, extra), batch, k.shape[2])
        dropout_p = dropout_p if training else 0.0
        if need_weights:
            result, weights = attend_with_weights(q, k, v, mask, dropout_p)
        else:
            result, weights = find_op("scaled_dot_product_attention")(q, k, v, mask, dropout_p, use_hint), None
        result = result.permute(2, 0, 1, 3).reshape(length * batch, width)
        result = find_op("linear")(result, out_proj_weight, out_proj_bias)
        result = result.view(length, batch, result.shape[1])
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not is_batched:
            result, weights = result.squeeze(1), None if weights is None else weights.squeeze(0)
        return result, weights


def check_shapes(query: Any, key: Any, value: Any, padding: Any, mask: Any, heads: int) -> bool:
    """Whether the inputs have a batch dimension; raises unless all agree about it."""
    require(query.ndim in (2, 3), f"query: expected 2 dimensions (unbatched) or 3 (batched), got {query.ndim}")
    dims = query.ndim
    require(
        key.ndim == value.ndim == dims,
        f"for {dims}-D `query`, expected `key` and `value` to be {dims}-D, got {key.ndim}-D and {value.ndim}-D",
    )
    require(
        padding is None or padding.ndim == dims - 1,
        f"for {dims}-D `query`, expected `key_padding_mask` to be `None` or {dims - 1}-D, got"
        f" {getattr(padding, 'ndim', 0)}-D",
    )
    require(
        mask is None or mask.ndim in (2, 3),
        f"expected `attn_mask` to be `None`, 2-D or 3-D, got {getattr(mask, 'ndim', 0)}-D",
    )
    if dims == 2 and mask is not None and mask.ndim == 3:
        wanted = (heads, query.shape[0], key.shape[0])
        require(tuple(mask.shape) == wanted, f"expected `attn_mask` shape to be {wanted} but got {tuple(mask.shape)}")
    return dims == 3


def added_mask(name: str, mask: Any, dtype: Any) -> Any:
    """A mask as numbers to add: where a bool mask holds, a key must not be seen."""
    if mask is None or mask.is_floating_point():
        return mask
    require(mask.dtype is _C.bool, f"only bool and floating types of {name} are supported, got {mask.dtype.name}")
    return mask.new_zeros(mask.shape, dtype=dtype).masked_fill(mask, -math.inf)


def project(query: Any, key: Any, value: Any, packed: Any, bias: Any, separate: tuple | None) -> tuple[Any, Any, Any]:
    """Projected query, key and value, from one packed weight or three.
    Inputs that are one tensor are multiplied once."""
    linear = find_op("linear")
    if separate is not None:
        require(
            key.shape[:2] == value.shape[:2],
            f"key's sequence and batch dims {tuple(key.shape[:2])} do not match value's {tuple(value.shape[:2])}",
        )
        require(
            all(w is not None for w in separate),
            "use_separate_proj_weight=True: expected q_proj_weight, k_proj_weight and v_proj_weight, got a None",
        )
        biases = (None, None, None) if bias is None else bias.chunk(3)
        return tuple(linear(x, w, b) for x, w, b in zip((query, key, value), separate, biases, strict=True))
    require(key.shape == value.shape, f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}")
    require(
        packed is not None,
        "in_proj_weight: expected a tensor, got None. Only use_separate_proj_weight=True does without",
    )
    width = query.shape[-1]
    if query is key is value:
        return tuple(linear(query, packed, bias).split(width, -1))
    weights = packed.split(width, 0)
    biases = (None,) * len(weights) if bias is None else bias.split(width, 0)
    if key is value:
        both = linear(key, packed[width:], None if bias is None else bias[width:])
        return (linear(query, weights[0], biases[0]), *both.split(width, -1))
    return tuple(linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))


def mask_of_heads(mask: Any, batch: int, heads: int, length: int, keys: int) -> Any:
    """attn_mask [L, S] or [N * heads, L, S] with dimensions for batch and heads."""
    if mask is None:
        return None
    wanted = (length, keys) if mask.ndim == 2 else (batch * heads, length, keys)
    if tuple(mask.shape) != wanted:
        raise RuntimeError(
            f"multi_head_attention_forward: the shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but should"
            f" be {wanted}."
        )
    return mask if mask.ndim == 2 else mask.reshape(batch, heads, length, keys)


def into_heads(x: Any, batch: int, heads: int) -> Any:
    """[S, N, E] as [N, heads, S, E / heads]."""
    return x.reshape(x.shape[0], batch, heads, x.shape[2] // heads).permute(1, 2, 0, 3)


def static_heads(name: str, x: Any, batch: int, heads: int, width: int) -> Any:
    """Keys or values the caller projected already, [N * heads, S, width], with heads apart."""
    require(x.shape[0] == batch * heads, f"expecting {name}.size(0) of {batch * heads}, but got {x.shape[0]}")
    require(x.shape[2] == width, f"expecting {name}.size(2) of {width}, but got {x.shape[2]}")
    return x.reshape(batch, heads, x.shape[1], width)


def with_zero(x: Any) -> Any:
    """One more key (or value), of zeros."""
    return find_op("cat")([x, x.new_zeros((*x.shape[:2], 1, x.shape[3]))], 2)


def wider(mask: Any, count: int) -> Any:
    """A mask that lets `count` further keys be seen."""
    return mask if mask is None or not count else find_op("cat")([mask, mask.new_zeros((*mask.shape[:-1], count))], -1)


def merged(mask: Any, padding: Any, batch: int, keys: int) -> Any:
    """Mask and key padding as one mask."""
    if padding is None:
        return mask
    require(
        tuple(padding.shape) == (batch, keys),
        f"expected key_padding_mask of shape {(batch, keys)}, but got {tuple(padding.shape)}",
    )
    padding = padding.reshape(batch, 1, 1, keys)
    return padding if mask is None else mask + padding


def attend_with_weights(q: Any, k: Any, v: Any, mask: Any, dropout_p: float) -> tuple[Any, Any]:
    """Attention that also answers with the weights."""
    scores = (q * sym_sqrt(1.0 / q.shape[-1])) @ k.transpose(-2, -1)
    weights = find_op("softmax")(scores if mask is None else scores + mask.to(scores.dtype), -1)
    if dropout_p > 0:
        weights = find_op("dropout")(weights, dropout_p, True)
    return weights @ v, weights
