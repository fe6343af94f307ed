"""Random nests: loops in loops, vector and serial, locals, branches and reductions, against the interpreter."""

from __future__ import annotations

import random

import numpy as np
import pytest
from harness import run_nest
from interpreter import Interpreter

from rushlight.loops import expr as e
from rushlight.loops.nest import Assign, For, If, Local, Nest, Reduce, Statement, Store, operands, reduction, rows

ZERO = e.const(0, "i64")
PARAMS = {"n": 3, "m": 21, "long": 37, "one": 1, "two": 2, "none": 0}
REGION = 40000  # elements of output that each Store has to itself


class Grower:
    """Grows the body of a nest; integers in small floats, so that every order of summing gives the same number."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.stores = 0

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def index(self, loops: list[str]) -> e.Value:
        """An element of the input: each loop variable times 0, 1, 2 or a parameter, plus a constant."""
        at = e.const(self.random.randrange(20), "i64")
        for name in loops:
            step = self.random.choice([e.const(0, "i64"), e.const(1, "i64"), e.const(2, "i64"), e.var("one"),
                                       e.var("two"), e.var("none")])
            at = at + e.var(name) * step
        return at

    def number(self, scope: list[tuple[str, str]], loops: list[str], code: str) -> e.Value:
        choices = [e.load(0, self.index(loops), "f32"), e.load(1, self.index(loops), "i64")]
        choices += [e.var(name, dtype) for name, dtype in scope]
        choices += [e.var(name) for name in loops]
        return e.cast(self.random.choice(choices), code)

    def expression(self, scope: list[tuple[str, str]], loops: list[str], code: str) -> e.Value:
        a, b, c = (self.number(scope, loops, code) for _ in range(3))
        kind = self.random.random()
        if kind < 0.3:
            return a + b
        if kind < 0.5:
            return e.max_(a, b) - e.min_(b, c)
        if kind < 0.7:
            return e.select(e.lt(a, b), c, a)
        # Kept small, or floats would lose digits.
        return e.min_(e.max_(a * 3 - b, e.const(-999, code)), e.const(999, code))

    def limited(self, value: e.Value) -> e.Value:
        return e.min_(e.max_(value, e.const(-99999, value.dtype)), e.const(99999, value.dtype))

    def store(self, scope: list[tuple[str, str]], loops: list[str]) -> Store:
        at = e.const(REGION * self.stores, "i64")
        self.stores += 1
        for name, step in zip(loops, (2000, 45, 1), strict=False):
            at = at + e.var(name) * (1 if name == loops[-1] else step)
        code = self.random.choice(["f32", "i64"])
        combine = self.random.choice(["set", "set", "add", "max"])
        return Store(2 if code == "f32" else 3, at, self.limited(self.expression(scope, loops, code)), combine)

    def block(
        self, scope: list[tuple[str, str]], loops: list[str], depth: int, in_vector: bool
    ) -> tuple[Statement, ...]:
        body: list[Statement] = []
        scope, mutable = list(scope), []
        for _ in range(self.random.randrange(2, 5)):
            kind = self.random.random()
            if kind < 0.25:
                local = Local(
                    self.name("t"), self.limited(self.expression(scope, loops, self.random.choice(["f32", "i64"])))
                )
                body.append(local)
                scope.append((local.name, local.value.dtype))
                mutable.append((local.name, local.value.dtype))
            elif kind < 0.35 and mutable:
                body += self.carry(scope, mutable, loops)
            elif kind < 0.45:
                test = e.lt(self.number(scope, loops, "i64"), e.const(self.random.randrange(20), "i64"))
                changes = self.changes(scope, mutable, loops)
                body.append(If(test, (*changes, self.store(scope, loops)), changes[:1]))
            elif kind < 0.6 and depth < 2:
                body.append(self.loop(scope, loops, depth, in_vector))
            elif kind < 0.8:
                fold = self.fold(scope, loops)
                body.append(fold)
                scope += [(acc, first.dtype) for acc, first in zip(fold.accs, fold.init, strict=True)]
            else:
                body.append(self.store(scope, loops))
        body.append(self.store(scope, loops))
        return tuple(body)

    def changes(self, scope, mutable, loops) -> tuple[Statement, ...]:
        return tuple(Assign(name, self.limited(self.expression(scope, loops, code))) for name, code in mutable[:1])

    def carry(self, scope, mutable, loops) -> list[Statement]:
        """A serial loop that changes a local of this block."""
        name, code = self.random.choice(mutable)
        var = self.name("c")
        new = self.limited(e.var(name, code) + self.number(scope, [*loops, var], code))
        return [For(var, ZERO, e.var(self.random.choice(["n", "m"])), (Assign(name, new),))]

    def loop(self, scope, loops, depth: int, in_vector: bool) -> For:
        var = self.name("j")
        vector = self.random.random() < 0.6
        size = e.var(self.random.choice(["n", "m", "long", "none"]))
        return For(var, ZERO, size, self.block(scope, [*loops, var], depth + 1, in_vector or vector), vector)

    def fold(self, scope, loops) -> Reduce:
        var = self.name("r")
        value = self.expression(scope, [*loops, var], "i64")
        top = self.expression(scope, [*loops, var], "f32")
        return reduction(
            var, ZERO, e.var(self.random.choice(["n", "m", "long", "none"])), [self.name("sum"), self.name("top")],
            [e.const(0, "i64"), e.const(-1000, "f32")],
            lambda acc: [acc[0] + value, e.max_(acc[1], top)], lambda a, b: [a[0] + b[0], e.max_(a[1], b[1])],
            blocked=self.random.random() < 0.5,
        )


class Brancher(Grower):
    """The same with blocks in the branches of conditions: both use the same names for their own things."""

    def block(self, scope, loops, depth: int, in_vector: bool) -> tuple[Statement, ...]:
        body = [*super().block(scope, loops, depth, in_vector)]
        if depth < 2:
            first = self.count
            then = super().block(scope, loops, 2, in_vector)
            last, self.count = self.count, first
            otherwise = super().block(scope, loops, 2, in_vector)
            self.count = max(last, self.count)
            test = e.lt(self.number(scope, loops, "i64"), e.const(self.random.randrange(20), "i64"))
            body.insert(self.random.choice([0, len(body)]), If(test, then, otherwise))
        return tuple(body)


@pytest.mark.parametrize("seed", range(6))
def test_names_of_both_branches(seed):
    check_against_interpreter(Brancher(seed), seed)


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", range(24))
def test_kernel_does_what_the_interpreter_does(seed):
    check_against_interpreter(Grower(seed), seed)


def check_against_interpreter(grower: Grower, seed: int) -> None:
    vector = grower.random.random() < 0.3
    body = grower.block([], ["i"], 0, vector)
    nest = Nest(f"nest{seed}", operands(["f32", "i64"], ["f32", "i64"]), tuple(PARAMS), rows(*body, vector=vector))
    rng = np.random.default_rng(seed)
    data = [rng.integers(-9, 9, 600).astype(np.float32), rng.integers(-9, 9, 600)]
    size = REGION * (grower.stores + 1)
    outs = [np.zeros(size, np.float32), np.zeros(size, np.int64)]
    expected = [out.copy() for out in outs]
    rows_run = 18 if vector else 2
    run_nest(nest, [*data, *outs], list(PARAMS.values()), 0, rows_run)
    with np.errstate(all="ignore"):
        Interpreter(nest, [*data, *expected], list(PARAMS.values())).run(0, rows_run)
    for got, want in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=str(nest))
