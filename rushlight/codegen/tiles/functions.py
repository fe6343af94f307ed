"""Tiles of matrix products as functions that kernels call: packing, and multiplying in registers.

Enters: an element type and a `Target`. Leaves: for the statements `Pack` and `Multiply` (loops/nest.py) a
`TileFunction`: its name, its text, what it calls, and the intrinsics to declare. Refuses nothing: `verify` has.

A tile of results stays in registers while k runs. Rows of the right operand are loaded as vectors; elements of the left
one, packed side by side, multiply them: broadcast from memory where that is free (x86), taken from lanes of a vector
where multiply-add can (AArch64). At the edges of a matrix smaller tiles do the same,
and their last columns go through the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...loops.record import Record
from ..text.targets import Target
from ..text.writer import Number, Reg, Writer, as_reg, declarations, mask_declarations
from .shapes import ELEMENTS, TileShape
from .strips import EXCHANGE, LINE, PACK, exchange_text, pack_text, pairs_text

UNROLL = 2          # values of k in an iteration of the tiles that matter, where elements are broadcast
LINE_UNROLL = 4     # the same of tiles whose rows lie apart, each with an address of its own
UNROLLED = 8        # sums from which a tile does
EDGE_ROWS = (4, 2, 1)
LOW = 4             # rows of the tiles of edges where vectors hold the rows' elements: as many as fill one
MULTIPLY = (
    ("ptr", "a"), ("ptr", "b"), ("i64", "b_step"), ("ptr", "c"), ("i64", "c_step"),
    ("i64", "rows"), ("i64", "columns"), ("i64", "depth"), ("i1", "add"),
)
SOON_PACKED = 512   # bytes of packed rows between asking the nearest cache for them and reading them
# values of k between asking the nearest cache for rows and for columns that are kept, and reading them
SOON_ROWS, SOON_COLUMNS = 16, 8
KEEP = (
    ("ptr", "a"), ("ptr", "b"), ("i64", "b_step"), ("ptr", "c"), ("i64", "c_step"), ("i64", "depth"), ("i1", "add"),
    ("i64", "pitch"), ("ptr", "left"), ("ptr", "right"),
)
ROWS = (("ptr", "a"), ("i64", "line"), *MULTIPLY[1:5], *MULTIPLY[6:])
LINES = (("ptr", "a"), ("i64", "line"), *MULTIPLY[1:])
QUAD = 4            # rows that share a pointer: one, two and three lines behind it are registers
AHEAD_ROWS = 256    # bytes of a row between asking for them and reading them
ANY_PITCH = ("i64", "pitch")     # elements between values of k of the left operand, where that is not known before
LATER = ("ptr", "ahead")         # what of the right operand is asked for meanwhile, where something is


class TileFunction(Record):
    """One function, by all that its text depends on. `kind` says what the numbers in `sizes` are: of `multiply` the
    rows and vectors of a tile, the elements between values of k (0: a parameter), and whether what is `ahead` is asked
    for; of `keep` and `rows` rows and vectors; of `pack` the lines of a strip, and whether they are always runs of
    memory; of `pairs` the lines of a strip; `exchange` has none."""

    kind: str
    shape: TileShape
    sizes: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return "_".join([self.kind, self.shape.code, *map(str, self.sizes)])

    @property
    def params(self) -> tuple[tuple[str, str], ...]:
        if self.kind == "multiply":
            return (*MULTIPLY, *more_params(*self.sizes[2:]))
        if self.kind == "lines":
            return (*LINES, *((LATER,) if self.sizes[2] else ()))
        return {"keep": KEEP, "rows": ROWS, "pack": PACK, "pairs": PACK, "exchange": EXCHANGE}[self.kind]

    @property
    def has_pitch(self) -> bool:
        """Whether a product's function is told how far values of k are apart."""
        return self.kind == "multiply" and not self.sizes[2]

    def declaration(self) -> str:
        """For texts that call it and do not have it."""
        return f"declare void @{self.name}({', '.join(kind for kind, _ in self.params)})"

    def intrinsics(self) -> list[str]:
        shape = self.shape
        masks = mask_declarations(shape.lanes, shape.element) if shape.is_masked and self.kind != "multiply" else ""
        return (declarations(shape.lanes, shape.element) + masks).splitlines()

    def callees(self) -> list[TileFunction]:
        """Functions that several call."""
        return [TileFunction("exchange", self.shape)] if self.kind == "pack" else []

    def texts(self, linkage: str = "internal ") -> dict[str, str]:
        """Its text and those of functions that it alone calls, by name."""
        if self.kind == "multiply":
            return multiply_texts(self, linkage)
        if self.kind == "rows":
            return rows_texts(self, linkage)
        if self.kind == "lines":
            return lines_texts(self, linkage)
        text = {"keep": keep_text, "pack": pack_text, "pairs": pairs_text, "exchange": exchange_text}[self.kind]
        return {self.name: text(self, linkage)}


