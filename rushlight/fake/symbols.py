"""Symbolic integers: sizes that stand for any size, with one of them at hand.

Enters: a `ShapeEnv`, which hands out symbols. Leaves: `SymInt`, an `int` whose value is the hint (the size seen when the
symbol was made) and which remembers its expression. Arithmetic keeps the expression. A question with an answer (`==`, `<`,
truth) is answered by the hint, and unless the expressions decide it for every size, the answer is kept as a guard:
what was computed holds for all sizes that meet the guards.

Because a SymInt is an int, shape rules and compiled code take it as it is: no rule is written twice.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .expression import Expression, number, symbol


@dataclass(frozen=True)
class Guard:
    """`left relation right` was found to hold (or not to, if `truth` is False)."""

    left: Expression
    relation: str
    right: Expression
    truth: bool = True

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the same answer comes out for other sizes."""
        return RELATIONS[self.relation](self.left.evaluate(sizes), self.right.evaluate(sizes)) is self.truth

    def __repr__(self) -> str:
        shown = f"{self.left!r} {self.relation} {self.right!r}"
        return shown if self.truth else f"not ({shown})"


RELATIONS: dict[str, Callable[[int, int], bool]] = {"==": operator.eq, "<": operator.lt, "<=": operator.le}


BEYOND = 2**48     # no size comes near: comparisons with such numbers are overflow checks, not decisions


class ShapeEnv:
    """The symbols of one computation, their hints, and the guards its rules asked for."""

    def __init__(self) -> None:
        self.hints: dict[str, int] = {}
        self.guards: list[Guard] = []

    def create_symbol(self, hint: int) -> int:
        """A symbol for a size; 0 and 1 stay numbers, since broadcasting and emptiness hang on them."""
        if hint in (0, 1):
            return hint
        name = f"s{len(self.hints)}"
        self.hints[name] = hint
        return SymInt(hint, symbol(name), self)

    def add_guard(self, guard: Guard) -> None:
        if guard not in self.guards:
            self.guards.append(guard)

    def holds_for(self, sizes: Mapping[str, int]) -> bool:
        """Whether what was computed is also true for these sizes."""
        return all(size >= 2 for size in sizes.values()) and all(guard.holds(sizes) for guard in self.guards)

    def __repr__(self) -> str:
        return f"ShapeEnv({self.hints}, guards={self.guards})"


