"""Numbers of a running script: 64-bit integers that wrap around, floats that divide by zero, as C++ has them.

Enters: a node over numbers. Leaves: the Python expression that computes it (`text_of`), which wraps only where the
result may leave 64 bits, or the function that does (`NUMBERS`). What stays small is told from the graph: lengths,
indices of loops, literals, remainders, and sums of those.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

from . import types as t
from .constants import constant_of
from .ir import Node, Value

_LOW, _HIGH, _ALL = -(2**63), 2**63 - 1, 2**64
_SMALL = 2**31
_PLAIN = {
    "aten::add": "({0} + {1})", "aten::sub": "({0} - {1})", "aten::mul": "({0} * {1})", "aten::neg": "(-{0})",
    "aten::floordiv": "({0} // {1})", "aten::remainder": "({0} % {1})",
}
_WRAPPED = f"(w_ if {_LOW} <= (w_ := {{0}}) <= {_HIGH} else (w_ + {-_LOW}) % {_ALL} - {-_LOW})"
_OF_SMALL = frozenset(("aten::len", "aten::size", "aten::dim", "aten::numel", "aten::ord", "aten::Bool"))


def text_of(node: Node) -> str | None:
    """Python for a node over numbers, with `{0}`, `{1}` for what it reads; None where only a function will do."""
    plain = _PLAIN[node.kind_]
    made = node.outputs_[0].type_
    if node.kind_ in ("aten::floordiv", "aten::remainder"):
        divisor = constant_of(node.inputs_[1], None)
        return plain if isinstance(made, t.IntType) or divisor else None
    if not isinstance(made, (t.IntType, t.NumberType)):
        return plain
    small = all(_is_small(value, set()) for value in node.inputs_)
    if small or (node.kind_ in ("aten::add", "aten::sub") and all(_is_sum(value, set()) for value in node.inputs_)):
        return plain
    return _WRAPPED.replace("{0}", plain)


def _is_small(value: Value, seen: set[Value]) -> bool:
    """Whether a value is surely far from the ends of 64 bits."""
    held = constant_of(value, None)
    if isinstance(held, int):
        return abs(held) < _SMALL
    node = value.node_
    if node.kind_ == "prim::Param":
        return node.block is not None and node.block.owner is not None and node.block.owner.kind_ == "prim::Loop" and (
            value.offset_ == 0)
    if node.kind_ == "aten::remainder":
        return _is_small(node.inputs_[1], seen)
    return node.kind_ in _OF_SMALL and isinstance(value.type_, t.IntType)


def _is_sum(value: Value, seen: set[Value]) -> bool:
    """Whether a value is a sum of small ones, perhaps gathered by a loop: nobody waits until that is too large."""
    if value in seen or _is_small(value, seen):
        return True
    seen.add(value)
    node = value.node_
    if node.kind_ in ("aten::add", "aten::sub"):
        return all(_is_sum(given, seen) for given in node.inputs_)
    if node.kind_ == "prim::If":
        return all(_is_sum(block.return_node.inputs_[value.offset_], seen) for block in node.blocks_)
    loop, at = None, value.offset_
    if node.kind_ == "prim::Loop":
        loop = node
    elif node.kind_ == "prim::Param" and node.block is not None and node.block.owner is not None and (
            node.block.owner.kind_ == "prim::Loop"):
        loop, at = node.block.owner, value.offset_ - 1
    if loop is None or not isinstance(value.type_, t.IntType):
        return False
    return _is_sum(loop.inputs_[2 + at], seen) and _is_sum(loop.blocks_[0].return_node.inputs_[1 + at], seen)


# --- functions --------------------------------------------------------------------------------------------------------


def wrapped(value: Any) -> Any:
    """An integer as 64 bits hold it; anything else as it is."""
    if isinstance(value, int) and not isinstance(value, bool) and not _LOW <= value <= _HIGH:
        return (value - _LOW) % _ALL + _LOW
    return value


def _shift_left(a: int, b: int) -> int:
    return wrapped(a << (b & 63))


def _shift_right(a: int, b: int) -> int:
    return a >> (b & 63)


def _divide(a: Any, b: Any) -> Any:
    """True division, of floats by zero too."""
    if b != 0:
        return a / b
    if isinstance(a, complex) or isinstance(b, complex):
        return complex(math.nan, math.nan)
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _floor_divide(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    found = _divide(float(a), float(b))
    return float(math.floor(found)) if math.isfinite(found) else found


def _remainder(a: Any, b: Any) -> Any:
    if b == 0 and not (isinstance(a, int) and isinstance(b, int)):
        return math.nan
    return a % b if not (isinstance(a, float) and math.isinf(a)) else math.nan


def _power(a: Any, b: Any) -> Any:
    """A power of numbers: a float, also of integers."""
    try:
        found = a ** b
    except ZeroDivisionError:
        return math.inf
    except OverflowError:
        return math.inf
    if isinstance(found, complex) and not isinstance(a, complex) and not isinstance(b, complex):
        return math.nan
    return float(found) if isinstance(found, int) else found


def _as_c(function: Callable[..., float]) -> Callable[..., Any]:
    """A function of `math` that answers nan and inf where Python's raises."""
    def call(*values: Any) -> Any:
        try:
            return function(*values)
        except OverflowError:
            return math.inf
        except ValueError:
            return _edge(function.__name__, values)

    return call


