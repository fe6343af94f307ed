"""Planning transforms of dense rows and columns: which kernel, its tables, its scratch memory.

Enters: a complex type, lengths and numbers of rows, a kind and a scale. Leaves: launches with the memory they want, the
tables they read, and what decides between kernels: vectors along a row (butterflies.py), or a lane to each row
(transform.py), in one kernel while its scratch memory fits a cache, else in two.
"""

from __future__ import annotations

import functools
import math
import struct
from functools import cache
from typing import Any

from ... import _C
from ...codegen.schedule.forms.launch import GRAIN, Launch, Schedule, Temp, grain_of, number_bits
from ...codegen.text.targets import vector_bits
from ...loops.expr import PART
from ...op.pack import BY_CODE
from . import real as real_fourier, tables as fourier_tables, transform as fourier
from .butterflies import LAST, pairs_nest, room_for, table_of, transform_nest
from .tables import between, convolution_length, forms, smooth, unit_roots

PAIRED = ("half", "whole", "real")   # kinds whose real rows are complex ones of half as many points
LONGEST = 2048   # points of rows whose scratch memory stays in the second-level cache
LONGEST_OF_FEW_LANES = 65536   # the same where few lanes share it (16 bytes), for rows that fill them
SCRATCH = 1 << 18   # bytes of scratch memory that chunks of rows may take together
ALONG = 4096     # points of a row up to which vectors go along it, if the length suits
FEW = 256        # points from which one row alone is worth two kernels
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
                    constants=table if isinstance(table, bytes) else b"")
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


def rows_schedule(code: str, n: int, kind: str, count: int, scale: float) -> Schedule:
    """That kernel alone: operands are the rows, the table and the result."""
    launch, rooms = rows_step(code, n, kind, count, scale, (0, 2, 3, 4), 1)
    return Schedule((launch,), rooms)


def pairs_schedule(code: str, n: int, kind: str, count: int, scale: float) -> Schedule:
    """The kernel between spectra and pairs alone: operands are the rows, the table and the result."""
    return Schedule((pairs_step(code, n, kind, count, scale, (0, 2), 1),))


def pairs_step(
    code: str, n: int, kind: str, count: int, scale: float, operands: tuple[int, int], table: int | bytes
) -> Launch:
    """The kernel between spectra and pairs; `table` is the number of the table of roots, or the table."""
    source, target = operands
    place, constants = ((-1, 0), table) if isinstance(table, bytes) else (table, b"")
    return Launch(
        (code, kind), lambda: pairs_nest(code, kind), (source, place, target), (n, *number_bits(scale)), count,
        grain_of(n), constants=constants,
    )


def to_complex(dtype: Any) -> Any:
    """The complex type of a float type."""
    return dtype if dtype.is_complex else _C.complex128 if dtype is _C.float64 else _C.complex64


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
) -> tuple[Launch, Temp]:
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
    )
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
    """Whether real rows of `n` are cut in two, in a plan (direct.py)."""
    return FEW <= n <= LONGEST_IN_TWO and halves(n, code, True) is not None


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
