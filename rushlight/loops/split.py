"""Loops cut where a condition changes: bodies that choose by position become plain loops side by side.

Enters: a vector loop whose values compare its variable, or numbers that do not change in it, with others: padding,
pieces put together, windows at an edge. Leaves: the same stores in a few loops, each over a stretch on which the
conditions are known, so that clamped places are plain ones again; conditions on what the loop does not change become
branches around it. Refuses nothing: what it cannot cut stays a choice per element.

    for j in 0..n:  y[j] = select(j >= a and j < b, x[max(min(j - a, last), 0)], 0)
    for j in 0..a:  y[j] = 0        for j in a..b:  y[j] = x[j - a]        for j in b..n:  y[j] = 0

Loop variables count from 0 or more. Conditions that look at memory are left alone,
being as costly to ask twice as once.
"""

from __future__ import annotations

from collections.abc import Sequence

from .expr import Value, add, const, ge, idiv, le, lt, max_, min_, mul, rebuild, rewrite, select, var
from .nest import For, If, Local, Statement, Store
from .record import Record
from .walking import walk

MOST_LOOPS = 16          # loops that one becomes
ZERO = const(0, "i64")
Form = tuple[int, tuple[tuple[Value, int], ...], int]


def linear(value: Value, name: str) -> Form | None:
    """(coefficient of the variable, other parts with theirs, constant) of an i64 value;
    None where the variable is inside a part."""
    parts: dict[Value, int] = {}
    total = [0, 0]

    def gather(v: Value, times: int) -> bool:
        if v.op == "const":
            total[1] += times * v.attr
        elif v.op == "var" and v.attr == name:
            total[0] += times
        elif v.op in ("add", "sub"):
            return gather(v.args[0], times) and gather(v.args[1], times if v.op == "add" else -times)
        elif v.op == "neg":
            return gather(v.args[0], -times)
        elif v.op == "mul" and any(a.op == "const" for a in v.args):
            a, b = v.args if v.args[1].op == "const" else reversed(v.args)
            return gather(a, times * b.attr)
        elif any(w.op == "load" or (w.op == "var" and w.attr == name) for w in walk([v])):
            return False
        else:
            parts[v] = parts.get(v, 0) + times
        return True

    if not gather(value, 1):
        return None
    return total[0], tuple(sorted([(v, n) for v, n in parts.items() if n], key=lambda pair: pair[0].digest())), total[1]


def sum_of(parts: Sequence[tuple[Value, int]], constant: int) -> Value:
    """A linear form as a value."""
    total = const(constant, "i64")
    for v, n in parts:
        total = add(total, mul(v, const(n, "i64")))
    return total


class Test(Record):
    """`step * variable < parts + bound`; where the step is 0, `parts < bound`. A condition is that if it `holds`,
    else its opposite."""

    step: int
    parts: tuple[tuple[Value, int], ...]
    bound: int
    holds: bool

    @property
    def group(self) -> tuple:
        """Tests that differ in their bounds alone."""
        return self.step, self.parts

    def limit(self) -> Value:
        """The first position at which it fails; positions count from 0, so no quotient need be negative."""
        whole = sum_of(self.parts, self.bound)
        return (
            whole
            if self.step == 1
            else idiv(max_(add(whole, const(self.step - 1, "i64")), ZERO), const(self.step, "i64"))
        )

    def condition(self) -> Value:
        """The test of what does not change in the loop."""
        return lt(sum_of(self.parts, 0), const(self.bound, "i64"))


def test_of(node: Value, name: str) -> Test | None:
    """What a comparison asks of the position, if it is a test."""
    if node.op not in ("lt", "le", "gt", "ge") or node.args[0].dtype != "i64":
        return None
    form = linear(node.args[0] - node.args[1], name)
    if form is None:
        return None
    step, parts, constant = form
    holds = node.op in ("lt", "le")
    if node.op in ("le", "gt"):      # everything as a sum < 0: a <= b is a - b - 1 < 0, and a > b its opposite
        constant -= 1
    if step < 0:                     # -s * j + r < 0 is the opposite of s * j - r < 1
        step, parts, constant, holds = -step, negated(parts), -constant - 1, not holds
    return Test(step, negated(parts) if step else parts, -constant, holds)


def negated(parts: tuple[tuple[Value, int], ...]) -> tuple[tuple[Value, int], ...]:
    return tuple([(v, -n) for v, n in parts])


