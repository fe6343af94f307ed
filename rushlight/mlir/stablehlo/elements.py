"""Expressions of the scalar language as StableHLO: each of its functions, on tensors of one shape.

Enters: expressions, and values for their leaves. Leaves: values. Named functions that StableHLO has not are expanded as
they are for kernels. Refuses: half-precision complex numbers, which StableHLO has no type for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...loops import expr
from ...loops.math.expand import expand
from ...op.pack import BY_CODE
from ..printing import Value
from .building import B1, Hlo, value

MOST_NODES = 20000      # of one op's expression
_DIGITS = {"f32": 23, "f64": 52}      # of a fraction
Leaf = Callable[[expr.Value, "Expression"], Value]


class Expression:
    """Expressions at every place of `shape`. `leaf` says what other leaves than those in `known` are."""

    def __init__(self, b: Hlo, shape: Sequence[Any], known: Mapping[expr.Value, Value], leaf: Leaf | None = None
                 ) -> None:
        self.b, self.shape, self.leaf = b, tuple(shape), leaf
        self.done: dict[expr.Value, Value] = dict(known)

    def all(self, roots: Sequence[expr.Value]) -> list[Value]:
        return [self.of(root) for root in roots]

    def of(self, root: expr.Value) -> Value:
        for e in expr.walk((root,), self.done):
            if len(self.done) > MOST_NODES:
                raise NotImplementedError(f"its expression takes more than {MOST_NODES} nodes")
            self.done[e] = self.one(e)
        return self.done[root]

    def one(self, e: expr.Value) -> Value:
        if e.op == "const":
            return self.b.constant(e.attr, BY_CODE[e.dtype], self.shape)
        if e.op in ("arg", "var", "load"):
            assert self.leaf is not None, f"nobody said what {e} is"
            return self.leaf(e, self)
        args = [self.done[a] for a in e.args]
        if e.op == "call":
            return self.function(e, args)
        if e.op == "cast":
            return cast(self.b, args[0], BY_CODE[e.dtype])
        if e.op == "table":
            return self.table(e, args[0])
        if e.op in ("add", "sub", "fma"):
            return getattr(self, e.op)(e, args)
        return _OPS[e.op](self.b, args, e)

    def add(self, e: expr.Value, args: list[Value]) -> Value:
        """A sum; one that is rounded by adding a large number says that it rounds, as compilers may reorder sums."""
        for x, y, k in ((e.args[0], e.args[1], 0), (e.args[1], e.args[0], 1)):
            if rounds(y) and x.op != "const":
                rounded = self.b.unary("round_nearest_even", args[k])
                return self.b.binary("add", rounded, args[1 - k])
        return self.b.binary("add", *args)

    def sub(self, e: expr.Value, args: list[Value]) -> Value:
        """A difference; of a sum and one of its terms it is what rounding took away, which nobody may simplify."""
        if e.dtype in expr.FLOATS:
            kept = list(args)
            for k in (0, 1):
                inner, other = e.args[k], e.args[1 - k]
                if inner.op in ("add", "sub") and other in inner.args:
                    kept[k] = self.b.op("stablehlo.optimization_barrier", [args[k]], like(args[k]))
            args = kept
        return self.b.binary("subtract", *args)

    def fma(self, e: expr.Value, args: list[Value]) -> Value:
        """Rounded twice, but where the product's own error is asked for."""
        b, (x, y, z) = self.b, args
        third = e.args[2]
        if rounds(third):
            return b.binary("add", b.unary("round_nearest_even", b.binary("multiply", x, y)), z)
        if e.dtype == "f32" and third.op == "neg" and third.args[0].op == "mul" and set(third.args[0].args) == set(
                e.args[:2]):
            wide = BY_CODE["f64"]
            x, y, z = b.convert(x, wide), b.convert(y, wide), b.convert(z, wide)
            return b.convert(b.binary("add", b.binary("multiply", x, y), z), BY_CODE["f32"])
        return b.binary("add", b.binary("multiply", x, y), z)

    def function(self, e: expr.Value, args: list[Value]) -> Value:
        name = _FUNCTIONS.get(str(e.attr))
        if name is not None and e.dtype in expr.FLOATS and all(a.dtype == e.dtype for a in e.args):
            return self.b.op(f"stablehlo.{name}", args, like(args[0]))
        return self.of(expand(str(e.attr), e.args, e.dtype))

    def table(self, e: expr.Value, index: Value) -> Value:
        numbers = self.b.list(list(e.attr), BY_CODE[e.dtype])
        return self.b.gather_at(numbers, self.b.reshape(index, (*self.shape, 1)), self.shape)


def rounds(e: expr.Value) -> bool:
    """Whether a constant is so large that adding it to a number leaves no digits behind the point, and all before."""
    digits = _DIGITS.get(e.dtype)
    return e.op == "const" and digits is not None and 2.0 ** digits <= abs(e.attr) < 2.0 ** (digits + 1)


