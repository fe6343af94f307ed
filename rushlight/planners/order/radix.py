"""Sorting and selecting along long dims, by the digits of the elements' keys.

Enters: a tensor, a dim, how many elements are wanted, the order. Leaves: launches of kernels that write values and
positions, stable in either direction, NaN last as the largest number. A key is an element's bits rearranged so
that unsigned comparison is the wanted order. Each row becomes records of key and position, which are dealt out by
eight bits of the key at a time, lowest first; digits that are the same in all records are passed over.

Selecting `count` of many: a histogram of the leading bits, over a sample, gives a bound that the wanted elements
cannot exceed; only records within it are kept and sorted. Long rows are selected from in pieces, by several threads,
and then once more among the pieces' candidates. Pieces depend on sizes alone, so results never depend on threads.
Refuses: complex numbers, and rows of 2**32 elements or more.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ...codegen.schedule.forms.launch import Launch, Schedule, Temp, product
from ...loops.expr import (
    Value,
    and_,
    bitcast,
    cast,
    const,
    eq,
    idiv,
    irem,
    load,
    lt,
    ne,
    not_,
    or_,
    select,
    shl,
    shr,
    var,
    xor,
)
from ...loops.nest import Assign, For, If, Local, Nest, Operand, Statement, Store, operands, rows
from ...op.indexed import contiguous_strides

BITS = {
    "b1": 8,
    "u8": 8,
    "i8": 8,
    "i16": 16,
    "u16": 16,
    "f16": 16,
    "bf16": 16,
    "i32": 32,
    "u32": 32,
    "f32": 32,
    "i64": 64,
    "u64": 64,
    "f64": 64,
}
DIGIT = 256              # records are dealt out to this many places in one pass
COARSE, FINE = 64, 32    # the bound on selected keys: 11 leading bits, counted in two steps
BLOCKS = 32              # groups of rows that share scratch memory, at most
SCRATCH = 1 << 22        # records of scratch memory to aim for when rows are long
PIECE = 1 << 15          # elements of a long row that are selected from at once
ZERO, ONE = const(0, "i64"), const(1, "i64")
FIRST_TEMP = 3           # behind the input, the values and the positions


class Form(NamedTuple):
    """What a kernel's code depends on."""

    code: str
    rank: int            # dims besides the sorted one
    descending: bool
    selects: bool        # a bound is found first
    mapped: bool         # positions are looked up in another array


# --- keys -------------------------------------------------------------------------------------------------------------


def key_code(code: str) -> str:
    return f"u{BITS[code]}"


def key_of(x: Value, descending: bool) -> Value:
    """Bits of `x` that compare, as an unsigned number, the way the elements are ordered."""
    code = key_code(x.dtype)
    top = const(1 << (BITS[x.dtype] - 1), code)
    if x.dtype == "b1":
        key = cast(x, "u8")
    elif x.dtype[0] == "u":
        key = x
    elif x.dtype[0] == "i":
        key = xor(bitcast(x, code), top)
    else:
        bits = bitcast(x, code)
        key = select(lt(bits, top), xor(bits, top), not_(bits))
        wide = cast(x, "f32") if x.dtype in ("f16", "bf16") else x
        key = select(eq(wide, const(0, wide.dtype)), top, key)   # both zeros are equal
        key = select(ne(wide, wide), not_(const(0, code)), key)
    return not_(key) if descending else key


def element_of(key: Value, code: str, descending: bool) -> tuple[Value, Value | None]:
    """(the element a key stands for, whether its bits may have been other ones: zeros and NaN)."""
    key = not_(key) if descending else key
    top = const(1 << (BITS[code] - 1), key.dtype)
    if code == "b1":
        return cast(key, "b1"), None
    if code[0] == "u":
        return key, None
    if code[0] == "i":
        return bitcast(xor(key, top), code), None
    bits = select(lt(key, top), not_(key), xor(key, top))
    return bitcast(bits, code), or_(eq(key, top), eq(key, not_(const(0, key.dtype))))


def comparable(x: Value) -> Value:
    """`x` in a type whose comparison is one instruction."""
    return cast(x, {"b1": "u8", "f16": "f32", "bf16": "f32"}.get(x.dtype, x.dtype))


# --- records ----------------------------------------------------------------------------------------------------------


