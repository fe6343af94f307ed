"""Dropout and its relatives, and rrelu: ops that multiply by drawn noise.

Enters: a tensor, a probability, whether training. Leaves: the tensor times noise that PyTorch would have drawn for the
same seed; gradients flow through the multiplication. Refuses: probabilities outside [0, 1].
"""

from __future__ import annotations

import math
from typing import Any

from .. import _C
from ..op import Composite, Extern, find_op
from ..op.extern import Spec
from .random import draw, fill_bernoulli, to_single

# The negative saturation value of selu, which alpha dropout preserves.
SELU_ALPHA = 1.7580993408473766


def check_probability(name: str, p: float) -> None:
    """Raise unless p is a probability."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"{name}: dropout probability has to be between 0 and 1, but got {p}")


def keep_noise(target: Any, p: float) -> Any:
    """Zero with probability p, else 1 / (1 - p): noise that keeps the mean."""
    if not target.dtype.is_floating_point:
        raise RuntimeError(f"dropout: result type float32 can't be cast to the desired output type {target.dtype.name}")
    scale = 1.0 / (1 - p) if target.dtype is _C.float64 else to_single(1.0 / to_single(1 - p))
    return fill_bernoulli(target, 1 - p, None, scale)


class DropoutFamily(Composite):
    """Multiply by noise while training; the in-place form writes over its input."""

    inplace = True
    method = False
    out = False
    per_feature = False
    batch = "random"

    def compute(self, input, p, train):
        check_probability(self.name, p)
        if self.per_feature and input.ndim < 2:
            raise RuntimeError(f"{self.name}: expected at least 2 dims (batch and feature), got {input.ndim}.")
        if p == 0 or not train or input.numel() == 0:
            return input
        if p == 1:
            zeros = input.new_zeros(())
            return input.mul_(zeros) if self.is_inplace else input * zeros
        return self.apply(input, self.noise_for(input), p)

    def noise_for(self, input):
        """Memory for the noise: one number per element, or per channel."""
        if self.per_feature:
            return input.detach().new_empty((*input.shape[:2], *(1 for _ in input.shape[2:])))
        return find_op("empty_like")(input.detach())

    def apply(self, input, noise, p):
        noise = keep_noise(noise, p)
        return input.mul_(noise) if self.is_inplace else input * noise


class Dropout(DropoutFamily):
    """Zero elements with probability p and scale the rest up."""

    schema = "dropout(Tensor input, float p, bool train) -> Tensor"


class FunctionalDropout(Composite):
    """dropout as nn.functional spells it: on by default, with a flag for the in-place form."""

    schema = "dropout.functional(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor"
    namespace = "nn.functional"
    method = False
    out = False

    def compute(self, input, p, training, inplace):
        return find_op("dropout_" if inplace else "dropout")(input, p, training)


class FeatureDropout(DropoutFamily):
    """Zero whole channels with probability p and scale the rest up."""

    schema = "feature_dropout(Tensor input, float p, bool train) -> Tensor"
    per_feature = True


class AlphaDropout(DropoutFamily):
    """Dropout to selu's negative saturation value, keeping mean and variance."""

    schema = "alpha_dropout(Tensor input, float p, bool train) -> Tensor"

    def apply(self, input, noise, p):
        noise = fill_bernoulli(noise, 1 - p, None)
        a = 1.0 / math.sqrt((SELU_ALPHA * SELU_ALPHA * p + 1) * (1 - p))
        shift = noise.add(-1).mul_(SELU_ALPHA * a).add_(SELU_ALPHA * a * p)
        noise.mul_(a)
        return input.mul_(noise).add_(shift) if self.is_inplace else input * noise + shift


class FeatureAlphaDropout(AlphaDropout):
    """Alpha dropout of whole channels."""

    schema = "feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor"
    per_feature = True


class NativeDropout(Composite):
    """Dropout that also returns which elements were kept."""

    schema = "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)"
    method = False
    out = False

    def compute(self, input, p, train):
        empty = find_op("empty_like")(input.detach(), dtype=_C.bool)
        if train is False:
            return input.clone(), empty.fill_(True)
        mask = fill_bernoulli(empty, 1 - p, None)
        return input * (mask.to(input.dtype) * (0.0 if p == 1 else 1.0 / (1 - p))), mask


class RreluWithNoise(Extern):
    """leaky_relu with a slope drawn for every non-positive element, and the slopes (one elsewhere)."""

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

    def vjp(self, g, result):
        return {"input": g[0] * result[1]}


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
        if not training:
            return find_op("leaky_relu_" if is_inplace else "leaky_relu")(input, (lower + upper) / 2)
        result = find_op("_rrelu_with_noise")(input, lower, upper, generator)[0]
        return input.copy_(result) if is_inplace else result
