"""Integer expressions over named sizes, in one normal form.

Enters: symbols, numbers, and `+ - * // % max min` of expressions. Leaves: polynomials with integer coefficients over
atoms, where an atom is a symbol or a quotient, remainder, maximum or minimum that nothing simplifies. Equal polynomials are
equal objects in the sense of `==`, so `(s * 4) // 4` is `s`, and most questions about sizes are answered without a guess.
Every symbol stands for a size of at least 2: sizes 0 and 1 are never symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

SMALLEST = 2     # the least value a symbol may take

Monomial = tuple[tuple["Atom", int], ...]     # atoms with powers, in order


class Atom:
    """A symbol, or an operation on expressions that stays as it is."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, arguments: tuple[Expression, ...] = ()) -> None:
        self.name, self.arguments = name, arguments

    @property
    def key(self) -> tuple:
        return (self.name, *(a.key for a in self.arguments))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        if not self.arguments:
            return self.name
        if self.name in ("//", "%"):
            return "({0} {2} {1})".format(*(f"({a!r})" if len(a.terms) > 1 else repr(a) for a in self.arguments), self.name)
        return f"{self.name}({', '.join(map(repr, self.arguments))})"

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        if not self.arguments:
            return sizes[self.name]
        return OPERATIONS[self.name](*(a.evaluate(sizes) for a in self.arguments))

    def least(self) -> int | None:
        """A bound from below; None where there is none."""
        if not self.arguments:
            return SMALLEST
        bounds = [a.least() for a in self.arguments]
        if self.name == "max":
            known = [b for b in bounds if b is not None]
            return max(known) if known else None
        if self.name == "min":
            return None if None in bounds else min(bounds)
        return 0 if None not in bounds and bounds[0] >= 0 and bounds[1] > 0 else None


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "max": max, "min": min,
}


class Expression:
    """A polynomial: coefficients by monomial. The empty monomial holds the constant."""

    __slots__ = ("__dict__", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = {m: c for m, c in terms.items() if c}

    @cached_property
    def key(self) -> tuple:
        return tuple(sorted((tuple((a.key, p) for a, p in m), c) for m, c in self.terms.items()))

    @property
    def constant(self) -> int | None:
        """The number this is, if it is one."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def symbols(self) -> set[str]:
        found: set[str] = set()
        for monomial in self.terms:
            for atom, _ in monomial:
                found |= {atom.name} if not atom.arguments else {s for a in atom.arguments for s in a.symbols()}
        return found

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """The value for given sizes."""
        total = 0
        for monomial, coefficient in self.terms.items():
            for atom, power in monomial:
                coefficient *= atom.evaluate(sizes) ** power
            total += coefficient
        return total

    def least(self) -> int | None:
        """A bound from below, for all sizes symbols may stand for; None where none is known."""
        total = 0
        for monomial, coefficient in self.terms.items():
            if coefficient < 0 and monomial:
                return None
            for atom, power in monomial:
                bound = atom.least()
                if bound is None or bound < 0:
                    return None
                coefficient *= bound**power
            total += coefficient
        return total

    def __add__(self, other: Expression) -> Expression:
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return Expression(terms)

    def __neg__(self) -> Expression:
        return Expression({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Expression) -> Expression:
        return self + -other

    def __mul__(self, other: Expression) -> Expression:
        terms: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                product = _product(m, n)
                terms[product] = terms.get(product, 0) + c * d
        return Expression(terms)

    def __floordiv__(self, other: Expression) -> Expression:
        whole = self.divided(other)
        if whole is not None:
            return whole
        if self.constant is not None and other.constant:
            return number(self.constant // other.constant)
        return _atom("//", self, other)

    def __mod__(self, other: Expression) -> Expression:
        if self.divided(other) is not None:
            return number(0)
        if self.constant is not None and other.constant:
            return number(self.constant % other.constant)
        return _atom("%", self, other)

    def divided(self, other: Expression) -> Expression | None:
        """The exact quotient by a single term, where there is one."""
        if len(other.terms) != 1:
            return number(1) if other.terms and self == other else None
        ((divisor, factor),) = other.terms.items()
        result: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms.items():
            rest = _quotient(monomial, divisor)
            if rest is None or coefficient % factor:
                return None
            result[rest] = coefficient // factor
        return Expression(result)

    def larger(self, other: Expression) -> Expression:
        return self._extreme("max", other, 1)

    def smaller(self, other: Expression) -> Expression:
        return self._extreme("min", other, -1)

    def _extreme(self, name: str, other: Expression, sign: int) -> Expression:
        ahead, behind = (self - other).least(), (other - self).least()
        if ahead is not None and ahead >= 0:
            return self if sign > 0 else other
        if behind is not None and behind >= 0:
            return other if sign > 0 else self
        return _atom(name, *sorted((self, other), key=lambda e: repr(e.key)))

    def __repr__(self) -> str:
        if not self.terms:
            return "0"
        shown = []
        for monomial, coefficient in sorted(self.terms.items(), key=lambda t: (-len(t[0]), repr(t[0]))):
            factors = [repr(a) if p == 1 else f"{a!r}**{p}" for a, p in monomial]
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient))
            shown.append("*".join(factors))
        return " + ".join(shown).replace("+ -1*", "- ").replace("+ -", "- ")


def number(value: int) -> Expression:
    """An expression that is a number."""
    return Expression({(): int(value)})


def symbol(name: str) -> Expression:
    """An expression that is one symbol."""
    return Expression({((Atom(name), 1),): 1})


def _atom(name: str, *arguments: Expression) -> Expression:
    return Expression({((Atom(name, arguments), 1),): 1})


def _product(m: Monomial, n: Monomial) -> Monomial:
    powers: dict[Atom, int] = {}
    for atom, power in (*m, *n):
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: repr(item[0].key)))


def _quotient(m: Monomial, n: Monomial) -> Monomial | None:
    powers = dict(m)
    for atom, power in n:
        if powers.get(atom, 0) < power:
            return None
        powers[atom] -= power
    return tuple((a, p) for a, p in m if powers[a]) if not n else tuple((a, powers[a]) for a, _ in m if powers[a])
