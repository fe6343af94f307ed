"""Pointwise arithmetic: sums, products, quotients, powers, signs.

Enters: tensors and Python numbers of any arithmetic dtype. Leaves: the definitions, registered by being defined.
Refuses: what PyTorch refuses (subtracting booleans, integers to negative powers, a fractional alpha on integers).
"""

from __future__ import annotations

from rushlight import _C
from rushlight.base.promotion import rank, result_type_of
from rushlight.base.shape import INTS
from rushlight.definitions.pointwise.checks import (
    check_alpha,
    check_no_bool,
    is_bool,
    is_complex,
    is_integral,
    refuse_bool_and_complex,
)
from rushlight.loops.expr import BITS, COMPLEX, Value
from rushlight.op import Composite, Pointwise, Promote
from rushlight.op.layout import Layout


class Add(Pointwise):
    """input + alpha * other."""

    schema = (
        "add(Tensor|Scalar input, Tensor|Scalar other) -> Tensor",
        "add(Tensor|Scalar input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    )
    dunder = ("__add__", "__radd__", "__iadd__")
    onnx = "Add"

    def check(self, input, other, alpha=1):
        check_alpha("add", alpha, input, other)

    def expr(self, s, x, y, alpha=1):
        return x + alpha * y


class Sub(Pointwise):
    """input - alpha * other."""

    schema = (
        "sub(Tensor|Scalar input, Tensor|Scalar other) -> Tensor",
        "sub(Tensor|Scalar input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    )
    aliases = ("subtract",)
    dunder = ("__sub__", "__rsub__", "__isub__")
    onnx = "Sub"

    def check(self, input, other, alpha=1):
        check_no_bool("sub", input, other)
        check_alpha("sub", alpha, input, other)

    def expr(self, s, x, y, alpha=1):
        return x - alpha * y


class Rsub(Pointwise):
    """other - alpha * input: subtraction with its operands exchanged."""

    schema = "rsub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor"
    method = inplace = out = False

    def check(self, input, other, alpha=1):
        check_no_bool("rsub", input, other)
        check_alpha("rsub", alpha, input, other)

    def expr(self, s, x, y, alpha):
        return y - alpha * x


class Mul(Pointwise):
    """input * other."""

    schema = "mul(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    aliases = ("multiply",)
    dunder = ("__mul__", "__rmul__", "__imul__")
    wide = ("input", "other")
    onnx = "Mul"

    def expr(self, s, x, y):
        return x * y


class MulRows(Pointwise):
    """input * other, in dense rows whatever the order of the operands."""

    schema = "_mul_rows(Tensor input, Tensor other) -> Tensor"
    function = method = inplace = out = False
    layout = Layout.ROWS

    def expr(self, s, x, y):
        return x * y


class SubRows(Pointwise):
    """input - other, in dense rows whatever the order of the operands."""

    schema = "_sub_rows(Tensor input, Tensor other) -> Tensor"
    function = method = inplace = out = False
    layout = Layout.ROWS

    def expr(self, s, x, y):
        return x - y


class Div(Pointwise):
    """Quotient; true division unless `rounding_mode` asks for 'trunc' or 'floor'."""

    schema = "div(Tensor|Scalar input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor"
    divisor = "other"
    aliases = ("divide",)
    wide = ("input", "other")
    dunder = ("__truediv__", "__rtruediv__", "__itruediv__", "__div__", "__rdiv__", "__idiv__")

    def promotion(self, args):
        return Promote.TO_FLOAT if args[2] is None else Promote.DEFAULT

    def check(self, input, other, rounding_mode):
        if rounding_mode not in (None, "trunc", "floor"):
            raise RuntimeError(f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}")
        if rounding_mode is not None:
            refuse_bool_and_complex(f"div_{rounding_mode}", input, other)

    def expr(self, s, x, y, rounding_mode):
        if rounding_mode is None:
            return x / y
        return s.floor_divide(x, y) if rounding_mode == "floor" else s.trunc_divide(x, y)


class TrueDivide(Pointwise):
    """input / other, in a floating dtype."""

    schema = "true_divide(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    wide = ("input", "other")
    promote = Promote.TO_FLOAT

    def expr(self, s, x, y):
        return x / y


class FloorDivide(Pointwise):
    """The quotient rounded towards negative infinity."""

    schema = "floor_divide(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    divisor = "other"
    dunder = ("__floordiv__", "__rfloordiv__", "__ifloordiv__")
    refuse = ("bool", "complex")
    no_derivative = ("input", "other")
    wide = ("input", "other")

    def expr(self, s, x, y):
        return s.floor_divide(x, y)


class Remainder(Pointwise):
    """What floor division leaves: has the sign of `other`."""

    schema = "remainder(Tensor|Scalar input, Tensor|Scalar other) -> Tensor"
    needs_tensor = True
    divisor = "other"
    dunder = ("__mod__", "__rmod__", "__imod__")
    refuse = ("bool", "complex")

    def expr(self, s, x, y):
        return s.remainder(x, y)

    def vjp(self, s, g, input, other):
        return {"input": g, "other": -g * s.floor_divide(input, other)}


class Fmod(Pointwise):
    """What truncating division leaves: has the sign of `input`."""

    schema = "fmod(Tensor input, Tensor|Scalar other) -> Tensor"
    divisor = "other"
    refuse = ("bool", "complex")

    def expr(self, s, x, y):
        return s.fmod(x, y)

    def vjp(self, s, g, input, other):
        return {"input": g, "other": -g * s.trunc_divide(input, other)}


class Pow(Pointwise):
    """input ** exponent."""

    schema = "pow(Tensor|Scalar input, Tensor|Scalar exponent) -> Tensor"
    needs_tensor = True
    compiled_in = ("exponent",)
    dunder = ("__pow__", "__rpow__", "__ipow__")
    onnx = "Pow"
    checked = ("exponent",)

    def fits(self, i, dtype):
        return 0 if dtype.itemsize >= 4 and rank(dtype) >= 2 else super().fits(i, dtype)

    def check(self, input, exponent):
        integral = [is_integral(o) for o in (input, exponent)]
        if all(integral) and isinstance(exponent, INTS) and exponent < 0:
            raise RuntimeError(f"pow: integers to negative powers are not allowed, got {exponent}. Cast to float.")
        if is_bool(input) and is_bool(exponent) and not isinstance(exponent, bool):
            raise NotImplementedError("\"pow\" not implemented for 'Bool'")

    def common_dtype(self, args, operands):
        return result_type_of(args)  # an exponent that is compiled in still counts

    def expr(self, s, x, exponent):
        return power(s, x, exponent)

    def vjp(self, s, g, input, exponent):
        return power_vjp(s, g, input, exponent)


class FloatPower(Pointwise):
    """input ** exponent in double precision."""

    schema = "float_power(Tensor|Scalar input, Tensor|Scalar exponent) -> Tensor"
    needs_tensor = True
    compiled_in = ("exponent",)
    promote = Promote.TO_DOUBLE

    def common_dtype(self, args, operands):
        return result_type_of(args)

    def check(self, input, exponent):
        wanted = "complex128" if is_complex(input) or is_complex(exponent) else "float64"
        if self.is_inplace and input.dtype.name != wanted:
            raise RuntimeError(f"float_power_: the result is {wanted}, which {input.dtype.name} cannot hold.")

    def expr(self, s, x, exponent):
        return power(s, x, exponent)

    def vjp(self, s, g, input, exponent):
        return power_vjp(s, g, input, exponent)


def power(s, x, exponent):
    """x ** exponent; known numbers arrive plain and become products and roots."""
    if not isinstance(exponent, Value) and x.dtype[0] == "c" and exponent in (1, 2, 3, -1, -2):
        square = x * x      # exact where a logarithm would round
        return {1: x, 2: square, 3: square * x, -1: s.reciprocal(x), -2: s.reciprocal(square)}[int(exponent.real)]
    return s.pow(x, exponent) if isinstance(exponent, Value) else s.pow(x, s.const(exponent, x.dtype))


def power_vjp(s, g, x, exponent):
    """Gradients of a power: 0 where the exponent is 0, and no 0 * log(0) where the base is."""
    if not isinstance(exponent, Value):
        if exponent == 0:
            return {"input": s.const(0, g.dtype)}
        return {"input": g * s.conj(exponent * power(s, x, exponent - 1))}
    to_base = s.where(s.eq(exponent, 0), 0, g * s.conj(exponent * s.pow(x, exponent - 1)))
    flat = s.eq(x, 0) & (s.real(exponent) >= 0)
    to_exponent = s.where(flat, 0, g * s.conj(s.pow(x, exponent) * s.log(s.where(flat, 1, x))))
    return {"input": to_base, "exponent": to_exponent}


class Neg(Pointwise):
    """-input."""

    schema = "neg(Tensor input) -> Tensor"
    aliases = ("negative",)
    dunder = ("__neg__",)
    onnx = "Neg"

    def check(self, input):
        if is_bool(input):
            raise RuntimeError("neg: a bool tensor has no negative. Use the `~` operator or logical_not().")

    def expr(self, s, x):
        return -x


class Positive(Composite):
    """input itself."""

    schema = "positive(Tensor input) -> Tensor"
    dunder = ("__pos__",)

    def compute(self, input):
        if is_bool(input):
            raise RuntimeError("positive: the `+` operator on a bool tensor is not supported.")
        return input


class Abs(Pointwise):
    """Magnitude; of a complex number, its modulus."""

    schema = "abs(Tensor input) -> Tensor"
    aliases = ("absolute",)
    dunder = ("__abs__",)
    result = "real"
    refuse = ("bool",)
    onnx = "Abs"

    def check(self, input):
        if self.is_inplace and is_complex(input):
            raise RuntimeError("abs_: the modulus of a complex tensor is real and cannot be written over it.")

    def expr(self, s, x):
        return s.abs(x)

    def vjp(self, s, g, input):
        return {"input": g * s.sgn(input)}


class Sign(Pointwise):
    """-1, 0 or 1 by the sign of a real number."""

    schema = "sign(Tensor input) -> Tensor"
    refuse = ("complex",)
    onnx = "Sign"

    def expr(self, s, x):
        return s.sign(x)


class Sgn(Pointwise):
    """The unit number in the direction of input; 0 for 0."""

    schema = "sgn(Tensor input) -> Tensor"

    def expr(self, s, x):
        return s.sgn(x)

    def vjp(self, s, g, input, result):
        if input.dtype not in COMPLEX:
            return {"input": s.const(0, g.dtype)}
        # Only the part of g across the direction turns it; the part along it changes the modulus.
        size = s.abs(input)
        along = s.real(g * s.conj(result))
        return {"input": s.where(s.eq(size, 0), 0, (g - along * result) / s.where(s.eq(size, 0), 1, size))}


class Signbit(Pointwise):
    """Whether the sign bit is set; true of -0.0."""

    schema = "signbit(Tensor input) -> Tensor"
    inplace = False
    result = "bool"
    refuse = ("complex",)

    def expr(self, s, x):
        return s.signbit(x)


class Square(Pointwise):
    """input * input."""

    schema = "square(Tensor input) -> Tensor"
    promote = Promote.TO_INT

    def expr(self, s, x):
        return x * x


class Reciprocal(Pointwise):
    """1 / input."""

    schema = "reciprocal(Tensor input) -> Tensor"
    promote = Promote.TO_FLOAT
    onnx = "Reciprocal"

    def expr(self, s, x):
        return 1 / x

    def vjp(self, s, g, result):
        return {"input": -g * s.conj(result * result)}


class Copysign(Pointwise):
    """The magnitude of `input` with the sign of `other`."""

    schema = "copysign(Tensor input, Tensor|Scalar other) -> Tensor"
    promote = Promote.TO_FLOAT
    refuse = ("complex",)

    def expr(self, s, x, y):
        return s.copysign(x, y)

    def vjp(self, s, g, input, other, result):
        ratio = s.where(s.eq(input, 0), 0, result / s.where(s.eq(input, 0), 1, input))
        return {"input": g * ratio, "other": s.const(0, g.dtype)}


class Nextafter(Pointwise):
    """The next representable number from `input` towards `other`."""

    schema = "nextafter(Tensor input, Tensor other) -> Tensor"
    refuse = ("bool", "integer", "complex")
    upcast = False

    def expr(self, s, x, y):
        integer = f"i{BITS[x.dtype]}"
        # Floats of one sign are ordered as their bits are; half types compare in float32.
        wide = "f64" if x.dtype == "f64" else "f32"
        a, b = s.cast(x, wide), s.cast(y, wide)
        bits = s.bitcast(x, integer)
        away = s.eq(s.cast(b > a, "i32"), s.cast(a > 0, "i32"))
        stepped = s.bitcast(bits + s.where(away, s.const(1, integer), s.const(-1, integer)), x.dtype)
        sign = s.bitcast(y, integer) & s.const(-(1 << (BITS[x.dtype] - 1)), integer)
        moved = s.where(s.eq(a, 0), s.bitcast(sign | 1, x.dtype), stepped)
        return s.where(s.ne(a, a), x, s.where(s.eq(a, b) | s.ne(b, b), y, moved))

    def vjp(self, s, g):
        return {"input": g}


class Ldexp(Pointwise):
    """input * 2 ** other."""

    schema = "ldexp(Tensor input, Tensor other) -> Tensor"
    promote = Promote.TO_FLOAT

    def expr(self, s, x, y):
        return x * s.exp2(y)


class Frexp(Pointwise):
    """Mantissa in [0.5, 1) and power of two whose product is input."""

    schema = "frexp(Tensor input) -> (Tensor mantissa, Tensor exponent)"
    inplace = False

    def result_dtype(self, common, *args):
        return common, _C.int32

    def check(self, input):
        if not input.dtype.is_floating_point:
            raise RuntimeError(f"frexp: only floating point dtypes are supported, got {input.dtype.name}")

    def expr(self, s, x):
        return s.frexp(x)

    def vjp(self, s, g, input):
        _, exponent = s.frexp(input)
        return {"input": g[0] / s.exp2(s.cast(exponent, input.dtype))}


class Gcd(Pointwise):
    """Greatest common divisor."""

    schema = "gcd(Tensor input, Tensor other) -> Tensor"
    refuse = ("bool", "float", "complex")

    def expr(self, s, x, y):
        return s.gcd(x, y)


class Lcm(Pointwise):
    """Least common multiple; 0 when either is 0."""

    schema = "lcm(Tensor input, Tensor other) -> Tensor"
    refuse = ("bool", "float", "complex")

    def expr(self, s, x, y):
        return s.lcm(x, y)
