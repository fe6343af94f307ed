"""Gradients of activations and of losses of single elements: one expression each.

Enters: the gradient of the result, and what ATen saves of the call (its input or its result). Leaves: the gradient of
the input. Refuses: integers and complex numbers, as the activations do.
"""

from __future__ import annotations

import math

from rushlight.definitions.pointwise.activation import FLOATING_ONLY, below_zero, tanh_argument, zero_where
from rushlight.op import Composite, Pointwise, find_op


class _Gradient(Pointwise):
    """An activation's gradient: no function of the public namespaces, no method."""

    function = method = inplace = False
    refuse = FLOATING_ONLY


class SigmoidBackward(_Gradient):
    """Gradient of sigmoid from its result."""

    schema = "sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor"

    def expr(self, s, g, y):
        return g * ((1 - y) * y)


class TanhBackward(_Gradient):
    """Gradient of tanh from its result."""

    schema = "tanh_backward(Tensor grad_output, Tensor output) -> Tensor"

    def expr(self, s, g, y):
        return g * (1 - y * y)


class ThresholdBackward(_Gradient):
    """Gradient of threshold, and of relu from its result: 0 where the input does not exceed the threshold."""

    schema = "threshold_backward(Tensor grad_output, Tensor input, Scalar threshold) -> Tensor"
    refuse = ("bool", "complex")

    def expr(self, s, g, x, threshold):
        return zero_where(s, x <= threshold, g)


class GeluBackward(_Gradient):
    """Gradient of gelu."""

    schema = "gelu_backward(Tensor grad_output, Tensor input, *, str approximate='none') -> Tensor"

    def check(self, approximate):
        if approximate not in ("none", "tanh"):
            raise RuntimeError(f"gelu_backward: approximate must be 'none' or 'tanh', got {approximate!r}")

    def expr(self, s, g, x, approximate):
        if approximate == "none":
            return g * s.gelu_slope(x)
        t = s.tanh(tanh_argument(x))
        slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
        return g * 0.5 * (1 + t + x * (1 - t * t) * slope)


class SiluBackward(_Gradient):
    """Gradient of silu."""

    schema = "silu_backward(Tensor grad_output, Tensor input) -> Tensor"

    def expr(self, s, g, x):
        y = s.sigmoid(x)
        return g * y * (1 + x * (1 - y))


class MishBackward(_Gradient):
    """Gradient of mish."""

    schema = "mish_backward(Tensor grad_output, Tensor input) -> Tensor"

    def expr(self, s, g, x):
        t = s.tanh(s.softplus(x))
        return g * (t + x * s.sigmoid(x) * (1 - t * t))


class LeakyReluBackward(_Gradient):
    """Gradient of leaky_relu, from its input or (for a positive slope) its result, which have the same sign."""

    schema = (
        "leaky_relu_backward(Tensor grad_output, Tensor input, Scalar negative_slope, bool self_is_result) -> Tensor"
    )

    def check(self, negative_slope, self_is_result):
        if self_is_result and negative_slope < 0:
            raise RuntimeError(
                f"leaky_relu_backward: a result tells nothing of the input where negative_slope is {negative_slope}."
                " Pass the input, with self_is_result=False."
            )

    def expr(self, s, g, x, negative_slope, self_is_result):
        return s.where(x > 0, g, g * negative_slope)


class EluBackward(_Gradient):
    """Gradient of elu (and of selu and celu by its scales), from its input or its result."""

    schema = (
        "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor"
        " self_or_result) -> Tensor"
    )

    def check(self, alpha, is_result):
        if is_result and alpha < 0:
            raise RuntimeError(
                f"elu_backward: a result tells nothing of the input where alpha is {alpha}. Pass the input, with"
                " is_result=False."
            )

    def expr(self, s, g, alpha, scale, input_scale, is_result, x):
        negative = alpha * scale
        low = input_scale * (x + negative) if is_result else input_scale * negative * s.exp(
            below_zero(s, x) * input_scale)
        return s.where(x <= 0, g * low, g * scale)


class SoftplusBackward(_Gradient):
    """Gradient of softplus."""

    schema = "softplus_backward(Tensor grad_output, Tensor input, Scalar beta, Scalar threshold) -> Tensor"

    def expr(self, s, g, x, beta, threshold):
        z = x * beta
        return s.where(z > threshold, g, g * s.sigmoid(z))


class HardswishBackward(_Gradient):
    """Gradient of hardswish."""

    schema = "hardswish_backward(Tensor grad_output, Tensor input) -> Tensor"

    def expr(self, s, g, x):
        return s.where(x <= -3, 0, s.where(x < 3, g * (x / 3 + 0.5), g))


class HardsigmoidBackward(_Gradient):
    """Gradient of hardsigmoid."""

    schema = "hardsigmoid_backward(Tensor grad_output, Tensor input) -> Tensor"

    def expr(self, s, g, x):
        return s.where((x > -3) & (x < 3), g / 6, 0)


class HardtanhBackward(_Gradient):
    """Gradient of hardtanh: what comes from inside the limits."""

    schema = "hardtanh_backward(Tensor grad_output, Tensor input, Scalar min_val, Scalar max_val) -> Tensor"

    def expr(self, s, g, x, min_val, max_val):
        return s.where((x > min_val) & (x < max_val), g, 0)


class HardshrinkBackward(_Gradient):
    """Gradient of hardshrink."""

    schema = "hardshrink_backward(Tensor grad_out, Tensor input, Scalar lambd) -> Tensor"

    def expr(self, s, g, x, lambd):
        return s.where((x >= -lambd) & (x <= lambd), 0, g)


class SoftshrinkBackward(_Gradient):
    """Gradient of softshrink."""

    schema = "softshrink_backward(Tensor grad_output, Tensor input, Scalar lambd) -> Tensor"

    def expr(self, s, g, x, lambd):
        return s.where((x >= -lambd) & (x <= lambd), 0, g)


class LogSigmoidForward(Composite):
    """logsigmoid, and exp(-|input|), which ATen keeps for the gradient."""

    schema = "log_sigmoid_forward(Tensor input) -> (Tensor, Tensor)"
    function = method = out = False

    def compute(self, input):
        return find_op("logsigmoid")(input), input.abs().neg().exp()


class LogSigmoidBackward(Composite):
    """Gradient of logsigmoid; the input alone tells it, so that `buffer` may be empty, as it is on other devices."""

    schema = "log_sigmoid_backward(Tensor grad_output, Tensor input, Tensor buffer) -> Tensor"
    function = method = False

    def compute(self, grad_output, input, buffer):
        return grad_output * input.neg().sigmoid()


class GluBackward(Composite):
    """Gradient of glu: of both halves."""

    schema = "glu_backward(Tensor grad_output, Tensor input, int dim) -> Tensor"
    function = method = False

    def compute(self, grad_output, input, dim):
        value, gate = input.chunk(2, dim)
        gate = gate.sigmoid()
        return find_op("cat")([grad_output * gate, grad_output * value * gate * (1 - gate)], dim)


class PreluKernelBackward(Composite):
    """Gradients of prelu for its input, and for its slopes before they are summed to their size."""

    schema = "_prelu_kernel_backward(Tensor grad_output, Tensor input, Tensor weight) -> (Tensor, Tensor)"
    function = method = out = False

    def compute(self, grad_output, input, weight):
        where, zero = find_op("where"), grad_output.new_zeros(())
        positive = input > 0
        return where(positive, grad_output, weight * grad_output), where(positive, zero, input * grad_output)
