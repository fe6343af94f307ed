"""Launches: what a scheduler answers with, and how much of its work a thread should take at a time.

Enters: nests and numbers. Leaves: `Schedule`s. Sizes may be symbolic throughout: extents and parameters are then
expressions; `key`s hold classes of geometry only, never a size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ....loops.nest import Nest
from ....loops.record import Record

GRAIN = 32768            # elements a chunk of parallel work should touch
ENOUGH_ROWS = 16         # iterations that threads can share: more outputs may lie inside each


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
    # Those of 64 bits without a sign by their bits too.
    return [(value - (1 << 64) if value >= 1 << 63 else int(value)) if isinstance(value, int) else value]


def number_names(name: str, value: Any) -> list[str]:
    """The names of those parameters."""
    return names(f"{name}.", 2 if isinstance(value, complex) else 1) if isinstance(value, (float, complex)) else [name]
