"""Decompositions of what layers are made of: products, convolutions, norms, dropout, attention, losses of classes.

Enters: arguments in the order of ATen's signatures. Leaves: `RULES`, from names of ops (or `op.overload`) to functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import _C
from ...base.dtype import finfo
from ...op import find_op


def _scalar(value: Any, like: Any) -> Any:
    return find_op("scalar_tensor")(value, dtype=like.dtype, device=like.device)


# --- products ---------------------------------------------------------------------------------------------------------


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if weight.ndim != 2 or not input.ndim:
        return NotImplemented
    transposed = weight.permute([1, 0])
    rows = input if input.ndim == 2 else input.reshape([-1, input.shape[-1]])
    result = find_op("mm")(rows, transposed) if bias is None else find_op("addmm")(bias, rows, transposed)
    return result if input.ndim == 2 else result.view([*input.shape[:-1], weight.shape[0]])


def matmul(a: Any, b: Any) -> Any:
    if a.ndim == 1 and b.ndim == 1:
        return dot(a, b)
    if a.ndim == 1:
        return matmul(a.unsqueeze(0), b).squeeze(-2)
    if b.ndim == 1:
        return mv(a, b) if a.ndim == 2 else matmul(a, b.unsqueeze(-1)).squeeze(-1)
    if a.ndim == 2 and b.ndim == 2:
        return find_op("mm")(a, b)
    if a.ndim == 3 and b.ndim == 3 and a.shape[0] is b.shape[0]:
        return find_op("bmm")(a, b)
    if b.ndim == 2:
        return find_op("mm")(a.reshape([-1, a.shape[-1]]), b).view([*a.shape[:-1], b.shape[-1]])
    count = max(a.ndim, b.ndim) - 2
    left, right = ([*[1] * (count - t.ndim + 2), *t.shape[:-2]] for t in (a, b))
    batch = [n if isinstance(m, int) and m == 1 else m for m, n in zip(left, right, strict=True)]
    wide = [t.expand([*batch, *t.shape[-2:]]).reshape([math.prod(batch), *t.shape[-2:]]) for t in (a, b)]
    return find_op("bmm")(*wide).view([*batch, a.shape[-2], b.shape[-1]])


def mv(matrix: Any, vector: Any) -> Any:
    return (matrix * vector).sum([1])


def dot(a: Any, b: Any) -> Any:
    return (a * b).sum([0])


def _scaled(x: Any, factor: Any) -> Any:
    return x if factor == 1 else x * factor


def addmv(input: Any, matrix: Any, vector: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = _scaled(mv(matrix, vector), alpha)
    return product if beta == 0 else _scaled(input, beta) + product


def baddbmm(input: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = _scaled(find_op("bmm")(a, b), alpha)
    return product if beta == 0 else _scaled(input, beta) + product


def outer(a: Any, b: Any) -> Any:
    return a.unsqueeze(-1) * b


def addr(input: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = _scaled(outer(a, b), alpha)
    return product if beta == 0 else _scaled(input, beta) + product


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    rows1, rows2 = (t.reshape([-1, t.shape[-1]]) for t in (input1, input2))
    count, first, second = weight.shape
    half = find_op("mm")(rows1, weight.permute([1, 0, 2]).reshape([first, count * second]))
    result = (half.view([-1, count, second]) * rows2.unsqueeze(1)).sum([-1])
    result = result if bias is None else result + bias
    return result.view([*input1.shape[:-1], count])


# --- convolutions and pools -------------------------------------------------------------------------------------------


def _convolution(dims: int, transposed: bool = False) -> Callable:
    def full(x: Any) -> list[int]:
        x = [x] if isinstance(x, int) else list(x)
        return x * dims if len(x) == 1 else x

    def run(input: Any, *rest: Any) -> Any:
        batched = input.ndim == dims + 2
        result = find_op("convolution")(input if batched else input.unsqueeze(0), *rest)
        return result if batched else result.squeeze(0)

    def forward(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                groups: int = 1) -> Any:
        if isinstance(padding, str):
            if padding == "valid":
                padding = 0
            else:
                spread = [d * (k - 1) for d, k in zip(full(dilation), weight.shape[2:], strict=True)]
                if any(n % 2 for n in spread):
                    sides = [side for n in reversed(spread) for side in (n // 2, n - n // 2)]
                    input, padding = find_op("constant_pad_nd")(input, sides), 0
                else:
                    padding = [n // 2 for n in spread]
        return run(input, weight, bias, full(stride), full(padding), full(dilation), False, [0] * dims, groups)

    def backward(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
                 groups: int = 1, dilation: Any = 1) -> Any:
        return run(input, weight, bias, full(stride), full(padding), full(dilation), True, full(output_padding), groups)

    return backward if transposed else forward


def _max_pool(dims: int) -> Callable:
    return lambda input, *args: find_op(f"max_pool{dims}d_with_indices")(input, *args)[0]


def max_pool1d(input: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> Any:
    k, s, p, d = (list(x)[:1] if not isinstance(x, int) else [x] for x in (kernel_size, stride, padding, dilation))
    wide = find_op("max_pool2d_with_indices")(
        input.unsqueeze(-2), [1, *k], [1, *(s or k)], [0, *p], [1, *d], ceil_mode)[0]
    return wide.squeeze(-2)


def avg_pool1d(input: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True) -> Any:
    k, s, p = (list(x)[:1] if not isinstance(x, int) else [x] for x in (kernel_size, stride, padding))
    wide = find_op("avg_pool2d")(input.unsqueeze(-2), [1, *k], [1, *(s or k)], [0, *p], ceil_mode, count_include_pad)
    return wide.squeeze(-2)


def _adaptive_avg(dims: int) -> Callable:
    def rule(input: Any, output_size: Any) -> Any:
        sizes = [output_size] * dims if isinstance(output_size, int) else list(output_size)
        if all(isinstance(n, int) and n == 1 for n in sizes):
            return find_op("mean")(input, list(range(-dims, 0)), True)
        if dims == 1:
            return find_op("_adaptive_avg_pool2d")(input.unsqueeze(-2), [1, *sizes]).squeeze(-2)
        return find_op(f"_adaptive_avg_pool{dims}d")(input, sizes)

    return rule


# --- norms and dropout ------------------------------------------------------------------------------------------------


def batch_norm(input: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float,
               cudnn_enabled: bool = False) -> Any:
    if training and mean is None:
        return find_op("_native_batch_norm_legit")(input, weight, bias, True, momentum, eps)[0]
    if training or mean is None:
        return NotImplemented       # it writes: whoever records writes knows what to do
    return find_op("_native_batch_norm_legit_no_training")(input, weight, bias, mean, var, momentum, eps)[0]


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn_enable: bool = True) -> Any:
    return find_op("native_layer_norm")(input, normalized_shape, weight, bias, eps)[0]


def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn_enabled: bool = True) -> Any:
    batch, channels, *rest = input.shape
    return find_op("native_group_norm")(input, weight, bias, batch, channels, math.prod(rest), num_groups, eps)[0]


def instance_norm(input: Any, weight: Any, bias: Any, mean: Any, var: Any, use_input_stats: bool, momentum: float,
                  eps: float, cudnn_enabled: bool = False) -> Any:
    if mean is not None or not use_input_stats:
        return NotImplemented
    dims = list(range(2, input.ndim))
    centre = input - find_op("mean")(input, dims, True)
    result = centre * (find_op("mean")(centre * centre, dims, True) + eps).rsqrt()
    shape = [1, input.shape[1], *[1] * len(dims)]
    result = result if weight is None else result * weight.view(shape)
    return result if bias is None else result + bias.view(shape)


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    dims = list(range(-len(normalized_shape), 0))
    wide = input.to(_C.float32) if input.dtype.itemsize < 4 else input
    eps = finfo(wide.dtype).eps if eps is None else eps
    result = wide * (find_op("mean")(wide.pow(2), dims, True) + eps).rsqrt()
    result = result if weight is None else result * weight
    return result if result.dtype is input.dtype else result.to(input.dtype)


def dropout(input: Any, p: float, train: bool) -> Any:
    return find_op("native_dropout")(input, p, True)[0] if train and p else input.clone()


def _softmax(name: str) -> Callable:
    def rule(input: Any, dim: int, dtype: Any = None) -> Any:
        return find_op(name)(input if dtype is None or dtype is input.dtype else input.to(dtype), dim, False)

    return rule


# --- attention --------------------------------------------------------------------------------------------------------


def scaled_dot_product_attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, *, scale: Any = None,
                                 enable_gqa: bool = False) -> Any:
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (t.repeat_interleave(times, -3) for t in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = matmul(query * factor, key.transpose(-2, -1))
    mask = attn_mask
    if is_causal:
        row = find_op("arange")(query.shape[-2], device=query.device).unsqueeze(-1)
        mask = find_op("arange")(key.shape[-2], device=query.device) <= row
    if mask is not None:
        scores = (find_op("where")(mask, scores, _scalar(-math.inf, scores)) if mask.dtype is _C.bool
                  else scores + mask)
    weights = find_op("_softmax")(scores, -1, False)
    if attn_mask is not None:       # rows that see nothing are 0
        blind = (scores == -math.inf).logical_not().any(-1, True).logical_not()
        weights = find_op("where")(blind, _scalar(0, weights), weights)
    if dropout_p:
        weights = find_op("native_dropout")(weights, dropout_p, True)[0]
    return matmul(weights, value)


# --- losses of classes, distances -------------------------------------------------------------------------------------


def _reduced(loss: Any, reduction: int) -> Any:
    return loss if reduction == 0 else loss.mean() if reduction == 1 else loss.sum()


def nll_loss(input: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    dim = 0 if input.ndim == 1 else 1
    kept = target != ignore_index
    index = find_op("where")(kept, target, _scalar(0, target))
    loss = find_op("gather")(input, dim, index.unsqueeze(dim)).squeeze(dim).neg()
    factor = None if weight is None else find_op("index")(weight, [index])
    loss = loss if factor is None else loss * factor
    loss = find_op("where")(kept, loss, _scalar(0, loss))
    if reduction != 1:
        return _reduced(loss, reduction)
    if factor is None:
        return loss.sum() / kept.sum().to(loss.dtype)
    return loss.sum() / find_op("where")(kept, factor, _scalar(0, factor)).sum()


def cross_entropy_loss(input: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100,
                       label_smoothing: float = 0.0) -> Any:
    dim = 0 if input.ndim == 1 else 1
    scores = find_op("_log_softmax")(input, dim, False)
    shape = [1] * input.ndim
    shape[dim] = input.shape[dim]
    weighted = scores if weight is None else scores * weight.view(shape)
    if target.dtype.is_floating_point:
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / input.shape[dim]
        loss = (weighted * target).sum([dim]).neg()
        if reduction != 1:
            return _reduced(loss, reduction)
        return loss.sum() / (math.prod(loss.shape) if loss.ndim else 1)
    loss = nll_loss(scores, target, weight, reduction, ignore_index)
    if not label_smoothing:
        return loss
    kept = target != ignore_index
    smooth = weighted.sum([dim]).neg()
    smooth = find_op("where")(kept, smooth, _scalar(0, smooth))
    if reduction == 1 and weight is not None:
        index = find_op("where")(kept, target, _scalar(0, target))
        factor = find_op("where")(kept, find_op("index")(weight, [index]), _scalar(0, weight))
        smooth = smooth.sum() / factor.sum()
    elif reduction == 1:
        smooth = smooth.sum() / kept.sum().to(smooth.dtype)
    else:
        smooth = _reduced(smooth, reduction)
    return loss * (1 - label_smoothing) + smooth * (label_smoothing / input.shape[dim])


def _bags(weight: Any, indices: Any, offsets: Any, *options: Any) -> Any:
    *rest, padding = (*options, None) if len(options) < 6 else options
    return find_op("_embedding_bag")(weight, indices, offsets, *rest, -1 if padding is None else padding)


def huber_loss(input: Any, target: Any, reduction: int = 1, delta: float = 1.0) -> Any:
    return _reduced(find_op("_huber_loss_element")(input, target, delta), reduction)


def kl_div(input: Any, target: Any, reduction: int = 1, *, log_target: bool = False) -> Any:
    loss = target.exp() * (target - input) if log_target else find_op("xlogy")(target, target) - target * input
    return _reduced(loss, reduction)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    norms = [find_op("linalg_vector_norm")(x, 2, [dim], True).clamp(min=eps) for x in (x1, x2)]
    return ((x1 / norms[0]) * (x2 / norms[1])).sum([dim])


def pairwise_distance(x1: Any, x2: Any, p: float = 2, eps: float = 1e-6, keepdim: bool = False) -> Any:
    return find_op("linalg_vector_norm")((x1 - x2) + eps, p, [-1], keepdim)


RULES: dict[str, Callable] = {
    "linear": linear, "matmul": matmul, "mv": mv, "dot": dot, "vdot": dot, "addmv": addmv, "baddbmm": baddbmm,
    "outer": outer, "ger": outer, "addr": addr, "bilinear": bilinear,
    **{f"conv{d}d{label}": _convolution(d) for d in (1, 2, 3) for label in ("", ".padding")},
    "conv_transpose1d": _convolution(1, True), "conv_transpose2d.input": _convolution(2, True),
    "conv_transpose3d.input": _convolution(3, True),
    "max_pool1d": max_pool1d, "max_pool2d": _max_pool(2), "max_pool3d": _max_pool(3), "avg_pool1d": avg_pool1d,
    **{f"adaptive_avg_pool{d}d": _adaptive_avg(d) for d in (1, 2, 3)},
    "batch_norm": batch_norm, "layer_norm": layer_norm, "group_norm": group_norm, "instance_norm": instance_norm,
    "rms_norm": rms_norm, "dropout": dropout,
    "softmax.int": _softmax("_softmax"), "log_softmax.int": _softmax("_log_softmax"),
    "special_softmax": _softmax("_softmax"), "special_log_softmax": _softmax("_log_softmax"),
    "scaled_dot_product_attention": scaled_dot_product_attention,
    "nll_loss": nll_loss, "nll_loss2d": nll_loss, "nll_loss_nd": nll_loss, "cross_entropy_loss": cross_entropy_loss,
    "embedding_bag": _bags, "embedding_bag.padding_idx": _bags, "huber_loss": huber_loss, "kl_div": kl_div,
    "cosine_similarity": cosine_similarity, "pairwise_distance": pairwise_distance,
}
