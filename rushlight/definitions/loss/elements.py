"""Losses of pairs of elements, and what every loss shares: reductions and their deprecated spellings.

Enters: an input and a target that broadcast. Leaves: the loss of every element, their mean or their sum. The element
itself is a pointwise op, so it and its gradient are one pass over memory each. Refuses: unknown reductions, and
parameters outside their range.
"""

from __future__ import annotations

import math
import warnings
from functools import cached_property
from typing import Any

from ... import _C
from ...autograd import no_grad
from ...base.tracebacks import users_level
from ...op import Composite, Pointwise, find_op
from ...rules.levels import readable


def check_reduction(name: str, reduction: str) -> None:
    """One of the three words."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{name}: {reduction} is not a valid value for reduction; expected 'none', 'mean' or 'sum'")


def reduced(loss: Any, reduction: str) -> Any:
    """The loss of every element, their mean, or their sum."""
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def legacy_reduction(reduction: str, size_average: Any, reduce: Any) -> str:
    """PyTorch's two deprecated switches, which win over `reduction` when given."""
    if size_average is None and reduce is None:
        return reduction
    meant = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce are deprecated: pass reduction='{meant}'.", UserWarning, stacklevel=users_level()
    )
    return meant


def warn_of_sizes(name: str, input: Any, target: Any) -> None:
    """Warn, as PyTorch does, that broadcasting may hide a mistake."""
    warnings.warn(
        f"{name}: target {list(target.shape)} and input {list(input.shape)} are not of the same size and are"
        " broadcast. That is seldom what a loss should be: give both the same size.",
        UserWarning,
        stacklevel=users_level(),
    )


SHARED = ("reduction", "size_average", "reduce", "weight")
LEGACY = "bool? size_average=None, bool? reduce=None, str reduction='mean'"


# --- elements ---------------------------------------------------------------------------------------------------------


class _Element(Pointwise):
    """The loss of one pair."""

    function = method = inplace = out = False
    refuse = ("bool", "integer", "complex")


class SquareElement(_Element):
    """(input - target) squared."""

    schema = "_mse_loss_element(Tensor input, Tensor target) -> Tensor"

    def expr(self, s, x, y):
        return (x - y) * (x - y)


class SmoothElement(_Element):
    """Half the square over beta where the distance is below beta, linear beyond."""

    schema = "_smooth_l1_loss_element(Tensor input, Tensor target, Scalar beta) -> Tensor"

    def expr(self, s, x, y, beta):
        distance = s.abs(x - y)
        return s.where(distance < beta, 0.5 * distance * distance / beta, distance - 0.5 * beta)


class HuberElement(_Element):
    """Half the square where the distance is at most delta, linear beyond."""

    schema = "_huber_loss_element(Tensor input, Tensor target, Scalar delta) -> Tensor"

    def expr(self, s, x, y, delta):
        distance = s.abs(x - y)
        return s.where(distance <= delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta))


class NoProbability(_Element):
    """Whether one of the two is no number from 0 to 1."""

    schema = "_no_probability(Tensor input, Tensor target) -> Tensor"
    result = "bool"

    def expr(self, s, x, y):
        return ~((x >= 0) & (x <= 1) & (y >= 0) & (y <= 1))


class BinaryElement(_Element):
    """-log likelihood of the target under a probability; logarithms are held at -100, so it is finite."""

    schema = "_binary_cross_entropy_element(Tensor input, Tensor target) -> Tensor"

    def expr(self, s, x, y):
        return (y - 1) * s.clamp(s.log1p(-x), low=-100) - y * s.clamp(s.log(x), low=-100)

    def vjp(self, s, g, input, target):
        slope = s.clamp((1 - input) * input, low=1e-12)
        return {"input": g * (input - target) / slope, "target": g * (s.log1p(-input) - s.log(input))}


class LogitElement(_Element):
    """The same for sigmoid(input), without overflow."""

    schema = "_logit_loss_element(Tensor input, Tensor target, Tensor? pos_weight) -> Tensor"

    def expr(self, s, x, y, pos_weight):
        low = s.log1p(s.exp(-s.abs(x))) + s.clamp(-x, low=0)      # -log sigmoid(x)
        return (1 - y) * x + (low if pos_weight is None else (1 + (pos_weight - 1) * y) * low)

    def vjp(self, s, g, input, target, pos_weight):
        chance = s.sigmoid(input)
        if pos_weight is None:
            return {"input": g * (chance - target), "target": g * -input}
        low = s.log1p(s.exp(-s.abs(input))) + s.clamp(-input, low=0)
        factor = 1 + (pos_weight - 1) * target
        return {
            "input": g * (1 - target + factor * (chance - 1)), "target": g * ((pos_weight - 1) * low - input),
            "pos_weight": g * target * low,
        }


class MarginElement(_Element):
    """log(1 + exp(-target * input))."""

    schema = "_soft_margin_loss_element(Tensor input, Tensor target) -> Tensor"

    def expr(self, s, x, y):
        return s.log1p(s.exp(-y * x))

    def vjp(self, s, g, input, target):
        weight = g * (s.sigmoid(-target * input))
        return {"input": -target * weight, "target": -input * weight}


