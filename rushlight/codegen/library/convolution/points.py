"""Convolution kernels for windows of single pixels, where there are few channels: pixels are read where they lie.

Enters: a tile. Leaves: the interface `POINTS`. Refuses what its caller must not ask for: images of fewer pixels than a
vector has lanes, planes that are no runs of memory, and outputs that fill no register tile.

Packing windows of one pixel is copying them, which takes as long as multiplying them where outputs are few. Here a
register tile reads vectors of pixels channel by channel, while the next ones come nearer; those at the end of an image
begin earlier, over pixels that were met before, and so do the last outputs.
"""

from __future__ import annotations

from ...text.writer import ABI, Loop, Reg, Writer, declarations
from ..interface import Interface, Tile, declare, load_params, load_pointers
from .micro_kernel import ADD, BIAS, QUAD, ZERO

PARAMS = (
    "outs", "channels", "pixels", "in_image", "in_channel", "out_image", "out_channel",
    "a_row",                             # distance of outputs' weights; those of channels are neighbours
    "blocks", "strips", "cuts", "panels",          # per image; of an image; of the outputs; of a cut, at most
    "bias", "near",                      # what sums start from; channels that are summed one after the other
)
STEPS = 4                # channels that a turn of the loop multiplies

TILE = [
    ("ptr", "a"), ("i64", "a_row"), ("ptr", "b"), ("i64", "b_row"), ("i64", "last"), ("i64", "depth"),
    ("ptr", "c"), ("i64", "row"), ("ptr", "bias"), ("i64", "start"),
]