class Records:
    """Key and position in one 64-bit number, or in two arrays where the key alone has 64 bits."""

    def __init__(self, form: Form, first: int) -> None:
        self.code = key_code(form.code)
        self.packed = self.code != "u64"
        self.keys, self.places = first, first + 1
        self.codes = ["u64"] if self.packed else ["u64", "u32"]
        self.passes = BITS[form.code] // 8

    def get(self, at: Value) -> list[Statement]:
        """Read record `at`: its parts are then `key` and `place`."""
        result: list[Statement] = [Local("record", load(self.keys, at, "u64"))]
        return result if self.packed else [*result, Local("place", load(self.places, at, "u32"))]

    def again(self, at: Value) -> list[Statement]:
        """Write the record just read."""
        result: list[Statement] = [Store(self.keys, at, var("record", "u64"))]
        return result if self.packed else [*result, Store(self.places, at, var("place", "u32"))]

    @property
    def key(self) -> Value:
        record = var("record", "u64")
        return cast(shr(record, const(32, "u64")), self.code) if self.packed else record

    @property
    def place(self) -> Value:
        return (
            cast(and_(var("record", "u64"), const(0xFFFFFFFF, "u64")), "i64")
            if self.packed
            else cast(var("place", "u32"), "i64")
        )

    def digit(self, number: Value, record: str = "record") -> Value:
        """Digit `number`, counted from the lowest, of the record just read."""
        low = const(32 if self.packed else 0, "i64")
        shift = cast(number * const(8, "i64") + low, "u64")
        return cast(and_(shr(var(record, "u64"), shift), const(DIGIT - 1, "u64")), "i64")


# --- the kernel -------------------------------------------------------------------------------------------------------


