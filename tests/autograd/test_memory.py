"""Graphs end: long chains free without recursion, nothing leaks,
threads and nested passes do not disturb each other."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import pytest

import rushlight as rl
from rushlight.autograd import Function, backward, grad


def leaf(values):
    return rl.tensor(values, dtype=rl.float64).requires_grad_()


def resident_kib() -> int:
    with open("/proc/self/statm") as handle:
        return int(handle.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@pytest.mark.parametrize("ran", [False, True])
def test_chain_of_200000_ops(ran: bool) -> None:
    x = leaf([1.0, 2.0])
    y = x
    for _ in range(200_000):
        y = y + x
    if ran:
        y.sum().backward()
        assert x.grad.tolist() == [200_001.0] * 2
    del y


def test_chain_that_saves_is_freed() -> None:
    x = leaf([1.0])
    y = x
    for _ in range(100_000):
        y = y * x
    gone = weakref.ref(y.grad_fn)
    del y
    assert gone() is None


def test_chain_of_custom_functions_is_freed() -> None:
    class Step(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.kept = x
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf([1.0])
    y = x
    for _ in range(20_000):
        y = Step.apply(y)
    y.sum().backward()
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None and x.grad.tolist() == [1.0]


def test_tensors_die_with_their_last_reference() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf([1.0, 2.0])
        h = x * 2
        y = h.exp()
        z = (y * y).sum()
        refs = [weakref.ref(t) for t in (h, y, z)] + [weakref.ref(t.grad_fn) for t in (h, y, z)]
        z.backward()
        del h, y, z
        assert all(r() is None for r in refs)
    finally:
        gc.enable()


def test_hook_that_refers_to_its_tensor_is_collected() -> None:
    x = leaf([1.0])
    y = x * 2
    y.register_hook(lambda g, y=y: None)
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None


def test_leaf_hook_that_refers_to_the_leaf_is_collected() -> None:
    x = leaf([1.0])
    x.register_hook(lambda g, x=x: None)
    (x * 2).sum().backward()
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


def test_training_loop_does_not_grow() -> None:
    x, w = rl.ones(64, 64), rl.ones(64, 64).requires_grad_()

    def step() -> None:
        y = ((x @ w).exp() * 1e-30).sum() + (w * w).mean()
        y.backward()
        w.grad = None

    for _ in range(50):
        step()
    before = resident_kib()
    for _ in range(400):
        step()
    assert resident_kib() - before < 4096


def test_exception_in_backward_leaves_the_graph_usable() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    fail = [True]

    def hook(g):
        if fail[0]:
            raise ValueError("not yet")

    y.register_hook(hook)
    z = (y * y).sum() + y.sum()
    alive = weakref.ref(z)
    with pytest.raises(ValueError):
        z.backward(retain_graph=True)
    fail[0] = False
    z.backward()
    assert x.grad.tolist() == [8.0 * v + 2 for v in (1.0, 2.0)]
    del z
    gc.collect()
    assert alive() is None


def test_backward_within_a_hook_on_the_same_graph() -> None:
    x = leaf([1.0, 2.0])
    y = x * 3
    inner = []

    def hook(g):
        if not inner:
            inner.append(None)
            with rl.enable_grad():
                inner[0] = grad(y.sum(), x, retain_graph=True)[0].tolist()

    y.register_hook(hook)
    (y * y).sum().backward()
    assert inner == [[3.0, 3.0]]
    assert x.grad.tolist() == [18.0, 36.0]


def test_deep_reentrance() -> None:
    class Deeper(Function):
        @staticmethod
        def forward(ctx, x):
            with rl.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.x = ctx.x - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, g):
            if ctx.x.item() < 0:
                return g
            with rl.enable_grad():
                Deeper.apply(ctx.x).sum().backward()
            return g

    x = rl.tensor(2000.0).requires_grad_()
    Deeper.apply(x).sum().backward()
    assert x.grad.item() == 1.0


@pytest.mark.parametrize("size", [1000, 300_000])   # the larger one releases the interpreter lock inside kernels
def test_threads_share_a_leaf(size: int) -> None:
    x = rl.ones(size).requires_grad_()
    errors = []

    def work() -> None:
        try:
            for _ in range(50):
                (x * 2).sum().backward()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert (x.grad == 400.0).all().item()


def test_threads_share_a_graph() -> None:
    x = leaf([1.0, 2.0])
    y = x
    for _ in range(50):
        y = y * 1.01
    z = y.sum()
    (expected,) = grad(z, x, retain_graph=True)
    wrong = []

    def work() -> None:
        for _ in range(50):
            (g,) = grad(z, x, retain_graph=True)
            if g.tolist() != expected.tolist():
                wrong.append(g.tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_grad_mode_belongs_to_the_thread() -> None:
    seen = []
    with rl.no_grad():
        t = threading.Thread(target=lambda: seen.append(rl.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]


def test_many_roots_share_one_pass() -> None:
    x = leaf([1.0])
    backward([x * float(i) for i in range(200)])
    assert x.grad.item() == sum(range(200))


@pytest.mark.slow
def test_more_outputs_than_sixteen_bits() -> None:
    x = rl.ones(70_000).requires_grad_()
    parts = x.unbind()
    (parts[69_999] * 3).backward()
    assert x.grad[69_999].item() == 3.0 and x.grad.sum().item() == 3.0
