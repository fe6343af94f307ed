"""Activation functions of neural networks.

Enters: floating tensors (a few take integers). Leaves: the same dtype. Refuses: what PyTorch refuses, mostly integers
and complex numbers. Slopes are run-time numbers, so changing one compiles nothing; numbers whose value must be
checked are compiled in.

Note [safe branches]: where one branch of a choice overflows, its argument is clamped to the range in which it is
chosen, so that neither the value nor any derivative of the other branch meets 0 * inf.
"""

from __future__ import annotations

import math

from rushlight.definitions.pointwise.checks import is_bool
from rushlight.op import Composite, Pointwise, Promote, find_op
from rushlight.op.numbers import check_fits

FLOATING_ONLY = ("bool", "integer", "complex")


def zero_where(s, condition, g):
    """g, but 0 where the condition holds."""
    return s.where(condition, 0, g)


class Relu(Pointwise):
    """input where positive, else 0."""

    schema = "relu(Tensor input) -> Tensor"
    inplace_flag = True
    aliases = ("nn.functional.relu",)
    refuse = ("complex",)
    out = False
    onnx = "Relu"

    def check(self, input):
        if is_bool(input):
            raise RuntimeError("relu: boolean inputs are not supported")

    def expr(self, s, x):
        return s.relu(x)

    def vjp(self, s, g, result):
        return {"input": zero_where(s, result <= 0, g)}


class Relu6(Pointwise):
    """input limited to [0, 6]."""

    schema = "relu6(Tensor input) -> Tensor"
    inplace_flag = True
    namespace = "nn.functional"
    method = out = False
    refuse = ("complex",)

    def check(self, input):
        if is_bool(input):
            raise RuntimeError("relu6: boolean inputs are not supported")

    def expr(self, s, x):
        return s.clamp(x, 0, 6)

    def vjp(self, s, g, input):
        return {"input": s.where((input > 0) & (input < 6), g, 0)}


class Hardtanh(Pointwise):
    """input limited to [min_val, max_val]."""

    schema = "hardtanh(Tensor input, float min_val=-1.0, float max_val=1.0) -> Tensor"
    inplace_flag = True
    namespace = "nn.functional"
    method = out = False
    refuse = ("complex",)

    def check(self, input, min_val, max_val):
        if is_bool(input):
            raise RuntimeError("hardtanh: boolean inputs are not supported")
        if min_val > max_val:
            raise ValueError(f"hardtanh: expected min_val <= max_val, got {min_val} and {max_val}")
        if not (input.dtype.is_signed or input.dtype.is_floating_point) and min(min_val, max_val) < 0:
            raise RuntimeError(
                f"hardtanh: negative limits on the unsigned dtype {input.dtype.name}. Cast to a signed dtype."
            )
        for limit in (min_val, max_val):
            check_fits("hardtanh", limit, input.dtype)

    def expr(self, s, x, min_val, max_val):
        return s.clamp(x, s.const(min_val, x.dtype), s.const(max_val, x.dtype))

    def vjp(self, s, g, input, min_val, max_val):
        return {"input": s.where((input > min_val) & (input < max_val), g, 0)}


class LeakyRelu(Pointwise):
    """input where positive, else negative_slope * input."""

    schema = "leaky_relu(Tensor input, Scalar negative_slope=0.01) -> Tensor"
    inplace_flag = True
    namespace = "nn.functional"
    method = out = False
    refuse = FLOATING_ONLY
    wide = ("negative_slope",)
    onnx = "LeakyRelu"

    def expr(self, s, x, negative_slope):
        return s.where(x > 0, x, x * negative_slope)

    def vjp(self, s, g, input, negative_slope):
        return {"input": s.where(input > 0, g, g * negative_slope)}


