"""Short-time Fourier transforms and their inverse.

Enters: signals of one or two dims with torch's framing arguments. Leaves: composites of views, products and the
transforms of `definitions/spectral/transforms.py`, so derivatives pass through. Refuses: framings that do not fit the
signal, windows of another length, and inverses whose windows leave points of the signal uncovered.
"""

from __future__ import annotations

import warnings
from typing import Any

from ...base.promotion import rank
from ...base.tracebacks import users_level
from ...op import Composite, find_op

_PADDED = {"reflect", "replicate", "circular", "constant"}


def need(condition: bool, message: str) -> None:
    """RuntimeError with `message` unless the condition holds."""
    if not condition:
        raise RuntimeError(message)


def padded(x: Any, pad: int, mode: str) -> Any:
    """`x` with `pad` more points on both ends of its last dim."""
    n = x.shape[-1]
    if mode not in _PADDED:
        raise NotImplementedError(f"stft: Unrecognised padding mode {mode}")
    if mode == "constant":
        edge = x.new_zeros((*x.shape[:-1], pad))
        return find_op("cat")([edge, x, edge], -1)
    need(
        mode != "reflect" or pad < n,
        f"stft: Padding size should be less than the input's length, but got: padding ({pad}, {pad}) of {n} points",
    )
    need(
        mode != "circular" or pad <= n,
        f"stft: circular padding wraps around once: expected padding up to {n} points, got {pad}",
    )
    need(n > 0, "stft: cannot pad a signal without points")
    at = find_op("arange")(-pad, n + pad, device=x.device)
    if mode == "reflect":
        at = (n - 1) - ((n - 1) - at.abs()).abs()
    else:
        at = at.clamp(0, n - 1) if mode == "replicate" else at.remainder(n)
    return x.index_select(-1, at)


def framed_window(name: str, window: Any, length: int, n_fft: int, like: Any) -> Any:
    """The window with zeros on both sides up to `n_fft` points; None when every weight is 1."""
    if window is None and length == n_fft:
        return None
    window = like.new_ones((length,)) if window is None else window
    if length < n_fft:
        left = (n_fft - length) // 2
        window = find_op("cat")([window.new_zeros((left,)), window, window.new_zeros((n_fft - length - left,))], 0)
    return window


def warn_of_no_window(name: str, length: int) -> None:
    if length > 1:
        warnings.warn(
            f"{name}: no window is given, so a rectangular one is used, and energy leaks between frequencies. "
            "hann_window or hamming_window leak less.",
            UserWarning,
            stacklevel=users_level(),
        )


