"""Normalisation over channels and groups: batch_norm, group_norm, instance_norm, local_response_norm and their natives.

Enters: a tensor [N, C, ...] with optional running statistics, weight and bias per channel. Leaves: the normalised
tensor, running statistics moved in place where given. Refuses: integer and complex tensors, statistics of one value,
parameters whose size is not the number of channels.

Rows that fit in cache are one kernel forward and one backward (norm/segments.py). Others come down to three: mean and
variance (a reduction), one pointwise pass that scales, and for the gradient one row program that folds `grad` and
`grad * (input - mean)` in a single reading.
"""

from __future__ import annotations

import math
from typing import Any

from ... import _C
from ...autograd import is_grad_enabled, no_grad
from ...base.shape import is_below, reaches
from ...op import Composite, Fused, Pointwise, Promote, find_op
from ...op.layout import Layout, prefers_channels_last
from ...op.multi_tensor import DeviceUpdate
from ...op.reduction import product
from ...rules.levels import readable
from .beside import by_columns, is_channels_last, moments_beside, scaled_beside
from .rows import through_body
from .segments import channels_of, groups_of

HALVES = (_C.float16, _C.bfloat16)
HOST = ("cpu", "meta")      # where statistics are as PyTorch's CPU has them
# elements of a plane, and images, for which numbers of channels are spread over all elements: loops over single planes
# would be over too soon
SHORT, MANY = 49, 4


# --- the kernels ------------------------------------------------------------------------------------------------------


class ScaledChannels(Pointwise):
    """(input - mean) * scale + bias, everything but the input broadcast; the result has the input's dtype."""

    schema = "_scaled_channels(Tensor input, Tensor mean, Tensor scale, Tensor? bias) -> Tensor"
    promote = Promote.KEEP
    wide = ("mean", "scale", "bias")
    layout = Layout.FORMAT
    function = method = inplace = out = False

    def expr(self, s, x, mean, scale, bias):
        scaled = (x - mean) * scale
        return scaled if bias is None else scaled + bias


class PairedAffine(Pointwise):
    """grad * scale + (input - mean) * slope + shift: the input gradient of every norm here."""

    schema = (
        "_paired_affine(Tensor input, Tensor grad, Tensor mean, Tensor scale, Tensor slope, Tensor shift) -> Tensor"
    )
    promote = Promote.KEEP
    wide = ("grad", "mean", "scale", "slope", "shift")
    layout = Layout.FORMAT
    function = method = inplace = out = False

    def expr(self, s, x, g, mean, scale, slope, shift):
        return g * scale + (x - mean) * slope + shift


class ChannelScale(Pointwise):
    """Per channel: 1 / deviation, and that times weight."""

    schema = "_channel_scale(Tensor variance, Tensor weight, float eps) -> (Tensor, Tensor)"
    function = method = inplace = out = False

    def expr(self, s, variance, weight, eps):
        invstd = s.rsqrt(variance + eps)
        return invstd, invstd * weight


class ChannelStatistics(Pointwise):
    """Per channel, from the sums of distances to `shift` and of their squares: mean, 1 / deviation, variance, and
    1 / deviation times weight."""

    schema = (
        "_channel_statistics(Tensor total, Tensor squares, Tensor shift, Tensor? weight, float share, float eps) ->"
        " (Tensor, Tensor, Tensor, Tensor)"
    )
    function = method = inplace = out = False

    def expr(self, s, total, squares, shift, weight, share, eps):
        distance = total * share
        variance = s.relu(squares * share - distance * distance)
        invstd = s.rsqrt(variance + eps)
        return distance + shift, invstd, variance, invstd if weight is None else invstd * weight


class ChannelSlopes(Pointwise):
    """Per channel, from sums of gradients: scale, slope and shift of `_paired_affine`, and the gradients of weight and
    bias, in the weight's type."""

    schema = (
        "_channel_slopes(Tensor total, Tensor dot, Tensor invstd, Tensor weight, float share) ->"
        " (Tensor, Tensor, Tensor, Tensor, Tensor)"
    )
    function = method = inplace = out = False

    def expr(self, s, total, dot, invstd, weight, share):
        scale = invstd * weight
        return scale, scale * invstd * invstd * dot * share, scale * total * share, dot * invstd, total

    def result_dtype(self, common, total, dot, invstd, weight, share):
        return common, common, common, weight.dtype, weight.dtype


