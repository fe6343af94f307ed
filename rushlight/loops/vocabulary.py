"""The scalar vocabulary `s`: every scalar function an op definition may use, under PyTorch's names.

Enters: Values of one compute dtype (Python numbers take it). Leaves: Values, with the meaning of PyTorch's CPU
kernels: NaN propagation, signed zeros, Python-style remainder, complex functions. Functions with a polynomial
behind them stay whole (`call`) until code is generated, so expressions are short, hash fast and print readably.
Refuses: integers where a floating function is asked for. Integer division by zero gives 0 here; raising is the
op's part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from rushlight.loops import expr
from rushlight.loops.expr import (
    BITS,
    COMPLEX,
    FLOATS,
    INTS,
    PART,
    SIGNED,
    UNSIGNED,
    Number,
    Value,
    call,
    const,
    is_const,
)
from rushlight.loops.rules import conj, sign

Operand = Value | Number

# Names of one-argument functions; those in the second tuple also take complex numbers.
REAL_UNARY = (
    "acosh", "asinh", "atanh", "erf", "erfc", "erfcx", "erfinv", "lgamma", "digamma", "i0", "i0e", "i1", "i1e",
    "logit", "ndtr", "ndtri", "log_ndtr", "log_sigmoid", "softplus", "gelu", "gelu_slope",
)
COMPLEX_UNARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "rsqrt", "sigmoid", "sinc",
)


def _unary(name: str, complex_too: bool) -> Callable[[Scalars, Value], Value]:
    def method(self: Scalars, x: Value) -> Value:
        if x.dtype not in FLOATS and not (complex_too and x.dtype in COMPLEX):
            raise TypeError(f"{name}: needs a floating{' or complex' if complex_too else ''} dtype, got {x.dtype}")
        return call(name, x)

    method.__name__ = name
    method.__doc__ = f"`{name}` of a float{' or complex number' if complex_too else ''}."
    return method


class Scalars:
    """Passed as the first parameter of `expr` in an op definition. It has no state."""

    if TYPE_CHECKING:      # the functions of REAL_UNARY and UNARY are set below

        def __getattr__(self, name: str) -> Callable[[Operand], Value]: ...

    # Building blocks

    def const(self, value: Number, dtype: str) -> Value:
        """A constant."""
        return const(value, dtype)

    def like(self, value: Number, x: Value) -> Value:
        """A constant of x's dtype."""
        return const(value, x.dtype)

    def cast(self, x: Value, dtype: str) -> Value:
        """Conversion by value."""
        return expr.cast(x, dtype)

    def bitcast(self, x: Value, dtype: str) -> Value:
        """The same bits as another dtype."""
        return expr.bitcast(x, dtype)

    def where(self, condition: Value, a: Operand, b: Operand) -> Value:
        """a where the condition holds, else b; a condition that is no boolean is tested against 0."""
        return expr.select(self.to_bool(condition), a, b)

    def to_bool(self, x: Value) -> Value:
        """x != 0."""
        return expr.cast(x, "b1")

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        """a * b + c, rounded once."""
        return expr.fma(a, b, c)

    # Comparison (Value's < <= > >= are the same as these; == is not)

    def eq(self, a: Operand, b: Operand) -> Value:
        return expr.eq(a, b)

    def ne(self, a: Operand, b: Operand) -> Value:
        return expr.ne(a, b)

    def lt(self, a: Operand, b: Operand) -> Value:
        return expr.lt(a, b)

    def le(self, a: Operand, b: Operand) -> Value:
        return expr.le(a, b)

    def gt(self, a: Operand, b: Operand) -> Value:
        return expr.gt(a, b)

    def ge(self, a: Operand, b: Operand) -> Value:
        return expr.ge(a, b)

    def logical_and(self, a: Value, b: Value) -> Value:
        return self.to_bool(a) & self.to_bool(b)

    def logical_or(self, a: Value, b: Value) -> Value:
        return self.to_bool(a) | self.to_bool(b)

    def logical_xor(self, a: Value, b: Value) -> Value:
        return self.to_bool(a) ^ self.to_bool(b)

    def logical_not(self, a: Value) -> Value:
        return ~self.to_bool(a)

    def isnan(self, x: Value) -> Value:
        if x.dtype in COMPLEX:
            return self.isnan(self.real(x)) | self.isnan(self.imag(x))
        return expr.ne(x, x) if x.dtype in FLOATS else const(False, "b1")

    def isinf(self, x: Value) -> Value:
        if x.dtype in COMPLEX:
            return self.isinf(self.real(x)) | self.isinf(self.imag(x))
        return expr.eq(expr.abs_(x), math.inf) if x.dtype in FLOATS else const(False, "b1")

    def isfinite(self, x: Value) -> Value:
        if x.dtype in COMPLEX:
            return self.isfinite(self.real(x)) & self.isfinite(self.imag(x))
        return expr.lt(expr.abs_(x), math.inf) if x.dtype in FLOATS else const(True, "b1")

    def isposinf(self, x: Value) -> Value:
        return expr.eq(x, math.inf) if x.dtype in FLOATS else const(False, "b1")

    def isneginf(self, x: Value) -> Value:
        return expr.eq(x, -math.inf) if x.dtype in FLOATS else const(False, "b1")

    # Arithmetic

    def add(self, a: Operand, b: Operand) -> Value:
        return expr.add(a, b)

    def sub(self, a: Operand, b: Operand) -> Value:
        return expr.sub(a, b)

    def mul(self, a: Operand, b: Operand) -> Value:
        return expr.mul(a, b)

    def div(self, a: Operand, b: Operand) -> Value:
        return expr.div(a, b)

    def near_div(self, a: Operand, b: Operand) -> Value:
        """a / b up to two units in the last place."""
        return expr.near_div(a, b)

    def neg(self, x: Value) -> Value:
        return expr.neg(x)

    def abs(self, x: Value) -> Value:
        """Magnitude; real for a complex argument."""
        return expr.abs_(x)

    def square(self, x: Value) -> Value:
        return x * x

    def reciprocal(self, x: Value) -> Value:
        return 1 / x

    def sqrt(self, x: Value) -> Value:
        return call("sqrt", x) if x.dtype in COMPLEX else expr.sqrt(x)

    def floor_divide(self, a: Operand, b: Operand) -> Value:
        """Quotient rounded down (Python's //)."""
        return expr.floor_divide(a, b)

    def trunc_divide(self, a: Operand, b: Operand) -> Value:
        """Quotient rounded towards zero."""
        a, b = expr.match("trunc_divide", a, b)
        return expr.trunc(a / b) if a.dtype in FLOATS else expr.idiv(a, b)

    def remainder(self, a: Operand, b: Operand) -> Value:
        """a - b * floor(a / b): the sign of b (Python's %)."""
        return expr.remainder(a, b)

    def fmod(self, a: Operand, b: Operand) -> Value:
        """a - b * trunc(a / b): the sign of a (C's fmod), exact."""
        a, b = expr.match("fmod", a, b)
        return call("fmod", a, b) if a.dtype in FLOATS else expr.irem(a, b)

    def lerp(self, a: Operand, b: Operand, weight: Operand) -> Value:
        """a + weight * (b - a), from whichever end is nearer."""
        a, b, weight = expr.match("lerp", a, b, weight)
        size = expr.abs_(weight)
        near = expr.lt(size, 0.5)
        return expr.select(near, a + weight * (b - a), b - (b - a) * (1 - weight))

    def pow(self, x: Operand, n: Operand) -> Value:
        """x ** n. Integers wrap; a negative integer exponent gives 0 unless x is 1 or -1."""
        x, n = expr.match("pow", x, n)
        if x.dtype in INTS or x.dtype == "b1":
            return _integer_power(x, n)
        if x.dtype in FLOATS and n.op == "const" and n.attr in _POWERS:
            return _POWERS[n.attr](x)
        return call("pow", x, n)

    def ldexp(self, x: Value, n: Value) -> Value:
        """x * 2 ** n."""
        return x * call("exp2", expr.cast(n, x.dtype))

    def frexp(self, x: Value) -> tuple[Value, Value]:
        """(mantissa in [0.5, 1), exponent as i32): x = mantissa * 2 ** exponent."""
        return _frexp(x)

    def gcd(self, a: Value, b: Value) -> Value:
        """Greatest common divisor, non-negative; Euclid's steps unrolled to the most a dtype can need,
        a few at a time."""

        def walk(a: Value, b: Value, steps: int) -> Value:
            for _ in range(min(steps, 6)):
                done = expr.eq(b, 0)
                a, b = expr.select(done, a, b), expr.irem(a, b)
            return expr.select(expr.ne(b, 0), walk(a, b, steps - 6), a, rare=True) if steps > 6 else a

        return walk(expr.abs_(a), expr.abs_(b), int(BITS[a.dtype] / math.log2((1 + math.sqrt(5)) / 2)) + 2)

    def lcm(self, a: Value, b: Value) -> Value:
        """Least common multiple, non-negative unless it does not fit; 0 where an argument is 0."""
        share = expr.idiv(a, self.gcd(a, b))
        if a.dtype not in ("i8", "i16"):
            return expr.abs_(share * b)
        # What does not fit loses its upper bits last of all, as in C, whose short integers are multiplied as ints.
        return expr.cast(expr.abs_(expr.cast(share, "i32") * expr.cast(b, "i32")), a.dtype)

    # Order

    def maximum(self, a: Operand, b: Operand) -> Value:
        """The larger; NaN if either is NaN."""
        a, b = expr.match("maximum", a, b)
        return call("maximum", a, b) if a.dtype in FLOATS else expr.max_(a, b)

    def minimum(self, a: Operand, b: Operand) -> Value:
        """The smaller; NaN if either is NaN."""
        a, b = expr.match("minimum", a, b)
        return call("minimum", a, b) if a.dtype in FLOATS else expr.min_(a, b)

    def fmax(self, a: Operand, b: Operand) -> Value:
        """The larger; a NaN loses."""
        a, b = expr.match("fmax", a, b)
        return call("fmax", a, b) if a.dtype in FLOATS else expr.max_(a, b)

    def fmin(self, a: Operand, b: Operand) -> Value:
        """The smaller; a NaN loses."""
        a, b = expr.match("fmin", a, b)
        return call("fmin", a, b) if a.dtype in FLOATS else expr.min_(a, b)

    def clamp(self, x: Value, low: Operand | None = None, high: Operand | None = None) -> Value:
        """min(max(x, low), high); NaN if any is; the gradient passes on the bounds themselves."""
        for bound, outside in ((low, expr.lt), (high, expr.gt)):
            if bound is not None:
                bound = expr.match("clamp", x, bound)[1]
                past = outside(x, bound)
                if bound.dtype in FLOATS and bound.op != "const":
                    past = past | self.isnan(bound)
                x = expr.select(past, bound, x)
        return x

    def relu(self, x: Value) -> Value:
        """max(x, 0) with gradient 0 at 0; NaN stays."""
        return expr.select(expr.le(x, 0), const(0, x.dtype), x)

    def sign(self, x: Value) -> Value:
        """-1, 0 or 1; 0 for NaN."""
        if x.dtype in UNSIGNED or x.dtype == "b1":
            return expr.cast(expr.ne(x, 0), x.dtype)
        return sign(x)

    def sgn(self, x: Value) -> Value:
        """sign of a real, z / |z| of a complex number."""
        return call("sgn", x) if x.dtype in COMPLEX else self.sign(x)

    def signbit(self, x: Value) -> Value:
        if x.dtype in FLOATS:
            return expr.lt(expr.copysign(const(1, x.dtype), x), 0)
        return expr.lt(x, 0) if x.dtype in SIGNED else const(False, "b1")

    def copysign(self, a: Operand, b: Operand) -> Value:
        return expr.copysign(a, b)

    def heaviside(self, x: Operand, at_zero: Operand) -> Value:
        """0 below 0, 1 above, `at_zero` at 0; 0 for NaN."""
        x, at_zero = expr.match("heaviside", x, at_zero)
        step = expr.cast(expr.gt(x, 0), x.dtype)
        return expr.select(expr.eq(x, 0), at_zero, step)

    def nextafter(self, a: Operand, b: Operand) -> Value:
        """The float next to a in the direction of b."""
        return call("nextafter", *expr.match("nextafter", a, b))

    # Rounding

    def floor(self, x: Value) -> Value:
        return expr.floor(x)

    def ceil(self, x: Value) -> Value:
        return expr.ceil(x)

    def trunc(self, x: Value) -> Value:
        return expr.trunc(x)

    def frac(self, x: Value) -> Value:
        return x - expr.trunc(x)

    def rint(self, x: Value) -> Value:
        """To the nearest integer, half to even."""
        return expr.rint(x)

    def round(self, x: Value, decimals: int = 0) -> Value:
        """Half to even; `decimals` (static) digits after the point, or before it when negative."""
        if x.dtype not in FLOATS or not decimals:
            return expr.rint(x)
        factor = 10.0 ** abs(decimals)
        if decimals > 0:
            return expr.rint(x * factor) / factor
        return expr.rint(x / factor) * factor

    # Bits

    def bitwise_and(self, a: Operand, b: Operand) -> Value:
        return expr.and_(a, b)

    def bitwise_or(self, a: Operand, b: Operand) -> Value:
        return expr.or_(a, b)

    def bitwise_xor(self, a: Operand, b: Operand) -> Value:
        return expr.xor(a, b)

    def bitwise_not(self, a: Value) -> Value:
        return expr.not_(a)

    def bitwise_left_shift(self, a: Operand, b: Operand) -> Value:
        """a << b; a count outside the width gives 0."""
        a, b = expr.match("bitwise_left_shift", a, b)
        outside = expr.lt(b, 0) | expr.ge(b, BITS[a.dtype])
        zero = const(0, a.dtype)
        return expr.select(outside, zero, expr.shl(a, expr.select(outside, zero, b)))

    def bitwise_right_shift(self, a: Operand, b: Operand) -> Value:
        """a >> b, arithmetic; a count outside the width leaves only the sign."""
        a, b = expr.match("bitwise_right_shift", a, b)
        last = BITS[a.dtype] - 1
        outside = expr.lt(b, 0) | expr.gt(b, last)
        shifted = expr.shr(a, expr.select(outside, const(last, a.dtype), b))
        return shifted if a.dtype in SIGNED else expr.select(outside, const(0, a.dtype), shifted)

    # Functions of two floats

    def atan2(self, y: Operand, x: Operand) -> Value:
        return call("atan2", *expr.match("atan2", y, x))

    def hypot(self, a: Operand, b: Operand) -> Value:
        return call("hypot", *expr.match("hypot", a, b))

    def xlogy(self, x: Operand, y: Operand) -> Value:
        """x * log(y), 0 where x is 0 (unless y is NaN)."""
        return call("xlogy", *expr.match("xlogy", x, y))

    def xlog1py(self, x: Operand, y: Operand) -> Value:
        """x * log1p(y), 0 where x is 0 (unless y is NaN)."""
        return call("xlog1py", *expr.match("xlog1py", x, y))

    def logaddexp(self, a: Operand, b: Operand) -> Value:
        """log(exp(a) + exp(b)) without overflow."""
        return call("logaddexp", *expr.match("logaddexp", a, b))

    def zeta(self, x: Operand, q: Operand) -> Value:
        """Hurwitz zeta: the sum of (k + q) ** -x over k >= 0."""
        return call("zeta", *expr.match("zeta", x, q))

    def polygamma(self, n: int, x: Value) -> Value:
        """The n-th derivative of digamma; n is static."""
        if not isinstance(n, int) or n < 0:
            raise RuntimeError(f"polygamma: the order must be a non-negative integer, got {n!r}")
        n = min(n, 171 + (n + 1) % 2)   # past 170 the factor n! is inf, and only the sign still depends on n
        return call("digamma", x) if n == 0 else call(f"polygamma:{n}", x)

    # Complex numbers

    def complex(self, re: Operand, im: Operand) -> Value:
        return expr.complex_(re, im)

    def polar(self, size: Value, angle: Value) -> Value:
        return expr.complex_(size * self.cos(angle), size * self.sin(angle))

    def real(self, z: Value) -> Value:
        return expr.real(z)

    def imag(self, z: Value) -> Value:
        return expr.imag(z)

    def conj(self, z: Value) -> Value:
        return conj(z)

    def angle(self, z: Value) -> Value:
        """The argument of a complex number; pi or 0 for a real one, NaN for NaN."""
        if z.dtype in COMPLEX:
            return call("angle", z, dtype=PART[z.dtype])
        transposed = expr.select(expr.lt(z, 0), const(math.pi, z.dtype), const(0, z.dtype))
        return expr.select(self.isnan(z), z, transposed)

    def is_complex(self, x: Value) -> bool:
        return x.dtype in COMPLEX

    def is_float(self, x: Value) -> bool:
        return x.dtype in FLOATS

    def is_integer(self, x: Value) -> bool:
        return x.dtype in INTS


