"""Launches: what a scheduler answers with, and the limits that CPU schedules are made by.

Enters: nests and numbers. Leaves: `Schedule`s. Sizes may be symbolic throughout: extents and parameters are then
expressions; `key`s hold classes of geometry only, never a size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ....loops.nest import Nest
from ....loops.record import Record

GRAIN = 32768            # elements a chunk of parallel work should touch
ROW_CHUNK = 65536        # elements of one partial result along a contiguous dim
STRIDED_CHUNK = 2048     # the same where elements are folded one by one: bounds the rounding error of sums
WIDE_COLUMNS = 4096      # columns folded together: the generator keeps their accumulators in cache
COLUMN_CHUNK = 256       # rows of one partial result when lanes are columns
ENOUGH_ROWS = 16         # iterations that threads can share: more outputs may lie inside each
LONG_FOLD = 16           # elements from which on a folded last range runs in vectors, not beside others on lanes
SCAN_CHUNK = 65536       # elements of a long row that one thread walks at a time
CHECK_BLOCK = 4096       # positions whose indices are checked before any is used: they stay in the nearest cache
SUM_ROWS = 256           # rows whose column sums one chunk keeps
LONGER = 4               # times as long as rows of the result, boxes are copied after a background is written
MOST_JOINED = 8          # tensors one kernel reads side by side
JOINED_FROM = 1 << 16    # elements from which on a kernel that writes several boxes pays
SMALLEST_PIECE = 1 << 10   # elements; smaller parts of a box are not worth cutting


class Launch(Record):
    """One kernel call: `operands` numbers the reads from memory, then the results, then the temporaries.

    An operand may be a pair, with the bytes before its first element; that of number -1 lies in `constants`, bytes that
    the kernel is given with its parameters. What makes the nest may answer with a library kernel instead: something
    with `params` and `compiled`. `packs`: it lays its operand out for another launch, which once is enough for.
    """

    key: tuple                       # equal keys, equal nests
    nest: Callable[[], Nest | Any]   # made when no kernel is known for the key
    operands: tuple[int | tuple[int, int], ...]
    params: tuple[int, ...]
    extent: int
    grain: int
    error: int = -1                  # which operand is the error cell
    constants: bytes = b""
    packs: bool = False


class Temp(Record):
    """Memory that lives for one call."""

    code: str
    sizes: tuple[int, ...]


class Schedule(Record):
    """Launches in order, and the temporaries between them."""

    launches: tuple[Launch, ...]
    temps: tuple[Temp, ...] = ()

    def __str__(self) -> str:
        lines = [f"temp {t.code}[{', '.join(map(str, t.sizes))}]" for t in self.temps]
        for launch in self.launches:
            given = dict(zip(launch.nest().params, launch.params, strict=True))
            lines.append(
                f"extent {launch.extent}, grain {launch.grain}, operands {list(launch.operands)}"
                + (f", errors in {launch.error}" if launch.error >= 0 else "")
            )
            lines.append("  with " + ", ".join(f"{name} = {value}" for name, value in given.items()))
            lines.append(str(launch.nest()))
        return "\n".join(lines)


def product(numbers: Iterable[int]) -> int:
    """Product of integers."""
    result = 1
    for n in numbers:
        result *= n
    return result


def names(prefix: str, count: int) -> list[str]:
    """`count` numbered names."""
    return [f"{prefix}{k}" for k in range(count)]


def grain_of(work: int) -> int:
    """How many iterations of `work` elements each one thread should take at a time."""
    return max(1, GRAIN // max(1, work))


def number_bits(value: Any) -> list[int]:
    """A number as run-time parameters: integers as they are, floats and the parts of complex numbers by their bits."""
    import struct  # noqa: PLC0415 - few kernels are given numbers

    if isinstance(value, (float, complex)):
        return [
            struct.unpack("q", struct.pack("d", part))[0]
            for part in ((value.real, value.imag) if isinstance(value, complex) else (value,))
        ]
    return [int(value) if isinstance(value, int) else value]


def number_names(name: str, value: Any) -> list[str]:
    """The names of those parameters."""
    return names(f"{name}.", 2 if isinstance(value, complex) else 1) if isinstance(value, (float, complex)) else [name]
