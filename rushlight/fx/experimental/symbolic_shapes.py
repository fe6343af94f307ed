"""PyTorch's names for questions about symbolic shapes, on `rushlight.symbols`.

Enters: numbers and truths, symbolic or plain, and what holds them. Leaves: answers: with a guard (`guard_*`), without
one (`statically_known_*`), or with a check at run time (`expect_true`).
"""

from __future__ import annotations

from typing import Any

from ..._C import Tensor
from ...base.shape import INTS
from ...symbols import (
    ConstraintViolationError,
    DimDynamic,
    Formula,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    SymBool,
    SymFloat,
    SymInt,
    expect_true,
    guard_or_false,
    guard_or_true,
    statically_known_false,
    statically_known_true,
    sym_not,
)
from ...utils._pytree import tree_leaves
from ..node import Node

__all__ = [
    "ConstraintViolationError", "DimDynamic", "GuardOnDataDependentSymNode", "ShapeEnv", "StatelessSymbolicContext",
    "SymInt", "definitely_false", "definitely_true", "expect_true", "free_symbols", "free_unbacked_symbols",
    "guard_bool", "guard_float", "guard_int", "guard_or_false", "guard_or_true", "guard_scalar", "guard_size_oblivious",
    "has_free_symbols", "has_free_unbacked_symbols", "has_hint", "hint_int",
    "is_concrete_bool", "is_concrete_int", "is_symbolic", "statically_known_false", "statically_known_true", "sym_and",
    "sym_eq", "sym_not", "sym_or",
]

SymIntLikeType = SymInt
SymTypes = (SymInt, SymFloat, SymBool)


class StatelessSymbolicContext:
    """How each size of one tensor is treated."""

    def __init__(self, dynamic_sizes: list[DimDynamic], **options: Any) -> None:
        self.dynamic_sizes = list(dynamic_sizes)
        unknown = {k: v for k, v in options.items() if v is not None}
        if unknown:
            raise NotImplementedError(
                f"StatelessSymbolicContext: {', '.join(unknown)} have no counterpart here; give dynamic_sizes alone"
            )


def is_symbolic(val: Any) -> bool:
    """Whether a number or truth is symbolic."""
    return isinstance(val, SymTypes)


def is_concrete_int(a: Any) -> bool:
    """Whether a number is plain, or known to be one number."""
    assert isinstance(a, INTS), f"is_concrete_int: expected an int, got {type(a).__name__}"
    return isinstance(a, int) or a.expression.constant is not None


def is_concrete_bool(a: Any) -> bool:
    """Whether a truth is known."""
    return isinstance(a, bool) or a.env.decide(a.expression) is not None


def has_hint(a: Any) -> bool:
    """Whether a number was seen."""
    return not isinstance(a, SymTypes) or a.has_hint()


def hint_int(a: Any, fallback: int | None = None) -> int:
    """The number that stands for a size, without depending on it; `fallback` where none was seen."""
    if not isinstance(a, SymInt):
        return int(a)
    hint = a.hint if a.has_hint() else fallback
    if hint is None:
        raise GuardOnDataDependentSymNode(
            f"hint_int: {a} has no hint, since only elements can tell it. Give a fallback."
        )
    return hint


def guard_int(a: Any) -> int:
    """The number; what is computed from now on holds for it alone."""
    return int(a)


def guard_float(a: Any) -> float:
    """The number; what is computed from now on holds for it alone."""
    return float(a)


def guard_bool(a: Any) -> bool:
    """The truth; what is computed from now on holds where it is the same."""
    return bool(a)


def guard_scalar(a: Any) -> Any:
    """The number or truth."""
    if isinstance(a, (bool, SymBool)):
        return guard_bool(a)
    return guard_int(a) if isinstance(a, INTS) else guard_float(a)


guard_size_oblivious = guard_or_false
definitely_true, definitely_false = guard_or_false, statically_known_false


def sym_eq(x: Any, y: Any) -> Any:
    """Equality of numbers or of sequences of them."""
    if isinstance(x, (tuple, list)):
        return len(x) == len(y) and sym_and(True, *(sym_eq(a, b) for a, b in zip(x, y, strict=True)))
    return x == y


def sym_and(x: Any, *others: Any) -> Any:
    """Whether all hold."""
    for other in others:
        x = x & other
    return x


def sym_or(x: Any, *others: Any) -> Any:
    """Whether one holds."""
    for other in others:
        x = x | other
    return x


def _formulas(val: Any) -> list[tuple[Formula, ShapeEnv]]:
    if isinstance(val, Node):
        val = val.meta.get("val", val.meta.get("example_value"))
    found: list[tuple[Formula, ShapeEnv]] = []
    for leaf in tree_leaves(val):
        numbers = (*leaf.shape, *leaf.stride(), leaf.storage_offset()) if isinstance(leaf, Tensor) else (leaf,)
        found += [(s.expression, s.env) for s in numbers if isinstance(s, SymTypes)]
    return found


def free_symbols(val: Any) -> set[str]:
    """Names of the symbols in a number, tensor, node, or container of them."""
    return {name for formula, _ in _formulas(val) for name in formula.names}


def has_free_symbols(val: Any) -> bool:
    """Whether there are any."""
    return bool(free_symbols(val))


def free_unbacked_symbols(val: Any) -> set[str]:
    """Names of the symbols that only elements can tell."""
    return {name for formula, env in _formulas(val) for name in formula.names if name in env.stand_ins}


def has_free_unbacked_symbols(val: Any) -> bool:
    """Whether there are any."""
    return bool(free_unbacked_symbols(val))


def constrain_range(a: Any, *, min: int | None, max: int | None = None) -> None:  # noqa: A002 - PyTorch's names
    """Require a size to lie between bounds."""
    if (min is not None and not expect_true(a >= min)) or (max is not None and not expect_true(a <= max)):
        raise ValueError(f"Invalid value {a} for range [{min}:{max}]")


def is_accessor_node(node: Node) -> bool:
    """Whether a node reads a size, stride or offset."""
    if node.op == "call_function":
        return getattr(node.target, "_opname", None) in (
            "sym_size",
            "sym_stride",
            "sym_storage_offset",
            "_local_scalar_dense",
        )
    return node.op == "call_method" and node.target in ("size", "stride", "storage_offset", "item")