class SymInt(int):
    """An integer that is known and remembers what it depends on."""

    expression: Expression
    env: ShapeEnv

    def __new__(cls, hint: int, expression: Expression, env: ShapeEnv) -> SymInt:
        made = super().__new__(cls, hint)
        made.expression, made.env = expression, env
        return made

    @property
    def node(self) -> Any:
        """PyTorch's way to reach expression and hint."""
        return self

    @property
    def hint(self) -> int:
        return int.__index__(self)

    @property
    def expr(self) -> Expression:
        return self.expression

    def __hash__(self) -> int:
        return int.__hash__(self)

    def __repr__(self) -> str:
        return repr(self.expression)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.hint, spec) if spec else repr(self)

    def __reduce__(self) -> tuple:
        raise TypeError(f"the symbolic size {self!r} cannot be pickled; use int(x) for its value, {self.hint}")

    def __int__(self) -> int:
        """The number itself: whoever asks depends on it."""
        self.env.add_guard(Guard(self.expression, "==", number(self.hint)))
        return self.hint

    def __bool__(self) -> bool:
        return self != 0

    def __floor__(self) -> int:
        return self

    __ceil__ = __trunc__ = __round__ = __floor__

    def __truediv__(self, other: Any) -> Any:
        """A fraction is a number: it depends on this very size."""
        return int(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / int(self)

    def __neg__(self) -> int:
        return made(-self.hint, -self.expression, self.env)

    def __pos__(self) -> int:
        return self

    def __abs__(self) -> int:
        return self if self >= 0 else -self

    def __pow__(self, power: Any, modulus: Any = None) -> Any:
        if modulus is not None or not isinstance(power, int) or power < 0:
            return pow(self.hint, power, modulus)
        result: Any = 1
        for _ in range(power):
            result = result * self
        return result

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def made(hint: int, expression: Expression, env: ShapeEnv) -> int:
    """A SymInt, or a plain number where nothing symbolic is left."""
    known = expression.constant
    return known if known is not None else SymInt(hint, expression, env)


def expression_of(x: int) -> Expression:
    return x.expression if isinstance(x, SymInt) else number(int(x))


def _arithmetic(name: str, swap: bool) -> Callable:
    apply = getattr(operator, name)

    def method(self: SymInt, other: Any) -> Any:
        if isinstance(other, float) and name == "mul" and other.is_integer():
            other = int(other)      # a whole scale factor: the product is a size again
        if isinstance(other, float):
            return apply(other, int(self)) if swap else apply(int(self), other)
        if not isinstance(other, int):
            return NotImplemented
        mine, its = self.expression, expression_of(other)
        value = other.hint if isinstance(other, SymInt) else other
        pair = ((its, mine), (value, self.hint)) if swap else ((mine, its), (self.hint, value))
        return made(apply(*pair[1]), apply(*pair[0]), self.env)

    return method


def _comparison(relation: str, swap: bool, negate: bool) -> Callable:
    def method(self: SymInt, other: Any) -> Any:
        if isinstance(other, float):
            return negate ^ RELATIONS[relation](*((other, int(self)) if swap else (int(self), other)))
        if not isinstance(other, int):
            return NotImplemented
        left, right = self.expression, expression_of(other)
        value = other.hint if isinstance(other, SymInt) else other
        if swap:
            return negate ^ _decide(self.env, relation, right, left, value, self.hint)
        return negate ^ _decide(self.env, relation, left, right, self.hint, value)

    return method


def _decide(env: ShapeEnv, relation: str, left: Expression, right: Expression, a: int, b: int) -> bool:
    """The answer; a guard is kept only where some sizes would answer otherwise."""
    truth = RELATIONS[relation](a, b)
    difference = right - left
    known = difference.constant
    if known is not None or max(abs(left.constant or 0), abs(right.constant or 0)) >= BEYOND:
        return truth
    ahead, behind = difference.least(), (-difference).least()
    strict = 1 if relation in ("==", "<") else 0
    decided = (ahead is not None and ahead >= strict) or (behind is not None and behind >= (0 if relation == "<" else 1))
    if not decided:
        env.add_guard(Guard(left, relation, right, truth))
    return truth


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(SymInt, f"__{_name}__", _arithmetic(_name, False))
    setattr(SymInt, f"__r{_name}__", _arithmetic(_name, True))
for _method, _relation, _swap, _negate in (
    ("__eq__", "==", False, False), ("__ne__", "==", False, True), ("__lt__", "<", False, False), ("__le__", "<=", False, False),
    ("__gt__", "<", True, False), ("__ge__", "<=", True, False),
):  # fmt: skip
    setattr(SymInt, _method, _comparison(_relation, _swap, _negate))


def sym_max(a: int, b: int) -> int:
    """The larger of two sizes, as an expression instead of a guard."""
    return _extreme(a, b, max, Expression.larger)


def sym_min(a: int, b: int) -> int:
    """The smaller of two sizes, as an expression instead of a guard."""
    return _extreme(a, b, min, Expression.smaller)


def _extreme(a: int, b: int, pick: Callable, combine: Callable) -> int:
    env = next((x.env for x in (a, b) if isinstance(x, SymInt)), None)
    if env is None:
        return pick(a, b)
    values = [x.hint if isinstance(x, SymInt) else x for x in (a, b)]
    return made(pick(values), combine(expression_of(a), expression_of(b)), env)