class PoissonElement(_Element):
    """-log likelihood of a count, without the terms of the count alone."""

    schema = "_poisson_nll_loss_element(Tensor input, Tensor target, bool log_input, Scalar eps) -> Tensor"
    refuse = ("bool", "complex")

    def expr(self, s, x, y, log_input, eps):
        return s.exp(x) - y * x if log_input else x - y * s.log(x + eps)


# --- losses -----------------------------------------------------------------------------------------------------------


class Loss(Composite):
    """What every loss of nn.functional shares."""

    namespace = "nn.functional"
    method = out = False


class _ElementLoss(Loss):
    """A loss of pairs of elements, then reduced."""

    warns = True             # whether sizes that broadcast are warned about
    mean_by_weight = False   # a weighted mean divides by the weights instead of by the count

    def element(self, input: Any, target: Any, *own: Any) -> Any:
        """The losses before reduction."""
        return find_op(f"_{self.spec.name}_element")(input, target, *own)

    @cached_property
    def order(self) -> tuple[list[int], list[int]]:
        """Where the parameters that losses share are among those behind the target (one past the end: absent), and
        where this loss's own are."""
        names = [p.name for p in self.spec.params[2:]]
        shared = [names.index(name) if name in names else len(names) for name in SHARED]
        return shared, [k for k, name in enumerate(names) if name not in SHARED]

    def compute(self, input, target, *rest):
        shared, own = self.order
        rest = (*rest, None)
        reduction, size_average, reduce, weight = [rest[k] for k in shared]
        if size_average is not None or reduce is not None:
            reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction(self.name, reduction)
        if self.warns and input.shape != target.shape:
            warn_of_sizes(self.name, input, target)
        loss = self.element(input, target, *[rest[k] for k in own]) if own else self.element(input, target)
        if weight is None:
            return reduced(loss, reduction)
        if weight.shape != input.shape:
            raise ValueError(
                f"{self.name}: expected a weight of the same size as input, {list(input.shape)}, got"
                f" {list(weight.shape)}"
            )
        loss = loss * weight
        return loss.sum() / weight.sum() if reduction == "mean" and self.mean_by_weight else reduced(loss, reduction)


class MseLoss(_ElementLoss):
    """Squared differences."""

    schema = f"mse_loss(Tensor input, Tensor target, {LEGACY}, Tensor? weight=None) -> Tensor"
    mean_by_weight = True

    def element(self, input, target):
        if input.is_complex() or target.is_complex() or not (input.is_floating_point() or target.is_floating_point()):
            raise NotImplementedError(
                f'"mse_loss" not implemented for {input.dtype.name} tensors. Cast to a floating type first.'
            )
        return super().element(input, target)


class L1Loss(_ElementLoss):
    """Absolute differences."""

    schema = f"l1_loss(Tensor input, Tensor target, {LEGACY}, Tensor? weight=None) -> Tensor"
    mean_by_weight = True

    def element(self, input, target):
        return (input - target).abs()


class SmoothL1Loss(_ElementLoss):
    """Squared where small, absolute where large; `beta` is where it changes."""

    schema = f"smooth_l1_loss(Tensor input, Tensor target, {LEGACY}, float beta=1.0) -> Tensor"

    def element(self, input, target, beta):
        if beta < 0:
            raise RuntimeError(f"smooth_l1_loss: expected beta of at least 0, got {beta}")
        return super().element(input, target, beta) if beta else (input - target).abs()


class HuberLoss(_ElementLoss):
    """Squared where small, linear where large; `delta` is where it changes."""

    schema = (
        "huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1.0, Tensor? weight=None) -> Tensor"
    )

    def element(self, input, target, delta):
        if delta <= 0:
            raise RuntimeError(f"huber_loss: expected delta above 0, got {delta}")
        return super().element(input, target, delta)


class BinaryCrossEntropy(Loss):
    """-log likelihood of targets under probabilities."""

    schema = f"binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, {LEGACY}) -> Tensor"

    def compute(self, input, target, weight, size_average, reduce, reduction):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction(self.name, reduction)
        if input.shape != target.shape:
            raise ValueError(
                f"binary_cross_entropy: expected a target of the same size as input, {list(input.shape)}, got"
                f" {list(target.shape)}"
            )
        if input.dtype is not target.dtype:
            raise RuntimeError(f"binary_cross_entropy: Found dtype {target.dtype.name} but expected {input.dtype.name}")
        if readable(input) and bool(find_op("_no_probability")(input.detach(), target.detach()).any()):
            raise RuntimeError("binary_cross_entropy: all elements of input and target must be between 0 and 1")
        loss = find_op("_binary_cross_entropy_element")(input, target)
        return reduced(loss if weight is None else loss * weight, reduction)


