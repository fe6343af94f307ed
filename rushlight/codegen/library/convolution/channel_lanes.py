"""Convolution kernels for groups of one channel whose planes are small: neighbouring channels in the lanes of a vector.

Enters: the dtype (float32). Leaves: `Kernel`s with the usual ABI for the result and for the gradient of the weight.
Refuses nothing: the planner (planners/convolutions/lanes.py) chooses them for planes that are runs of memory, in blocks
that fit the buffers, and for at least as many channels as a vector has lanes.

A row shorter than a vector leaves lanes empty, and vectors of it begin anywhere in a cache line. Here every pixel is a
vector of its own: planes of neighbouring channels are transposed into a padded buffer, four pixels of four channels at
a time, a weight is a vector too, and results are transposed back. The table says what is computed: runs of results that
see the same taps, so that strides of a gradient, whose remainders see different ones, are runs of one call.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from ...text.writer import ABI, Loop, Reg, Writer, declarations
from ..interface import Interface, Tile, declare, load_params, load_pointers
from .finish import Evaluator, Finish, variables

PARAMS = (
    "channels", "images", "in_image", "in_channel", "out_image", "out_channel",
    "positions", "weight", "bias",                 # of a kernel; distance of channels' weights; 1 if there is a bias
    "places", "taps", "blocks",                    # in the table: places of the input's pixels, taps, blocks, then runs
    "room", "abreast", "step",                     # pixels of the buffer; results computed together, and their distance
)
TAP = 2                  # a tap: its place in the buffer, its weight's, in elements
BLOCK = 6                # a block of rows: its first pixel, its first result and its first run, and how many of each
RUN = 6                  # a run: its first tap, past its last; places in buffer and results; how many; how far apart
QUAD = 4                 # pixels that are transposed together
ABREAST = (8, 7, 4)      # results computed together: as many as multiply-adds are under way
STEPS = (1, 2)           # distances of their pixels
BUFFER = 1 << 15         # bytes of padded input and results of a block: half of the nearest cache
POSITIONS = 49           # of a kernel
TAPS = 9                 # whose gradients are computed together
CHUNK = 64               # pixels whose products are summed one after the other


def in_quarters(tile: Tile, half: int) -> tuple[list[int], list[int]]:
    """Lanes of two vectors by turns, `half` at a time, within each four: of their first halves, and of their others."""
    found: tuple[list[int], list[int]] = ([], [])
    for first in range(0, tile.lanes, QUAD):
        for which, order in enumerate(found):
            for k in range(which * 2, which * 2 + 2, half):
                for vector in (0, tile.lanes):
                    order += range(vector + first + k, vector + first + k + half)
    return found


def transposed(w: Writer, tile: Tile, rows: list[Reg]) -> list[Reg]:
    """Four vectors, of which each four lanes are transposed with those of the others."""
    (low, high), (near, far) = in_quarters(tile, 1), in_quarters(tile, 2)
    pairs = [[w.shuffle(rows[k], rows[k + 1], order) for order in (low, high)] for k in (0, 2)]
    return [w.shuffle(pairs[0][k], pairs[1][k], order) for k in (0, 1) for order in (near, far)]


def quads(w: Writer, count: Reg) -> AbstractContextManager[Loop]:
    """A loop over pixels, four at a time: the last four end with the last pixel, even where some are met again."""
    return w.loop(0, count, QUAD)


def gathered(w: Writer, tile: Tile, source: Reg, apart: Reg) -> list[Reg]:
    """Vectors of channels for four neighbours of `source`; channels are `apart` elements from each other."""
    piece, rows = f"<{QUAD} x {tile.element}>", []
    for k in range(QUAD):
        parts = [
            w.load(piece, w.at(source, w.mul(apart, channel), tile.element), tile.size)
            for channel in range(k, tile.lanes, QUAD)
        ]
        while len(parts) > 1:
            size = 2 * int(parts[0].type[1:].split()[0])
            parts = [w.shuffle(a, b, range(size)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        rows += parts
    return transposed(w, tile, rows)


def fill_text(tile: Tile) -> str:
    """fill(buffer, planes, apart, places, pixels): planes into the buffer, pixels at `places`."""
    args = [("ptr", "buffer"), ("ptr", "planes"), ("i64", "apart"), ("ptr", "places"), ("i64", "pixels")]
    w = Writer("fill", args, "internal ")
    with quads(w, w["pixels"]) as p:
        at = w.min(p.i, w.sub(w["pixels"], QUAD))
        values = gathered(w, tile, w.at(w["planes"], at, tile.element), w["apart"])
        for k, value in enumerate(values):
            place = w.load("i64", w.at(w["places"], w.add(at, k), "i64"), 8)
            w.store(value, w.at(w["buffer"], place, tile.element), tile.size * tile.lanes)
    return w.text()


def line_up_text(tile: Tile) -> str:
    """line_up(target, planes, apart, pixels): planes, or weights of a kernel's positions, vector by vector."""
    w = Writer("line_up", [("ptr", "target"), ("ptr", "planes"), ("i64", "apart"), ("i64", "pixels")], "internal ")
    with quads(w, w["pixels"]) as p:
        at = w.min(p.i, w.sub(w["pixels"], QUAD))
        values = gathered(w, tile, w.at(w["planes"], at, tile.element), w["apart"])
        for k, value in enumerate(values):
            place = w.at(w["target"], w.mul(w.add(at, k), tile.lanes), tile.element)
            w.store(value, place, tile.size * tile.lanes)
    return w.text()


