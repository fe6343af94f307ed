"""Grad modes as contexts and decorators, on functions and generators; anomaly mode."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl
from rushlight import autograd


def test_contexts_nest_and_restore() -> None:
    with rl.no_grad():
        assert not rl.is_grad_enabled()
        with rl.enable_grad():
            assert rl.is_grad_enabled()
        assert not rl.is_grad_enabled()
    assert rl.is_grad_enabled()


def test_restored_after_an_exception() -> None:
    with pytest.raises(ValueError), rl.no_grad():
        raise ValueError
    assert rl.is_grad_enabled()


@pytest.mark.parametrize(
    "make",
    [lambda: rl.no_grad, rl.no_grad, lambda: rl.inference_mode, rl.inference_mode, lambda: rl.set_grad_enabled(False)],
)
def test_decorates_functions(make) -> None:
    @make()
    def inside(x, *, y=2):
        """Doc."""
        return rl.is_grad_enabled(), x, y

    assert inside(1, y=3) == (False, 1, 3)
    assert inside.__doc__ == "Doc." and inside.__name__ == "inside"
    assert rl.is_grad_enabled()


def test_decorated_generator_switches_only_inside() -> None:
    @rl.no_grad()
    def numbers():
        got = []
        for i in range(3):
            assert not rl.is_grad_enabled()
            try:
                got.append((yield i))
            except KeyError:
                got.append("thrown")
        return got

    g = numbers()
    assert next(g) == 0
    assert rl.is_grad_enabled()
    assert g.send("a") == 1
    assert g.throw(KeyError()) == 2
    with pytest.raises(StopIteration) as stop:
        next(g)
    assert stop.value.value == ["a", "thrown", None]
    assert rl.is_grad_enabled()


def test_closed_generator_cleans_up_in_its_mode() -> None:
    seen = []

    @rl.no_grad()
    def numbers():
        try:
            yield 1
        finally:
            seen.append(rl.is_grad_enabled())

    g = numbers()
    next(g)
    g.close()
    assert seen == [False]


def test_set_grad_enabled_acts_at_once() -> None:
    rl.set_grad_enabled(False)
    assert not rl.is_grad_enabled()
    rl.set_grad_enabled(True)
    with rl.set_grad_enabled(False):
        assert not rl.is_grad_enabled()
    assert rl.is_grad_enabled()


def test_inference_tensors_do_not_track_versions() -> None:
    with rl.inference_mode():
        t = rl.ones(3)
        t.add_(1)
        with pytest.raises(RuntimeError):
            t._version  # noqa: B018
    assert t.is_inference() and not t.clone().is_inference()


def test_anomaly_mode_shows_the_forward_call() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with autograd.detect_anomaly():
            x = rl.tensor([0.0]).requires_grad_()
            y = guilty_line(x)
            with pytest.raises(RuntimeError, match=r"'\w+Backward0' returned nan values in its 0th output"):
                y.sum().backward()
    assert any("guilty_line" in str(w.message) for w in caught)
    assert not rl.is_anomaly_enabled()


def guilty_line(x):
    return (x * 0).sqrt() * 0


def test_anomaly_mode_reports_errors_of_saved_tensors() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with autograd.set_detect_anomaly(True, check_nan=False):
            x = rl.tensor([1.0]).requires_grad_()
            y = x.exp()
            y.add_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()
    assert any("ExpBackward0" in str(w.message) and "Traceback of forward call" in str(w.message) for w in caught)


def test_anomaly_mode_off_lets_nan_pass() -> None:
    x = rl.tensor([0.0]).requires_grad_()
    guilty_line(x).sum().backward()
    assert x.grad.isnan().all().item()


@pytest.mark.parametrize("name", ["torch", "rushlight"])
def test_variables_are_tensors(name: str) -> None:
    """`Variable(data, requires_grad)` of programs from before tensors required gradients themselves."""
    t = pytest.importorskip(name)
    from_history = t.ones(2, requires_grad=True)
    x = t.autograd.Variable(from_history, requires_grad=True)
    assert isinstance(x, t.Tensor) and isinstance(x, t.autograd.Variable) and not isinstance(3, t.autograd.Variable)
    assert x.is_leaf and x.requires_grad and x.data_ptr() == from_history.data_ptr()
    assert not t.autograd.Variable(from_history).requires_grad and t.autograd.Variable(x, True).requires_grad
    assert t.autograd.Variable().shape == (0,)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3] and from_history.grad is None
    with pytest.raises(TypeError, match="got int"):
        t.autograd.Variable(5)
    with pytest.raises(RuntimeError, match="floating point"):
        t.autograd.Variable(t.ones(2, dtype=t.int64), True)
    with pytest.warns(UserWarning, match="volatile"):
        t.autograd.Variable(t.ones(1), volatile=True)