class BinaryCrossEntropyWithLogits(Loss):
    """binary_cross_entropy of sigmoid(input), computed without overflow."""

    schema = (
        f"binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, {LEGACY}, Tensor?"
        " pos_weight=None) -> Tensor"
    )

    def compute(self, input, target, weight, size_average, reduce, reduction, pos_weight):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction(self.name, reduction)
        if input.shape != target.shape:
            raise ValueError(
                f"binary_cross_entropy_with_logits: expected a target of the same size as input, {list(input.shape)},"
                f" got {list(target.shape)}"
            )
        if input.is_floating_point() and not target.is_floating_point():
            raise RuntimeError(
                f"binary_cross_entropy_with_logits: result type {input.dtype.name} can't be cast to that of the target,"
                f" {target.dtype.name}. Give it as floats."
            )
        loss = find_op("_logit_loss_element")(input, target, pos_weight)
        return reduced(loss if weight is None else loss * weight, reduction)


class KlDiv(Loss):
    """target * (log target - input), pointwise, then reduced."""

    schema = f"kl_div(Tensor input, Tensor target, {LEGACY}, bool log_target=False) -> Tensor"

    def compute(self, input, target, size_average, reduce, reduction, log_target):
        given, reduction = reduction, legacy_reduction(reduction, size_average, reduce)
        if given == reduction == "mean" and size_average is None and reduce is None:
            warnings.warn(
                "kl_div: reduction='mean' divides by the number of elements. The definition divides by the batch alone,"
                " as reduction='batchmean' does.",
                UserWarning,
                stacklevel=users_level(),
            )
        if reduction != "batchmean":
            check_reduction("kl_div", reduction)
        if not all(t.is_floating_point() or t.is_complex() for t in (input, target)):
            raise RuntimeError(
                f"kl_div: integral inputs are not supported, got {input.dtype.name} and {target.dtype.name}"
            )
        loss = target.exp() * (target - input) if log_target else find_op("xlogy")(target, target) - target * input
        if reduction == "batchmean":
            return loss.sum() / input.shape[0] if input.ndim else loss.sum()
        return reduced(loss, reduction)


class SoftMarginLoss(_ElementLoss):
    """log(1 + exp(-target * input))."""

    schema = f"soft_margin_loss(Tensor input, Tensor target, {LEGACY}) -> Tensor"
    warns = False

    def element(self, input, target):
        if input.dtype is _C.float16:   # overflows where PyTorch's does: the exponential is a half there
            return (-target * input).exp().log1p()
        return super().element(input, target)


class PoissonNllLoss(Loss):
    """-log likelihood of counts `target` under a Poisson distribution of rate exp(input), or input."""

    schema = (
        "poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, bool? size_average=None,"
        " float eps=1e-08, bool? reduce=None, str reduction='mean') -> Tensor"
    )

    def compute(self, input, target, log_input, full, size_average, eps, reduce, reduction):
        reduction = legacy_reduction(reduction, size_average, reduce)
        check_reduction(self.name, reduction)
        if input.is_floating_point() or target.is_floating_point() or not log_input:
            loss = find_op("_poisson_nll_loss_element")(
                input if input.is_floating_point() or log_input else input.to(_C.float32), target, log_input, eps
            )
        else:
            loss = input.exp() - target * input
        if full:   # Stirling's approximation of log(target!), for counts above 1
            stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
            loss = loss + stirling.masked_fill(target <= 1, 0)
        return reduced(loss, reduction)


class GaussianNllLoss(Loss):
    """-log likelihood of `target` under a normal distribution of mean `input` and variance `var`."""

    schema = (
        "gaussian_nll_loss(Tensor input, Tensor target, Tensor|Scalar var, bool full=False, float eps=1e-06, str"
        " reduction='mean') -> Tensor"
    )

    def compute(self, input, target, var, full, eps, reduction):
        if not isinstance(var, _C.Tensor):
            if var < 0:
                raise ValueError(f"gaussian_nll_loss: var has negative entry/entries: {var}")
            var = find_op("full_like")(input.detach(), var)
        elif readable(var) and bool((var < 0).any()):
            raise ValueError("gaussian_nll_loss: var has negative entry/entries")
        var = self.fitted(input, var)
        check_reduction(self.name, reduction)
        # The floor is a matter of stability: it does not stop the gradient, as PyTorch's does not.
        var = var.clone()
        with no_grad():
            var.clamp_(min=eps)
        loss = 0.5 * (var.log() + (input - target) ** 2 / var)
        return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)

    @staticmethod
    def fitted(input: Any, var: Any) -> Any:
        """The variance with a dim of 1 where it is shared along one dim of the input."""
        if var.shape == input.shape:
            return var
        if tuple(input.shape[:-1]) == tuple(var.shape):
            return var.unsqueeze(-1)
        differing = [v for n, v in zip(input.shape, var.shape, strict=False) if n != v]
        if input.ndim != var.ndim or differing != [1]:
            raise ValueError(
                f"gaussian_nll_loss: var is of incorrect size {list(var.shape)} for an input of size"
                f" {list(input.shape)}"
            )
        return var
