"""Sums over quantized tensors: means, deviations and normalisations, from exact sums of the integers.

Enters: tensors quantized per tensor. Leaves: quantized tensors with PyTorch's integers: the sums of integers and of
their squares are exact, what follows is computed in float32 (deviations in float64) in the same order. Refuses: dims
that are not there, tensors quantized per channel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight.base.quantizers import PerTensor
from rushlight.base.shape import channels_last, channels_last_3d
from rushlight.op import Composite, Pointwise, ops, wrap_dim
from rushlight.op.layout import Layout

from ..window.layout import is_channels_last
from .container import PLAIN, ints, is_quantized, like, put, qparams, rule
from .create import SHIFTED, to_ints
from .pointwise import Integers, bounds, single, writing, written

FEATURE_MAP = 512      # pixels from which PyTorch adds up images with channels last in another order


class QuantizedMoments(Pointwise):
    """From sums of integers and of their squares: the mean seen from the zero point, and scale / deviation."""

    schema = (
        "_quantized_moments(Tensor total, Tensor squares, Scalar count, Scalar zero, Scalar scale, Scalar eps) ->"
        " (Tensor, Tensor)"
    )
    function = method = inplace = out = differentiable = False
    apart = ("total", "squares")

    def common_dtype(self, args: tuple, operands: list[int]) -> Any:
        return _C.float64

    def result_dtype(self, common: Any, *args: Any) -> Any:
        return _C.float32

    def expr(self, s, total, squares, count, zero, scale, eps):
        total, squares = s.cast(total, "f32"), s.cast(squares, "f32")
        number, scale = s.cast(count, "f32"), s.cast(scale, "f32")
        mean = total / number
        spread = s.maximum(s.fma(-mean, mean, squares / number), 0.0)
        wide = s.cast(scale, "f64") / s.sqrt(s.cast(spread * scale * scale, "f64") + eps)
        return mean - s.cast(zero, "f32"), s.cast(wide, "f32")


class QuantizedFma(Pointwise):
    """a * b + c, rounded once."""

    schema = "_quantized_fma(Tensor a, Tensor b, Tensor c) -> Tensor"
    function = method = inplace = out = differentiable = False

    def expr(self, s, a, b, c):
        return s.fma(a, b, c)


class QuantizedNormal(Integers):
    """fma((integer - zero point - mean) * factor, weight, bias), rounded; mean and factor may be missing."""

    schema = (
        "_quantized_normal(Tensor a, Tensor? mean, Tensor? factor, Tensor weight, Tensor bias, Scalar a_zero, Scalar"
        " inverse, Scalar low, Scalar high, Scalar zero, bool fused) -> Tensor"
    )
    layout = Layout.INPUT

    def operand_compute(self, i: int, compute: str, own: str) -> str:
        return own if self.spec.params[i].type in ("Tensor", "Tensor?") else compute

    def expr(self, s, a, mean, factor, weight, bias, a_zero, inverse, low, high, zero, fused):
        x = s.cast(a, "f32") - s.cast(a_zero, "f32")
        x = x if mean is None else x - mean
        x = s.fma(x if factor is None else x * factor, weight, bias)
        return written(s, x * s.cast(inverse, "f32"), low, high, zero, a.dtype, fused)


def sums(integers: Any, dims: Sequence[int], keepdim: bool, squares: bool = True) -> tuple[Any, Any]:
    """Sums of integers and of their squares, exact but for squares of 32 bits, which are added as float32."""
    total = integers.sum(dims, keepdim=keepdim, dtype=_C.int64)
    if not squares:
        return total, None
    if integers.dtype is _C.int32:
        return total, integers.to(_C.float32).square().sum(dims, keepdim=keepdim)
    return total, integers.to(_C.int32).square().sum(dims, keepdim=keepdim, dtype=_C.int64)


def is_innermost(dims: Sequence[int], ndim: int) -> bool:
    """Whether these are the last dims."""
    return sorted(dims) == list(range(ndim - len(dims), ndim))


@rule("mean")
def mean(q: Any, *rest: Any) -> Any:
    """Means, with the scale and zero point of the tensor."""
    dim, keepdim, dtype = (None, False, *rest) if len(rest) == 1 else rest
    if dtype is not None and dtype not in PLAIN:
        raise RuntimeError(f"mean: the mean of a quantized tensor is quantized, got dtype={dtype}")
    scale, zero_point = qparams(q, "mean")
    dims = dims_of("mean", q, dim)
    if is_innermost(dims, q.ndim) and q.is_contiguous() and dtype in (None, q.dtype):
        total, _ = sums(ints(q), dims, keepdim, squares=False)
        count = float(math.prod([q.shape[d] for d in dims]))
        rounded = (total.to(_C.float32) / count).round()
        return like(q, rounded.to(PLAIN[q.dtype]))
    found = ops["dequantize"](q).mean(dims, keepdim)
    return ops["quantize_per_tensor"](found, scale, zero_point, dtype or q.dtype)


def dims_of(name: str, q: Any, dim: Any) -> list[int]:
    """Dims that are summed over: all of them where none are named."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(q.ndim))
    return [wrap_dim(name, d, q.ndim) for d in ([dim] if isinstance(dim, int) else dim)]


