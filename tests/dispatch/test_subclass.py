"""Tensor subclasses: `__torch_function__` results keep their type,
`__torch_dispatch__` wrappers behave like tensors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import rushlight as rl
from rushlight.utils._pytree import tree_map


class Named(rl.Tensor):
    """A subclass that changes nothing."""


class Counting(rl.Tensor):
    """A subclass that counts calls."""

    calls: list[str] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_results_keep_the_subclass() -> None:
    x = rl.randn(2, 3).as_subclass(Named)
    assert type(x) is Named and isinstance(x, rl.Tensor)
    for result in (
        x + 1,
        1 + x,
        x.t(),
        x[0],
        x.sum(),
        x @ x.t(),
        rl.cat([x, x]),
        rl.stack([rl.ones(2, 3), x]),
        x.softmax(-1),
        x.view(6),
        x.clone(),
        rl.where(x > 0, x, 0),
        x.to(rl.float64),
    ):
        assert type(result) is Named, result
    for result in (x.split(1), x.unbind(0), x.max(0), rl.sort(x), x.chunk(2)):
        assert all(type(part) is Named for part in result)
    assert type(rl.ones(2)) is rl.Tensor


def test_in_place_returns_the_same_object() -> None:
    x = rl.zeros(2).as_subclass(Named)
    assert x.add_(1) is x and type(x) is Named
    x += 1
    assert type(x) is Named and x.tolist() == [2.0, 2.0]
    out = rl.zeros(2)
    assert rl.add(x, 1, out=out) is out or type(rl.add(x, 1, out=out)) is Named


def test_handlers_are_asked_once_per_public_call() -> None:
    x = rl.ones(2, 3).as_subclass(Counting)
    Counting.calls.clear()
    x + 1
    rl.nn.functional.softmax(x, 1) if hasattr(rl.nn.functional, "softmax") else x.softmax(1)
    rl.cat([x, x])
    assert Counting.calls == ["add", "softmax", "cat"]


def test_the_most_derived_type_is_asked_first() -> None:
    order = []

    class Base(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            order.append(cls.__name__)
            return NotImplemented if cls is not Base else 42

    class Derived(Base):
        pass

    a, b = rl.ones(2).as_subclass(Base), rl.ones(2).as_subclass(Derived)
    assert a + b == 42
    assert order == ["Derived", "Base"]


def test_objects_that_are_no_tensors_may_take_calls() -> None:
    class Scalar:
        """n times the identity, as PyTorch's guide to extending shows it."""

        def __init__(self, n: float) -> None:
            self.n = n

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            if func is rl.mean:
                return args[0].n / 3
            if func in (rl.add, rl.Tensor.add, rl.Tensor.__add__) or func.__name__ == "add":
                return "added"
            return NotImplemented

    s = Scalar(6.0)
    assert rl.mean(s) == 2.0
    assert rl.add(rl.ones(2), s) == "added" and rl.add(s, 1) == "added" and rl.ones(2) + s == "added"
    with pytest.raises(TypeError):
        rl.sum(s)
    with pytest.raises(TypeError):
        rl.mean(object())


def test_unrelated_subclasses_refuse() -> None:
    class Other(rl.Tensor):
        pass

    with pytest.raises(TypeError):
        rl.ones(2).as_subclass(Named) + rl.ones(2).as_subclass(Other)


def test_gradients_through_a_subclass() -> None:
    x = rl.randn(3).as_subclass(Named).requires_grad_()
    y = (x * x).sum()
    assert type(y) is Named and y.requires_grad
    y.backward()
    assert rl.allclose(rl.Tensor.as_subclass(x.grad, rl.Tensor), 2 * x.detach().as_subclass(rl.Tensor))


def test_attributes_copies_and_pickles() -> None:
    x = rl.ones(2).as_subclass(Named)
    x.label = "kept"
    assert copy.copy(x).label == "kept" and type(copy.deepcopy(x)) is Named
    back = pickle.loads(pickle.dumps(x))
    assert type(back) is Named and back.tolist() == [1.0, 1.0] and back.label == "kept"


def test_parameters_stay_plain_and_on_the_fast_path() -> None:
    p = rl.nn.Parameter(rl.ones(2))
    assert p.requires_grad and type(p + 1) is rl.Tensor and type(p.detach()) is rl.Tensor
    assert p._keys == 0
    assert type(copy.deepcopy(p)) is rl.nn.Parameter and type(pickle.loads(pickle.dumps(p))) is rl.nn.Parameter
    assert not rl.nn.Parameter(rl.ones(2), requires_grad=False).requires_grad
    assert isinstance(p, rl.nn.Parameter) and isinstance(p, rl.Tensor)
    with pytest.raises(RuntimeError):
        rl.nn.Parameter(rl.ones(2, dtype=rl.int64))
    (p * 2).sum().backward()
    assert p.grad.tolist() == [2.0, 2.0]


