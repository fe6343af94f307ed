"""Ops that give their argument back where it already is what is asked: tested by the core, seen by those who look."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.utils._python_dispatch import TorchDispatchMode

LAST, LAST_3D, ROWS, KEPT = rl.channels_last, rl.channels_last_3d, rl.contiguous_format, rl.preserve_format


def images(*sizes: int, order=None):
    x = rl.arange(float(rl.Size(sizes).numel())).view(sizes)
    return x if order is None else x.contiguous(memory_format=order)


LAYOUTS = {
    "row": rl.arange(6.0),
    "rows": images(2, 3),
    "turned": images(2, 3).t(),
    "image": images(2, 3, 4, 5),
    "last": images(2, 3, 4, 5, order=LAST),
    "one channel": images(2, 1, 4, 5),
    "one channel last": rl.empty_strided((2, 1, 4, 5), (20, 1, 5, 1)).fill_(1),
    "one pixel": images(2, 3, 1, 1),
    "volume last": images(2, 3, 2, 2, 2, order=LAST_3D),
    "with gaps": images(2, 6, 4, 5)[:, ::2],
    "no element": rl.empty(0, 3, 4, 5),
    "number": rl.tensor(2.0),
}


def is_last(t, ndim):
    return t.ndim == ndim and t.is_contiguous(memory_format=LAST if ndim == 4 else LAST_3D)


@pytest.mark.parametrize("name", LAYOUTS)
def test_contiguous_copies_what_lies_otherwise_and_nothing_else(name: str) -> None:
    x = LAYOUTS[name]
    for _ in range(3):
        for options, lies in (({}, x.is_contiguous()), ({"memory_format": ROWS}, x.is_contiguous())):
            y = x.contiguous(**options)
            assert (y is x) == lies and y.is_contiguous() and y.equal(x)
        for order, ndim in ((LAST, 4), (LAST_3D, 5)):
            if x.ndim != ndim:
                with pytest.raises(RuntimeError, match="required rank"):
                    x.contiguous(memory_format=order)
                continue
            y = x.contiguous(memory_format=order)
            assert (y is x) == is_last(x, ndim) and is_last(y, ndim) and y.equal(x)
        if not x.is_contiguous():
            with pytest.raises(RuntimeError, match="preserve_format"):
                x.contiguous(memory_format=KEPT)


@pytest.mark.parametrize("name", LAYOUTS)
def test_to_judges_layouts_as_the_oracle_does(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = LAYOUTS[name]
    theirs = torch.empty_strided(tuple(x.shape), x.stride())
    for order in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"):
        if (order == "channels_last" and x.ndim != 4) or (order == "channels_last_3d" and x.ndim != 5):
            continue
        for ask in ("to", "float"):
            options = {"memory_format": getattr(rl, order)}
            ours = x.to(rl.float32, **options) if ask == "to" else x.float(**options)
            want = getattr(theirs, ask)(*((torch.float32,) if ask == "to" else ()), memory_format=getattr(torch, order))
            assert (ours is x) == (want is theirs), (order, ask)
            assert ours.stride() == want.stride() and ours.equal(x)


CALLS = {
    "to dtype": (lambda x: x.to(rl.float32), lambda x: x.to(rl.float64)),
    "to keywords": (lambda x: x.to(dtype=rl.float32, device=None), lambda x: x.to(dtype=rl.float16)),
    "to a copy": (lambda x: x.to(rl.float32, copy=False), lambda x: x.to(rl.float32, copy=True)),
    "to a device": (lambda x: x.to("cpu"), lambda x: x.to("meta")),
    "to a device object": (lambda x: x.to(rl.device("cpu")), lambda x: x.to(rl.device("meta"))),
    "to a device and a dtype": (lambda x: x.to("cpu", rl.float32), lambda x: x.to("cpu", rl.int64)),
    "to another": (lambda x: x.to(rl.ones(1)), lambda x: x.to(rl.ones(1, dtype=rl.int32))),
    "type_as": (lambda x: x.type_as(rl.ones(1)), lambda x: x.type_as(rl.ones(1).half())),
    "cast": (lambda x: x.float(), lambda x: x.bfloat16()),
    "cpu": (lambda x: x.cpu(), lambda x: x.to("meta")),
}


@pytest.mark.parametrize("name", CALLS)
def test_only_what_asks_for_nothing_new_gives_the_argument(name: str) -> None:
    same, other = CALLS[name]
    for x in (rl.ones(2, 3), rl.ones(3, 2).t(), rl.ones(2, 3, requires_grad=True)):
        for _ in range(3):
            assert same(x) is x
            assert other(x) is not x


def test_elements_that_show_conjugates_stay_so() -> None:
    x = rl.tensor([1 + 2j, 3 - 1j]).conj()
    assert x.contiguous() is x and x.to(rl.complex64) is x
    assert x.is_conj() and not x.contiguous().resolve_conj().is_conj()
    y = rl.ones(2, dtype=rl.complex64)
    assert y.resolve_conj() is y and y.resolve_neg() is y and x.resolve_conj().tolist() == [1 - 2j, 3 + 1j]
    assert x.imag.is_neg() and x.imag.resolve_neg().tolist() == [-2, 1] and x.imag.contiguous().tolist() == [-2, 1]


def test_modes_and_subclasses_see_the_call() -> None:
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Own(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = rl.ones(2, 3)
    with Watch():
        x.to(rl.float64)
    assert seen
    seen.clear()
    own = x.as_subclass(Own)
    own.contiguous()
    assert seen