def tile_text(tile: Tile, vectors: int) -> str:
    """points_N(a, a_row, b, b_row, last, depth, c, row, bias, start): a register tile of N vectors, of which the last
    begins `last` elements behind the first, over `depth` channels."""
    w = Writer(f"points_{vectors}", TILE, "internal ")
    zero = Reg("zeroinitializer", tile.vector)
    apart = [w["a_row"], w.mul(w["a_row"], 2), w.mul(w["a_row"], 3)]
    heads = [w.at(w["a"], w.mul(w["a_row"], r), tile.element) for r in range(0, tile.rows, QUAD)]
    ends = w.at(w["b"], w["last"], tile.element)
    rows = [w["b_row"], w.mul(w["b_row"], 2), w.mul(w["b_row"], 3)]

    def steps(count: int, k: Loop) -> None:
        bases, b, end = k.carry[: len(heads)], *k.carry[len(heads) : len(heads) + 2]
        sums = k.carry[len(heads) + 2 :]
        for n in range(count):
            near, far = (w.at(q, rows[n - 1], tile.element) if n else q for q in (b, end))
            columns = [
                w.load(tile.vector, w.at(near, v * tile.lanes, tile.element), tile.size) for v in range(vectors - 1)
            ]
            columns.append(w.load(tile.vector, far, tile.size))
            for v in range(vectors):
                w.prefetch(w.at(near, (vectors + v) * tile.lanes, tile.element))
            for r in range(tile.rows):
                head = w.at(bases[r // QUAD], apart[r % QUAD - 1], tile.element) if r % QUAD else bases[r // QUAD]
                factor = w.splat(w.load(tile.element, w.at(head, n, tile.element), tile.size), tile.lanes)
                for v in range(vectors):
                    sums[r * vectors + v] = w.fma(columns[v], factor, sums[r * vectors + v])
        step = w["b_row"] if count == 1 else w.mul(w["b_row"], count)
        k.next = [*[w.at(q, count, tile.element) for q in bases], *[w.at(q, step, tile.element) for q in (b, end)],
                  *sums]

    whole = w.sub(w["depth"], STEPS - 1)
    with w.loop(0, whole, STEPS, carry=[*heads, w["b"], ends, *[zero] * (tile.rows * vectors)]) as k:
        steps(STEPS, k)
    with w.loop(k.i, w["depth"], carry=k.carry) as k:
        steps(1, k)
    store_tile(w, tile, k.carry[len(heads) + 2 :], vectors)
    return w.text()


def store_tile(w: Writer, tile: Tile, sums: list[Reg], vectors: int) -> None:
    """Put the sums where they belong, row by row: over what is there, on the bias, or added to what is there."""
    places = []
    for r in range(tile.rows):
        row = w.at(w["c"], w.mul(w["row"], r), tile.element)
        near = [w.at(row, v * tile.lanes, tile.element) for v in range(vectors - 1)]
        places.append([*near, w.at(row, w["last"], tile.element)])

    def store(r: int, values: list[Reg]) -> None:
        for value, place in zip(values, places[r], strict=True):
            w.store(value, place, tile.size)

    of_rows = [sums[r * vectors : (r + 1) * vectors] for r in range(tile.rows)]
    with w.when(w.compare("eq", w["start"], ZERO)):
        for r, values in enumerate(of_rows):
            store(r, values)
    with w.when(w.compare("eq", w["start"], BIAS)):
        for r, values in enumerate(of_rows):
            bias = w.splat(w.load(tile.element, w.at(w["bias"], r, tile.element), tile.size), tile.lanes)
            store(r, [w.fadd(value, bias) for value in values])
    with w.when(w.compare("eq", w["start"], ADD)):
        for r, values in enumerate(of_rows):        # all of a row is read before the last vector may overlap
            old = [w.load(tile.vector, place, tile.size) for place in places[r]]
            store(r, [w.fadd(value, before) for value, before in zip(values, old, strict=True)])


def points_text(tile: Tile) -> str:
    """Items: images, cuts of outputs, blocks of strips. Every panel of outputs meets a strip while it is near."""
    w = Writer("conv_points", ABI)
    load_params(w, PARAMS)
    load_pointers(w, *POINTS.operands)
    vectors = w.div(w.add(w["pixels"], tile.lanes - 1), tile.lanes)
    with w.loop(w["begin"], w["end"]) as item:
        block, above = w.rem(item.i, w["blocks"]), w.div(item.i, w["blocks"])
        cut, image = w.rem(above, w["cuts"]), w.div(above, w["cuts"])
        source = w.at(w["input"], w.mul(image, w["in_image"]), tile.element)
        target = w.at(w["result"], w.mul(image, w["out_image"]), tile.element)
        first, past = (w.div(w.mul(n, w["strips"]), w["blocks"]) for n in (block, w.add(block, 1)))
        begin = w.mul(cut, w["panels"])
        end = w.min(w.mul(w.add(begin, w["panels"]), tile.rows), w["outs"])
        with w.loop(0, w["channels"], w["near"]) as k, w.loop(first, past) as strip:
            depth = w.min(w.sub(w["channels"], k.i), w["near"])
            start = w.select(w.compare("eq", k.i, 0), w["bias"], ADD)
            low, high = (w.div(w.mul(n, vectors), w["strips"]) for n in (strip.i, w.add(strip.i, 1)))
            pixel, many = w.mul(low, tile.lanes), w.sub(high, low)
            # the last vector of an image ends with it
            last = w.sub(w.min(w.mul(w.sub(high, 1), tile.lanes), w.sub(w["pixels"], tile.lanes)), pixel)
            b = w.at(source, w.add(w.mul(k.i, w["in_channel"]), pixel), tile.element)
            with w.loop(w.mul(begin, tile.rows), end, tile.rows) as out:
                row = w.min(out.i, w.sub(w["outs"], tile.rows))
                a = w.at(w["weights"], w.add(w.mul(row, w["a_row"]), k.i), tile.element)
                c = w.at(target, w.add(w.mul(row, w["out_channel"]), pixel), tile.element)
                bias = w.at(w["bias_data"], row, tile.element)
                for n in range(1, tile.vectors + 1):
                    with w.when(w.compare("eq", many, n)):
                        w.call(f"points_{n}", a, w["a_row"], b, w["in_channel"], last, depth, c, w["out_channel"],
                               bias, start)
    texts = [tile_text(tile, n) for n in range(1, tile.vectors + 1)]
    return "\n".join([w.text(), *texts, declarations(tile.lanes, tile.element)])


POINTS = declare(
    Interface(
        "conv_points",
        ("input", "weights", "bias_data", "result"),
        PARAMS,
        "images, cuts of outputs, blocks of an image's strips",
        points_text,
        refuses=(
            "images of fewer pixels than a vector has lanes, fewer outputs than a tile has rows, and more channels than"
            " are summed one after the other where outputs do not fill tiles"
        ),
    )
)