class _Paired(Fused):
    """Sums of grad and of grad * (input - mean), in the type computed in."""

    function = method = False
    differentiable = False

    def row_dims(self, *args):
        return 1

    def out_dtype(self, k, args):
        return _C.float32 if args[0].dtype in HALVES else args[0].dtype


class PairedRowSums(_Paired):
    """One pair of sums per row of [rows, cols]; mean is [rows, 1]."""

    schema = "_paired_row_sums(Tensor grad, Tensor input, Tensor mean) -> (Tensor, Tensor)"
    row_operands = ("mean",)

    def compute(self, grad, input, mean):
        return grad.sum(-1, keepdim=True), (grad * (input - mean)).sum(-1, keepdim=True)


class PairedColumnSums(_Paired):
    """One pair of sums per column of [rows, cols]; mean is [cols]."""

    schema = "_paired_column_sums(Tensor grad, Tensor input, Tensor mean) -> (Tensor, Tensor)"
    column_operands = ("mean",)

    def compute(self, grad, input, mean):
        size = mean.shape if isinstance(mean, _C.Tensor) else None
        return grad.sum_to_size(size), (grad * (input - mean)).sum_to_size(size)


class ColumnMoments(_Paired):
    """Per column of [rows, cols], the sums of distances to `shift` and of their squares; shift is [cols]."""

    schema = "_column_moments(Tensor input, Tensor shift) -> (Tensor, Tensor)"
    column_operands = ("shift",)

    def compute(self, input, shift):
        size = shift.shape if isinstance(shift, _C.Tensor) else None
        distance = input - shift
        return distance.sum_to_size(size), (distance * distance).sum_to_size(size)


def channel_sums(grad: Any, input: Any, mean: Any) -> tuple[Any, Any]:
    """Per channel of [N, C, ...]: the sums of grad and of grad * (input - mean)."""
    count, channels = input.shape[:2]
    length = product(input.shape[2:])
    if length == 1 or is_channels_last(input):
        return find_op("_paired_column_sums")(by_columns(grad), by_columns(input), mean)
    rows = [t.reshape(count * channels, length) for t in (grad, input)]
    sums = find_op("_paired_row_sums")(*rows, mean.expand(count, channels).reshape(-1, 1))
    return tuple(t.reshape(count, channels).sum(0) for t in sums)


def is_dense(*tensors: Any) -> bool:
    """Whether the elements of all given tensors are there and lie in order."""
    return all(t is None or (t._is_contiguous() and readable(t)) for t in tensors)


def moments(input: Any, dims: tuple[int, ...]) -> tuple[Any, Any]:
    """Mean and variance (divided by the count) over `dims`; half types in float32."""
    if input.dtype in HALVES:
        variance, mean = find_op("_wide_var_mean")(input.detach(), dims, correction=0)
    else:
        variance, mean = find_op("var_mean")(input, dims, correction=0)
    return mean, variance


def spread(v: Any, ndim: int) -> Any:
    """[C] as [C, 1, ...], to stand beside [N, C, ...]."""
    return None if v is None else (v.view if v._is_contiguous() else v.reshape)((-1, *(1,) * (ndim - 2)))


def beside(t: Any, ndim: int) -> Any:
    """[N, C, 1] as [N, C, 1, ...], or [N, C]: numbers per item and channel, to stand beside [N, C, ...]."""
    return t.reshape((*t.shape[:2], *(1,) * (ndim - 2)))