class Stft(Composite):
    """Transforms of overlapping pieces of a signal: [..., frequencies, frames]."""

    schema = (
        "stft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool"
        " center=True, str pad_mode='reflect', bool normalized=False, bool? onesided=None, bool? return_complex=None,"
        " bool? align_to_window=None) -> Tensor"
    )
    out = False

    def compute(
        self,
        input,
        n_fft,
        hop_length,
        win_length,
        window,
        center,
        pad_mode,
        normalized,
        onesided,
        return_complex,
        align_to_window,
    ):
        hop = n_fft // 4 if hop_length is None else hop_length
        length = n_fft if win_length is None else win_length
        need(not (center and align_to_window is not None), "stft: align_to_window needs center=False")
        if window is None:
            warn_of_no_window("stft", length)
        is_complex = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
        if return_complex is None:
            need(is_complex, "stft: a real input needs return_complex to be given")
            return_complex = True
        need(rank(input.dtype) > 1, f"stft: expected a floating point or complex input, got {input.dtype.name}")
        need(input.ndim in (1, 2), f"stft: expected a 1D or 2D tensor, got {input.ndim} dims")
        x = padded(input, n_fft // 2, pad_mode) if center else input
        points = x.shape[-1]
        need(0 < n_fft <= points, f"stft: expected 0 < n_fft <= {points}, but got n_fft={n_fft}")
        need(hop > 0, f"stft: expected hop_length above 0, got {hop}")
        need(0 < length <= n_fft, f"stft: expected win_length from 1 to n_fft, got {length}")
        need(
            window is None or tuple(window.shape) == (length,),
            f"stft: expected a window of shape [win_length] = [{length}], got"
            f" {None if window is None else list(window.shape)}",
        )
        onesided = not is_complex if onesided is None else onesided
        need(not (onesided and is_complex), "stft: onesided=True needs a real input and window, got a complex one")
        if align_to_window:
            edge = (n_fft - length) // 2
            x = find_op("cat")(
                [x.new_zeros((*x.shape[:-1], edge)), x, x.new_zeros((*x.shape[:-1], n_fft - length - edge))], -1
            )
        frames = x.unfold(-1, n_fft, hop)
        weights = framed_window("stft", window, length, n_fft, input)
        frames = frames if weights is None else frames * weights
        norm = "ortho" if normalized else None
        result = find_op("rfft" if onesided else "fft")(frames, None, -1, norm).transpose(-1, -2)
        return result if return_complex else find_op("view_as_real")(result)


def overlap_add(frames: Any, hop: int) -> Any:
    """[..., frames, points] summed into one signal, each frame `hop` points after the one before."""
    count, points = frames.shape[-2:]
    ar = find_op("arange")
    at = (ar(count, device=frames.device) * hop).unsqueeze(1) + ar(points, device=frames.device)
    signal = frames.new_zeros((*frames.shape[:-2], points + hop * (count - 1)))
    return signal.index_add(-1, at.reshape(-1), frames.flatten(-2))


class InverseStft(Composite):
    """The signal whose short-time transform is given."""

    schema = (
        "istft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool"
        " center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) ->"
        " Tensor"
    )
    out = False

    def compute(
        self, input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
    ):
        hop = n_fft // 4 if hop_length is None else hop_length
        width = n_fft if win_length is None else win_length
        if window is None:
            warn_of_no_window("istft", width)
        onesided = self.check(input, n_fft, hop, width, window, onesided, return_complex)
        frames = input.transpose(-1, -2)
        norm = "ortho" if normalized else None
        if return_complex:
            frames = find_op("ifft")(frames, None, -1, norm)
        else:
            half = frames if onesided else frames.narrow(-1, 0, n_fft // 2 + 1)
            frames = find_op("irfft")(half, n_fft, -1, norm)
        real = input.new_ones((), dtype=input.dtype.to_real())
        weights = framed_window("istft", window, width, n_fft, real)
        weights = real.new_ones((n_fft,)) if weights is None else weights
        signal = overlap_add(frames * weights, hop)
        envelope = overlap_add(weights.square().expand(frames.shape[-2], n_fft), hop)
        return self.cut(signal, envelope, n_fft // 2 if center else 0, length)

    def check(
        self, input: Any, n_fft: int, hop: int, width: int, window: Any, onesided: bool | None, return_complex: bool
    ) -> bool:
        """Refuse what no transform gives; answers whether the spectrum is one-sided."""
        need(input.dtype.is_complex, "istft: expected a complex input, as stft(..., return_complex=True) gives.")
        need(
            input.ndim in (2, 3), f"istft: expected a tensor of [batch,] frequencies and frames, got {input.ndim} dims"
        )
        need(input.numel() > 0, "istft: expected an input with elements, got none.")
        onesided = input.shape[-2] != n_fft if onesided is None else onesided
        wanted = n_fft // 2 + 1 if onesided else n_fft
        need(
            input.shape[-2] == wanted,
            f"istft: onesided={onesided} needs {wanted} frequencies in the input, got {input.shape[-2]}",
        )
        need(0 < hop <= width, f"istft: expected 0 < hop_length <= win_length, got {hop} and {width}")
        need(0 < width <= n_fft, f"istft: expected 0 < win_length <= n_fft, got {width} and {n_fft}")
        need(
            window is None or tuple(window.shape) == (width,),
            "istft: expected a window with one dimension, of length win_length",
        )
        need(not (return_complex and onesided), "istft: onesided=True needs return_complex=False")
        need(
            return_complex or window is None or not window.dtype.is_complex,
            "istft: a complex window needs return_complex=True",
        )
        return onesided

    def cut(self, signal: Any, envelope: Any, start: int, length: int | None) -> Any:
        """The part of the signal that was asked for, freed of the windows' weights."""
        whole = signal.shape[-1]
        end = whole - start if length is None else start + length
        held = max(min(end, whole) - start, 0)
        signal, envelope = signal.narrow(-1, start, held), envelope.narrow(-1, start, held)
        if not envelope.is_meta:
            lowest = envelope.detach().abs().min().item()
            need(
                lowest > 1e-11,
                f"istft: window overlap add min: {lowest}; the windows leave points of the signal uncovered",
            )
        result = signal / envelope
        if end > whole:
            warnings.warn(
                f"istft: the frames hold fewer elements than length asks for: {end - whole} zeros follow.",
                UserWarning,
                stacklevel=users_level(),
            )
            result = find_op("cat")([result, result.new_zeros((*result.shape[:-1], end - whole))], -1)
        return result