def deviation(q: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """Standard deviations, with the scale and zero point of the tensor."""
    scale, zero_point = qparams(q, "std")
    dims = dims_of("std", q, dim)
    count = math.prod([q.shape[d] for d in dims])
    if not (is_innermost(dims, q.ndim) and q.is_contiguous()) or (count == 1 and correction == 1):
        wide = ops["dequantize"](q).to(_C.float64)
        found = ops["std"](wide, dims, correction=correction, keepdim=keepdim).to(_C.float32)
        return ops["quantize_per_tensor"](found, scale, zero_point, q.dtype)
    total, squares = (t.to(_C.float64) for t in sums(ints(q), dims, keepdim))
    rest = max(count - correction, 0.0)
    average = total / count
    spread = (squares / rest - 2 * average * (total / rest) + average * average * count / rest).clamp(min=0.0)
    return like(q, to_ints((spread.sqrt() * scale).to(_C.float32), q.dtype, q._quantizer, SHIFTED))


@rule("std")
def std(q: Any, *rest: Any) -> Any:
    """The forms of std: (unbiased), (dim, unbiased, keepdim), (dim, correction, keepdim)."""
    if len(rest) == 1:
        return deviation(q, None, float(rest[0]), False)
    dim, given, keepdim = rest
    return deviation(q, dim, 1.0 if given is None else float(given), keepdim)


# --- normalisation ----------------------------------------------------------------------------------------------------


def moments(integers: Any, dims: Sequence[int], count: int, q: Any, eps: float) -> tuple[Any, Any]:
    """The mean of rows, seen from the zero point, and the scale over their deviation."""
    scale, zero_point = qparams(q, "norm")
    total, squares = sums(integers, dims, True)
    return ops["_quantized_moments"](total, squares, float(count), float(zero_point), scale, eps)


def layer_normalised(
    q: Any, count: int, weight: Any, bias: Any, eps: float, scale: float, zero_point: int
) -> Any:
    """Rows of `count` elements, normalised; elements past the last whole vector are computed one by one."""
    integers = ints(q).contiguous()
    rows = integers.view(-1, count)
    mean, factor = moments(rows, (-1,), count, q, eps)
    ends, op = writing(scale, zero_point, rows.dtype.code), ops["_quantized_normal"]
    own_zero = qparams(q)[1]
    weight, bias = (flat(t, count, n, rows) for t, n in ((weight, 1.0), (bias, 0.0)))
    result = rows.new_empty(rows.shape)
    cut = count - count % lanes_of(rows)
    for fused, part in ((True, slice(0, cut)), (False, slice(cut, count))):
        if part.start < part.stop:
            op(rows[:, part], mean, factor, weight[part], bias[part], own_zero, *ends[fused], fused,
               out=result[:, part])
    return put(result.view(q.shape), q.dtype, PerTensor(scale, zero_point))


def lanes_of(integers: Any) -> int:
    """Elements of one of PyTorch's vectors of quantized tensors."""
    return 32 // integers.dtype.itemsize


def flat(given: Any, count: int, missing: float, like_: Any) -> Any:
    """A weight or bias as a vector of float32."""
    if given is None:
        return ops["full"]((count,), missing, dtype=_C.float32, device=like_.device)
    return given.reshape(-1)


def group_normalised(
    q: Any, groups: int, weight: Any, bias: Any, eps: float, scale: float, zero_point: int
) -> Any:
    """The groups of channels of each example, normalised."""
    if is_channels_last(q, 2):
        return group_normalised_by_pixel(q, groups, weight, bias, eps, scale, zero_point)
    integers = ints(q).contiguous()
    batch, channels = q.shape[:2]
    rows = integers.view(batch, groups, channels // groups, -1)
    mean, factor = moments(rows, (2, 3), rows.shape[2] * rows.shape[3], q, eps)
    weight, bias = (flat(t, channels, n, rows).view(1, groups, -1, 1) for t, n in ((weight, 1.0), (bias, 0.0)))
    ends = writing(scale, zero_point, rows.dtype.code)[1]
    result = ops["_quantized_normal"](rows, mean, None, factor * weight, bias, qparams(q)[1], *ends, True)
    return put(result.view(q.shape), q.dtype, PerTensor(scale, zero_point))


def group_normalised_by_pixel(
    q: Any, groups: int, weight: Any, bias: Any, eps: float, scale: float, zero_point: int
) -> Any:
    """The same where channels lie last."""
    integers = ints(q)
    batch, channels = q.shape[:2]
    rows = integers.movedim(1, -1).reshape(batch, -1, groups, channels // groups)      # a view: channels lie last
    mean, factor = moments(rows, (1, 3), rows.shape[1] * rows.shape[3], q, eps)
    weight, bias = (flat(t, channels, n, rows).view(1, 1, groups, -1) for t, n in ((weight, 1.0), (bias, 0.0)))
    weight = factor * weight
    bias = ops["_quantized_fma"](-weight, mean, bias)
    small = rows.shape[1] < FEATURE_MAP
    if not small:      # vectors go over all channels
        rows, weight, bias = (t.flatten(2).unsqueeze(2) for t in (rows, weight, bias))
    ends, op = writing(scale, zero_point, rows.dtype.code), ops["_quantized_normal"]
    result, count = rows.new_empty(rows.shape), rows.shape[-1]
    cut = count - count % lanes_of(rows)
    for fused, part in ((True, slice(0, cut)), (False, slice(cut, count))):
        if part.start < part.stop:
            op(rows[..., part], None, None, weight[..., part], bias[..., part], qparams(q)[1], *ends[fused], fused,
               out=result[..., part])
    shape = (batch, *q.shape[2:], channels)
    return put(result.view(shape).movedim(-1, 1), q.dtype, PerTensor(scale, zero_point))


def check_input(name: str, q: Any, ranks: Sequence[int] = ()) -> None:
    """Raise unless the input is quantized per tensor and has one of these numbers of dims."""
    if not is_quantized(q):
        raise NotImplementedError(f"{name}: expected a quantized tensor, got one of {q.dtype}")
    qparams(q, name)
    if ranks and q.ndim not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise RuntimeError(f"{name}: expecting the input tensor of rank {wanted}, got {q.ndim}")


def batch_normalised(
    name: str, ranks: Sequence[int], q: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float, scale: float,
    zero_point: int, relu: bool,
) -> Any:
    """Channels of `q`, moved and scaled by statistics that are given."""
    check_input(name, q)
    for label, t in (("Weight", weight), ("Bias", bias)):
        if t is None:
            raise RuntimeError(f"{name}: {label} must be provided")
    if q.numel() == 0:
        return q.clone()
    check_input(name, q, ranks)
    for label, t in (("weight", weight), ("bias", bias), ("mean", mean), ("var", var)):
        if t.numel() != q.shape[1]:
            raise RuntimeError(
                f"{name}: expected {label} to have one element for each of {q.shape[1]} channels, got"
                f" {t.numel()}"
            )
    own, own_zero = qparams(q)
    shape = (-1, *[1] * (q.ndim - 2))
    inverse = (1.0 / (var + single(eps)).to(_C.float32).sqrt().to(_C.float64)).to(_C.float32)
    alpha = ((inverse * weight).to(_C.float64) * (own / scale)).to(_C.float32)
    beta = (ops["_quantized_fma"](-(mean * inverse), weight, bias).to(_C.float64) / scale).to(_C.float32)
    integers = ints(q)
    if q.ndim in (4, 5):
        integers = integers.contiguous(memory_format=channels_last if q.ndim == 4 else channels_last_3d)
    limits = bounds(zero_point, integers.dtype.code, relu)
    result = ops["_quantized_scaled"](integers, alpha.view(shape), beta.view(shape), own_zero, *limits)
    return put(result, q.dtype, PerTensor(scale, zero_point))


class QuantizedBatchNorm(Composite):
    """Channels of quantized images, moved and scaled by statistics that are given."""

    schema = (
        "quantized_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, float"
        " output_scale, int output_zero_point) -> Tensor"
    )
    method = out = differentiable = False

    def compute(self, input, weight, bias, mean, var, eps, output_scale, output_zero_point):
        return batch_normalised(
            "quantized_batch_norm", (4,), input, weight, bias, mean, var, eps, output_scale, output_zero_point, False
        )
