"""Choices, limits and fused three-operand arithmetic.

Enters: tensors and Python numbers. Leaves: the promoted dtype of the values (a condition or mask takes no part).
Refuses: conditions and masks that are not boolean; ordering complex numbers.
"""

from __future__ import annotations

import math

from rushlight import _C, rules
from rushlight.definitions.pointwise.checks import check_mask, check_same_dtype, is_bool, is_complex, is_integral
from rushlight.loops.expr import COMPLEX, FLOATS, Value
from rushlight.op import Pointwise, Promote, find_op
from rushlight.op.layout import Layout
from rushlight.op.numbers import check_fits
from rushlight.rules.levels import behind


class Where(Pointwise):
    """input where the condition holds, else other."""

    schema = "where(Tensor condition, Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    inplace = False
    apart = ("condition",)
    checked = wide = ("input", "other")
    method_self = "input"
    onnx = "Where"

    def check(self, condition):
        check_mask("where", "condition", condition, allow_bytes=True)

    def expr(self, s, condition, x, y):
        return s.where(s.cast(condition, "b1"), x, y)

    def vjp(self, s, g, condition):
        chosen = s.cast(condition, "b1")
        return {"input": s.where(chosen, g, 0), "other": s.where(chosen, 0, g)}


class MaskedFill(Pointwise):
    """input, but value where the mask holds."""

    schema = "masked_fill(Tensor input, Tensor mask, Tensor|Scalar value) -> Tensor"
    promote = Promote.KEEP
    apart = ("mask",)
    out = False
    by_value = "value"
    layout = Layout.ROWS
    checked = ("value",)

    def check(self, input, mask, value):
        check_mask("masked_fill", "mask", mask)
        if getattr(value, "ndim", 0):
            raise RuntimeError(
                f"masked_fill: value must be a number or a 0-d tensor, got {value.ndim} dims. Use where()."
            )
        if isinstance(value, _C.Tensor) and is_complex(value) and not is_complex(input) and not is_bool(input):
            raise RuntimeError(
                f"masked_fill: a complex value cannot be converted to {input.dtype.name} without overflow"
            )

    def vmap(self, level, overload, args):
        input, mask, value = args
        if not isinstance(value, _C.Tensor) or behind(value, level) is None or value.ndim:
            return rules.batching.pointwise(level, overload, args)
        ndim = max(input.ndim, mask.ndim)
        x, m, v = (rules.batching.align(rules.batching.expanded(t, level), ndim) for t in args)
        result = find_op("where")(m, v.to(x.dtype), x)
        if not overload.inplace:
            return rules.batching.wrapped(result, level)
        rules.batching.check_target(overload, args, level)
        rules.batching.front(input, level).copy_(result)
        return input

    def expr(self, s, x, mask, value):
        return s.where(mask, value, x)

    def vjp(self, s, g, mask):
        return {"input": s.where(mask, 0, g), "value": s.where(mask, g, 0)}


def check_limits(name: str, input: object, *limits: object) -> None:
    """Refuse complex operands and a missing pair of limits."""
    if all(limit is None for limit in limits):
        raise RuntimeError(f"{name}: at least one of min and max must be given")
    if any(is_complex(operand) for operand in (input, *limits)):
        raise NotImplementedError(f"{name}: complex numbers have no order. Limit the parts or abs().")
    numbers = [limit for limit in limits if limit is not None and not hasattr(limit, "dtype")]
    if numbers and all(is_bool(operand) for operand in (input, *limits) if operand is not None):
        raise NotImplementedError(
            f"\"{name}\" not implemented for 'bool' and a number. Use logical_and() or logical_or()."
        )


class Clamp(Pointwise):
    """input limited to [min, max]; where min exceeds max, max."""

    schema = "clamp(Tensor input, Tensor|Scalar? min=None, Tensor|Scalar? max=None) -> Tensor"
    aliases = ("clip",)
    checked = ("min", "max")
    onnx = "Clip"

    def check(self, input, min, max):
        check_limits("clamp", input, min, max)

    def expr(self, s, x, low, high):
        return s.clamp(x, low, high)

    def vjp(self, s, g, input, min, max):
        if max is None:
            return {"input": s.where(input >= min, g, 0), "min": s.where(input < min, g, 0)}
        if min is None:
            return {"input": s.where(input <= max, g, 0), "max": s.where(input > max, g, 0)}
        crossed = max < min
        return {
            "input": s.where((input >= min) & (input <= max), g, 0),
            "min": s.where((input < min) & (min < max), g, 0),
            "max": s.where((input > max) | crossed, g, 0),
        }


