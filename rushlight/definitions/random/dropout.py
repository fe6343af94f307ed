"""Dropout and its relatives, and rrelu: ops that multiply by drawn noise.

Enters: a tensor, a probability, whether training. Leaves: the tensor times noise that PyTorch would have drawn for the
same seed; gradients flow through the multiplication. Refuses: probabilities outside [0, 1].
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from ... import _C
from ...base.tracebacks import users_level
from ...dispatch import modes
from ...op import Composite, Extern, Pointwise, Promote, find_op
from ...op.extern import Spec, own_function, own_or_reported
from ...rules import levels
from ...rules.random_level import draws_are_ops
from .fills import draw, fill_bernoulli, host_generator, to_single

# The negative saturation value of selu, which alpha dropout preserves.
SELU_ALPHA = 1.7580993408473766


def check_probability(name: str, p: float, error: type[Exception] = RuntimeError) -> None:
    """Raise unless p is a probability."""
    if not 0 <= p <= 1:
        error = error if p == p else RuntimeError     # as in PyTorch, where only the last check finds a NaN
        raise error(f"{name}: expected a probability p between 0 and 1, got {p}")


def bernoulli(target: Any, p: float, one: float = 1.0) -> Any:
    """`one` with probability p, else zero, in `target`. Modes see ops,
    so that a traced program draws anew when it runs."""
    if not modes.state.dispatch_modes and not draws_are_ops():
        return fill_bernoulli(target, p, None, one)
    drawn = find_op("bernoulli_")(target, p)
    return drawn if one == 1 else drawn.mul_(one)


def keep_noise(target: Any, p: float) -> Any:
    """Zero with probability p, else 1 / (1 - p): noise that keeps the mean."""
    if not target.dtype.is_floating_point:
        raise RuntimeError(f"dropout: the result type float32 can't be cast to that of out, {target.dtype.name}")
    return bernoulli(target, 1 - p, scale_of(target, p))


class DropoutFamily(Composite):
    """Multiply by noise while training; the in-place form writes over its input."""

    inplace = True
    method = False
    out = False
    per_feature = False
    batch = "random"

    def compute(self, input, p, train):
        check_probability(self.name, p)
        if p == 0 or not train or input.numel() == 0:
            return input
        if p == 1:
            zeros = input.new_zeros(())
            return input.mul_(zeros) if self.is_inplace else input * zeros
        return self.apply(input, self.noise_for(input), p)

    def noise_for(self, input):
        """Memory for the noise: one number per element, or per channel."""
        if self.per_feature:
            if input.ndim < 2:
                raise RuntimeError(
                    f"{self.name}: expected an input with batch and channels, 2 dimensions at least, got {input.ndim}."
                )
            return input.detach().new_empty((*input.shape[:2], *(1 for _ in input.shape[2:])))
        return find_op("empty_like")(input.detach())

    def apply(self, input, noise, p):
        noise = keep_noise(noise, p)
        return input.mul_(noise) if self.is_inplace else input * noise


class MaskedScale(Pointwise):
    """input * mask * scale."""

    schema = "_masked_scale(Tensor input, Tensor mask, float scale) -> Tensor"
    promote = Promote.KEEP
    apart = ("mask",)
    wide = ("scale",)
    method = out = inplace = False

    def expr(self, s, x, mask, scale):
        return s.where(s.ne(mask, 0), x * scale, x * 0)


def kept_on_device(input: Any, p: float) -> Any:
    """Which elements a device's own sampler keeps; None where it has none. Modes see an op."""
    own = own_function("random_dropout", input.device)
    if own is None or levels.state.stack:
        return None
    keep = 1 - p if input.dtype is _C.float64 else to_single(1 - p)
    if modes.state.dispatch_modes:
        return find_op("_kept_elements")(find_op("empty_like")(input.detach()), keep)
    mask = find_op("empty_like")(input.detach(), dtype=_C.bool)
    return draw("dropout", None, mask, keep, reads=(input.detach(),))


def drops_at_once(input: Any, p: float) -> bool:
    """Whether a device draws and scales in one kernel, and nobody watches the two."""
    plain = not modes.state.dispatch_modes and not levels.state.stack and not input._keys
    return plain and 0 < p < 1 and own_function("random_dropped", input.device) is not None


class Dropped(Extern):
    """Elements of which some are zero and others scaled, and which these are: one kernel of the device's own."""

    batch = "random"
    schema = "_dropped(Tensor input, float p) -> (Tensor, Tensor)"
    function = method = out = False
    saved_results = (1,)

    def meta(self, input, p):
        shape, strides = tuple(input.shape), tuple(input.stride()) if input._is_dense() else None
        return Spec(shape, input.dtype, strides), Spec(shape, _C.bool, strides)

    def elsewhere(self, out, input, p):
        keep = 1 - p if input.dtype is _C.float64 else to_single(1 - p)
        own = own_function("random_dropped", input.device)
        if own is None or not own(out, None, input, keep, scale_of(input, p)):
            draw("dropout", None, out[1], keep, reads=(input,))
            out[0].copy_(find_op("_masked_scale")(input, out[1], scale_of(input, p)))

    def vjp(self, g, input, p, result):
        return {"input": None if g[0] is None else find_op("_masked_scale")(g[0], result[1], scale_of(input, p))}


