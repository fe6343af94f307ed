"""Fake quantization: floats rounded to the grid that quantized tensors could hold, with gradients for training.

Enters: floats, a scale and a zero point (numbers, tensors of one element, or one for each channel). Leaves: floats on
the grid, and a mask of the elements that lay within it: where it is False the gradient is 0. Refuses: other dtypes,
ranges that are empty, zero points outside of them, qparams of the wrong length. Rounding is half to even.

The arithmetic is PyTorch's: the inverse of the scale is taken in single precision, products in the input's (half types
in single). Per tensor, values beyond the grid are its ends; per channel PyTorch goes through 64-bit integers, so that
what these cannot hold becomes the lowest of the grid. NaN is the lowest in both.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...autograd import no_grad
from ...op import Composite, Pointwise, Promote, ops, wrap_dim

FLOATS = (_C.float32, _C.float64, _C.float16, _C.bfloat16)
BEYOND = 2.0**63    # what 64-bit integers cannot hold
SMALL_SCALE = 6.1e-5    # scales below it are in float16's subnormal range


class FakeQuantizedElements(Pointwise):
    """(The nearest number of the grid, whether the element lies within it), computed as kinds of qparams ask."""

    schema = (
        "_fake_quantized_elements(Tensor input, Tensor|Scalar scale, Tensor|Scalar zero_point, Tensor? enabled,"
        " int low, int high, bool by_channel) -> (Tensor, Tensor)"
    )
    function = method = inplace = out = differentiable = False
    apart = wide = ("scale", "zero_point", "enabled")

    def expr(self, s, x, scale, zero_point, enabled, low, high, by_channel):
        scale, inverse = s.cast(scale, "f32"), s.cast(1 / s.cast(scale, "f32"), x.dtype)
        is_fraction = by_channel and s.is_float(zero_point)
        zero_point = s.cast(zero_point if is_fraction else s.cast(zero_point, "i32"), "f64" if by_channel else "f32")
        # integers of more bits than single precision has take double, which holds them as PyTorch's 64 bits do
        wide = is_fraction or high - low >= 2**24
        code = "f32" if not by_channel else "f64" if wide else x.dtype
        if is_fraction:
            place = s.rint(x * inverse + s.cast(zero_point, x.dtype))
        else:
            sum_code = code if by_channel else x.dtype
            place = s.cast(s.rint(x * inverse), sum_code) + s.cast(zero_point, sum_code)
        if by_channel:
            place = s.where(s.lt(s.abs(place), BEYOND), place, s.const(-BEYOND, place.dtype))
        inside = s.logical_and(s.ge(place, low), s.le(place, high))
        held = s.fmin(s.fmax(place, low), high)
        held = s.cast(held, code) if by_channel else held
        result = s.cast(held - s.cast(zero_point, held.dtype), code) * s.cast(scale, code)
        if enabled is None:
            return result, inside
        is_on = s.ne(enabled, 0)
        return s.where(is_on, s.cast(result, x.dtype), x), s.logical_or(inside, s.logical_not(is_on))

    def result_dtype(self, common, *args):
        return common, _C.bool


def check_range(name: str, low: int, high: int) -> None:
    """Raise for a range without integers."""
    if low > high:
        raise RuntimeError(f"{name}: `quant_min` should be less than or equal to `quant_max`, got {low} and {high}")


def check_floats(name: str, input: Any) -> None:
    """Raise for an input that is no float."""
    if input.dtype not in FLOATS:
        raise NotImplementedError(f'"{name}" not implemented for \'{input.dtype.name}\': expected a tensor of floats')


def single(t: Any) -> Any:
    """A tensor of one element, without dims, so that it gives results none."""
    if t.numel() != 1:
        raise RuntimeError(f"a Tensor with {t.numel()} elements cannot be converted to Scalar")
    return t.reshape([]) if t.ndim else t


class _Masked(Composite):
    """Ops of (result, mask) whose gradient passes where the mask is True."""

    method = False
    saved_results = (1,)

    def vjp(self, g, result):
        return {"input": None if g[0] is None else g[0] * result[1]}


class FakeQuantizePerTensorAffineCachemask(_Masked):
    """(`input` on the grid of one scale and one zero point, which elements lay within it)."""

    schema = (
        "fake_quantize_per_tensor_affine_cachemask(Tensor input, float scale, int zero_point, int quant_min,"
        " int quant_max) -> (Tensor output, Tensor mask)"
    )
    function = False

    def compute(self, input, scale, zero_point, quant_min, quant_max):
        check_floats(self.name, input)
        check_range(self.name, quant_min, quant_max)
        if not quant_min <= zero_point <= quant_max:
            raise RuntimeError(
                f"{self.name}: `zero_point` must be between `quant_min` and `quant_max` ({quant_min} and {quant_max}),"
                f" got {zero_point}"
            )
        return ops["_fake_quantized_elements"](input, scale, zero_point, None, quant_min, quant_max, False)


class FakeQuantizePerTensorAffineCachemaskTensorQparams(_Masked):
    """The same with qparams in tensors of one element, and a third that says whether to round at all."""

    schema = (
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor input, Tensor scale, Tensor zero_point,"
        " Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)"
    )

    def compute(self, input, scale, zero_point, fake_quant_enabled, quant_min, quant_max):
        check_floats(self.name, input)
        check_range(self.name, quant_min, quant_max)
        qparams = single(scale.detach()), single(zero_point.detach()), single(fake_quant_enabled)
        return ops["_fake_quantized_elements"](input, *qparams, quant_min, quant_max, False)


class FakeQuantizePerChannelAffineCachemask(_Masked):
    """(`input` on a grid for each index of `axis`, which elements lay within it)."""

    schema = (
        "fake_quantize_per_channel_affine_cachemask(Tensor input, Tensor scale, Tensor zero_point, int axis,"
        " int quant_min, int quant_max) -> (Tensor output, Tensor mask)"
    )
    function = False

    def compute(self, input, scale, zero_point, axis, quant_min, quant_max):
        check_channels(self.name, input, scale, zero_point, axis)
        check_range(self.name, quant_min, quant_max)
        if not zero_point.dtype.is_floating_point:
            check_points(self.name, zero_point, quant_min, quant_max)
        shape = [-1 if dim == axis else 1 for dim in range(input.ndim)]
        qparams = scale.detach().reshape(shape), zero_point.detach().reshape(shape)
        return ops["_fake_quantized_elements"](input, *qparams, None, quant_min, quant_max, True)


def check_channels(name: str, input: Any, scale: Any, zero_point: Any, axis: int) -> None:
    """Raise for qparams that do not fit the indices of `axis`."""
    if scale.dtype not in (_C.float32, _C.bfloat16):
        raise RuntimeError(f"{name}: Scale must be Float or BFloat16, found {scale.dtype}")
    if zero_point.dtype not in (_C.int32, _C.float32, _C.float16):
        raise RuntimeError(f"{name}: Zero-point must be Int32, Float or Half, found {zero_point.dtype}")
    if scale.ndim != 1 or zero_point.ndim != 1:
        raise RuntimeError(
            f"{name}: scale and zero_point should be 1-D tensors, got {scale.ndim} and {zero_point.ndim} dims"
        )
    if scale.numel() != zero_point.numel():
        raise RuntimeError(
            f"{name}: scale and zero-point need to have the same dimensions, got {scale.numel()} and"
            f" {zero_point.numel()}"
        )
    if input.ndim == 0:
        raise IndexError(f"{name}: Dimension specified as {axis} but tensor has no dimensions")
    if scale.numel() != input.shape[wrap_dim(name, axis, input.ndim)]:
        raise RuntimeError(
            f"{name}: dimensions of scale and zero-point are not consistent with input tensor: got {scale.numel()},"
            f" expected one for each index of dim {axis} of {list(input.shape)}"
        )
    if axis < 0:
        raise RuntimeError(f"{name}: `axis` must be between 0 and number of dimensions of input, got {axis}")
    check_floats(name, input)


def check_points(name: str, zero_point: Any, low: int, high: int) -> None:
    """Raise for zero points out of the range, where there are elements to look at."""
    if zero_point.numel() == 0:
        raise RuntimeError(f"{name}: expected channels, got a zero_point without elements")
    if zero_point._keys or zero_point.device.type == "meta":    # nothing to look at yet
        return
    values = zero_point.tolist()
    if min(values) < low or max(values) > high:
        raise RuntimeError(
            f"{name}: `zero_point` must be between `quant_min` and `quant_max` ({low} and {high}), got {min(values)} to"
            f" {max(values)}"
        )


class FakeQuantizePerTensorAffineCachemaskBackward(Composite):
    """The gradient where elements lay within the grid."""

    schema = "fake_quantize_per_tensor_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor"
    function = method = out = False

    def compute(self, grad, mask):
        if mask.dtype is not _C.bool:
            raise RuntimeError(f"{self.name}: mask must be of bool, got {mask.dtype}")
        if mask.numel() != grad.numel():
            raise RuntimeError(
                f"{self.name}: `mask` and `grad` are not the same size: {list(mask.shape)} and {list(grad.shape)}"
            )
        return grad * mask if grad.numel() else grad


class FakeQuantizePerChannelAffineCachemaskBackward(FakeQuantizePerTensorAffineCachemaskBackward):
    """The same, of a grid for each channel."""

    schema = "fake_quantize_per_channel_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor"


class FakeQuantizePerTensorAffine(Composite):
    """`input` rounded to multiples of `scale`, those that integers from quant_min to quant_max can stand for."""

    schema = (
        "fake_quantize_per_tensor_affine(Tensor input, float scale, int zero_point, int quant_min, int quant_max)"
        " -> Tensor",
        "fake_quantize_per_tensor_affine.tensor_qparams(Tensor input, Tensor scale, Tensor zero_point, int quant_min,"
        " int quant_max) -> Tensor",
    )
    method = out = False

    def compute(self, input, scale, zero_point, quant_min, quant_max):
        if isinstance(scale, _C.Tensor):
            on = ops["ones"](1, dtype=_C.int64, device=input.device)
            op = ops["_fake_quantize_per_tensor_affine_cachemask_tensor_qparams"]
            return op(input, scale, zero_point, on, quant_min, quant_max)[0]
        op = ops["fake_quantize_per_tensor_affine_cachemask"]
        return op(input, scale, zero_point, quant_min, quant_max)[0]


class FakeQuantizePerChannelAffine(Composite):
    """The same with a scale and a zero point for each index of `axis`."""

    schema = (
        "fake_quantize_per_channel_affine(Tensor input, Tensor scale, Tensor zero_point, int axis, int quant_min,"
        " int quant_max) -> Tensor"
    )
    method = out = False

    def compute(self, *args):
        return ops["fake_quantize_per_channel_affine_cachemask"](*args)[0]


# --- qparams that learn -----------------------------------------------------------------------------------------------


class LearnableGradients(Pointwise):
    """What one element adds to the gradients of input, scale and zero point, the latter times `grad_factor`."""

    schema = (
        "_learnable_gradients(Tensor grad, Tensor input, Tensor scale, Tensor zero_point, Scalar grad_factor, int low,"
        " int high) -> (Tensor, Tensor, Tensor)"
    )
    function = method = inplace = out = differentiable = False
    apart = wide = ("scale", "zero_point", "grad_factor")

    def expr(self, s, g, x, scale, zero_point, grad_factor, low, high):
        scale, zero_point = s.cast(scale, "f32"), s.cast(zero_point, "f32")
        inverse = 1 / scale
        # the two sums round once, as PyTorch's compiled kernels do
        place = s.rint(s.fma(x, inverse, zero_point))
        is_low, is_high = s.lt(place, low), s.gt(place, high)
        is_out = s.logical_or(is_low, is_high)
        error = s.fma(s.fmin(s.fmax(place, low), high) - zero_point, scale, -x)
        ends = g * s.where(is_low, low - zero_point, high - zero_point) * grad_factor
        to_scale = s.where(is_out, ends, g * error * inverse * grad_factor)
        to_point = s.where(is_out, g * -1 * scale * grad_factor, s.const(0, "f32"))
        return g * s.cast(s.logical_not(is_out), "f32"), to_scale, to_point

    def result_dtype(self, common, *args):
        return common, _C.float32, _C.float32


def rounded_points(zero_point: Any, low: int, high: int) -> Any:
    """Learned zero points as the integers of the range that they are nearest to."""
    return zero_point.detach().round().clamp(low, high)


def check_learnable(name: str, input: Any, low: int, high: int) -> None:
    """Raise for a range that does not hold 0."""
    check_floats(name, input)
    if not low <= 0 <= high:
        raise RuntimeError(
            f"{name}: `quant_min` should be less than or equal to `quant_max`, and the quantization range should"
            f" include 0, got {low} and {high}"
        )


class FakeQuantizeLearnablePerTensorAffine(Composite):
    """Fake quantization whose scale and zero point (tensors of one element) have gradients too."""

    schema = (
        "_fake_quantize_learnable_per_tensor_affine(Tensor input, Tensor scale, Tensor zero_point, int quant_min,"
        " int quant_max, float grad_factor=1.0) -> Tensor"
    )
    method = False

    def compute(self, input, scale, zero_point, quant_min, quant_max, grad_factor):
        check_learnable(self.name, input, quant_min, quant_max)
        points = rounded_points(zero_point[0], quant_min, quant_max)
        qparams = scale.detach()[0], points
        return ops["_fake_quantized_elements"](input.detach(), *qparams, None, quant_min, quant_max, False)[0]

    def vjp(self, g, input, scale, zero_point, quant_min, quant_max, grad_factor):
        op = ops["_fake_quantize_learnable_per_tensor_affine_backward"]
        found = op(g, input, scale, zero_point, quant_min, quant_max, grad_factor)
        return dict(zip(("input", "scale", "zero_point"), found, strict=True))


class FakeQuantizeLearnablePerTensorAffineBackward(Composite):
    """Gradients of input, scale and zero point."""

    schema = (
        "_fake_quantize_learnable_per_tensor_affine_backward(Tensor grad, Tensor input, Tensor scale,"
        " Tensor zero_point, int quant_min, int quant_max, float grad_factor=1.0) -> (Tensor, Tensor, Tensor)"
    )
    function = method = out = differentiable = False

    def compute(self, grad, input, scale, zero_point, quant_min, quant_max, grad_factor):
        check_gradients(self.name, grad, input, scale)
        # this one gradient of PyTorch's rounds halves up, and what is negative towards 0
        points = (zero_point.detach()[0] + 0.5).clamp(quant_min, quant_max).trunc()
        op = ops["_learnable_gradients"]
        found = op(grad, input.detach(), scale.detach()[0], points, grad_factor, quant_min, quant_max)
        return found[0], found[1].sum().reshape(1), found[2].sum().reshape(1)


def check_gradients(name: str, *tensors: Any) -> None:
    """Raise for gradients and scales that are not of single precision."""
    for t in tensors:
        if t.dtype not in (_C.float32, _C.bfloat16):
            raise RuntimeError(f"{name}: gradients of qparams are computed in float32, got a tensor of {t.dtype}")


class FakeQuantizeLearnablePerChannelAffine(Composite):
    """The same with a scale and a zero point for each index of `axis`."""

    schema = (
        "_fake_quantize_learnable_per_channel_affine(Tensor input, Tensor scale, Tensor zero_point, int axis,"
        " int quant_min, int quant_max, float grad_factor=1.0) -> Tensor"
    )
    method = False

    def compute(self, input, scale, zero_point, axis, quant_min, quant_max, grad_factor):
        check_learnable(self.name, input, quant_min, quant_max)
        points = rounded_points(zero_point, quant_min, quant_max).to(_C.int32)
        op = ops["fake_quantize_per_channel_affine_cachemask"]
        return op(input.detach(), scale.detach(), points, axis, quant_min, quant_max)[0]

    def vjp(self, g, input, scale, zero_point, axis, quant_min, quant_max, grad_factor):
        op = ops["_fake_quantize_learnable_per_channel_affine_backward"]
        found = op(g, input, scale, zero_point, axis, quant_min, quant_max, grad_factor)
        return dict(zip(("input", "scale", "zero_point"), found, strict=True))


class FakeQuantizeLearnablePerChannelAffineBackward(Composite):
    """Gradients of input, scales and zero points."""

    schema = (
        "_fake_quantize_learnable_per_channel_affine_backward(Tensor grad, Tensor input, Tensor scale,"
        " Tensor zero_point, int axis, int quant_min, int quant_max, float grad_factor=1.0) -> (Tensor, Tensor, Tensor)"
    )
    function = method = out = differentiable = False

    def compute(self, grad, input, scale, zero_point, axis, quant_min, quant_max, grad_factor):
        check_gradients(self.name, grad, input, scale)
        shape = [-1 if dim == axis else 1 for dim in range(input.ndim)]
        points = rounded_points(zero_point, quant_min, quant_max).reshape(shape)
        op = ops["_learnable_gradients"]
        scales = scale.detach().reshape(shape)
        found = op(grad, input.detach(), scales, points, grad_factor, quant_min, quant_max)
        others = [dim for dim in range(input.ndim) if dim != axis]
        return found[0], *[t.sum(others) if others else t for t in found[1:]]


# --- observed and rounded in one op -----------------------------------------------------------------------------------


class ObservedRange(Pointwise):
    """A moving range after one more tensor, and the qparams that map it onto integers: (min, max, scale, zero point).

    A range that was never moved is infinite, and becomes that of the tensor. Scales are those of PyTorch's kernels
    (fbgemm's ChooseQuantizationParams): none below float16's normal range, and 0 stands for an integer exactly.
    """

    schema = (
        "_observed_range(Tensor kept_min, Tensor kept_max, Tensor new_min, Tensor new_max, Scalar share, int low,"
        " int high, bool symmetric) -> (Tensor, Tensor, Tensor, Tensor)"
    )
    function = method = inplace = out = differentiable = False

    def expr(self, s, kept_min, kept_max, new_min, new_max, share, low, high, symmetric):
        least = s.where(s.isinf(kept_min), new_min, kept_min + share * (new_min - kept_min))
        most = s.where(s.isinf(kept_max), new_max, kept_max + share * (new_max - kept_max))
        return least, most, *chosen_qparams(s, least, most, low, high, symmetric)

    def result_dtype(self, common, *args):
        return common, common, common, _C.int32


def chosen_qparams(s: Any, least: Any, most: Any, low: int, high: int, symmetric: bool) -> tuple[Any, Any]:
    """Scale and zero point that map the range, widened to hold 0, onto the integers from `low` to `high`."""
    has_both = s.logical_and(s.lt(least, 0), s.gt(most, 0))
    if symmetric:
        half = (high - low) // 2
        reach = s.maximum(s.abs(least / (-half - 1)), s.abs(most / half))
        wide = s.cast(reach, "f64")
        least = s.where(has_both, s.cast(wide * (-half - 1), "f32"), least)
        most = s.where(has_both, s.cast(wide * half, "f32"), most)
    least, most = s.fmin(least, 0), s.fmax(most, 0)
    scale = (s.cast(most, "f64") - s.cast(least, "f64")) / (high - low)
    in_single = s.cast(scale, "f32")
    has_no_inverse = s.logical_or(s.eq(in_single, 0), s.isinf(1 / in_single))
    scale = s.where(has_no_inverse, s.const(0.1, "f64"), scale)
    smallest = s.const(SMALL_SCALE, "f32")
    is_small = s.lt(scale, s.cast(smallest, "f64"))
    grown = smallest / s.cast(scale, "f32")
    reach = smallest * (high - low)
    new_most = s.where(s.eq(least, 0), reach, s.where(s.eq(most, 0), most, most * grown))
    new_least = s.where(s.eq(least, 0), least, s.where(s.eq(most, 0), -reach, least * grown))
    least, most = s.where(is_small, new_least, least), s.where(is_small, new_most, most)
    scale = s.where(is_small, s.cast(smallest, "f64"), scale)
    below, above = s.cast(least, "f64") / scale, s.cast(most, "f64") / scale
    is_near = s.lt(abs(low) - s.abs(below), abs(high) - s.abs(above))
    point = s.where(is_near, low - below, high - above)
    if symmetric:
        has_both = s.logical_and(s.lt(least, 0), s.gt(most, 0))
        point = s.where(has_both, s.const((low + high) / 2, "f64"), point)
    return s.cast(scale, "f32"), s.cast(s.clamp(s.rint(point), low, high), "i32")


class FusedMovingAvgObsFqHelper(Composite):
    """(`input` on the grid of a moving range, which elements lay within it); the range and its qparams are written.

    `observer_on` and `fake_quant_on` are tensors of one element: whether the range moves, whether anything is rounded.
    With `per_row_fake_quant` each index of `ch_axis` has a range, and buffers without elements become as long.
    """

    schema = (
        "_fused_moving_avg_obs_fq_helper(Tensor input, Tensor observer_on, Tensor fake_quant_on,"
        " Tensor(a!) running_min, Tensor(b!) running_max, Tensor(c!) scale, Tensor(d!) zero_point,"
        " float averaging_const, int quant_min, int quant_max, int ch_axis, bool per_row_fake_quant=False,"
        " bool symmetric_quant=False) -> (Tensor output, Tensor mask)"
    )
    method = False
    saved_results = (1,)

    def compute(self, *args):
        return observed_and_rounded(*args)

    def vjp(self, g, result):
        return {"input": None if g[0] is None else g[0] * result[1]}


def observed_and_rounded(
    input: Any, observer_on: Any, fake_quant_on: Any, running_min: Any, running_max: Any, scale: Any, zero_point: Any,
    share: float, low: int, high: int, axis: int, by_row: bool, symmetric: bool,
) -> tuple[Any, Any]:
    """(`input` on the grid of the moved range, which elements lay within it), by ops that have derivatives."""
    name = "fused_moving_avg_obs_fake_quant"
    check_floats(name, input)
    if input.numel() == 0:
        raise RuntimeError(f"{name}: expected an input with elements, got the shape {list(input.shape)}")
    if by_row and axis != 0:
        raise RuntimeError(f"{name}: per-channel ranges are only supported on axis == 0, got {axis}")
    observes, rounds = switch(observer_on), switch(fake_quant_on)
    if observes is not False:
        with no_grad():
            buffers = running_min, running_max, scale, zero_point
            observe(input.detach(), buffers, share, (low, high), by_row, symmetric, observes)
    if rounds is False:
        return input.clone(), ops["ones_like"](input, dtype=_C.bool)
    if not by_row:
        op = ops["_fake_quantize_per_tensor_affine_cachemask_tensor_qparams"]
        return op(input, scale, zero_point, fake_quant_on, low, high)
    result, mask = ops["fake_quantize_per_channel_affine_cachemask"](input, scale, zero_point, axis, low, high)
    return (result, mask) if rounds is True else (ops["where"](rounds, result, input), mask | ~rounds)


def switch(t: Any) -> Any:
    """Whether a tensor of one element is not 0; a tensor of that where there is nothing to read yet."""
    return (single(t) != 0) if t._keys or t.device.type == "meta" else bool(t.item())


def observe(
    input: Any, buffers: tuple, share: float, bounds: tuple[int, int], by_row: bool, symmetric: bool, observes: Any
) -> None:
    """Move the range in the first two buffers and write its qparams into the others, where `observes` says so."""
    if input.dtype is not _C.float32:
        raise RuntimeError(f"fused_moving_avg_obs_fake_quant: expected scalar type Float but found {input.dtype}")
    running_min, running_max, scale, zero_point = buffers
    if not by_row:
        least, most = input.aminmax()
    else:
        least, most = input.flatten(1).aminmax(dim=1)
        if running_min.numel() == 0:
            running_min.resize_(least.shape).fill_(float("inf"))
            running_max.resize_(least.shape).fill_(float("-inf"))
            scale.resize_(least.shape)
            zero_point.resize_(least.shape)
    found = ops["_observed_range"](running_min, running_max, least, most, share, *bounds, symmetric)
    for buffer, value in zip(buffers, found, strict=True):
        buffer.copy_(value if observes is True else ops["where"](observes, value, buffer))


class FusedMovingAvgObsFakeQuant(Composite):
    """`input` on the grid of a moving range, which it moves first."""

    schema = (
        "fused_moving_avg_obs_fake_quant(Tensor input, Tensor observer_on, Tensor fake_quant_on,"
        " Tensor(a!) running_min, Tensor(b!) running_max, Tensor(c!) scale, Tensor(d!) zero_point,"
        " float averaging_const, int quant_min, int quant_max, int ch_axis, bool per_row_fake_quant=False,"
        " bool symmetric_quant=False) -> Tensor"
    )
    method = out = False

    def compute(self, input, *args):
        if input.numel() == 0:
            return input
        if isinstance(switch(args[0]), bool):
            return ops["_fused_moving_avg_obs_fq_helper"](input, *args)[0]
        return observed_and_rounded(input, *args)[0]    # traced: graphs hold the writes one by one


# --- what quantized_decomposed is made of -----------------------------------------------------------------------------


class DecomposedIntegers(Pointwise):
    """clamp(round(input * inverse) + zero_point, low, high) in single precision, then in the dtype asked for."""

    schema = (
        "_decomposed_integers(Tensor input, Tensor|Scalar inverse, Tensor|Scalar zero_point, int low, int high,"
        " dtype dtype) -> Tensor"
    )
    function = method = inplace = out = differentiable = False
    apart = ("inverse", "zero_point")

    def expr(self, s, x, inverse, zero_point, low, high, dtype):
        return s.clamp(s.rint(x * s.cast(inverse, "f32")) + s.cast(zero_point, "f32"), low, high)

    def result_dtype(self, common, input, inverse, zero_point, low, high, dtype):
        return dtype


class DecomposedFloats(Pointwise):
    """(input - zero_point) * scale, in single precision."""

    schema = "_decomposed_floats(Tensor input, Tensor|Scalar scale, Tensor|Scalar zero_point) -> Tensor"
    function = method = inplace = out = differentiable = False
    promote = Promote.TO_FLOAT
    apart = ("input", "zero_point")

    def expr(self, s, x, scale, zero_point):
        return (s.cast(x, "f32") - s.cast(zero_point, "f32")) * s.cast(scale, "f32")

    def result_dtype(self, common, *args):
        return _C.float32


class FakeQuantThrough(Composite):
    """`grid`, with the gradient of `input` where the mask is True."""

    schema = "_fake_quant_through(Tensor input, Tensor grid, Tensor mask) -> Tensor"
    function = method = out = False

    def compute(self, input, grid, mask):
        return grid.clone()

    def vjp(self, g, mask):
        return {"input": g * mask}