def named_function(name: str, target: Target) -> TileFunction | None:
    """The function of a name; None where there is none."""
    kind, *rest = name.split("_")
    count = {"multiply": 4, "keep": 2, "rows": 2, "lines": 3, "pack": 2, "pairs": 1, "exchange": 0}.get(kind)
    if len(rest) - 1 != count or rest[0] not in ELEMENTS or not all(word.isdigit() for word in rest[1:]):
        return None
    return TileFunction(kind, TileShape(rest[0], target), tuple([int(word) for word in rest[1:]]))


# --- multiplying ------------------------------------------------------------------------------------------------------


def multiply_function(
    shape: TileShape, height: int, vectors: int, any_pitch: bool = False, asks: bool = False
) -> TileFunction:
    """The function of a `Multiply`: whole tiles at once, edges in smaller ones. `asks`: for what is `ahead`."""
    is_told = any_pitch or shape.by_lane        # one function for all, where a step that is known makes none faster
    return TileFunction("multiply", shape, (height, vectors, 0 if is_told else shape.pitch(height), int(asks)))


def more_params(pitch: int, asks: int) -> tuple[tuple[str, str], ...]:
    """Parameters that not all functions have."""
    return (*(() if pitch else (ANY_PITCH,)), *((LATER,) if asks else ()))


def multiply_texts(function: TileFunction, linkage: str) -> dict[str, str]:
    """Tiles of the heights and widths there are, and the function that goes through them."""
    shape, (height, vectors, pitch, asks) = function.shape, function.sizes
    if shape.by_lane:
        sizes, driver = [(height, vectors), (LOW, vectors), (1, vectors), (height, 1)], few_tiles_text
    else:
        sizes = [(h, v) for h in edge_heights(height) for v in range(1, vectors + 1)]
        driver = driver_text
    texts = {}
    for h, v in sizes:
        is_edge = shape.by_lane and (h, v) != (height, vectors)
        texts[tile_name(shape, h, v, pitch, asks)] = tile_text(shape, h, v, pitch, asks, is_edge)
    if shape.by_lane:
        texts[f"column_{shape.code}_{height}"] = column_text(shape, height)
    texts[function.name] = driver(function, linkage)
    return texts | put_texts(shape)


def edge_heights(height: int) -> list[int]:
    """Heights of tiles, from tall to low, that rows are cut into."""
    return [height, *(h for h in EDGE_ROWS if h < height)]


def tile_name(shape: TileShape, rows: int, vectors: int, pitch: int, asks: int) -> str:
    return f"tile_{shape.code}_{rows}x{vectors}_{pitch}_{asks}"


def driver_text(function: TileFunction, linkage: str) -> str:
    """Tiles over rows x columns, from tall to low: the number of vectors is that of the columns."""
    shape, (height, vectors, _, _) = function.shape, function.sizes
    w = Writer(function.name, function.params, linkage)
    first: Number = 0
    for h in edge_heights(height):
        stop = w["rows"] if h == 1 else w.sub(w["rows"], h - 1)
        with w.loop(first, stop, h) as i:
            for v in range(1, vectors + 1):
                wide = w.compare("sgt", w["columns"], (v - 1) * shape.lanes)
                fits = wide if v == vectors else w.both(wide, w.compare("sle", w["columns"], v * shape.lanes))
                with w.when(fits):
                    call_tile(w, function, h, v, i.i, 0, as_reg(h))
        first = i.i
    return w.text()