class KeptElements(Extern):
    """Which elements of a tensor laid out like `input` dropout keeps, each with probability `keep`, by the sampler that
    the device has for that."""

    batch = "random"
    schema = "_kept_elements(Tensor input, float keep) -> Tensor"
    function = method = out = differentiable = False

    def meta(self, input, keep):
        return Spec(tuple(input.shape), _C.bool, tuple(input.stride()))

    def cpu(self, out, input, keep):
        fill_bernoulli(out, keep, None)

    def elsewhere(self, out, input, keep):
        draw("dropout", None, out, keep, reads=(input,))


class KeptInOrder(Extern):
    """Which elements of a tensor of these sizes are kept, each dropped with probability `p`: PyTorch's attention in
    single precision draws so on CUDA devices, one number after the other."""

    batch = "random"
    schema = "_kept_in_order(Tensor input, SymInt[] size, float p) -> Tensor"
    function = method = out = differentiable = False

    def meta(self, input, size, p):
        return Spec(tuple(size), _C.bool)

    def cpu(self, out, input, size, p):
        fill_bernoulli(out, 1 - p, None)

    def elsewhere(self, out, input, size, p):
        draw("ordered", None, out, p)


def scale_of(input: Any, p: float) -> float:
    """What kept elements are multiplied by, as precise as these are."""
    return 1.0 / (1 - p) if input.dtype is _C.float64 else to_single(1.0 / to_single(1 - p))


class Dropout(DropoutFamily):
    """Zero elements with probability p and scale the rest up."""

    schema = "dropout(Tensor input, float p, bool train) -> Tensor"

    def noise_for(self, input):
        return None      # made where it is needed

    def apply(self, input, noise, p):
        if not self.is_inplace and drops_at_once(input, p):
            return find_op("_dropped")(input, p)[0]
        mask = kept_on_device(input, p)
        if mask is None:
            noise = super().noise_for(input)
            return super().apply(input, noise, p)
        scale = scale_of(input, p)
        return input.mul_(mask).mul_(scale) if self.is_inplace else find_op("_masked_scale")(input, mask, scale)


class FeatureDropout(DropoutFamily):
    """Zero whole channels with probability p and scale the rest up."""

    schema = "feature_dropout(Tensor input, float p, bool train) -> Tensor"
    per_feature = True


class AlphaDropout(DropoutFamily):
    """Dropout to selu's negative saturation value, keeping mean and variance."""

    schema = "alpha_dropout(Tensor input, float p, bool train) -> Tensor"

    def apply(self, input, noise, p):
        noise = bernoulli(noise, 1 - p)
        a = 1.0 / math.sqrt((SELU_ALPHA * SELU_ALPHA * p + 1) * (1 - p))
        shift = noise.add(-1).mul_(SELU_ALPHA * a).add_(SELU_ALPHA * a * p)
        noise.mul_(a)
        return input.mul_(noise).add_(shift) if self.is_inplace else input * noise + shift


class FeatureAlphaDropout(AlphaDropout):
    """Alpha dropout of whole channels."""

    schema = "feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor"
    per_feature = True


class FunctionalDropout(Composite):
    """dropout as nn.functional spells it: on by default, with a flag for the in-place form."""

    schema = "dropout.functional(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor"
    namespace = "nn.functional"
    method = out = False

    def compute(self, input, p, training, inplace):
        check_probability(self.name, p, ValueError)
        return find_op(self.spec.name + "_" if inplace else self.spec.name)(input, p, training)


class FunctionalAlphaDropout(FunctionalDropout):
    """alpha_dropout as nn.functional spells it."""

    schema = "alpha_dropout.functional(Tensor input, float p=0.5, bool training=False, bool inplace=False) -> Tensor"


class FunctionalFeatureAlphaDropout(FunctionalDropout):
    """feature_alpha_dropout as nn.functional spells it."""

    schema = (
        "feature_alpha_dropout.functional(Tensor input, float p=0.5, bool training=False, bool inplace=False) -> Tensor"
    )


class Dropout1d(Composite):
    """Zero whole channels of [N, C, L] or [C, L] with probability p."""

    schema = "dropout1d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor"
    namespace = "nn.functional"
    method = out = False
    dims = (2, 3)          # without and with a batch
    refuses = True         # other ranks are refused, not warned about

    def compute(self, input, p, training, inplace):
        check_probability(self.name, p, ValueError)
        if input.ndim not in self.dims:
            message = (
                f"{self.name}: Expected {self.dims[0]}D or {self.dims[1]}D input, but received a {input.ndim}D input."
            )
            if self.refuses:
                raise RuntimeError(message)
            warnings.warn(
                message + " Other ranks are deprecated; dropout takes them.", UserWarning, stacklevel=users_level()
            )
        return self.apply(input, p, training, inplace, batched=input.ndim == self.dims[1])

    def apply(self, input: Any, p: float, training: bool, inplace: bool, batched: bool) -> Any:
        drop = find_op("feature_dropout_" if inplace else "feature_dropout")
        if batched:
            return drop(input, p, training)
        return (
            drop(input.unsqueeze_(0), p, training).squeeze_(0)
            if inplace
            else drop(input.unsqueeze(0), p, training).squeeze(0)
        )