def scaled(input: Any, mean: Any, scale: Any, bias: Any) -> Any:
    """(input - mean) * scale + bias, with a number of each per channel."""
    kernel, numbers = find_op("_scaled_channels"), (mean, scale, bias)
    if input.ndim > 2 and input.device.type == "cpu" and not is_grad_enabled() and is_dense(input, *numbers):
        length = product(input.shape[2:])
        if reaches(length, 2) and is_below(length, SHORT + 1) and reaches(input.shape[0], MANY):
            at = [None if v is None else v.view((-1, 1)).expand((-1, length)).reshape(-1) for v in numbers]
            return kernel(input.view((input.shape[0], -1)), *at).view(input.shape)
    if input.ndim > 2 and not is_grad_enabled() and all(v is None or v._is_contiguous() for v in numbers):
        found = scaled_beside(input, *numbers)
        if found is not None:
            return found
    return kernel(input, *[spread(v, input.ndim) for v in numbers])


# --- batch statistics -------------------------------------------------------------------------------------------------


class ChannelNorm(Composite):
    """input normalised by the statistics of each channel, and those: mean, 1 / deviation, variance."""

    schema = "_channel_norm(Tensor input, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor, Tensor)"
    replays = True
    function = method = out = False

    def compute(self, input, weight, bias, eps):
        rows = channels_of(input.shape, product(input.shape[2:]))
        if is_dense(input, weight, bias) and rows.fits(input.itemsize):
            return find_op("_segment_norm")(input, weight, bias, *rows, eps)
        if input.dtype in HALVES and input.device.type != "cpu" and readable(input) and is_channels_last(input):
            # Sums around the first element: half types have too few digits for what they lose in single precision.
            found = by_columns(input.detach())
            shift, share = found[0], 1.0 / found.shape[0]
            sums = find_op("_column_moments")(found, shift)
            mean, invstd, variance, scale = find_op("_channel_statistics")(*sums, shift, weight, share, eps)
            at = [spread(v, input.ndim) for v in (mean, scale, bias)]
            return find_op("_scaled_channels")(input, *at), mean, invstd, variance
        found = moments_beside(input) if input.ndim > 2 else None
        mean, variance = moments(input, (0, *range(2, input.ndim))) if found is None else found
        if weight is None:
            invstd = scale = (variance + eps).rsqrt()
        else:
            invstd, scale = find_op("_channel_scale")(variance, weight, eps)
        return scaled(input, mean, scale, bias), mean, invstd, variance

    saved_results = (1, 2)

    def vjp(self, g, input, weight, bias, eps, result):
        statistics = None
        if any(d is not None for d in g[1:]):   # forward mode asks how they change, their readers may be taken apart
            statistics = through_body(lambda x: channel_statistics(x, eps), g[1:], {"input": input}).get("input")
        if g[0] is None:
            return {"input": statistics}
        d_input, d_weight, d_bias = find_op("_channel_norm_backward")(g[0], input, weight, result[1], result[2], eps)
        return {
            "input": d_input if statistics is None else d_input + statistics,
            "weight": None if weight is None else d_weight.to(weight.dtype),
            "bias": None if bias is None else d_bias.to(bias.dtype),
        }


def channel_statistics(input: Any, eps: float) -> tuple[Any, Any, Any]:
    """Mean, 1 / deviation and variance of every channel, as differentiable expressions."""
    dims = (0, *range(2, input.ndim))
    wide = input.to(_C.float32) if input.dtype in HALVES else input
    centred = wide - wide.mean(dims, keepdim=True)
    variance = (centred * centred).mean(dims)
    return wide.mean(dims), (variance + eps).rsqrt(), variance


