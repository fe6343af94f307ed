"""Numbers that only elements can tell, as symbols: where each comes from, and what they are behind the graph.

Enters: symbols that fake tensors make (`x.item()`, sizes of `nonzero` and of what a mask selects). Leaves: the places
that made them, breaks where the program needs to know one, and functions that compute formulas of them from numbers.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...base import assertions
from ...fake import FakeTensor, GuardOnDataDependentSymNode, ShapeEnv
from ...symbols import Expression, SymBool, SymFloat, SymInt, Truth
from ...symbols.expression import ONE, number as constant, symbol
from ...symbols.real import truth
from .breaks import GraphBreak

SYMBOLS = (SymInt, SymFloat, SymBool)
MOST_PARTS = 100      # of a formula of numbers from elements


@dataclass(frozen=True)
class Origin:
    """Where a number came from."""

    step: int         # instruction of the top frame
    depth: int        # how many frames were being interpreted
    location: str


class ElementEnv(ShapeEnv):
    """The symbols of a capture; knows where each that has no hint was made."""

    def __init__(self, takes_elements: bool) -> None:
        super().__init__(allow_scalar_outputs=takes_elements, allow_dynamic_output_shape_ops=takes_elements)
        self.origins: dict[str, Origin] = {}
        self.here: Callable[[], Origin] | None = None      # says where the program is, while it is captured
        self.asked: Callable[[SymBool], bool | None] | None = None      # says how it goes on, if that is known

    def _unbacked_name(self, prefix: str, stand_in: Any) -> str:
        name = super()._unbacked_name(prefix, stand_in)
        if self.here is not None:
            self.origins[name] = self.here()
        return name

    def supposed(self, t: Truth) -> bool | None:
        return None if self.asked is None else self.asked(SymBool(t, self))

    def require_other(self, name: str, value: int) -> bool:
        """Results that hold for all but one value of a number: another graph has to hold for that one."""
        answer = self.supposed(truth("==", symbol(name), constant(value)))
        if answer is not None:
            return answer
        said = f"whether {name} == {value} holds depends on the elements of a tensor"
        raise GuardOnDataDependentSymNode(said, (name,))

    @contextmanager
    def without_elements(self) -> Iterator[None]:
        """Inside, reads of elements are refused: functions that may run often, or never."""
        before = self.allow_scalar_outputs, self.allow_dynamic_output_shape_ops
        self.allow_scalar_outputs = self.allow_dynamic_output_shape_ops = False
        try:
            yield
        finally:
            self.allow_scalar_outputs, self.allow_dynamic_output_shape_ops = before

    def first(self) -> Origin:
        """Where the first was made."""
        return min(self.origins.values(), key=lambda origin: origin.step)

    def last_of(self, names: frozenset[str]) -> Origin | None:
        """Where the last of these was made."""
        found = [self.origins[name] for name in names if name in self.origins]
        return max(found, key=lambda origin: origin.step, default=None)


def is_hidden(value: Any) -> bool:
    """Whether a number depends on elements."""
    return isinstance(value, SYMBOLS) and value.env.is_unbacked(value.expression)


def names_in(value: Any) -> frozenset[str]:
    """The symbols without hints that a value, or what it holds, depends on."""
    if isinstance(value, SYMBOLS):
        return frozenset(name for name in value.formula.names if name in value.env.stand_ins)
    if isinstance(value, FakeTensor):
        return frozenset() if value.symbolic is None else names_in(value.symbolic)
    if isinstance(value, (list, tuple)):
        return frozenset().union(*map(names_in, value))
    if isinstance(value, dict):
        return names_in(list(value.values()))
    return names_in((value.start, value.stop, value.step)) if type(value) is slice else frozenset()


def needs(what: str, names: frozenset[str] = frozenset()) -> GraphBreak:
    """The break where the program wants to know such a number."""
    found = GraphBreak("number from elements", what)
    found.names = names
    return found


def asked_here(value: Any) -> GraphBreak:
    """The break where such a number decides."""
    return needs(f"whether {value!r} holds depends on the elements of a tensor, and decides where the program goes"
                 if isinstance(value, SymBool) else f"the number {value!r} depends on the elements of a tensor",
                 names_in(value))


def is_long(value: Any) -> bool:
    """Whether the formula of a number is too long to be carried on."""
    todo, count = [value.expression], 0
    while todo and count < MOST_PARTS:
        one = todo.pop()
        count += 1
        todo += [a for atom in one.atoms() for a in (*atom.arguments, ONE)] if isinstance(one, Expression) \
            else one.arguments
    return bool(todo)


def evaluated(formula: Any, names: tuple[str, ...]) -> Callable:
    """A function from the numbers behind symbols to what a formula is of them."""
    kind = int if isinstance(formula, Expression) else bool if hasattr(formula, "relation") else float

    def number(*values: Any) -> Any:
        return kind(formula.evaluate(dict(zip(names, values, strict=True))))

    return number


def checked(condition: Any, error: str, message: str) -> None:
    """Raise the built-in exception of that name unless the condition holds: a node of graphs."""
    assertions._check_with(getattr(builtins, error), condition, lambda: message)
