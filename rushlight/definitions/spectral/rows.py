"""Transforms along one dim, on the host: generated kernels, and NumPy's pocketfft where that is faster.

Enters: plain tensors, a dim, a scale. Leaves: new tensors, outside every graph; `definitions/spectral/transforms.py`
adds derivatives.
Real rows of even length are transformed as complex ones of half the length where vectors may go along them
(`planners/fourier/butterflies.py`). Other lengths go a lane to a row (`planners/fourier/transform.py`): in one kernel
while its scratch memory fits a cache, as two of the square root's length beyond that, and as a convolution with a chirp
where a prime factor is large.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from ... import _C
from ...loops.expr import PART
from ...op import Library, Spec, find_op
from ...op.pack import BY_CODE
from ...planners.fourier import transform as fourier
from ...planners.fourier.butterflies import KINDS, fits
from ...planners.fourier.rows import (
    FEW,
    LONGEST,
    PAIRED,
    chirp_tensors,
    fits_lanes,
    halves,
    in_one_kernel,
    lanes_launch,
    pair_roots,
    pair_turns_tensor,
    pairs_schedule,
    planned_in_two,
    points,
    real_in_one_kernel,
    roots,
    rows_schedule,
    rows_share,
    to_complex,
    turns_table,
)
from ...planners.fourier.tables import convolution_length, largest_factor, smooth

LARGEST_OF_LIBRARY = 512   # a prime factor up to which the library's sums of products cost less than a chirp
FAR = 1 << 18    # points from which kernels are faster than the library in double precision too


class Pairs(Library):
    """Spectra of 2n real numbers from the transforms of their n pairs, or back."""

    schema = "_fft_pairs(Tensor input, Tensor roots, str kind, float scale) -> Tensor"
    function = method = out = False
    differentiable = False

    def meta(self, input, table, kind, scale):
        n = input.shape[-1] - (kind == "real")
        if (
            kind not in ("half", "whole", "real")
            or not input._is_contiguous()
            or table.dtype is not input.dtype
            or table.shape != (n + 1,)
        ):
            raise RuntimeError("_fft_pairs: expected dense rows and the table of roots of these rows")
        return Spec((*input.shape[:-1], {"half": n + 1, "whole": 2 * n, "real": n}[kind]), input.dtype)

    def launches(self, args):
        input, _, kind, scale = args
        width = input.shape[-1]
        n = width - (kind == "real")
        return pairs_schedule(input.dtype.code, n, kind, input.numel() // width, float(scale))


def spectrum_of_pairs(x: Any, kind: str, scale: float) -> Any:
    return find_op("_fft_pairs")(x, pair_roots(x.shape[-1], kind, x.dtype), kind, scale)


def pairs_of_spectrum(x: Any) -> Any:
    return find_op("_fft_pairs")(x, pair_roots(x.shape[-1] - 1, "real", x.dtype), "real", 1.0)


class Rows(Library):
    """Dense rows of a length that `fits`, transformed and scaled by one kernel."""

    schema = "_fft_rows(Tensor input, Tensor roots, str kind, float scale) -> Tensor"
    function = method = out = False
    differentiable = False

    def meta(self, input, table, kind, scale):
        dtype = to_complex(input.dtype)
        if (
            kind not in KINDS
            or not input.ndim
            or not input._is_contiguous()
            or not fits(points(kind, input.shape[-1]))
            or input.dtype.is_complex == (kind in ("half", "whole"))
        ):
            raise RuntimeError("_fft_rows: expected dense rows of a power of two, or of another length with a kernel")
        if (
            table.dtype is not dtype
            or not table._is_contiguous()
            or table.shape != roots(points(kind, input.shape[-1]), kind, dtype).shape
        ):
            raise RuntimeError("_fft_rows: expected the table of roots of these rows")
        n = points(kind, input.shape[-1])
        shape = (*input.shape[:-1], {"half": n + 1, "whole": 2 * n, "real": 2 * n}.get(kind, n))
        return Spec(shape, dtype.to_real() if kind == "real" else dtype)

    def launches(self, args):
        input, _, kind, scale = args
        width = input.shape[-1]
        code, count = to_complex(input.dtype).code, input.numel() // width
        return rows_schedule(code, points(kind, width), kind, count, scale)


def transform_rows(input: Any, kind: str, scale: float) -> Any:
    """`_fft_rows` with its table."""
    return find_op("_fft_rows")(input, roots(points(kind, input.shape[-1]), kind, to_complex(input.dtype)), kind, scale)


# --- many rows at once ------------------------------------------------------------------------------------------------


class Lanes(Library):
    """Rows or columns of any small factors, transformed and scaled a register's worth at a time
    (`planners/fourier/transform.py`)."""

    schema = "_fft_lanes(Tensor input, Tensor? turns, str kind, int n, float scale, bool inverse) -> Tensor"
    function = method = out = False
    differentiable = False

    def meta(self, input, turns, kind, n, scale, inverse):
        if kind not in fourier.KINDS or not input._is_contiguous() or (kind != "chirp" and not smooth(n)):
            raise RuntimeError("_fft_lanes: expected dense rows of small factors")
        if kind == "rotated" and (
            turns is None
            or turns.dtype is not input.dtype
            or turns.shape != turns_table(n, input.shape[-1], input.dtype.code).shape
        ):
            raise RuntimeError("_fft_lanes: expected the table of turns of these columns")
        code = to_complex(input.dtype).code
        if kind in PAIRED and (turns is None or turns.shape != pair_turns_tensor(n, code).shape):
            raise RuntimeError("_fft_lanes: expected the table of turns of these pairs")
        dtype = BY_CODE[PART[code] if kind in ("real", "odd_real") else code]
        if kind in fourier.COLUMNS:
            outer, first, inner = input.shape
            if inner < fourier.lanes(code) and kind != "across":
                raise RuntimeError("_fft_lanes: expected more columns than a register holds")
            return Spec((outer, inner, first) if kind == "across" else (outer, first, inner), dtype)
        last = {"half": n + 1, "whole": 2 * n, "real": 2 * n, "odd_half": n // 2 + 1, "odd_real": n}.get(
            kind, input.shape[-1]
        )
        return Spec((*input.shape[:-1], last), dtype)

    def launches(self, args):
        input, _, kind, n, scale, inverse = args
        if kind not in fourier.COLUMNS:
            return lanes_launch(input, kind, n, (), scale, inverse, 1 if kind in PAIRED else None)
        outer, first, inner = input.shape
        step = first if kind == "across" else inner
        places = (outer, step, first * inner, inner, first * inner, step)
        return lanes_launch(input, kind, n, places, scale, inverse, 1 if kind == "rotated" else None)


def in_lanes(input: Any, kind: str, n: int, scale: float, inverse: bool, turns: Any = None) -> Any:
    return find_op("_fft_lanes")(input, turns, kind, n, scale, inverse)


def complex_rows(x: Any, inverse: bool, scale: float) -> Any:
    """The transform of dense rows; None where no kernel does it."""
    n, code = x.shape[-1], x.dtype.code
    count = x.numel() // max(n, 1)
    suits = in_one_kernel(n, count, code)
    parts = halves(n, code) if n >= FEW and (not suits or 2 * count < fourier.lanes(code)) else None
    if parts is not None:
        n1, n2 = parts
        transposed = in_lanes(x.reshape(count, n1, n2), "rotated", n1, 1.0, inverse, turns_table(n1, n2, code))
        return in_lanes(transposed, "across", n2, scale, inverse).reshape(x.shape)
    if suits:
        return in_lanes(x, "rows", n, scale, inverse)
    if n < 2:
        return None
    m = convolution_length(n)
    if in_one_kernel(m, count, code):
        return in_lanes(x, "chirp", n, scale, inverse)
    if halves(m, code) is None:
        return None
    return long_chirp(x, m, inverse, scale)


def long_chirp(x: Any, m: int, inverse: bool, scale: float) -> Any:
    """A long row of any length by a convolution with a chirp (Bluestein)."""
    n = x.shape[-1]
    factors, spectrum = chirp_tensors(n, m, inverse, x.dtype)
    wide = x.new_zeros((*x.shape[:-1], m))
    find_op("mul")(x, factors, out=wide.narrow(-1, 0, n))
    wide = complex_rows(wide, False, 1.0).mul_(spectrum)
    return complex_rows(wide, True, scale / m).narrow(-1, 0, n) * factors


# --- the library ------------------------------------------------------------------------------------------------------

SHARED = 1 << 15   # elements from which a transform is divided among threads


@cache
def workers(count: int) -> Any:
    """Threads for transforms: the library lets go of the interpreter while it computes."""
    from concurrent.futures import ThreadPoolExecutor  # loaded with the first large transform

    return ThreadPoolExecutor(count, "rushlight-fft")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=workers.cache_clear)   # a child has none of its parent's threads


def library(name: str, x: Any, dim: int, shape: list[int], dtype: Any, **options: Any) -> Any:
    """One unscaled call of numpy.fft over `dim`; large ones in parts of another dim, a thread to each."""
    import numpy as np  # loaded with the first length that has no kernel

    result = _C.empty(shape, None, dtype, x.device)
    if not result.numel():
        return result
    call: Callable = getattr(np.fft, name)
    a, out, count = x.detach().numpy(), result.numpy(), _C.get_num_threads()
    others = [d for d in range(a.ndim) if d != dim and a.shape[d] >= count]
    if count == 1 or out.size < SHARED or not others:
        call(a, axis=dim, out=out, **options)
        return result
    d = max(others, key=lambda d: a.shape[d])
    cuts = [(slice(None),) * d + (slice(a.shape[d] * k // count, a.shape[d] * (k + 1) // count),) for k in range(count)]
    for part in [workers(count).submit(call, a[c], axis=dim, out=out[c], **options) for c in cuts]:
        part.result()
    return result


def library_is_faster(n: int, count: int, code: str, is_real: bool = False, inverse: bool = False) -> bool:
    """Whether `count` rows of `n` are the library's though there are kernels for them, as measured (one thread,
    AVX-512 and NEON).

    Rows longer than the scratch memory that a cache holds are two passes over memory. In double precision, half as many
    to a register, these cost more than the library's one until rows leave its cache as well. Odd lengths of real
    numbers are transformed as complex ones, twice the work, which the library does not need. By type, factors,
    length and number of rows alone: the number of threads must not change a result.
    """
    if n <= LONGEST or in_one_kernel(n if smooth(n) else convolution_length(n), count, code):
        return False
    if code == "c128" and n < FAR:
        return True
    return is_real and n % 2 == 1 and (inverse or largest_factor(n) <= LARGEST_OF_LIBRARY)


# --- along one dim ----------------------------------------------------------------------------------------------------


def by_rows(x: Any, dim: int, function: Callable) -> Any:
    """`function` of the tensor with `dim` last and dense."""
    if dim == x.ndim - 1:
        return function(x.contiguous())
    result = function(x.movedim(dim, -1).contiguous())
    return None if result is None else result.movedim(-1, dim)


def complex_along(x: Any, dim: int, forward: bool, scale: float) -> Any:
    """The complex transform along `dim`."""
    n, inner = x.shape[dim], math.prod(x.shape[dim + 1 :])
    if dim < x.ndim - 1 and fits_lanes(n) and inner >= fourier.lanes(x.dtype.code):
        return in_lanes(x.contiguous().reshape(-1, n, inner), "columns", n, scale, not forward).reshape(x.shape)
    count, code = x.numel() // max(n, 1), x.dtype.code
    if fits(n) and not rows_share(n, count, code):
        return by_rows(x, dim, lambda r: transform_rows(r, "forward" if forward else "inverse", scale))
    result = (
        None if library_is_faster(n, count, code) else by_rows(x, dim, lambda r: complex_rows(r, not forward, scale))
    )
    if result is not None:
        return result
    result = library(
        "fft" if forward else "ifft", x, dim, list(x.shape), x.dtype, norm="backward" if forward else "forward"
    )
    return result if scale == 1 else result.mul_(scale)


def real_rows(x: Any, kind: str, scale: float) -> Any:
    """`half` or `whole` spectra of dense real rows; None where no kernel makes them."""
    n, code = x.shape[-1], to_complex(x.dtype).code
    count = x.numel() // max(n, 1)
    if n % 2 == 0 and fits(n // 2) and not rows_share(n // 2, count, code):
        return transform_rows(x, kind, scale)
    if real_in_one_kernel(n, count, code):
        return in_lanes(x, kind, n // 2, scale, False, pair_turns_tensor(n // 2, code))
    if n % 2 and planned_in_two(n, code):
        result = find_op("_fft_r2c")(x, (x.ndim - 1,), "none", kind == "half")
        return result if scale == 1 else result.mul_(scale)
    if n % 2 and in_one_kernel(n, count, code):
        return in_lanes(x, f"odd_{kind}", n, scale, False)
    if library_is_faster(n, count, code, True):
        return None
    pairs = (
        complex_rows(find_op("view_as_complex")(x.reshape(*x.shape[:-1], n // 2, 2)), False, 1.0)
        if n % 2 == 0
        else None
    )
    if pairs is not None:
        return spectrum_of_pairs(pairs, kind, scale)
    result = complex_rows(x.to(to_complex(x.dtype)), False, scale)
    return result.narrow(-1, 0, n // 2 + 1) if kind == "half" and result is not None else result


def half_along(x: Any, dim: int, scale: float) -> Any:
    """The half spectrum of real numbers along `dim`."""
    result = by_rows(x, dim, lambda r: real_rows(r, "half", scale))
    if result is not None:
        return result
    shape = [x.shape[dim] // 2 + 1 if d == dim else s for d, s in enumerate(x.shape)]
    result = library("rfft", x, dim, shape, to_complex(x.dtype), norm="backward")
    return result if scale == 1 else result.mul_(scale)


def whole_along(x: Any, dim: int, scale: float) -> Any:
    """The whole spectrum of real numbers along `dim`."""
    result = by_rows(x, dim, lambda r: real_rows(r, "whole", scale))
    if result is not None:
        return result
    result = library("fft", x, dim, list(x.shape), to_complex(x.dtype), norm="backward")
    return result if scale == 1 else result.mul_(scale)


def rows_of_spectra(x: Any, n: int, scale: float) -> Any:
    """`n` real numbers of every dense half spectrum; None where no kernel makes them."""
    count, code = x.numel() // max(x.shape[-1], 1), x.dtype.code
    if n % 2 == 0 and fits(n // 2) and not rows_share(n // 2, count, code):
        return transform_rows(x, "real", scale)
    if real_in_one_kernel(n, count, code):
        return in_lanes(x, "real", n // 2, scale, True, pair_turns_tensor(n // 2, code))
    if n % 2 and planned_in_two(n, code):
        result = find_op("_fft_c2r")(x, (x.ndim - 1,), "none", n)
        return result if scale == 1 else result.mul_(scale)
    if n % 2 and in_one_kernel(n, count, code):
        return in_lanes(x, "odd_real", n, scale, True)
    if library_is_faster(n, count, code, True, True):
        return None
    if n % 2 == 0 and (pairs := complex_rows(pairs_of_spectrum(x), True, scale)) is not None:
        return find_op("view_as_real")(pairs).reshape(*x.shape[:-1], n)
    kept = x.narrow(-1, 1, x.shape[-1] - 1)
    whole = find_op("cat")(
        [find_op("real")(x.narrow(-1, 0, 1)).to(x.dtype), kept, kept.narrow(-1, 0, n - x.shape[-1]).flip(-1).conj()], -1
    )
    result = complex_rows(whole, True, scale) if n % 2 else None
    return None if result is None else find_op("real")(result).contiguous()


def real_along(x: Any, dim: int, size: int, scale: float) -> Any:
    """`size` real numbers along `dim` from their half spectrum."""
    if x.shape[dim] == size // 2 + 1:
        result = by_rows(x, dim, lambda r: rows_of_spectra(r, size, scale))
        if result is not None:
            return result
    shape = [size if d == dim else s for d, s in enumerate(x.shape)]
    result = library("irfft", x, dim, shape, x.dtype.to_real(), n=size, norm="forward")
    return result if scale == 1 else result.mul_(scale)
