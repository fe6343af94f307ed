"""Operations that work one by one: arithmetic, comparisons, bits, conversions.

Enters: operations whose operands have one shape. Leaves: ATen calls that follow StableHLO where the two differ: integer
division by zero gives -1 (the remainder is the dividend), shifts beyond the width shift everything out, numbers too
large for an integer type become its largest, booleans add as `or`. Refuses element types that an operation does not
take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.shape import contiguous_format
from ...fx import Node
from ..constants import width
from ..syntax import Operation
from ..types import TensorType
from .table import BOOL, COMPLEX, FLOATS, INEXACT, INTEGERS, SIGNED, UNSIGNED, alike, of_elements, op, require, tensors
from .writer import UNSIGNED as UNSIGNED_OF, Writer, dtype

ORDER = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


def same(count: int, allowed: Sequence[str]) -> Callable[[Operation], list[TensorType]]:
    """All operands and the result have one type."""
    def check(o: Operation) -> list[TensorType]:
        types = tensors(o, count)
        of_elements(o, types, allowed)
        return [alike(o, types)]

    return check


def element(o: Operation) -> str:
    return o.types[0].element


# --- plain ones -------------------------------------------------------------------------------------------------------

UNARY = {
    "cosine": "cos", "sine": "sin", "tan": "tan", "tanh": "tanh", "exponential": "exp", "log": "log", "sqrt": "sqrt",
    "exponential_minus_one": "expm1", "log_plus_one": "log1p", "logistic": "sigmoid", "rsqrt": "rsqrt",
}
ROUNDING = {"ceil": "ceil", "floor": "floor", "round_nearest_even": "round"}


def _plain(name: str) -> Callable[..., Node]:
    def lower(w: Writer, o: Operation, *operands: Node) -> Node:
        return w(name, *operands)

    return lower


for _name, _aten in UNARY.items():
    op(_name, same(1, INEXACT), lifts=True)(_plain(f"{_aten}.default"))
for _name, _aten in ROUNDING.items():
    op(_name, same(1, FLOATS), lifts=True)(_plain(f"{_aten}.default"))
op("not", same(1, BOOL + INTEGERS), lifts=True)(_plain("bitwise_not.default"))
op("negate", same(1, INTEGERS + INEXACT), lifts=True)(_plain("neg.default"))
op("subtract", same(2, INTEGERS + INEXACT), lifts=True)(_plain("sub.Tensor"))
for _name in ("and", "or", "xor"):
    op(_name, same(2, BOOL + INTEGERS), lifts=True)(_plain(f"bitwise_{_name}.Tensor"))


@op("add", same(2, BOOL + INTEGERS + INEXACT), lifts=True)
def add(w: Writer, o: Operation, x: Node, y: Node) -> Node:
    return w("logical_or.default" if element(o) == "i1" else "add.Tensor", x, y)


@op("multiply", same(2, BOOL + INTEGERS + INEXACT), lifts=True)
def multiply(w: Writer, o: Operation, x: Node, y: Node) -> Node:
    return w("logical_and.default" if element(o) == "i1" else "mul.Tensor", x, y)


@op("maximum", same(2, BOOL + INTEGERS + FLOATS), lifts=True)
def maximum(w: Writer, o: Operation, x: Node, y: Node) -> Node:
    return w("logical_or.default" if element(o) == "i1" else "maximum.default", x, y)


@op("minimum", same(2, BOOL + INTEGERS + FLOATS), lifts=True)
def minimum(w: Writer, o: Operation, x: Node, y: Node) -> Node:
    return w("logical_and.default" if element(o) == "i1" else "minimum.default", x, y)


# --- division and powers ----------------------------------------------------------------------------------------------


@op("divide", same(2, INTEGERS + INEXACT), lifts=True)
def divide(w: Writer, o: Operation, x: Node, y: Node) -> Node:
    if element(o) in INEXACT:
        return w("div.Tensor", x, y)
    zero = w("eq.Scalar", y, 0)
    safe = w("where.self", zero, w.scalar(1, element(o)), y)
    ones = w.scalar((1 << width(element(o))) - 1 if element(o) in UNSIGNED else -1, element(o))
    return w("where.self", zero, ones, w("div.Tensor_mode", x, safe, rounding_mode="trunc"))


@op("remainder", same(2, INTEGERS + FLOATS), lifts=True)
def remainder(w: Writer, o: Operation, x: Node, y: Node) -> Node:
    if element(o) in INEXACT:
        return w("fmod.Tensor", x, y)
    zero = w("eq.Scalar", y, 0)
    safe = w("where.self", zero, w.scalar(1, element(o)), y)
    return w("where.self", zero, x, w("fmod.Tensor", x, safe))


@op("power", same(2, INTEGERS + INEXACT), lifts=True)
def power(w: Writer, o: Operation, x: Node, y: Node) -> Node:
    return w("pow.Tensor_Tensor", x, y)


@op("atan2", same(2, INEXACT), lifts=True)
def atan2(w: Writer, o: Operation, y: Node, x: Node) -> Node:
    if element(o) not in COMPLEX:
        return w("atan2.default", y, x)
    i = w.scalar(1j, element(o))
    length = w("sqrt.default", w("add.Tensor", w("mul.Tensor", x, x), w("mul.Tensor", y, y)))
    direction = w("div.Tensor", w("add.Tensor", x, w("mul.Tensor", y, i)), length)
    return w("neg.default", w("mul.Tensor", w("log.default", direction), i))


@op("cbrt", same(1, FLOATS), lifts=True)
def cbrt(w: Writer, o: Operation, x: Node) -> Node:
    root = w("pow.Tensor_Scalar", w("abs.default", x), 1 / 3)
    return w("copysign.Tensor", root, x)


# --- signs and rounding -----------------------------------------------------------------------------------------------


def _magnitude(o: Operation) -> list[TensorType]:
    kind, = tensors(o, 1)
    of_elements(o, [kind], SIGNED + INEXACT)
    return [real_type(kind)]


def real_type(kind: TensorType) -> TensorType:
    return TensorType(kind.shape, kind.element[8:-1]) if kind.element in COMPLEX else kind


@op("abs", _magnitude, lifts=True)
def absolute(w: Writer, o: Operation, x: Node) -> Node:
    return w("abs.default", x)


@op("sign", same(1, SIGNED + INEXACT), lifts=True)
def sign(w: Writer, o: Operation, x: Node) -> Node:
    if element(o) not in FLOATS:
        return w("sgn.default" if element(o) in COMPLEX else "sign.default", x)
    ordered = w("gt.Scalar", w("abs.default", x), 0)      # neither zero, whose sign stays, nor NaN
    return w("where.self", ordered, w("sign.default", x), x)


@op("round_nearest_afz", same(1, FLOATS), lifts=True)
def round_away(w: Writer, o: Operation, x: Node) -> Node:
    whole = w("trunc.default", x)
    far = w("ge.Scalar", w("abs.default", w("sub.Tensor", x, whole)), 0.5)
    return w("where.self", far, w("add.Tensor", whole, w("sign.default", x)), whole)


def _truth(o: Operation) -> list[TensorType]:
    kind, = tensors(o, 1)
    of_elements(o, [kind], FLOATS)
    return [TensorType(kind.shape, "i1")]


@op("is_finite", _truth, lifts=True)
def is_finite(w: Writer, o: Operation, x: Node) -> Node:
    return w("isfinite.default", x)


# --- bits -------------------------------------------------------------------------------------------------------------


def unsigned(w: Writer, x: Node, kind: str) -> Node:
    """The same bits without a sign."""
    return x if kind in UNSIGNED else w("view.dtype", x, dtype(UNSIGNED_OF[width(kind)]))


def resigned(w: Writer, x: Node, kind: str) -> Node:
    """The same bits as the type says."""
    return x if kind in UNSIGNED else w("view.dtype", x, dtype(kind))


def within(w: Writer, amount: Node, kind: str) -> Node:
    """Whether a shift is less than the width."""
    return w("lt.Scalar", unsigned(w, amount, kind), width(kind))


@op("shift_left", same(2, INTEGERS), lifts=True)
def shift_left(w: Writer, o: Operation, x: Node, amount: Node) -> Node:
    zero, kept = w.scalar(0, element(o)), within(w, amount, element(o))
    return w("where.self", kept, w("bitwise_left_shift.Tensor", x, w("where.self", kept, amount, zero)), zero)


@op("shift_right_logical", same(2, INTEGERS), lifts=True)
def shift_right_logical(w: Writer, o: Operation, x: Node, amount: Node) -> Node:
    kind = element(o)
    zero, kept = w.scalar(0, kind), within(w, amount, kind)
    safe = unsigned(w, w("where.self", kept, amount, zero), kind)
    shifted = w("bitwise_right_shift.Tensor", unsigned(w, x, kind), safe)
    return w("where.self", kept, resigned(w, shifted, kind), zero)


@op("shift_right_arithmetic", same(2, INTEGERS), lifts=True)
def shift_right_arithmetic(w: Writer, o: Operation, x: Node, amount: Node) -> Node:
    kind, bits = element(o), width(element(o))
    signed = dtype(f"i{bits}")
    safe = w("where.self", within(w, amount, kind), amount, w.scalar(bits - 1, kind))
    if kind in UNSIGNED:
        x, safe = w("view.dtype", x, signed), w("view.dtype", safe, signed)
    shifted = w("bitwise_right_shift.Tensor", x, safe)
    return w("view.dtype", shifted, dtype(kind)) if kind in UNSIGNED else shifted


def _shifted(w: Writer, x: Node, by: int, kind: str) -> Node:
    return w("bitwise_right_shift.Tensor", x, w.scalar(by, kind))


def _masked(w: Writer, x: Node, byte: int, kind: str) -> Node:
    mask = int.from_bytes(bytes([byte]) * (width(kind) // 8), "little")
    return w("bitwise_and.Tensor", x, w.scalar(mask, kind))


def ones(w: Writer, x: Node, kind: str) -> Node:
    """How many bits are set, in unsigned integers: sums of neighbours, then of pairs, then of bytes."""
    x = w("sub.Tensor", x, _masked(w, _shifted(w, x, 1, kind), 0x55, kind))
    x = w("add.Tensor", _masked(w, x, 0x33, kind), _masked(w, _shifted(w, x, 2, kind), 0x33, kind))
    x = _masked(w, w("add.Tensor", x, _shifted(w, x, 4, kind)), 0x0F, kind)
    by = 8
    while by < width(kind):
        x, by = w("add.Tensor", x, _shifted(w, x, by, kind)), by * 2
    return w("bitwise_and.Tensor", x, w.scalar(0x7F, kind))


@op("popcnt", same(1, INTEGERS), lifts=True)
def popcnt(w: Writer, o: Operation, x: Node) -> Node:
    return resigned(w, ones(w, unsigned(w, x, element(o)), UNSIGNED_OF[width(element(o))]), element(o))


@op("count_leading_zeros", same(1, INTEGERS), lifts=True)
def count_leading_zeros(w: Writer, o: Operation, x: Node) -> Node:
    bits = width(element(o))
    kind, x, by = UNSIGNED_OF[bits], unsigned(w, x, element(o)), 1
    while by < bits:      # every bit below the highest one is set
        x, by = w("bitwise_or.Tensor", x, _shifted(w, x, by, kind)), by * 2
    return resigned(w, w("sub.Tensor", w.scalar(bits, kind), ones(w, x, kind)), element(o))


# --- complex numbers --------------------------------------------------------------------------------------------------


def _parts(o: Operation) -> list[TensorType]:
    types = tensors(o, 2)
    of_elements(o, types, ("f32", "f64"))
    kind = alike(o, types)
    return [TensorType(kind.shape, f"complex<{kind.element}>")]


@op("complex", _parts, lifts=True)
def from_parts(w: Writer, o: Operation, real: Node, imaginary: Node) -> Node:
    return w("complex.default", real, imaginary)


def _part(o: Operation) -> list[TensorType]:
    kind, = tensors(o, 1)
    of_elements(o, [kind], INEXACT)
    return [real_type(kind)]


def part(w: Writer, x: Node, index: int) -> Node:
    return w("select.int", w("view_as_real.default", x), -1, index)


@op("real", _part, lifts=True)
def real(w: Writer, o: Operation, x: Node) -> Node:
    return part(w, x, 0) if element(o) in COMPLEX else x


@op("imag", _part, lifts=True)
def imag(w: Writer, o: Operation, x: Node) -> Node:
    return part(w, x, 1) if element(o) in COMPLEX else w("zeros_like.default", x)


# --- choices ----------------------------------------------------------------------------------------------------------


def _compared(o: Operation) -> list[TensorType]:
    types = tensors(o, 2)
    kind = alike(o, types)
    direction = o.keyword("comparison_direction", tuple(ORDER))
    how = o.keyword("compare_type", ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED", "NOTYPE"), "NOTYPE")
    require(o, how != "TOTALORDER" or kind.element in FLOATS, f"a total order is one of floating-point numbers, got"
        f" {kind}")
    require(o, kind.element not in COMPLEX or direction in ("EQ", "NE"), "complex numbers are equal or not: EQ or NE")
    return [TensorType(kind.shape, "i1")]


@op("compare", _compared, lifts=True)
def compare(w: Writer, o: Operation, x: Node, y: Node) -> Node:
    if o.attributes.get("compare_type") is not None and o.keyword(
            "compare_type", ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED", "NOTYPE")) == "TOTALORDER":
        x, y = total_order(w, x, element(o)), total_order(w, y, element(o))
    return w(f"{ORDER[o.keyword('comparison_direction', tuple(ORDER))]}.Tensor", x, y)


def total_order(w: Writer, x: Node, kind: str) -> Node:
    """Integers in the total order of floating-point numbers: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    bits = width(kind)
    whole = w("view.dtype", x, dtype(f"i{bits}"))
    flipped = w("bitwise_xor.Tensor", whole, w.scalar((1 << bits - 1) - 1, f"i{bits}"))
    return w("where.self", w("lt.Scalar", whole, 0), flipped, whole)