class Known(Record):
    """What is known on a stretch: tests that hold there, tests that fail, and groups that are not cut any further."""

    below: tuple[tuple, ...] = ()
    past: tuple[tuple, ...] = ()
    left: frozenset = frozenset()

    def answer(self, test: Test) -> bool | None:
        """Whether a test holds, if that is known."""
        if not test.parts and (test.step == 0 or test.bound <= 0):
            return test.step == 0 and test.bound > 0
        if any(group == test.group and bound <= test.bound for group, bound in self.below):
            return True
        if any(group == test.group and bound >= test.bound for group, bound in self.past):
            return False
        return None

    def on(self, test: Test, holds: bool) -> Known:
        """And one thing more; on the side where a condition on the variable does not hold,
        its group is left as it is."""
        fact = (test.group, test.bound)
        left = self.left if holds == test.holds or test.step == 0 else self.left | {test.group}
        return self.but(below=(*self.below, fact), left=left) if holds else self.but(past=(*self.past, fact), left=left)


class Splitter:
    """Cuts one loop."""

    def __init__(self, name: str, stores: Sequence[Store], vector: bool) -> None:
        self.name, self.stores, self.vector = name, stores, vector
        self.tests: dict[Value, Test | None] = {}
        self.cuts = 0
        self.loops = 1

    def test(self, node: Value) -> Test | None:
        """The test that a node is, remembered."""
        if node not in self.tests:
            self.tests[node] = test_of(node, self.name)
        return self.tests[node]

    def chosen(self, node: Value) -> Value | None:
        """A smaller or larger of two as a choice, true where the one that moves with the loop is taken."""
        if node.op not in ("min", "max") or node.dtype != "i64":
            return None
        first, second = (linear(a, self.name) for a in node.args)
        if first is None or second is None or first[0] == second[0]:
            return None
        a, b = node.args if first[0] else reversed(node.args)
        return select(le(a, b) if node.op == "min" else ge(a, b), a, b)

    def known(self, values: list[Value], known: Known) -> list[Value]:
        """The values where something is known."""

        def condition(node: Value) -> Value | None:
            test = self.test(node) if node.dtype == "b1" else None
            answer = None if test is None else known.answer(test)
            return None if test is None or answer is None else const(answer == test.holds, "b1")

        def rule(node: Value) -> Value | None:
            result = self.chosen(node)
            if result is None:
                return condition(node)
            asked = condition(result.args[0]) if result.op == "select" else None
            return result if asked is None else rebuild(result, (asked, *result.args[1:]))

        return rewrite(values, rule)

    def next_test(self, values: list[Value], known: Known) -> Test | None:
        """The test to cut at: branches first, then of the first group that with which all its conditions hold."""
        found = [
            t
            for node in walk(values)
            if node.dtype == "b1" and (t := self.test(node)) is not None and t.group not in known.left
        ]
        if not found:
            return None
        first = next((t for t in found if t.step == 0), found[0])
        alike = [t for t in found if t.group == first.group and t.holds == first.holds]
        return (min if first.holds else max)(alike, key=lambda t: t.bound)

    def statements(self, values: list[Value], start: Value, stop: Value, known: Known) -> list[Statement]:
        """Loops over [start, stop)."""
        values = self.known(values, known)
        test = self.next_test(values, known) if self.loops < MOST_LOOPS else None
        if test is None:
            count = len(self.stores)
            body = [
                Store(s.operand, at, value, s.combine)
                for s, at, value in zip(self.stores, values[:count], values[count:], strict=True)
            ]
            plain = not any(
                node.dtype == "b1" and (t := self.test(node)) is not None and t.step for node in walk(values)
            )
            return [For(self.name, start, stop, tuple(body), vector=self.vector and (plain or self.loops == 1))]
        self.loops += 1
        if test.step == 0:
            sides = [tuple(self.statements(values, start, stop, known.on(test, holds))) for holds in (True, False)]
            return [If(test.condition(), *sides)]
        cut = var(f"{self.name}.cut{self.cuts}")
        self.cuts += 1
        before = self.statements(values, start, cut, known.on(test, True))
        after = self.statements(values, cut, stop, known.on(test, False))
        return [Local(cut.attr, min_(max_(test.limit(), start), stop)), *before, *after]


def split_loop(name: str, start: Value, stop: Value, stores: Sequence[Store], vector: bool = True) -> list[Statement]:
    """The loop over `stores` in stretches; one loop where there is nothing to know."""
    splitter = Splitter(name, stores, vector)
    places = [s.index for s in stores if s.index is not None]
    assert len(places) == len(stores), "a loop's stores say where"
    result = splitter.statements([*places, *[s.value for s in stores]], start, stop, Known())
    return result if splitter.loops > 1 else [For(name, start, stop, tuple(stores), vector=vector)]


def splits(name: str, values: Sequence[Value]) -> bool:
    """Whether some of `values` ask what splitting would answer."""
    return any(test_of(node, name) is not None for node in walk(values) if node.dtype == "b1")


__all__ = ["split_loop", "splits"]