class Threshold(Pointwise):
    """input where it exceeds the threshold, else value."""

    schema = "threshold(Tensor input, Scalar threshold, Scalar value) -> Tensor"
    inplace_flag = True
    aliases = ("nn.functional.threshold",)
    method = False
    refuse = ("bool", "complex")
    wide = ("threshold",)

    def expr(self, s, x, threshold, value):
        return s.where(x <= threshold, value, x)

    def vjp(self, s, g, input, threshold):
        return {"input": zero_where(s, input <= threshold, g)}


class Elu(Pointwise):
    """input where positive, else alpha * (e ** input - 1)."""

    schema = "elu(Tensor input, Scalar alpha=1.0) -> Tensor"
    inplace_flag = True
    namespace = "nn.functional"
    method = out = False
    refuse = FLOATING_ONLY
    wide = ("alpha",)
    onnx = "Elu"

    def expr(self, s, x, alpha):
        return s.where(x > 0, x, alpha * s.expm1(below_zero(s, x)))

    def vjp(self, s, g, input, alpha):
        return {"input": s.where(input > 0, g, g * alpha * s.exp(below_zero(s, input)))}


def below_zero(s, x):
    """x, but 0 where it is positive (see note [safe branches])."""
    return s.where(x > 0, 0, x)


class Celu(Pointwise):
    """input where positive, else alpha * (e ** (input / alpha) - 1)."""

    schema = "celu(Tensor input, float alpha=1.0) -> Tensor"
    inplace_flag = True
    aliases = ("nn.functional.celu",)
    method = out = False
    refuse = FLOATING_ONLY
    onnx = "Celu"

    def check(self, alpha):
        if alpha == 0:
            raise RuntimeError("celu: alpha must not be 0: the slope divides by it")

    def expr(self, s, x, alpha):
        return s.where(x > 0, x, alpha * s.expm1(below_zero(s, x) / alpha))

    def vjp(self, s, g, input, alpha):
        return {"input": s.where(input > 0, g, g * s.exp(below_zero(s, input) / alpha))}


SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


class Selu(Pointwise):
    """elu scaled so that mean 0 and variance 1 are a fixed point."""

    schema = "selu(Tensor input) -> Tensor"
    inplace_flag = True
    aliases = ("nn.functional.selu",)
    method = out = False
    refuse = FLOATING_ONLY
    onnx = "Selu"

    def expr(self, s, x):
        return SELU_SCALE * s.where(x > 0, x, SELU_ALPHA * s.expm1(below_zero(s, x)))

    def vjp(self, s, g, input):
        return {"input": g * SELU_SCALE * s.where(input > 0, 1, SELU_ALPHA * s.exp(below_zero(s, input)))}


class Gelu(Pointwise):
    """input times the normal distribution function of it; or the tanh formula that approximates it."""

    schema = "gelu(Tensor input, *, str approximate='none') -> Tensor"
    namespace = "nn.functional"
    method = inplace = False
    refuse = FLOATING_ONLY
    onnx = "Gelu"

    def check(self, approximate):
        if approximate not in ("none", "tanh"):
            raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")

    def expr(self, s, x, approximate):
        if approximate == "tanh":
            return 0.5 * x * (1 + s.tanh(tanh_argument(x)))
        return s.gelu(x)

    def vjp(self, s, g, input, approximate):
        if approximate == "tanh":
            t = s.tanh(tanh_argument(input))
            slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * input * input)
            return {"input": g * 0.5 * (1 + t + input * (1 - t * t) * slope)}
        return {"input": g * s.gelu_slope(input)}


def tanh_argument(x):
    """What the tanh formula of gelu takes the tanh of."""
    return math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)


class Silu(Pointwise):
    """input * sigmoid(input)."""

    schema = "silu(Tensor input) -> Tensor"
    inplace_flag = True
    namespace = "nn.functional"
    method = out = False
    refuse = ("bool", "integer")

    def expr(self, s, x):
        return x / (1 + s.exp(-x))

    def vjp(self, s, g, input):
        y = s.sigmoid(input)
        return {"input": g * s.conj(y * (1 + input * (1 - y)))}