class Wrapped(rl.Tensor):
    """A wrapper that holds a tensor and logs what arrives below autograd."""

    log: list[str] = []

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        return rl.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=inner.requires_grad,
        )

    def __init__(self, inner: Any) -> None:
        self.inner = inner.detach()

    __torch_function__ = rl._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        cls.log.append(str(func))
        unwrap = lambda t: t.inner if isinstance(t, Wrapped) else t   # noqa: E731
        wrap = lambda t: Wrapped(t) if isinstance(t, rl.Tensor) else t   # noqa: E731
        return tree_map(wrap, func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {})))

    def __repr__(self, *rest: Any) -> str:
        return f"Wrapped({self.inner})"


def test_wrappers_compute() -> None:
    data = rl.randn(2, 3)
    x = Wrapped(data)
    assert x.shape == (2, 3) and x.dtype is rl.float32 and x.stride() == (3, 1)
    for fn in (lambda t: t + 1, lambda t: t * t, lambda t: t @ t.t(), lambda t: t.sum(0), lambda t: t.softmax(-1),
               lambda t: rl.cat([t, t]), lambda t: t[1], lambda t: t.view(6), lambda t: t.split(1)[1],
               lambda t: rl.nn.functional.layer_norm(t, (3,)), lambda t: t.to(rl.float64), lambda t: 2 - t,
               lambda t: t.max(1).values, lambda t: t.reshape(3, 2).t()):
        got, want = fn(x), fn(data)
        assert type(got) is Wrapped and rl.equal(got.inner, want)
        assert got.shape == want.shape


def test_autograd_goes_through_wrappers() -> None:
    data = rl.randn(2, 3, dtype=rl.float64)
    plain = data.clone().requires_grad_()
    x = Wrapped(data.clone().requires_grad_())
    assert x.requires_grad
    Wrapped.log.clear()
    y = (x.sin() * x).sum()
    assert type(y) is Wrapped and y.requires_grad and y.grad_fn is not None
    assert Wrapped.log[:2] == ["aten.sin.default", "aten.mul.Tensor"]
    y.backward()
    (plain.sin() * plain).sum().backward()
    assert type(x.grad) is Wrapped and rl.allclose(x.grad.inner, plain.grad)


def test_wrappers_in_place() -> None:
    x = Wrapped(rl.zeros(2))
    Wrapped.log.clear()
    x.add_(1)
    assert Wrapped.log == ["aten.add_.Tensor"] and x.inner.tolist() == [1.0, 1.0]


def test_wrappers_have_no_data_of_their_own() -> None:
    x = Wrapped(rl.ones(2))
    assert x.data_ptr() == 0
    with pytest.raises(RuntimeError, match="not allocated"):
        x.untyped_storage().data_ptr()
    with pytest.raises(RuntimeError):
        x.tolist()
    with pytest.raises(RuntimeError, match="set_state"):
        rl.Generator().set_state(Wrapped(rl.Generator().get_state()))


def test_a_wrapper_needs_a_handler() -> None:
    class Plain(rl.Tensor):
        pass

    with pytest.raises(RuntimeError):
        rl.Tensor._make_wrapper_subclass(Plain, (2,))


def test_refusals_of_every_handler_are_reported() -> None:
    class Stubborn(Wrapped):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            return NotImplemented

    with pytest.raises(TypeError, match="Stubborn"):
        Stubborn(rl.ones(2)) + 1


def test_as_subclass_leaves_a_class_that_claims_every_result():
    class Kept(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {}).as_subclass(cls)

    x = rl.ones(2, requires_grad=True)
    kept = x.as_subclass(Kept)
    assert type(kept + 1) is Kept
    plain = (kept * 3).as_subclass(rl.Tensor)
    assert type(plain) is rl.Tensor and plain.requires_grad
    plain.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


class Pair(rl.Tensor):
    """Two tensors on which everything is done twice."""

    @staticmethod
    def __new__(cls, a, b):
        return rl.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

    def __init__(self, a, b):
        self.a, self.b = a, b

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        parts = [[getattr(t, n) if isinstance(t, Pair) else t for t in args] for n in "ab"]
        return Pair(*[func(*given, **(kwargs or {})) for given in parts])


def test_detach_and_likes_of_a_wrapper_are_wrappers():
    x = Pair(rl.ones(3), rl.zeros(3)).requires_grad_()
    y = x.detach()
    assert type(y) is Pair and not y.requires_grad and y.a.tolist() == [1.0] * 3
    assert type(rl.ones_like(x)) is Pair and type(rl.zeros_like(x)) is Pair


def test_a_result_that_the_tape_keeps_is_still_a_wrapper():
    for _ in range(5):      # the result of exp dies before backward needs it
        x = Pair(rl.ones(3), rl.zeros(3)).requires_grad_()
        (x.exp() * 2).sum().backward()
        assert type(x.grad) is Pair and x.grad.b.tolist() == [2.0] * 3
