"""Transforms along one dim, on the host: generated kernels, and NumPy's pocketfft where that is faster.

Enters: plain tensors, a dim, a scale. Leaves: new tensors, outside every graph; `definitions/spectral/transforms.py`
adds derivatives.
Real rows of even length are transformed as complex ones of half the length where vectors may go along them
(`planners/fourier/butterflies.py`). Other lengths go a lane to a row (`planners/fourier/transform.py`): in one kernel
while its scratch memory fits a cache, as two of the square root's length beyond that, and as a convolution with a chirp
where a prime factor is large.
"""

from __future__ import annotations

import functools
import math
import os
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from ... import _C
from ...codegen.schedule.forms.launch import GRAIN, Launch, Schedule, Temp, grain_of, number_bits
from ...codegen.text.targets import vector_bits
from ...loops.expr import PART
from ...op import Library, Spec, find_op
from ...op.pack import BY_CODE
from ...planners.fourier import real as real_fourier, tables as fourier_tables, transform as fourier
from ...planners.fourier.butterflies import KINDS, LAST, fits, pairs_nest, room_for, table_of, transform_nest
from ...planners.fourier.tables import between, convolution_length, forms, largest_factor, smooth, unit_roots

PAIRED = ("half", "whole", "real")   # kinds whose real rows are complex ones of half as many points
LONGEST = 2048   # points of rows whose scratch memory stays in the second-level cache
LONGEST_OF_FEW_LANES = 65536   # the same where few lanes share it (16 bytes), for rows that fill them
SCRATCH = 1 << 18   # bytes of scratch memory that chunks of rows may take together
ALONG = 4096     # points of a row up to which vectors go along it, if the length suits
FEW = 256        # points from which one row alone is worth two kernels
LARGEST_OF_LIBRARY = 512   # a prime factor up to which the library's sums of products cost less than a chirp
FAR = 1 << 18    # points from which kernels are faster than the library in double precision too
LONGEST_IN_TWO = 1 << 20     # points of real rows whose tables, of half as many, a plan carries


@cache
def roots(n: int, kind: str, dtype: Any) -> Any:
    """The table of a kernel for rows of `n` complex numbers."""
    return _C.from_data(table_of(n, kind), dtype, None)


def points(kind: str, width: int) -> int:
    """How many complex numbers the kernel of a kind transforms, from the width of its input's rows."""
    return width // 2 if kind in ("half", "whole") else width - 1 if kind == "real" else width