def _selected(o: Operation) -> list[TensorType]:
    pred, x, y = tensors(o, 3)
    require(o, pred.element == "i1", f"the first operand chooses, and has elements of i1, got {pred}")
    kind = alike(o, [x, y])
    if pred.shape:
        alike(o, [TensorType(pred.shape, kind.element), kind])
    return [kind]


@op("select", _selected, lifts=True)
def select(w: Writer, o: Operation, pred: Node, x: Node, y: Node) -> Node:
    return w("where.self", pred, x, y)


def _clamped(o: Operation) -> list[TensorType]:
    low, x, high = tensors(o, 3)
    of_elements(o, [x], BOOL + INTEGERS + FLOATS)
    for bound in (low, high):
        if bound.shape:
            alike(o, [bound, x])
        require(o, bound.element == x.element, f"bounds must have the type of the operand, got {bound} and {x}")
    return [x]


@op("clamp", _clamped, lifts=True)
def clamp(w: Writer, o: Operation, low: Node, x: Node, high: Node) -> Node:
    if o.types[1].element == "i1":
        return w("logical_and.default", w("logical_or.default", x, low), high)
    return w("minimum.default", w("maximum.default", x, low), high)


# --- conversions ------------------------------------------------------------------------------------------------------


def _converted(o: Operation) -> list[TensorType]:
    kind, = tensors(o, 1)
    require(o, len(o.results) == 1 and isinstance(o.type, TensorType), "expected one tensor as result")
    return [TensorType(kind.shape, o.type.element)]