def like(x: Value) -> Value:
    """A value of the same type, to be made."""
    return Value(x.type, x.dtype, x.shape)


def cast(b: Hlo, x: Value, dtype: Any) -> Value:
    """Conversion as kernels do it: narrow integers wrap, where StableHLO would stop at their limits."""
    if x.dtype.is_floating_point and not dtype.is_floating_point and not dtype.is_complex:
        if dtype.code in ("i8", "i16", "u8", "u16"):
            return b.convert(b.convert(x, BY_CODE["i32"]), dtype)
        if dtype.code in ("u32", "u64"):
            return b.convert(b.convert(x, BY_CODE["i64"]), dtype)
    if x.dtype is B1 and dtype.is_complex:
        x = b.convert(x, BY_CODE["f32"])
    return b.convert(x, dtype)


Rule = Callable[[Hlo, list[Value], expr.Value], Value]


def _plain(name: str) -> Rule:
    return lambda b, args, e: b.op(f"stablehlo.{name}", args, like(args[0]))


def _compare(direction: str) -> Rule:
    return lambda b, args, e: b.compare(direction, *args)


def _extreme(direction: str) -> Rule:
    return lambda b, args, e: b.select(b.compare(direction, *args), *args)


def _trunc(b: Hlo, args: list[Value], e: expr.Value) -> Value:
    x = args[0]
    below = b.compare("LT", x, b.constant(0, x.dtype, x.shape))
    return b.select(below, b.unary("ceil", x), b.unary("floor", x))


def _magnitude(b: Hlo, args: list[Value], e: expr.Value) -> Value:
    return args[0] if e.dtype in expr.UNSIGNED or e.dtype == "b1" else b.unary("abs", args[0])


def _copysign(b: Hlo, args: list[Value], e: expr.Value) -> Value:
    """The sign is the highest bit."""
    bits = BY_CODE[f"u{expr.BITS[e.dtype]}"]
    sign = 1 << (expr.BITS[e.dtype] - 1)
    size, of = (b.bitcast(a, bits) for a in args)
    kept = b.binary("and", size, b.constant(sign - 1, bits, size.shape))
    return b.bitcast(b.binary("or", kept, b.binary("and", of, b.constant(sign, bits, size.shape))), args[0].dtype)


def _of_nonzero(name: str) -> Rule:
    """Division of integers: by 0 it gives 0."""

    def rule(b: Hlo, args: list[Value], e: expr.Value) -> Value:
        x, y = args
        if e.args[1].op == "const" and e.args[1].attr:
            return b.binary(name, x, y)
        zero = b.constant(0, y.dtype, y.shape)
        none = b.compare("EQ", y, zero)
        found = b.binary(name, x, b.select(none, b.constant(1, y.dtype, y.shape), y))
        return b.select(none, zero, found)

    return rule


def _shift_right(b: Hlo, args: list[Value], e: expr.Value) -> Value:
    return b.binary("shift_right_logical" if e.dtype in expr.UNSIGNED else "shift_right_arithmetic", *args)


def _complex(b: Hlo, args: list[Value], e: expr.Value) -> Value:
    return b.op("stablehlo.complex", args, value(BY_CODE[e.dtype], args[0].shape))


def _part(name: str) -> Rule:
    return lambda b, args, e: b.op(f"stablehlo.{name}", args, value(BY_CODE[e.dtype], args[0].shape))


_OPS: dict[str, Rule] = {
    "mul": _plain("multiply"), "div": _plain("divide"),
    "idiv": _of_nonzero("divide"), "irem": _of_nonzero("remainder"), "neg": _plain("negate"), "abs": _magnitude,
    "sqrt": _plain("sqrt"), "min": _extreme("LT"), "max": _extreme("GT"), "floor": _plain("floor"),
    "ceil": _plain("ceil"), "rint": _plain("round_nearest_even"), "trunc": _trunc, "copysign": _copysign,
    "and": _plain("and"), "or": _plain("or"), "xor": _plain("xor"), "not": _plain("not"),
    "shl": _plain("shift_left"), "shr": _shift_right, "lt": _compare("LT"), "le": _compare("LE"),
    "gt": _compare("GT"), "ge": _compare("GE"), "eq": _compare("EQ"), "ne": _compare("NE"),
    "select": lambda b, args, e: b.select(*args), "bitcast": lambda b, args, e: b.bitcast(args[0], BY_CODE[e.dtype]),
    "complex": _complex, "real": _part("real"), "imag": _part("imag"),
}

# What StableHLO has under a name, of floats.
_FUNCTIONS = {
    "exp": "exponential", "exp_of_negative": "exponential", "log": "log", "log1p": "log_plus_one",
    "expm1": "exponential_minus_one", "sin": "sine", "cos": "cosine", "tan": "tan", "tanh": "tanh",
    "sigmoid": "logistic", "rsqrt": "rsqrt", "pow": "power", "atan2": "atan2", "maximum": "maximum",
    "minimum": "minimum",
}
