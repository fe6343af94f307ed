"""Runs one function on PyTorch and on Rushlight and compares all there is to compare.

Enters: `fn(m, *tensors)`, with `m` standing for the module, and PyTorch tensors. Leaves: nothing, or an assertion
that shows what differed. Values, dtypes, shapes, exception classes, first and second gradients.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402

TOLERANCE = {
    "float32": 3e-6,
    "float64": 1e-12,
    "bfloat16": 2**-7,
    "float16": 2**-9,
    "complex64": 1e-5,
    "complex128": 1e-12,
}


def ours(t: Any) -> Any:
    """The same elements with the same strides, in memory of their own."""
    if isinstance(t, torch.Tensor):
        whole = rl.from_dlpack(_base(t))
        result = whole.clone().as_strided(tuple(t.shape), t.stride(), t.storage_offset())
        return result.detach()
    return t


def _base(t: Any) -> Any:
    """All elements of a tensor's storage, as one vector."""
    count = t.untyped_storage().nbytes() // t.element_size()
    return torch.as_strided(t.detach(), (count,), (1,), 0)


def theirs(t: Any) -> Any:
    """A Rushlight tensor as a PyTorch one."""
    t = t.detach()
    return (
        torch.from_dlpack(t.contiguous().resolve_conj().resolve_neg())
        if t.numel()
        else torch.empty(tuple(t.shape), dtype=getattr(torch, t.dtype.name))
    )


def parts(x: Any) -> list[Any]:
    """Results as a flat list."""
    return [p for item in x for p in parts(item)] if isinstance(x, (tuple, list)) else [x]


def compare(want: Any, got: Any, rtol: float | None = None, what: str = "") -> None:
    """Assert that two results agree."""
    wants, gots = parts(want), parts(got)
    assert len(wants) == len(gots), f"{what}: {len(wants)} results wanted, got {len(gots)}"
    for w, g in zip(wants, gots, strict=True):
        if w is None or g is None:
            assert w is None and g is None, f"{what}: wanted {w}, got {g}"
            continue
        if not isinstance(w, torch.Tensor):
            assert w == g, f"{what}: wanted {w}, got {g}"
            continue
        assert str(w.dtype).split(".")[1] == g.dtype.name, f"{what}: dtype {w.dtype} wanted, got {g.dtype}"
        assert tuple(w.shape) == tuple(g.shape), f"{what}: shape {tuple(w.shape)} wanted, got {tuple(g.shape)}"
        bound = TOLERANCE.get(g.dtype.name, 0) if rtol is None else rtol
        w = w.detach().resolve_conj()
        scale = float(w[w.isfinite()].abs().max()) if w.dtype.is_floating_point and w.isfinite().any() else 1.0
        torch.testing.assert_close(
            theirs(g), w, rtol=bound, atol=bound * max(scale, 1e-30), equal_nan=True, msg=lambda m: f"{what}: {m}"
        )


def outcome(fn: Callable, m: Any, args: Sequence[Any]) -> tuple[Any, type | None, str]:
    """(result, exception class or None, message)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return fn(m, *args), None, ""
        except Exception as error:   # noqa: BLE001  any class is compared
            return None, type(error), str(error)


def agree(fn: Callable, *tensors: Any, rtol: float | None = None, what: str = "") -> None:
    """The same results, or the same class of exception."""
    copies = [ours(t) for t in tensors]
    want, raised, text = outcome(fn, torch, tensors)
    got, refused, said = outcome(fn, rl, copies)
    if raised is not None or refused is not None:
        assert raised is not None, f"{what}: unexpected {refused.__name__}: {said}"
        assert refused is not None and (issubclass(refused, raised) or raised.__name__ == refused.__name__), (
            f"{what}: wanted {raised.__name__} ({text}), got {refused and refused.__name__} ({said})"
        )
        return
    compare(want, got, rtol, what)


def weights(shape: Sequence[int], dtype: Any) -> Any:
    """Fixed, uneven cotangents."""
    count = 1
    for n in shape:
        count *= n
    return ((torch.arange(count, dtype=torch.float64) * 0.7310585).cos() + 0.1).reshape(tuple(shape)).to(dtype)


def gradients_agree(fn: Callable, *tensors: Any, second: bool = True, rtol: float = 1e-9, what: str = "") -> None:
    """First gradients of every floating input, and the gradients of those."""
    results = []
    for m in (torch, rl):
        inputs = [
            (t.detach().clone() if m is torch else ours(t)) if isinstance(t, torch.Tensor) else t for t in tensors
        ]
        leaves = [
            t for t in inputs if hasattr(t, "requires_grad") and (t.dtype.is_floating_point or t.dtype.is_complex)
        ]
        for t in leaves:
            t.requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outs = [o for o in parts(fn(m, *inputs)) if o.requires_grad]
            cotangents = [
                _as(m, weights(o.shape, torch.complex128 if o.dtype.is_complex else torch.float64)) for o in outs
            ]
            total = sum(
                (m.real(o * c) if o.dtype.is_complex else o * c).sum() for o, c in zip(outs, cotangents, strict=True)
            )
            first = m.autograd.grad(total, leaves, create_graph=second, allow_unused=True)
            again: Any = []
            if second and any(g is not None and g.requires_grad for g in first):
                mixed = sum(_weighted(m, g).sum() for g in first if g is not None and g.requires_grad)
                again = m.autograd.grad(mixed, leaves, allow_unused=True)
        results.append((list(first), [None if g is None else g for g in again]))
    (want, want_again), (got, got_again) = results
    compare(want, got, rtol, f"{what} gradient")
    for k, (w, g) in enumerate(zip(want_again, got_again, strict=False)):
        # A gradient that is zero everywhere may be left out by either side.
        w = w if w is not None else torch.zeros_like(want[k]) if want[k] is not None else None
        g = g if g is not None else ours(torch.zeros_like(w)) if w is not None else None
        compare(w, g, rtol, f"{what} second gradient")


def _weighted(m: Any, g: Any) -> Any:
    w = _as(m, weights(g.shape, torch.complex128 if g.dtype.is_complex else torch.float64))
    return m.real(g * w) if g.dtype.is_complex else g * w


def _as(m: Any, t: Any) -> Any:
    return t if m is torch else ours(t)
