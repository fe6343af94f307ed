"""What is one instruction on processors with a minimum and a maximum that are NaN if either operand is."""

from __future__ import annotations

import math

from ...loops.expr import Value, node

# Functions that are one instruction on targets with `has_maximum`: the larger or smaller, NaN if either is NaN.
NATIVE = frozenset(("maximum", "minimum"))


def is_ramp(value: Value) -> bool:
    """x <= 0 ? 0 : x, as `relu` says it."""
    if value.op != "select" or value.attr is not None or value.dtype not in ("f32", "f64"):
        return False
    test, zero, x = value.args
    return is_zero(zero) and test.op == "le" and test.args[0] is x and is_zero(test.args[1])


def is_zero(value: Value) -> bool:
    """Whether a Value is the constant 0, with no sign."""
    return value.op == "const" and value.attr == 0 and math.copysign(1, value.attr) > 0


def limit_of(value: Value) -> str | None:
    """"maximum" or "minimum" where a Value is x, or a bound that x is past or that is NaN, as `clamp` says it."""
    if value.op != "select" or value.attr is not None or value.dtype not in ("f32", "f64"):
        return None
    test, bound, x = value.args
    if bound.op == "const":
        past = test if bound.attr == bound.attr else None
    elif test.op == "or" and test.args[1].op == "ne" and all(a is bound for a in test.args[1].args):
        past = test.args[0]
    else:
        past = None
    if past is None or past.op not in ("lt", "gt") or past.args[0] is not x or past.args[1] is not bound:
        return None
    return "maximum" if past.op == "lt" else "minimum"


def native_extreme(value: Value) -> Value | None:
    """What says the same with such an instruction; None for other Values."""
    if (limit := limit_of(value)) is not None:
        return node(limit, value.args[1:], value.dtype)
    if is_ramp(value):
        return node("maximum", (value.args[2], value.args[1]), value.dtype)    # of two zeros it is the positive one
    if value.op == "call" and value.attr in NATIVE and value.dtype in ("f32", "f64"):
        return node(value.attr, value.args, value.dtype)
    return None