def spread_text(tile: Tile) -> str:
    """spread(results, planes, apart, pixels): vectors of channels back into planes."""
    w = Writer("spread", [("ptr", "results"), ("ptr", "planes"), ("i64", "apart"), ("i64", "pixels")], "internal ")
    with quads(w, w["pixels"]) as p:
        at = w.min(p.i, w.sub(w["pixels"], QUAD))
        places = [w.at(w["results"], w.mul(w.add(at, k), tile.lanes), tile.element) for k in range(QUAD)]
        rows = transposed(w, tile, [w.load(tile.vector, place, tile.size * tile.lanes) for place in places])
        target = w.at(w["planes"], at, tile.element)
        for channel in range(tile.lanes):
            row, first = rows[channel % QUAD], channel // QUAD * QUAD
            piece = w.shuffle(row, row, range(first, first + QUAD))
            w.store(piece, w.at(target, w.mul(w["apart"], channel), tile.element), tile.size)
    return w.text()


def runs_text(tile: Tile, abreast: int, step: int, finish: Finish | None, known: dict[str, str]) -> str:
    """runsA_S(buffer, factors, table of taps, runs, count, results, start, numbers): results of all runs, `abreast` at
    a time, the last of which end with the run; their pixels are `step` apart."""
    args = [("ptr", "buffer"), ("ptr", "factors"), ("ptr", "taps"), ("ptr", "runs"), ("i64", "count"),
            ("ptr", "results"), (tile.vector, "start")]
    args += [(tile.vector, f"number{k}") for k in range(0 if finish is None else finish.channels)]
    w = Writer(f"runs{abreast}_{step}", args, "internal ")
    whole = tile.size * tile.lanes
    with w.loop(0, w["count"]) as r:
        run = w.at(w["runs"], w.mul(r.i, RUN), "i64")
        first, past, place, to, length, apart = (w.load("i64", w.at(run, k, "i64"), 8) for k in range(RUN))
        with w.loop(0, length, abreast) as x:
            at = w.min(x.i, w.sub(length, abreast))
            source = w.at(w["buffer"], w.add(place, w.mul(at, step * tile.lanes)), tile.element)
            with w.loop(first, past, carry=[w["start"]] * abreast) as t:
                entry = w.at(w["taps"], w.mul(t.i, TAP), "i64")
                seen = w.at(source, w.load("i64", entry, 8), tile.element)
                weight = w.at(w["factors"], w.load("i64", w.at(entry, 1, "i64"), 8), tile.element)
                factor = w.load(tile.vector, weight, whole)
                t.next = [
                    w.fma(w.load(tile.vector, w.at(seen, k * step * tile.lanes, tile.element), whole), factor, total)
                    for k, total in enumerate(t.carry)
                ]
            target = w.at(w["results"], w.add(to, w.mul(at, apart)), tile.element)
            for k, value in enumerate(behind(w, tile, finish, t.carry, known)):
                w.store(value, w.at(target, w.mul(apart, k), tile.element), whole)
    return w.text()


def behind(w: Writer, tile: Tile, finish: Finish | None, sums: list[Reg], known: dict[str, str]) -> list[Reg]:
    """What comes behind sums (finish.py); `known` gets what it calls."""
    if finish is None:
        return sums
    evaluator = Evaluator(w, finish)
    numbers = [w[f"number{k}"] for k in range(finish.channels)]
    results = evaluator.results(tile.lanes, [variables([value], numbers) for value in sums])
    known.update(evaluator.out.declared)
    return [Reg(value, tile.vector) for value in results]


