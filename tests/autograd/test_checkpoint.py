"""Checkpointing both ways: same gradients, less kept, the same random numbers, and errors when the two runs differ."""

from __future__ import annotations

import contextlib
import weakref

import pytest

import rushlight as rl
from rushlight.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential, set_checkpoint_early_stop

WAYS = pytest.mark.parametrize("reentrant", [True, False])


def leaf(values):
    return rl.tensor(values, dtype=rl.float64).requires_grad_()


def block(x, w):
    return ((x * w).exp() * x).sin()


@WAYS
def test_same_gradients(reentrant: bool) -> None:
    x, w = leaf([0.5, 1.0]), leaf([1.0, -1.0])
    block(x * 2, w).sum().backward()
    expected = x.grad.tolist(), w.grad.tolist()
    x.grad = w.grad = None
    checkpoint(block, x * 2, w, use_reentrant=reentrant).sum().backward()
    assert (x.grad.tolist(), w.grad.tolist()) == expected


@WAYS
def test_runs_twice(reentrant: bool) -> None:
    calls = []

    def counted(x):
        calls.append(rl.is_grad_enabled())
        return (x * x).exp()

    x = leaf([1.0])
    y = checkpoint(counted, x * 1, use_reentrant=reentrant)
    assert len(calls) == 1
    y.sum().backward()
    assert calls == [not reentrant, True]


@WAYS
def test_intermediates_are_not_kept(reentrant: bool) -> None:
    result = []

    def watched(x):
        h = x.exp()
        result.append(weakref.ref(h))
        return (h * h).sum()

    x = leaf([1.0, 2.0])
    y = checkpoint(watched, x * 1, use_reentrant=reentrant)
    assert result[0]() is None
    y.backward()
    assert x.grad is not None


@WAYS
@pytest.mark.skipif(not hasattr(rl, "rand"), reason="needs rand")
def test_random_numbers_repeat(reentrant: bool) -> None:
    seen = []

    def noisy(x):
        mask = rl.rand(4)
        seen.append(mask.tolist())
        return (x * mask).exp()

    x = rl.ones(4).requires_grad_()
    y = checkpoint(noisy, x * 1, use_reentrant=reentrant)
    after = rl._C.default_generator.get_state().tolist()
    y.sum().backward()
    assert seen[0] == seen[1]
    assert rl._C.default_generator.get_state().tolist() == after


@WAYS
def test_nested(reentrant: bool) -> None:
    def inner(x):
        return (x * x).exp()

    def outer(x):
        return checkpoint(inner, x.sin(), use_reentrant=reentrant) * x

    x = leaf([0.5, 0.25])
    outer(x).sum().backward()
    expected = x.grad.tolist()
    x.grad = None
    checkpoint(outer, x, use_reentrant=reentrant).sum().backward()
    assert x.grad.tolist() == pytest.approx(expected)


@WAYS
def test_sequential(reentrant: bool) -> None:
    steps = [lambda x: x.exp(), lambda x: x * x, lambda x: x.sin(), lambda x: x + 1]
    x = leaf([0.1, 0.2])
    checkpoint_sequential(steps, 2, x, use_reentrant=reentrant).sum().backward()
    got = x.grad.tolist()
    x.grad = None
    (((x.exp()) * (x.exp())).sin() + 1).sum().backward()
    assert got == pytest.approx(x.grad.tolist())


def test_retain_graph_recomputes_each_time() -> None:
    x = leaf([0.5])
    y = checkpoint(lambda t: (t * t).exp(), x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    first = x.grad.tolist()
    y.backward()
    assert x.grad.tolist() == [2 * v for v in first]


def test_double_backward_without_reentry() -> None:
    x = leaf([0.5])
    (g,) = rl.autograd.grad(checkpoint(lambda t: t * t * t, x, use_reentrant=False).sum(), x, create_graph=True)
    (h,) = rl.autograd.grad(g.sum(), x)
    assert h.tolist() == pytest.approx([3.0])


def test_keyword_arguments_without_reentry_only() -> None:
    x = leaf([0.5])
    checkpoint(lambda t, *, k: (t * k).exp(), x, k=2.0, use_reentrant=False).sum().backward()
    assert x.grad is not None
    with pytest.raises(ValueError):
        checkpoint(lambda t, k: t, x, k=2.0, use_reentrant=True)


def test_reentrant_refuses_grad() -> None:
    x = leaf([0.5])
    y = checkpoint(lambda t: (t * t).exp(), x, use_reentrant=True).sum()
    with pytest.raises(RuntimeError, match="use_reentrant"):
        rl.autograd.grad(y, x)


def test_reentrant_warns_without_inputs_that_need_grad() -> None:
    with pytest.warns(UserWarning, match="requires_grad"):
        checkpoint(lambda t: t * 2, rl.ones(2), use_reentrant=True)


def test_way_must_be_chosen() -> None:
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(lambda t: t * 2, leaf([1.0]))


def test_early_stop() -> None:
    tail = []

    def f(x):
        y = (x * x).exp()
        tail.append(1)
        return y

    x = leaf([0.5])
    checkpoint(f, x, use_reentrant=False).sum().backward()
    assert len(tail) == 1
    with set_checkpoint_early_stop(False):
        y = checkpoint(f, x, use_reentrant=False)
    y.sum().backward()
    assert len(tail) == 3


def test_different_second_run_is_an_error() -> None:
    calls = []

    def changes(x):
        calls.append(1)
        return (x * x).exp() if len(calls) == 1 else x.exp()

    y = checkpoint(changes, leaf([0.5]), use_reentrant=False)
    with pytest.raises(CheckpointError, match="different number"):
        y.sum().backward()


def test_different_shapes_are_an_error_unless_unchecked() -> None:
    calls = []

    def changes(x):
        calls.append(1)
        return (x if len(calls) == 1 else x[:1]).exp().sum()

    y = checkpoint(changes, leaf([0.5, 1.0]), use_reentrant=False)
    with pytest.raises(CheckpointError, match="metadata"):
        y.backward()
    with pytest.raises(ValueError):
        checkpoint(changes, leaf([0.5]), use_reentrant=False, determinism_check="sometimes")


def test_contexts_surround_both_runs() -> None:
    log = []

    @contextlib.contextmanager
    def noted(name):
        log.append(name)
        yield

    x = leaf([0.5])
    y = checkpoint(lambda t: t.exp(), x, use_reentrant=False, context_fn=lambda: (noted("forward"), noted("recompute")))
    y.sum().backward()
    assert log == ["forward", "recompute"]