class ChannelNormBackward(Composite):
    """Gradients of _channel_norm for input, weight and bias."""

    schema = (
        "_channel_norm_backward(Tensor grad, Tensor input, Tensor? weight, Tensor mean, Tensor invstd, float eps) ->"
        " (Tensor, Tensor, Tensor)"
    )
    function = method = out = False

    def compute(self, grad, input, weight, mean, invstd, eps):
        rows = channels_of(input.shape, product(input.shape[2:]))
        if is_dense(input, weight) and rows.fits(2 * input.itemsize):
            result, totals, dots = find_op("_segment_norm_backward")(
                grad.contiguous(), input, mean, invstd, weight, *rows
            )
            return result, dots.sum(1) * invstd, totals.sum(1)
        total, dot = channel_sums(grad, input, mean)
        count = max(1, input.numel() // max(1, input.shape[1]))
        if weight is None:
            share = -1.0 / count
            scale, d_weight, shift = invstd, dot * invstd, invstd * total * share
            slope = invstd * invstd * d_weight * share
        else:
            result = find_op("_channel_slopes")(total, dot, invstd, weight, -1.0 / count)
            scale, slope, shift, d_weight, total = result
        at = [spread(v, input.ndim) for v in (mean, scale, slope, shift)]
        return find_op("_paired_affine")(input, grad, *at), d_weight, total

    def vjp(self, g, grad, input, weight, eps):
        def body(grad, input, weight):
            dims = (0, *range(2, input.ndim))
            return normal_gradients(grad, input, spread(weight, input.ndim), dims, dims, eps)

        return through_body(body, g, {"grad": grad, "input": input, "weight": weight})


def normal_gradients(
    grad: Any, input: Any, weight: Any, dims: tuple[int, ...], channel_dims: tuple[int, ...], eps: float
) -> tuple:
    """Gradients of (input - mean) / deviation * weight as differentiable expressions; statistics are over `dims`."""
    mean = input.mean(dims, keepdim=True)
    centred = input - mean
    invstd = ((centred * centred).mean(dims, keepdim=True) + eps).rsqrt()
    normal = centred * invstd
    scaled = grad if weight is None else grad * weight
    d_input = invstd * (scaled - scaled.mean(dims, keepdim=True) - normal * (scaled * normal).mean(dims, keepdim=True))
    return d_input, (grad * normal).sum(channel_dims), grad.sum(channel_dims)


def check_channels(input: Any, **parameters: Any) -> None:
    """Types and sizes batch_norm takes."""
    if not input.is_floating_point():
        raise NotImplementedError(
            f'"batch_norm" not implemented for {input.dtype.name} tensors. Cast to a floating type first.'
        )
    channels = input.shape[1] if input.ndim > 1 else 0
    for name, p in parameters.items():
        if p is not None and p.numel() != channels:
            raise RuntimeError(f"batch_norm: {name} should contain {channels} elements not {p.numel()}")


def move_running(running: Any, value: Any, momentum: float) -> None:
    """running = (1 - momentum) * running + momentum * value, in place."""
    if running is not None:
        with no_grad():
            running.detach().lerp_(value.detach().to(running.dtype), momentum)


def moved(s: Any, tensors: list, numbers: list) -> dict[int, Any]:
    """Running mean and variance moved to those of a batch, by momentum; the variance is corrected."""
    running_mean, running_var, mean, variance = tensors
    momentum, correction = numbers
    return {0: s.lerp(running_mean, mean, momentum), 1: s.lerp(running_var, variance * correction, momentum)}


both_running = DeviceUpdate("move_running", 2, moved)


def normalised(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> tuple:
    """(result, mean, 1 / deviation) with running statistics moved when training; without batch statistics two None."""
    check_channels(input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    if not training:
        for name, running in (("running_mean", running_mean), ("running_var", running_var)):
            if running is None:
                raise RuntimeError(f"batch_norm: {name} must be defined in evaluation mode")
        mean, scale = running_mean.detach(), (running_var.detach() + eps).rsqrt()
        return scaled(input, mean, scale if weight is None else scale * weight, bias), None, None
    if input.ndim < 2:
        return input.clone(), input.new_empty((0,)), input.new_empty((0,))
    result, mean, invstd, variance = find_op("_channel_norm")(input, weight, bias, eps)
    mean, invstd, variance = mean.detach(), invstd.detach(), variance.detach()
    if input.numel():
        count = input.numel() // input.shape[1]
        correction = count / (count - 1) if count > 1 else math.inf
        statistics = (running_mean, running_var, mean, variance)
        alone = running_mean is None or running_var is None or input.device.type == "cpu"
        if alone or not both_running(statistics, (momentum, correction)):
            move_running(running_mean, mean, momentum)
            move_running(running_var, variance * correction if count > 1 else variance / 0, momentum)
    return result, mean, invstd


def in_their_type(statistics: tuple, input: Any, *parameters: Any) -> tuple:
    """Statistics in the type that PyTorch returns them in: on a CPU half types keep theirs, unless parameters are
    wider."""
    mixed = input.dtype in HALVES and (
        input.device.type not in HOST or any(p is not None and p.dtype is _C.float32 for p in parameters)
    )
    kept = _C.float32 if mixed else input.dtype
    return tuple([t.to(kept) for t in statistics])


class NativeBatchNorm(Composite):
    """batch_norm with the mean and reciprocal deviation it used; both empty in evaluation on a CPU."""

    schema = (
        "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool"
        " training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"
    )
    method = False

    def compute(self, input, weight, bias, running_mean, running_var, training, momentum, eps):
        result, mean, invstd = normalised(input, weight, bias, running_mean, running_var, training, momentum, eps)
        if mean is None and input.device.type in HOST:
            return result, input.new_empty((0,)), input.new_empty((0,))
        if mean is None:
            mean, invstd = in_their_type((running_mean.detach(), running_var.detach()), input)
            invstd = (invstd + eps).rsqrt()
        parameters = (weight, bias, running_mean, running_var)
        return result, *in_their_type((mean, invstd), input, *parameters)


class NativeBatchNormLegit(NativeBatchNorm):
    """native_batch_norm, with an overload for no running statistics."""

    schema = (
        "_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var,"
        " bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"
    )
    method = False


class NativeBatchNormNoStats(Composite):
    """native_batch_norm without running statistics: always by those of the batch."""

    schema = (
        "_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum,"
        " float eps) -> (Tensor, Tensor, Tensor)"
    )
    method = False

    def compute(self, input, weight, bias, training, momentum, eps):
        return find_op("native_batch_norm")(input, weight, bias, None, None, training, momentum, eps)


class NativeBatchNormLegitNoStats(NativeBatchNormNoStats):
    """The same under a name of its own."""

    schema = (
        "_native_batch_norm_legit_no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum,"
        " float eps) -> (Tensor, Tensor, Tensor)"
    )
    function = False


class BatchNormWithUpdate(Composite):
    """Training batch_norm that also returns the (empty) reserve other back ends keep."""

    schema = (
        "_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var,"
        " float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)"
    )
    method = False

    def compute(self, input, weight, bias, running_mean, running_var, momentum, eps):
        result = find_op("native_batch_norm")(input, weight, bias, running_mean, running_var, True, momentum, eps)
        return (*result, input.new_empty((0,), dtype=_C.uint8))


class BatchNormNoUpdate(Composite):
    """Evaluation batch_norm in the same form."""

    schema = (
        "_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,"
        " float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)"
    )
    method = False

    def compute(self, input, weight, bias, running_mean, running_var, momentum, eps):
        result = find_op("native_batch_norm")(input, weight, bias, running_mean, running_var, False, momentum, eps)
        return (*result, input.new_empty((0,), dtype=_C.uint8))


class BatchNorm(Composite):
    """Channels shifted and scaled to mean 0 and variance 1 (of the batch, or running), then by weight and bias."""

    schema = (
        "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool"
        " training, float momentum, float eps, bool cudnn_enabled) -> Tensor"
    )
    method = out = False

    def compute(self, input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
        return normalised(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def check_batch(shape: Any, name: str = "batch_norm") -> None:
    """ValueError where every channel has a single value."""
    if product((shape[0], *shape[2:])) == 1:
        raise ValueError(f"{name}: training needs more than 1 value per channel, got input of size {list(shape)}")


class FunctionalBatchNorm(Composite):
    """batch_norm as nn.functional spells it."""

    schema = (
        "batch_norm.functional(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor?"
        " bias=None, bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor"
    )
    replays = True
    namespace = "nn.functional"
    method = out = False

    def compute(self, input, running_mean, running_var, weight, bias, training, momentum, eps):
        if (running_mean is None) != (running_var is None) and training:
            raise ValueError("batch_norm: running_mean and running_var must both be given, or neither")
        if training:
            if input.ndim:
                check_batch(input.shape)
            if eps <= 0.0:
                raise ValueError(f"batch_norm: training needs eps above 0, got {eps}")
        return normalised(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


# --- instances --------------------------------------------------------------------------------------------------------


class InstanceNorm(Composite):
    """Every channel of every item normalised by its own statistics."""

    schema = (
        "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool"
        " use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor"
    )
    replays = True
    method = out = False

    def compute(self, input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
        if not use_input_stats and (running_mean is None or running_var is None):
            raise RuntimeError("instance_norm: use_input_stats=False needs running_mean and running_var")
        if input.ndim < 2:
            raise RuntimeError(f"instance_norm: expected an input [N, C, ...], got {input.ndim} dims")
        items, channels = input.shape[:2]
        check_channels(input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
        repeated = [None if v is None else v.repeat(items) for v in (weight, bias, running_mean, running_var)]
        flat = input.contiguous().view(1, items * channels, *input.shape[2:])
        result = normalised(flat, *repeated, use_input_stats, momentum, eps)[0]
        if use_input_stats:
            for running, moved in ((running_mean, repeated[2]), (running_var, repeated[3])):
                if running is not None:
                    with no_grad():
                        running.detach().copy_(moved.view(items, channels).mean(0))
        return result.view(input.shape)


class FunctionalInstanceNorm(Composite):
    """instance_norm as nn.functional spells it."""

    schema = (
        "instance_norm.functional(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor?"
        " weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor"
    )
    replays = True
    views = "keep"
    namespace = "nn.functional"
    method = out = False

    def compute(self, input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps):
        if use_input_stats and product(input.shape[2:]) == 1:
            raise ValueError(
                f"instance_norm: training needs more than 1 spatial element, got input of size {list(input.shape)}"
            )
        return find_op("instance_norm")(
            input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
        )


# --- groups -----------------------------------------------------------------------------------------------------------


class GroupNormRows(Composite):
    """Groups of channels normalised, and the mean and reciprocal deviation of each, [N, groups]."""

    schema = (
        "_group_norm_rows(Tensor input, Tensor? weight, Tensor? bias, int groups, float eps) -> (Tensor, Tensor,"
        " Tensor)"
    )
    function = method = out = False

    def compute(self, input, weight, bias, groups, eps):
        items, channels = input.shape[:2]
        length = product(input.shape[2:])
        rows = groups_of(input.shape, length, groups)
        if is_dense(input, weight, bias) and rows.fits(input.itemsize):
            result, mean, rstd, _ = find_op("_segment_norm")(input, weight, bias, *rows, eps)
            return result, mean.reshape(items, groups), rstd.reshape(items, groups)
        if prefers_channels_last(input) and length > 1:      # of each channel where it lies, then of the channels
            mean, variance = (t.reshape(items, groups, channels // groups) for t in moments(input.flatten(2), (2,)))
            mean, apart = moments(mean, (2,))
            variance = variance.mean(2) + apart
        else:
            mean, variance = moments(input.reshape(items * groups, channels // groups * length), (1,))
            mean, variance = mean.reshape(items, groups), variance.reshape(items, groups)
        rstd = (variance + eps).rsqrt()
        scale = per_channel(rstd, channels)
        scale = scale if weight is None else scale * weight.reshape(-1, 1)
        over = [beside(t, input.ndim) for t in (per_channel(mean, channels), scale)]
        return find_op("_scaled_channels")(input, *over, spread(bias, input.ndim)), mean, rstd

    saved_results = (1, 2)

    def vjp(self, g, input, weight, bias, groups, eps, result):
        statistics = statistics_gradient(g[1], g[2], input, result[1], result[2])
        if g[0] is None:
            return {"input": statistics}
        d_input, d_weight, d_bias = find_op("_group_norm_rows_backward")(
            g[0], input, weight, result[1], result[2], groups, eps
        )
        if is_grad_enabled():   # of grad alone: it should not seem to depend on the rest
            d_bias = g[0].sum([d for d in range(g[0].ndim) if d != 1])
        return {
            "input": d_input if statistics is None else d_input + statistics,
            "weight": None if weight is None else d_weight.to(weight.dtype),
            "bias": None if bias is None else d_bias.to(bias.dtype),
        }


def statistics_gradient(d_mean: Any, d_rstd: Any, input: Any, mean: Any, rstd: Any) -> Any:
    """What the mean and reciprocal deviation of groups, as results, ask of the input."""
    if d_mean is None and d_rstd is None:
        return None
    items, groups = mean.shape
    rows = input.reshape(items, groups, product(input.shape[1:]) // groups)
    total = 0
    if d_mean is not None:
        total = d_mean.unsqueeze(2).expand(rows.shape)
    if d_rstd is not None:
        total = total - (d_rstd * rstd ** 3).unsqueeze(2) * (rows - mean.unsqueeze(2))
    return (total / rows.shape[2]).reshape(input.shape).to(input.dtype)


def per_channel(v: Any, channels: int) -> Any:
    """[N, groups] repeated for every channel: [N, channels, 1]."""
    items, groups = v.shape
    return v.unsqueeze(2).expand(items, groups, channels // groups).reshape(items, channels, 1)


class GroupNormRowsBackward(Composite):
    """Gradients of _group_norm_rows for input, weight and bias."""

    schema = (
        "_group_norm_rows_backward(Tensor grad, Tensor input, Tensor? weight, Tensor mean, Tensor rstd, int groups,"
        " float eps) -> (Tensor, Tensor, Tensor)"
    )
    function = method = out = False

    def compute(self, grad, input, weight, mean, rstd, groups, eps):
        items, channels = input.shape[:2]
        length = product(input.shape[2:])
        rows = groups_of(input.shape, length, groups)
        if is_dense(input, weight) and rows.fits(2 * input.itemsize):
            flat = [t.reshape(-1) for t in (mean, rstd)]
            result, totals, dots = find_op("_segment_norm_backward")(grad.contiguous(), input, *flat, weight, *rows)
            d_weight = (dots.reshape(items, groups, channels // groups) * rstd.unsqueeze(2)).sum(0).reshape(-1)
            return result, d_weight, totals.reshape(items, channels).sum(0)
        grad, x = grad.reshape(items, channels, length), input.reshape(items, channels, length)
        mean, wide = per_channel(mean, channels), per_channel(rstd, channels)
        if length == 1:
            total, dot = grad.to(mean.dtype), grad * (x - mean)
        else:
            rows = [t.reshape(items * channels, t.shape[-1]) for t in (grad, x, mean)]
            total, dot = (t.reshape(items, channels, 1) for t in find_op("_paired_row_sums")(*rows))
        d_weight, d_bias = (dot * wide).sum((0, 2)), total.sum((0, 2))
        scale = wide
        if weight is not None:
            factor = weight.reshape(-1, 1)
            scale, total, dot = wide * factor, total * factor, dot * factor
        size = max(1, channels // groups * length)
        each = [t.reshape(items, groups, channels // groups).sum(2) * rstd * (-1.0 / size) for t in (total, dot)]
        shift, slope = per_channel(each[0], channels), per_channel(each[1] * rstd * rstd, channels)
        over = [beside(t, input.ndim) for t in (mean, scale, slope, shift)]
        return find_op("_paired_affine")(input, grad.reshape(input.shape), *over), d_weight, d_bias

    def vjp(self, g, grad, input, weight, groups, eps):
        items, channels = input.shape[:2]

        def body(grad, input, weight):
            grouped = (items, groups, channels // groups, product(input.shape[2:]))
            w = None if weight is None else weight.reshape(groups, -1, 1)
            result = normal_gradients(grad.reshape(grouped), input.reshape(grouped), w, (2, 3), (0, 3), eps)
            return result[0].reshape(input.shape), result[1].reshape(-1), result[2].reshape(-1)

        return through_body(body, g, {"grad": grad, "input": input, "weight": weight})


def check_groups(input: Any, groups: int, weight: Any, bias: Any) -> None:
    """Shapes and types group_norm takes."""
    if not input.is_floating_point():
        raise NotImplementedError(
            f'"group_norm" not implemented for {input.dtype.name} tensors. Cast to a floating type first.'
        )
    if groups <= 0:
        raise RuntimeError(f"group_norm: expected num_groups above 0, got {groups}")
    if input.ndim < 2 or input.shape[1] % groups:
        raise RuntimeError(
            f"group_norm: expected channels divisible by num_groups, got input of shape {list(input.shape)} and"
            f" num_groups={groups}"
        )
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and tuple(p.shape) != (input.shape[1],):
            raise RuntimeError(
                f"group_norm: expected one element per channel in {name}, got shape {list(p.shape)} for an input of"
                f" shape {list(input.shape)}"
            )


class NativeGroupNorm(Composite):
    """group_norm with the mean and reciprocal deviation of every group."""

    schema = (
        "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float"
        " eps) -> (Tensor, Tensor, Tensor)"
    )
    method = False

    def compute(self, input, weight, bias, N, C, HxW, group, eps):
        check_groups(input, group, weight, bias)
        if input.numel() != N * C * HxW:
            raise RuntimeError(
                f"native_group_norm: expected N * C * HxW = {N * C * HxW} elements, got shape {list(input.shape)}"
            )
        result, mean, rstd = find_op("_group_norm_rows")(input, weight, bias, group, eps)
        mixed = input.dtype in HALVES and any(p is not None and p.dtype is _C.float32 for p in (weight, bias))
        kept = _C.float32 if mixed else input.dtype
        return result, mean.to(kept), rstd.to(kept)


class GroupNorm(Composite):
    """Groups of channels of every item shifted and scaled to mean 0 and variance 1, then by weight and bias."""

    schema = (
        "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool"
        " cudnn_enabled=True) -> Tensor"
    )
    method = out = False

    def compute(self, input, num_groups, weight, bias, eps, cudnn_enabled):
        if input.ndim < 2:
            raise RuntimeError(f"group_norm: expected an input with at least 2 dimensions, got {input.ndim}")
        check_groups(input, num_groups, weight, bias)
        return find_op("_group_norm_rows")(input, weight, bias, num_groups, eps)[0]


class FunctionalGroupNorm(Composite):
    """group_norm as nn.functional spells it: it refuses groups of one value."""

    schema = (
        "_functional_group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05)"
        " -> Tensor"
    )
    namespace = "nn.functional"
    aliases = ("nn.functional.group_norm",)
    method = out = False

    def compute(self, input, num_groups, weight, bias, eps):
        if input.ndim < 2:
            raise RuntimeError(f"group_norm: expected an input with at least 2 dimensions, got {input.ndim}")
        check_batch((input.shape[0] * input.shape[1] // num_groups, num_groups, *input.shape[2:]), "group_norm")
        return find_op("group_norm")(input, num_groups, weight, bias, eps, True)


# --- neighbours -------------------------------------------------------------------------------------------------------


class LocalResponseNorm(Composite):
    """input divided by a power of the mean square of neighbouring channels."""

    schema = "local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> Tensor"
    replays = True
    namespace = "nn.functional"
    method = out = False

    def compute(self, input, size, alpha, beta, k):
        if input.ndim < 3:
            raise ValueError(
                f"local_response_norm: Expected 3D or higher dimensionality input (got {input.ndim} dimensions)"
            )
        if not input.numel():
            return input
        before, after = size // 2, (size - 1) // 2
        square = input * input
        empty = [square.new_zeros((input.shape[0], n, *input.shape[2:])) for n in (before, after)]
        padded = find_op("cat")([empty[0], square, empty[1]], 1)
        # Sums of `size` neighbours: windows of a view, not differences of running sums, which would lose precision.
        around = padded.unfold(1, size, 1)
        around = (
            around.mean(-1)
            if input.is_floating_point() or input.is_complex()
            else around.sum(-1).div(size, rounding_mode="trunc")
        )
        return input / (around * alpha + k).pow(beta)