def clear(w: Writer, tile: Tile, target: Reg, vectors: Reg) -> None:
    """So many vectors of zeros."""
    with w.loop(0, vectors) as p:
        place = w.at(target, w.mul(p.i, tile.lanes), tile.element)
        w.store(Reg("zeroinitializer", tile.vector), place, tile.size * tile.lanes)


def forward_text(tile: Tile, finish: Finish | None = None) -> str:
    """Blocks of channels one after the other, images inside: weights are transposed once for all of them."""
    w = Writer("conv_channel_lanes", ABI)
    buffer = w.scratch(tile.element, BUFFER // tile.size)
    results = w.scratch(tile.element, BUFFER // tile.size)
    factors = w.scratch(tile.element, POSITIONS * tile.lanes)
    load_params(w, PARAMS)
    load_pointers(w, *FORWARD.operands)
    clear(w, tile, buffer, w["room"])
    taps = w.at(w["table"], w["places"], "i64")
    blocks = w.at(taps, w.mul(w["taps"], TAP), "i64")
    runs = w.at(blocks, w.mul(w["blocks"], BLOCK), "i64")
    with w.loop(w["begin"], w["end"], carry=[Reg("-1", "i64")]) as item:
        image = w.rem(item.i, w["images"])
        # the last channels with some that were met before: results are written again, as they were
        channel = w.min(w.mul(w.div(item.i, w["images"]), tile.lanes), w.sub(w["channels"], tile.lanes))
        with w.when(w.compare("ne", channel, item.carry[0])):
            own = w.at(w["weights"], w.mul(channel, w["weight"]), tile.element)
            w.call("line_up", factors, own, w["weight"], w["positions"])
        planes = w.at(w["input"], w.add(w.mul(image, w["in_image"]), w.mul(channel, w["in_channel"])), tile.element)
        to = w.at(w["result"], w.add(w.mul(image, w["out_image"]), w.mul(channel, w["out_channel"])), tile.element)
        biased = w.compare("eq", w["bias"], 1)
        given = w.select(biased, w.at(w["bias_data"], channel, tile.element), factors)
        zero = Reg("zeroinitializer", tile.vector)
        start = w.new(tile.vector, f"select {biased}, {w.load(tile.vector, given, tile.size)}, {zero}")
        rest = range(len(FORWARD.operands), len(FORWARD.operands) + (0 if finish is None else finish.channels))
        numbers = [w.at(w.load("ptr", w.at(w["ptrs"], k, "ptr"), 8), channel, tile.element) for k in rest]
        numbers = [w.load(tile.vector, q, tile.size) for q in numbers]
        with w.loop(0, w["blocks"]) as b:
            block = w.at(blocks, w.mul(b.i, BLOCK), "i64")
            pixel, pixels, first, count, run, length = (w.load("i64", w.at(block, k, "i64"), 8) for k in range(BLOCK))
            w.call("fill", buffer, w.at(planes, pixel, tile.element), w["in_channel"], w["table"], pixels)
            own = w.at(runs, w.mul(run, RUN), "i64")
            for step in STEPS:
                for some in ABREAST:
                    chosen = w.both(w.compare("eq", w["step"], step), w.compare("eq", w["abreast"], some))
                    with w.when(chosen):
                        w.call(f"runs{some}_{step}", buffer, factors, taps, own, length, results, start, *numbers)
            w.call("spread", results, w.at(to, first, tile.element), w["out_channel"], count)
        item.next = [channel]
    known: dict[str, str] = {}
    texts = [runs_text(tile, abreast, step, finish, known) for step in STEPS for abreast in ABREAST]
    plain = declarations(tile.lanes, tile.element)
    more = [line for line in known.values() if line not in plain]
    return "\n".join([w.text(), fill_text(tile), line_up_text(tile), spread_text(tile), *texts, plain, *more])


# --- gradient of the weight -------------------------------------------------------------------------------------------

WEIGHT_PARAMS = (
    "channels", "images", "in_image", "in_channel", "out_image", "out_channel",
    "places", "sights", "taps", "blocks", "room",
)
SIGHT = 5                # a block: its first pixel and how many, their place in the buffer; its first result, how many


def sums_text(tile: Tile) -> str:
    """sums(gradients, buffer, seen, first, past, taps, count, sums): add the products of gradients of pixels [first,
    past), which see the buffer at `seen`, to the sums of some taps; in place of those past the last of `count`, the
    last again."""
    args = [("ptr", "gradients"), ("ptr", "buffer"), ("ptr", "seen"), ("i64", "first"), ("i64", "past"),
            ("ptr", "taps"), ("i64", "count"), ("ptr", "sums")]
    w = Writer("sums", args, "internal ")
    whole, last = tile.size * tile.lanes, w.sub(w["count"], 1)
    windows = [
        w.at(w["buffer"], w.load("i64", w.at(w["taps"], w.min(Reg(str(t), "i64"), last), "i64"), 8), tile.element)
        for t in range(TAPS)
    ]
    with w.loop(w["first"], w["past"], carry=[Reg("zeroinitializer", tile.vector)] * TAPS) as p:
        gradient = w.load(tile.vector, w.at(w["gradients"], w.mul(p.i, tile.lanes), tile.element), whole)
        seen = w.load("i64", w.at(w["seen"], p.i, "i64"), 8)
        p.next = [
            w.fma(w.load(tile.vector, w.at(window, seen, tile.element), whole), gradient, total)
            for window, total in zip(windows, p.carry, strict=True)
        ]
    for t, total in enumerate(p.carry):
        with w.when(w.compare("sle", Reg(str(t), "i64"), last)):
            place = w.at(w["sums"], t * tile.lanes, tile.element)
            w.store(w.fadd(w.load(tile.vector, place, whole), total), place, whole)
    return w.text()


def weight_text(tile: Tile) -> str:
    """Blocks of channels one after the other, the sums of each over all images."""
    w = Writer("conv_channel_lanes_weight", ABI)
    buffer = w.scratch(tile.element, BUFFER // tile.size)
    gradients = w.scratch(tile.element, BUFFER // tile.size)
    sums = w.scratch(tile.element, POSITIONS * tile.lanes)
    load_params(w, WEIGHT_PARAMS)
    load_pointers(w, *WEIGHT.operands)
    clear(w, tile, buffer, w["room"])
    seen = w.at(w["table"], w["places"], "i64")
    taps = w.at(seen, w["sights"], "i64")
    blocks = w.at(taps, w["taps"], "i64")
    with w.loop(w["begin"], w["end"]) as item:
        channel = w.min(w.mul(item.i, tile.lanes), w.sub(w["channels"], tile.lanes))
        clear(w, tile, sums, w["taps"])
        with w.loop(0, w["images"]) as image:
            planes = [
                w.at(w[of], w.add(w.mul(image.i, w[f"{a}_image"]), w.mul(channel, w[f"{a}_channel"])), tile.element)
                for of, a in (("input", "in"), ("gradient", "out"))
            ]
            with w.loop(0, w["blocks"]) as b:
                block = w.at(blocks, w.mul(b.i, SIGHT), "i64")
                pixel, pixels, place, first, count = (w.load("i64", w.at(block, k, "i64"), 8) for k in range(SIGHT))
                with w.when(w.compare("sgt", w["blocks"], 1)):     # what is outside in one is inside in another
                    clear(w, tile, buffer, w["room"])
                inside = w.at(buffer, place, tile.element)
                w.call("fill", inside, w.at(planes[0], pixel, tile.element), w["in_channel"], w["table"], pixels)
                w.call("line_up", gradients, w.at(planes[1], first, tile.element), w["out_channel"], count)
                with w.loop(0, count, CHUNK) as p, w.loop(0, w["taps"], TAPS) as t:
                    past = w.min(w.add(p.i, CHUNK), count)
                    own = w.at(sums, w.mul(t.i, tile.lanes), tile.element)
                    some = w.at(taps, t.i, "i64")
                    w.call("sums", gradients, buffer, seen, p.i, past, some, w.sub(w["taps"], t.i), own)
        to = w.at(w["result"], w.mul(channel, w["taps"]), tile.element)
        w.call("spread", sums, to, w["taps"], w["taps"])
    texts = [fill_text(tile), line_up_text(tile), spread_text(tile), sums_text(tile)]
    return "\n".join([w.text(), *texts, declarations(tile.lanes, tile.element)])


FORWARD = declare(
    Interface(
        "conv_channel_lanes",
        ("input", "weights", "bias_data", "table", "result"),
        PARAMS,
        "blocks of channels, images",
        forward_text,
        codes=("f32",),
        finishes="channels",
    )
)
WEIGHT = declare(
    Interface(
        "conv_channel_lanes_weight",
        ("gradient", "input", "table", "result"),
        WEIGHT_PARAMS,
        "blocks of channels; the result is [channels, taps]",
        weight_text,
        codes=("f32",),
    )
)
