"""The symbols of one computation: their hints and ranges, what is known of them, and what was assumed.

Enters: sizes to make symbols of, and questions about formulas. Leaves: a `SymbolTable` (see `shape_env`) with `guards`,
the answers that other sizes would give differently, each with the line of the program that asked; what was computed
holds for all sizes that meet them (`holds_for`, `accepts`). A symbol without a hint ("unbacked": it comes from elements
of a tensor) answers only what its checks said; other questions about it raise.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..base import logs
from ..base.sources import PACKAGE
from . import telling
from .expression import ONE, Atom, Expression, Formula, Values, apply, number, of_atom, polynomial, symbol
from .ranges import Range, least, range_of
from .real import Real, Truth, negation, real, real_number, truth, truth_symbol

BEYOND = 2**48     # no size comes near: comparisons with such numbers are overflow checks, not decisions
_PACKAGE = PACKAGE
_OPS = tuple(os.path.join(_PACKAGE, name, "") for name in ("definitions", "op", "planners", "rules"))
_KNOWLEDGE = ("_ranges", "_known", "_facts", "_replacements", "_products", "_exact")
_PASSED = (os.path.join(_PACKAGE, "symbols", ""), os.path.join(_PACKAGE, "base", ""))


class GuardOnDataDependentSymNode(RuntimeError):  # noqa: N818 - PyTorch's name
    """A decision would depend on the elements of a tensor."""

    def __init__(self, message: str, names: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.names = frozenset(names)      # the symbols without a hint that would decide


class ConstraintViolationError(RuntimeError):
    """A size that was declared dynamic turned out to be fixed."""


class DimDynamic(enum.Enum):
    """How a size is treated when its tensor is imitated."""

    DYNAMIC = 0                # a symbol of its own; that it stays free is checked by `check_dynamic`
    DUCK = 1                   # a symbol shared with all sizes that were seen with the same number
    STATIC = 2                 # a plain number
    SIZE_LIKE_UNBACKED = 3     # a symbol without a hint, at least 0
    INFER_STRIDE = 4
    OBLIVIOUS_SIZE = 5


class Guard:
    """A truth that was relied upon, and where."""

    __slots__ = ("location", "truth")

    def __init__(self, truth: Truth, location: str) -> None:
        self.truth, self.location = truth, location

    @property
    def expr(self) -> Truth:
        """PyTorch's name for it."""
        return self.truth

    def holds(self, sizes: Values) -> bool:
        """Whether the same answer comes out for other sizes."""
        return self.truth.evaluate(sizes)

    def __repr__(self) -> str:
        return repr(self.truth)


class Input:
    """A tensor or number the computation got, as formulas: what other arguments are held against."""

    __slots__ = ("sizes", "source", "strides")

    def __init__(self, source: str, sizes: tuple[Expression, ...], strides: tuple[Expression, ...] | None) -> None:
        self.source, self.sizes, self.strides = source, sizes, strides


def user_location() -> str:
    """The innermost line of the program that is not this package's own."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<frozen", "<string>")):
        frame = frame.f_back
    return "unknown" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _is_asked_by_op() -> bool:
    """Whether the body or derivative of an op asks, and not the program: what these do for two elements or more is
    right for fewer, and what they ask is whether there is a shorter way, or something to refuse."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PASSED):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_OPS)


def _numbers_in(f: Formula) -> set[int]:
    """The numbers that a formula compares with, or adds."""
    if isinstance(f, Expression):
        return {abs(n) for n in f.terms.values()} | {n for a in f.atoms() for x in a.arguments for n in _numbers_in(x)}
    return {n for a in getattr(f, "arguments", ()) for n in _numbers_in(a)}


def _equates(t: Truth) -> bool:
    """Whether it makes one formula another."""
    return t.relation == "==" or (t.relation in ("and", "or", "not") and any(_equates(a) for a in t.arguments))


