"""Real numbers and truths made of sizes: what division, square roots and comparisons of sizes give.

Enters: integer expressions, floats, and functions of them. Leaves: `Real` and `Truth` formulas, interned like
expressions. Reals are kept as they were computed, since floats round: `(s / 3) * 3` is not `s`.
Truths about integers are put in one normal form.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakValueDictionary

from .expression import ONE, ZERO, Atom, Expression, Formula, Values, number, polynomial

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "**": operator.pow,
    "//": operator.floordiv, "%": operator.mod, "neg": operator.neg, "abs": abs, "float": float, "max": max, "min": min,
    "if": lambda c, a, b: a if c else b, "round": round,
    **{name: getattr(math, name) for name in ("sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
                                              "tanh", "exp", "log", "log2", "log10")},
}
_INFIX = frozenset(("+", "-", "*", "/", "**", "//", "%"))
Rule = Callable[[Atom], Expression | None]


class Real(Formula):
    """A function of formulas whose value is a float; without arguments a number (`value`) or a symbol (`function`)."""

    __slots__ = ("arguments", "function", "value")

    def __init__(self, function: str, arguments: tuple[Formula, ...], value: float | None) -> None:
        self.function, self.arguments, self.value = function, arguments, value
        self.names = (
            frozenset().union(*(a.names for a in arguments))
            if arguments or value is not None
            else frozenset((function,))
        )
        if not arguments:
            self.text = function if value is None else repr(value)
        elif function in _INFIX:
            self.text = f"({arguments[0]!r} {function} {arguments[1]!r})"
        elif function == "float":
            self.text = arguments[0].text if len(getattr(arguments[0], "terms", ())) == 1 else f"({arguments[0]!r})"
        else:
            self.text = f"{function}({', '.join(map(repr, arguments))})"

    @property
    def constant(self) -> float | None:
        return self.value

    def evaluate(self, values: Values) -> float:
        if self.value is not None:
            return self.value
        if not self.arguments:
            return values[self.function]
        return FUNCTIONS[self.function](*(a.evaluate(values) for a in self.arguments))

    def replaced(self, rule: Rule) -> Real:
        return real(self.function, *(a.replaced(rule) for a in self.arguments)) if self.arguments else self

    def as_integer(self) -> Expression | None:
        """The integer this is for all sizes, where no rounding comes between (sizes are far below 2**53)."""
        if self.value is not None:
            return number(int(self.value)) if math.isfinite(self.value) and self.value.is_integer() else None
        if self.function == "float":
            return self.arguments[0] if isinstance(self.arguments[0], Expression) else None
        parts = [a.as_integer() for a in self.arguments if isinstance(a, Real)]
        whole = [part for part in parts if part is not None]
        if not whole or len(whole) != len(self.arguments):
            return None
        if self.function == "/":
            quotient, rest = whole[0].split(whole[1])
            return quotient if not rest.terms else None
        step = _OF_INTEGERS.get(self.function)
        return step(*whole) if step is not None else None


_OF_INTEGERS: dict[str, Callable[..., Expression]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "neg": operator.neg,
}
_reals: WeakValueDictionary[tuple, Real] = WeakValueDictionary()


def real(function: str, *arguments: Formula) -> Real:
    """A function of formulas; a number where all of them are."""
    known = [getattr(a, "constant", None) for a in arguments]
    if arguments and None not in known:
        return real_number(FUNCTIONS[function](*known))
    key = (function, *arguments)
    found = _reals.get(key)
    if found is None:
        found = _reals[key] = Real(function, arguments, None)
    return found


def real_number(value: float) -> Real:
    """A real that is a number."""
    key = (float(value), math.copysign(1.0, value))
    found = _reals.get(key)
    if found is None:
        found = _reals[key] = Real("", (), float(value))
    return found


def as_real(x: Formula) -> Real:
    return x if isinstance(x, Real) else real("float", x)


# --- truths -----------------------------------------------------------------------------------------------------------

RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
}
_NEGATED = {"==": "!=", "!=": "==", "<": "<=", "<=": "<"}


class Truth(Formula):
    """A comparison of two formulas, `and`, `or` or `not` of truths, or a symbol. `constant` if it is decided."""

    __slots__ = ("arguments", "constant", "relation")

    def __init__(self, relation: str, arguments: tuple[Any, ...], constant: bool | None) -> None:
        self.relation, self.arguments, self.constant = relation, arguments, constant
        self.names = (
            frozenset((relation,))
            if constant is None and not arguments
            else frozenset().union(*(a.names for a in arguments))
        )
        if constant is not None:
            self.text = str(constant)
        elif not arguments:
            self.text = relation
        elif relation == "not":
            self.text = f"not ({arguments[0]!r})"
        elif relation in RELATIONS:
            self.text = f"{arguments[0]!r} {relation} {arguments[1]!r}"
        else:
            self.text = f" {relation} ".join(f"({a!r})" for a in arguments)

    def evaluate(self, values: Values) -> bool:
        if self.constant is not None:
            return self.constant
        if not self.arguments:
            return bool(values[self.relation])
        parts = (a.evaluate(values) for a in self.arguments)
        if self.relation == "and":
            return all(parts)
        if self.relation == "or":
            return any(parts)
        return not next(parts) if self.relation == "not" else RELATIONS[self.relation](*parts)

    def replaced(self, rule: Rule) -> Truth:
        if not self.arguments:
            return self
        parts = tuple(a.replaced(rule) for a in self.arguments)
        return self if parts == self.arguments else truth(self.relation, *parts)

    @property
    def difference(self) -> Expression | None:
        """right - left of a comparison of integers."""
        if (
            self.relation in RELATIONS
            and isinstance(self.arguments[0], Expression)
            and isinstance(self.arguments[1], Expression)
        ):
            return self.arguments[1] - self.arguments[0]
        return None


_truths: WeakValueDictionary[tuple, Truth] = WeakValueDictionary()


def _interned(relation: str, arguments: tuple[Any, ...], constant: bool | None = None) -> Truth:
    key = (relation, arguments, constant)
    found = _truths.get(key)
    if found is None:
        found = _truths[key] = Truth(relation, arguments, constant)
    return found


TRUE, FALSE = _interned("", (), True), _interned("", (), False)


def known_truth(value: bool) -> Truth:
    return TRUE if value else FALSE


def truth(relation: str, *arguments: Any) -> Truth:
    """A truth in normal form; TRUE or FALSE where it holds for all sizes or for none."""
    if relation == "not":
        return negation(arguments[0])
    if relation in ("and", "or"):
        return _joined(relation, arguments)
    left, right = arguments
    if isinstance(left, Expression) and isinstance(right, Expression):
        return _compared(relation, left, right)
    left, right = as_real(left), as_real(right)
    if left.value is not None and right.value is not None:
        return known_truth(RELATIONS[relation](left.value, right.value))
    return _interned(relation, (left, right))


def truth_symbol(name: str) -> Truth:
    return _interned(name, ())


def negation(t: Truth) -> Truth:
    """The opposite."""
    if t.constant is not None:
        return known_truth(not t.constant)
    if t.relation == "not":
        return t.arguments[0]
    if t.relation in ("==", "!=") or (t.relation in RELATIONS and t.difference is not None):
        left, right = t.arguments
        return truth(_NEGATED[t.relation], *((left, right) if t.relation in ("==", "!=") else (right, left)))
    if t.relation in ("and", "or"):
        return _joined("or" if t.relation == "and" else "and", [negation(a) for a in t.arguments])
    return _interned("not", (t,))     # of a symbol, or of an order of reals: a NaN answers both with False


def _joined(relation: str, parts: Iterable[Truth]) -> Truth:
    deciding = relation == "or"
    kept: list[Truth] = []
    for p in parts:
        if p.constant is deciding:
            return p
        if p.constant is None and p not in kept:
            kept.append(p)
    if not kept:
        return known_truth(not deciding)
    return kept[0] if len(kept) == 1 else _interned(relation, tuple(sorted(kept, key=lambda t: t.text)))


def _compared(relation: str, left: Expression, right: Expression) -> Truth:
    """Terms with a positive sign on one side, the others on the other, the number to the right where it can be."""
    difference = right - left
    known = difference.constant
    if known is not None:
        return known_truth(RELATIONS[relation](0, known))
    if relation in ("==", "!=") and difference.terms.get((), 0) % math.gcd(
        *(c for m, c in difference.terms.items() if m)
    ):
        return known_truth(relation == "!=")     # 2 * s == 5: for no integer
    divisor = math.gcd(*difference.terms.values())
    if divisor > 1:
        difference = polynomial({m: c // divisor for m, c in difference.terms.items()})
    ahead = {m: c for m, c in difference.terms.items() if c > 0 and m}
    behind = {m: -c for m, c in difference.terms.items() if c < 0 and m}
    constant = difference.terms.get((), 0)
    if relation in ("==", "!=") and (not behind or (ahead and polynomial(ahead).text < polynomial(behind).text)):
        ahead, behind, constant = behind, ahead, -constant
    if constant > 0 or (constant < 0 and behind and not ahead):
        ahead[()] = constant
    elif constant < 0:
        behind[()] = -constant
    return _interned(relation, (polynomial(behind), polynomial(ahead)))


__all__ = [
    "FALSE",
    "ONE",
    "TRUE",
    "ZERO",
    "Real",
    "Truth",
    "as_real",
    "known_truth",
    "negation",
    "real",
    "real_number",
    "truth",
    "truth_symbol",
]