class Mish(Pointwise):
    """input * tanh(softplus(input))."""

    schema = "mish(Tensor input) -> Tensor"
    inplace_flag = True
    namespace = "nn.functional"
    method = out = False
    refuse = FLOATING_ONLY
    onnx = "Mish"

    def expr(self, s, x):
        return x * s.tanh(s.softplus(x))

    def vjp(self, s, g, input):
        t = s.tanh(s.softplus(input))
        return {"input": g * (t + input * s.sigmoid(input) * (1 - t * t))}


class Softplus(Pointwise):
    """log(1 + e ** (beta * input)) / beta; input itself where beta * input passes the threshold."""

    schema = "softplus(Tensor input, Scalar beta=1.0, Scalar threshold=20.0) -> Tensor"
    namespace = "nn.functional"
    method = inplace = False
    refuse = FLOATING_ONLY
    wide = ("beta", "threshold")
    onnx = "Softplus"

    def expr(self, s, x, beta, threshold):
        z = x * beta
        return s.where(z > threshold, x, s.log1p(s.exp(z)) / beta)

    def vjp(self, s, g, input, beta, threshold):
        z = input * beta
        return {"input": s.where(z > threshold, g, g * s.sigmoid(z))}


class Softshrink(Pointwise):
    """input moved towards 0 by lambd, 0 within it."""

    schema = "softshrink(Tensor input, float lambd=0.5) -> Tensor"
    namespace = "nn.functional"
    method = inplace = False
    refuse = FLOATING_ONLY

    def check(self, lambd):
        if lambd < 0:
            raise RuntimeError(f"softshrink: lambd must not be negative, got {lambd}")

    def expr(self, s, x, lambd):
        # x * 0 in the middle keeps a NaN.
        return s.where(x > lambd, x - lambd, s.where(x < -lambd, x + lambd, x * 0))

    def vjp(self, s, g, input, lambd):
        return {"input": s.where((input < -lambd) | (input > lambd), g, 0)}


class Hardshrink(Pointwise):
    """input, but 0 within lambd of 0."""

    schema = "hardshrink(Tensor input, Scalar lambd=0.5) -> Tensor"
    aliases = ("nn.functional.hardshrink",)
    inplace = False
    refuse = FLOATING_ONLY
    onnx = "Shrink"

    def expr(self, s, x, lambd):
        return zero_where(s, (x >= -lambd) & (x <= lambd), x)

    def vjp(self, s, g, input, lambd):
        return {"input": s.where((input < -lambd) | (input > lambd), g, 0)}


class Hardsigmoid(Pointwise):
    """input / 6 + 1/2 limited to [0, 1]."""

    schema = "hardsigmoid(Tensor input) -> Tensor"
    inplace_flag = True
    namespace = "nn.functional"
    method = out = False
    refuse = FLOATING_ONLY
    onnx = "HardSigmoid"

    def expr(self, s, x):
        return s.clamp(x + 3, 0, 6) / 6

    def vjp(self, s, g, input):
        return {"input": s.where((input > -3) & (input < 3), g / 6, 0)}


class Hardswish(Pointwise):
    """input * hardsigmoid(input)."""

    schema = "hardswish(Tensor input) -> Tensor"
    inplace_flag = True
    namespace = "nn.functional"
    method = out = False
    refuse = FLOATING_ONLY
    onnx = "HardSwish"

    def expr(self, s, x):
        return x * s.clamp(x + 3, 0, 6) / 6

    def vjp(self, s, g, input):
        return {"input": s.where(input <= -3, 0, s.where(input >= 3, g, g * (input / 3 + 0.5)))}


