"""Kernels of users' ops that the core calls itself: everybody who has a say is asked all the same, however often the op
was called before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import rushlight as rl
from rushlight import _C
from rushlight.dispatch.modes import TorchDispatchMode
from rushlight.library import Library


@pytest.fixture
def library(request: pytest.FixtureRequest) -> Iterator[Library]:
    made = Library(f"warm_{request.node.name}", "DEF")     # derivatives outlive a library
    yield made
    made._destroy()


def named(library: Library) -> Any:
    return getattr(rl.ops, library.ns)


def warmed(library: Library, calls: list[Any] | None = None) -> Any:
    """An op whose kernel the core knows."""
    library.define("twice(Tensor x) -> Tensor")

    def kernel(x: Any) -> Any:
        if calls is not None:
            calls.append("CPU")
        return x * 2

    library.impl("twice", kernel, "CPU")
    op = named(library).twice
    for _ in range(3):
        assert op(rl.ones(2)).tolist() == [2, 2]
    return op


def test_modes_and_subclasses_see_calls(library):
    op = warmed(library)
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func._opname)
            return func(*args, **(kwargs or {}))

    class Named(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append("subclass")
            return super().__torch_function__(func, types, args, kwargs or {})

    with Watch():
        op(rl.ones(2))
    assert "twice" in seen
    op(rl.ones(2).as_subclass(Named))
    assert "subclass" in seen


def test_transforms_see_calls(library):
    op = warmed(library)
    rl.library.register_vmap(f"{library.ns}::twice", lambda info, in_dims, x: (x * 3, in_dims[0]))
    assert rl.func.vmap(op)(rl.ones(2, 2)).tolist() == [[3, 3], [3, 3]]


def test_a_derivative_that_is_registered_later_is_used(library):
    op = warmed(library)
    rl.library.register_autograd(f"{library.ns}::twice", lambda ctx, grad: grad * 7)
    for _ in range(3):
        x = rl.ones(2, requires_grad=True)
        op(x).sum().backward()
        assert x.grad.tolist() == [7, 7]
        assert op(rl.ones(2)).grad_fn is None
        with rl.no_grad():
            assert op(x).grad_fn is None


def test_a_kernel_that_is_replaced_or_taken_back_is_forgotten(library):
    op = warmed(library)
    library.impl("twice", lambda x: x * 5, "CPU", allow_override=True)
    assert [op(rl.ones(1)).item() for _ in range(3)] == [5, 5, 5]
    other = Library(library.ns, "IMPL")
    other.impl("twice", lambda x: x * 9, "Autograd")
    assert [op(rl.ones(1)).item() for _ in range(3)] == [9, 9, 9]
    other._destroy()
    assert [op(rl.ones(1)).item() for _ in range(3)] == [5, 5, 5]


def test_kernels_above_the_backend_call_what_is_below_them(library):
    calls: list[Any] = []
    op = warmed(library, calls)
    calls.clear()

    def above(x: Any) -> Any:
        calls.append("Autograd")
        return op(x) + 1

    library.impl("twice", above, "Autograd")
    for _ in range(3):
        assert op(rl.ones(1)).item() == 3
    assert calls == ["Autograd", "CPU"] * 3 and _C.running_kernels() == []


def test_gradients_flow_around_kernels_without_a_derivative_as_before(library):
    """Below autograd a kernel records nothing."""
    op = warmed(library)
    for _ in range(3):
        assert not op(rl.ones(2, requires_grad=True)).requires_grad


def test_a_kernel_that_fails_leaves_no_trace(library):
    library.define("fails(Tensor x) -> Tensor")

    def kernel(x: Any) -> Any:
        raise ValueError("by design")

    library.impl("fails", kernel, "CPU")
    for _ in range(3):
        with pytest.raises(ValueError, match="by design"):
            named(library).fails(rl.ones(1))
        assert _C.running_kernels() == []


def test_defaults_and_keywords_reach_a_kernel_as_they_were_written(library):
    library.define("scaled(Tensor x, float k=2.0, *, float b=1.0) -> Tensor")
    given = []

    def kernel(x: Any, *args: Any, **kwargs: Any) -> Any:
        given.append((args, kwargs))
        return x * 1

    library.impl("scaled", kernel, "CPU")
    for _ in range(3):
        named(library).scaled(rl.ones(1))
        named(library).scaled(rl.ones(1), 3.0, b=4.0)
    assert given == [((), {}), ((3.0,), {"b": 4.0})] * 3


def test_each_thread_has_its_own_running_kernels(library):
    library.define("meets(Tensor x) -> Tensor")
    inside, done = threading.Event(), threading.Event()

    def kernel(x: Any) -> Any:
        if x.numel() == 1:
            inside.set()
            done.wait(10)
        return x * 2

    library.impl("meets", kernel, "CPU")
    op = named(library).meets
    op(rl.ones(2))
    thread = threading.Thread(target=lambda: op(rl.ones(1)))
    thread.start()
    assert inside.wait(10)
    assert op(rl.ones(2)).tolist() == [2, 2] and _C.running_kernels() == []
    done.set()
    thread.join()


def test_tensors_of_several_devices_and_numbers_find_the_same_kernel(library):
    op = warmed(library)
    library.define("joined(Tensor[] x) -> Tensor")
    library.impl("joined", lambda x: sum(t.sum() for t in x), "CPU")
    for _ in range(3):
        assert named(library).joined([rl.ones(2), rl.tensor(1.0)]).item() == 3
        assert op(rl.tensor(2.0)).item() == 4
