"""Convolution kernels: implicit matrix products over windows packed into scratch memory that stays in cache.

Enters: the dtype. Leaves: `Kernel`s with the usual ABI, behind interfaces. `FORWARD` multiplies weights with windows of
an input, for convolutions and (with mirrored taps) for gradients of their inputs. `WEIGHT` sums products of output
gradients and windows over pixels: windows are transposed,
so that their rows are lanes (dots.py does the same with pixels as lanes).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...text.writer import ABI, Reg, Writer, declarations, mask_declarations
from ..interface import Interface, Tile, declare, load_params, load_pointers
from .finish import Finish, finish_text
from .micro_kernel import (
    ADD,
    BIAS,
    ZERO,
    call_multiply,
    multiply_near_text,
    multiply_text,
    multiply_texts,
    transposed,
)
from .packing import GEOMETRY, JOINED, RUN, TAP, find_runs, join_runs, pack_gradients, pack_text

NEAR = 128         # products summed one after the other; longer sums are sums of such sums, which lose fewer bits
NEAR_MOST = 160    # or all of them, where there are hardly more
PLACES = ("a_group", "a_panel", "a_row", "inner", "a_jump")   # where weights lie: micro_kernel.py
# bytes for sums of tiles that cannot be stored where they belong until they are complete; and where vectors have masks,
# whose blocks meet more outputs
SPARE, MASKED_SPARE = 49152 * 4, 49152 * 8
CHUNK = 192        # window rows transposed at once
LINE = 64          # bytes of a line of the cache
SLICE = 64         # outputs whose gradients are packed at once
# window rows up to which all panels of outputs meet a block of them in turn: they leave the nearest cache room for
# weights and results, and where they are single pixels, read where they lie, each is in a page of memory of its own
IN_RUNS = 48


def spare_tiles(tile: Tile) -> int:
    """How many register tiles fit into the spare memory."""
    return spare_bytes(tile) // (tile.size * tile.rows * tile.columns)


def spare_bytes(tile: Tile) -> int:
    return MASKED_SPARE if tile.masked else SPARE


def forward_text(tile: Tile, finish: Finish | None = None) -> str:
    """Per item, slice after slice of window rows, and strip after strip of a block's pixels:
    every panel of weights meets the strip.

    A strip of windows is as wide as a register tile and stays in the nearest cache. With masks it is packed when its
    turn comes; without, rows are packed for the whole block, since short runs would take too long.
    """
    stride = tile.strip if tile.masked else tile.pitch
    w = Writer("conv_forward", ABI)
    windows = w.scratch(tile.element, (NEAR_MOST if tile.masked else tile.depth) * stride)
    runs, offsets, joined = (
        w.scratch("i64", RUN * tile.block),
        w.scratch("i64", tile.block),
        w.scratch("i64", JOINED * tile.block),
    )
    numbers = w.scratch("i64", tile.block) if tile.masked else None
    spare = w.scratch(tile.element, spare_bytes(tile) // tile.size)
    load_params(w, FORWARD.params)
    load_pointers(w, *FORWARD.operands)
    with w.loop(w["begin"], w["end"]) as item:
        block, above = w.rem(item.i, w["blocks"]), w.div(item.i, w["blocks"])
        cut, group = w.rem(above, w["cuts"]), w.div(above, w["cuts"])
        first = w.mul(block, w["block"])
        count = w.min(w.sub(w["pixels"], first), w["block"])
        number = find_runs(w, runs, offsets, first, count, numbers)
        stretches = join_runs(w, joined, runs, offsets, number)
        source = w.at(w["input"], w.mul(group, w["in_group"]), tile.element)
        target = w.at(w["result"], w.mul(group, w["out_group"]), tile.element)
        bias = w.at(w["bias_data"], w.mul(group, w["outs"]), tile.element)
        weights = w.at(w["weights"], w.mul(group, w["a_group"]), tile.element)
        panel0 = w.mul(cut, w["per_cut"])
        panels = w.min(w.add(panel0, w["per_cut"]), w["panels"])
        packed_rows = w["rows"]
        if tile.by_lane:
            in_runs = writes_runs(w, tile, joined, stretches)
            in_place = w.both(in_runs, reads_pixels(w, runs, number, stretches))
            packed_rows = w.select(in_runs, 0, packed_rows)
            with w.when(w.both(in_runs, w.negate(in_place))):
                w.call("pack", windows, runs, 0, number, 0, count, source, w["table"], 0, w["rows"], w["params"])
            with w.loop(0, w.select(in_runs, stretches, 0)) as s:
                entry = w.at(joined, w.mul(s.i, JOINED), "i64")
                offset, length, place = (w.load("i64", w.at(entry, n, "i64"), 8) for n in range(JOINED))
                run = w.at(runs, w.select(in_place, w.mul(s.i, RUN), 0), "i64")
                lying = w.at(source, w.load("i64", run, 8), tile.element)
                of = w.select(in_place, lying, w.at(windows, place, tile.element))
                step, ahead = w.select(in_place, w["in_channel"], stride), w.select(in_place, length, 0)
                to = w.at(target, offset, tile.element)
                multiply_pixels(w, tile, of, step, length, to, bias, weights, panel0, panels, ahead)
        with w.loop(0, packed_rows, w["depth"]) as slice_:
            depth = w.min(w.sub(w["rows"], slice_.i), w["depth"])
            rest = (offsets, joined, stretches, count, target, bias, weights, spare, panel0, panels)
            if tile.masked:
                tiles = Tiles(w, tile, slice_.i, depth, *rest)
                with tiles.strips() as (nth, column, vectors):
                    past = w.min(w.add(column, w.mul(vectors, tile.lanes)), count)
                    begin, end = (w.load("i64", w.at(numbers, pixel, "i64"), 8) for pixel in (column, w.sub(past, 1)))
                    pack_strip(w, tile, windows, stride, runs, begin, end, column, past, count, source, slice_.i,
                               depth, vectors)
                    with w.loop(panel0, panels) as p:
                        tiles.one_tile(p.i, nth, column, vectors, windows)
            else:
                w.call("pack", windows, runs, 0, number, 0, count, source, w["table"], slice_.i, depth, w["params"])
                with w.loop(0, depth, w["near"]) as k:
                    tiles = Tiles(w, tile, w.add(slice_.i, k.i), w.min(w.sub(depth, k.i), w["near"]), *rest)
                    own = w.at(windows, w.mul(k.i, stride), tile.element)
                    with tiles.strips() as (nth, column, vectors), w.loop(panel0, panels) as p:
                        tiles.one_tile(p.i, nth, column, vectors, w.at(own, column, tile.element))
        if finish is not None:
            row0 = w.mul(panel0, tile.rows)
            rows = w.sub(w.min(w.mul(panels, tile.rows), w["outs"]), row0)
            finish_item(w, tile, target, joined, stretches, row0, rows, w.add(w.mul(group, w["outs"]), row0))
    products = (
        [multiply_text(tile, stride), multiply_near_text(tile)] if tile.by_lane else multiply_texts(tile, stride)
    )
    return with_finish("\n".join([w.text(), pack_text(tile, stride), *products, declared(tile)]), tile, finish, FORWARD)


def writes_runs(w: Writer, tile: Tile, joined: Reg, stretches: Reg) -> Reg:
    """Whether a block's results are neighbours in memory that fill whole tiles, and sums are short: panels of weights
    meet all of its pixels one after the other then, so that results are written in long runs."""
    with w.loop(0, stretches, carry=[Reg("0", "i64")]) as s:
        length = w.load("i64", w.at(joined, w.add(w.mul(s.i, JOINED), 1), "i64"), 8)
        s.next = [w.add(s.carry[0], w.rem(length, tile.columns))]
    result = w.compare("sle", w["rows"], IN_RUNS)
    for one, other in ((s.carry[0], 0), (w["out_column"], 1), (w.rem(w["outs"], tile.rows), 0)):
        result = w.both(result, w.compare("eq", one, other))
    return result


def reads_pixels(w: Writer, runs: Reg, number: Reg, stretches: Reg) -> Reg:
    """Whether the windows of such a block are single pixels inside of the input, neighbours in memory wherever results
    are: register tiles read them where they lie, since packing takes as long as a few sums."""
    result = w.compare("eq", number, stretches)
    for name in ("taps", "in_step"):
        result = w.both(result, w.compare("eq", w[name], 1))
    low, high = (w.load("i64", w.at(w["table"], n, "i64"), 8) for n in (TAP - 2, TAP - 1))
    with w.loop(0, w.select(result, number, 0), carry=[result]) as r:
        run = w.at(runs, w.mul(r.i, RUN), "i64")
        z, y, column, length = (w.load("i64", w.at(run, n, "i64"), 8) for n in range(1, 5))
        inside = w.both(w.compare("ult", z, w["in_d"]), w.compare("ult", y, w["in_h"]))
        inside = w.both(inside, w.compare("sge", column, low))
        r.next = [w.both(r.carry[0], w.both(inside, w.compare("sle", w.add(column, length), high)))]
    return r.carry[0]


def multiply_pixels(
    w: Writer, tile: Tile, of: Reg, step: Reg, count: Reg, to: Reg, bias: Reg, weights: Reg, panel0: Reg, panels: Reg,
    ahead: Reg,
) -> None:
    """Such a block, panel after panel of weights; its window rows are `step` elements apart, and every panel
    asks for a part of what is `ahead` of them."""
    with w.loop(panel0, panels) as p:
        a = w.at(weights, w.mul(p.i, w["a_panel"]), tile.element)
        row0, turn = w.mul(p.i, tile.rows), w.sub(p.i, panel0)
        asking, asked = (w.div(w.mul(n, count), w.sub(panels, panel0)) for n in (turn, w.add(turn, 1)))
        row, own = w.at(to, w.mul(row0, w["out_channel"]), tile.element), w.at(bias, row0, tile.element)
        w.call("multiply_near", a, of, w["rows"], row, w["out_channel"], own, w["bias"], step, ahead, count,
               asking, asked)


def pack_strip(
    w: Writer, tile: Tile, windows: Reg, stride: int, runs: Reg, begin: Reg, end: Reg, column: Reg, past: Reg,
    count: Reg, source: Reg, row: Reg, depth: Reg, vectors: Reg,
) -> None:
    """Window rows of the pixels [column, past) of a block, which are in runs [begin, end]."""
    # Lanes past the last pixel are multiplied too: zeros, since small numbers that memory may hold would be slow.
    last = w.at(windows, w.mul(w.sub(vectors, 1), tile.lanes), tile.element)
    with w.when(w.compare("ne", w.rem(count, tile.lanes), 0)):
        clear_vectors(w, tile, last, depth, stride, 1)
    w.call("pack", windows, runs, begin, w.add(end, 1), column, past, source, w["table"], row, depth, w["params"])


def finish_item(
    w: Writer, tile: Tile, target: Reg, joined: Reg, stretches: Reg, row0: Reg, rows: Reg, channel: Reg
) -> None:
    """What comes behind the sums of an item (finish.py): by then they are complete, and in the nearest caches."""
    with w.loop(0, stretches) as s:
        entry = w.at(joined, w.mul(s.i, JOINED), "i64")
        offset, length = (w.load("i64", w.at(entry, n, "i64"), 8) for n in (0, 1))
        to = w.at(target, w.add(w.mul(row0, w["out_channel"]), offset), tile.element)
        w.call("finish", to, w["out_channel"], rows, length, w["out_column"], channel, 1, w["ptrs"])


def with_finish(text: str, tile: Tile, finish: Finish | None, interface: Interface) -> str:
    """The text of a kernel, and of what it calls for its results."""
    if finish is None:
        return text
    operands = interface.operands
    return f"{text}\n{finish_text(tile, finish, len(operands), operands.index('result'), text)}"


def declared(tile: Tile) -> str:
    """Declarations of everything the texts here call."""
    return declarations(tile.lanes, tile.element) + (mask_declarations(tile.lanes, tile.element) if tile.masked else "")


FORWARD = declare(
    Interface(
        "conv_forward",
        ("input", "weights", "bias_data", "table", "result"),
        (*GEOMETRY, *PLACES, "block", "blocks", "panels", "cuts", "per_cut", "bias", "depth", "near"),
        "groups, cuts of outputs, blocks of pixels",
        forward_text,
        refuses=(
            "a block or depth beyond the tile's, more tiles of a cut than the spare memory holds, and weights in place"
            " whose outputs do not fill panels or whose inner taps do not fill depth and near"
        ),
        finishes="elements",
    )
)


class Tiles:
    """The tiles of a block over `many` window rows from the one numbered `row`: what writing one needs."""

    def __init__(
        self, w: Writer, tile: Tile, row: Reg, many: Reg, offsets: Reg, joined: Reg, stretches: Reg, count: Reg,
        target: Reg, bias: Reg, weights: Reg, spare: Reg, panel0: Reg, panels: Reg,
    ) -> None:
        self.w, self.tile, self.many = w, tile, many
        self.offsets, self.joined, self.stretches, self.count = offsets, joined, stretches, count
        self.target, self.bias, self.weights, self.spare, self.panel0, self.panels = (
            target,
            bias,
            weights,
            spare,
            panel0,
            panels,
        )
        self.per_row = -(-tile.block // tile.columns)
        self.begins, self.ends = w.compare("eq", row, 0), w.compare("sge", w.add(row, many), w["rows"])
        self.place = self.place_of(row)
        self.later = w.add(self.place_of(w.add(row, many)), w.mul(panel0, w["a_panel"]))

    def place_of(self, row: Reg) -> Reg:
        """Elements from a panel's first weight to those of a window row."""
        w = self.w
        step = self.tile.rows if self.tile.by_lane else 1
        return w.add(w.mul(w.div(row, w["inner"]), w["a_jump"]), w.mul(w.rem(row, w["inner"]), step))

    @contextmanager
    def strips(self) -> Iterator[tuple[Reg, Reg, Reg]]:
        """A loop over strips: number, first pixel, and vectors,
        which are shared out evenly where tiles of fewer exist."""
        w, tile = self.w, self.tile
        if tile.by_lane:
            with w.loop(0, self.count, tile.columns) as c:
                yield w.div(c.i, tile.columns), c.i, Reg(str(tile.vectors), "i64")
            return
        vectors = w.div(w.add(self.count, tile.lanes - 1), tile.lanes)
        strips = w.div(w.add(vectors, tile.vectors - 1), tile.vectors)
        with w.loop(0, strips) as t:
            first, past = (w.div(w.mul(n, vectors), strips) for n in (t.i, w.add(t.i, 1)))
            yield t.i, w.mul(first, tile.lanes), w.sub(past, first)

    def one_tile(self, panel: Reg, nth: Reg, column: Reg, vectors: Reg, b: Reg) -> None:
        """Multiply one tile straight into the result where it is whole and its pixels are neighbours,
        else into spare memory."""
        w, tile = self.w, self.tile
        row0 = w.mul(panel, tile.rows)
        left, width = w.sub(self.count, column), w.mul(vectors, tile.lanes)
        here = w.load("i64", w.at(self.offsets, column, "i64"), 8)
        last = w.min(w.sub(w.add(column, width), 1), tile.block - 1)
        dense = w.compare("eq", w.sub(w.load("i64", w.at(self.offsets, last, "i64"), 8), here), w.sub(width, 1))
        whole = w.both(w.compare("sle", width, left), w.compare("sle", w.add(row0, tile.rows), w["outs"]))
        direct = w.both(whole, dense)
        out = w.at(self.target, w.mul(row0, w["out_channel"]), tile.element)
        spot = w.add(w.mul(w.sub(panel, self.panel0), self.per_row), nth)
        sums = w.at(self.spare, w.mul(spot, tile.rows * tile.columns), tile.element)
        start = w.select(self.begins, w.select(direct, w["bias"], ZERO), ADD)
        to = w.select(direct, w.at(out, here, tile.element), sums)
        row = w.select(direct, w["out_channel"], tile.columns)
        bias = w.at(self.bias, row0, tile.element)
        a = w.at(self.weights, w.add(w.mul(panel, w["a_panel"]), self.place), tile.element)
        if tile.by_lane:
            w.call("multiply", a, b, self.many, to, row, bias, start)
        else:   # meanwhile the next panel comes nearer, or the first one's next weights
            goes_on = w.compare("slt", w.add(panel, 1), self.panels)
            ahead = w.select(goes_on, w.at(a, w["a_panel"], tile.element), w.at(self.weights, self.later, tile.element))
            inner = w.min(self.many, w["inner"])
            call_multiply(
                w, tile, vectors, a, w["a_row"], inner, w["a_jump"], b, self.many, to, row, bias, start, ahead
            )
        with w.when(w.both(self.ends, w.negate(direct))):
            self.put(out, sums, bias, column, w.min(left, width), w.min(w.sub(w["outs"], row0), tile.rows))

    def put(self, out: Reg, sums: Reg, bias: Reg, column: Reg, columns: Reg, rows: Reg) -> None:
        """Spare sums into the result, stretch by stretch of neighbouring pixels."""
        w, tile = self.w, self.tile
        biased = w.compare("eq", w["bias"], BIAS)
        with w.loop(0, self.stretches) as s:
            entry = w.at(self.joined, w.mul(s.i, JOINED), "i64")
            offset, length, place = (w.load("i64", w.at(entry, n, "i64"), 8) for n in range(JOINED))
            low, high = w.max(place, column), w.min(w.add(place, length), w.add(column, columns))
            to = w.at(out, w.add(offset, w.mul(w.sub(low, place), w["out_column"])), tile.element)
            of = w.at(sums, w.sub(low, column), tile.element)
            with w.when(w.compare("slt", low, high)), w.loop(0, rows, carry=[to, of]) as r:
                to, of = r.carry
                given = w.load(tile.element, w.select(biased, w.at(bias, r.i, tile.element), of), tile.size)
                value = w.select(biased, given, Reg("0.0", tile.element))
                put_row(w, tile, to, of, w.sub(high, low), value, w["out_column"])
                r.next = [w.at(to, w["out_channel"], tile.element), w.at(of, tile.columns, tile.element)]


