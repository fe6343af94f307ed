"""Fractional maxima: windows of a fixed size at places drawn per plane.

Enters: [(batch,) channels, spatial dims], samples [batch, channels, count] in [0, 1), the windows' size and how many.
Leaves: maxima and their 64-bit positions. Refuses: nothing; callers check sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.loops.expr import Value, cast, const, eq, max_, min_, select
from rushlight.loops.lowered import ONE, ZERO, At, Lowered, Memory, Window, compute_code
from rushlight.op import Loops, find_op

from .axes import POOL, Axis
from .maxima import window_maxima
from .ranges import WindowRange


class FractionalMax(Loops):
    """Maxima of drawn windows, and their positions."""

    schema = "_fractional_max(Tensor input, Tensor samples, int[] kernel, int[] sizes) -> (Tensor, Tensor)"
    function = method = out = False
    batch = "leading"
    single = False

    def run(self, input: Any, samples: Any, kernel: Sequence[int], sizes: Sequence[int]) -> Any:
        """Inputs in another memory order are copied first."""
        return find_op("_fractional_max")(input.contiguous(), samples.contiguous(), kernel, sizes)

    saved_results = (1,)

    def vjp(self, g: Any, input: Any, sizes: Sequence[int], result: Any) -> dict[str, Any]:
        space = input.shape[input.ndim - len(sizes) :]
        return {"input": None if g[0] is None else find_op("_window_max_backward")(g[0], result[1], space, False)}

    def is_planned(self, args: tuple) -> bool:
        return args[0]._is_contiguous() and args[1]._is_contiguous()

    def lower(self, args: tuple) -> Lowered:
        input, samples, kernel, sizes = args
        lead, code = input.ndim - len(sizes), input.dtype.code
        drawn = code if input.device.type == "cpu" else compute_code(code)
        windows = []
        for d, (taps, out) in enumerate(zip(kernel, sizes, strict=True)):
            axis = Axis(POOL, input.shape[lead + d], out, taps, 1, 0, 1)
            windows.append(DrawnRange(axis, d, lead + d, lead + len(sizes) + d, 2 + 6 * d, len(sizes), drawn))
        memories = [
            Memory(label, t.dtype.code, tuple(t.shape), t.stride())
            for label, t in (("input", input), ("samples", samples))
        ]
        reads = (*memories, *[n for w in windows for n in w.numbers()])
        result = window_maxima(self.spec.name, input, windows, reads, "i64")
        return result.but(through=frozenset(), layout=None)      # samples have no dim for some of the ranges


class DrawnRange(WindowRange):
    """A window that starts where the plane's sample says."""

    def __init__(self, axis: Axis, d: int, out: int, tap: int, first: int, count: int, code: str) -> None:
        super().__init__(axis, d, out, tap, first, False)
        self.count, self.code, self.compute = count, code, compute_code(code)

    def rounded(self, value: Value) -> Value:
        """Half types round after every operation on a CPU, as PyTorch's arithmetic on them does."""
        return cast(cast(value, self.code), self.compute)

    def start(self, at: At, sources: Sequence[Any]) -> Value:
        # PyTorch draws the samples of two dims in the order width, height; those of three in the order of the dims.
        which = const(self.count - 1 - self.d if self.count == 2 else self.d, "i64")
        plane = at[: self.out - self.d]
        sample = cast(sources[1][(*(ZERO,) * (sources[1].ndim - 1 - len(plane)), *plane, which)], self.compute)
        here, (size, out, kernel, *_) = at[self.out], self.values(sources)
        reach = size - kernel
        steps = select(eq(out, ONE), ONE, out - ONE)
        alpha = self.rounded(self.rounded(cast(reach, self.compute)) / self.rounded(cast(steps, self.compute)))
        ahead = self.rounded(self.rounded(self.rounded(cast(here, self.compute)) + sample) * alpha)
        drawn = cast(ahead, "i64") - cast(self.rounded(sample * alpha), "i64")
        drawn = max_(min_(drawn, reach), ZERO)   # samples that are given may be any numbers
        return select(eq(here, out - ONE), reach, drawn)

    def step(self, sources: Sequence[Any]) -> Value:
        return ONE

    def bounds(self, at: At, sources: Sequence[Any]) -> tuple[Value, Value]:
        return ZERO, self.values(sources)[2]

    def window(self) -> tuple[int, Window]:
        return self.tap, Window(self.bounds)
