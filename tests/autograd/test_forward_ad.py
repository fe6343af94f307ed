"""Forward mode: tangents follow ops, views and writes."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.autograd import forward_ad as fwad, gradcheck


@pytest.fixture(autouse=True)
def dispatch_to_forward_mode():
    """Where the Python dispatcher is not part of the build, send dual tensors straight to forward mode."""
    import importlib.util

    if importlib.util.find_spec("rushlight.dispatch") is None:
        rl._C.set_hooks(dispatcher=fwad.jvp_call)
    yield


def f64(values):
    return rl.tensor(values, dtype=rl.float64)


def pushed(fn, x, t):
    with fwad.dual_level():
        out = fn(fwad.make_dual(x, t))
        return fwad.unpack_dual(out).tangent


def test_product_and_exponential() -> None:
    t = pushed(lambda x: (x * x).exp(), f64([0.5, 1.0]), f64([1.0, 2.0]))
    expected = [2 * x * d * rl.tensor(x * x, dtype=rl.float64).exp().item() for x, d in ((0.5, 1.0), (1.0, 2.0))]
    assert t.tolist() == pytest.approx(expected)


def test_two_duals() -> None:
    with fwad.dual_level():
        x, y = fwad.make_dual(f64([2.0]), f64([1.0])), fwad.make_dual(f64([3.0]), f64([10.0]))
        assert fwad.unpack_dual(x * y).tangent.tolist() == [23.0]
        assert fwad.unpack_dual(x * 5).tangent.tolist() == [5.0]
        assert fwad.unpack_dual(x * f64([4.0])).tangent.tolist() == [4.0]


def test_views_share_tangents() -> None:
    with fwad.dual_level():
        x = fwad.make_dual(f64([[1.0, 2.0], [3.0, 4.0]]), f64([[1.0, 0.0], [0.0, 2.0]]))
        assert fwad.unpack_dual(x.t()).tangent.tolist() == [[1.0, 0.0], [0.0, 2.0]]
        assert fwad.unpack_dual(x[1]).tangent.tolist() == [0.0, 2.0]


def test_matmul_and_sum() -> None:
    a, t = f64([[1.0, 2.0], [3.0, 4.0]]), f64([[1.0, 0.0], [0.0, 0.0]])
    assert pushed(lambda x: (x @ x).sum(), a, t).item() == pytest.approx((t @ a + a @ t).sum().item())


def test_in_place() -> None:
    with fwad.dual_level():
        x = fwad.make_dual(f64([2.0]), f64([1.0]))
        y = x * 1
        y.mul_(x)
        assert fwad.unpack_dual(y).tangent.tolist() == [4.0]


def test_primal_and_level() -> None:
    x = f64([2.0])
    with fwad.dual_level():
        dual = fwad.make_dual(x, f64([1.0]))
        primal, tangent = fwad.unpack_dual(dual)
        assert primal.tolist() == [2.0] and tangent.tolist() == [1.0]
        assert fwad.unpack_dual(primal).tangent is None
    assert fwad.unpack_dual(dual).tangent is None


def test_outside_a_level() -> None:
    with pytest.raises(RuntimeError, match="level"):
        fwad.make_dual(f64([1.0]), f64([1.0]))


def test_refuses_bad_tangents() -> None:
    with fwad.dual_level():
        with pytest.raises(RuntimeError):
            fwad.make_dual(f64([1.0]), f64([1.0, 2.0]))
        with pytest.raises(RuntimeError):
            fwad.make_dual(f64([1.0]), rl.tensor([1.0]))
        with pytest.raises(RuntimeError, match="Nested"):
            fwad.enter_dual_level()


def test_reverse_over_forward() -> None:
    x = f64([0.5]).requires_grad_()
    with fwad.dual_level():
        t = fwad.unpack_dual((lambda a: a * a * a)(fwad.make_dual(x, f64([1.0])))).tangent
        (g,) = rl.autograd.grad(t.sum(), x)
    assert g.tolist() == pytest.approx([3.0])


def test_gradcheck_in_forward_mode() -> None:
    x, y = f64([[0.5, 1.0], [2.0, -1.0]]).requires_grad_(), f64([0.3, 0.7]).requires_grad_()
    assert gradcheck(lambda a, b: (a * b.exp()).sin(), (x, y), check_forward_ad=True)
    assert gradcheck(
        lambda a, b: (a * b.exp()).sin(), (x, y), check_forward_ad=True, check_backward_ad=False, fast_mode=True
    )