class RowSort:
    """Builds the nest: a block of rows after another in the block's scratch memory."""

    def __init__(self, form: Form) -> None:
        self.form = form
        inputs = [form.code, *(["i64"] if form.mapped else [])]
        first = len(inputs)
        self.values, self.indices = first, first + 1
        self.records = Records(form, first + 2)
        self.counts = first + 2 + len(self.records.codes)
        self.coarse, self.fine = self.counts + 1, self.counts + 2
        stack = [Operand("u32", DIGIT * self.records.passes)]
        if form.selects:
            stack += [Operand("u32", COARSE), Operand("u32", COARSE * FINE)]
        self.operands = (*operands(inputs, [form.code, "i64"], self.records.codes), *stack)

    def nest(self) -> Nest:
        form = self.form
        sizes, reads, writes = ([f"{p}{d}" for d in range(form.rank)] for p in "nso")
        params = (
            *sizes,
            *reads,
            *writes,
            "length",
            "stride",
            "out_stride",
            "count",
            "items",
            "blocks",
            "capacity",
            "pieces",
            "sample",
        )
        row = self.row(sizes, reads, writes)
        block = var("block")
        start, stop = idiv(block * var("items"), var("blocks")), idiv((block + ONE) * var("items"), var("blocks"))
        name = "select_rows" if form.selects else "sort_rows"
        return Nest(name, self.operands, params, rows(For("i", start, stop, tuple(row)), name="block"))

    def row(self, sizes: list[str], reads: list[str], writes: list[str]) -> list[Statement]:
        piece, item = irem(var("i"), var("pieces")), idiv(var("i"), var("pieces"))
        read, write = ZERO, piece * var("count")
        for d in range(self.form.rank - 1, -1, -1):
            at = irem(item, var(sizes[d])) if d else item
            read, write = read + at * var(reads[d]), write + at * var(writes[d])
            item = idiv(item, var(sizes[d])) if d else item
        result: list[Statement] = [
            Local("first", idiv(piece * var("length"), var("pieces"))),
            Local("size", idiv((piece + ONE) * var("length"), var("pieces")) - var("first")),
            Local("read", read + var("first") * var("stride")),
            Local("write", write),
            Local("from", var("block") * var("capacity")),
            Local("to", var("block") * var("capacity") + idiv(var("capacity"), const(2, "i64"))),
            Local("kept", var("size")),
            self.clear("z", self.counts, DIGIT * self.records.passes),
        ]
        result += self.select() if self.form.selects else self.take()
        return [*result, self.passes(), self.emit()]

    def clear(self, name: str, operand: int, count: int) -> Statement:
        return For(name, ZERO, const(count, "i64"), (Store(operand, var(name), const(0, "u32")),), vector=True)

    def read_key(self, j: Value) -> Statement:
        return Local("key", key_of(load(0, var("read") + j * var("stride"), self.form.code), self.form.descending))

    def count_digits(self) -> list[Statement]:
        one = const(1, "u32")
        return [
            Store(self.counts, self.records.digit(const(p, "i64")) + const(p * DIGIT, "i64"), one, "add")
            for p in range(self.records.passes)
        ]

    def take(self) -> list[Statement]:
        """Every element a record; digits are counted on the way."""
        j = var("j")
        return [For("j", ZERO, var("size"), (self.read_key(j), *self.record(j, j), *self.count_digits()))]

    def record(self, at: Value, place: Value) -> list[Statement]:
        """Write the record of the key just read."""
        r = self.records
        if not r.packed:
            return [
                Local("record", var("key", "u64")),
                Store(r.keys, var("from") + at, var("record", "u64")),
                Store(r.places, var("from") + at, cast(place, "u32")),
            ]
        record = or_(shl(cast(var("key", r.code), "u64"), const(32, "u64")), cast(place, "u64"))
        return [Local("record", record), Store(r.keys, var("from") + at, var("record", "u64"))]

    def select(self) -> list[Statement]:
        """A bound from the sample, the records within it, and their digits."""
        r, j, key = self.records, var("j"), var("key", self.records.code)
        lead = self.lead(key)
        step = [self.read_key(j), Local("lead", lead), Store(self.fine, var("lead"), const(1, "u32"), "add")]
        step.append(Store(self.coarse, idiv(var("lead"), const(FINE, "i64")), const(1, "u32"), "add"))
        def count(operand: int, at: Value) -> Value:
            return cast(load(operand, at, "u32"), "i64")

        def walk(name: str, operand: int, start: Value, stop: Value, bound: str) -> Statement:
            here = (
                Assign(bound, var(name)),
                Assign("before", var("seen")),
                Assign("seen", var("seen") + count(operand, var(name))),
            )
            return For(name, start, stop, (If(lt(var("seen"), var("count")), here),))

        low = var("group") * const(FINE, "i64")
        # Every position is written and most are overwritten: no branch that depends on data.
        x = load(0, var("read") + j * var("stride"), self.form.code)
        place = Store(r.keys, var("from") + var("kept"), cast(j, "u64"))
        keep = (Local("inside", self.within(x)), place, Assign("kept", var("kept") + cast(var("inside", "b1"), "i64")))
        found = Local("found", cast(load(r.keys, var("from") + j, "u64"), "i64"))
        return [
            self.clear("y", self.coarse, COARSE), self.clear("x", self.fine, COARSE * FINE),
            For("j", ZERO, var("sample"), tuple(step)),
            Local("seen", ZERO), Local("before", ZERO), Local("group", ZERO), Local("bound", ZERO),
            walk("a", self.coarse, ZERO, const(COARSE, "i64"), "group"),
            Assign("seen", var("before")),
            walk("b", self.fine, low, low + const(FINE, "i64"), "bound"),
            Assign("kept", ZERO), Local("edge", self.edge(var("bound"))),
            For("j", ZERO, var("size"), keep),
            For("j", ZERO, var("kept"),
                (found, self.read_key(var("found")), *self.record(j, var("found")), *self.count_digits())),
        ]

    def lead(self, key: Value) -> Value:
        """The leading bits of a key, below COARSE * FINE."""
        bits = BITS[self.form.code]
        return cast(shr(key, const(bits - 11, key.dtype)) if bits > 11 else key, "i64")

    def edge(self, bound: Value) -> Value:
        """The last element whose key's leading bits are within the bound, in the type elements are compared in."""
        bits, code = BITS[self.form.code], self.records.code
        above = shl(cast(bound + ONE, "u64"), const(max(bits - 11, 0), "u64"))
        last = cast(above - const(1, "u64"), code)
        return comparable(element_of(last, self.form.code, self.form.descending)[0])

    def within(self, x: Value) -> Value:
        """Whether an element may be among those wanted. NaN always may: it is not on the far side of any edge."""
        x = comparable(x)
        edge = var("edge", x.dtype)
        return not_(lt(x, edge) if self.form.descending else lt(edge, x))

    def passes(self) -> Statement:
        """One pass per digit in which the records differ."""
        r, p, j = self.records, var("p"), var("j")
        base = p * const(DIGIT, "i64")
        at = base + r.digit(p)
        scan = For(
            "d",
            base,
            base + const(DIGIT, "i64"),
            (
                Local("here", load(self.counts, var("d"), "u32")),
                Store(self.counts, var("d"), var("sum", "u32")),
                Assign("sum", var("sum", "u32") + var("here", "u32")),
            ),
        )
        deal = For(
            "j",
            ZERO,
            var("kept"),
            (
                *r.get(var("from") + j),
                Local("slot", at),
                Local("target", load(self.counts, var("slot"), "u32")),
                Store(self.counts, var("slot"), var("target", "u32") + const(1, "u32")),
                *r.again(var("to") + cast(var("target", "u32"), "i64")),
            ),
        )
        swap = (Local("old", var("from")), Assign("from", var("to")), Assign("to", var("old")))
        probe = Local("probe", load(r.keys, var("from"), "u64"))
        differ = Local("differ", ne(cast(load(self.counts, base + r.digit(p, "probe"), "u32"), "i64"), var("kept")))
        return For(
            "p",
            ZERO,
            const(r.passes, "i64"),
            (probe, differ, If(var("differ", "b1"), (Local("sum", const(0, "u32")), scan, deal, *swap))),
        )

    def emit(self) -> Statement:
        """Values and positions of the first records."""
        r, j, form = self.records, var("j"), self.form
        value, doubtful = element_of(r.key, form.code, form.descending)
        at = var("write") + j * var("out_stride")
        source = load(0, var("read") + var("origin") * var("stride"), form.code)
        position = (
            load(1, var("read") + var("origin") * var("stride"), "i64") if form.mapped else var("first") + var("origin")
        )
        body: list[Statement] = [*r.get(var("from") + j), Local("origin", r.place), Store(self.values, at, value)]
        if doubtful is not None:
            body.append(If(doubtful, (Store(self.values, at, source),)))
        return For("j", ZERO, var("count"), (*body, Store(self.indices, at, position)))