class SymbolTable:
    """The symbols of one computation, their hints, and the guards its rules asked for."""

    def __init__(self, *, specialize_zero_one: bool = True, duck_shape: bool = True, allow_scalar_outputs: bool = True,
                 allow_dynamic_output_shape_ops: bool = True,
                 assume_static_by_default: bool = False) -> None:
        self.specialize_zero_one, self.duck_shape, self.assume_static_by_default = (
            specialize_zero_one,
            duck_shape,
            assume_static_by_default,
        )
        self.allow_scalar_outputs, self.allow_dynamic_output_shape_ops = (
            allow_scalar_outputs,
            allow_dynamic_output_shape_ops,
        )
        self.hints: dict[str, Any] = {}                # symbols that stand for a number that was seen
        # what stands for the others where a number must be; no answer hangs on it
        self.stand_ins: dict[str, Any] = {}
        self.sources: dict[str, list[str]] = {}        # where each symbol is found
        self.dynamic: dict[str, str] = {}              # symbols that were declared dynamic: where
        self.guards: list[Guard] = []
        # checks on symbols without hints: whoever runs the result makes them
        self.deferred: list[Guard] = []
        self.inputs: list[Input] = []
        # counts what was learned: simplified formulas are kept as long as it stands
        self.generation = 0
        # While the shape rule of an op runs, its name; and the hidden symbols that were taken to be 2 or more.
        self.rule: str | None = None
        self.taken_as_large: set[str] = set()
        # names for the next symbols without hints, where a computation is run again: its symbols are the same
        self.again: list[str] = []
        self._ranges: dict[str, Range] = {}
        self._duck: dict[int, Expression] = {}
        self._known: dict[Truth, bool] = {}
        self._facts: list[Expression] = []             # known not to be negative
        self._replacements: dict[Atom, Expression] = {}
        self._products: dict[Expression, Expression] = {}   # products of symbols that are numbers
        self._exact: list[tuple[Any, ...]] = []        # (a, b) where b divides a
        self._simplified: dict[Formula, Formula] = {}

    # --- symbols ------------------------------------------------------------------------------------------------------

    def new_symbol(
        self, hint: int, source: str | None = None, policy: DimDynamic = DimDynamic.DUCK, limits: Range = (None, None)
    ) -> Expression:
        """An expression for a size: a symbol, or a number where the policy says so. 0 and 1 are numbers:
        broadcasting and emptiness hang on them."""
        if policy is DimDynamic.SIZE_LIKE_UNBACKED:
            result = self.unbacked_symbol(0, limits[1])
            self.sources.setdefault(result.text, []).append(source or result.text)
            return result
        if policy is DimDynamic.STATIC or hint < 0 or (hint in (0, 1) and self.specialize_zero_one):
            return number(hint)
        if policy is DimDynamic.DUCK and self.duck_shape and hint in self._duck:
            found = self._duck[hint]
            self.sources[found.text].append(source or found.text)
            return found
        name = f"s{len(self.hints)}"
        self.hints[name] = hint
        self.sources[name] = [source or name]
        smallest = 2 if self.specialize_zero_one else 0
        self._ranges[name] = (smallest if limits[0] is None else max(smallest, limits[0])), limits[1]
        result = symbol(name)
        if logs.heard() is not None:
            telling.made(name, hint, source or name, self._ranges[name], user_location())
        if policy is DimDynamic.DYNAMIC:
            self.dynamic[name] = source or name
        else:
            self._duck.setdefault(hint, result)
        return result

    def unbacked_symbol(self, low: int | None = None, high: int | None = None) -> Expression:
        """A symbol without a hint, for a number that only elements can tell."""
        name = self._unbacked_name("u", 10007 + 2 * len(self.stand_ins))
        self._ranges.setdefault(name, (low, high))
        return symbol(name)

    def unbacked_real(self) -> Real:
        """A real without a hint."""
        return real(self._unbacked_name("zuf", 0.5))

    def unbacked_truth(self) -> Truth:
        """A truth without a hint."""
        return truth_symbol(self._unbacked_name("ub", True))

    def _unbacked_name(self, prefix: str, stand_in: int | float | bool) -> str:
        known = next((name for name in self.again if name.rstrip("0123456789") == prefix), None)
        if known is not None:
            self.again.remove(known)
            return known
        name = f"{prefix}{sum(n.rstrip('0123456789') == prefix for n in self.stand_ins)}"
        self.stand_ins[name] = stand_in
        if logs.heard() is not None:
            telling.made_hidden(name, user_location())
        return name

    def range_of_symbol(self, name: str) -> Range:
        return self._ranges.get(name, (None, None))

    def bounds(self, e: Expression) -> Range:
        """Between which numbers an expression lies."""
        return range_of(self.simplify(e), self.range_of_symbol)

    def is_unbacked(self, f: Formula) -> bool:
        return any(name in self.stand_ins for name in f.names)

    def hidden_in(self, f: Formula) -> list[str]:
        """The symbols without a hint in a formula."""
        return [name for name in f.names if name in self.stand_ins]

    def hint(self, f: Formula) -> Any:
        """The value for the sizes that were seen; None where symbols without a hint are in it."""
        return None if self.is_unbacked(f) else f.evaluate(self.hints)

    def stand_in(self, f: Formula) -> Any:
        """A value to size memory-free tensors with: no answer may hang on it."""
        f = self.simplify(f)
        return f.evaluate({**self.stand_ins, **self.hints} if self.stand_ins else self.hints)

    # --- what is known ------------------------------------------------------------------------------------------------

    def simplify(self, f: Formula) -> Any:
        """A formula with everything put in that equalities said."""
        if not self._replacements and not self._products:
            return f
        found = self._simplified.get(f)
        if found is None:
            found = f.replaced(self._replacement)
            found = self._simplified[f] = self._folded(found) if isinstance(found, Expression) else found
        return found

    def _folded(self, e: Expression) -> Expression:
        """Products that equalities made numbers, and `b * (a // b)`, which is `a` where b divides a."""
        for product, value in self._products.items():
            for monomial, coefficient in e.terms.items():
                whole, rest = polynomial({monomial: coefficient}).split(product)
                if not rest.terms:
                    return self._folded(e - polynomial({monomial: coefficient}) + whole * value)
        for top, bottom in self._exact:
            quotient = apply("//", top, bottom).sole_atom
            if quotient is not None and quotient in e.atoms():
                for monomial, coefficient in e.terms.items():
                    term = polynomial({monomial: coefficient})
                    whole, rest = term.split(of_atom(quotient) * bottom)
                    if not rest.terms:
                        return self._folded(e - term + whole * top)
        return e

    def _replacement(self, a: Atom) -> Expression | None:
        found = self._replacements.get(a)
        return None if found is None else found.replaced(self._replacement)

    def decide(self, t: Truth) -> bool | None:
        """The answer for all sizes, if it is one."""
        t = self.reduced(t)
        if t.constant is not None:
            return t.constant
        if t in self._known:
            return self._known[t]
        if t.relation in ("and", "or"):
            answers = [self.decide(a) for a in t.arguments]
            deciding = t.relation == "or"
            return deciding if deciding in answers else None if None in answers else not deciding
        if t.relation == "not":
            inner = self.decide(t.arguments[0])
            return None if inner is None else not inner
        difference = t.difference if t.arguments else None
        return None if difference is None else self._compare(t.relation, difference)

    def decide_for_large(self, t: Truth) -> bool | None:
        """The answer where sizes that only elements can tell are 2 or more: not empty, and nothing to broadcast."""
        before = self._ranges
        limits = {name: self.range_of_symbol(name) for name in t.names if name in self.stand_ins}
        # a number that may be anything is no size
        self._ranges = before | {n: (max(low, 2), high) for n, (low, high) in limits.items() if low is not None}
        try:
            return self.decide(self.simplify(t).replaced(self._extreme))
        finally:
            self._ranges = before

    def _extreme(self, a: Atom) -> Expression | None:
        """What `max(a, b)` or `min(a, b)` is, where one of them always is."""
        if a.name not in ("max", "min") or len(a.arguments) != 2:
            return None
        first, second = [x.replaced(self._extreme) for x in a.arguments]
        if self._is_nonnegative(first - second):
            return first if a.name == "max" else second
        return (second if a.name == "max" else first) if self._is_nonnegative(second - first) else None

    def reduced(self, t: Truth) -> Truth:
        """A comparison without the factors that all its terms share, where those are certainly positive;
        what equalities said put in."""
        t = self.simplify(t)
        d = t.difference if t.constant is None and t.arguments else None
        if d is None or len(d.terms) < 2 or () in d.terms:
            return t
        first = next(iter(d.terms))
        shared = [(a, min(dict(m).get(a, 0) for m in d.terms)) for a, _ in first]
        shared = [(a, p) for a, p in shared if p and (least(of_atom(a), self.range_of_symbol) or 0) > 0]
        return truth(t.relation, number(0), d.split(polynomial({tuple(shared): 1}))[0]) if shared else t

    def _compare(self, relation: str, d: Expression) -> bool | None:
        """`0 relation d`, where all sizes agree."""
        if relation == "<=":
            return True if self._is_nonnegative(d) else False if self._is_nonnegative(-d - ONE) else None
        if relation == "<":
            return True if self._is_nonnegative(d - ONE) else False if self._is_nonnegative(-d) else None
        if self._is_nonnegative(d - ONE) or self._is_nonnegative(-d - ONE):
            return relation == "!="
        return None

    def _is_nonnegative(self, d: Expression) -> bool:
        bound = least(d, self.range_of_symbol)
        if bound is not None and bound >= 0:
            return True
        for q in d.atoms():      # -(a // b) is at least -a / b
            factor = d.terms.get(((q, 1),), 0)
            divisor = q.arguments[1].constant if q.name == "//" else None
            if factor < 0 and divisor is not None and divisor > 1:
                scaled = least(
                    (d - of_atom(q) * number(factor)) * number(divisor) + q.arguments[0] * number(factor),
                    self.range_of_symbol,
                )
                if scaled is not None and scaled >= 0:
                    return True
        for fact in self._facts:
            if fact.names & d.names:
                bound = least(d - fact, self.range_of_symbol)
                if bound is not None and bound >= 0:
                    return True
        return False

    def learn(self, t: Truth) -> None:
        """From now on `t` holds."""
        t = self.reduced(t)
        if t.constant is not None:
            return
        self.generation += 1
        self._known[t], self._known[negation(t)] = True, False
        if t.relation == "and":
            for part in t.arguments:
                self.learn(part)
        d = t.difference if t.arguments else None
        if d is None:
            return
        if t.relation == "==":
            self._equate(d)
        elif t.relation in ("<", "<="):
            self._bound(d - ONE if t.relation == "<" else d)
        elif t.relation == "!=":
            self._exclude(d)

    @contextlib.contextmanager
    def assuming(self, t: Truth) -> Iterator[None]:
        """Inside, `t` is known to hold, and hints are sizes for which it does; what is assumed besides stays known.
        Equalities are not put in: formulas outside go on without them."""
        before = {name: copy.copy(getattr(self, name)) for name in _KNOWLEDGE}
        guards, deferred = len(self.guards), len(self.deferred)
        hints = dict(self.hints)
        self.hints.update(self._hints_for(t))
        if not _equates(t):
            self.learn(t)
        try:
            yield
        finally:
            made = {name: r for name, r in self._ranges.items() if name not in before["_ranges"] and (
                name in self.stand_ins or name in self.hints) and name not in {a.name for a in before["_replacements"]}}
            for name, value in before.items():
                setattr(self, name, value)
            self.hints.update(hints)
            self._ranges.update(made)
            self._simplified.clear()
            self.generation += 1
            for guard in (*self.guards[guards:], *self.deferred[deferred:]):
                self.learn(guard.truth)

    def _hints_for(self, t: Truth) -> dict[str, Any]:
        """Other hints for the sizes in `t`, for which it holds as all that was assumed before; none if the hints are
        such already, or none are found."""
        names = [n for n in t.names if n in self.hints]
        values = {**self.stand_ins, **self.hints}
        if t.evaluate(values):
            return {}
        near = sorted({*range(2, 33), *(k * n + d for n in _numbers_in(t) for k in (1, 2) for d in (-1, 0, 1))})
        for name in names:
            for n in near:
                other = {**values, name: n}
                if n >= 0 and t.evaluate(other) and all(g.holds(other) for g in self.guards if name in g.truth.names):
                    return {name: n}
        return {}

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """Inside, questions may be asked; afterwards none was."""
        before = {name: copy.copy(value) for name, value in vars(self).items()
                  if isinstance(value, (dict, list, set, tuple))}
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)
            self._simplified.clear()
            self.generation += 1

    def _equate(self, d: Expression) -> None:
        """d == 0: one of its atoms becomes the others."""
        chosen = self._divisible(d) or self._solvable(d)
        if chosen is not None:
            self._replace(*chosen)
        else:
            products = [m for m in d.terms if m]
            rest = d.terms.get((), 0)
            if len(products) != 1 or rest % d.terms[products[0]]:
                return
            self._products[polynomial({products[0]: 1})] = number(-rest // d.terms[products[0]])
        self._simplified.clear()
        self._known = {
            self.simplify(t): answer for t, answer in self._known.items() if self.simplify(t).constant is None
        }
        self._facts = [self.simplify(f) for f in self._facts]

    def _replace(self, a: Atom, value: Expression) -> None:
        self._replacements[a] = value
        if a.name == "%" and value.constant == 0:
            self._exact.append(a.arguments)
        self._simplified.clear()
        if not a.arguments:
            low, high = self._ranges.pop(a.name, (None, None))     # what was known of it is known of what it became
            if low is not None and value.constant is None:
                self._bound(value - number(low))
            if high is not None and value.constant is None:
                self._bound(number(high) - value)

    def _divisible(self, d: Expression) -> tuple[Atom, Expression] | None:
        """The remainder that is 0, where the equation is a == b * (a // b)."""
        for q in d.atoms():
            if q.name == "//":
                top, bottom = q.arguments
                gap = top - of_atom(q) * bottom
                remainder = apply("%", top, bottom).sole_atom
                if remainder is not None and (gap is d or -gap is d):
                    return remainder, number(0)
        return None

    def _solvable(self, d: Expression) -> tuple[Atom, Expression] | None:
        """An atom that an equation gives, with what it is: symbols without hints first, then the newest;
        operations only if they become a number."""
        found: list[tuple[tuple, Atom, Expression]] = []
        for a in d.atoms():
            coefficient = d.terms.get(((a, 1),))
            if coefficient is None or abs(coefficient) != 1:
                if (
                    coefficient is None
                    or len(d.terms) > 2
                    or d.terms.get((), 0) % coefficient
                    or set(d.terms) - {((a, 1),), ()}
                ):
                    continue
            rest = d - of_atom(a) * number(coefficient)
            value = _divided(-rest, coefficient)
            if value is None or any(_occurs(a, b) for b in value.atoms()) or (a.arguments and value.constant is None):
                continue
            found.append(((not a.arguments, a.name in self.stand_ins, len(a.name), a.name), a, value))
        if not found:
            return None
        _, a, value = max(found, key=lambda f: f[0])
        return a, value

    def _bound(self, d: Expression) -> None:
        """d >= 0: a bound of its only symbol, or a fact."""
        symbols = [a for a in d.atoms() if not a.arguments]
        if len(d.atoms()) == 1 and symbols and not set(d.terms) - {((symbols[0], 1),), ()}:
            name, factor, rest = symbols[0].name, d.terms[((symbols[0], 1),)], d.terms.get((), 0)
            low, high = self._ranges.get(name, (None, None))
            if factor > 0:
                bound = -(rest // factor)
                low = bound if low is None else max(low, bound)
            else:
                bound = rest // -factor
                high = bound if high is None else min(high, bound)
            self._ranges[name] = (low, high)
            if low is not None and low == high:
                self._equate(of_atom(symbols[0]) - number(low))
        elif d not in self._facts:
            self._facts.append(d)

    def _exclude(self, d: Expression) -> None:
        """d != 0: a symbol's bound moves if it is the number excluded."""
        a = next((a for a in d.atoms() if not a.arguments), None)
        if a is None or len(d.atoms()) != 1 or set(d.terms) - {((a, 1),), ()}:
            return
        factor, rest = d.terms[((a, 1),)], d.terms.get((), 0)
        low, high = self._ranges.get(a.name, (None, None))
        if rest % factor == 0:
            excluded = -rest // factor
            self._ranges[a.name] = (low + 1 if low == excluded else low), (high - 1 if high == excluded else high)

    # --- questions ----------------------------------------------------------------------------------------------------

    def guard(self, t: Truth) -> bool:
        """The answer; a guard is kept where other sizes would answer otherwise."""
        answer = self.decide(t)
        if answer is not None:
            return answer
        t = self.reduced(t)
        if _is_overflow_check(t):
            return bool(self.stand_in(t))
        if self.is_unbacked(t):
            hidden = sorted(n for n in t.names if n in self.stand_ins)
            is_op = self.rule is not None or _is_asked_by_op()
            answer = self.decide_for_large(t) if is_op else None
            if answer is not None:
                self.taken_as_large.update(hidden)
                return answer
            if is_op and t.relation in ("==", "!=") and all(isinstance(a, Expression) and a.names for a in t.arguments):
                self.expect(truth("==", *t.arguments))      # two sizes that meet: what they do not is refused
                return t.relation == "=="
            answer = self.supposed(t) if is_op else None
            if answer is not None:
                return answer
            raise GuardOnDataDependentSymNode(
                f"whether {t!r} holds depends on the elements of a tensor ({', '.join(hidden)}), asked"
                f"{f' by {self.rule}' if self.rule else ''} at {user_location()}. Say"
                f" what is known of it first: torch._check({t!r}), or torch._check(...) of the opposite.",
                hidden,
            )
        answer = t.evaluate(self.hints)
        self._keep(t if answer else negation(t), self.guards)
        return answer

    def expect(self, t: Truth) -> bool:
        """`t` is required: a guard, or for symbols without a hint a check that whoever runs the result makes.
        False if it certainly fails."""
        answer = self.decide(t)
        if answer is None and self.is_unbacked(self.simplify(t)):
            self._keep(self.simplify(t), self.deferred)
            self._choose_stand_ins()
            return True
        return self.guard(t) if answer is None else answer

    def small_values(self, name: str) -> range:
        """The values below 2 that a symbol may have."""
        low, high = self.range_of_symbol(name)
        return range(max(low or 0, -1), 2 if high is None else min(high + 1, 2))

    def require_other(self, name: str, value: int) -> bool:
        """From now on a symbol is not `value` (whoever runs the result checks it), or, if True is returned, it is."""
        self.expect(truth("!=", symbol(name), number(value)))
        return False

    def supposed(self, t: Truth) -> bool | None:
        """The answer to an op's question that only elements decide, where somebody sees to it that it holds."""
        return None

    def _choose_stand_ins(self) -> None:
        """Numbers that meet the checks made so far, where small ones do:
        calls without data then refuse nothing that the checks allow."""
        for name in list(self.stand_ins):
            checks = [g for g in self.deferred if name in g.truth.names]
            for candidate in (self.stand_ins[name], 3, 2, 4, 5, 7, 8, 1, 0, *self.hints.values()):
                values = {**self.stand_ins, **self.hints, name: candidate}
                if all(g.truth.evaluate(values) for g in checks):
                    self.stand_ins[name] = candidate
                    break

    def _keep(self, t: Truth, where: list[Guard]) -> None:
        where.append(Guard(t, user_location()))
        if logs.heard() is not None:
            telling.assumed(repr(t), True, where is self.deferred, where[-1].location)
        self.learn(t)

    def specialize(self, f: Formula) -> Any:
        """The number a formula is, which is a guard from now on."""
        f = self.simplify(f)
        known = getattr(f, "constant", None)
        if known is not None:
            return known
        if self.is_unbacked(f):
            low, high = self.bounds(f) if isinstance(f, Expression) else (None, None)
            if low is not None and low == high:
                return low
            raise GuardOnDataDependentSymNode(
                f"the number {f!r} depends on the elements of a tensor, and was wanted"
                f"{f' by {self.rule}' if self.rule else ''} at {user_location()}. Keep it"
                f" symbolic, or check its value with torch._check({f!r} == ...).",
                self.hidden_in(f),
            )
        value = f.evaluate(self.hints)
        if isinstance(f, Expression):
            self.guard(truth("==", f, number(value)))
        elif isinstance(f, Real):
            # floats that agree for other sizes by rounding are no reason to keep a float equation
            for name in sorted(f.names):
                if isinstance(self.hints[name], float):
                    self.guard(truth("==", real(name), real_number(self.hints[name])))
                else:
                    self.specialize(symbol(name))
        return value

    # --- other sizes --------------------------------------------------------------------------------------------------

    def add_input(self, source: str, sizes: Sequence[Expression], strides: Sequence[Expression] | None = None) -> None:
        """Remember an argument, for `accepts`."""
        self.inputs.append(Input(source, tuple(sizes), None if strides is None else tuple(strides)))

    def holds_for(self, sizes: Mapping[str, int]) -> bool:
        """Whether what was computed is also true for these sizes (by symbol)."""
        return self.refusal(sizes) is None

    def refusal(self, values: Mapping[str, int]) -> str | None:
        """Why what was computed does not hold for these sizes."""
        smallest = 2 if self.specialize_zero_one else 0
        for name, value in values.items():
            if name in self.hints and isinstance(value, int) and value < smallest:
                return f"{name} >= {smallest}: sizes 0 and 1 are computed apart"
        for guard in self.guards:
            if not guard.holds(values):
                return f"{guard!r}, assumed at {guard.location}"
        return None

    def bind(self, arguments: Iterable[Any]) -> dict[str, int] | str:
        """The symbols' values for other arguments (tensors or numbers, one per input), or why they do not fit."""
        given = list(arguments)
        if len(given) != len(self.inputs):
            return f"{len(self.inputs)} arguments, got {len(given)}"
        values: dict[str, int] = {}
        later: list[tuple[str, Expression, int]] = []
        for known, value in zip(self.inputs, given, strict=True):
            sizes = tuple(value.shape) if hasattr(value, "shape") else (value,)
            if len(sizes) != len(known.sizes):
                return f"{known.source} has {len(known.sizes)} dimensions, got {len(sizes)}"
            for d, (e, size) in enumerate(zip(known.sizes, sizes, strict=True)):
                where = f"{known.source}.size({d})" if hasattr(value, "shape") else known.source
                name = e.sole_symbol
                if name is not None and name not in values:
                    values[name] = size
                later.append((where, e, size))
            if known.strides is not None:
                strides = zip(known.strides, value.stride(), sizes, strict=True)
                later += [
                    (f"{known.source}.stride({d})", e, step) for d, (e, step, size) in enumerate(strides) if size > 1
                ]
        for where, e, size in later:
            if e.evaluate(values) != size:
                return f"{where} == {e!r}, got {size}"
        return values

    def accepts(self, *arguments: object) -> bool:
        """Whether what was computed also holds for these arguments."""
        return self.why_not(*arguments) is None

    def why_not(self, *arguments: object) -> str | None:
        """The first thing that these arguments do not meet; None if they meet all."""
        values = self.bind(arguments)
        return values if isinstance(values, str) else self.refusal(values)

    def check_dynamic(self) -> None:
        """Refuse if a size that was declared dynamic turned out to be a number."""
        for name, source in self.dynamic.items():
            fixed = self.simplify(symbol(name)).constant
            if fixed is not None:
                where = next((g.location for g in self.guards if name in g.truth.names), "unknown")
                raise ConstraintViolationError(
                    f"{source} was declared dynamic, but the program holds for {fixed} alone, by what it does at"
                    f" {where}"
                )

    def format_guards(self, verbose: bool = False) -> str:
        """The guards, one per line."""
        return "\n".join(f" - {g!r}" + (f" ({g.location})" if verbose else "") for g in self.guards)

    def __repr__(self) -> str:
        return f"ShapeEnv({self.hints}, guards={self.guards})"


def _divided(e: Expression, by: int) -> Expression | None:
    whole, rest = e.split(number(by))
    return None if rest.terms else whole


def _occurs(a: Atom, inside: Atom) -> bool:
    if inside is a:
        return True
    return any(a.names & x.names for x in inside.arguments) if a.names <= inside.names else False


def _is_overflow_check(t: Truth) -> bool:
    d = t.difference if t.arguments else None
    return d is not None and abs(d.terms.get((), 0)) >= BEYOND


__all__ = ["ConstraintViolationError", "DimDynamic", "Guard", "GuardOnDataDependentSymNode", "SymbolTable"]
