"""Between which numbers an expression lies, for all values its symbols may take.

Enters: an expression, and the range of each symbol. Leaves: a bound, or None where none is known. A polynomial is
bounded by writing every atom as its least value plus something that is not negative: `s*t - s` with both at least 2
becomes `2 + s' + 2*t' + s'*t'`, which is at least 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .expression import Atom, Expression, number, of_atom
from .real import Real

Range = tuple[int | None, int | None]
Ranges = Callable[[str], Range]     # the range of a symbol

ANY: Range = (None, None)


def least(e: Expression, ranges: Ranges) -> int | None:
    """A bound from below."""
    bounds = {a: atom_range(a, ranges) for a in e.atoms()}
    shifted = e.substituted({a: of_atom(a) + number(low) for a, (low, _) in bounds.items() if low})
    found = shifted.terms.get((), 0)
    for monomial, coefficient in shifted.terms.items():
        if not monomial:
            continue
        if any(bounds[a][0] is None for a, _ in monomial):
            return None
        if coefficient < 0:
            for a, power in monomial:
                low, high = bounds[a]
                if high is None or low is None:
                    return None
                coefficient *= (high - low) ** power
            found += coefficient
    return found


def most(e: Expression, ranges: Ranges) -> int | None:
    """A bound from above."""
    found = least(-e, ranges)
    return None if found is None else -found


def range_of(e: Expression, ranges: Ranges) -> Range:
    return least(e, ranges), most(e, ranges)


def atom_range(a: Atom, ranges: Ranges) -> Range:
    """The range of a symbol or operation."""
    if not a.arguments:
        return ranges(a.name)
    if a.name in ("floor", "ceil", "trunc", "round"):
        return (0, None) if isinstance(a.arguments[0], Real) and is_nonnegative(a.arguments[0], ranges) else ANY
    parts = [range_of(x, ranges) for x in a.arguments if isinstance(x, Expression)]
    rule = _RULES.get(a.name)
    return rule(*parts) if rule is not None else ANY


def is_nonnegative(x: Real, ranges: Ranges) -> bool:
    """Whether a real is certainly no less than zero."""
    if x.value is not None:
        return x.value >= 0
    if x.function == "float" and isinstance(x.arguments[0], Expression):
        low = least(x.arguments[0], ranges)
        return low is not None and low >= 0
    if x.function in ("+", "*", "/", "max", "min", "sqrt"):
        return all(isinstance(a, Real) and is_nonnegative(a, ranges) for a in x.arguments)
    return x.function in ("abs", "exp")


def _all_known(choose: Callable[[list[int]], int], bounds: Iterable[int | None]) -> int | None:
    """The least or greatest of some bounds; None where one of them is not known."""
    given = list(bounds)
    known = [bound for bound in given if bound is not None]
    return choose(known) if len(known) == len(given) else None


def _max(*parts: Range) -> Range:
    lows = [low for low, _ in parts if low is not None]
    return (max(lows) if lows else None), _all_known(max, (high for _, high in parts))


def _min(*parts: Range) -> Range:
    highs = [high for _, high in parts if high is not None]
    return _all_known(min, (low for low, _ in parts)), (min(highs) if highs else None)


def _hull(*parts: Range) -> Range:
    return _all_known(min, (low for low, _ in parts)), _all_known(max, (high for _, high in parts))


def _quotient(a: Range, b: Range) -> Range:
    if a[0] is None or a[0] < 0 or b[0] is None or b[0] <= 0:
        return ANY
    return (0 if b[1] is None else a[0] // b[1]), (None if a[1] is None else a[1] // b[0])


def _remainder(a: Range, b: Range) -> Range:
    if b[0] is None or b[0] <= 0:
        return ANY
    highs = [
        h
        for h in (None if b[1] is None else b[1] - 1, a[1] if a[0] is not None and a[0] >= 0 else None)
        if h is not None
    ]
    return 0, min(highs) if highs else None


def _bits(a: Range, b: Range) -> Range:
    return (0, None) if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0 else ANY


def _power(a: Range, b: Range) -> Range:
    return (1, None) if a[0] is not None and a[0] >= 1 and b[0] is not None and b[0] >= 0 else ANY


def _shifted(a: Range, b: Range) -> Range:
    return (0, None) if a[0] is not None and a[0] >= 0 else ANY


_RULES: dict[str, Callable[..., Range]] = {
    "max": _max, "min": _min, "if": _hull, "//": _quotient, "%": _remainder, "&": _bits, "|": _bits, "^": _bits,
    "**": _power, "<<": _shifted, ">>": _shifted,
}