@op("convert", _converted, lifts=True)
def convert(w: Writer, o: Operation, x: Node) -> Node:
    return converted(w, x, element(o), o.type.element)


def converted(w: Writer, x: Node, source: str, target: str) -> Node:
    """Elements of one type as those of another."""
    if source == target:
        return x
    if target == "i1":
        return w("ne.Scalar", x, 0)
    if source in COMPLEX and target not in COMPLEX:
        return converted(w, part(w, x, 0), source[8:-1], target)
    if source in FLOATS and target in INTEGERS:
        return saturated(w, x, target)
    return w("_to_copy.default", x, dtype=dtype(target))


def saturated(w: Writer, x: Node, target: str) -> Node:
    """Floating-point numbers cut to integers: those that are too large become the largest, and NaN becomes 0."""
    bits = width(target)
    low, high = (0, (1 << bits) - 1) if target in UNSIGNED else (-(1 << bits - 1), (1 << bits - 1) - 1)
    large, small = w("ge.Scalar", x, float(high + 1)), w("lt.Scalar", x, float(low))
    fits = w("logical_and.default", w("lt.Scalar", x, float(high + 1)), w("ge.Scalar", x, float(low)))
    cut = w("_to_copy.default", w("where.ScalarOther", fits, x, 0.0), dtype=dtype(target))
    return w("where.self", large, w.scalar(high, target), w("where.self", small, w.scalar(low, target), cut))