for _name in REAL_UNARY:
    setattr(Scalars, _name, _unary(_name, False))
for _name in COMPLEX_UNARY:
    setattr(Scalars, _name, _unary(_name, True))

# Exponents that PyTorch computes by multiplication.
_POWERS: dict[float, Callable[[Value], Value]] = {
    0.0: lambda x: const(1, x.dtype),
    0.5: expr.sqrt,
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    -0.5: lambda x: call("rsqrt", x),
    -1.0: lambda x: 1 / x,
    -2.0: lambda x: 1 / (x * x),
}


def _integer_power(x: Value, n: Value) -> Value:
    if x.dtype == "b1":
        return expr.or_(x, expr.not_(n))
    one, zero, bits = const(1, x.dtype), const(0, x.dtype), BITS[x.dtype] - (x.dtype in SIGNED)

    def squared(result: Value, base: Value, bit: int) -> Value:
        """`result` times base to what is left of the exponent from `bit` on, a few bits at a time."""
        end = min(bit + 6, bits)
        for k in range(bit, end):
            result, base = expr.select(expr.ne(n & (1 << k), 0), result * base, result), base * base
        if end == bits:
            return result
        return expr.select(expr.ge(n, 1 << end), squared(result, base, end), result, rare=True)

    result, base = one, x
    if not is_const(n):
        result = squared(result, base, 0)
    else:
        for k in range(n.attr.bit_length() if n.attr >= 0 else 0):
            result, base = result * base if n.attr >> k & 1 else result, base * base
    if x.dtype in UNSIGNED:
        return result
    odd = expr.ne(n & 1, 0)
    negative = expr.select(expr.eq(x, 1), one, expr.select(expr.eq(x, -1), expr.select(odd, -one, one), zero))
    return expr.select(expr.lt(n, 0), negative, result)


def _frexp(x: Value) -> tuple[Value, Value]:
    digits, bias, integer = {"f32": (23, 126, "i32"), "f64": (52, 1022, "i64")}[x.dtype]
    tiny = expr.lt(expr.abs_(x), 2.0 ** (1 - bias - 1))
    bits = expr.bitcast(expr.select(tiny, x * 2.0**64, x), integer)
    mask = (2 * bias + 3) << digits
    exponent = expr.shr(bits & mask, digits) - expr.select(tiny, const(bias + 64, integer), const(bias, integer))
    mantissa = expr.bitcast((bits & ~mask) | (bias << digits), x.dtype)
    plain = expr.eq(x, 0) | ~expr.lt(expr.abs_(x), math.inf)
    zero = const(0, integer)
    return expr.select(plain, x, mantissa), expr.cast(expr.select(plain, zero, exponent), "i32")