# --- launches ---------------------------------------------------------------------------------------------------------


def radix_launches(input: Any, dim: int, count: int, descending: bool) -> Schedule | None:
    """Kernels for the first `count` elements along `dim` in order, and where they are; None where there are none."""
    sizes = tuple(input.shape)
    if input.device.type != "cpu" or input.dtype.code not in BITS or not sizes or sizes[dim] >= 1 << 32:
        return None
    length = sizes[dim]
    strides, outs = input.stride(), contiguous_strides([count if d == dim else n for d, n in enumerate(sizes)])
    axes = [(sizes[d], strides[d], outs[d]) for d in range(len(sizes)) if d != dim and sizes[d] != 1]
    selects = count * 2 < length
    pieces = pieces_of(length, count) if selects else 1
    temps: list[Temp] = []
    code = input.dtype.code

    def rows_of(
        source: int, mapping: int | None, out: tuple[int, int], axes: list, length: int, stride: int, out_stride: int,
        pieces: int,
    ) -> Launch:
        form = Form(code, len(axes), descending, selects, mapping is not None)
        return row_launch(form, temps, source, mapping, out, axes, length, stride, out_stride, count, pieces)

    if pieces == 1:
        launch = rows_of(0, None, (1, 2), axes, length, strides[dim], outs[dim], 1)
        return Schedule((launch,), tuple(temps))
    extent = product(a[0] for a in axes)
    temps += [Temp(own, (extent * pieces * count,)) for own in (code, "i64")]
    inner = contiguous_strides([a[0] for a in axes])
    near = [(n, s, k * pieces * count) for (n, s, _), k in zip(axes, inner, strict=True)]
    far = [(n, k * pieces * count, o) for (n, _, o), k in zip(axes, inner, strict=True)]
    first = rows_of(0, None, (FIRST_TEMP, FIRST_TEMP + 1), near, length, strides[dim], 1, pieces)
    second = rows_of(FIRST_TEMP, FIRST_TEMP + 1, (1, 2), far, pieces * count, 1, outs[dim], 1)
    return Schedule((first, second), tuple(temps))


def pieces_of(length: int, count: int) -> int:
    """How many pieces a row is selected from in; each must hold many more elements than are wanted."""
    return max(1, length // max(PIECE, 8 * count))


def row_launch(
    form: Form, temps: list[Temp], source: int, mapping: int | None, out: tuple[int, int], axes: list, length: int,
    stride: int, out_stride: int, count: int, pieces: int,
) -> Launch:
    """One launch over blocks of rows (or pieces of rows); adds the scratch memory it needs."""
    longest = -(-length // pieces)
    items = product(a[0] for a in axes) * pieces
    blocks = max(1, min(items, BLOCKS, SCRATCH // longest))
    capacity = 2 * longest
    scratch = [FIRST_TEMP + len(temps) + k for k in range(1 if BITS[form.code] < 64 else 2)]
    temps += [Temp(own, (blocks * capacity,)) for own in ("u64", "u32")[: len(scratch)]]
    # Counting an element costs about a quarter of sorting one that the bound lets through.
    sample = min(length // pieces, max(count, math.isqrt(4 * count * (length // pieces))))
    params = [a[k] for k in range(3) for a in axes]
    params += [length, stride, out_stride, count, items, blocks, capacity, pieces, sample]
    numbers = (source, *([mapping] if mapping is not None else []), *out, *scratch)
    return Launch(("radix", form), lambda: RowSort(form).nest(), numbers, tuple(params), blocks, 1)