def _reinterpreted(o: Operation) -> list[TensorType] | None:
    kind, = tensors(o, 1)
    require(o, len(o.results) == 1 and isinstance(o.type, TensorType), "expected one tensor as result")
    target: TensorType = o.type
    for t in (kind, target):
        require(o, t.element != "i1" or kind.element == target.element, "bits of booleans have no place in memory")
    a, b = width(kind.element), width(target.element)
    require(o, (kind.element in COMPLEX) == (target.element in COMPLEX), "complex numbers stay complex")
    if a == b:
        return [TensorType(kind.shape, target.element)]
    if a > b:
        return [TensorType((*kind.shape, a // b), target.element)]
    require(o, bool(kind.shape) and kind.shape[-1] in (b // a, None), f"the last dimension must be {b // a}, got"
        f" {kind}")
    return [TensorType(kind.shape[:-1], target.element)]


@op("bitcast_convert", _reinterpreted)
def bitcast_convert(w: Writer, o: Operation, x: Node) -> Node:
    a, b, wanted = width(element(o)), width(o.type.element), dtype(o.type.element)
    if element(o) == o.type.element:
        return x
    if a == b:
        return w("view.dtype", x, wanted)
    if a > b:
        return w("view.dtype", w("unsqueeze.default", x, -1), wanted)
    whole = w("clone.default", x, memory_format=contiguous_format)
    return w("squeeze.dim", w("view.dtype", whole, wanted), -1)




def _reduced(o: Operation) -> list[TensorType]:
    kind = same(1, ("f16", "bf16", "f32", "f64"))(o)
    require(o, o.integer("exponent_bits", bits=32) >= 1, "expected at least one bit of exponent")
    require(o, o.integer("mantissa_bits", bits=32) >= 0, "expected at least no bits of mantissa")
    return kind


MANTISSAS = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


@op("reduce_precision", _reduced, lifts=True)
def reduce_precision(w: Writer, o: Operation, x: Node) -> Node:
    """Round the mantissa to the nearest even one, and what the exponent cannot hold to infinity or zero."""
    kind, bits = element(o), width(element(o))
    integers, mantissa = f"ui{bits}", MANTISSAS[kind]
    exponent = bits - 1 - mantissa
    drop = max(0, mantissa - o.integer("mantissa_bits", bits=32))
    narrow = min(exponent, o.integer("exponent_bits", bits=32))

    def number(value: int) -> Node:
        return w.scalar(value, integers)

    whole = w("view.dtype", x, dtype(integers))
    sign_bit = w("bitwise_and.Tensor", whole, number(1 << bits - 1))
    result = whole
    if drop:
        last = w("bitwise_and.Tensor", w("bitwise_right_shift.Tensor", whole, number(drop)), number(1))
        raised = w("add.Tensor", whole, w("add.Tensor", last, number((1 << drop - 1) - 1)))
        result = w("bitwise_and.Tensor", raised, number((1 << bits) - (1 << drop)))
    if narrow < exponent:
        bias, narrow_bias = (1 << exponent - 1) - 1, (1 << narrow - 1) - 1
        powers = w("bitwise_and.Tensor", result, number(((1 << exponent) - 1) << mantissa))
        over = w("gt.Tensor", powers, number((bias + narrow_bias) << mantissa))
        under = w("le.Tensor", powers, number((bias - narrow_bias) << mantissa))
        infinite = w("bitwise_or.Tensor", sign_bit, number(((1 << exponent) - 1) << mantissa))
        result = w("where.self", over, infinite, w("where.self", under, sign_bit, result))
    return w("where.self", w("isnan.default", x), x, w("view.dtype", result, dtype(kind)))
