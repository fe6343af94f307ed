"""Window functions: M weights that are largest in the middle.

Enters: the number of points `M`, the window's own numbers, and tensor options. Leaves: a 1-D float32 or float64
tensor, symmetric by default, or with `sym=False` one period of a repeating window. Refuses: negative lengths, other
dtypes and layouts, and numbers the formulas have no meaning for, all with ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .. import _C
from ..base.promotion import default_dtype
from ..base.shape import strided
from ..op import find_op
from ..op.factory import check_options

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip


class _Points:
    """Where a window is evaluated, and in which dtype; checks what all windows refuse."""

    def __init__(self, name: str, M: int, sym: bool, dtype: Any, layout: Any, device: Any, requires_grad: bool) -> None:
        dtype = default_dtype() if dtype is None else dtype
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if layout is not None and layout is not strided:
            raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
        if dtype not in (_C.float32, _C.float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
        check_options(name, None, False)
        self.count, self.dtype, self.device, self.requires_grad = M, dtype, device, requires_grad
        self.span = M if not sym and M > 1 else M - 1   # steps from the first point to the last of the symmetric window

    def steps(self) -> Any:
        return find_op("arange")(self.count, dtype=self.dtype, device=self.device)

    def finished(self, window: Any) -> Any:
        if self.count == 1:
            window = find_op("ones")((1,), dtype=self.dtype, device=self.device)
        return window.requires_grad_(self.requires_grad)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """exp(-|n - center| / tau); `center` may be chosen for windows that are not symmetric."""
    points = _Points("exponential", M, sym, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"exponential: Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("exponential: Center must be None for symmetric windows")
    middle = points.span / 2 if center is None else center
    return points.finished((-(points.steps() - middle).abs() / tau).exp())


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """Half a period of a sine, sampled in the middle of M equal parts."""
    points = _Points("cosine", M, sym, dtype, layout, device, requires_grad)
    return points.finished(((points.steps() + 0.5) * (math.pi / (points.span + 1) if M else 0.0)).sin())


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """exp(-(n - middle)^2 / (2 std^2))."""
    points = _Points("gaussian", M, sym, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"gaussian: Standard deviation must be positive, got: {std} instead.")
    return points.finished((-((points.steps() - points.span / 2) / (std * math.sqrt(2))).square()).exp())


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """i0(beta * half circle) / i0(beta)."""
    points = _Points("kaiser", M, sym, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta} instead.")
    half = max(points.span, 1) / 2
    inside = (1 - ((points.steps() - half) / half).square()).clamp(min=0).sqrt()
    i0 = find_op("i0")
    return points.finished(i0(inside * beta) / i0(find_op("full")((), float(beta), dtype=points.dtype, device=device)))


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """The sum of (-1)^i a[i] cos(i * angle) over one period."""
    points = _Points("general_cosine", M, sym, dtype, layout, device, requires_grad)
    return points.finished(_cosine_sum("general_cosine", points, a))


def _cosine_sum(name: str, points: _Points, a: Iterable[float]) -> Any:
    if not isinstance(a, Iterable):
        raise TypeError(f"{name}: Coefficients must be a list/tuple, got {type(a).__name__}")
    weights = list(a)
    if not weights:
        raise ValueError(f"{name}: Coefficients cannot be empty")
    angle = points.steps() * (2 * math.pi / max(points.span, 1))
    total = angle.new_full(angle.shape, weights[0])
    for i, weight in enumerate(weights[1:], 1):
        total = total + (angle * i).cos() * (weight if i % 2 == 0 else -weight)
    return total


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """alpha - (1 - alpha) * cos over one period."""
    points = _Points("general_hamming", M, sym, dtype, layout, device, requires_grad)
    return points.finished(_cosine_sum("general_hamming", points, (alpha, 1.0 - alpha)))


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """`general_hamming` of 0.54."""
    points = _Points("hamming", M, sym, dtype, layout, device, requires_grad)
    return points.finished(_cosine_sum("hamming", points, (0.54, 0.46)))


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """`general_hamming` of 0.5."""
    points = _Points("hann", M, sym, dtype, layout, device, requires_grad)
    return points.finished(_cosine_sum("hann", points, (0.5, 0.5)))


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """`general_cosine` of Blackman's three terms."""
    points = _Points("blackman", M, sym, dtype, layout, device, requires_grad)
    return points.finished(_cosine_sum("blackman", points, (0.42, 0.5, 0.08)))


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """`general_cosine` of Nuttall's four terms."""
    points = _Points("nuttall", M, sym, dtype, layout, device, requires_grad)
    return points.finished(_cosine_sum("nuttall", points, (0.3635819, 0.4891775, 0.1365995, 0.0106411)))


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """A triangle that is 0 at both ends."""
    points = _Points("bartlett", M, sym, dtype, layout, device, requires_grad)
    return points.finished(1 - (points.steps() * (2 / max(points.span, 1)) - 1).abs())