class ClampMin(Pointwise):
    """input, but at least min."""

    schema = "clamp_min(Tensor input, Tensor|Scalar min) -> Tensor"
    checked = ("min",)

    def check(self, input, min):
        check_limits("clamp_min", input, min)

    def expr(self, s, x, low):
        return s.clamp(x, low=low)

    def vjp(self, s, g, input, min):
        return {"input": s.where(input >= min, g, 0), "min": s.where(input < min, g, 0)}


class ClampMax(Pointwise):
    """input, but at most max."""

    schema = "clamp_max(Tensor input, Tensor|Scalar max) -> Tensor"
    checked = ("max",)

    def check(self, input, max):
        check_limits("clamp_max", input, max)

    def expr(self, s, x, high):
        return s.clamp(x, high=high)

    def vjp(self, s, g, input, max):
        return {"input": s.where(input <= max, g, 0), "max": s.where(input > max, g, 0)}


class Lerp(Pointwise):
    """input + weight * (end - input), exact at both ends."""

    schema = "lerp(Tensor input, Tensor end, Tensor|Scalar weight) -> Tensor"
    checked = wide = ("weight",)

    def check(self, input, end, weight):
        check_same_dtype("lerp", input, end, weight)
        if is_integral(input):
            raise NotImplementedError(f"\"lerp\" not implemented for '{input.dtype.name}'")
        if is_complex(weight) and not is_complex(input):
            check_fits("lerp", weight, input.dtype)

    def expr(self, s, x, end, weight):
        return s.lerp(x, end, weight)

    def vjp(self, s, g, input, end, weight):
        return {"input": g * s.conj(1 - weight), "end": g * s.conj(weight), "weight": g * s.conj(end - input)}


class Addcmul(Pointwise):
    """input + value * tensor1 * tensor2."""

    schema = (
        "addcmul(Tensor input, Tensor tensor1, Tensor tensor2) -> Tensor",
        "addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    )
    refuse = ("bool",)
    wide = ("value",)

    def expr(self, s, x, a, b, value=1):
        return x + value * a * b


class Addcdiv(Pointwise):
    """input + value * tensor1 / tensor2."""

    schema = (
        "addcdiv(Tensor input, Tensor tensor1, Tensor tensor2) -> Tensor",
        "addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    )
    wide = ("value",)

    def check(self, tensor1, tensor2):
        if is_integral(tensor1) and is_integral(tensor2):
            raise RuntimeError(
                "addcdiv: integer division is not supported. Use floats, or add to div(rounding_mode='trunc')."
            )

    def expr(self, s, x, a, b, value=1):
        return x + value * a / b


LARGEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308}
LARGEST |= {"c64": LARGEST["f32"], "c128": LARGEST["f64"]}


class NanToNum(Pointwise):
    """input with NaN, infinity and negative infinity replaced; by default with 0 and the dtype's limits."""

    schema = "nan_to_num(Tensor input, Scalar? nan=None, Scalar? posinf=None, Scalar? neginf=None) -> Tensor"
    upcast = False  # the limits are those of the dtype stored

    def fits(self, i, dtype):
        return 0    # they are floats: too large a one becomes an infinity

    def expr(self, s, x, nan, posinf, neginf):
        if x.dtype in COMPLEX:
            nan, posinf, neginf = (s.real(v) if isinstance(v, Value) else v for v in (nan, posinf, neginf))
            return s.complex(*[self.expr(s, part, nan, posinf, neginf) for part in (s.real(x), s.imag(x))])
        if x.dtype not in FLOATS:
            return x
        if x.dtype not in LARGEST:
            raise NotImplementedError(f"nan_to_num: not implemented for {x.dtype} tensors")
        largest, wide = LARGEST[x.dtype], "f64" if x.dtype == "f64" else "f32"
        x = s.cast(x, wide)
        nan, posinf, neginf = (
            s.const(default, wide) if v is None else s.cast(v, wide)
            for v, default in ((nan, 0), (posinf, largest), (neginf, -largest))
        )
        x = s.where(s.eq(x, math.inf), posinf, s.where(s.eq(x, -math.inf), neginf, x))
        return s.where(s.ne(x, x), nan, x)

    def vjp(self, s, g, input):
        if input.dtype in COMPLEX:
            odd = [s.ne(part - part, 0) for part in (s.real(input), s.imag(input))]
            return {"input": s.complex(s.where(odd[0], 0, s.real(g)), s.where(odd[1], 0, s.imag(g)))}
        # x - x is 0 for a finite x and NaN for the others, which differ from everything.
        return {"input": s.where(s.ne(input - input, 0), 0, g)}
