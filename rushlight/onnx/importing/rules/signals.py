"""Transforms of signals, windows, and draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .... import _C, fft, ops
from ...kinds import ELEMENTS
from ..hosts import as_tuple
from ..table import rule

aten = ops.aten


def transformed(x: Any, length: Any, axis: int, inverse: int, onesided: int) -> Any:
    """The transform of pairs (or of real numbers) in the last dim, along another."""
    axis = axis % x.ndim
    if axis == x.ndim - 1:
        raise ValueError("DFT: the last dim holds real and imaginary parts, and cannot be transformed")
    whole = 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis]
    size = whole if length is None else as_tuple(length)[0]
    real = x.shape[-1] == 1
    if inverse and onesided:                        # half a spectrum: real numbers come back
        spectrum = aten.view_as_complex(x.contiguous())
        return aten.unsqueeze(fft.irfft(spectrum, n=size, dim=axis), -1)
    numbers = aten.squeeze(x, -1) if real else aten.view_as_complex(x.contiguous())
    if onesided:
        if not real:
            raise ValueError("DFT: onesided takes real numbers")
        found = fft.rfft(numbers, n=size, dim=axis)
    else:
        found = (fft.ifft if inverse else fft.fft)(numbers, n=size, dim=axis)
    return aten.view_as_real(found)


@rule("DFT", since=20, host=(1, 2))
def dft(x: Any, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0) -> Any:
    return transformed(x, length, -2 if axis is None else int(as_tuple(axis)[0]), inverse, onesided)


@rule("DFT", since=17, host=(1,))
def dft_17(x: Any, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Any:
    return transformed(x, length, axis, inverse, onesided)


@rule("STFT", since=17, host=(1, 3))
def stft(x: Any, step: Any, window: Any = None, length: Any = None, *, onesided: int = 1) -> Any:
    if x.ndim == 2:
        x = aten.unsqueeze(x, -1)
    size = as_tuple(length)[0] if length is not None else window.shape[0] if window is not None else x.shape[1]
    frames = aten.permute(x.unfold(1, size, as_tuple(step)[0]), (0, 1, 3, 2))     # [batch, frames, size, parts]
    if window is not None:
        frames = aten.mul(frames, aten.reshape(window, (-1, 1)))
    return transformed(frames, None, 2, 0, onesided if x.shape[-1] == 1 else 0)


def _cosines(size: Any, periodic: int, number: int, weights: Sequence[float], device: Any) -> Any:
    """A sum of cosines over a window."""
    count = int(as_tuple(size)[0])
    at = aten.arange(count, dtype=_C.float64, device=device)
    angle = aten.mul(at, 2 * math.pi / max(count if periodic else count - 1, 1))
    found = aten.full_like(at, weights[0])
    for k, w in enumerate(weights[1:], 1):
        found = aten.add(found, aten.mul(aten.cos(aten.mul(angle, k)), w))
    return found.to(ELEMENTS[number].dtype)


@rule("HannWindow", since=17, host=(0,), grows=True, closed=True)
def hann_window(size: Any, *, output_datatype: int = 1, periodic: int = 1, anchor: Any) -> Any:
    return _cosines(size, periodic, output_datatype, (0.5, -0.5), anchor.device)


@rule("HammingWindow", since=17, host=(0,), grows=True, closed=True)
def hamming_window(size: Any, *, output_datatype: int = 1, periodic: int = 1, anchor: Any) -> Any:
    return _cosines(size, periodic, output_datatype, (25 / 46, -21 / 46), anchor.device)


@rule("BlackmanWindow", since=17, host=(0,), grows=True, closed=True)
def blackman_window(size: Any, *, output_datatype: int = 1, periodic: int = 1, anchor: Any) -> Any:
    return _cosines(size, periodic, output_datatype, (0.42, -0.5, 0.08), anchor.device)


@rule("MelWeightMatrix", since=17, host=(0, 1, 2, 3, 4), grows=True, closed=True)
def mel_weight_matrix(bands: Any, length: Any, rate: Any, low: Any, high: Any, *, output_datatype: int = 1, anchor: Any
                      ) -> Any:
    """Triangles over the bins of a spectrum, evenly apart on the mel scale."""
    bands, length, rate, low, high = [as_tuple(v)[0] for v in (bands, length, rate, low, high)]
    bins = length // 2 + 1
    first, last = (2595 * math.log10(1 + f / 700) for f in (low, high))
    edges = [first + (last - first) / (bands + 2) * k for k in range(bands + 2)]
    at = [int(700 * (10 ** (m / 2595) - 1) * (length + 1) // rate) for m in edges]
    rows = aten.zeros((bins, bands), dtype=_C.float64)
    for k in range(bands):
        left, middle, right = at[k : k + 3]
        if middle == left:
            rows[middle, k] = 1
        for j in range(left, middle + 1) if middle > left else ():
            rows[j, k] = (j - left) / (middle - left)
        for j in range(middle, right):
            rows[j, k] = (right - j) / (right - middle)
    return rows.to(ELEMENTS[output_datatype].dtype).to(anchor.device)


# --- draws: the numbers are this library's own ------------------------------------------------------------------------


def _generator(seed: float | None, device: Any) -> Any:
    if seed is None:
        return None
    from ....random import Generator  # noqa: PLC0415

    return Generator(device).manual_seed(int(seed))


@rule("RandomNormal", draws=True, closed=True, gives=lambda numbers, settings: settings.get("dtype", 1))
def random_normal(*, shape: Sequence[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0,
                  seed: float | None = None, anchor: Any) -> Any:
    drawn = aten.randn(list(shape), generator=_generator(seed, anchor.device), dtype=ELEMENTS[dtype].dtype,
                       device=anchor.device)
    return aten.add(aten.mul(drawn, scale), mean)


@rule("RandomUniform", draws=True, closed=True, gives=lambda numbers, settings: settings.get("dtype", 1))
def random_uniform(*, shape: Sequence[int], dtype: int = 1, high: float = 1.0, low: float = 0.0,
                   seed: float | None = None, anchor: Any) -> Any:
    drawn = aten.rand(list(shape), generator=_generator(seed, anchor.device), dtype=ELEMENTS[dtype].dtype,
                      device=anchor.device)
    return aten.add(aten.mul(drawn, high - low), low)


@rule("RandomNormalLike", draws=True, closed=True)
def random_normal_like(x: Any, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0,
                       seed: float | None = None) -> Any:
    kind = x.dtype if dtype is None else ELEMENTS[dtype].dtype
    drawn = aten.randn(list(x.shape), generator=_generator(seed, x.device), dtype=kind, device=x.device)
    return aten.add(aten.mul(drawn, scale), mean)


@rule("RandomUniformLike", draws=True, closed=True)
def random_uniform_like(x: Any, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0,
                        seed: float | None = None) -> Any:
    kind = x.dtype if dtype is None else ELEMENTS[dtype].dtype
    drawn = aten.rand(list(x.shape), generator=_generator(seed, x.device), dtype=kind, device=x.device)
    return aten.add(aten.mul(drawn, high - low), low)


@rule("Bernoulli", since=15, draws=True, closed=True)
def bernoulli(x: Any, *, dtype: int | None = None, seed: float | None = None) -> Any:
    kind = x.dtype if dtype is None else ELEMENTS[dtype].dtype
    drawn = aten.rand(list(x.shape), generator=_generator(seed, x.device), dtype=x.dtype, device=x.device)
    return aten.lt(drawn, x).to(kind)


@rule("Multinomial", since=7, draws=True, closed=True, gives=lambda numbers, settings: settings.get("dtype", 6))
def multinomial(x: Any, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Any:
    """Draws of classes, from the logarithms of their probabilities."""
    weights = aten.softmax(x.float(), -1)
    found = aten.multinomial(weights, sample_size, True, generator=_generator(seed, x.device))
    return found.to(ELEMENTS[dtype].dtype)
