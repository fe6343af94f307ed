"""The core repeats what a hand-written derivative did (csrc/transcript.h): without Python, and only where it may."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = rl._C.keep_transcripts(True)
    yield
    rl._C.keep_transcripts(before)


def python_calls(function: Callable[[], Any]) -> list[str]:
    """The Python functions that a call enters, its own frame aside."""
    seen: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return seen


def repeated(function: Callable[[], Any]) -> int:
    """How many rules the core repeated during a call."""
    before = rl._C.transcript_counts()[1]
    function()
    return rl._C.transcript_counts()[1] - before


def mlp() -> tuple[Any, Any]:
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), rl.randn(4, 6)


def cnn() -> tuple[Any, Any]:
    layers = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(4 * 9, 3)), rl.randn(2, 2, 6, 6)


def attention() -> tuple[Any, Any]:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
            self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 3)

        def forward(self, words: Any) -> Any:
            x = self.norm(self.words(words))
            q, k, v = (t.view(2, 5, 2, 4).transpose(1, 2) for t in self.qkv(x).split(8, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 5, 8)
            return self.out(x + y)[:, -1]

    return Block(), rl.randint(0, 11, (2, 5))


def lstm() -> tuple[Any, Any]:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps, self.out = nn.LSTM(4, 5, 2), nn.Linear(5, 3)

        def forward(self, x: Any) -> Any:
            return self.out(self.steps(x)[0][-1])

    return Last(), rl.randn(6, 2, 4)


MODELS = [mlp, cnn, attention, lstm]


def loss_of(model: Any, x: Any) -> Any:
    y = model(x)
    return F.cross_entropy(y, rl.arange(len(y)) % 3)


@pytest.mark.parametrize("make", MODELS)
def test_a_warm_backward_calls_no_python(make: Any) -> None:
    rl.manual_seed(1)
    model, x = make()
    for _ in range(4):
        loss_of(model, x).backward()
    loss = loss_of(model, x)
    assert python_calls(loss.backward) == []


@pytest.mark.parametrize("make", MODELS)
def test_gradients_have_the_bits_that_python_gives(make: Any) -> None:
    rl.manual_seed(1)
    model, x = make()

    def gradients() -> list[Any]:
        model.zero_grad()
        loss_of(model, x).backward()
        return [p.grad.clone() for p in model.parameters()]

    rl._C.keep_transcripts(False)
    wanted = gradients()
    rl._C.keep_transcripts(True)
    with rl.no_grad():
        kept = [p.clone() for p in model.parameters()]
        for p in model.parameters():
            p.normal_()
    for _ in range(3):
        gradients()
    with rl.no_grad():
        for p, old in zip(model.parameters(), kept, strict=True):
            p.copy_(old)
    got = gradients()
    assert all(rl.equal(a, b) for a, b in zip(wanted, got, strict=True))
    assert repeated(gradients) > 0


def check_linear(shape: tuple[int, ...], dtype: Any, wants: tuple[bool, bool, bool], **options: Any) -> None:
    x, w, b = (rl.randn(s, dtype=dtype) for s in (shape, (3, shape[-1]), (3,)))
    for t, wanted in zip((x, w, b), wants, strict=True):
        t.requires_grad_(wanted)
    out = F.linear(x, w, b)
    g = rl.randn(out.shape, dtype=dtype)
    chosen = [t for t in (x, w, b) if t.requires_grad]
    found = rl.autograd.grad(out, chosen, g, **options)
    flat, rows = g.reshape(-1, 3), x.detach().reshape(-1, shape[-1])
    all_three = (flat @ w.detach()).reshape(shape), flat.t() @ rows, flat.sum(0)
    wanted = [t for t, on in zip(all_three, wants, strict=True) if on]
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype is dtype and a.shape == b.shape
        rl.testing.assert_close(a.detach(), b)
    assert found[0].requires_grad == (bool(options))


def test_other_shapes_types_and_wishes_get_their_own() -> None:
    rl.manual_seed(2)
    for _ in range(4):
        for shape in ((4, 6), (2, 4, 6), (5, 6), (4, 7), (0, 6)):
            for dtype in (rl.float32, rl.float64):
                for wants in ((True, True, True), (True, False, False), (False, True, True), (False, False, True)):
                    check_linear(shape, dtype, wants)
                check_linear(shape, dtype, (True, True, True), create_graph=True)


def test_second_derivatives_after_repeated_first_ones() -> None:
    x = rl.randn(3, 4, requires_grad=True, dtype=rl.float64)
    w = rl.randn(5, 4, requires_grad=True, dtype=rl.float64)
    for _ in range(4):
        rl.autograd.grad(F.linear(x, w).pow(2).sum(), (x, w))
    assert rl.autograd.gradgradcheck(lambda a, b: F.linear(a, b).pow(2).sum(), (x, w))


def test_the_gradients_that_are_asked_for_decide() -> None:
    x, w = rl.randn(1, 2, 5, 5, requires_grad=True), rl.randn(3, 2, 3, 3, requires_grad=True)
    rl._C.keep_transcripts(False)
    wanted = rl.autograd.grad(F.conv2d(x, w).sum(), (x, w))
    rl._C.keep_transcripts(True)
    for _ in range(4):
        for chosen, places in (((w,), (1,)), ((x,), (0,)), ((x, w), (0, 1))):
            found = rl.autograd.grad(F.conv2d(x, w).sum(), chosen)
            assert all(rl.equal(found[k], wanted[place]) for k, place in enumerate(places))


def test_one_tensor_in_two_places_is_not_two_that_look_alike() -> None:
    a, b = rl.randn(3, 3, requires_grad=True), rl.randn(3, 3, requires_grad=True)
    for _ in range(4):
        (a @ a).sum().backward()
    a.grad = None
    (a @ b).sum().backward()
    rl.testing.assert_close(a.grad, rl.ones(3, 3) @ b.detach().t())
    rl.testing.assert_close(b.grad, a.detach().t() @ rl.ones(3, 3))


def test_saved_tensors_are_checked_and_freed_as_before() -> None:
    x, w = rl.randn(4, 3), rl.randn(5, 3, requires_grad=True)
    for _ in range(4):
        F.linear(x, w).sum().backward()
    out = F.linear(x, w).sum()
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()
    out = F.linear(x, w).sum()
    out.backward(retain_graph=True)
    out.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        out.backward()


def test_no_tensor_is_kept_alive() -> None:
    def alive() -> list[Any]:
        x = rl.randn(4, 6, requires_grad=True)
        y = F.linear(x, rl.randn(3, 6, requires_grad=True)).view(2, 6)
        y.sum().backward()
        return [weakref.ref(x), weakref.ref(y), weakref.ref(x.grad)]

    was_on = gc.isenabled()
    for _ in range(4):
        refs = alive()
    assert [r() for r in refs] == [None, None, None]
    assert gc.isenabled() == was_on


def test_gradients_that_others_may_see_are_theirs() -> None:
    """What a hook is shown is not overwritten later, and a gradient that is a view says so."""
    x = rl.randn(4, 6, requires_grad=True)
    for _ in range(4):
        seen: list[Any] = []
        y = x * 2
        y.register_hook(seen.append)
        y.t().reshape(24).sum().backward()
        kept = seen[0].clone()
        x.grad.add_(1)
        assert rl.equal(seen[0], kept)
        x.grad = None


def test_modes_take_the_long_way() -> None:
    x, w = rl.randn(4, 3), rl.randn(5, 3, requires_grad=True)
    for _ in range(4):
        F.linear(x, w).sum().backward()
    with rl.autograd.set_detect_anomaly(True):
        loss = F.linear(x, w).sum()
        assert repeated(loss.backward) == 0
    with rl.autograd.profiler.profile():
        loss = F.linear(x, w).sum()
        assert repeated(loss.backward) == 0
    loss = F.linear(x, w).sum()
    assert repeated(loss.backward) > 0


def test_a_registered_kernel_is_heard() -> None:
    """What is registered for an op after its calls were written down takes part."""
    called: list[int] = []
    x, w = rl.randn(4, 3), rl.randn(5, 3, requires_grad=True)
    for _ in range(4):
        F.linear(x, w).sum().backward()
    library = rl.library.Library("aten", "IMPL")
    try:
        library.impl("matmul", lambda a, b: (called.append(1), rl.einsum("ij,jk->ik", a, b))[1], "CPU")
        for _ in range(4):
            w.grad = None
            loss = F.linear(x, w).sum()
            called.clear()
            loss.backward()
            assert called and rl.allclose(w.grad, rl.ones(5, 4) @ x)
    finally:
        library._destroy()


def test_threads_write_down_their_own() -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for k in range(20):
                x = rl.full((seed + 2, 3), float(k), requires_grad=True)
                w = rl.full((5, 3), 2.0, requires_grad=True)
                F.linear(x, w).sum().backward()
                assert w.grad.tolist() == [[(seed + 2.0) * k] * 3] * 5 and x.grad.tolist() == [[10.0] * 3] * (seed + 2)
        except BaseException as error:   # noqa: BLE001  told in the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []


def test_a_rule_that_looks_at_elements_is_not_repeated() -> None:
    """The gradient of a product through zeros asks how many there are."""
    for values in ([1.0, 2.0, 3.0], [1.0, 4.0, 3.0], [2.0, 5.0, 3.0], [0.0, 2.0, 3.0], [0.0, 0.0, 3.0]):
        x = rl.tensor(values, requires_grad=True)
        x.prod().backward()
        a, b, c = values
        assert x.grad.tolist() == [b * c, a * c, a * b]


def test_a_programs_own_definition_is_asked_each_time() -> None:
    called: list[int] = []

    class Double(rl.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            called.append(1)
            return g * 2

    for _ in range(5):
        Double.apply(rl.ones(3, requires_grad=True)).sum().backward()
    assert len(called) == 5
