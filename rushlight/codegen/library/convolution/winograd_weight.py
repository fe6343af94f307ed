"""The gradient of a 3x3 convolution's weight in tiles of 2x4 results, with a third of the multiplications.

Enters: nothing but the processor. Leaves: four `Kernel`s, for float32: inputs at the points of winograd.py, output
gradients likewise, dot products of both over tiles, and the weight's gradient from those. Refuses nothing:
see planners/convolutions/tiles.py.

Every rule here is the transpose of one there. Memory between the kernels: inputs [point, channel, tile] and gradients
[point, output, tile], rows `line` elements apart; dots [point, output, channel], points `apart` elements apart.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ...text.writer import ABI, Reg, Writer, declarations
from ..interface import Interface, Tile, declare, load_params, load_pointers
from .dots import call_dots, dot_texts
from .packing import RUN, clear_tail, find_runs
from .winograd import (
    BLOCK,
    COLUMNS,
    HIGH,
    PLANES,
    POINTS,
    ROWS,
    SLICE,
    TILES,
    WIDE,
    A,
    B,
    Rule,
    block_of,
    flat,
    in_both,
    input_across,
    input_down,
    vectors,
    windows_text,
)

LINES = (*TILES, "line")
DOTS = ("outs", "channels", "tiles", "line", "cuts", "adds", "apart")
RESULT = ("outs", "channels", "apart")
STEPS = 32               # products that a lane sums one after the other


def gradient_down(w: Writer, y: Sequence[Reg]) -> list[Reg]:
    """Two gradients to their four points: interpolation, transposed."""
    return [y[0], w.fadd(y[0], y[1]), w.fsub(y[0], y[1]), y[1]]


def gradient_across(w: Writer, y: Sequence[Reg]) -> list[Reg]:
    """Four gradients to their six points: interpolation, transposed."""
    k = functools.partial(w.constant, y[0].type)
    result = [y[0]]
    for point in (A, B):
        even, odd = w.fma(k(point**2), y[2], y[0]), w.fma(k(point**2), y[3], y[1])
        result += [w.fma(k(point), odd, even), w.fma(k(-point), odd, even)]
    return [*result, y[3]]


def collect_down(w: Writer, u: Sequence[Reg]) -> list[Reg]:
    """Dots at four points to three weights: their evaluation, transposed."""
    half = w.constant(u[0].type, 0.5)
    plus, minus = w.fadd(u[1], u[2]), w.fsub(u[1], u[2])
    return [w.fma(half, plus, u[0]), w.fmul(half, minus), w.fma(half, plus, u[3])]


def collect_across(w: Writer, u: Sequence[Reg]) -> list[Reg]:
    """Dots at six points to three weights: their evaluation, transposed."""
    k = functools.partial(w.constant, u[0].type)
    divisors = [2 * p * p * (p * p - q * q) for p, q in ((A, B), (B, A))]
    plus, minus = [w.fadd(u[1], u[2]), w.fadd(u[3], u[4])], [w.fsub(u[1], u[2]), w.fsub(u[3], u[4])]
    first, last = u[0], u[5]
    for point, divisor, value in zip((A, B), divisors, plus, strict=True):
        first, last = w.fma(k(1 / divisor), value, first), w.fma(k(point * point / divisor), value, last)
    middle = w.fma(k(A / divisors[0]), minus[0], w.fmul(k(B / divisors[1]), minus[1]))
    return [first, middle, last]


def rows_text(name: str, size: tuple[int, int], down: Rule, across: Rule, tile: Tile) -> str:
    """Windows of `size` at their points, in rows of tiles that end with zeros to a whole vector."""
    stride = BLOCK + tile.lanes
    w = Writer(name, ABI)
    windows = w.scratch(tile.element, POINTS * stride)
    runs, offsets = w.scratch("i64", RUN * BLOCK), w.scratch("i64", BLOCK)
    load_params(w, LINES)
    load_pointers(w, "input", "result")
    step = w.mul(w["channels"], w["line"])
    with w.loop(w["begin"], w["end"]) as item:
        part, block, first, count = block_of(w, item.i)
        number = find_runs(w, runs, offsets, first, count)
        padded = w.mul(w.div(w.add(count, tile.lanes - 1), tile.lanes), tile.lanes)
        channel0 = w.mul(part, SLICE)
        with w.loop(channel0, w.min(w.add(channel0, SLICE), w["channels"])) as c:
            w.call(
                "windows",
                windows,
                runs,
                number,
                w.at(w["input"], w.mul(c.i, w["in_channel"]), tile.element),
                w["params"],
            )
            clear_tail(w, tile, windows, Reg("0", "i64"), Reg(str(size[0] * size[1]), "i64"), stride, count, padded)
            own = w.at(w["result"], w.add(w.mul(c.i, w["line"]), w.mul(block, BLOCK)), tile.element)
            with w.loop(0, padded, tile.lanes) as v:
                source, target = w.at(windows, v.i, tile.element), w.at(own, v.i, tile.element)
                for row in in_both(w, down, across, size, vectors(w, tile, source, size[1], stride)):
                    for value in row:
                        w.store(value, target, tile.size)
                        target = w.at(target, step, tile.element)
    return "\n".join([w.text(), windows_text(tile, stride, size), declarations(tile.lanes, tile.element)])


def dots_text(tile: Tile) -> str:
    """One matrix product per point, over tiles; results are set, or added to those of the chunk of tiles before."""
    w = Writer("conv_winograd_dots", ABI)
    edge = w.scratch(tile.element, tile.dot_rows * tile.dot_columns)
    load_params(w, DOTS)
    load_pointers(w, *DOTS_KERNEL.operands)
    line, adds = w["line"], w.compare("eq", w["adds"], 1)
    per_cut = w.mul(
        w.div(w.add(w["channels"], w.sub(w.mul(w["cuts"], tile.dot_columns), 1)), w.mul(w["cuts"], tile.dot_columns)),
        tile.dot_columns,
    )
    with w.loop(w["begin"], w["end"]) as item:
        point, cut = w.div(item.i, w["cuts"]), w.rem(item.i, w["cuts"])
        left = w.at(w["gradients"], w.mul(w.mul(point, w["outs"]), line), tile.element)
        right = w.at(w["inputs"], w.mul(w.mul(point, w["channels"]), line), tile.element)
        result = w.at(w["result"], w.mul(point, w["apart"]), tile.element)
        begin = w.mul(cut, per_cut)
        with (
            w.loop(begin, w.min(w.add(begin, per_cut), w["channels"]), tile.dot_columns) as j,
            w.loop(0, w["outs"], tile.dot_rows) as i,
        ):
            a, b = w.at(left, w.mul(i.i, line), tile.element), w.at(right, w.mul(j.i, line), tile.element)
            corner = w.at(result, w.add(w.mul(i.i, w["channels"]), j.i), tile.element)
            rows, columns = w.sub(w["outs"], i.i), w.sub(w["channels"], j.i)
            # the next inputs come nearer meanwhile, one line with each of the first outputs
            nth = w.add(w.rem(w.div(i.i, tile.dot_rows), tile.dot_columns), tile.dot_columns)
            later = w.at(b, w.mul(nth, line), tile.element)
            span = STEPS * tile.lanes
            with w.loop(0, w["tiles"], span) as t:
                left_part, right_part, count = (
                    w.at(a, t.i, tile.element),
                    w.at(b, t.i, tile.element),
                    w.min(w.sub(w["tiles"], t.i), span),
                )
                ahead = w.at(later, t.i, tile.element)
                more = w.new("i1", f"or {adds}, {w.compare('sgt', t.i, 0).text}")
                place = (corner, w["channels"], more)
                call_dots(w, tile, rows, columns, (left_part, line, right_part, line, count), place, edge, ahead)
    return "\n".join([w.text(), *dot_texts(tile), declarations(tile.lanes, tile.element)])


def result_text(tile: Tile) -> str:
    """Channels are the lanes; their 3x3 weights are stored one by one."""
    w = Writer("conv_winograd_result", ABI)
    square = w.scratch(tile.element, 9 * tile.lanes)
    load_params(w, RESULT)
    load_pointers(w, *RESULT_KERNEL.operands)
    with w.loop(w["begin"], w["end"]) as o, w.loop(0, w["channels"], tile.lanes) as c:
        source = w.at(w["dots"], w.add(w.mul(o.i, w["channels"]), c.i), tile.element)
        element = vectors(w, tile, source, COLUMNS, w["apart"])
        result = in_both(w, collect_down, collect_across, (ROWS, COLUMNS), element)
        for n, value in enumerate(flat(result)):
            w.store(value, w.at(square, n * tile.lanes, tile.element), tile.size)
        target = w.at(w["result"], w.mul(w.add(w.mul(o.i, w["channels"]), c.i), 9), tile.element)
        with w.loop(0, w.min(w.sub(w["channels"], c.i), tile.lanes)) as lane, w.loop(0, 9) as n:
            value = w.load(tile.element, w.at(square, w.add(w.mul(n.i, tile.lanes), lane.i), tile.element), tile.size)
            w.store(value, w.at(target, w.add(w.mul(lane.i, 9), n.i), tile.element), tile.size)
    return "\n".join([w.text(), declarations(tile.lanes, tile.element)])


INPUT = declare(
    Interface(
        "conv_winograd_rows", ("input", "result"), LINES, "slices of channels, blocks of tiles",
        functools.partial(rows_text, "conv_winograd_rows", (ROWS, COLUMNS), input_down, input_across), ("f32",), PLANES,
    )
)
GRADIENT = declare(
    Interface(
        "conv_winograd_gradients", ("input", "result"), LINES, "slices of outputs, blocks of tiles",
        functools.partial(rows_text, "conv_winograd_gradients", (HIGH, WIDE), gradient_down, gradient_across), ("f32",),
        PLANES,
    )
)
DOTS_KERNEL = declare(
    Interface(
        "conv_winograd_dots", ("gradients", "inputs", "result"), DOTS, "points, cuts of channels", dots_text, ("f32",)
    )
)
RESULT_KERNEL = declare(
    Interface(
        "conv_winograd_result",
        ("dots", "result"),
        RESULT,
        "outputs; the result is [outs, channels, 3, 3]",
        result_text,
        ("f32",),
    )
)