def _edge(name: str, values: tuple[Any, ...]) -> float:
    first = float(values[0])
    if first == 0.0 and name in ("log", "log2", "log10"):
        return -math.inf
    if name == "log1p" and first == -1.0:
        return -math.inf
    if name == "gamma" and first == 0.0:
        return math.copysign(math.inf, first)
    if name == "lgamma" and first == math.floor(first):
        return math.inf
    if name == "atanh" and abs(first) == 1.0:
        return math.copysign(math.inf, first)
    return math.inf if name == "pow" and first == 0.0 else math.nan


def _whole(function: Callable[[Any], int]) -> Callable[[Any], int]:
    """`floor` and `ceil`, refusing what no integer of 64 bits holds."""
    def call(value: Any) -> int:
        if not math.isfinite(value) or not _LOW <= value < -_LOW:
            raise RuntimeError(f"Cannot convert float {value:f} to integer")
        return function(value)

    return call


def rounded(value: Any) -> Any:
    """`round` to a float; halves to even."""
    return float(round(value)) if math.isfinite(value) else float(value)


def to_int(value: Any) -> int:
    """`int(value)`; floats beyond 64 bits are its lowest number, as the processor has it."""
    if isinstance(value, str):
        text = value.removeprefix("-").removeprefix("+")
        if not (text.isascii() and text.isdigit()):
            raise RuntimeError(f"invalid literal for int() with base 10: '{value}'")
        return int(value)
    if isinstance(value, float) and not (math.isfinite(value) and _LOW <= value < -_LOW):
        return _LOW
    return int(value.item() if hasattr(value, "item") else value)


def _root(value: Any) -> Any:
    return cmath.sqrt(value) if isinstance(value, complex) else math.sqrt(value) if value >= 0 else math.nan


def _least(*values: Any) -> Any:
    return _chosen(min, "min", values)


def _most(*values: Any) -> Any:
    return _chosen(max, "max", values)


def _chosen(function: Callable[..., Any], word: str, values: tuple[Any, ...]) -> Any:
    """The least or greatest of a list, or of two values; of an int and a float, as a float."""
    if len(values) == 1:
        if not values[0]:
            raise RuntimeError(f"{word}() arg is an empty sequence")
        return function(values[0])
    found = function(*values)
    return float(found) if {int, float} == {type(value) for value in values} else found


def _factorial(value: int) -> int:
    return wrapped(math.factorial(value))


NUMBERS: dict[str, Callable[..., Any]] = {
    "aten::add": lambda a, b: wrapped(a + b), "aten::sub": lambda a, b: wrapped(a - b),
    "aten::mul": lambda a, b: wrapped(a * b), "aten::neg": lambda a: wrapped(-a), "aten::div": _divide,
    "aten::floordiv": _floor_divide, "aten::remainder": _remainder, "aten::pow": _power, "aten::round": rounded,
    "aten::__lshift__": _shift_left, "aten::__rshift__": _shift_right, "prim::abs": lambda a: wrapped(abs(a)),
    "aten::Int": to_int, "aten::IntImplicit": to_int, "aten::floor": _whole(math.floor),
    "aten::ceil": _whole(math.ceil), "aten::sqrt": _root, "prim::min": _least, "prim::max": _most,
    "aten::factorial": _factorial,
    "aten::sum": lambda row: wrapped(sum(row)) if row else 0, "aten::gcd": math.gcd, "aten::fabs": math.fabs,
    "aten::degrees": math.degrees, "aten::radians": math.radians, "aten::frexp": math.frexp, "aten::modf": math.modf,
    "aten::isnan": math.isnan, "aten::isinf": math.isinf, "aten::isfinite": math.isfinite,
    "aten::copysign": math.copysign, "aten::mathremainder": _as_c(math.remainder), "aten::ldexp": _as_c(math.ldexp),
    "aten::hex": hex, "aten::bin": bin, "aten::oct": oct,
}
for _name in ("log", "log2", "log10", "log1p", "exp", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "atan2",
              "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "gamma", "lgamma", "fmod"):
    NUMBERS[f"aten::{_name}"] = _as_c(getattr(math, _name))
