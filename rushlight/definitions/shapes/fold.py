"""Windows as columns and back: nn.functional.unfold (im2col) and fold (col2im), each the other's gradient.

Enters: images [(batch,) channels, height, width], or columns [(batch,) channels * window, positions]. Leaves: the
other. Both say where each element of the result comes from. Refuses: sizes that hold no window,
and column counts that do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight.loops.expr import Value, cast, const, eq, ge, idiv, irem, le, lt, max_, min_, select
from rushlight.loops.lowered import ONE, ZERO, At, Folding, Lowered, Memory, Number, Window, compute_code
from rushlight.op import Loops, find_op
from rushlight.op.reduction import product
from rushlight.rules.batching import folded, leading

from ..pool.sizes import per_dim
from ..window.sums import Total

NUMBERS = ("kernel", "dilation", "padding", "stride")
WRITTEN = 8        # taps along a row that are written out one by one
FEW_LINES = 3      # lines of windows that are
MOST_PHASES = 4    # places between two windows that are


class Columns(Loops):
    """What both directions share: arguments per dim, and how many windows there are."""

    method = out = False
    unbatched: int      # dims of an argument without a batch

    def numbers(self, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> list[tuple[int, ...]]:
        found = [
            per_dim(self.name, label, value, 2)
            for label, value in zip(
                ("kernel_size", *NUMBERS[1:]), (kernel_size, dilation, padding, stride), strict=True
            )
        ]
        for label, values in zip(("kernel_size", *NUMBERS[1:]), found, strict=True):
            if min(values) < (0 if label == "padding" else 1):
                raise RuntimeError(
                    f"{self.name}: {label} should be {'non-negative' if label == 'padding' else 'greater than zero'},"
                    f" but got {list(values)}"
                )
        return found

    def windows(
        self,
        size: Sequence[int],
        kernel: Sequence[int],
        dilation: Sequence[int],
        padding: Sequence[int],
        stride: Sequence[int],
    ) -> list[int]:
        return [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)
        ]

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        """Examples are one batch of images, or join the batch dim they have."""
        return (leading if args[0].ndim == self.unbatched else folded)(level, overload, args)


class Unfold(Columns):
    """Every window of the image as one column."""

    schema = "im2col(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) -> Tensor"
    aliases = ("nn.functional.unfold",)
    function = True
    unbatched = 3

    def lower(self, args):
        input = args[0]
        kernel, dilation, padding, stride = self.numbers(*args[1:])
        if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
            raise RuntimeError(
                "unfold: expected an input with 3 dimensions, or 4 with a batch (which alone may be empty), got shape"
                f" {list(input.shape)}"
            )
        if not (input.dtype.is_floating_point or input.dtype.is_complex or input.dtype is _C.bool):
            raise NotImplementedError(f'"im2col" not implemented for {input.dtype.name} tensors')
        size = tuple(input.shape[-2:])
        out = self.windows(size, kernel, dilation, padding, stride)
        if any(n < 1 for n in out):
            raise RuntimeError(
                f"unfold: an input of spatial size {list(size)} with kernel_size={list(kernel)},"
                f" dilation={list(dilation)}, padding={list(padding)} gives {out} blocks. Expected at least one each"
                " way."
            )
        lead, code = tuple(input.shape[:-2]), input.dtype.code
        shape = (*input.shape[:-3], input.shape[-3] * product(kernel), product(out))
        given = [
            Number(f"{label}{d}", "i64", n[d])
            for label, n in (("dilation", dilation), ("padding", padding))
            for d in range(2)
        ]
        given.append(Number("stride0", "i64", stride[0]))
        reads = (Memory("input", code, tuple(input.shape), input.stride()), *given)
        step = int(stride[1])      # part of the code: neighbours in memory are read as vectors

        def body(at: At, sources: Any) -> tuple:
            dilated, padded, down = ([s.value for s in sources[a:b]] for a, b in ((1, 3), (3, 5), (5, 6)))
            *front, ky, kx, y, x = at
            places = (y * down[0] + ky * dilated[0] - padded[0], x * const(step, "i64") + kx * dilated[1] - padded[1])
            inside, clamped = const(True, "b1"), []
            for place, n in zip(places, sources[0].shape[-2:], strict=True):
                inside = inside & ge(place, ZERO) & le(place, n - ONE)
                clamped.append(max_(min_(place, n - ONE), ZERO))       # read even where it is padding
            return (select(inside, sources[0][(*front, *clamped)], const(0, code)),)

        ranges = (*lead, *kernel, *out)
        through = frozenset(range(len(lead)))
        return Lowered("unfold", ("unfold", step), ranges, shape, (code,), reads, body, aligned=False, through=through)

    def vjp(self, g, input: Any, kernel_size, dilation, padding, stride):
        return {"input": find_op("col2im")(g, tuple(input.shape[-2:]), kernel_size, dilation, padding, stride)}


class Fold(Columns):
    """Columns added up where their windows were."""

    schema = (
        "col2im(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2]"
        " stride=1) -> Tensor"
    )
    aliases = ("nn.functional.fold",)
    function = True
    unbatched = 2

    def lower(self, args):
        input, size = args[0], per_dim("fold", "output_size", args[1], 2)
        kernel, dilation, padding, stride = self.numbers(*args[2:])
        if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
            raise RuntimeError(
                "fold: expected an input with 2 dimensions, or 3 with a batch (which alone may be empty), got shape"
                f" {list(input.shape)}"
            )
        if input.shape[-2] % product(kernel):
            raise RuntimeError(
                "fold: dimension 1 of input holds channels times kernel elements: expected a multiple of those of"
                f" kernel_size={list(kernel)}, got {input.shape[-2]}."
            )
        out = self.windows(size, kernel, dilation, padding, stride)
        if any(n < 1 for n in out) or input.shape[-1] != product(out):
            raise RuntimeError(
                f"fold: Given output_size={list(size)}, kernel_size={list(kernel)}, dilation={list(dilation)},"
                f" padding={list(padding)}, stride={list(stride)}, expected dimension 2 of input to hold the {out[0]} *"
                f" {out[1]} blocks, got input.size(2)={input.shape[-1]}."
            )
        return columns_added(input, size, out, kernel, dilation, padding, stride)

    def vjp(self, g, kernel_size, dilation, padding, stride):
        return {"input": find_op("im2col")(g, kernel_size, dilation, padding, stride)}


def columns_added(input: Any, size: Sequence[int], out: Sequence[int], kernel: Sequence[int], dilation: Sequence[int],
                  padding: Sequence[int], stride: Sequence[int]) -> Lowered:
    """The sum, at every place of the image, of what the windows that hold it have there.

    Place x lies in window (x + padding - tap * dilation) / stride, where that is whole. Which taps those are repeats
    every `stride` places, so where the width is a multiple of that the places between are a range of their own.
    """
    code = input.dtype.code
    compute, lead = compute_code(code), len(input.shape) - 1
    channels = input.shape[-2] // product(kernel)
    shape = (*input.shape[:-2], channels, *size)
    step, gap, pad = (int(n[1]) for n in (stride, dilation, padding))
    down, apart = int(stride[0]), int(dilation[0])       # divided by: part of the code
    reached = ((int(kernel[0]) - 1) * apart + down) // down      # lines of windows that hold one place
    few = reached <= FEW_LINES
    up = step if step <= MOST_PHASES and size[1] % step == 0 else 1
    x_range, line_range = lead + 1, lead + 2 + (up > 1)
    tap_x = line_range + 1
    written = int(kernel[1]) <= WRITTEN and step == up
    given = [
        Number(f"{label}{d}", "i64", n[d])
        for label, n in zip(("out", *NUMBERS), (out, kernel, dilation, padding, stride), strict=True)
        for d in range(2)
    ]
    reads = (Memory("input", code, tuple(input.shape), input.stride()), *given)

    def number(sources: Sequence[Any], label: str, d: int) -> Value:
        return sources[1 + 2 * ("out", *NUMBERS).index(label) + d].value

    def column(at: At) -> Value:
        return at[x_range] if up == 1 else at[x_range] * const(up, "i64") + at[x_range + 1]

    def along_x(at: At) -> tuple[Value | None, Value, Value]:
        """The number of the window that has the place at a tap, the tap, and whether there is one;
        None where there never is."""
        if written and tap_x in at.whole:
            phase = at[x_range + 1].attr if up > 1 else 0
            ahead = phase + pad - at[tap_x].attr * gap
            return None if ahead % step else at[x_range] + const(ahead // step, "i64"), at[tap_x], const(True, "b1")
        ahead = column(at) + const(pad, "i64") - at[tap_x] * const(gap, "i64")
        return idiv(ahead, const(step, "i64")), at[tap_x], eq(irem(ahead, const(step, "i64")), ZERO)

    def body(at: At, sources: Sequence[Any]) -> tuple[Value] | None:
        x, tap, is_there = along_x(at)
        if x is None:
            return None
        line = at[line_range]
        if few:      # one of a known number of lines, which may not be there
            first, past = lines(at, sources)
            is_there = is_there & lt(first + line, past)
            line = max_(min_(first + line, past - ONE), ZERO)
        behind = at[lead] + number(sources, "padding", 0) - line * const(down, "i64")
        is_there = is_there & eq(irem(behind, const(apart, "i64")), ZERO)
        row = (at[lead - 1] * number(sources, "kernel", 0) + idiv(behind, const(apart, "i64"))) * number(
            sources, "kernel", 1
        ) + tap
        x = cast(sources[0][(*at[: lead - 1], row, line * number(sources, "out", 1) + x)], compute)
        return (select(is_there, x, const(0, compute)),)

    def lines(at: At, sources: Sequence[Any]) -> tuple[Value, Value]:
        """The lines of windows that reach a place."""
        here = at[lead] + number(sources, "padding", 0)
        first = idiv(
            max_(here - (number(sources, "kernel", 0) - ONE) * const(apart, "i64") + const(down - 1, "i64"), ZERO),
            const(down, "i64"),
        )
        return first, max_(min_(number(sources, "out", 0), idiv(here, const(down, "i64")) + ONE), first)

    def taps(at: At, sources: Sequence[Any]) -> tuple[Value, Value]:
        """The taps along a row whose windows exist: windows lie between 0 and out."""
        if tap_x in at.whole:
            return ZERO, number(sources, "kernel", 1)
        here, most = column(at) + const(pad, "i64"), (number(sources, "out", 1) - ONE) * const(step, "i64")
        first = idiv(max_(here - most + const(gap - 1, "i64"), ZERO), const(gap, "i64"))
        return first, max_(min_(number(sources, "kernel", 1), idiv(here, const(gap, "i64")) + ONE), first)

    def whole(at: At, sources: Sequence[Any]) -> Value:
        """Places of which every tap's window exists; of the places between two steps, all of them."""
        first = at[x_range] * const(up, "i64") + const(pad - (int(kernel[1]) - 1) * gap, "i64")
        last = at[x_range] * const(up, "i64") + const(up - 1 + pad, "i64")
        return ge(first, ZERO) & le(last, (number(sources, "out", 1) - ONE) * const(step, "i64"))

    windows = (*([] if few else [(line_range, Window(lines))]), (tap_x, Window(taps, whole if written else None)))
    ranges = (*shape[:-1], size[1] // up, *([up] if up > 1 else []), reached, kernel[1])
    folding = Folding(
        Total(),
        compute,
        frozenset((line_range, tap_x)),
        windows=windows,
        written=frozenset([tap_x] * written + [line_range] * few + [x_range + 1] * (up > 1)),
    )
    key = ("fold", lead, up, written, (step, gap, pad, int(kernel[1]), down, apart, reached if few else 0))
    return Lowered("fold", key, ranges, shape, (code,), reads, body, aligned=False, folding=folding)
