"""com.microsoft: operators that optimized and quantized files of ONNX Runtime have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .... import _C, ops
from ..hosts import as_tuple
from ..table import rule
from .attention import heads_apart, heads_together, rotated
from .convolutions import conv
from .elementwise import leaky_relu
from .indexing import gather_nd
from .norms import layer_normalization, softmax, softmax_1
from .pooling import average_pool, max_pool
from .products import gemm, matmul_integer
from .quantized import dequantize_linear, dynamic_quantize_linear, qlinear_conv, quantize_linear
from .recurrent import lstm_layer as lstm

aten = ops.aten
MS = "com.microsoft"


@rule("Gelu", domain=MS)
def gelu(x: Any) -> Any:
    return aten.gelu(x)


@rule("QuickGelu", domain=MS)
def quick_gelu(x: Any, *, alpha: float = 1.702) -> Any:
    return aten.mul(x, aten.sigmoid(aten.mul(x, alpha)))


@rule("BiasGelu", domain=MS)
def bias_gelu(x: Any, bias: Any) -> Any:
    return aten.gelu(aten.add(x, bias))


@rule("FastGelu", domain=MS)
def fast_gelu(x: Any, bias: Any = None) -> Any:
    return aten.gelu(x if bias is None else aten.add(x, bias), approximate="tanh")


@rule("FusedMatMul", "TransposeMatMul", domain=MS)
def fused_matmul(a: Any, b: Any, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0,    # noqa: N803
                 transBatchB: int = 0) -> Any:    # noqa: N803
    def turned(x: Any, batch: int, last: int) -> Any:
        if batch:
            x = aten.movedim(x, 0, x.ndim - 2)
        return aten.transpose(x, -2, -1) if last and x.ndim > 1 else x

    found = aten.matmul(turned(a, transBatchA, transA), turned(b, transBatchB, transB))
    return found if alpha == 1.0 else aten.mul(found, alpha)


ACTIVATIONS = {"Relu": aten.relu, "Tanh": aten.tanh, "Sigmoid": aten.sigmoid}


def _activated(x: Any, name: str, params: Sequence[float] | None) -> Any:
    if not name:
        return x
    if name in ACTIVATIONS:
        return ACTIVATIONS[name](x)
    params = list(params or [])
    if name == "LeakyRelu":
        return leaky_relu(x, alpha=params[0] if params else 0.01)
    if name == "Clip":
        return aten.clamp(x, *params)
    if name == "HardSigmoid":
        return aten.clamp(aten.add(aten.mul(x, params[0]), params[1]), 0, 1)
    raise ValueError(f"FusedConv: the activation {name!r} is not known")


@rule("FusedConv", domain=MS)
def fused_conv(x: Any, w: Any, bias: Any = None, z: Any = None, *, activation: str = "",
               activation_params: Sequence[float] | None = None, **settings: Any) -> Any:
    found = conv(x, w, bias, **settings)
    return _activated(found if z is None else aten.add(found, z), activation, activation_params)


@rule("FusedGemm", domain=MS)
def fused_gemm(a: Any, b: Any, c: Any = None, *, activation: str = "", activation_alpha: float | None = None,
               activation_beta: float | None = None, **settings: Any) -> Any:
    params = [p for p in (activation_alpha, activation_beta) if p is not None]
    return _activated(gemm(a, b, c, **settings), activation, params)


@rule("LayerNormalization", domain=MS)
def ms_layer_normalization(x: Any, scale: Any, shift: Any = None, *, axis: int = -1, epsilon: float = 1e-5,
                           stash_type: int = 1, count: int) -> tuple:
    return layer_normalization(x, scale, shift, axis=axis, epsilon=epsilon, stash_type=stash_type, count=count)


@rule("SimplifiedLayerNormalization")
@rule("SimplifiedLayerNormalization", domain=MS)
def simplified_layer_normalization(x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
                                   count: int) -> tuple:
    wide = x.to(_C.float32)
    dims = list(range(axis % x.ndim, x.ndim))
    inverse = aten.rsqrt(aten.add(aten.mean(aten.mul(wide, wide), dims, True), epsilon))
    return aten.mul(aten.mul(wide, inverse).to(x.dtype), scale), inverse


@rule("SkipLayerNormalization", domain=MS)
def skip_layer_normalization(x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, *,
                             epsilon: float = 1e-12,
                             count: int) -> tuple:
    total = aten.add(x, skip)
    total = total if bias is None else aten.add(total, bias)
    found = layer_normalization(total, gamma, beta, epsilon=epsilon, count=3)
    return found[0], found[1], found[2], total


@rule("SkipSimplifiedLayerNormalization", domain=MS)
def skip_simplified(x: Any, skip: Any, gamma: Any, bias: Any = None, *, epsilon: float = 1e-12, count: int) -> tuple:
    total = aten.add(x, skip)
    total = total if bias is None else aten.add(total, bias)
    found, inverse = simplified_layer_normalization(total, gamma, epsilon=epsilon, count=2)
    return found, None, inverse, total


@rule("EmbedLayerNormalization", domain=MS, closed=(0, 1, 7, 8))
def embed_layer_normalization(ids: Any, segments: Any, words: Any, positions: Any, segment_table: Any, gamma: Any,
                              beta: Any, mask: Any = None, place_ids: Any = None, *, epsilon: float = 1e-12,
                              mask_index_type: int = 0, count: int) -> tuple:
    places = aten.arange(ids.shape[1], device=ids.device) if place_ids is None else place_ids.to(_C.int64)
    total = aten.add(aten.embedding(words, ids.to(_C.int64)), aten.embedding(positions, places))
    if segments is not None and segment_table is not None:
        total = aten.add(total, aten.embedding(segment_table, segments.to(_C.int64)))
    found = layer_normalization(total, gamma, beta, epsilon=epsilon, count=1)[0]
    seen = aten.zeros((ids.shape[0],), dtype=_C.int32, device=ids.device) if mask is None else aten.sum(
        mask, [1], dtype=_C.int32)
    return found, seen, total


def _seen(mask: Any, batch: Any, total: Any, filter_value: float, dtype: Any) -> Any:
    """A mask of 1 dim (lengths), 2 (keys), 3 or 4 as what is added to the scores."""
    if mask is None:
        return None
    if mask.ndim == 1:
        keys = aten.arange(total, device=mask.device).reshape(1, -1)
        mask = aten.lt(keys, mask[: mask.shape[0]].reshape(-1, 1)).to(_C.int32)
    if mask.ndim == 2:
        mask = aten.unsqueeze(aten.unsqueeze(mask, 1), 1)
    elif mask.ndim == 3:
        mask = aten.unsqueeze(mask, 1)
    return aten.mul(aten.sub(1, mask.to(dtype)), filter_value)


def attended(q: Any, k: Any, v: Any, bias: Any, scale: float | None, causal: int, past: Any = 0) -> Any:
    """Attention over [batch, heads, positions, size]."""
    factor = scale or 1 / math.sqrt(q.shape[-1])
    scores = aten.mul(aten.matmul(q, aten.transpose(k, -2, -1)), factor)
    if bias is not None:
        scores = aten.add(scores, bias.to(scores.dtype))
    if causal:
        queries = aten.arange(q.shape[2], device=q.device).reshape(-1, 1) + past
        keys = aten.arange(k.shape[2], device=q.device).reshape(1, -1)
        scores = aten.where(aten.le(keys, queries), scores, aten.full_like(scores, float("-inf")))
    return aten.matmul(aten.softmax(scores, -1), v)


@rule("Attention", domain=MS, closed=(3,))
def attention(x: Any, weights: Any, bias: Any = None, mask: Any = None, past: Any = None, extra: Any = None,
              past_length: Any = None, *, do_rotary: int = 0, mask_filter_value: float = -10000.0, num_heads: int,
              past_present_share_buffer: int = 0, qkv_hidden_sizes: Sequence[int] | None = None,
              rotary_embedding_dim: int = 0, scale: float | None = None, unidirectional: int = 0, count: int) -> tuple:
    joint = aten.matmul(x, weights)
    joint = joint if bias is None else aten.add(joint, bias)
    return joint_attention(joint, mask, past, extra, do_rotary, mask_filter_value, num_heads, past_present_share_buffer,
                           qkv_hidden_sizes, scale, unidirectional)


def joint_attention(joint: Any, mask: Any, past: Any, extra: Any, do_rotary: int, mask_filter_value: float,
                    num_heads: int, past_present_share_buffer: int, qkv_hidden_sizes: Sequence[int] | None,
                    scale: float | None, unidirectional: int) -> tuple:
    """Attention of queries, keys and values that lie side by side."""
    if do_rotary or past_present_share_buffer:
        raise NotImplementedError("com.microsoft Attention: do_rotary and past_present_share_buffer are not supported")
    width = joint.shape[-1] // 3
    sizes = list(qkv_hidden_sizes or [width, width, width])
    q, k, v = [heads_apart(part, num_heads, "input") for part in aten.split(joint, sizes, 2)]
    before = 0
    if past is not None:
        before = past.shape[3]
        k, v = aten.cat([past[0], k], 2), aten.cat([past[1], v], 2)
    seen = _seen(mask, joint.shape[0], k.shape[2], mask_filter_value, q.dtype)
    seen = extra if seen is None else seen if extra is None else aten.add(seen, extra)
    found = attended(q, k, v, seen, scale, unidirectional, before)
    return heads_together(found), aten.stack([k, v])


@rule("MultiHeadAttention", domain=MS, closed=(4,))
def multi_head_attention(q: Any, k: Any = None, v: Any = None, bias: Any = None, mask: Any = None, extra: Any = None,
                         past_key: Any = None, past_value: Any = None, *, mask_filter_value: float = -10000.0,
                         num_heads: int, scale: float | None = None, unidirectional: int = 0, count: int) -> tuple:
    if q.ndim == 5:                                  # [batch, positions, heads, 3, size]
        q, k, v = [aten.permute(part, (0, 2, 1, 3)) for part in q.unbind(3)]
    elif k is not None and k.ndim == 5:              # [batch, positions, heads, 2, size]
        k, v = [aten.permute(part, (0, 2, 1, 3)) for part in k.unbind(3)]
    if bias is not None:
        width = q.shape[-1]
        rest = bias.shape[0] - 2 * width
        q_bias, k_bias, v_bias = aten.split(bias, [width, width, rest])
        q = aten.add(q, q_bias)
        if k.ndim == 3:
            k, v = aten.add(k, k_bias), aten.add(v, v_bias)
    q, k, v = [heads_apart(part, num_heads, "query") if part.ndim == 3 else part for part in (q, k, v)]
    before = 0
    if past_key is not None:
        before = past_key.shape[2]
        k, v = aten.cat([past_key, k], 2), aten.cat([past_value, v], 2)
    seen = _seen(mask, q.shape[0], k.shape[2], mask_filter_value, q.dtype)
    seen = extra if seen is None else seen if extra is None else aten.add(seen, extra)
    return heads_together(attended(q, k, v, seen, scale, unidirectional, before)), k, v


@rule("GroupQueryAttention", domain=MS, closed=(5, 6))
def group_query_attention(q: Any, k: Any = None, v: Any = None, past_key: Any = None, past_value: Any = None,
                          lengths: Any = None, total: Any = None, cosines: Any = None, sines: Any = None, *,
                          do_rotary: int = 0, kv_num_heads: int, local_window_size: int = -1, num_heads: int,
                          rotary_interleaved: int = 0, scale: float | None = None, softcap: float = 0.0,
                          smooth_softmax: int = 0, count: int) -> tuple:
    if smooth_softmax:
        raise NotImplementedError("GroupQueryAttention: smooth_softmax is not supported")
    if k is None:                                    # one tensor holds all three
        size = q.shape[-1] // (num_heads + 2 * kv_num_heads)
        q, k, v = aten.split(q, [num_heads * size, kv_num_heads * size, kv_num_heads * size], 2)
    n, positions, width = q.shape
    size = width // num_heads
    q = aten.reshape(q, (n, positions, num_heads, size))
    k, v = [aten.reshape(part, (n, positions, kv_num_heads, size)) for part in (k, v)]
    own = aten.reshape(lengths.to(_C.int64), (-1, 1)) + 1               # keys that are there, of each row
    offset = own - positions
    at = aten.arange(positions, device=q.device) + aten.clamp(offset, min=0)
    if do_rotary:
        q = rotated(q, cosines, sines, at, rotary_interleaved, 2 * cosines.shape[-1])
        k = rotated(k, cosines, sines, at, rotary_interleaved, 2 * cosines.shape[-1])
    q, k, v = [aten.permute(part, (0, 2, 1, 3)) for part in (q, k, v)]
    if past_key is not None and past_key.shape[2]:
        k, v = aten.cat([past_key, k], 2), aten.cat([past_value, v], 2)
    groups = num_heads // kv_num_heads
    wide_k, wide_v = aten.repeat_interleave(k, groups, 1), aten.repeat_interleave(v, groups, 1)
    scores = aten.mul(aten.matmul(q, aten.transpose(wide_k, -2, -1)), scale or 1 / math.sqrt(size))
    if softcap:
        scores = aten.mul(aten.tanh(aten.div(scores, softcap)), softcap)
    keys = aten.arange(k.shape[2], device=q.device).reshape(1, 1, 1, -1)
    rows = aten.reshape(at, (at.shape[0], 1, -1, 1))
    seen = aten.le(keys, rows)
    if local_window_size > 0:
        seen = aten.logical_and(seen, aten.gt(keys, rows - local_window_size))
    scores = aten.where(seen, scores, aten.full_like(scores, float("-inf")))
    return heads_together(aten.matmul(aten.softmax(scores, -1), wide_v)), k, v


@rule("RotaryEmbedding", domain=MS, closed=(1,))
def rotary_embedding(x: Any, positions: Any, cosines: Any, sines: Any, *, interleaved: int = 0,
                     is_packed_batching: int = 0,
                     num_heads: int = 0, rotary_embedding_dim: int = 0, scale: float = 1.0) -> Any:
    length = x.shape[1] if x.ndim == 3 else x.shape[2]
    width = 2 * cosines.shape[-1]
    heads = num_heads or (x.shape[-1] // width if x.ndim == 3 else x.shape[1])
    split = aten.reshape(x, (x.shape[0], length, heads, x.shape[-1] // heads)) if x.ndim == 3 else aten.permute(
        x, (0, 2, 1, 3))
    at = positions
    if positions.numel() == 1:
        at = aten.reshape(aten.arange(length, device=x.device) + positions.reshape(()), (1, -1))
    found = rotated(split, cosines, sines, at, interleaved, rotary_embedding_dim or width)
    return aten.reshape(found, tuple(x.shape)) if x.ndim == 3 else aten.permute(found, (0, 2, 1, 3))


# --- quantized --------------------------------------------------------------------------------------------------------


@rule("QuantizeLinear", domain=MS, gives=lambda numbers, settings: numbers[2] if len(numbers) > 2 else 2, closed=(2,))
def ms_quantize_linear(x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0,
                       elements: tuple) -> Any:
    return quantize_linear(x, scale, zero, axis=axis, block_size=block_size, elements=elements)


@rule("DequantizeLinear", domain=MS, gives=lambda numbers, settings: numbers[1], closed=(0, 2))
def ms_dequantize_linear(x: Any, scale: Any, zero: Any = None, *, axis: int = 1, block_size: int = 0) -> Any:
    return dequantize_linear(x, scale, zero, axis=axis, block_size=block_size)


@rule("DynamicQuantizeMatMul", domain=MS, closed=(1, 3))
def dynamic_quantize_matmul(a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None) -> Any:
    narrow, scale, zero = dynamic_quantize_linear(a, count=3)
    return matmul_integer_to_float(narrow, b, scale, b_scale, zero, b_zero, bias)


@rule("MatMulIntegerToFloat", domain=MS, closed=(0, 1, 4, 5))
def matmul_integer_to_float(a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None, b_zero: Any = None,
                            bias: Any = None) -> Any:
    total = matmul_integer(a, b, a_zero, b_zero)
    found = aten.mul(total.to(a_scale.dtype), aten.mul(a_scale, b_scale))
    return found if bias is None else aten.add(found, bias)


@rule("DynamicQuantizeLSTM", domain=MS, closed=(4,))
def dynamic_quantize_lstm(x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None, c0: Any = None,
                          p: Any = None, w_scale: Any = None, w_zero: Any = None, r_scale: Any = None,
                          r_zero: Any = None, *, count: int, **settings: Any) -> tuple:
    """An LSTM whose products are of integers: what comes in is quantized at each step."""
    def product_with(weights: Any, scale: Any, zero: Any) -> Callable[[Any, int], Any]:
        def of(part: Any, d: int) -> Any:      # by direction, where there is more than one number
            return None if part is None else part if part.ndim == 0 else part[d % part.shape[0]]

        def multiply(rows: Any, d: int) -> Any:
            narrow, row_scale, row_zero = dynamic_quantize_linear(rows, count=3)
            return matmul_integer_to_float(narrow, weights[d], row_scale, of(scale, d), row_zero, of(zero, d))

        return multiply

    products = product_with(w, w_scale, w_zero), product_with(r, r_scale, r_zero)
    return lstm(x, aten.transpose(w, 1, 2), aten.transpose(r, 1, 2), b, lengths, h0, c0, p, products=products,
                count=count, **settings)


@rule("MatMulNBits", domain=MS, closed=(1, 3, 4))
def matmul_n_bits(a: Any, b: Any, scales: Any, zeros: Any = None, groups: Any = None, bias: Any = None, *, K: int,
                  N: int,    # noqa: N803
                  accuracy_level: int = 0, bits: int = 4, block_size: int, weight_prepacked: int = 0) -> Any:
    """A product with a matrix whose rows are blocks of few bits, each block with a scale and a zero point."""
    if groups is not None or weight_prepacked:
        raise NotImplementedError("MatMulNBits: g_idx and weight_prepacked are not supported")
    blocks = -(-K // block_size)
    codes = unpacked(aten.reshape(b, (N, -1)), bits)[:, : blocks * block_size].reshape(N, blocks, block_size)
    if zeros is None:
        shift: Any = 1 << (bits - 1)
    elif zeros.dtype is _C.uint8:
        shift = unpacked(aten.reshape(zeros, (N, -1)), bits)[:, :blocks].unsqueeze(-1).to(a.dtype)
    else:
        shift = aten.reshape(zeros, (N, blocks, 1)).to(a.dtype)
    weights = aten.mul(aten.sub(codes.to(a.dtype), shift), aten.reshape(scales, (N, blocks, 1)).to(a.dtype))
    found = aten.matmul(a, aten.t(aten.reshape(weights, (N, blocks * block_size))[:, :K]))
    return found if bias is None else aten.add(found, bias)


def unpacked(x: Any, bits: int) -> Any:
    """Bytes as numbers of fewer bits, the lowest first."""
    if bits == 8:
        return x
    parts = [aten.bitwise_and(aten.bitwise_right_shift(x, shift), (1 << bits) - 1) for shift in range(0, 8, bits)]
    return aten.reshape(aten.stack(parts, -1), (x.shape[0], -1))


def _through_floats(compute: Any, y_scale: Any, y_zero: Any, elements: tuple, *inputs: tuple) -> Any:
    """An operator on quantized numbers, by way of floats."""
    given = [dequantize_linear(x, scale, zero) for x, scale, zero in inputs]
    return quantize_linear(compute(*given), y_scale, y_zero, elements=elements)


def _own(elements: tuple, at: int) -> tuple:
    return (0, 0, elements[at] if len(elements) > at else elements[0])


def _narrow(numbers: Sequence[int], settings: Any) -> int:
    return numbers[0]


@rule("QLinearAdd", domain=MS, closed=True, gives=_narrow)
def qlinear_add(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any = None,
                *,
                elements: tuple) -> Any:
    return _through_floats(aten.add, y_scale, y_zero, _own(elements, 0), (a, a_scale, a_zero), (b, b_scale, b_zero))


@rule("QLinearMul", domain=MS, closed=True, gives=_narrow)
def qlinear_mul(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any = None,
                *,
                elements: tuple) -> Any:
    return _through_floats(aten.mul, y_scale, y_zero, _own(elements, 0), (a, a_scale, a_zero), (b, b_scale, b_zero))


@rule("QLinearSigmoid", domain=MS, closed=True, gives=_narrow)
def qlinear_sigmoid(x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None, *, elements: tuple) -> Any:
    return _through_floats(aten.sigmoid, y_scale, y_zero, _own(elements, 0), (x, x_scale, x_zero))


@rule("QLinearLeakyRelu", domain=MS, closed=True, gives=_narrow)
def qlinear_leaky_relu(x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None, *, alpha: float = 0.01,
                       elements: tuple) -> Any:
    return _through_floats(lambda v: aten.leaky_relu(v, alpha), y_scale, y_zero, _own(elements, 0), (x, x_scale,
                                                                                                     x_zero))


@rule("QLinearGlobalAveragePool", domain=MS, closed=True, gives=_narrow)
def qlinear_global_average_pool(x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any, *, channels_last: int = 0,
                                elements: tuple) -> Any:
    if channels_last:
        raise NotImplementedError("QLinearGlobalAveragePool: channels_last is not supported")
    return _through_floats(lambda v: aten.mean(v, list(range(2, v.ndim)), True), y_scale, y_zero, _own(elements, 0),
                           (x, x_scale, x_zero))


@rule("QLinearAveragePool", domain=MS, closed=True, gives=_narrow)
def qlinear_average_pool(x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None, *, channels_last: int = 0,
                         elements: tuple, **settings: Any) -> Any:
    if channels_last:
        raise NotImplementedError("QLinearAveragePool: channels_last is not supported")
    return _through_floats(lambda v: average_pool(v, **settings), y_scale, y_zero, _own(elements, 0), (x, x_scale,
                                                                                                       x_zero))


@rule("QLinearSoftmax", domain=MS, closed=True, gives=_narrow)
def qlinear_softmax(x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any, *, axis: int = -1, opset: int = 13,
                    elements: tuple) -> Any:
    compute = softmax if opset >= 13 else softmax_1
    return _through_floats(lambda v: compute(v, axis=axis), y_scale, y_zero, _own(elements, 0), (x, x_scale, x_zero))


@rule("QLinearConcat", domain=MS, closed=True, gives=lambda numbers, settings: numbers[1])
def qlinear_concat(y_scale: Any, y_zero: Any, *parts: Any, axis: int, elements: tuple) -> Any:
    inputs = [parts[k : k + 3] for k in range(0, len(parts), 3)]
    return _through_floats(lambda *given: aten.cat(list(given), axis), y_scale, y_zero, _own(elements, 1), *inputs)


@rule("QLinearConv", domain=MS, closed=True, gives=_narrow)
def ms_qlinear_conv(*inputs: Any, channels_last: int = 0, elements: tuple, **settings: Any) -> Any:
    if channels_last:
        raise NotImplementedError("QLinearConv: channels_last is not supported")
    return qlinear_conv(*inputs, elements=elements, **settings)


@rule("QGemm", domain=MS, closed=True, gives=lambda numbers, settings: numbers[8] if len(numbers) > 8 else 1)
def qgemm(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, c: Any = None, y_scale: Any = None,
          y_zero: Any = None, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, elements: tuple) -> Any:    # noqa: N803
    a, b = (aten.t(a) if transA else a), (aten.t(b) if transB else b)
    total = matmul_integer(a, b, a_zero, b_zero)
    total = total if c is None else aten.add(total, c)
    found = aten.mul(total.to(_C.float32), aten.mul(aten.mul(a_scale, b_scale), alpha))
    if y_scale is None:
        return found
    return quantize_linear(found, y_scale, y_zero, elements=(0, 0, elements[8] if len(elements) > 8 else elements[0]))


@rule("QAttention", domain=MS, closed=True)
def qattention(x: Any, weights: Any, bias: Any, x_scale: Any, w_scale: Any, mask: Any = None, x_zero: Any = None,
               w_zero: Any = None, past: Any = None, *, do_rotary: int = 0, mask_filter_value: float = -10000.0,
               num_heads: int, past_present_share_buffer: int = 0, scale: float | None = None, unidirectional: int = 0,
               count: int) -> tuple:
    """Attention whose first product is one of integers."""
    joint = aten.add(matmul_integer_to_float(x, weights, x_scale, w_scale, x_zero, w_zero), bias)
    return joint_attention(joint, mask, past, None, do_rotary, mask_filter_value, num_heads, past_present_share_buffer,
                           None, scale, unidirectional)


@rule("Trilu", domain=MS)
def ms_trilu(x: Any, k: Any = None, *, upper: int = 1) -> Any:
    by = 0 if k is None else int(as_tuple(k.tolist() if hasattr(k, "tolist") else k)[0])
    return aten.triu(x, by) if upper else aten.tril(x, by)


@rule("ExpandDims", domain=MS, host=(1,))
def expand_dims(x: Any, axis: Any) -> Any:
    return aten.unsqueeze(x, as_tuple(axis)[0])


@rule("Inverse", domain=MS)
def inverse(x: Any) -> Any:
    return aten.linalg_inv(x)


@rule("GatherND", domain=MS, closed=(1,))
def ms_gather_nd(x: Any, indices: Any) -> Any:
    return gather_nd(x, indices)


@rule("NhwcMaxPool", domain=MS, closed=True, gives=_narrow)
def nhwc_max_pool(x: Any, *, kernel_shape: Sequence[int], **settings: Any) -> Any:
    found = max_pool(aten.movedim(x, -1, 1), kernel_shape=kernel_shape, count=1, **settings)[0]
    return aten.movedim(found, 1, -1)


