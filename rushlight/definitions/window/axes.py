"""Axes: which elements of one input dim each position of an output dim sees, and with what weight.

Enters: an `Axis`, a rule with a few integers (sizes, kernel, stride, ...), small enough to be part of a call's key.
Leaves: its `Table`: a contiguous window of input positions per output position, with weights or a divisor. Windows move
forward with the position, so the table transposes into one of the same form: the gradient of a windowed sum is a
windowed sum. Refuses: windows that go backwards.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, NamedTuple

FIELDS = 9


class Axis(NamedTuple):
    """One dim: `rule` names how windows follow from the sizes and the rule's numbers;
    `flip` exchanges the two sides."""

    rule: int
    size: int
    out: int
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    e: int = 0
    flip: int = 0

    @property
    def source(self) -> int:
        """Size of the dim that is read."""
        return self.out if self.flip else self.size

    @property
    def target(self) -> int:
        """Size of the dim that is written."""
        return self.size if self.flip else self.out

    def flipped(self) -> Axis:
        """The axis of the gradient."""
        return self._replace(flip=1 - self.flip)


def pack(axes: Sequence[Axis]) -> tuple[int, ...]:
    """Axes as the flat sequence of integers an op takes."""
    return tuple([number for axis in axes for number in axis])


def flat_axis(kind: int, axes: Sequence[int]) -> tuple[int, ...]:
    """The packed axis of rows as the axes of images of one row."""
    return pack([Axis(kind, 1, 1, 1, 1, 0, 1), *unpack(axes)])


def unpack(numbers: Sequence[int]) -> tuple[Axis, ...]:
    """Axes from a flat list."""
    return tuple(Axis(*numbers[k : k + FIELDS]) for k in range(0, len(numbers), FIELDS))


def once_per_shape(work_out: Callable) -> Callable:
    """`work_out(shape, ...)`, remembered; symbolic sizes are worked out anew,
    as they carry assumptions of their own."""
    remembered = lru_cache(maxsize=4096)(work_out)

    @wraps(work_out)
    def call(shape: tuple[int, ...], *args: Any) -> Any:
        for n in shape:
            if type(n) is not int:
                return work_out(shape, *args)
        return remembered(shape, *args)

    return call


class Table(NamedTuple):
    """Windows [starts[o], starts[o] + counts[o]); `weights[o]` has counts[o] numbers; None: all 1, divided by
    divisors[o]."""

    starts: list[int]
    counts: list[int]
    weights: list[list[float]] | None = None
    divisors: list[int] | None = None

    @property
    def taps(self) -> int:
        """Size of the largest window."""
        return max(self.counts, default=0)


class Regular(NamedTuple):
    """The stretch [low, high) of positions whose windows are whole: they start at o * stride - padding and have
    `taps`."""

    low: int
    high: int
    stride: int
    padding: int
    taps: int


# Rules
# --------------------------------------------------------------------------------------------------------------------

POOL, ADAPTIVE, AVERAGE, RESAMPLE = range(4)
rules: dict[int, Callable[[Axis], Table]] = {}


def pool_windows(axis: Axis) -> Table:
    """POOL: a = kernel, b = stride, c = padding, d = dilation; windows hold the positions inside the input.

    With dilation the window's positions are not neighbours: `starts` is the first one inside and `counts` their number.
    """
    starts, counts = [], []
    for o in range(axis.out):
        first = o * axis.b - axis.c
        last = first + (axis.a - 1) * axis.d
        if first < 0:
            first += -(first // axis.d) * axis.d
        last = last if last < axis.size else last - -(-(last - axis.size + 1) // axis.d) * axis.d
        starts.append(first)
        counts.append(max(0, (last - first) // axis.d + 1))
    return Table(starts, counts)


def adaptive_windows(axis: Axis) -> Table:
    """ADAPTIVE: the input cut into `out` nearly equal, possibly overlapping windows; a = 1 divides by their length."""
    starts = [o * axis.size // axis.out for o in range(axis.out)]
    counts = [-(-(o + 1) * axis.size // axis.out) - starts[o] for o in range(axis.out)]
    return Table(starts, counts, None, counts if axis.a else None)


def average_windows(axis: Axis) -> Table:
    """AVERAGE: a = kernel, b = stride, c = padding; d = 1 counts padding in the divisor; e > 0 is the divisor."""
    starts, counts, divisors = [], [], []
    for o in range(axis.out):
        first = o * axis.b - axis.c
        last = min(first + axis.a, axis.size + axis.c)
        whole = last - first
        first, last = max(first, 0), min(last, axis.size)
        counts.append(max(0, last - first))
        starts.append(first if counts[-1] else 0)
        divisors.append(max(1, axis.e or (whole if axis.d else counts[-1])))
    return Table(monotone(starts, counts, axis.size), counts, None, divisors)


def monotone(starts: list[int], counts: list[int], size: int) -> list[int]:
    """Empty windows placed where they keep the order of starts, inside the input."""
    placed, here = [], 0
    for start, count in zip(starts, counts, strict=True):
        here = start if count else min(here, size)
        placed.append(here)
    return placed


rules.update({POOL: pool_windows, ADAPTIVE: adaptive_windows, AVERAGE: average_windows})


LONGEST_TABLE = 2**31


@lru_cache(maxsize=1024)
def table_of(axis: Axis) -> Table:
    """The windows of an axis, transposed if it is flipped."""
    if axis.out > LONGEST_TABLE:     # the result itself may be granted: some systems promise memory they do not have
        raise RuntimeError(f"a result of {axis.out} positions along one dimension would not fit in memory: windows are"
                           f" tabulated for at most {LONGEST_TABLE}")
    table = rules[axis.rule](axis)
    return transpose(table, axis.size) if axis.flip else table


def transpose(table: Table, size: int) -> Table:
    """Windows over outputs that see each input, with the weights they give it."""
    taps: list[list[tuple[int, float]]] = [[] for _ in range(size)]
    for o, (start, count) in enumerate(zip(table.starts, table.counts, strict=True)):
        for k in range(count):
            weight = table.weights[o][k] if table.weights else 1.0 / table.divisors[o] if table.divisors else 1.0
            taps[start + k].append((o, weight))
    starts, counts, weights = [], [], []
    for seen in taps:
        first = seen[0][0] if seen else 0
        dense = [0.0] * (seen[-1][0] - first + 1 if seen else 0)
        for o, weight in seen:
            dense[o - first] = weight
        starts.append(first)
        counts.append(len(dense))
        weights.append(dense)
    return Table(monotone(starts, counts, len(table.starts)), counts, weights)


def regular_part(axis: Axis) -> Regular | None:
    """The whole windows of a pooling axis, or None where windows follow no stride."""
    if axis.flip or axis.rule not in (POOL, AVERAGE):
        return None
    dilation = axis.d if axis.rule == POOL else 1
    reach = (axis.a - 1) * dilation + 1
    low = min(axis.out, -(-axis.c // axis.b))
    high = min(axis.out, max(low, (axis.size + axis.c - reach) // axis.b + 1))
    return Regular(low, high, axis.b, axis.c, axis.a)


class Pattern(NamedTuple):
    """Windows that repeat, as those of an image doubled or halved do, and those of a pool's gradient.

    Of the steps [low, high), step m writes outputs m * up + k from windows that start at m * down + windows[k][0] and
    have the weights windows[k][1].
    """

    low: int
    high: int
    up: int
    down: int
    windows: tuple[tuple[int, tuple[float, ...]], ...]


@lru_cache(maxsize=1024)
def pattern_of(axis: Axis) -> Pattern | None:
    """How a weighted axis repeats itself, or None if it does not for most of its length."""
    table, source, target = table_of(axis), axis.source, axis.target
    if table.weights is None:
        return None
    candidates = (
        [(axis.b, 1, target // axis.b)]
        if axis.rule == AVERAGE and axis.flip and axis.b <= 8 and target % axis.b == 0
        else []
    )
    candidates += [(factor, 1, source) for factor in (2, 4) if target == factor * source]
    candidates += [(1, factor, target) for factor in (2, 4) if source == factor * target]
    for up, down, steps in candidates:

        def windows(m: int) -> tuple:
            places = range(m * up, m * up + up)   # noqa: B023  called at once
            starts = [table.starts[o] - m * down if table.counts[o] else 0 for o in places]   # noqa: B023
            return tuple((start, tuple(table.weights[o])) for start, o in zip(starts, places))

        middle = windows(steps // 2)
        same = [windows(m) == middle for m in range(steps)]
        low = next((m + 1 for m in range(steps // 2, -1, -1) if not same[m]), 0)
        high = next((m for m in range(steps // 2, steps) if not same[m]), steps)
        return Pattern(low, high, up, down, middle) if 2 * (high - low) >= steps else None
    return None


# Tables as bytes
# ----------------------------------------------------------------------------------------------------------


def integers(values: Sequence[int]) -> bytes:
    """64-bit integers as a kernel reads them."""
    return struct.pack(f"{len(values)}q", *values)


def floats(values: Sequence[float], code: str) -> bytes:
    """Numbers in the compute type `code`, f32 or f64."""
    return struct.pack(f"{len(values)}{'f' if code == 'f32' else 'd'}", *values)


class Constants:
    """Tables gathered into one block of bytes; `add` answers the operand that points at the table."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, table: bytes) -> tuple[int, int]:
        at = len(self.data)
        self.data += table or bytes(8)
        self.data += bytes(-len(self.data) % 8)
        return (-1, at)
