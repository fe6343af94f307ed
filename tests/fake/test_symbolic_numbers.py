"""Symbolic numbers: no path reads the number without a guard, and formulas compute what numbers would."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import rushlight as rl
from rushlight.fake import FakeTensorMode
from rushlight.symbols import (
    ConstraintViolationError,
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    SymBool,
    SymFloat,
    SymInt,
    guard_or_false,
    guard_or_true,
    statically_known_true,
    symbolic_math,
)

# Whoever needs a number or a truth gets the hint, and a guard: the paths of C as well as those of Python.
ASKING: dict[str, Callable[[Any], Any]] = {
    "int": int, "float": float, "complex": complex, "index": operator.index, "hash": hash,
    "range": lambda s: list(range(s)), "repeat": lambda s: [0] * s, "slice": lambda s: "abcdefghij"[:s],
    "item": lambda s: list(range(10))[s], "format": lambda s: f"{s:3d}", "str.format": lambda s: f"{s:d}",
    "math.sqrt": math.sqrt, "math.log": math.log, "math.gcd": lambda s: math.gcd(s, 4),
    "math.factorial": math.factorial, "bytes": lambda s: bytes(s), "chr": chr, "hex": hex,
    "dict key": lambda s: {6: "x"}[s], "set": lambda s: s in {6, 7}, "pow modulus": lambda s: pow(s, 2, 5),
    "round digits": lambda s: round(s, -1), "real tensor": lambda s: rl.zeros(s),
    "real view": lambda s: rl.zeros(12).view(s, 2), "real scalar": lambda s: rl.ones(2) * s,
    "real index": lambda s: rl.arange(9)[s], "real slice": lambda s: rl.arange(9)[:s],
    "real narrow": lambda s: rl.arange(9).narrow(0, 0, s), "real float": lambda s: rl.ones(2) * (s / 4),
    "float of half": lambda s: float(s / 2), "int of half": lambda s: int(s / 2), "equal": lambda s: bool(s == 6),
    "less": lambda s: bool(s < 7), "sort": lambda s: sorted([s, 7, 3]), "max": lambda s: max(s, 4),
    "in": lambda s: s in (5, 6), "tuple": lambda s: (s, 2) == (6, 2), "bool of difference": lambda s: bool(s - 6),
    "divisible": lambda s: bool(s % 3 == 0), "bit_length": lambda s: s.bit_length(),
    "numpy": lambda s: __import__("numpy").zeros(s), "struct": lambda s: __import__("struct").pack("q", s),
}


def fresh(hint: int = 6, **options: Any) -> tuple[Any, ShapeEnv]:
    env = ShapeEnv(**options)
    return env.create_symbol(hint, "x.size(0)"), env


@pytest.mark.parametrize("name", ASKING)
def test_every_question_leaves_a_guard(name: str) -> None:
    s, env = fresh()
    ask = ASKING[name]
    answer, wanted = ask(s), ask(6)
    if isinstance(wanted, rl.Tensor):
        assert rl.equal(answer, wanted)
    else:
        assert str(answer).replace("s0", "6") == str(wanted)
    assert env.guards, "the number was used without a guard"
    assert __file__ in env.guards[0].location
    for n in range(2, 14):      # sizes that meet the guards give the same answer
        if env.holds_for({"s0": n}) and not isinstance(wanted, rl.Tensor):
            assert str(ask(n)) == str(answer).replace("s0", str(n))


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda s, t: s + t + 1, "sub": lambda s, t: 3 - s - t, "mul": lambda s, t: s * t * 2,
    "floordiv": lambda s, t: (s * t + 5) // 3, "floordiv by": lambda s, t: 100 // s, "mod": lambda s, t: (s + 7) % t,
    "truediv": lambda s, t: s / t, "rtruediv": lambda s, t: 1 / s, "pow": lambda s, t: s**3,
    "pow root": lambda s, t: s**-0.5,
    "rpow": lambda s, t: 2**s, "lshift": lambda s, t: s << 2, "rshift": lambda s, t: s >> 1, "and": lambda s, t: s & 7,
    "and odd": lambda s, t: s & 5, "or": lambda s, t: s | 8, "xor": lambda s, t: s ^ t, "neg": lambda s, t: -s,
    "invert": lambda s, t: ~s, "abs": lambda s, t: abs(s - t), "divmod": lambda s, t: divmod(s * t, 7),
    "round": lambda s, t: round(s / t), "floor": lambda s, t: math.floor(s * 1.5),
    "ceil": lambda s, t: math.ceil(s / 4), "trunc": lambda s, t: math.trunc(-s / 4), "exact": lambda s, t: (s * t) // t,
    "nested": lambda s, t: (s // 2) // 3, "mix": lambda s, t: (s + t) * (s - t) // 2 + s % 4,
    "sym_max": lambda s, t: rl.sym_max(s, t), "sym_min": lambda s, t: rl.sym_min(s, 7),
    "sym_int": lambda s, t: rl.sym_int(s / 3), "sym_float": lambda s, t: rl.sym_float(s),
    "sym_sqrt": lambda s, t: rl.sym_sqrt(s), "sym_sum": lambda s, t: rl.sym_sum([s, t, 3]),
    "sym_ite": lambda s, t: rl.sym_ite(s < t, s, t + 1), "sym_not": lambda s, t: rl.sym_not(s == t),
    "compare": lambda s, t: s * 2 <= t, "both": lambda s, t: (s < t) & (t != 5),
    "either": lambda s, t: (s > t) | (s == 4), "float compare": lambda s, t: s / t > 0.75,
    "round to": lambda s, t: round(s / 7, 2), "rdivmod": lambda s, t: divmod(50, s), "float mod": lambda s, t: s % 2.5,
    "bool sum": lambda s, t: (s < t) + s,
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_is_a_formula(name: str) -> None:
    """No guard is left, and the formula gives for all sizes what numbers give."""
    f = ARITHMETIC[name]
    env = ShapeEnv()
    result = f(env.create_symbol(6), env.create_symbol(9))
    assert not env.guards
    for a in range(2, 12):
        for b in range(2, 12):
            want = f(a, b)
            got = tuple(_value(x, a, b) for x in result) if isinstance(result, tuple) else _value(result, a, b)
            assert got == want and type(got) is type(want), (a, b)


def _value(x: Any, a: int, b: int) -> Any:
    return x.expression.evaluate({"s0": a, "s1": b}) if isinstance(x, (SymInt, SymFloat, SymBool)) else x


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["+", "-", "*", "//", "%", "max", "min"]), st.sampled_from(["s", "t", "2", "3", "8"])
        ),
        max_size=6,
    ),
    st.integers(2, 12),
    st.integers(2, 12),
)
def test_random_formulas(steps: list[tuple[str, str]], a: int, b: int) -> None:
    """Whatever is simplified, the value stays; whatever is decided without a guard holds for other sizes."""
    functions: dict[str, Callable] = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "//": operator.floordiv,
        "%": operator.mod,
        "max": rl.sym_max,
        "min": rl.sym_min,
    }
    env = ShapeEnv()
    known: dict[str, Any] = {"s": env.create_symbol(5), "t": env.create_symbol(7), "2": 2, "3": 3, "8": 8}
    plain: dict[str, Any] = {"s": a, "t": b, "2": 2, "3": 3, "8": 8}
    x, n = known["s"], plain["s"]
    for operation, operand in steps:
        x, n = functions[operation](x, known[operand]), functions[operation](n, plain[operand])
        assert _value(x, a, b) == n
        for relation in (operator.eq, operator.lt, operator.le, operator.ne):
            answer = relation(x, known["t"])
            assert _value(answer, a, b) == relation(n, b)
    assert not env.guards


def test_no_int_and_types() -> None:
    s, env = fresh()
    assert not isinstance(s, int) and isinstance(s, rl.SymInt)
    assert isinstance(s / 2, rl.SymFloat) and isinstance(s == 6, rl.SymBool)
    assert repr(s * 2) == "2*s0" and str(rl.Size([s, 3])) == "rushlight.Size([s0, 3])" and not env.guards
    one = ShapeEnv().create_symbol(1)
    assert type(one) is int
    assert (s == "x") is False and (s is None) is False and (s != "x") is True
    with pytest.raises(TypeError):
        s + "x"
    with pytest.raises(TypeError, match="pickled"):
        __import__("pickle").dumps(s)


def test_what_guards_taught_is_known() -> None:
    s, env = fresh(8)
    t = env.create_symbol(16)
    assert s * 2 == t and [repr(g) for g in env.guards] == ["2*s0 == s1"]
    assert repr(t + 1) == "2*s0 + 1" and t // 2 is not None and repr(t // s) == "2"
    assert s % 4 == 0
    assert repr((s // 4) * 4) == "s0" and len(env.guards) == 2
    assert s < 100 and s < 101 and s <= 99 and len(env.guards) == 3
    assert (
        not env.holds_for({"s0": 8, "s1": 17})
        and not env.holds_for({"s0": 6, "s1": 12})
        and env.holds_for({"s0": 12, "s1": 24})
    )
    assert "2*s0 == s1" in env.format_guards(verbose=True) and __file__ in env.format_guards(verbose=True)


def test_policies() -> None:
    env = ShapeEnv()
    assert repr(env.symbolic_shape((4, 4, 1, 0), [DimDynamic.DUCK] * 4, "x")) == "(s0, s0, 1, 0)"
    assert repr(env.symbolic_shape((4, 4), [DimDynamic.DYNAMIC, DimDynamic.STATIC], "y")) == "(s1, 4)"
    assert repr(ShapeEnv(duck_shape=False).symbolic_shape((4, 4), [DimDynamic.DUCK] * 2, "x")) == "(s0, s1)"
    assert repr(ShapeEnv(specialize_zero_one=False).symbolic_shape((1, 0), [DimDynamic.DUCK] * 2, "x")) == "(s0, s1)"
    s = env.create_symbol(5, "z.size(0)", DimDynamic.DYNAMIC, (3, 10))
    assert s >= 3 and s <= 10 and not env.guards
    int(s)
    with pytest.raises(ConstraintViolationError, match=r"z\.size\(0\)"):
        env.check_dynamic()


def test_numbers_only_elements_can_tell() -> None:
    env = ShapeEnv()
    u = env.create_unbacked_symint()
    for ask in (bool, int, float, hash, lambda n: n > 3 or n, lambda n: [0] * n):
        with pytest.raises(GuardOnDataDependentSymNode, match="depends on the elements"):
            ask(u)
    assert guard_or_false(u > 3) is False and guard_or_true(u > 3) is True and not statically_known_true(u > 3)
    rl._check(u >= 4)
    rl._check(u * 2 < 100, lambda: "too many")
    assert u > 3 and u != 0 and not u > 60 and [repr(g) for g in env.deferred] == ["4 <= u0", "u0 < 50"]
    with pytest.raises(RuntimeError, match="too few"):
        rl._check(u > 200, lambda: "too few")
    v = env.create_unbacked_symint()
    rl._check_is_size(v)
    rl._check(v == u + 1)
    assert repr(v) == "u0 + 1" and v > 4
    rl._check(u == 7)
    assert int(v) == 8 and not env.guards


def test_elements_as_sizes() -> None:
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    x, counts = mode.from_tensor(rl.randn(4, 6)), mode.from_tensor(rl.tensor([1, 2, 3, 4]))
    with mode:
        found = x.nonzero()
        assert repr(found.shape) == "rushlight.Size([u0, 2])" and statically_known_true(found.shape[0] <= x.numel())
        assert repr((found.float() * 2).sum(1).shape) == "rushlight.Size([u0])"
        assert len(x[x > 0].shape) == 1 and len(rl.unique(x, return_counts=True)) == 2
        assert repr(x.repeat_interleave(2, 0).shape) == "rushlight.Size([2*s0, s1])"
        assert x.repeat_interleave(counts, 0).shape[1:] == x.shape[1:]
        n = counts.sum().item()
        rl._check_is_size(n)
        made = rl.zeros(n, 3)
        assert (
            rl.cat([made, made]).shape[0] is not None and repr((made + 1).view(-1).shape) == f"rushlight.Size([3*{n}])"
        )
        assert repr((made @ rl.zeros(3, 5)).shape) == f"rushlight.Size([{n}, 5])"
        assert repr(made.view(2, -1).shape) == f"rushlight.Size([2, ((3*{n}) // 2)])"
        with pytest.raises(GuardOnDataDependentSymNode):
            bool(n > 5)
    assert not env.guards and "(3*u" in repr(env.deferred[-1])      # whether there are that many is checked later


def test_math_may_stay_symbolic() -> None:
    s, env = fresh(16)
    with symbolic_math():
        root = math.sqrt(s)
        assert math.sqrt(16) == 4.0
    assert repr(root) == "sqrt(s0)" and not env.guards
    assert math.sqrt(s) == 4.0 and [repr(g) for g in env.guards] == ["s0 == 16"]


def test_arguments_are_held_against_the_guards() -> None:
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    x, y = mode.from_tensor(rl.randn(4, 6), source="x"), mode.from_tensor(rl.randn(6, 4), source="y")
    with mode:
        assert (x @ y).sum(0).shape[0] > 3
    assert env.accepts(rl.ones(8, 5), rl.ones(5, 8)) and env.accepts(rl.ones(4, 9), rl.ones(9, 4))
    assert not env.accepts(rl.ones(3, 6), rl.ones(6, 3)) and "3 < s0" in env.why_not(rl.ones(3, 6), rl.ones(6, 3))
    assert "y.size(1)" in env.why_not(rl.ones(4, 6), rl.ones(6, 5)) and "stride" in env.why_not(
        rl.ones(6, 4).t(), rl.ones(6, 4)
    )
    assert "dimensions" in env.why_not(rl.ones(4), rl.ones(6, 4)) and not env.accepts(rl.ones(1, 6), rl.ones(6, 1))
