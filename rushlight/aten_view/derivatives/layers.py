"""Derivatives of products, convolutions, norms, pools and losses.

Enters: nothing. Leaves: `LAYERS`, functions by op and parameter, in PyTorch's steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd.backward import grad
from ...autograd.grad_mode import enable_grad
from ...base.shape import contiguous_format
from ...op import find_op
from ..words import aten
from .pointwise import conj, scaled


def _is_column_major(sizes: Any, strides: Any) -> bool:
    return tuple(strides) == (1, sizes[0])


def _first(g: Any, other: Any, self_sizes: Any, self_strides: Any, alpha: Any = 1) -> Any:
    """The gradient of the left matrix, in its own order."""
    if _is_column_major(self_sizes, self_strides):
        return scaled(find_op("mm")(conj(other), g.t()).t(), alpha)
    return scaled(find_op("mm")(g, conj(other.t())), alpha)


def _second(g: Any, other: Any, mat2_sizes: Any, mat2_strides: Any, alpha: Any = 1) -> Any:
    if _is_column_major(mat2_sizes, mat2_strides):
        return scaled(find_op("mm")(g.t(), conj(other)).t(), alpha)
    return scaled(find_op("mm")(conj(other.t()), g), alpha)


def _mm_self(g: Any, mat2: Any, self_sizes: Any, self_strides: Any) -> Any:
    return _first(g, mat2, self_sizes, self_strides)


def _mm_mat2(g: Any, self: Any, mat2_sizes: Any, mat2_strides: Any) -> Any:
    return _second(g, self, mat2_sizes, mat2_strides)


def _addmm_mat1(g: Any, mat2: Any, mat1_sizes: Any, mat1_strides: Any, alpha: Any) -> Any:
    return _first(g, mat2, mat1_sizes, mat1_strides, alpha)


def _addmm_mat2(g: Any, mat1: Any, mat2_sizes: Any, mat2_strides: Any, alpha: Any) -> Any:
    return _second(g, mat1, mat2_sizes, mat2_strides, alpha)


def _turned(x: Any) -> Any:
    return conj(aten.transpose.int(x, 1, 2))


def _convolution(grads: Any, input: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any,
                 transposed: bool, output_padding: Any, groups: int, wanted: Any) -> Any:
    return aten.convolution_backward(grads[0], input, weight, None if bias_sizes is None else list(bias_sizes), stride,
                                     padding, dilation, transposed, output_padding, groups, wanted)


def _layer_norm(grads: Any, input: Any, normalized_shape: Any, result1: Any, result2: Any, weight: Any, bias: Any,
                wanted: Any) -> Any:
    return aten.native_layer_norm_backward(grads[0], input, list(normalized_shape), result1, result2, weight, bias,
                                           wanted)


def _group_norm(grads: Any, input: Any, result1: Any, result2: Any, weight: Any, N: int, C: int, HxW: int,  # noqa: N803
                group: int, eps: float, bias: Any, wanted: Any) -> Any:
    if any(g is not None for g in grads[1:]):
        return _through_statistics(grads, (input, weight, bias), (N, C, HxW, group, eps), wanted)
    g = grads[0] if grads[0].is_contiguous() else aten.clone(grads[0], memory_format=contiguous_format)
    return aten.native_group_norm_backward(g, input, result1, result2, weight, N, C, HxW, group, wanted)


def _through_statistics(grads: Any, tensors: tuple, settings: tuple, wanted: Any) -> Any:
    """Gradients where means and deviations of groups have some too: of the op's body, which runs again."""
    with enable_grad():
        given = [t.detach().requires_grad_(w) if t is not None else None for t, w in zip(tensors, wanted, strict=True)]
        outs = find_op("native_group_norm").overload_list[0].redispatch(*given, *settings)
    pairs = [(o, g) for o, g in zip(outs, grads, strict=True) if g is not None]
    found = iter(grad([o for o, _ in pairs], [t for t, w in zip(given, wanted, strict=True) if w],
                      [g for _, g in pairs], allow_unused=True))
    return [next(found) if w else None for w in wanted]


def _batch_norm(grads: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, result1: Any, result2: Any,
                training: bool, eps: float, wanted: Any) -> Any:
    return aten.native_batch_norm_backward(grads[0], input, weight, running_mean, running_var, result1, result2,
                                           training, eps, wanted)