def few_tiles_text(function: TileFunction, linkage: str) -> str:
    """The same of few functions, for a function takes milliseconds to compile, however short: tiles have rows that
    nobody wants where there are fewer, and columns that do not fill the widest go vector by vector, a last one
    alone."""
    shape, (height, vectors, _, _) = function.shape, function.sizes
    w = Writer(function.name, function.params, linkage)
    rows, is_wide = w["rows"], w.compare("sgt", w["columns"], (vectors - 1) * shape.lanes)
    is_high, is_one = w.compare("sgt", rows, LOW), w.compare("eq", rows, 1)
    for h, fits in ((height, is_high), (LOW, w.both(w.negate(is_high), w.negate(is_one))), (1, is_one)):
        with w.when(w.both(fits, is_wide)):
            call_tile(w, function, h, vectors, 0, 0, rows)
    alone, in_vectors = last_alone(w, shape, vectors)
    with w.when(w.negate(is_wide)), w.loop(0, in_vectors, shape.lanes) as j:
        call_tile(w, function, height, 1, 0, j.i, rows, shape.lanes)
    with w.when(alone):
        last = {name: w.at(w[name], in_vectors, shape.element) for name in ("b", "c")}
        w.call(f"column_{shape.code}_{height}", *({name: w[name] for _, name in COLUMN} | last).values())
    return w.text()


def last_alone(w: Writer, shape: TileShape, vectors: int) -> tuple[Reg, Reg]:
    """Whether a strip's last column is one that fills no vector, of those that do not fill a tile; and how many columns
    are before it."""
    one = w.compare("eq", w.rem(w["columns"], shape.lanes), 1)
    alone = w.both(one, w.compare("sle", w["columns"], (vectors - 1) * shape.lanes))
    return alone, w.sub(w["columns"], w.select(alone, 1, 0))


COLUMN = (*MULTIPLY[:6], *MULTIPLY[7:], ANY_PITCH)


def column_text(shape: TileShape, rows: int) -> str:
    """One column of a tile: rows are lanes, so that none of a vector's is for a column that is not there. Sums of
    every `turns`-th value of k do not wait for each other."""
    w = Writer(f"column_{shape.code}_{rows}", COLUMN, "internal ")
    lanes, size, element = shape.lanes, shape.size, shape.element
    held, turns = rows // lanes, max(1, UNROLLED * lanes // rows)
    spill, step = w.scratch(element, rows), w.mul(w["b_step"], size)
    sums, place = [Reg("zeroinitializer", shape.vector)] * (turns * held), [w["a"], w["b"]]
    first: Number = 0
    for length in (turns, 1):
        with w.loop(first, w.sub(w["depth"], length - 1), length, carry=[*sums, *place]) as k:
            now, (a, b) = k.carry[:-2], k.carry[-2:]
            for n in range(length):
                factor = w.splat(w.load(element, b, size), lanes)
                for v in range(held):
                    value = w.load(shape.vector, w.at(a, v * lanes, element), size)
                    now[n * held + v] = w.fma(value, factor, now[n * held + v])
                a, b = w.at(a, w["pitch"], element), w.at(b, step, "i8")
            k.next = [*now, a, b]
        sums, place, first = k.carry[:-2], k.carry[-2:], k.i
    for v in range(held):
        w.store(added_up(w, sums[v::held]), w.at(spill, v * lanes, element), size)
    put_column(w, shape, spill, w["rows"])
    return w.text()


def added_up(w: Writer, values: Sequence[Reg]) -> Reg:
    """Pairs first, then pairs of pairs."""
    while len(values) > 1:
        values = [w.fadd(*values[n : n + 2]) if n + 1 < len(values) else values[n] for n in range(0, len(values), 2)]
    return values[0]


def put_column(w: Writer, shape: TileShape, spill: Reg, rows: Reg) -> None:
    """A column's sums from the stack to the result."""
    w.call(f"put_{shape.code}", spill, 1, w["c"], w["c_step"], rows, 1, w["add"])


