"""Symbolic reverse-mode differentiation of scalar expressions.

Enters: output Values, the Values to differentiate by, and one gradient Value per output (of its dtype).
Leaves: one gradient Value per `wrt`, again differentiable; a zero constant where nothing depends on it.
Comparisons, roundings, bits and integers are flat. `select` routes the gradient to the chosen side. The complex
convention is PyTorch's: for a real loss L and z = a + ib the gradient is dL/da + i dL/db.
Refuses: named functions without a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.loops.expr import (
    FLOATS,
    PART,
    Value,
    add,
    cast,
    complex_,
    const,
    copysign,
    gt,
    imag,
    is_const,
    lt,
    mul,
    neg,
    real,
    replace,
    replace_all,
    select,
    walk,
)
from rushlight.loops.rules import rule_of, sign

Gradients = tuple[Value | None, ...]     # of each argument; None where there is none


def gradient(outputs: Sequence[Value], wrt: Sequence[Value], grads: Sequence[Value]) -> list[Value]:
    """d(sum of outputs weighted by grads) / d(each of wrt)."""
    # A pair made of two parts, as a widened complex32 is, may be used only through them: those are what is followed.
    targets = {part for w in wrt for part in (w.args if w.op == "complex" else (w,))}
    order = walk(outputs)
    # Only what lies between the targets and the outputs carries a gradient.
    active: set[Value] = set()
    for value in order:
        if value in targets or (_differentiable(value) and not active.isdisjoint(value.args)):
            active.add(value)
    total: dict[Value, Value] = {}
    for output, g in zip(outputs, grads):
        if output in active:
            _accumulate(total, output, g)
    for value in reversed(order):
        if value in active and value in total and value.args:
            _push(value, total[value], active, total)

    def found(w: Value) -> Value:
        return total[w] if w in total else const(0, w.dtype)

    return [complex_(*map(found, w.args)) if w.op == "complex" else found(w) for w in wrt]


def _differentiable(value: Value) -> bool:
    return value.dtype in FLOATS or value.dtype in PART


def _accumulate(total: dict[Value, Value], value: Value, g: Value | None) -> None:
    if g is None or is_const(g, 0):
        return
    if value.dtype in PART and g.dtype not in PART:
        g = cast(g, value.dtype)
    elif value.dtype not in PART and g.dtype in PART:
        g = real(g)
    total[value] = add(total[value], g) if value in total else g


def _push(value: Value, g: Value, active: set[Value], total: dict[Value, Value]) -> None:
    if value.op == "call":
        rule = rule_of(value.attr)
        if rule is None:
            raise NotImplementedError(f"{value.attr}: no derivative rule")
    else:
        rule = PRIMITIVE_RULES.get(value.op)
        if rule is None:
            return
    for a, ga in zip(value.args, rule(g, value, *value.args)):
        if a in active:
            _accumulate(total, a, ga)


def _times(g: Value, factor: Value) -> Value:
    """g * factor, where a gradient of exactly one disappears."""
    return factor if is_const(g, 1) else mul(g, factor)


def _mul(g: Value, y: Value, a: Value, b: Value) -> Gradients:
    return _times(g, b), _times(g, a)


def _div(g: Value, y: Value, a: Value, b: Value) -> Gradients:
    scaled = g / b
    return scaled, neg(mul(scaled, y))


def _choice(g: Value, first: Value) -> tuple[Value, Value]:
    zero = const(0, g.dtype)
    return select(first, g, zero), select(first, zero, g)


def _select(g: Value, y: Value, condition: Value, a: Value, b: Value) -> Gradients:
    return None, *_choice(g, condition)


def _cast(g: Value, y: Value, a: Value) -> Gradients:
    return (cast(g, a.dtype),) if _differentiable(a) else (None,)


def _copysign(g: Value, y: Value, a: Value, b: Value) -> Gradients:
    # The slope is the product of the signs, and 0 at 0.
    return _times(g, copysign(const(1, g.dtype), b) * sign(a)), None


PRIMITIVE_RULES: dict[str, Callable[..., Gradients]] = {
    "add": lambda g, y, a, b: (g, g),
    "sub": lambda g, y, a, b: (g, neg(g)),
    "mul": _mul,
    "div": _div,
    "neg": lambda g, y, a: (neg(g),),
    "abs": lambda g, y, a: (_times(g, sign(a)),),
    "fma": lambda g, y, a, b, c: (_times(g, b), _times(g, a), g),
    "min": lambda g, y, a, b: _choice(g, lt(a, b)),
    "max": lambda g, y, a, b: _choice(g, gt(a, b)),
    "sqrt": lambda g, y, a: (g * 0.5 / y,),
    "copysign": _copysign,
    "select": _select,
    "cast": _cast,
    "complex": lambda g, y, re, im: (real(g), imag(g)),
    # -0.0 is the neutral element of addition: the two halves of a gradient join without an add.
    "real": lambda g, y, z: (complex_(real(g), const(-0.0, y.dtype)),),
    "imag": lambda g, y, z: (complex_(const(-0.0, y.dtype), real(g)),),
}

__all__ = ["gradient", "replace", "replace_all"]