def _attention(grads: Any, query: Any, key: Any, value: Any, result: Any, result1: Any, dropout_p: float,
               is_causal: bool, attn_mask: Any, scale: Any) -> Any:
    named = {"attn_mask": attn_mask, **({} if scale is None else {"scale": scale})}
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grads[0], query, key, value, result, result1, dropout_p, is_causal, **named)


def _max_pool(d: int) -> Callable:
    def rule(g: Any, self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
             result1: Any) -> Any:
        return getattr(aten, f"max_pool{d}d_with_indices_backward")(
            g, self, _wide(kernel_size, d), list(stride or ()), _wide(padding, d), _wide(dilation, d), ceil_mode,
            result1)

    return rule


def _avg_pool(d: int) -> Callable:
    def rule(g: Any, self: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
             divisor_override: Any) -> Any:
        return getattr(aten, f"avg_pool{d}d_backward")(
            g, self, _wide(kernel_size, d), list(stride or ()), _wide(padding, d), ceil_mode, count_include_pad,
            divisor_override)

    return rule


def _wide(value: Any, count: int) -> list[Any]:
    listed = list(value) if isinstance(value, (list, tuple)) else [value]
    return listed * count if len(listed) == 1 else listed


def _nll(name: str) -> Callable:
    def rule(g: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int, result1: Any) -> Any:
        return getattr(aten, name)(g, self, target, weight, reduction, ignore_index, result1)

    return rule


# Samplings, and the names of their scales.
UPSAMPLED = {
    **{f"upsample_nearest{d}d": ("scales",) if d == 1 else ("scales_d", "scales_h", "scales_w")[-d:]
       for d in (1, 2, 3)},
    "_upsample_nearest_exact2d": ("scales_h", "scales_w"),
    "upsample_linear1d": ("scales",), "upsample_trilinear3d": ("scales_d", "scales_h", "scales_w"),
    **dict.fromkeys(("upsample_bilinear2d", "upsample_bicubic2d"), ("scales_h", "scales_w")),
}


def _sampled(name: str, scales: tuple[str, ...]) -> Callable:
    corners = "" if "nearest" in name else "align_corners, "
    listed = ", ".join(scales)
    backward = f"{name}_backward"

    def call(*given: Any) -> Any:
        kept = list(given)
        while kept and kept[-1] is None:
            kept.pop()
        return getattr(aten, backward)(*kept)

    text = f"lambda g, output_size, self_sizes, {corners}{listed}: call(" \
           f"g, list(output_size), list(self_sizes), {corners}{listed})"
    rule: Callable = eval(text, {"call": call, "list": list})  # noqa: S307 - names of this table only
    return rule


def _padded(name: str) -> Callable:
    return lambda g, self, padding: getattr(aten, name)(g, self, list(padding))