def call_tile(
    w: Writer, function: TileFunction, height: int, vectors: int, i: Number, j: Number, rows: Reg, most: int = 0
) -> None:
    """The tile that begins at row `i` and column `j`, of the columns from there on, or of no more than `most`."""
    shape, (_, _, pitch, asks) = function.shape, function.sizes
    a, b = w.at(w["a"], i, shape.element), w.at(w["b"], j, shape.element)
    c = w.at(w["c"], w.add(w.mul(w["c_step"], i), j), shape.element)
    columns = w.min(w.sub(w["columns"], j), most) if most else w["columns"]
    given = (a, b, w["b_step"], c, w["c_step"], rows, columns, w["depth"], w["add"])
    more = tuple(w[name] for _, name in more_params(pitch, asks))
    w.call(tile_name(shape, height, vectors, pitch, asks), *given, *more)


def tile_text(shape: TileShape, rows: int, vectors: int, pitch: int, asks: int, is_edge: bool = False) -> str:
    """One tile: `rows` x `vectors` sums, of which the parameters rows and columns are wanted: all rows where elements
    are broadcast. A `pitch` of 0 is a parameter. Tiles of an edge are called seldom, so they have less text. There is
    at least one value of k."""
    w = Writer(tile_name(shape, rows, vectors, pitch, asks), (*MULTIPLY, *more_params(pitch, asks)), "internal ")
    apart = pitch or w["pitch"]
    width = vectors * shape.lanes
    spill = w.scratch(shape.element, rows * width)
    sums = [Reg("zeroinitializer", shape.vector)] * (rows * vectors)
    step = w.mul(w["b_step"], shape.size)
    for row in () if is_edge else tile_rows(w, shape, rows):      # the sums will be added there when k is through
        for v in line_starts(shape, vectors):
            w.prefetch(w.at(row, v * shape.lanes, shape.element), 2 if shape.by_lane else 1)
    unroll = UNROLL if rows * vectors > UNROLLED and (asks or not shape.by_lane) else 1
    whole = w.sub(w["depth"], unroll - 1)
    place = [w["a"], w["b"], *([w["ahead"]] if asks else [])]
    count = len(sums)
    first: Number = 0
    is_near = shape.by_lane and not is_edge
    if is_near:         # the first products are the sums so far: there are no zeros to begin with
        left, right = left_factors(w, shape, place[0], rows), right_vectors(w, shape, place[1], vectors)
        sums = [w.fmul(right[v], left(r)) for r in range(rows) for v in range(vectors)]
        place = [w.at(place[0], apart, shape.element), w.at(place[1], step, "i8"), *place[2:]]
        first = 1
    for length, stop in ((unroll, whole), (1, w["depth"]))[: unroll]:
        with w.loop(first, stop, length, carry=[*sums, *place]) as l:
            now, (a, b, *later) = l.carry[:count], l.carry[count:]
            if is_near:
                w.prefetch(w.at(a, SOON_PACKED, "i8"), 1)
            if later and length > 1:
                w.prefetch(later[0])
                later = [w.at(later[0], LINE, "i8")]
            for _ in range(length):
                left = left_factors(w, shape, a, rows)
                right = right_vectors(w, shape, b, vectors)
                for r in range(rows):
                    factor = left(r)
                    now[r * vectors : (r + 1) * vectors] = [
                        w.fma(right[v], factor, now[r * vectors + v]) for v in range(vectors)
                    ]
                a, b = w.at(a, apart, shape.element), w.at(b, step, "i8")
            l.next = [*now, a, b, *later]
        sums, place, first = l.carry[:count], l.carry[count:], l.i
    write_tile(w, shape, sums, vectors, spill, is_edge, w.min(w["rows"], rows) if shape.by_lane else None)
    return w.text()