def put_row(w: Writer, tile: Tile, to: Reg, of: Reg, count: Reg, value: Reg, step: Reg) -> None:
    """to[k * step] = of[k] + value."""
    begin: Reg | int = 0
    if tile.masked:
        unit, pair = (w.compare("eq", step, apart) for apart in (1, 2))
        every = w.splat(value, tile.lanes)
        for condition, apart in ((unit, 1), (pair, 2)):
            with w.loop(0, w.select(condition, count, 0), tile.lanes) as v:
                left = w.min(w.sub(count, v.i), tile.lanes)
                some = w.lanes_in(0, left, tile.lanes)
                result = w.fadd(w.load_some(tile.vector, w.at(of, v.i, tile.element), some, tile.size), every)
                place = w.at(to, w.mul(v.i, apart), tile.element)
                if apart == 2:      # each lane twice, of which the first is stored
                    result = w.shuffle(result, result, [k // 2 for k in range(2 * tile.lanes)])
                    past = w.sub(w.binary("shl", 1, w.mul(left, 2)), 1)
                    even = sum(1 << k for k in range(0, 2 * tile.lanes, 2))
                    some = w.mask(w.binary("and", past, even), 2 * tile.lanes)
                w.store_some(result, place, some, tile.size)
        begin = w.select(w.new("i1", f"or {unit}, {pair.text}"), count, 0)
    with w.loop(begin, count, carry=[to]) as j:
        w.store(w.fadd(w.load(tile.element, w.at(of, j.i, tile.element), tile.size), value), j.carry[0], tile.size)
        j.next = [w.at(j.carry[0], step, tile.element)]


# --- weights whose taps are no neighbours -----------------------------------------------------------------------------

SOME = 16          # channels whose weights are read side by side


def rows_text(tile: Tile) -> str:
    """Rows of weights [channel, tap], `pitch` elements apart, zeros past the last output.
    Some channels of all outputs are an item."""
    w = Writer("conv_rows", ABI)
    load_params(w, ROWS.params)
    load_pointers(w, *ROWS.operands)
    with w.loop(w["begin"], w["end"]) as item:
        group, first = w.div(item.i, w["parts"]), w.mul(w.rem(item.i, w["parts"]), SOME)
        count = w.min(w.sub(w["channels"], first), SOME)
        whole = w.compare("eq", count, SOME)
        with w.loop(0, w["padded"]) as out:
            exists = w.compare("slt", out.i, w["outs"])
            row = w.at(
                w["result"],
                w.add(w.mul(w.add(w.mul(group, w["padded"]), out.i), w["pitch"]), w.mul(first, w["taps"])),
                tile.element,
            )
            own = w.at(
                w["weights"],
                w.total(w.mul(group, w["group"]), w.mul(out.i, w["out"]), w.mul(first, w["channel"])),
                tile.element,
            )
            with w.when(exists), w.loop(0, w["taps"]) as tap:
                of = w.at(own, w.load("i64", w.at(w["table"], tap.i, "i64"), 8), tile.element)
                to = w.at(row, tap.i, tile.element)
                with w.when(whole):
                    place, target = of, to
                    for _ in range(SOME):
                        w.store(w.load(tile.element, place, tile.size), target, tile.size)
                        place, target = w.at(place, w["channel"], tile.element), w.at(target, w["taps"], tile.element)
                with w.when(w.negate(whole)), w.loop(0, count, carry=[of, to]) as c:
                    w.store(w.load(tile.element, c.carry[0], tile.size), c.carry[1], tile.size)
                    c.next = [w.at(c.carry[0], w["channel"], tile.element), w.at(c.carry[1], w["taps"], tile.element)]
            with w.when(w.negate(exists)), w.loop(0, w.mul(count, w["taps"])) as j:
                w.store(Reg("0.0", tile.element), w.at(row, j.i, tile.element), tile.size)
    return w.text()


ROWS = declare(
    Interface(
        "conv_rows", ("weights", "table", "result"),
        ("parts", "padded", "outs", "channels", "taps", "group", "out", "channel", "pitch"),
        "groups, parts of the channels; the table holds an offset per tap", rows_text,
    )
)


# --- gradient of the weight -------------------------------------------------------------------------------------------


def weight_text(tile: Tile) -> str:
    """Per item, walk blocks of pixels: pack windows, transpose them, and multiply rows of gradients with them."""
    stride, across = tile.pitch, tile.odd_lines(CHUNK + tile.lanes)
    w = Writer("conv_weight", ABI)
    windows = w.scratch(tile.element, (CHUNK + tile.lanes) * stride)
    transposed = w.scratch(tile.element, (tile.block + tile.lanes) * across)
    gradients = w.scratch(tile.element, (SLICE + tile.rows) * stride)
    runs, offsets, joined = (
        w.scratch("i64", RUN * tile.block),
        w.scratch("i64", tile.block),
        w.scratch("i64", JOINED * tile.block),
    )
    edge = w.scratch(tile.element, tile.rows * tile.columns)
    load_params(w, WEIGHT.params)
    load_pointers(w, *WEIGHT.operands)
    with w.loop(w["begin"], w["end"]) as item:
        chunk, above = w.rem(item.i, w["chunks"]), w.div(item.i, w["chunks"])
        part, group = w.rem(above, w["parts"]), w.div(above, w["parts"])
        row0 = w.mul(chunk, w["chunk"])
        depth = w.min(w.sub(w["rows"], row0), w["chunk"])
        source = w.at(w["input"], w.mul(group, w["in_group"]), tile.element)
        gradient = w.at(w["gradient"], w.mul(group, w["out_group"]), tile.element)
        result = w.at(w["result"], w.add(w.mul(above, w.mul(w["outs"], w["rows"])), row0), tile.element)
        pixel0 = w.mul(part, w["per_part"])
        pixels = w.min(w.add(pixel0, w["per_part"]), w["pixels"])
        # Rows past the last are multiplied too: zeros, since small numbers that memory may hold would be slow.
        whole = w.mul(w.div(w.add(depth, tile.lanes - 1), tile.lanes), tile.lanes)
        clear_vectors(
            w,
            tile,
            w.at(windows, w.mul(depth, stride), tile.element),
            w.sub(whole, depth),
            stride,
            stride // tile.lanes,
        )
        missing = w.rem(w["outs"], tile.rows)
        clear_vectors(
            w,
            tile,
            gradients,
            w.select(w.compare("eq", missing, 0), 0, SLICE + tile.rows),
            stride,
            stride // tile.lanes,
        )
        with w.loop(pixel0, pixels, w["block"]) as first:
            count = w.min(w.sub(pixels, first.i), w["block"])
            number = find_runs(w, runs, offsets, first.i, count)
            # Windows of one pixel, of one run: transposed from where they lie.
            lies = w.both(w.compare("eq", number, 1), w.compare("ne", w["single"], 0))
            with w.when(lies):
                own = w.at(source, w.add(w.mul(row0, w["in_channel"]), w.load("i64", runs, 8)), tile.element)
                transpose_rows(w, tile, transposed, across, own, w["in_channel"], depth, count, True)
            with w.when(w.negate(lies)):
                w.call("pack", windows, runs, 0, number, 0, count, source, w["table"], row0, depth, w["params"])
                transpose_rows(w, tile, transposed, across, windows, stride, depth, count)
            next_ = next_pixels(w, tile, source, row0, w.add(first.i, w["block"]))
            asked = w.min(w["block"], w.sub(pixels, w.add(first.i, count)))
            asked = w.select(w.compare("ne", w["single"], 0), asked, 0)
            stretches = join_runs(w, joined, runs, offsets, number)
            start = w.select(w.compare("eq", first.i, pixel0), ZERO, ADD)
            # Neighbouring pixels are read where they are; only rows of a tile that is not whole are packed.
            dense = w.both(w.compare("eq", stretches, 1), w.compare("eq", w["out_column"], 1))
            here = w.at(gradient, w.load("i64", offsets, 8), tile.element)
            with w.loop(0, w["outs"], SLICE) as slice_:
                outs = w.min(w.sub(w["outs"], slice_.i), SLICE)
                read = w.select(dense, w.mul(w.div(outs, tile.rows), tile.rows), 0)
                pack_gradients(w, tile, gradients, stride, gradient, joined, stretches, slice_.i, read, outs)
                # Windows outside: those of a tile stay in the nearest cache while gradients meet them.
                with w.loop(0, depth, tile.columns) as j, w.loop(0, outs, tile.rows) as i:
                    ask_some(w, tile, next_, asked, j.i, w.min(w.sub(depth, j.i), tile.columns), w.add(slice_.i, i.i))
                    in_place = w.compare("slt", i.i, read)
                    row = w.add(slice_.i, i.i)
                    own = w.at(here, w.mul(row, w["out_channel"]), tile.element)
                    a = w.select(in_place, own, w.at(gradients, w.mul(i.i, stride), tile.element))
                    a_row = w.select(in_place, w["out_channel"], stride)
                    b = w.at(transposed, j.i, tile.element)
                    corner = w.at(result, w.add(w.mul(row, w["rows"]), j.i), tile.element)
                    left, high = w.sub(depth, j.i), w.sub(outs, i.i)
                    vectors = w.min(w.div(w.add(left, tile.lanes - 1), tile.lanes), tile.vectors)
                    fits = w.both(w.compare("sge", high, tile.rows), w.compare("sge", left, w.mul(vectors, tile.lanes)))
                    to, apart = w.select(fits, corner, edge), w.select(fits, w["rows"], tile.columns)
                    call_multiply(
                        w,
                        tile,
                        vectors,
                        a,
                        a_row,
                        count,
                        0,
                        b,
                        count,
                        to,
                        apart,
                        edge,
                        w.select(fits, start, ZERO),
                        w.at(a, w.mul(a_row, tile.rows), tile.element),
                    )
                    with w.when(w.negate(fits)):
                        add_rows(
                            w,
                            tile,
                            corner,
                            edge,
                            w.min(high, tile.rows),
                            w.min(left, tile.columns),
                            w.compare("eq", start, ADD),
                        )
    return "\n".join([w.text(), pack_text(tile, stride), *multiply_texts(tile, across), declared(tile)])


WEIGHT = declare(
    Interface(
        "conv_weight", ("gradient", "input", "table", "result"),
        (*GEOMETRY, "parts", "per_part", "chunks", "chunk", "block", "single"),
        "groups, parts of the pixels, chunks of window rows; the result is [group, part, outs, rows]", weight_text,
        refuses=f"chunks of more than {CHUNK} rows, blocks beyond the tile's; vectors without masks",
    )
)


def clear_vectors(w: Writer, tile: Tile, rows: Reg, count: Reg, stride: int, vectors: int) -> None:
    """Zeros in the first vectors of some rows."""
    with w.loop(0, count) as r:
        row = w.at(rows, w.mul(r.i, stride), tile.element)
        with w.loop(0, vectors) as v:
            w.store(Reg("zeroinitializer", tile.vector), w.at(row, w.mul(v.i, tile.lanes), tile.element), tile.size)


def ask_rows(w: Writer, tile: Tile, source: Reg, first: Reg, past: Reg, columns: Reg | int) -> None:
    """Ask for so many elements of rows [first, past), which are a channel apart."""
    start = w.at(source, w.mul(first, w["in_channel"]), tile.element)
    with w.loop(first, past, carry=[start]) as r:
        with w.loop(0, columns, LINE // tile.size) as c:
            w.prefetch(w.at(r.carry[0], c.i, tile.element))
        r.next = [w.at(r.carry[0], w["in_channel"], tile.element)]


def ask_some(w: Writer, tile: Tile, source: Reg, columns: Reg, first: Reg, count: Reg, out: Reg) -> None:
    """Ask for some of `count` rows from `first` on, for all of them by the last tile of outputs."""
    turn, turns = w.div(out, tile.rows), w.div(w.add(w["outs"], tile.rows - 1), tile.rows)
    begin, end = (w.add(first, w.div(w.mul(count, n), turns)) for n in (turn, w.add(turn, 1)))
    ask_rows(w, tile, source, begin, end, columns)


def next_pixels(w: Writer, tile: Tile, source: Reg, row: Reg, pixel: Reg) -> Reg:
    """Where a pixel lies in a window row, if windows are single pixels and planes are runs."""
    image, inside = w.div(pixel, w["out_w"]), w.rem(pixel, w["out_w"])
    at = w.total(w.mul(row, w["in_channel"]), w.mul(image, w["in_image"]), inside)
    return w.at(source, at, tile.element)


def transpose_rows(
    w: Writer, tile: Tile, target: Reg, across: int, source: Reg, stride: Reg | int, rows: Reg, columns: Reg,
    bounded: bool = False,
) -> None:
    """target[column, row] = source[row, column], square by square; what the last squares hold besides is never used.
    `bounded`: nor read, of columns; rows fill squares."""
    with w.loop(0, rows, tile.lanes) as i, w.loop(0, columns, tile.lanes) as j:
        of = w.at(source, w.add(w.mul(i.i, stride), j.i), tile.element)
        to = w.at(target, w.add(w.mul(j.i, across), i.i), tile.element)
        square, mask = [], w.lanes_in(0, w.sub(columns, j.i), tile.lanes) if bounded else None
        for _ in range(tile.lanes):
            square.append(
                w.load(tile.vector, of, tile.size) if mask is None else w.load_some(tile.vector, of, mask, tile.size)
            )
            of = w.at(of, stride, tile.element)
        for k, value in enumerate(transposed(w, tile, square)):
            w.store(value, w.at(to, k * across, tile.element), tile.size)


def add_rows(w: Writer, tile: Tile, corner: Reg, edge: Reg, rows: Reg, columns: Reg, adds: Reg) -> None:
    """Put the part of a tile that exists into the result, or add it to what is there."""
    with w.loop(0, rows, carry=[corner, edge]) as r:
        to, of = r.carry
        with w.loop(0, columns, tile.lanes) as v:
            mask = w.lanes_in(0, w.sub(columns, v.i), tile.lanes)
            place = w.at(to, v.i, tile.element)
            value = w.load(tile.vector, w.at(of, v.i, tile.element), tile.size)
            old = w.select(adds, w.load_some(tile.vector, place, mask, tile.size), Reg("zeroinitializer", tile.vector))
            w.store_some(w.fadd(value, old), place, mask, tile.size)
        r.next = [w.at(to, w["rows"], tile.element), w.at(of, tile.columns, tile.element)]