def rows_step(
    code: str, n: int, kind: str, count: int, scale: float, operands: tuple[int, int, int, int], table: int | bytes
) -> tuple[Launch, tuple[Temp, Temp]]:
    """The kernel for `count` dense rows of `n` points and its scratch memory. `operands` are source,
    target and the two temporaries; `table` the number of the table of roots, or the table."""
    # Each chunk has scratch memory of its own: few enough that they stay in cache together.
    chunks = max(2 * _C.get_num_threads(), SCRATCH // (4 * room_for(n) * BY_CODE[PART[code]].itemsize))
    grain = max(1, GRAIN // (4 * n), -(-count // chunks))
    source, target, *rooms = operands
    numbers = (source, (-1, 0) if isinstance(table, bytes) else table, target, *rooms)
    nest, params = functools.partial(transform_nest, code, n, kind), (*number_bits(scale), grain)
    launch = Launch((code, n, kind), nest, numbers, params, count, grain,
                    constants=table if isinstance(table, bytes) else b"")  # fmt: skip
    room = Temp(PART[code], (-(-count // grain), 2 * room_for(n)))
    return launch, (room, room)


@cache
def pair_roots(n: int, kind: str, dtype: Any) -> Any:
    """exp of half the angles of n roots, times what the kernel would multiply them by."""
    import numpy as np  # loaded with the first long transform

    unit, sign = (1j, -1) if kind == "real" else (-0.5j, 1)
    result = _C.empty([n + 1], None, dtype, _C.device("cpu"))
    result.numpy()[...] = unit * unit_roots(sign * np.arange(n + 1), 2 * n)
    return result


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
        return Schedule((pairs_step(input.dtype.code, n, kind, input.numel() // width, float(scale), (0, 2), 1),))


def pairs_step(
    code: str, n: int, kind: str, count: int, scale: float, operands: tuple[int, int], table: int | bytes
) -> Launch:
    """The kernel between spectra and pairs; `table` is the number of the table of roots, or the table."""
    source, target = operands
    given = isinstance(table, bytes)
    return Launch(
        (code, kind), lambda: pairs_nest(code, kind), (source, (-1, 0) if given else table, target),
        (n, *number_bits(scale)), count, grain_of(n), constants=table if given else b"",
    )  # fmt: skip


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
        launch, rooms = rows_step(code, points(kind, width), kind, count, scale, (0, 2, 3, 4), 1)
        return Schedule((launch,), rooms)


def to_complex(dtype: Any) -> Any:
    """The complex type of a float type."""
    return dtype if dtype.is_complex else _C.complex128 if dtype is _C.float64 else _C.complex64


def transform_rows(input: Any, kind: str, scale: float) -> Any:
    """`_fft_rows` with its table."""
    return find_op("_fft_rows")(input, roots(points(kind, input.shape[-1]), kind, to_complex(input.dtype)), kind, scale)


# --- many rows at once ------------------------------------------------------------------------------------------------


@cache
def stage_bytes(n: int, code: str) -> tuple[bytes, int, int]:
    """Roots and stages of rows of `n` as the kernel reads them, the number of stages, and where they begin."""
    return packed_tables(*fourier_tables.stages_and_roots(n), fourier_tables.stage_count(n), code)


@cache
def chirp_bytes(n: int, code: str) -> tuple[bytes, int, int]:
    """The same for a chirp of `n`."""
    stages, roots = fourier_tables.chirp_tables(n)
    return packed_tables(stages, roots, len(stages) // fourier_tables.FIELDS, code)


def packed_tables(stages: list[int], roots: list[complex], count: int, code: str) -> tuple[bytes, int, int]:
    flat = [x for z in roots for x in (z.real, z.imag)]
    table = struct.pack(f"<{len(flat)}{'f' if code == 'c64' else 'd'}", *flat)
    table += bytes(-len(table) % 16)
    return table + struct.pack(f"<{len(stages)}q", *stages), count, len(table)


def with_last_blocks(grain: int, rows: int, blocks: int) -> int:
    """Blocks to a chunk, at least `grain`, such that the last block of a row is in no chunk without the one before it.

    It begins early, and columns that both hold have other neighbours in their lanes there, so that their last digits
    may differ: one thread must write them, in order.
    """
    if rows > 1:
        return -(-grain // blocks) * blocks
    while grain < blocks and (blocks - 1) % grain == 0:
        grain += 1
    return grain


def lanes_step(
    code: str, kind: str, n: int, shape: tuple[int, int], places: tuple[int, ...], scale: float, inverse: bool,
    operands: tuple[int, int, int], turns: int | bytes | None = None,
) -> tuple[Launch, Temp]:  # fmt: skip
    """The kernel that transforms `n` points a row, and the scratch memory that it wants.

    `shape` is how many rows there are and how long they are as given; `places` (outer, inner, strides in and out) of
    columns, () of rows; `operands` the numbers of source, target and scratch memory; `turns` that of the table of
    turns, or the table.
    """
    points = convolution_length(n) if kind == "chirp" else n
    table, stages, begin = (chirp_bytes if kind == "chirp" else stage_bytes)(n, code)
    pieces = fourier.pieces_of(kind, code, places[1]) if places else 1
    width = fourier.lanes(code) * (2 if kind in ("folded", "unfolded") else pieces)
    if places:
        outer, inner, in_outer, in_stride, out_outer, out_stride = places
        count, blocks = inner, outer * -(-inner // width)
        where = [inner, in_outer, in_stride, out_outer, out_stride, 0]
    else:
        count = shape[0]
        blocks, where = -(-count // width), [0] * 6
    # Few chunks: each has scratch memory of its own, which is in cache only from its second block on.
    grain = max(1, GRAIN // (4 * points * width), -(-blocks // (2 * _C.get_num_threads())))
    if kind in ("folded", "unfolded"):
        grain = with_last_blocks(grain, places[0], blocks // places[0])
    needed = fourier.room_for(points, code, pieces)
    given = shape[1] if kind in ("chirp", "real", "odd_real", "unfolded") else n
    params = [points, given, count, stages, *number_bits(scale), int(inverse), needed, grain, *where]
    source, target, room = operands
    numbers: list[Any] = [source, (-1, 0), (-1, begin), target, room]
    if turns is not None:      # the table of turns lies behind the roots, in a tensor that carries both
        params[-1] = (begin + 15) // 16 * 16 // BY_CODE[code].itemsize
    if isinstance(turns, bytes):
        table, numbers[2] = turns + table[begin:], (-1, len(turns))
    elif turns is not None:
        numbers[1] = turns
    key: tuple = (code, kind, forms(points))
    if kind in fourier.COLUMNS:
        key += (pieces, between(points) if all(r > 1 for r, _ in forms(points)) else ())
    nest = functools.partial((real_fourier if kind in real_fourier.KINDS else fourier).transform_nest, *key)
    launch = Launch(key, nest, tuple(numbers), tuple(params), blocks, grain, constants=table)
    return launch, Temp(PART[code], (-(-blocks // grain) * 2 * needed,))


def lanes_launch(
    input: Any, kind: str, n: int, places: tuple[int, ...], scale: float, inverse: bool, turns: int | None = None
) -> Schedule:
    """That kernel for dense rows or columns of `input`."""
    width = input.shape[-1]
    out = 1 if turns is None else 2
    launch, room = lanes_step(
        to_complex(input.dtype).code, kind, n, (input.numel() // max(1, width), width), places, scale, inverse,
        (0, out, out + 1), turns,
    )  # fmt: skip
    return Schedule((launch,), (room,))


@cache
def turns_table(n1: int, n2: int, code: str) -> Any:
    """Roots of the rows of `n1`, and behind them exp(-2 pi i k j / n) for every result k of them and every column j of
    `n2`."""
    return tensor_of(turns_behind_roots(n1, (n1, n2), n1 * n2, code), code)


def turns_behind_roots(points: int, shape: tuple[int, int], n: int, code: str) -> Any:
    """An array: roots of rows of `points`, and behind them exp(-2 pi i k j / n) for every k and j of `shape`."""
    import numpy as np  # loaded with the first long transform

    table, _, begin = stage_bytes(points, code)
    exponents = np.outer(np.arange(shape[0], dtype=np.int64), np.arange(shape[1], dtype=np.int64))
    kind = np.complex64 if code == "c64" else np.complex128
    return np.concatenate([np.frombuffer(table[:begin], kind), unit_roots(exponents, n).astype(kind).reshape(-1)])


@cache
def pair_turns(n: int, code: str) -> Any:
    """An array: roots of rows of `n` pairs, and behind them the roots of 2n between the spectra of every second
    number."""
    import numpy as np  # loaded with the first real transform

    table, _, begin = stage_bytes(n, code)
    kind = np.complex64 if code == "c64" else np.complex128
    return np.concatenate([np.frombuffer(table[:begin], kind), unit_roots(np.arange(n // 2 + 1), 2 * n).astype(kind)])


@cache
def pair_turns_tensor(n: int, code: str) -> Any:
    return tensor_of(pair_turns(n, code), code)


def tensor_of(array: Any, code: str) -> Any:
    """A tensor that holds a table."""
    result = _C.empty([array.size], None, BY_CODE[code], _C.device("cpu"))
    result.numpy()[...] = array
    return result


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


def fits_lanes(n: int) -> bool:
    """Whether rows of `n` are transformed within one kernel's scratch memory, which then stays in cache."""
    return n <= LONGEST and smooth(n)


def in_one_kernel(n: int, count: int, code: str) -> bool:
    """The same for `count` rows: as many as there are lanes may be longer where vectors are short."""
    if n <= LONGEST or vector_bits() > 128:
        return fits_lanes(n)
    return n <= LONGEST_OF_FEW_LANES and count >= fourier.lanes(code) and smooth(n)


def real_in_one_kernel(n: int, count: int, code: str) -> bool:
    """The same for real rows of an even length, as complex ones of half as many points. Too few leave lanes idle."""
    lanes = fourier.lanes(code)
    is_enough = n < FEW or (count >= lanes if vector_bits() == 128 else 2 * count >= lanes)
    return n % 2 == 0 and is_enough and in_one_kernel(n // 2, count, code)


def rows_share(n: int, count: int, code: str) -> bool:
    """Whether rows go a lane to each although a row of a power of two has a kernel of its own, whose vectors go along
    it: those lose more time to shuffles the shorter they are, and most where a row has fewer groups in its last stage
    than a register has lanes."""
    if n >= LAST * fourier.lanes(code) and (n <= ALONG or vector_bits() > 128):
        return False
    return count >= fourier.lanes(code) and in_one_kernel(n, count, code)


@cache
def halves(n: int, code: str, is_real: bool = False) -> tuple[int, int] | None:
    """Two factors of `n`, near each other, that rows of lanes can be made of; None if there are none. Of real rows,
    lanes hold half of the first factor's results, and two columns of the second each."""
    least = fourier.lanes(code)
    first, second = (2 * least - 1, 2 * least) if is_real else (least, least)
    found = [
        (abs(math.log(k * k / n)), k, n // k)
        for k in range(first, LONGEST + 1)
        if n % k == 0 and second <= n // k <= LONGEST
    ]
    found = [f for f in found if smooth(f[1]) and smooth(f[2])]
    return min(found)[1:] if found else None


def planned_in_two(n: int, code: str) -> bool:
    """Whether real rows of `n` are cut in two, in a plan (`spectral/direct.py`)."""
    return FEW <= n <= LONGEST_IN_TWO and halves(n, code, True) is not None


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


@cache
def chirp_tensors(n: int, m: int, inverse: bool, dtype: Any) -> tuple[Any, Any]:
    """The factors of a chirp and the spectrum they are convolved with."""
    import numpy as np  # loaded with the first chirp

    factors = unit_roots((-1 if inverse else 1) * np.arange(n, dtype=np.int64) ** 2, 2 * n)
    wave = np.zeros(m, dtype=np.complex128)
    wave[:n] = factors.conj()
    wave[m - n + 1 :] = factors[:0:-1].conj()
    result = []
    for array in (factors, np.fft.fft(wave)):
        result.append(_C.empty([array.size], None, dtype, _C.device("cpu")))
        result[-1].numpy()[...] = array
    return result[0], result[1]


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
