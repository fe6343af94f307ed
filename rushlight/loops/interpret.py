"""Reference interpreter: evaluates scalar expressions on NumPy arrays, one primitive at a time.

Enters: Values made of primitives (named calls are lowered first) and one array per operand.
Leaves: arrays of the Values' dtypes. It is the meaning the generated kernels are verified against, so it is
written for plainness, not speed. Refuses: loop variables and loads without a binding.
NumPy is imported when the first expression is evaluated, never with the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from rushlight.loops.expr import BITS, INTS, Value, walk
from rushlight.loops.math import expand as math

if TYPE_CHECKING:
    from numpy import ndarray as Array

NAMES = {
    "b1": "bool", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64",
    "c128": "complex128",
}


def evaluate(
    values: Sequence[Value], operands: Sequence[Array] = (), variables: Mapping[str, object] | None = None
) -> list[Array]:
    """The arrays that `values` stand for; operand k is `operands[k]`, a variable is looked up by name."""
    import numpy as np

    values = math.lower(values)
    done: dict[Value, Array] = {}
    with np.errstate(all="ignore"):
        for item in walk(values):
            done[item] = _step(np, item, [done[a] for a in item.args], operands, variables or {})
    return [done[v] for v in values]


def _step(
    np: ModuleType, item: Value, args: list[Array], operands: Sequence[Array], variables: Mapping[str, object]
) -> Array:
    op, kind = item.op, NAMES[item.dtype]
    if op == "const":
        return np.asarray(item.attr, kind)
    if op == "arg":
        return np.asarray(operands[item.attr], kind)
    if op == "var":
        return np.asarray(variables[item.attr], kind)
    if op == "load":
        return np.asarray(operands[item.attr], kind).reshape(-1)[args[0]]
    if op == "table":
        return np.asarray(item.attr, kind)[args[0]]
    if op == "cast":
        return _cast(np, args[0], item.args[0].dtype, item.dtype)
    if op == "bitcast":
        return np.ascontiguousarray(args[0]).view(kind).reshape(np.shape(args[0]))
    return np.asarray(_rules(np)[op](item.dtype, *args), kind)


def _cast(np: ModuleType, a: Array, source: str, target: str) -> Array:
    if target in INTS and source[0] == "f":
        # What does not fit is undefined in C; saturating keeps the interpreter deterministic.
        info = np.iinfo(NAMES[target])
        wide = np.nan_to_num(np.trunc(np.asarray(a, "float64")))
        low, high = float(info.min), np.nextafter(float(info.max) + 1, 0) if BITS[target] > 32 else float(info.max)
        return np.clip(wide, low, high).astype(NAMES[target])
    return np.asarray(a).astype(NAMES[target])


def _fma(np: ModuleType, dtype: str, a: Array, b: Array, c: Array) -> Array:
    if dtype == "f32":
        return _fma32(np, *(np.asarray(v, "float64") for v in (a, b, c)))
    product, rest = _two_product(np, a, b)
    total = product + c
    back = total - product
    rest = rest + ((product - (total - back)) + (c - back))
    exact = np.where(rest == 0, total, total + rest)  # -0.0 + 0.0 would lose the sign
    return np.where(np.isfinite(exact) & np.isfinite(rest), exact, a * b + c)


def _fma32(np: ModuleType, a: Array, b: Array, c: Array) -> Array:
    # The product of two f32 is exact in f64; rounding the sum to odd makes the second rounding harmless.
    product = a * b
    total = product + c
    back = total - product
    rest = (product - (total - back)) + (c - back)
    bits = np.ascontiguousarray(total).view("int64").reshape(np.shape(total))
    inexact = (rest != 0) & np.isfinite(total) & np.isfinite(rest)
    away = (rest > 0) == (total > 0)
    odd = np.where(inexact & (bits & 1 == 0), np.where(away, bits + 1, bits - 1), bits)
    return np.ascontiguousarray(odd).view("float64").reshape(np.shape(total)).astype("float32")


def _two_product(np: ModuleType, a: Array, b: Array) -> tuple[Array, Array]:
    product = a * b
    (ah, al), (bh, bl) = _halves(a), _halves(b)
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _halves(a: Array) -> tuple[Array, Array]:
    big = a * 134217729.0
    high = big - (big - a)
    return high, a - high


def _guarded(np: ModuleType, rule: Callable[[Array, Array], Array], a: Array, b: Array) -> Array:
    safe = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, 0, rule(a, safe))


def _truncated(np: ModuleType, a: Array, b: Array) -> Array:
    q = a // b
    return q + ((q < 0) & (q * b != a))


def _rules(np: ModuleType) -> dict[str, Callable[..., Array]]:
    if _RULES:
        return _RULES
    simple = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "neg": np.negative, "abs": np.abs,
        "min": lambda a, b: np.where(a < b, a, b), "max": lambda a, b: np.where(a > b, a, b), "sqrt": np.sqrt,
        "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "copysign": np.copysign,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "shl": np.left_shift,
        "shr": np.right_shift, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
        "eq": np.equal, "ne": np.not_equal, "select": np.where, "real": np.real, "imag": np.imag,
        "idiv": lambda a, b: _guarded(np, lambda x, y: _truncated(np, x, y), a, b),
        "irem": lambda a, b: _guarded(np, np.fmod, a, b),
    }
    _RULES.update({name: (lambda dtype, *a, rule=rule: rule(*a)) for name, rule in simple.items()})
    _RULES["fma"] = lambda dtype, a, b, c: _fma(np, dtype, a, b, c)
    _RULES["complex"] = lambda dtype, re, im: _pair(np, dtype, re, im)
    return _RULES


def _pair(np: ModuleType, dtype: str, re: Array, im: Array) -> Array:
    out = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), NAMES[dtype])
    out.real, out.imag = re, im
    return out


_RULES: dict[str, Callable[..., Array]] = {}