LAYERS: dict[str, dict[str, Callable]] = {
    "mm": {"self": _mm_self, "mat2": _mm_mat2},
    "addmm": {"self": lambda g, beta: scaled(g, beta), "mat1": _addmm_mat1, "mat2": _addmm_mat2},
    "bmm": {"self": lambda g, mat2: find_op("bmm")(g, _turned(mat2)),
            "mat2": lambda g, self: find_op("bmm")(_turned(self), g)},
    "baddbmm": {"self": lambda g, beta: scaled(g, beta),
                "batch1": lambda g, batch2, alpha: scaled(find_op("bmm")(g, _turned(batch2)), alpha),
                "batch2": lambda g, batch1, alpha: scaled(find_op("bmm")(_turned(batch1), g), alpha)},
    "mv": {"self": lambda g, vec: find_op("outer")(g, conj(vec)),
           "vec": lambda g, self: find_op("mv")(conj(self.t()), g)},
    "dot": {"self": lambda g, tensor: g * conj(tensor), "tensor": lambda g, self: g * conj(self)},
    "convolution": {"input, weight, bias": _convolution},
    "native_layer_norm": {"input, weight, bias": _layer_norm},
    "native_group_norm": {"input, weight, bias": _group_norm},
    "native_batch_norm": {"input, weight, bias": _batch_norm},
    "_softmax": {"self": lambda g, result, dim, self_dtype: aten._softmax_backward_data(g, result, dim, self_dtype)},
    "_log_softmax": {"self": lambda g, result, dim, self_dtype: aten._log_softmax_backward_data(
        g, result, dim, self_dtype)},
    "_scaled_dot_product_flash_attention_for_cpu": {"query, key, value": _attention},
    "max_pool2d_with_indices": {"self": _max_pool(2)}, "max_pool3d_with_indices": {"self": _max_pool(3)},
    "avg_pool2d": {"self": _avg_pool(2)}, "avg_pool3d": {"self": _avg_pool(3)},
    "_adaptive_avg_pool2d": {"self": lambda g, self: aten._adaptive_avg_pool2d_backward(g, self)},
    "_adaptive_avg_pool3d": {"self": lambda g, self: aten._adaptive_avg_pool3d_backward(g, self)},
    "nll_loss_forward": {"self": _nll("nll_loss_backward")},
    "nll_loss2d_forward": {"self": _nll("nll_loss2d_backward")},
    "mse_loss": {"self": lambda g, self, target, reduction: aten.mse_loss_backward(g, self, target, reduction),
                 "target": lambda g, self, target, reduction: aten.mse_loss_backward(g, target, self, reduction)},
    "smooth_l1_loss": {
        "self": lambda g, self, target, reduction, beta: aten.smooth_l1_loss_backward(g, self, target, reduction, beta),
        "target": lambda g, self, target, reduction, beta: aten.smooth_l1_loss_backward(
            g, target, self, reduction, beta)},
    "huber_loss": {
        "self": lambda g, self, target, reduction, delta: aten.huber_loss_backward(g, self, target, reduction, delta),
        "target": lambda g, self, target, reduction, delta: aten.huber_loss_backward(
            g, target, self, reduction, delta)},
    "embedding": {"weight": lambda g, indices, weight_sizes, padding_idx, scale_grad_by_freq:
                  aten.embedding_dense_backward(g, indices, weight_sizes[0], padding_idx, scale_grad_by_freq)},
    **{name: {"self": _sampled(name, scales)} for name, scales in UPSAMPLED.items()},
    "glu": {"self": lambda g, self, dim: aten.glu_backward(g, self, dim)},
    "_prelu_kernel": {"self, weight": lambda grads, self, weight: aten._prelu_kernel_backward(grads[0], self, weight)},
    "log_sigmoid_forward": {"self": lambda g, self, result1: aten.log_sigmoid_backward(g, self, result1)},
    "celu": {"self": lambda g, self, alpha: aten.elu_backward(g, alpha, 1, 1.0 / alpha, False, self)},
    "soft_margin_loss": {"self": lambda g, self, target, reduction: aten.soft_margin_loss_backward(
        g, self, target, reduction)},
    "pixel_shuffle": {"self": lambda g, upscale_factor: aten.pixel_unshuffle(g, upscale_factor)},
    "pixel_unshuffle": {"self": lambda g, downscale_factor: aten.pixel_shuffle(g, downscale_factor)},
    "channel_shuffle": {"self": lambda g, self_sizes, groups: aten.channel_shuffle(g, self_sizes[1] // groups)},
    **{f"{kind}_pad{d}d": {"self": _padded(f"{kind}_pad{d}d_backward")}
       for kind in ("reflection", "replication") for d in (1, 2, 3)},
    "constant_pad_nd": {"self": lambda g, pad: aten.constant_pad_nd(g, [-n for n in pad], 0)},
    "stack": {"tensors": lambda g, dim: g.unbind(dim)},
    "addmv": {"self": lambda g, beta: scaled(g, beta),
              "mat": lambda g, vec, alpha: scaled(find_op("outer")(g, conj(vec)), alpha),
              "vec": lambda g, mat, alpha: scaled(find_op("mv")(conj(mat.t()), g), alpha)},
    "addr": {"self": lambda g, beta: scaled(g, beta),
             "vec1": lambda g, vec2, alpha: scaled(find_op("mv")(g, conj(vec2)), alpha),
             "vec2": lambda g, vec1, alpha: scaled(find_op("mv")(g.t(), conj(vec1)), alpha)},
    "linalg_inv_ex": {"A": lambda g, result: _inverse(g, result)},
    "linalg_cross": {"self": lambda g, other, dim: aten.linalg_cross(conj(other), g, dim=dim),
                     "other": lambda g, self, dim: aten.linalg_cross(g, conj(self), dim=dim)},
    "rot90": {"self": lambda g, k, dims: aten.rot90(g, -k, list(dims))},
}


def _inverse(g: Any, result: Any) -> Any:
    turned = conj(result.mT)
    return find_op("matmul")(find_op("matmul")(turned, g), turned).neg()
