"""Forward mode through what is written in place, under every way to ask for it: see tests/func/written.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.autograd import forward_ad
from rushlight.func import grad, jacfwd, jvp, vmap
from tests.func.written import PROGRAMS, V, X, answers, weighted

pytestmark = pytest.mark.share(2)   # of each test that has several cases

# PyTorch's: the weighted tangent, and the weighted product of a Hessian with the direction.
ANSWERS = {
    "whole": (-1.19503908, -79.7801785),
    "copied_into_constant": (-0.069, -26.6225436),
    "row": (-0.666476594, 25.4732198),
    "view_of_view": (-3.4255, -85.9056208),
    "view_sees_write_to_base": (-9.024, -109.708289),
    "row_of_constant": (4.668, 40.7593401),
    "two_views_of_constant": (-2.264, -2.81772062),
    "collected": (23.5413661, 286.566514),
    "elements": (-1.174, 20.3268916),
    "numbers_over_tangent": (-24.689, 1026.16577),
    "columns_added": (4.06, -157.681376),
    "row_over_row": (6.313, 22.7552163),
    "by_index": (-5.74014031, -19.3444505),
    "by_mask": (-19.2829703, -22.5160932),
    "put_and_added": (-24.6470001, 208.035216),
    "scattered": (-6.99722718, 0.657940828),
    "filled": (8.378, 4.08896041),
    "triangle": (5.811, 53.1123801),
    "product_added": (11.32, -239.834154),
    "parts_of_complex": (-1.4136, -102.785908),
    "parts_of_constant_complex": (-0.069, -26.6225436),
    "shortened": (-4.61968198, 63.7950098),
    "not_recorded": (-0.207, -117.68509),
}
UNLIKE_REVERSE = ("not_recorded",)    # reverse mode takes what is not recorded for constant, forward mode does not


def at() -> tuple[Any, Any]:
    return rl.tensor(X, dtype=rl.float64), rl.tensor(V, dtype=rl.float64)


def dual_tangent(f: Callable) -> Any:
    x, v = at()
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, v))).tangent


def same(a: Any, b: Any) -> bool:
    return bool(((a - b).abs() <= 1e-9 * (1 + b.abs())).all())


@pytest.mark.parametrize("name", PROGRAMS)
def test_tangents(name: str) -> None:
    first, second = answers(rl, PROGRAMS[name])
    assert math.isclose(first, ANSWERS[name][0], rel_tol=1e-7, abs_tol=1e-7)
    assert math.isclose(second, ANSWERS[name][1], rel_tol=1e-7, abs_tol=1e-7)


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_ways_agree(name: str) -> None:
    x, v = at()
    f = lambda z: PROGRAMS[name](rl, z)   # noqa: E731
    tangent = jvp(f, (x,), (v,))[1]
    assert same(dual_tangent(f), tangent)
    columns = jacfwd(f)(x)
    assert same((columns.reshape(-1, 6) @ v.reshape(6)).reshape(tangent.shape), tangent)
    if name not in ("row_of_constant", "two_views_of_constant", "collected", "elements", "numbers_over_tangent",
                    "copied_into_constant", "parts_of_constant_complex"):   # vmap writes no batch into a constant
        assert same(jvp(vmap(f), (x[None],), (v[None],))[1][0], tangent)
        assert same(vmap(lambda a, b: jvp(f, (a,), (b,))[1])(x[None], v[None])[0], tangent)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in UNLIKE_REVERSE])
def test_all_orders_agree(name: str) -> None:
    x, v = at()
    curve = lambda z: weighted(rl, PROGRAMS[name](rl, z).sin())   # noqa: E731
    right = grad(lambda z: (grad(curve)(z) * v).sum())(x)
    assert same(jvp(grad(curve), (x,), (v,))[1], right)
    assert same(grad(lambda z: jvp(curve, (z,), (v,))[1])(x), right)
    assert same(jvp(lambda z: jvp(curve, (z,), (v,))[1], (x,), (v,))[1], (right * v).sum())


def test_sizes_changed_in_place() -> None:
    x, v = at()

    def turned(z: Any) -> Any:
        y = z * z
        y.t_().unsqueeze_(0)
        return y * 2

    assert same(jvp(turned, (x,), (v,))[1], (4 * x * v).t()[None])
    assert same(dual_tangent(turned), (4 * x * v).t()[None])
    assert same(vmap(turned)(x[None])[0], (2 * x * x).t()[None])


def test_an_input_keeps_its_tangent_tensor() -> None:
    x, v = at()
    before = v.clone()

    def f(z: Any) -> Any:
        with rl.no_grad():
            z.mul_(2)
        return z

    assert same(jvp(f, (x.clone(),), (v,))[1], 2 * before)
    assert rl.equal(v, before)