def line_starts(shape: TileShape, vectors: int) -> list[int]:
    """Vectors of a row of the result of which one is in every line of the cache that the row touches."""
    per_line = max(1, LINE // (shape.lanes * shape.size))
    return sorted({*range(0, vectors, per_line), vectors - 1})


def keep_function(shape: TileShape, height: int, vectors: int) -> TileFunction:
    """The function of a `Multiply` that keeps what it reads."""
    return TileFunction("keep", shape, (height, vectors))


def keep_text(function: TileFunction, linkage: str) -> str:
    """A whole tile of operands as they lie: rows of `a` are neighbours, values of k `pitch` apart. What is loaded is
    stored, side by side, while the multiplier is busy; packing before it would be time of its own."""
    shape, (rows, vectors) = function.shape, function.sizes
    w = Writer(function.name, KEEP, linkage)
    lanes, size, element = shape.lanes, shape.size, shape.element
    step, apart = w.mul(w["b_step"], size), w.mul(w["pitch"], size)
    for row in tile_rows(w, shape, rows):
        for v in line_starts(shape, vectors):
            w.prefetch(w.at(row, v * lanes, element))
    last = (vectors * lanes - 1) * size
    soon = w.add(w.mul(apart, SOON_ROWS), (rows - 1) * size), w.add(w.mul(step, SOON_COLUMNS), last)
    count = rows * vectors
    sums = [Reg("zeroinitializer", shape.vector)] * count
    with w.loop(0, w["depth"], carry=[*sums, w["a"], w["b"], w["left"], w["right"]]) as k:
        now, (a, b, left, right) = k.carry[:count], k.carry[count:]
        for place, later in zip((a, b), soon, strict=True):
            w.prefetch(w.at(place, later, "i8"), 1)
        w.prefetch(w.at(b, vectors * lanes * size + last, "i8"))      # the columns that the next such tile reads
        rows_of = [w.load(shape.vector, w.at(a, r, element), size) for r in range(0, rows, lanes)]
        columns = [w.load(shape.vector, w.at(b, v * lanes, element), size) for v in range(vectors)]
        for target, values in ((left, rows_of), (right, columns)):
            for n, value in enumerate(values):
                w.store(value, w.at(target, n * lanes, element), size)
        for r in range(rows):
            factor = w.lane(rows_of[r // lanes], r % lanes, lanes)
            for v in range(vectors):
                now[r * vectors + v] = w.fma(columns[v], factor, now[r * vectors + v])
        k.next = [
            *now, w.at(a, apart, "i8"), w.at(b, step, "i8"),
            w.at(left, len(rows_of) * lanes, element), w.at(right, vectors * lanes, element),
        ]
    write_whole(w, shape, k.carry[:count], vectors)
    return w.text()


def lines_texts(function: TileFunction, linkage: str) -> dict[str, str]:
    """Tiles of all heights and widths, and the function that goes through them, from tall to low."""
    shape, (most, vectors, asks) = function.shape, function.sizes
    w = Writer(function.name, function.params, linkage)
    texts = {}
    first: Number = 0
    for height in [most, *(h for h in EDGE_ROWS if h < most)]:
        stop = w["rows"] if height == 1 else w.sub(w["rows"], height - 1)
        with w.loop(first, stop, height) as i:
            a, c = (w.at(w[x], w.mul(i.i, w[step]), shape.element) for x, step in (("a", "line"), ("c", "c_step")))
            given = [a, w["line"], w["b"], w["b_step"], c, w["c_step"], w["columns"], w["depth"], w["add"]]
            given += [w["ahead"]] if asks else []
            for v in range(1, vectors + 1):
                name = f"line_tile_{shape.code}_{height}x{v}_{asks}"
                texts[name] = line_tile_text(shape, name, height, v, asks)
                wide = w.compare("sgt", w["columns"], (v - 1) * shape.lanes)
                fits = wide if v == vectors else w.both(wide, w.compare("sle", w["columns"], v * shape.lanes))
                with w.when(fits):
                    w.call(name, *given)
        first = i.i
    return {**texts, function.name: w.text()} | put_texts(shape)


def line_tile_text(shape: TileShape, name: str, rows: int, vectors: int, asks: int) -> str:
    """One tile whose rows lie `line` elements apart, values of k side by side."""
    params = tuple(p for p in LINES if p[1] != "rows")
    w = Writer(name, (*params, *((LATER,) if asks else ())), "internal ")
    lanes, size, element = shape.lanes, shape.size, shape.element
    spill = w.scratch(element, rows * vectors * lanes)
    step = w.mul(w["b_step"], size)
    apart = [w["line"], w.mul(w["line"], 2), w.mul(w["line"], 3)]
    heads = [w.at(w["a"], w.mul(w["line"], r), element) for r in range(0, rows, QUAD)]
    for row in tile_rows(w, shape, rows):      # the sums will be added there when k is through
        for v in range(vectors):
            w.prefetch(w.at(row, v * lanes, element), 1)
    count = rows * vectors
    carry = [*[Reg("zeroinitializer", shape.vector)] * count, *heads, w["b"], *([w["ahead"]] if asks else [])]
    first: Number = 0
    for length in (LINE_UNROLL, 1):
        with w.loop(first, w.sub(w["depth"], length - 1), length, carry=carry) as k:
            now, places, rest = k.carry[:count], k.carry[count : count + len(heads)], k.carry[count + len(heads) :]
            b, *later = rest
            if later and length > 1:
                for ask in range(length // UNROLL):
                    w.prefetch(w.at(later[0], ask * LINE, "i8"))
                later = [w.at(later[0], length // UNROLL * LINE, "i8")]
            for n in range(length):
                right = [w.load(shape.vector, w.at(b, v * lanes, element), size) for v in range(vectors)]
                for r in range(rows):
                    head = places[r // QUAD]
                    head = w.at(head, apart[r % QUAD - 1], element) if r % QUAD else head
                    factor = w.splat(w.load(element, w.at(head, n, element), size), lanes)
                    for v in range(vectors):
                        now[r * vectors + v] = w.fma(right[v], factor, now[r * vectors + v])
                b = w.at(b, step, "i8")
            k.next = [*now, *(w.at(head, length, element) for head in places), b, *later]
        carry, first = k.carry, k.i
    write_tile(w, shape, carry[:count], vectors, spill)
    return w.text()


def rows_function(shape: TileShape, height: int, vectors: int, asks: bool = False) -> TileFunction:
    """The function of a `Multiply` whose rows are not packed: whole tiles of `rows` where lanes of a vector are
    factors, `lines` where elements are broadcast from memory."""
    if shape.by_lane:
        return TileFunction("rows", shape, (height, vectors))
    return TileFunction("lines", shape, (height, vectors, int(asks)))


def rows_texts(function: TileFunction, linkage: str) -> dict[str, str]:
    """Tiles of all widths, and the function that chooses one; a last column alone, as `few_tiles_text` has it."""
    shape, (rows, vectors) = function.shape, function.sizes
    w = Writer(function.name, ROWS, linkage)
    given = {name: w[name] for _, name in ROWS}
    texts = {}
    alone, in_vectors = last_alone(w, shape, vectors)
    for v in range(1, vectors + 1):
        name = f"row_tile_{shape.code}_{rows}x{v}"
        texts[name] = row_tile_text(shape, name, rows, v, v < vectors)
        wide = w.compare("sgt", in_vectors, (v - 1) * shape.lanes)
        with w.when(wide if v == vectors else w.both(wide, w.compare("sle", in_vectors, v * shape.lanes))):
            w.call(name, *(given | {"columns": in_vectors}).values())
    name = f"row_column_{shape.code}_{rows}"
    texts[name] = row_column_text(shape, name, rows)
    with w.when(alone):
        last = {name: w.at(w[name], in_vectors, shape.element) for name in ("b", "c")}
        w.call(name, *(given | last).values())
    return {**texts, function.name: w.text()} | put_texts(shape)


def row_column_text(shape: TileShape, name: str, rows: int) -> str:
    """One column alone: values of k are lanes, of rows as they lie. They were met by other columns just now."""
    w = Writer(name, ROWS, "internal ")
    lanes, size, element = shape.lanes, shape.size, shape.element
    spill, step = w.scratch(element, rows), w.mul(w["b_step"], size)
    places = [w.at(w["a"], w.mul(w["line"], r), element) for r in range(rows)]
    none = Reg("zeroinitializer", shape.vector)
    sums, b = [none] * rows, w["b"]
    first: Number = 0

    def some(place: Reg, count: int, apart: Number = 0) -> Reg:
        """So many elements, bytes apart, in the first lanes, zeros behind them."""
        value = none
        for n in range(count):
            loaded = w.load(element, w.at(place, w.mul(n, apart), "i8"), size)
            value = w.new(shape.vector, f"insertelement {value}, {loaded}, i32 {n}")
        return value

    for length in (lanes, 1):
        with w.loop(first, w.sub(w["depth"], length - 1), length, carry=[*sums, b]) as k:
            now, here = k.carry[:-1], k.carry[-1]
            right = some(here, length, step)
            for r, place in enumerate(places):
                at = w.at(place, k.i, element)
                left = w.load(shape.vector, at, size) if length > 1 else some(at, 1)
                now[r] = w.fma(left, right, now[r])
            k.next = [*now, w.at(here, w.mul(step, length), "i8")]
        sums, b, first = k.carry[:-1], k.carry[-1], k.i
    for r in range(0, rows, lanes):
        w.store(w.horizontals(sums[r : r + lanes]), w.at(spill, r, element), size)
    put_column(w, shape, spill, as_reg(rows))
    return w.text()


def row_tile_text(shape: TileShape, name: str, rows: int, vectors: int, is_edge: bool) -> str:
    """As many values of k at a time as a vector has, rows in two halves: their vectors, of which multiply-adds take
    lanes, and all sums would not fit the registers, so columns are loaded for each half."""
    w = Writer(name, ROWS, "internal ")
    lanes, size, element = shape.lanes, shape.size, shape.element
    spill = w.scratch(element, rows * vectors * lanes)
    step, half = w.mul(w["b_step"], size), rows // 2
    places = [w.at(w["a"], w.mul(w["line"], r), element) for r in range(rows)]
    for row in () if is_edge else tile_rows(w, shape, rows):
        for v in line_starts(shape, vectors):
            w.prefetch(w.at(row, v * lanes, element))
    sums = [Reg("zeroinitializer", shape.vector)] * (rows * vectors)
    first: Number = 0
    b = w["b"]
    for length in (lanes, 1):
        with w.loop(first, w.sub(w["depth"], length - 1), length, carry=[*sums, b]) as k:
            now, here = k.carry[:-1], k.carry[-1]
            for part in range(0, rows, half):
                w.cut()         # so that what is loaded for one half is not held for the other
                held = [w.at(places[r], k.i, element) for r in range(part, part + half)]
                if length > 1:
                    for place in held:
                        w.prefetch(w.at(place, AHEAD_ROWS, "i8"), 1)
                    factors = [w.load(shape.vector, place, size) for place in held]
                else:
                    factors = [w.splat(w.load(element, place, size), lanes) for place in held]
                b = here
                for lane in range(length):
                    right = [w.load(shape.vector, w.at(b, v * lanes, element), size) for v in range(vectors)]
                    for r in range(half):
                        factor = factors[r] if length == 1 else w.lane(factors[r], lane, lanes)
                        at = (part + r) * vectors
                        now[at : at + vectors] = [w.fma(right[v], factor, now[at + v]) for v in range(vectors)]
                    b = w.at(b, step, "i8")
            k.next = [*now, b]
        sums, b, first = k.carry[:-1], k.carry[-1], k.i
    write_tile(w, shape, sums, vectors, spill, is_edge)
    return w.text()


def left_factors(w: Writer, shape: TileShape, a: Reg, rows: int) -> Callable[[int], Reg]:
    """A function giving row r's element of the left operand on all lanes."""
    if not shape.by_lane:
        return lambda r: w.splat(w.load(shape.element, w.at(a, r, shape.element), shape.size), shape.lanes)
    held = [
        w.load(shape.vector, w.at(a, first, shape.element), shape.size) for first in range(0, rows, shape.lanes)
    ]
    return lambda r: w.lane(held[r // shape.lanes], r % shape.lanes, shape.lanes)


def right_vectors(w: Writer, shape: TileShape, b: Reg, vectors: int) -> list[Reg]:
    """Columns of one value of k."""
    return [w.load(shape.vector, w.at(b, v * shape.lanes, shape.element), shape.size) for v in range(vectors)]


def tile_rows(w: Writer, shape: TileShape, count: int) -> list[Reg]:
    """Where rows of the tile begin in the result."""
    rows = [w["c"]]
    for _ in range(count - 1):
        rows.append(w.at(rows[-1], w["c_step"], shape.element))
    return rows


def write_tile(
    w: Writer, shape: TileShape, sums: list[Reg], vectors: int, spill: Reg, is_edge: bool = False,
    wanted: Reg | None = None,
) -> None:
    """The sums to `c`, added to what is there if `add`; through the stack on an edge, and where fewer columns, or
    rows, are `wanted`."""
    width, count = vectors * shape.lanes, len(sums) // vectors

    def through_the_stack() -> None:
        for k, value in enumerate(sums):
            w.store(value, w.at(spill, k * shape.lanes, shape.element), shape.size)
        w.call(f"put_{shape.code}", spill, width, w["c"], w["c_step"], rows, w["columns"], w["add"])

    rows = as_reg(count) if wanted is None else wanted
    if is_edge:
        through_the_stack()
        return
    full = w.compare("sge", w["columns"], width)
    if wanted is not None:
        full = w.both(full, w.compare("sge", wanted, count))
    write_whole(w, shape, sums, vectors, tile_rows(w, shape, count), full)
    with w.when(w.negate(full)):
        through_the_stack()


PUT = (
    ("ptr", "sums"), ("i64", "width"), ("ptr", "c"), ("i64", "c_step"), ("i64", "rows"), ("i64", "columns"),
    ("i1", "add"),
)


def put_texts(shape: TileShape) -> dict[str, str]:
    """Sums of a tile that lie on the stack, `width` to a row, to the result: in vectors, the last columns alone."""
    w = Writer(f"put_{shape.code}", PUT, "internal ")
    element, size, lanes = shape.element, shape.size, shape.lanes
    whole = w.sub(w["columns"], w.rem(w["columns"], lanes))
    with w.loop(0, w["rows"], carry=[w["sums"], w["c"]]) as r:
        of, to = r.carry
        for kind, begin, end, step in ((shape.vector, 0, whole, lanes), (element, whole, w["columns"], 1)):
            zero = Reg("0.0" if kind == element else "zeroinitializer", kind)
            with w.loop(begin, end, step) as j:
                place = w.at(to, j.i, element)
                old = w.select(w["add"], w.load(kind, place, size), zero)
                w.store(w.fadd(w.load(kind, w.at(of, j.i, element), size), old), place, size)
        r.next = [w.at(of, w["width"], element), w.at(to, w["c_step"], element)]
    return {f"put_{shape.code}": w.text()}


def write_whole(
    w: Writer, shape: TileShape, sums: list[Reg], vectors: int, rows: list[Reg] | None = None, full: Reg | None = None
) -> None:
    """The same of a tile all of whose columns are wanted, or where it is `full`."""
    rows = rows or tile_rows(w, shape, len(sums) // vectors)
    places = [w.at(row, v * shape.lanes, shape.element) for row in rows for v in range(vectors)]
    adds, starts = w["add"], w.negate(w["add"])
    with w.when(adds if full is None else w.both(full, adds)):
        for value, place in zip(sums, places, strict=True):
            w.store(w.fadd(w.load(shape.vector, place, shape.size), value), place, shape.size)
    with w.when(starts if full is None else w.both(full, starts)):
        for value, place in zip(sums, places, strict=True):
            w.store(value, place, shape.size)


# --- packing ----------------------------------------------------------------------------------------------------------


def pack_function(shape: TileShape, width: int, only_runs: bool = False, pairs: bool = False) -> TileFunction:
    """The function of a `Pack`."""
    if pairs:
        return TileFunction("pairs", shape, (width,))
    return TileFunction("pack", shape, (width, int(only_runs)))
