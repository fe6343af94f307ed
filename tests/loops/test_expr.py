"""Building, folding, sharing, printing and naming of scalar expressions."""

import pickle
import subprocess
import sys

import pytest

from rushlight.loops import expr
from rushlight.loops.expr import arg, const, select
from rushlight.loops.text import show

X, Y, Z = arg(0, "f32"), arg(1, "f32"), arg(2, "c64")
N = arg(0, "i32")


def test_equal_structure_is_one_node():
    assert (X + Y) * 2 is (X + Y) * 2.0
    assert X + Y is not Y + X


def test_constants_that_compare_equal_stay_apart():
    assert const(0.0, "f32") is not const(-0.0, "f32")
    assert const(1, "i32") is not const(True, "b1")
    assert const(float("nan"), "f64") is const(float("nan"), "f64")


def test_constants_are_rounded_and_wrapped():
    assert const(0.1, "f32").attr != 0.1
    assert const(1e300, "f32").attr == float("inf")
    assert const(200, "i8").attr == -56


def test_folding_keeps_the_sign_of_zero_and_nan():
    assert X * 1 is X and X - 0.0 is X and X + -0.0 is X
    assert (X + 0.0).op == "add" and (X * 0.0).op == "mul"
    assert N + 0 is N and (N * 0).attr == 0


def test_choice_folds():
    assert select(X < Y, X, X) is X
    assert select(const(True, "b1"), X, Y) is X
    assert select(~(X < Y), X, Y) is select(X < Y, Y, X)


def test_integer_division_rounds_down():
    c = lambda v: const(v, "i32")  # noqa: E731
    assert (c(-7) // c(2)).attr == -4 and (c(-7) % c(2)).attr == 1
    assert expr.idiv(c(-7), c(2)).attr == -3 and expr.irem(c(-7), c(2)).attr == -1
    assert expr.idiv(c(5), c(0)).attr == 0


def test_complex_arithmetic_becomes_parts():
    w = Z * Z
    assert w.op == "complex" and w.dtype == "c64"
    assert all(v.dtype in ("c64", "f32") for v in expr.walk((w,)))
    assert expr.complex_(expr.real(Z), expr.imag(Z)) is Z


REFUSED = [lambda: X + arg(1, "f64"), lambda: N / 2, lambda: N + 0.5, lambda: Z < arg(3, "c64"), lambda: bool(X)]


@pytest.mark.parametrize("bad", REFUSED)
def test_refusals(bad):
    with pytest.raises(TypeError):
        bad()


def test_values_are_immutable():
    with pytest.raises(AttributeError):
        X.op = "const"


def test_replace_exchanges_subexpressions():
    y = expr.call("exp", X)
    assert expr.replace(y * Y + y, {y: arg(2, "f32")}) is arg(2, "f32") * Y + arg(2, "f32")


def test_listing_names_shared_parts():
    t = X * Y
    assert show([t + t / X]) == "t0: f32 = (x0 * x1)\nout0: f32 = (t0 + (t0 / x0))"


def test_pickle_returns_the_same_node():
    v = (X + Y) / (1 + abs(X))
    assert pickle.loads(pickle.dumps(v)) is v


def test_digest_is_stable_across_processes():
    code = "from rushlight.loops.expr import *; x = arg(0, 'f32'); print(((x + 0.1) * call('exp', x)).digest().hex())"
    run = lambda: subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: E731
    first, second = run().stdout, run().stdout
    assert first == second != ""
    assert ((X + 0.1) * expr.call("exp", X)).digest().hex() == first.strip()


def test_nodes_are_freed():
    before = len(expr._NODES)
    for k in range(100):
        assert (X + (k + 0.25)) * Y is not None
    assert len(expr._NODES) <= before + 2
