"""Fractional maxima: windows of a fixed size at places drawn per plane.

Enters: [(batch,) channels, spatial dims], samples [batch, channels, count] in [0, 1), the windows' size and how many. Leaves:
maxima and their 64-bit positions. Refuses: nothing; callers check sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rushlight import _C
from rushlight.loops.expr import Value, cast, const, eq, load, max_, min_, select, var
from rushlight.loops.nest import Local, Nest, Statement, operands, rows
from rushlight.op import find_op
from rushlight.op.definition import KIND_PLANNED, OpDefinition
from rushlight.op.pointwise import compile_for
from rushlight.op.reduction import GRAIN, as_step, product

from .layout import ONE, ZERO, unravel
from .maxima import Form, Search, search_row


class FractionalMax(OpDefinition):
    """Maxima of drawn windows, and their positions."""

    schema = "_fractional_max(Tensor input, Tensor samples, int[] kernel, int[] sizes) -> (Tensor, Tensor)"
    function = method = out = False
    batch = "leading"
    kind = KIND_PLANNED

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def run(self, input: Any, samples: Any, kernel: Sequence[int], sizes: Sequence[int]) -> Any:
        """Inputs in another memory order are copied first."""
        input, samples = input.contiguous(), samples.contiguous()
        return self.plan((input, samples, kernel, sizes))(input, samples)

    saved_results = (1,)

    def vjp(self, g: Any, input: Any, sizes: Sequence[int], result: Any) -> dict[str, Any]:
        space = input.shape[input.ndim - len(sizes) :]
        return {"input": None if g[0] is None else find_op("_window_max_backward")(g[0], result[1], space, False)}

    def plan(self, args: tuple) -> Any:
        input, samples, kernel, sizes = args
        if not input._is_contiguous() or not samples._is_contiguous():
            return None
        count = len(sizes)
        shape, device = (*input.shape[: input.ndim - count], *sizes), input.device
        slots = [("new", dtype, shape, None, 0, 0) for dtype in (input.dtype, _C.int64)]
        if device.type == "meta" or 0 in shape:
            return _C.Plan(2, device, slots, [], False)
        key = (count, input.dtype.code, device.type)
        found = self.kernels.get(key)
        if found is None:
            found = self.kernels[key] = as_step(compile_for(device, drawn_nest(count, input.dtype.code)))
        space = input.shape[input.ndim - count :]
        params = [n for own in zip(sizes, space, kernel, strict=True) for n in own]
        grain = max(1, GRAIN // max(1, product(kernel) * sizes[-1]))
        step = (found, [0, 1, 2, 3], params, product(shape[:-1]), grain, -1)
        return _C.Plan(2, device, slots, [step], False)


class DrawnSearch(Search):
    """A search whose windows start where the plane's sample says."""

    def __init__(self, count: int, code: str) -> None:
        super().__init__(Form(False, count, "i64", 0, 0, 0), code)
        self.params = [f"{p}{d}" for d in range(count) for p in ("n", "m", "pool")]
        self.out = 2

    def rounded(self, value: Value) -> Value:
        """Half types round after every operation, as PyTorch's arithmetic on them does."""
        return cast(cast(value, self.code), self.compute)

    def first(self, d: int, at: Value) -> Value:
        # PyTorch draws the samples of two dims in the order width, height; those of three in the order of the dims.
        which = self.count - 1 - d if self.count == 2 else d
        sample = cast(load(1, var("o.rest") * const(self.count, "i64") + const(which, "i64"), self.code), self.compute)
        size, reach = var(f"n{d}"), var(f"m{d}") - var(f"pool{d}")
        steps = select(eq(size, ONE), ONE, size - ONE)
        alpha = self.rounded(self.rounded(cast(reach, self.compute)) / self.rounded(cast(steps, self.compute)))
        ahead = self.rounded(self.rounded(self.rounded(cast(at, self.compute)) + sample) * alpha)
        drawn = cast(ahead, "i64") - cast(self.rounded(sample * alpha), "i64")
        drawn = max_(min_(drawn, reach), ZERO)   # samples that are given may be any numbers
        return select(eq(at, size - ONE), reach, drawn)

    def length(self, d: int, at: Value) -> Value:
        return var(f"pool{d}")

    def step(self, d: int) -> Value:
        return ONE


def drawn_nest(count: int, code: str) -> Nest:
    """Rows of the output; windows one by one."""
    search = DrawnSearch(count, code)
    plane = var("o.rest")
    for d in range(count):
        plane = plane * var(f"m{d}")
    body: list[Statement] = [*unravel(var("i"), search.targets[:-1], "o"), *search.windows(range(count - 1)), Local("plane", plane)]
    body.append(search_row(search, "a", ZERO, var(search.targets[-1])))
    return Nest("fractional_max", operands([code, code], [code, "i64"]), tuple(search.params), rows(*body))