class Dropout2d(Dropout1d):
    """Zero whole channels of [N, C, H, W] with probability p."""

    schema = "dropout2d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor"
    dims = (3, 4)
    refuses = False

    def apply(self, input, p, training, inplace, batched):
        if input.ndim == 3:
            warnings.warn(
                "dropout2d: a 3D input is taken as [N, C, L], as PyTorch does; prefer dropout1d for it.",
                UserWarning,
                stacklevel=users_level(),
            )
        return find_op("feature_dropout_" if inplace else "feature_dropout")(input, p, training)


class Dropout3d(Dropout1d):
    """Zero whole channels of [N, C, D, H, W] or [C, D, H, W] with probability p."""

    schema = "dropout3d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor"
    views = "keep"
    dims = (4, 5)
    refuses = False


class NativeDropout(Composite):
    """Dropout that also returns which elements were kept."""

    schema = "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)"
    method = False
    out = False

    def compute(self, input, p, train):
        empty = find_op("empty_like")(input.detach(), dtype=_C.bool)
        if train is False:
            return input.clone(), empty.fill_(True)
        if drops_at_once(input, p):
            return find_op("_dropped")(input, p)
        mask = kept_on_device(input, p) if 0 < p < 1 else None
        if mask is not None:
            return find_op("_masked_scale")(input, mask, scale_of(input, p)), mask
        mask = bernoulli(empty, 1 - p)
        return input * (mask.to(input.dtype) * (0.0 if p == 1 else 1.0 / (1 - p))), mask


class NativeDropoutBackward(Composite):
    """Gradient of native_dropout: what was kept, scaled."""

    schema = "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor"
    function = method = False

    def compute(self, grad_output, mask, scale):
        if mask.dtype is not _C.bool:
            raise RuntimeError(f"native_dropout_backward: Mask should be Bool Scalar Type, got {mask.dtype.name}")
        return grad_output * (mask.to(grad_output.dtype) * scale)


class RreluWithNoise(Extern):
    """leaky_relu with a slope drawn for every non-positive element, and the slopes (one elsewhere)."""

    batch = "random"
    schema = "_rrelu_with_noise(Tensor input, float lower, float upper, Generator? generator=None) -> (Tensor, Tensor)"
    function = False
    method = False
    out = False

    def meta(self, input, lower, upper, generator):
        if not lower <= upper:
            raise RuntimeError(f"rrelu: expected lower <= upper, got {lower} > {upper}.")
        if input.dtype not in (_C.float32, _C.float64, _C.bfloat16):
            raise NotImplementedError(f'"rrelu" not implemented for {input.dtype.name} tensors')
        spec = Spec(tuple(input.shape), input.dtype)
        return spec, spec

    def cpu(self, out, input, lower, upper, generator):
        draw("rrelu", generator, out[0], lower, upper, reads=(out[1], input.contiguous()))

    def elsewhere(self, out, input, lower, upper, generator):
        own = own_or_reported("random_rrelu", input.device)
        if own is not None:
            own(out[0], generator, out[1], input, lower, upper)
            return
        source = host_generator(generator, input.device)
        for target, found in zip(out, find_op(self.name)(input.to("cpu"), lower, upper, source), strict=True):
            target.copy_(found)

    saved_results = (1,)

    def vjp(self, g, result):
        return {"input": None if g[0] is None else g[0] * result[1]}


class Rrelu(Composite):
    """leaky_relu whose slope is drawn from [lower, upper] in training, their mean otherwise."""

    schema = (
        "rrelu.flag(Tensor input, float lower=0.125, float upper=0.3333333333333333, bool training=False, "
        "bool inplace=False) -> Tensor",
        "rrelu(Tensor input, float lower=0.125, float upper=0.3333333333333333, bool training=False, "
        "Generator? generator=None) -> Tensor",
    )
    aliases = ("nn.functional.rrelu",)
    inplace = True
    method = False
    out = False

    def compute(self, input, lower, upper, training, last):
        generator, is_inplace = (None, last or self.is_inplace) if isinstance(last, bool) else (last, self.is_inplace)
        if lower > upper:
            raise RuntimeError(f"rrelu: expected lower <= upper, got {lower} and {upper}")
        if not training:
            return find_op("leaky_relu_" if is_inplace else "leaky_relu")(input, (lower + upper) / 2)
        result = find_op("_rrelu_with_noise")(input, lower, upper, generator)[0]
        return input.copy_(result) if is_inplace else result