class Tanhshrink(Pointwise):
    """input - tanh(input)."""

    schema = "tanhshrink(Tensor input) -> Tensor"
    namespace = "nn.functional"
    method = inplace = out = False
    promote = Promote.TO_FLOAT

    def check(self, input):
        if is_bool(input):
            raise RuntimeError("tanhshrink: boolean inputs are not supported")

    def expr(self, s, x):
        return x - s.tanh(x)


class Logsigmoid(Pointwise):
    """log(sigmoid(input)), without overflow."""

    schema = "logsigmoid(Tensor input) -> Tensor"
    namespace = "nn.functional"
    method = inplace = False
    refuse = FLOATING_ONLY

    def expr(self, s, x):
        return s.log_sigmoid(x)

    def vjp(self, s, g, input):
        return {"input": g * s.sigmoid(-input)}


class Softsign(Pointwise):
    """x / (1 + |x|): bounded like tanh, with slower tails."""

    schema = "softsign(Tensor input) -> Tensor"
    namespace = "nn.functional"
    method = inplace = out = False
    promote = Promote.TO_FLOAT
    onnx = "Softsign"

    def check(self, input):
        if is_bool(input):
            raise NotImplementedError("\"softsign\" not implemented for 'Bool'")

    def expr(self, s, x):
        return x / (1 + s.abs(x))


class Sigmoid(Pointwise):
    """1 / (1 + e ** -input)."""

    schema = "sigmoid(Tensor input) -> Tensor"
    aliases = ("special.expit", "nn.functional.sigmoid")
    promote = Promote.TO_FLOAT
    onnx = "Sigmoid"

    def expr(self, s, x):
        return s.sigmoid(x)

    def vjp(self, s, g, result):
        return {"input": g * s.conj(result * (1 - result))}


class Logit(Pointwise):
    """log(input / (1 - input)), the input first limited to [eps, 1 - eps] when eps is given."""

    schema = "logit(Tensor input, Scalar? eps=None) -> Tensor"
    aliases = ("special.logit",)
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x, eps):
        x = x if eps is None else s.clamp(x, eps, 1 - eps)
        return s.log(x / (1 - x))

    def vjp(self, s, g, input, eps):
        slope = g / (input * (1 - input))
        if eps is None:
            return {"input": s.where((input < 0) | (input > 1), float("nan"), slope)}
        return {"input": s.where((input >= eps) & (input <= 1 - eps), slope, 0)}


class PreluKernel(Pointwise):
    """input where positive, else weight * input; the weight is already shaped to broadcast."""

    schema = "_prelu_kernel(Tensor input, Tensor weight) -> Tensor"
    method = inplace = out = False
    refuse = FLOATING_ONLY

    def expr(self, s, x, weight):
        return s.where(x > 0, x, weight * x)

    def vjp(self, s, g, input, weight):
        return {"input": s.where(input > 0, g, weight * g), "weight": s.where(input > 0, 0, input * g)}


class Prelu(Composite):
    """leaky_relu with a learned slope, one for all channels (dim 1) or one each."""

    schema = "prelu(Tensor input, Tensor weight) -> Tensor"
    aliases = ("nn.functional.prelu",)

    def compute(self, input, weight):
        if weight.dtype is not input.dtype:
            raise RuntimeError(f"prelu: expected a weight of dtype {input.dtype.name}, got {weight.dtype.name}")
        if weight.ndim > 1:
            raise RuntimeError(f"prelu: weight must be a scalar or 1-D tensor, got {weight.ndim} dims")
        if weight.numel() != 1:
            channels = input.shape[1] if input.ndim > 1 else 1
            if input.ndim == 0:
                raise RuntimeError("prelu: a zero-dim input takes a single weight")
            if channels != weight.numel():
                raise RuntimeError(f"prelu: one weight per channel or one in all, got {weight.numel()} for {channels}")
        if input.ndim != 1:
            weight = weight.reshape([1, -1] + [1] * (input.ndim - 2) if input.ndim else ())
        return find_op("_prelu_kernel")(input, weight)
