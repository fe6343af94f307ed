"""Integer division in vector loops: there is no instruction for it, and taking lanes apart costs more than it saves.

Enters: an `idiv` or `irem` on lanes. Leaves: the same integers from a quotient of floats, where that is faster, or
NotVector: element by element is.

For integers below 2**p, p the digits of the float, the rounded quotient truncates to the integer one: a / b that is no
integer is at least 1 / |b| away from the next, and rounding moves it by at most |a / b| / 2**p, which is less. What is
left, a - q b, is smaller than b and so exact in a fused multiply-add.
"""

from __future__ import annotations

from ...loops.expr import SIGNED, Value, cast, const, div, eq, fma, neg, or_, select, trunc
from .targets import Target

SHORT = {"i8": "f32", "u8": "f32", "i16": "f32", "u16": "f32"}
MIDDLE = {"i32": "f64", "u32": "f64"}   # two divisions of f64 take as long as two of integers where registers are short


def float_for(value: Value, target: Target) -> str | None:
    """The type whose divider serves a division on lanes; none for divisors that are known, which LLVM multiplies by."""
    if value.args[1].op == "const":
        return None
    return SHORT.get(value.dtype) or (MIDDLE.get(value.dtype) if target.vector_bits > 128 else None)


def by_floats(value: Value, wide: str) -> Value:
    """`idiv` or `irem` as operations on floats; by zero gives 0, the lowest integer by -1 wraps."""
    (a, b), code = value.args, value.dtype
    unsafe = or_(eq(b, 0), eq(b, -1)) if code in SIGNED else eq(b, 0)
    top, bottom = cast(a, wide), cast(select(unsafe, const(1, code), b), wide)
    quotient = trunc(div(top, bottom))
    if value.op == "irem":
        return cast(fma(neg(quotient), bottom, top), code)
    result = cast(quotient, code)
    if code in SIGNED:
        result = select(eq(b, -1), neg(a), result)
    return select(eq(b, 0), const(0, code), result)
