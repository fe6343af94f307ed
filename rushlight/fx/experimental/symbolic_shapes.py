"""Names of PyTorch's symbolic shapes, on `rushlight.fake`'s symbols.

There, a symbolic size is an int with an expression, and a comparison is a bool at once, with a guard where sizes could decide otherwise. So
questions "true for all sizes?" and "true, or guard?" meet plain bools here, and answer them.
"""

from __future__ import annotations

import enum
from typing import Any

from ..._C import Tensor
from ...fake import Expression, ShapeEnv, SymInt
from ...utils._pytree import tree_leaves
from ..node import Node

__all__ = [
    "ConstraintViolationError", "DimDynamic", "GuardOnDataDependentSymNode", "ShapeEnv", "StatelessSymbolicContext", "SymInt", "definitely_false",
    "definitely_true", "expect_true", "free_symbols", "free_unbacked_symbols", "guard_bool", "guard_float", "guard_int", "guard_or_false",
    "guard_or_true", "guard_scalar", "guard_size_oblivious", "has_free_symbols", "has_free_unbacked_symbols", "has_hint", "hint_int",
    "is_concrete_bool", "is_concrete_int", "is_symbolic", "statically_known_false", "statically_known_true", "sym_and", "sym_eq", "sym_or",
]  # fmt: skip

SymIntLikeType = int
SymTypes = (SymInt,)


class GuardOnDataDependentSymNode(RuntimeError):
    """A decision would depend on the elements of a tensor."""


class ConstraintViolationError(RuntimeError):
    """A size that was declared dynamic turned out to be fixed."""


class DimDynamic(enum.Enum):
    """How a size is treated when its tensor is imitated."""

    DYNAMIC = 0
    DUCK = 1
    STATIC = 2
    SIZE_LIKE_UNBACKED = 3
    INFER_STRIDE = 4
    OBLIVIOUS_SIZE = 5


class StatelessSymbolicContext:
    """How each size of one tensor is treated."""

    def __init__(self, dynamic_sizes: list[DimDynamic], **options: Any) -> None:
        self.dynamic_sizes = list(dynamic_sizes)
        unknown = {k: v for k, v in options.items() if v is not None}
        if unknown:
            raise NotImplementedError(f"StatelessSymbolicContext: {', '.join(unknown)} have no counterpart here; give dynamic_sizes alone")


def is_symbolic(val: Any) -> bool:
    """Whether a number is a symbolic size."""
    return isinstance(val, SymInt)


def is_concrete_int(a: Any) -> bool:
    """Whether a number is plain."""
    assert isinstance(a, int), f"is_concrete_int: expected an int, got {type(a).__name__}"
    return not isinstance(a, SymInt)


def is_concrete_bool(a: Any) -> bool:
    """Whether a truth is known: it always is."""
    return isinstance(a, bool)


def has_hint(a: Any) -> bool:
    """Whether a number is known for a symbolic size: it always is."""
    return True


def hint_int(a: Any, fallback: int | None = None) -> int:
    """The number that stands for a size, without depending on it."""
    return a.hint if isinstance(a, SymInt) else int(a)


def guard_int(a: Any) -> int:
    """The number; what is computed from now on holds for it alone."""
    return int(a)


def guard_float(a: Any) -> float:
    """The number."""
    return float(a)


def guard_bool(a: Any) -> bool:
    """The truth."""
    return bool(a)


def guard_scalar(a: Any) -> Any:
    """The number or truth."""
    return bool(a) if isinstance(a, bool) else guard_int(a) if isinstance(a, int) else guard_float(a)


def expect_true(a: Any, skip: int = 0) -> bool:
    """The truth."""
    return bool(a)


guard_size_oblivious = guard_or_false = guard_or_true = statically_known_true = definitely_true = guard_bool


def statically_known_false(a: Any) -> bool:
    """Whether it is false."""
    return not a


definitely_false = statically_known_false


def sym_eq(x: Any, y: Any) -> bool:
    """Equality of numbers or of sequences of them."""
    if isinstance(x, (tuple, list)):
        return len(x) == len(y) and all(a == b for a, b in zip(x, y, strict=True))
    return bool(x == y)


def sym_and(x: Any, *others: Any) -> bool:
    """Whether all hold."""
    return all((x, *others))


def sym_or(x: Any, *others: Any) -> bool:
    """Whether one holds."""
    return any((x, *others))


def _expressions(val: Any) -> list[Expression]:
    if isinstance(val, Node):
        val = val.meta.get("val", val.meta.get("example_value"))
    found: list[Expression] = []
    for leaf in tree_leaves(val):
        sizes = (*leaf.shape, *leaf.stride()) if isinstance(leaf, Tensor) else (leaf,)
        found += [s.expression for s in sizes if isinstance(s, SymInt)]
    return found


def free_symbols(val: Any) -> set[str]:
    """Names of the symbols in a size, tensor, node, or container of them."""
    return {name for expression in _expressions(val) for name in expression.symbols()}


def has_free_symbols(val: Any) -> bool:
    """Whether there are any."""
    return bool(free_symbols(val))


def free_unbacked_symbols(val: Any) -> set[str]:
    """Symbols without a number: there are none, since fake tensors refuse to make sizes from elements."""
    return set()


def has_free_unbacked_symbols(val: Any) -> bool:
    """Whether there are any."""
    return False


def constrain_range(a: Any, *, min: int | None, max: int | None = None) -> None:  # noqa: A002 - PyTorch's names
    """Require a size to lie between bounds."""
    if (min is not None and a < min) or (max is not None and a > max):
        raise ValueError(f"Invalid value {a} for range [{min}:{max}]")


def is_accessor_node(node: Node) -> bool:
    """Whether a node reads a size, stride or offset."""
    return node.op == "call_method" and node.target in ("size", "stride", "storage_offset", "item")
