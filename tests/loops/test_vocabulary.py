"""The scalar vocabulary against PyTorch's CPU kernels: edges, integers, complex numbers."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.loops.expr import arg
from rushlight.loops.interpret import NAMES, evaluate
from rushlight.loops.vocabulary import Scalars

torch = pytest.importorskip("torch")
s = Scalars()

EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2.5, -3.5, 3, -2, 7, 100.3, 1.5, 0.25])
FIRST, SECOND = (m.ravel() for m in np.meshgrid(EDGES, EDGES))
INTEGERS = np.array([0, 1, 2, 3, -1, -2, -7, 12, 100, 127, 8])
BINARY = """
    pow remainder fmod floor_divide atan2 hypot maximum minimum fmax fmin copysign nextafter heaviside xlogy logaddexp
""".split()
UNARY = """
    exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh rsqrt sqrt
    reciprocal sigmoid erf erfc erfinv logit sign signbit floor ceil trunc round frac isnan isinf isfinite abs neg
    square sgn angle relu lgamma digamma isposinf isneginf
""".split()
COMPLEX_UNARY = """
    exp log sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh sigmoid abs angle sgn reciprocal log10
    log1p expm1 rsqrt square isnan isfinite
""".split()
INTEGER_BINARY = """
    remainder fmod floor_divide gcd maximum minimum bitwise_and bitwise_or bitwise_xor bitwise_left_shift
    bitwise_right_shift pow
""".split()


def check(got: np.ndarray, want: np.ndarray, rtol: float) -> None:
    np.testing.assert_allclose(got.astype(want.dtype), want, rtol=rtol, atol=1e-30)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", BINARY)
def test_binary_edges(name, dtype):
    a, b = FIRST.astype(NAMES[dtype]), SECOND.astype(NAMES[dtype])
    want = getattr(torch, name)(torch.tensor(a), torch.tensor(b)).numpy()
    check(
        evaluate([getattr(s, name)(arg(0, dtype), arg(1, dtype))], [a, b])[0], want, 1e-5 if dtype == "f32" else 1e-12
    )


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", UNARY)
def test_unary_edges(name, dtype):
    x = np.concatenate([EDGES, np.linspace(-5, 5, 41)]).astype(NAMES[dtype])
    want = getattr(torch, name)(torch.tensor(x)).numpy()
    check(evaluate([getattr(s, name)(arg(0, dtype))], [x])[0], want, 3e-5 if dtype == "f32" else 1e-11)


def plane(dtype: str) -> np.ndarray:
    axis = np.array([0, -0.0, 1, -1, 0.3, -0.7, 2.2, -3.1, 25, -30])
    re, im = (m.ravel() for m in np.meshgrid(axis, axis))
    z = np.empty(re.size, NAMES[dtype])
    z.real, z.imag = re, im
    return z


@pytest.mark.parametrize("dtype", ["c64", "c128"])
@pytest.mark.parametrize("name", COMPLEX_UNARY)
def test_complex_functions(name, dtype):
    z = plane(dtype)
    want = getattr(torch, name)(torch.tensor(z)).numpy()
    got = evaluate([getattr(s, name)(arg(0, dtype))], [z])[0]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["pow", "mul", "div"])
def test_complex_binary(name):
    z = plane("c128")
    w = np.roll(z, 7)
    want = getattr(torch, name)(torch.tensor(z), torch.tensor(w)).numpy()
    got = evaluate([getattr(s, name)(arg(0, "c128"), arg(1, "c128"))], [z, w])[0]
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "i64"])
@pytest.mark.parametrize("name", INTEGER_BINARY)
def test_integer_binary(name, dtype):
    a, b = (m.ravel() for m in np.meshgrid(INTEGERS.astype(NAMES[dtype]), INTEGERS.astype(NAMES[dtype])))
    if name in ("remainder", "fmod", "floor_divide"):
        a, b = a[b != 0], b[b != 0]
    if name == "pow":
        a, b = a[b >= 0], b[b >= 0]
    want = getattr(torch, name)(torch.tensor(a), torch.tensor(b)).numpy()
    np.testing.assert_array_equal(evaluate([getattr(s, name)(arg(0, dtype), arg(1, dtype))], [a, b])[0], want)


def test_integer_division_by_zero_gives_zero():
    x = arg(0, "i32")
    zero = np.zeros(3, np.int32)
    for value in (s.trunc_divide(x, arg(1, "i32")), s.fmod(x, arg(1, "i32"))):
        assert not evaluate([value], [np.array([3, -3, 0], np.int32), zero])[0].any()


def test_frexp_and_ldexp():
    x = np.array([1.0, -0.75, 3e-310, 1e300, 0.0, np.inf])
    mantissa, exponent = evaluate(s.frexp(arg(0, "f64")), [x])
    want = np.frexp(x)
    np.testing.assert_array_equal(mantissa, want[0])
    np.testing.assert_array_equal(exponent[:5], want[1][:5])
    np.testing.assert_array_equal(
        evaluate([s.ldexp(arg(0, "f64"), arg(1, "i32"))], [x[:2], np.array([5, -3], np.int32)])[0], [32.0, -0.09375]
    )


def test_clamp_and_round():
    x = np.array([-2.0, 0.123456, 7.5, np.nan])
    np.testing.assert_array_equal(evaluate([s.clamp(arg(0, "f64"), 0, 1)], [x])[0], np.clip(x, 0, 1))
    for decimals in (-1, 0, 2):
        want = torch.round(torch.tensor(x), decimals=decimals).numpy()
        np.testing.assert_allclose(evaluate([s.round(arg(0, "f64"), decimals)], [x])[0], want)


def test_refuses_integers_for_floating_functions():
    with pytest.raises(TypeError, match="exp: needs a floating or complex dtype, got i32"):
        s.exp(arg(0, "i32"))
