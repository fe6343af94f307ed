"""A tensor of `_make_wrapper_subclass` has no memory: every way to bytes asks its class, or refuses.

The answers were taken from PyTorch 2.13: an exception's class, the op its class was asked for, or a plain value. Where
PyTorch ends the process ("crashes"), a RuntimeError is wanted. With PyTorch installed the stored answers are checked
against it as well.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl

ASKED = "asks "     # the class is asked for this op
CRASH = "crashes"


def wrapper_class(lib: Any) -> type:
    class Wrapper(lib.Tensor):
        asked: list[str] = []

        @staticmethod
        def __new__(cls, *size):
            return lib.Tensor._make_wrapper_subclass(cls, size, dtype=lib.float32)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.asked.append(str(func).split(".")[1])
            raise NotImplementedError("asked")

    return Wrapper


# name -> (program, size of the wrapper, what PyTorch does)
WAYS: dict[str, tuple[Callable, tuple[int, ...], str]] = {
    "numpy": (lambda lib, w: w.numpy(), (4,), "RuntimeError"),
    "numpy, forced": (lambda lib, w: w.numpy(force=True), (4,), "RuntimeError"),
    "__array__": (lambda lib, w: w.__array__(), (4,), "RuntimeError"),
    "np.asarray": (lambda lib, w: np.asarray(w), (4,), "RuntimeError"),
    "np.add": (lambda lib, w: np.add(w, 1), (4,), "RuntimeError"),
    "tolist": (lambda lib, w: w.tolist(), (4,), "RuntimeError"),
    "item": (lambda lib, w: w.item(), (1,), ASKED + "_local_scalar_dense"),
    "float": (lambda lib, w: float(w), (), ASKED + "_local_scalar_dense"),
    "int": (lambda lib, w: int(w), (), ASKED + "_local_scalar_dense"),
    "bool": (lambda lib, w: bool(w), (), ASKED + "_local_scalar_dense"),
    "complex": (lambda lib, w: complex(w), (), ASKED + "_local_scalar_dense"),
    "data_ptr": (lambda lib, w: w.data_ptr(), (4,), "0"),
    "storage size": (lambda lib, w: w.untyped_storage().nbytes(), (4,), "16"),
    "storage address": (lambda lib, w: w.untyped_storage().data_ptr(), (4,), "RuntimeError"),
    "storage list": (lambda lib, w: w.untyped_storage().tolist(), (4,), "RuntimeError"),
    "storage byte": (lambda lib, w: w.untyped_storage()[0], (4,), "RuntimeError"),
    "storage clone": (lambda lib, w: w.untyped_storage().clone(), (4,), "RuntimeError"),
    "storage fill": (lambda lib, w: w.untyped_storage().fill_(1), (4,), "RuntimeError"),
    "storage resize": (lambda lib, w: w.untyped_storage().resize_(64), (4,), "RuntimeError"),
    "storage written": (lambda lib, w: w.untyped_storage().copy_(lib.ones(4).untyped_storage()), (4,), CRASH),
    "storage read": (lambda lib, w: lib.ones(4).untyped_storage().copy_(w.untyped_storage()), (4,), "RuntimeError"),
    "storage shared": (lambda lib, w: w.untyped_storage().share_memory_(), (4,), CRASH),
    "storage pickled": (lambda lib, w: pickle.dumps(w.untyped_storage()), (4,), "RuntimeError"),
    "storage copied": (lambda lib, w: copy.deepcopy(w.untyped_storage()), (4,), "RuntimeError"),
    "share_memory_": (lambda lib, w: w.share_memory_(), (4,), CRASH),
    "deepcopy": (lambda lib, w: copy.deepcopy(w), (4,), ASKED + "clone"),
    "data": (lambda lib, w: w.data, (4,), ASKED + "detach"),
    "detach": (lambda lib, w: w.detach(), (4,), ASKED + "detach"),
    "as_subclass": (lambda lib, w: w.as_subclass(lib.Tensor), (4,), ASKED + "alias"),
    "repr": (lambda lib, w: repr(w), (4,), ASKED + "view"),
    "add": (lambda lib, w: w + 1, (4,), ASKED + "add"),
    "index": (lambda lib, w: w[0], (4,), ASKED + "select"),
    "written with an index": (lambda lib, w: w.__setitem__(0, 1.0), (4,), "NotImplementedError"),
    "read into": (lambda lib, w: lib.ones(4).copy_(w), (4,), ASKED + "copy_"),
    "written": (lambda lib, w: w.copy_(lib.ones(4)), (4,), ASKED + "copy_"),
    "saved": (lambda lib, w: lib.save({"w": 1}, io.BytesIO()), (4,), "None"),
}

# Below the dispatcher no class is asked: kernels must not be handed an address.
BELOW = {
    "add": lambda lib, w: w + 1, "add_": lambda lib, w: w.add_(1), "plain add_": lambda lib, w: lib.ones(4).add_(w),
    "clone": lambda lib, w: w.clone(), "copy_": lambda lib, w: w.copy_(lib.ones(4)), "zero_": lambda lib, w: w.zero_(),
    "read": lambda lib, w: lib.ones(4).copy_(w), "to": lambda lib, w: w.to(lib.float64), "sum": lambda lib, w: w.sum(),
    "matmul": lambda lib, w: w @ lib.ones(4), "cat": lambda lib, w: lib.cat([w, lib.ones(4)]),
    "foreach": lambda lib, w: lib._foreach_add_([w, lib.ones(4)], 1.0), "sort": lambda lib, w: w.sort(),
    "out": lambda lib, w: lib.add(lib.ones(4), lib.ones(4), out=w), "normal_": lambda lib, w: w.normal_(),
    "out of a plan": lambda lib, w: lib.sum(lib.ones(4, 2), 1, out=w), "nonzero": lambda lib, w: w.nonzero(),
    "softmax": lambda lib, w: w.softmax(0), "index_put": lambda lib, w: w.__setitem__(lib.tensor([0]), 1.0),
    "gather": lambda lib, w: lib.ones(4).gather(0, w.to(lib.int64)), "item": lambda lib, w: w[0].item(),
    "where": lambda lib, w: lib.where(lib.ones(4) > 0, w, lib.ones(4)), "numpy": lambda lib, w: w.detach().numpy(),
    "dlpack": lambda lib, w: rl.from_dlpack(w), "tolist": lambda lib, w: w.tolist(),
}


def outcome(lib: Any, way: Callable, size: tuple[int, ...]) -> str:
    kind = wrapper_class(lib)
    kind.asked = []
    try:
        return str(way(lib, kind(*size)))
    except NotImplementedError as error:
        asked = kind.asked[0] if kind.asked else ""
        return ASKED + asked if str(error) == "asked" and asked else "NotImplementedError"
    except Exception as error:      # noqa: BLE001 - its class is the answer
        return type(error).__name__


@pytest.mark.parametrize("name", WAYS)
def test_every_way_to_bytes_asks_the_class_or_refuses(name: str) -> None:
    way, size, wanted = WAYS[name]
    wanted = "RuntimeError" if wanted == CRASH else wanted
    got = outcome(rl, way, size)
    assert got == wanted or (wanted == "NotImplementedError" and got.startswith(ASKED)), got


@pytest.mark.parametrize("name", [n for n, (_, _, wanted) in WAYS.items() if wanted != CRASH])
def test_the_stored_answers_are_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    way, size, wanted = WAYS[name]
    got = outcome(torch, way, size)
    assert got == wanted or (wanted == "NotImplementedError" and got.startswith(ASKED)), got


@pytest.mark.parametrize("name", BELOW)
def test_no_kernel_is_handed_a_wrapper(name: str) -> None:
    w = wrapper_class(rl)(4)
    with rl._C._DisableTorchDispatch(), pytest.raises(RuntimeError):
        BELOW[name](rl, w)


def test_memory_given_back_is_not_read() -> None:
    x = rl.ones(4)
    x.untyped_storage().resize_(0)
    for way in (lambda: x + 1, x.tolist, x.numpy, lambda: rl.ones(4).copy_(x), lambda: memoryview(x)):
        with pytest.raises((RuntimeError, ValueError, TypeError, BufferError)):
            way()


def test_a_class_that_computes_prints_copies_and_converts() -> None:
    class Doubled(rl.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return rl.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            plain = [a.inner if isinstance(a, Doubled) else a for a in args]
            result = func(*plain, **(kwargs or {}))
            return Doubled(result) if isinstance(result, rl.Tensor) else result

    x = Doubled(rl.tensor([[1.0, 2.5], [3.0, 4.0]]))
    assert repr(x) == "Doubled([[1.0000, 2.5000],\n         [3.0000, 4.0000]])"
    assert copy.deepcopy(x).inner.tolist() == x.inner.tolist() and copy.deepcopy(x).inner is not x.inner
    assert x[0, 1].item() == 2.5 and float(x[1, 0]) == 3.0 and type(x.data) is Doubled
