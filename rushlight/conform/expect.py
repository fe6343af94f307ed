"""Whether two results are the same, and where they are not a sentence that says where, what and by how much."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl

# (relative, absolute) for results that may be rounded in another order than the host's.
CLOSE = {
    rl.float64: (1e-10, 1e-12),
    rl.float32: (1e-5, 1e-6),
    rl.float16: (2e-3, 2e-3),
    rl.bfloat16: (1.6e-2, 1.6e-2),
    rl.complex128: (1e-10, 1e-12),
    rl.complex64: (1e-5, 1e-6),
}


def same(
    got: Any, want: Any, *, exact: bool = False, rtol: float | None = None, atol: float | None = None,
    what: str = "the result",
) -> None:
    """Raise AssertionError unless `got` (of the device) is `want` (of the host): tensors, numbers, or containers.

    Sizes and types must agree. `exact`: every bit must (zeros by their sign; a NaN is like any other); else numbers of
    floating point within `rtol` of the host's plus `atol`, by default what their type allows.
    """
    if isinstance(want, rl.Tensor):
        assert isinstance(got, rl.Tensor), f"{what} is {type(got).__name__}, the host has a tensor"
        same_tensors(got, want, exact, rtol, atol, what)
    elif isinstance(want, (tuple, list)):
        assert isinstance(got, (tuple, list)), f"{what} is {type(got).__name__}, the host has {type(want).__name__}"
        assert len(got) == len(want), f"{what} has {len(got)} parts, the host's {len(want)}"
        for number, (one, other) in enumerate(zip(got, want, strict=True)):
            same(one, other, exact=exact, rtol=rtol, atol=atol, what=f"{what}[{number}]")
    elif isinstance(want, dict):
        assert isinstance(got, dict) and list(got) == list(want), f"{what} has keys {list(got)}, not {list(want)}"
        for key in want:
            same(got[key], want[key], exact=exact, rtol=rtol, atol=atol, what=f"{what}[{key!r}]")
    elif isinstance(want, float) and isinstance(got, float):
        allowed = 0.0 if exact else (atol or 1e-12) + (rtol or 1e-9) * abs(want)
        near = got == want or (math.isnan(got) and math.isnan(want)) or abs(got - want) <= allowed
        assert near, f"{what} is {got!r}, the host has {want!r}"
    else:
        assert type(got) is type(want) and got == want, f"{what} is {got!r}, the host has {want!r}"


def same_tensors(
    got: rl.Tensor, want: rl.Tensor, exact: bool, rtol: float | None, atol: float | None, what: str
) -> None:
    """The same for two tensors; the host looks at both."""
    got, want = got.detach().cpu(), want.detach().cpu()
    assert got.dtype is want.dtype, f"{what} is of {name(got.dtype)}, the host's of {name(want.dtype)}"
    assert got.shape == want.shape, f"{what} has sizes {tuple(got.shape)}, the host's {tuple(want.shape)}"
    if want.is_sparse:
        got, want = got.to_dense(), want.to_dense()
    if not want.numel():
        return
    relative, absolute = CLOSE.get(want.dtype, (0.0, 0.0))
    relative, absolute = rtol if rtol is not None else relative, atol if atol is not None else absolute
    if want.is_complex():
        got, want = rl.view_as_real(got.resolve_conj()), rl.view_as_real(want.resolve_conj())
    wrong = differing(got, want, exact or not want.is_floating_point(), relative, absolute)
    count = int(wrong.sum().item())
    if not count:
        return
    at = tuple(int(i) for i in wrong.nonzero()[0].tolist())
    one, other = got[at].item(), want[at].item()
    where = f" at [{', '.join(map(str, at))}]" if at else ""
    how = "every bit must agree" if exact else f"allowed: {relative:g} of it and {absolute:g}"
    apart = f", {abs(one - other):.3g} apart" if isinstance(one, float) and math.isfinite(one - other) else ""
    raise AssertionError(
        f"{what}{where} is {one!r}, the host has {other!r}{apart} ({how}); {count} of {want.numel()} elements differ"
    )


def differing(got: rl.Tensor, want: rl.Tensor, exact: bool, relative: float, absolute: float) -> rl.Tensor:
    """Where two tensors of the host differ."""
    if not want.is_floating_point():
        return got != want
    one, other = got.to(rl.float64), want.to(rl.float64)
    nan = one.isnan() & other.isnan()
    if exact:
        return ~(((one == other) & (one.signbit() == other.signbit())) | nan)
    near = (one == other) | ((one - other).abs() <= absolute + relative * other.abs())
    return ~(near & (other.isfinite() | (one == other)) | nan)


def name(dtype: rl.dtype) -> str:
    """A type without its package."""
    return str(dtype).rpartition(".")[2]
