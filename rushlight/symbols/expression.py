"""Integer expressions over named sizes, in one normal form.

Enters: symbols, numbers, and arithmetic on expressions. Leaves: polynomials with integer coefficients over atoms, where
an atom is a symbol or an operation that nothing simplifies (`//`, `%`, `max`, `&`, `floor` of a real, ...). Expressions
are interned: equal ones are the same object, so `(s * 4) // 4` *is* `s`, and most questions about sizes need no guess.
What is simplified here holds for all integers (a division by zero raises for numbers too);
what hangs on ranges is `ranges`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakValueDictionary

Values = Mapping[str, Any]                    # symbol -> number
Monomial = tuple[tuple["Atom", int], ...]     # atoms with powers, in order

OPERATIONS: dict[str, Callable[..., Any]] = {
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "&": lambda a, b: a & b, "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b, "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "**": lambda a, b: a**b, "max": max,
    "min": min,
    "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round, "if": lambda c, a, b: a if c else b,
}
_INFIX = frozenset(("//", "%", "&", "|", "^", "<<", ">>", "**"))


class Formula:
    """What all formulas (integers, reals, truths) can be asked."""

    __slots__ = ("__weakref__", "names", "text")

    text: str                    # how it prints; also the order among its kind
    names: frozenset[str]        # the symbols in it

    def __repr__(self) -> str:
        return self.text

    def evaluate(self, values: Values) -> Any:
        raise NotImplementedError

    def replaced(self, rule: Callable[[Atom], Expression | None]) -> Formula:
        """The formula with atoms exchanged where `rule` has another expression for them."""
        raise NotImplementedError


class Atom(Formula):
    """A symbol, or an operation on formulas that stays as it is. Made by `atom`."""

    __slots__ = ("arguments", "name")

    arguments: tuple[Any, ...]   # formulas, of the kinds that the operation takes

    def __init__(self, name: str, arguments: tuple[Formula, ...]) -> None:
        self.name, self.arguments = name, arguments
        self.names = frozenset((name,)) if not arguments else frozenset().union(*(a.names for a in arguments))
        if not arguments:
            self.text = name
        elif name in _INFIX:
            self.text = "({0} {2} {1})".format(*map(_parenthesised, arguments), name)
        elif name == "if":
            self.text = "({1} if {0} else {2})".format(*arguments)
        else:
            self.text = f"{name}({', '.join(map(repr, arguments))})"

    def evaluate(self, values: Values) -> int:
        if not self.arguments:
            return values[self.name]
        return OPERATIONS[self.name](*(a.evaluate(values) for a in self.arguments))

    def replaced(self, rule: Callable[[Atom], Expression | None]) -> Expression:
        whole = rule(self)
        if whole is not None:
            return whole
        parts = tuple(a.replaced(rule) for a in self.arguments)
        if parts != self.arguments:
            again = apply(self.name, *parts)
            found = again.sole_atom
            whole = rule(found) if found is not None and found is not self else None
            return again if whole is None else whole
        return of_atom(self)


def _parenthesised(part: Formula) -> str:
    return (
        f"({part!r})"
        if isinstance(part, Expression)
        and (len(part.terms) > 1 or (part.terms and part.sole_atom is None and part.constant is None))
        else repr(part)
    )


class Expression(Formula):
    """A polynomial: coefficients by monomial. The empty monomial holds the constant.
    Made by `polynomial` and arithmetic."""

    __slots__ = ("terms",)

    terms: dict[Monomial, int]

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = terms
        self.names = frozenset().union(*(a.names for m in terms for a, _ in m))
        self.text = self._shown()

    def _shown(self) -> str:
        if not self.terms:
            return "0"
        shown = []
        terms = sorted(self.terms.items(), key=lambda t: (-sum(p for _, p in t[0]), _order(t[0])))
        lead = next((i for i, (_, coefficient) in enumerate(terms) if coefficient > 0), 0)     # `3 - s`, not `-s + 3`
        for monomial, coefficient in (terms[lead], *terms[:lead], *terms[lead + 1 :]):
            factors = [a.text if p == 1 else f"{a.text}**{p}" for a, p in monomial]
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient))
            shown.append("*".join(factors))
        return " + ".join(shown).replace("+ -1*", "- ").replace("+ -", "- ")

    @property
    def constant(self) -> int | None:
        """The number this is, if it is one."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def sole_atom(self) -> Atom | None:
        """The atom this is, if it is one."""
        if len(self.terms) != 1:
            return None
        ((monomial, coefficient),) = self.terms.items()
        return monomial[0][0] if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1 else None

    @property
    def sole_symbol(self) -> str | None:
        found = self.sole_atom
        return found.name if found is not None and not found.arguments else None

    def atoms(self) -> set[Atom]:
        return {a for m in self.terms for a, _ in m}

    def evaluate(self, values: Values) -> int:
        total = 0
        for monomial, coefficient in self.terms.items():
            for a, power in monomial:
                coefficient *= a.evaluate(values) ** power
            total += coefficient
        return total

    def replaced(self, rule: Callable[[Atom], Expression | None]) -> Expression:
        exchanged = {a: a.replaced(rule) for a in self.atoms()}
        if all(new.sole_atom is old for old, new in exchanged.items()):
            return self
        return self.substituted(exchanged)

    def substituted(self, exchanged: Mapping[Atom, Expression]) -> Expression:
        """The polynomial with its own atoms (not those inside them) exchanged."""
        total = ZERO
        for monomial, coefficient in self.terms.items():
            product = number(coefficient)
            for a, power in monomial:
                factor = exchanged.get(a) or of_atom(a)
                for _ in range(power):
                    product = product * factor
            total = total + product
        return total

    def __add__(self, other: Expression) -> Expression:
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return polynomial(terms)

    def __neg__(self) -> Expression:
        return polynomial({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Expression) -> Expression:
        return self + -other

    def __mul__(self, other: Expression) -> Expression:
        terms: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                product = _product(m, n)
                terms[product] = terms.get(product, 0) + c * d
        return polynomial(terms)

    def __floordiv__(self, other: Expression) -> Expression:
        return apply("//", self, other)

    def __mod__(self, other: Expression) -> Expression:
        return apply("%", self, other)

    def larger(self, other: Expression) -> Expression:
        return apply("max", self, other)

    def smaller(self, other: Expression) -> Expression:
        return apply("min", self, other)

    def split(self, other: Expression) -> tuple[Expression, Expression]:
        """(q, r) with self == q * other + r, where q has every term that `other`, a single term, divides."""
        if self is other:
            return ONE, ZERO
        whole: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        if len(other.terms) == 1:
            ((divisor, factor),) = other.terms.items()
            for monomial, coefficient in self.terms.items():
                quotient = _quotient(monomial, divisor)
                if quotient is None or coefficient % factor:
                    rest[monomial] = coefficient
                else:
                    whole[quotient] = coefficient // factor
            return polynomial(whole), polynomial(rest)
        return ZERO, self


# --- making -----------------------------------------------------------------------------------------------------------

_atoms: WeakValueDictionary[tuple, Atom] = WeakValueDictionary()
_expressions: WeakValueDictionary[tuple, Expression] = WeakValueDictionary()


def _order(monomial: Monomial) -> tuple:
    return tuple((a.text, p) for a, p in monomial)


def polynomial(terms: Mapping[Monomial, int]) -> Expression:
    """The expression with these terms."""
    kept = [(m, c) for m, c in terms.items() if c]
    key = tuple(sorted(kept, key=lambda t: _order(t[0])))
    found = _expressions.get(key)
    if found is None:
        found = _expressions[key] = Expression(dict(key))
    return found


def atom(name: str, *arguments: Formula) -> Atom:
    """The atom of an operation, or (without arguments) the symbol `name`."""
    key = (name, *arguments)
    found = _atoms.get(key)
    if found is None:
        found = _atoms[key] = Atom(name, arguments)
    return found


def of_atom(a: Atom) -> Expression:
    return polynomial({((a, 1),): 1})


def number(value: int) -> Expression:
    """An expression that is a number."""
    return polynomial({(): int(value)})


def symbol(name: str) -> Expression:
    """An expression that is one symbol."""
    return of_atom(atom(name))


ZERO, ONE = number(0), number(1)


def apply(name: str, *arguments: Formula) -> Expression:
    """An operation on formulas, simplified."""
    rule = _RULES.get(name)
    known = [getattr(a, "constant", None) for a in arguments]
    if None not in known:
        return number(OPERATIONS[name](*known))
    return rule(*arguments) if rule is not None else of_atom(atom(name, *arguments))


def _floordiv(a: Expression, b: Expression) -> Expression:
    if b.constant in (1, -1):
        return a * b
    whole, rest = a.split(b)
    if not rest.terms:
        return whole
    if rest.constant is not None and b.constant is not None:
        return whole + number(rest.constant // b.constant)
    rest, b = _reduced(rest, b)
    inner = rest.sole_atom
    if b.constant is not None and b.constant > 0 and inner is not None and inner.name == "//":
        top, bottom = inner.arguments     # (a // c) // b is a // (c * b) where both are positive
        if bottom.constant is not None and bottom.constant > 0:
            return whole + apply("//", top, bottom * b)
    return whole + of_atom(atom("//", rest, b))


def _mod(a: Expression, b: Expression) -> Expression:
    if b.constant in (1, -1):
        return ZERO
    _, rest = a.split(b)
    if not rest.terms:
        return ZERO
    if rest.constant is not None and b.constant is not None:
        return number(rest.constant % b.constant)
    return of_atom(atom("%", rest, b))


def _reduced(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """A fraction without the factors that all terms of both sides share."""
    if not b.terms:
        return a, b
    monomials = [*a.terms, *b.terms]
    shared = tuple((x, min(dict(m).get(x, 0) for m in monomials)) for x, _ in monomials[0])
    shared = tuple((x, p) for x, p in shared if p)
    common = polynomial({shared: math.gcd(*a.terms.values(), *b.terms.values())})
    return (a, b) if common is ONE else (a.split(common)[0], b.split(common)[0])


def _extreme(name: str) -> Callable[..., Expression]:
    def rule(*arguments: Expression) -> Expression:
        parts: set[Expression] = set()
        for a in arguments:
            inner = a.sole_atom
            parts.update(inner.arguments if inner is not None and inner.name == name else (a,))
        kept = [a for a in parts if not any(b is not a and _is_beyond(b - a, name) for b in parts)]
        if len(kept) == 1:
            return kept[0]
        return of_atom(atom(name, *sorted(kept, key=lambda e: (e.constant is None, e.text))))

    return rule


def _is_beyond(difference: Expression, name: str) -> bool:
    known = difference.constant
    return known is not None and (known > 0 if name == "max" else known < 0)


def _shift_left(a: Expression, b: Expression) -> Expression:
    return a * number(1 << b.constant) if b.constant is not None and b.constant >= 0 else of_atom(atom("<<", a, b))


def _shift_right(a: Expression, b: Expression) -> Expression:
    return a // number(1 << b.constant) if b.constant is not None and b.constant >= 0 else of_atom(atom(">>", a, b))


def _and(a: Expression, b: Expression) -> Expression:
    if a is b:
        return a
    mask, other = (a, b) if a.constant is not None else (b, a)
    if mask.constant is not None and mask.constant >= 0 and not (mask.constant & (mask.constant + 1)):
        return other % number(mask.constant + 1)
    return of_atom(atom("&", *_ordered(a, b)))


def _or(a: Expression, b: Expression) -> Expression:
    if a is b or b is ZERO:
        return a
    return b if a is ZERO else of_atom(atom("|", *_ordered(a, b)))


def _xor(a: Expression, b: Expression) -> Expression:
    if a is b:
        return ZERO
    return a if b is ZERO else b if a is ZERO else of_atom(atom("^", *_ordered(a, b)))


def _power(a: Expression, b: Expression) -> Expression:
    if b.constant is None or not 0 <= b.constant <= 32:
        return of_atom(atom("**", a, b))
    result = ONE
    for _ in range(b.constant):
        result = result * a
    return result


def _choice(condition: Formula, a: Expression, b: Expression) -> Expression:
    known = getattr(condition, "constant", None)
    if known is not None or a is b:
        return a if known or a is b else b
    return of_atom(atom("if", condition, a, b))


def _ordered(*arguments: Expression) -> list[Expression]:
    return sorted(arguments, key=lambda e: e.text)


def _rounded(name: str) -> Callable[..., Expression]:
    def rule(value: Any) -> Expression:
        whole = value.as_integer()
        return whole if whole is not None else of_atom(atom(name, value))

    return rule


_RULES: dict[str, Callable[..., Expression]] = {
    "//": _floordiv, "%": _mod, "max": _extreme("max"), "min": _extreme("min"), "<<": _shift_left, ">>": _shift_right,
    "&": _and, "|": _or, "^": _xor, "**": _power, "if": _choice,
    **{name: _rounded(name) for name in ("floor", "ceil", "trunc", "round")},
}


def _product(m: Monomial, n: Monomial) -> Monomial:
    powers: dict[Atom, int] = {}
    for a, power in (*m, *n):
        powers[a] = powers.get(a, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: item[0].text))


def _quotient(m: Monomial, n: Monomial) -> Monomial | None:
    powers = dict(m)
    for a, power in n:
        if powers.get(a, 0) < power:
            return None
        powers[a] -= power
    return tuple((a, powers[a]) for a, _ in m if powers[a])


def total(parts: Iterable[Expression]) -> Expression:
    """The sum of many."""
    terms: dict[Monomial, int] = {}
    for part in parts:
        for monomial, coefficient in part.terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
    return polynomial(terms)
