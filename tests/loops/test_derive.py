"""Derivatives of scalar expressions: against differences, PyTorch's conventions at kinks, complex numbers, orders."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.loops import rules
from rushlight.loops.derive import gradient, replace
from rushlight.loops.expr import FLOATS, arg, call, complex_, const, imag, real, walk
from rushlight.loops.interpret import evaluate
from rushlight.loops.vocabulary import Scalars

s = Scalars()
X, Y = arg(0, "f64"), arg(1, "f64")
ONE = const(1, "f64")
POINTS = np.array([0.13, 0.31, 0.47, 0.62, 0.83])

NAMES = """
    exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh atanh rsqrt sigmoid sinc erf
    erfc erfcx erfinv lgamma digamma logit ndtr ndtri log_ndtr log_sigmoid softplus i0 i0e i1 i1e sqrt square reciprocal
    abs frac
"""
UNARY = dict.fromkeys(NAMES.split(), POINTS)
UNARY["acosh"] = POINTS + 1.3
BINARY = (
    "pow atan2 hypot fmod remainder xlogy xlog1py logaddexp maximum minimum fmax fmin copysign div mul add sub".split()
)


def difference(value, points: list[np.ndarray], k: int, step: float = 1e-6) -> np.ndarray:
    up, down = (list(points) for _ in "ab")
    up[k], down[k] = points[k] + step, points[k] - step
    return (evaluate([value], up)[0] - evaluate([value], down)[0]) / (2 * step)


@pytest.mark.parametrize("name", UNARY)
def test_unary_derivative(name):
    value = getattr(s, name)(X)
    (slope,) = gradient([value], [X], [ONE])
    at = [UNARY[name]]
    np.testing.assert_allclose(
        np.broadcast_to(evaluate([slope], at)[0], 5), difference(value, at, 0), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("name", UNARY)
def test_second_derivative_exists(name):
    (slope,) = gradient([getattr(s, name)(X)], [X], [ONE])
    (curve,) = gradient([slope], [X], [ONE])
    at = [UNARY[name]]
    np.testing.assert_allclose(
        np.broadcast_to(evaluate([curve], at)[0], 5), difference(slope, at, 0), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", BINARY)
def test_binary_derivative(name):
    value = getattr(s, name)(X, Y)
    slopes = gradient([value], [X, Y], [ONE])
    at = [POINTS, POINTS[::-1] * 1.7 + 0.05]
    for k, slope in enumerate(slopes):
        np.testing.assert_allclose(
            np.broadcast_to(evaluate([slope], at)[0], 5), difference(value, at, k), rtol=1e-6, atol=1e-7
        )


@pytest.mark.parametrize("name", ["polygamma:1", "polygamma:3"])
def test_polygamma_derivative(name):
    value = call(name, X)
    (slope,) = gradient([value], [X], [ONE])
    np.testing.assert_allclose(evaluate([slope], [POINTS + 1])[0], difference(value, [POINTS + 1], 0), rtol=1e-6)


def slope_at(value, **at: float) -> list[float]:
    points = [np.array([at.get("x", 0.0)]), np.array([at.get("y", 0.0)])]
    return [float(np.ravel(v)[0]) for v in evaluate(gradient([value], [X, Y], [ONE]), points)]


def test_conventions_at_kinks():
    assert slope_at(s.abs(X), x=0.0)[0] == 0
    assert slope_at(s.relu(X), x=0.0)[0] == 0
    assert slope_at(s.maximum(X, Y), x=2.0, y=2.0) == [0.5, 0.5]
    assert slope_at(s.minimum(X, Y), x=2.0, y=1.0) == [0, 1]
    assert slope_at(s.clamp(X, 0, 1), x=1.0)[0] == 1
    assert slope_at(s.clamp(X, 0, 1), x=0.0)[0] == 1
    assert slope_at(s.clamp(X, 0, 1), x=1.5)[0] == 0
    assert slope_at(s.where(X > 0, X * 3, Y), x=-1.0) == [0, 1]
    assert slope_at(s.pow(X, Y), x=0.0, y=2.0) == [0, 0]
    assert slope_at(s.xlogy(X, Y), x=0.0, y=2.0)[1] == 0


def test_flat_functions():
    for value in (s.floor(X), s.round(X), s.sign(X), s.floor_divide(X, Y), s.cast(X > Y, "f64"), s.heaviside(X, Y * 0)):
        assert slope_at(value, x=0.7, y=0.3)[0] == 0


def test_saved_output_replaces_the_forward_expression():
    y = s.tanh(X)
    (slope,) = gradient([y], [X], [arg(1, "f64")])
    saved = replace(slope, {y: arg(2, "f64")})
    assert {v.attr for v in walk((saved,)) if v.op == "arg"} == {1, 2}
    assert not any(v.op == "call" for v in walk((saved,)))


def test_every_called_function_has_a_rule():
    from rushlight.loops.math import expand as math

    for name, at in (("polygamma:1", X), ("i0", X), ("exp", Z)):
        math.expand(name, (at,), at.dtype)
    names = {*math.EXPANSIONS, *math.COMPLEX_EXPANSIONS}
    assert names <= set(rules.RULES), names - set(rules.RULES)


def test_half_precision_casts_carry_gradients():
    half = arg(0, "f16")
    (slope,) = gradient([s.exp(s.cast(half, "f32"))], [half], [const(1, "f32")])
    assert slope.dtype == "f16"
    assert "f32" in FLOATS


COMPLEX = """
    exp log sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh sigmoid reciprocal square log1p expm1
""".split()
Z = arg(0, "c128")
PLANE = np.array([0.4 + 0.3j, -0.6 + 0.8j, 1.3 - 0.7j, -0.2 - 0.5j])


def complex_gradient(value, direction):
    """dL/da + i dL/db for L = Re(conj(direction) * value), by differences."""

    def loss(points):
        out = evaluate([value], [points])[0]
        return np.real(out) * direction.real + (np.imag(out) * direction.imag if np.iscomplexobj(out) else 0)

    h = 1e-6
    along = (loss(PLANE + h) - loss(PLANE - h)) / (2 * h)
    across = (loss(PLANE + 1j * h) - loss(PLANE - 1j * h)) / (2 * h)
    return along + 1j * across


@pytest.mark.parametrize("name", COMPLEX)
def test_holomorphic_gradient(name):
    value = getattr(s, name)(Z)
    direction = 0.7 - 1.1j
    (slope,) = gradient([value], [Z], [const(direction, "c128")])
    np.testing.assert_allclose(evaluate([slope], [PLANE])[0], complex_gradient(value, direction), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["abs", "angle", "real", "imag"])
def test_real_valued_functions_of_complex_numbers(name):
    value = getattr(s, name)(Z)
    (slope,) = gradient([value], [Z], [const(1.3, "f64")])
    np.testing.assert_allclose(evaluate([slope], [PLANE])[0], complex_gradient(value, 1.3 + 0j), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("value", [s.sgn(Z), s.conj(Z) * Z, complex_(imag(Z), real(Z) * 2), Z / (Z + 2)])
def test_mixed_complex_expressions(value):
    direction = -0.4 + 0.9j
    (slope,) = gradient([value], [Z], [const(direction, "c128")])
    np.testing.assert_allclose(evaluate([slope], [PLANE])[0], complex_gradient(value, direction), rtol=1e-6, atol=1e-7)


def test_gradient_of_abs_at_zero_is_zero():
    (slope,) = gradient([s.abs(Z)], [Z], [ONE])
    assert evaluate([slope], [np.zeros(1, complex)])[0][0] == 0
