"""What this machine can do at best: floating-point operations and bytes per second, measured before the program runs.

Enters: nothing; as many threads take part as ops use now. Leaves: `Peaks`. The product of two square matrices of single
precision is what computes most, and a sum of long vectors written to a third is what moves most; each is timed several
times in a few tenths of a second, and the best counts, since whatever else runs here can only make it slower. Random
numbers are not drawn, and the memory goes back.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

from ... import _C
from ...op import find_op

SIDE = 1024                  # of the matrices: packing them costs little beside multiplying them
ELEMENTS = 1 << 23           # of the vectors: 32 MiB each, more than most caches hold
SECONDS = 0.1                # for each of both, after the first call
MOST = 40                    # calls


class Peaks(NamedTuple):
    """The best this machine does."""

    flops_per_s: float
    bytes_per_s: float
    launch_ns: float = 500.0     # what a recorded call takes that has next to nothing to do

    def seconds(self, flops: float | None, moved: float | None) -> tuple[float, float]:
        """How long so much computing, and so much moving, takes at least."""
        return (flops or 0) / self.flops_per_s, (moved or 0) / self.bytes_per_s


def measure() -> Peaks:
    """Both peaks, in about half a second."""
    ones, host = find_op("ones"), _C.device("cpu")
    a, b = (ones((SIDE, SIDE), dtype=_C.float32, device=host) for _ in range(2))
    out, mm, add = find_op("empty")((SIDE, SIDE), dtype=_C.float32, device=host), find_op("mm"), find_op("add")
    flops = 2 * SIDE**3 / best(mm, a, b, out)
    del a, b, out
    x, y, z = (ones((ELEMENTS,), dtype=_C.float32, device=host) for _ in range(3))
    moved = 3 * 4 * ELEMENTS / best(add, x, y, z)
    del x, y, z
    _C.empty_cache()
    return Peaks(flops, moved)


def best(op: Callable[..., object], x: object, y: object, out: object) -> float:
    """Seconds of the quickest of several calls; the first, which makes kernels, does not count."""
    op(x, y, out=out)
    least, until = float("inf"), perf_counter() + SECONDS
    for _ in range(MOST):
        start = perf_counter()
        op(x, y, out=out)
        now = perf_counter()
        least = min(least, now - start)
        if now > until:
            break
    return least
