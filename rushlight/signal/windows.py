"""Window functions: M weights that are largest in the middle.

Enters: the number of points `M`, the window's own numbers, and tensor options. Leaves: a 1-D float32 or float64
tensor, symmetric by default, or with `sym=False` one period of a repeating window. Refuses: negative lengths, other
dtypes and layouts, and numbers the formulas have no meaning for, all with ValueError.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

from .. import _C
from ..base.promotion import default_dtype
from ..base.shape import strided
from ..op import find_op
from ..op.factory import check_options

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]


class _Points:
    """Where a window is evaluated, and in which dtype; checks what all windows refuse."""

    def __init__(self, name: str, M: int, sym: bool, dtype: Any, layout: Any, device: Any) -> None:
        dtype = default_dtype() if dtype is None else dtype
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if layout is not None and layout is not strided:
            raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
        if dtype not in (_C.float32, _C.float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
        check_options(name, None, False)
        self.name, self.count, self.sym, self.dtype, self.device = name, M, sym, dtype, device
        self.span = M if not sym and M > 1 else M - 1   # steps from the first point to the last of the symmetric window

    def steps(self) -> Any:
        return find_op("arange")(self.count, dtype=self.dtype, device=self.device)


def _window(weights: Callable[..., Any]) -> Callable[..., Any]:
    """The public function of a window: of M, the window's own numbers, which `weights` takes besides the points, and
    the options that all windows have."""

    @functools.wraps(weights, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def window(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
               requires_grad: bool = False, **own: Any) -> Any:
        points = _Points(weights.__name__, M, sym, dtype, layout, device)
        result = weights(points, **own)
        if M == 1:
            result = find_op("ones")((1,), dtype=points.dtype, device=device)
        return result.requires_grad_(requires_grad)

    first, *options, _ = inspect.signature(window, follow_wrapped=False).parameters.values()
    own = [*inspect.signature(weights).parameters.values()][1:]
    shown: Any = window
    shown.__signature__ = inspect.Signature([first, *own, *options], return_annotation=Any)
    return window


@_window
def exponential(points: _Points, *, center: float | None = None, tau: float = 1.0) -> Any:
    """exp(-|n - center| / tau); `center` may be chosen for windows that are not symmetric."""
    if tau <= 0:
        raise ValueError(f"exponential: Tau must be positive, got: {tau} instead.")
    if points.sym and center is not None:
        raise ValueError("exponential: Center must be None for symmetric windows")
    middle = points.span / 2 if center is None else center
    return (-(points.steps() - middle).abs() / tau).exp()


@_window
def cosine(points: _Points) -> Any:
    """Half a period of a sine, sampled in the middle of M equal parts."""
    return ((points.steps() + 0.5) * (math.pi / (points.span + 1) if points.count else 0.0)).sin()


@_window
def gaussian(points: _Points, *, std: float = 1.0) -> Any:
    """exp(-(n - middle)^2 / (2 std^2))."""
    if std <= 0:
        raise ValueError(f"gaussian: Standard deviation must be positive, got: {std} instead.")
    return (-((points.steps() - points.span / 2) / (std * math.sqrt(2))).square()).exp()


@_window
def kaiser(points: _Points, *, beta: float = 12.0) -> Any:
    """i0(beta * half circle) / i0(beta)."""
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta} instead.")
    half = max(points.span, 1) / 2
    inside = (1 - ((points.steps() - half) / half).square()).clamp(min=0).sqrt()
    i0 = find_op("i0")
    return i0(inside * beta) / i0(find_op("full")((), float(beta), dtype=points.dtype, device=points.device))


def _cosine_sum(points: _Points, a: Iterable[float]) -> Any:
    if not isinstance(a, Iterable):
        raise TypeError(f"{points.name}: Coefficients must be a list/tuple, got {type(a).__name__}")
    weights = list(a)
    if not weights:
        raise ValueError(f"{points.name}: Coefficients cannot be empty")
    angle = points.steps() * (2 * math.pi / max(points.span, 1))
    total = angle.new_full(angle.shape, weights[0])
    for i, weight in enumerate(weights[1:], 1):
        total = total + (angle * i).cos() * (weight if i % 2 == 0 else -weight)
    return total


@_window
def general_cosine(points: _Points, *, a: Iterable[float]) -> Any:
    """The sum of (-1)^i a[i] cos(i * angle) over one period."""
    return _cosine_sum(points, a)


@_window
def general_hamming(points: _Points, *, alpha: float = 0.54) -> Any:
    """alpha - (1 - alpha) * cos over one period."""
    return _cosine_sum(points, (alpha, 1.0 - alpha))


@_window
def hamming(points: _Points) -> Any:
    """`general_hamming` of 0.54."""
    return _cosine_sum(points, (0.54, 0.46))


@_window
def hann(points: _Points) -> Any:
    """`general_hamming` of 0.5."""
    return _cosine_sum(points, (0.5, 0.5))


@_window
def blackman(points: _Points) -> Any:
    """`general_cosine` of Blackman's three terms."""
    return _cosine_sum(points, (0.42, 0.5, 0.08))


@_window
def nuttall(points: _Points) -> Any:
    """`general_cosine` of Nuttall's four terms."""
    return _cosine_sum(points, (0.3635819, 0.4891775, 0.1365995, 0.0106411))


@_window
def bartlett(points: _Points) -> Any:
    """A triangle that is 0 at both ends."""
    return 1 - (points.steps() * (2 / max(points.span, 1)) - 1).abs()
