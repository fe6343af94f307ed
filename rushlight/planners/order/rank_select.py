"""One element of each row by its rank: selected, not sorted for.

Enters: a tensor, a dim, a position in the order along it, and what NaN means. Leaves: one kernel that writes the
element and where it is; of equals that which a stable sort would have there. A row's elements become keys, whose
unsigned order is theirs (`radix.key_of`). The wanted key is then found bit by bit from the highest that differs: as
many keys as lie below a bound are counted, which is vector compares and nothing else. Long rows are first narrowed to
the keys that share the wanted one's leading bits, by a histogram. Refuses: complex numbers, rows of 2**31 elements.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...codegen.schedule.forms.launch import Launch, Schedule, Temp, product
from ...loops.expr import (
    Value,
    and_,
    cast,
    const,
    eq,
    idiv,
    irem,
    le,
    load,
    lt,
    max_,
    min_,
    ne,
    or_,
    select,
    shl,
    shr,
    var,
)
from ...loops.nest import Assign, For, If, Local, Nest, Operand, Reduce, Statement, Store, operands, reduction, rows
from ...op.indexed import contiguous_strides
from .radix import BITS, COARSE, FINE, key_code, key_of

LONG = 512               # elements from which on rows are narrowed first
LEAD = 11                # bits that the histogram counts: COARSE * FINE bins
BLOCKS = 32              # groups of rows that share scratch memory, at most
SCRATCH = 1 << 22        # keys of scratch memory to aim for when rows are long
ZERO, ONE = const(0, "i64"), const(1, "i64")
INPUT, VALUES, INDICES, KEYS, PLACES, BINS, GROUPS = range(7)
MISSING = ("kept", "first", "skipped")


class Form(NamedTuple):
    """What a kernel's code depends on."""

    code: str
    rank: int            # dims besides the one that is looked along
    missing: str         # of MISSING: NaN is the largest number; the answer if there is one; passed over
    is_long: bool


def ranked_launches(input: Any, position: int, missing: str, dim: int) -> Schedule | None:
    """The kernel for the element at `position` along `dim`; None where there is none."""
    sizes = tuple(input.shape)
    if input.device.type != "cpu" or input.dtype.code not in BITS or not sizes or sizes[dim] >= 1 << 31:
        return None
    length, strides = sizes[dim], input.stride()
    outs = contiguous_strides([1 if d == dim else n for d, n in enumerate(sizes)])
    axes = [(sizes[d], strides[d], outs[d]) for d in range(len(sizes)) if d != dim and sizes[d] != 1]
    items = product(a[0] for a in axes)
    blocks = max(1, min(items, BLOCKS, SCRATCH // length))
    form = Form(input.dtype.code, len(axes), missing if input.dtype.is_floating_point else "kept", length >= LONG)
    params = [a[k] for k in range(3) for a in axes] + [length, strides[dim], position, items, blocks]
    temps = (Temp(key_code(form.code), (blocks * length,)), Temp("u32", (blocks * length if form.is_long else 1,)))
    nest = RankedRow(form).nest
    return Schedule((Launch(("ranked", form), nest, (0, 1, 2, 3, 4), tuple(params), blocks, 1),), temps)


class RankedRow:
    """Builds the nest: a block of rows one after another in the block's scratch memory."""

    def __init__(self, form: Form) -> None:
        self.form, self.key = form, key_code(form.code)
        self.bits = BITS[form.code]
        self.count = "i64" if self.bits == 64 else "i32"      # as wide as keys, or as few lanes would count

    def nest(self) -> Nest:
        form = self.form
        sizes, reads, writes = ([f"{p}{d}" for d in range(form.rank)] for p in "nso")
        params = (*sizes, *reads, *writes, "length", "stride", "position", "items", "blocks")
        stack = (Operand("u32", COARSE * FINE), Operand("u32", COARSE)) if form.is_long else ()
        given = (*operands([form.code], [form.code, "i64"], [self.key, "u32"]), *stack)
        start, stop = (idiv((var("block") + k) * var("items"), var("blocks")) for k in (ZERO, ONE))
        row = self.row(sizes, reads, writes)
        return Nest("ranked_element", given, params, rows(For("i", start, stop, tuple(row)), name="block"))

    def row(self, sizes: list[str], reads: list[str], writes: list[str]) -> list[Statement]:
        item, read, write = var("i"), ZERO, ZERO
        for d in range(self.form.rank - 1, -1, -1):
            at = irem(item, var(sizes[d])) if d else item
            read, write = read + at * var(reads[d]), write + at * var(writes[d])
            item = idiv(item, var(sizes[d])) if d else item
        k = var("k")
        x = load(INPUT, var("read") + k * var("stride"), self.form.code)
        return [
            Local("read", read), Local("write", write), Local("base", var("block") * var("length")),
            For("k", ZERO, var("length"), (Store(KEYS, var("base") + k, key_of(x, False)),), vector=True),
            self.extremes(),
            *self.wanted_rank(),
            *self.width_of(var("high", self.key) - var("low", self.key)),
            Local("kept", var("length")), Local("found", const(0, self.key)), Local("under", ZERO),
            *(self.narrowed() if self.form.is_long else ()),
            self.search(),
            *self.place(),
        ]

    def key_at(self, k: Value) -> Value:
        return load(KEYS, var("base") + k, self.key)

    def offset(self, k: Value) -> Value:
        """A key less the row's lowest."""
        return self.key_at(k) - var("low", self.key)

    # --- the row as a whole -------------------------------------------------------------------------------------------

    def extremes(self) -> Reduce:
        """The lowest and the highest key."""
        here = self.key_at(var("e"))
        return reduction(
            "e", ZERO, var("length"), ["low", "high"], [const((1 << self.bits) - 1, self.key), const(0, self.key)],
            step=lambda acc: [min_(acc[0], here), max_(acc[1], here)],
            merge=lambda a, b: [min_(a[0], b[0]), max_(a[1], b[1])],
        )

    def counted(self, name: str, stop: Value, test: Value, into: str) -> Reduce:
        """How many of the keys pass a test."""
        return reduction(
            name, ZERO, stop, [into], [const(0, self.count)],
            step=lambda acc: [acc[0] + cast(test, self.count)], merge=lambda a, b: [a[0] + b[0]],
        )

    def wanted_rank(self) -> list[Statement]:
        """Where the answer is in order, once NaN, whose key is the highest there is, has been counted."""
        if self.form.missing == "kept":
            return [Local("rank", var("position"))]
        nan = eq(self.key_at(var("m")), const((1 << self.bits) - 1, self.key))
        numbers = var("length") - cast(var("gone", self.count), "i64")
        rank = (
            idiv(max_(numbers - ONE, ZERO), const(2, "i64"))
            if self.form.missing == "skipped"
            else select(eq(numbers, var("length")), var("position"), numbers)
        )
        return [self.counted("m", var("length"), nan, "gone"), Local("rank", rank)]

    def width_of(self, spread: Value) -> list[Statement]:
        """`top`: how many bits a number has up to its highest."""
        bit = var("w")
        is_set = ne(shr(var("spread", self.key), cast(bit, self.key)), const(0, self.key))
        higher = Assign("top", select(is_set, bit + ONE, var("top")))
        return [Local("spread", spread), Local("top", ZERO), For("w", ZERO, const(self.bits, "i64"), (higher,))]

    # --- long rows ----------------------------------------------------------------------------------------------------

    def narrowed(self) -> list[Statement]:
        """Keep the keys whose leading bits are the wanted one's, less the lowest, and where they were."""
        lead = cast(shr(self.offset(var("k")), cast(var("shift"), self.key)), "i64")
        one, counted = const(1, "u32"), var("lead")
        count = (Local("lead", lead), Store(BINS, counted, one, "add"),
                 Store(GROUPS, idiv(counted, const(FINE, "i64")), one, "add"))
        keep = (
            Local("own", self.offset(var("k"))),
            Local("inside", eq(cast(shr(var("own", self.key), cast(var("shift"), self.key)), "i64"), var("bin"))),
            Store(KEYS, var("base") + var("kept"), var("own", self.key)),
            Store(PLACES, var("base") + var("kept"), cast(var("k"), "u32")),
            Assign("kept", var("kept") + cast(var("inside", "b1"), "i64")),
        )
        first = var("group") * const(FINE, "i64")
        return [
            Local("shift", max_(var("top") - const(LEAD, "i64"), ZERO)),
            self.clear("a", BINS, COARSE * FINE), self.clear("b", GROUPS, COARSE),
            For("k", ZERO, var("length"), count),
            Local("seen", ZERO), Local("before", ZERO), Local("group", ZERO), Local("bin", ZERO),
            self.walk("g", GROUPS, ZERO, const(COARSE, "i64"), "group"),
            Assign("seen", var("before")),
            self.walk("f", BINS, first, first + const(FINE, "i64"), "bin"),
            Assign("kept", ZERO),
            For("k", ZERO, var("length"), keep),       # every place is written, most of them again: no branch
            Assign("rank", var("rank") - var("before")),
            Assign("low", const(0, self.key)),
            Assign("found", shl(cast(var("bin"), self.key), cast(var("shift"), self.key))),
            Assign("top", var("shift")),
        ]

    def clear(self, name: str, operand: int, count: int) -> Statement:
        return For(name, ZERO, const(count, "i64"), (Store(operand, var(name), const(0, "u32")),), vector=True)

    def walk(self, name: str, operand: int, start: Value, stop: Value, into: str) -> Statement:
        """Go along counts until the wanted rank is among them; `before` are those of earlier ones."""
        here = (Assign(into, var(name)), Assign("before", var("seen")),
                Assign("seen", var("seen") + cast(load(operand, var(name), "u32"), "i64")))
        return For(name, start, stop, (If(le(var("seen"), var("rank")), here),))

    # --- the key, and where it is -------------------------------------------------------------------------------------

    def search(self) -> Statement:
        """`found`: the highest bound below which no more keys lie than the rank says; `under`: how many do."""
        last = cast(var("top") - ONE - var("b"), self.key)
        bound = or_(var("found", self.key), shl(const(1, self.key), last))
        below = self.counted("c", var("kept"), lt(self.offset(var("c")), var("bound", self.key)), "below")
        fits = var("fits", "b1")
        return For("b", ZERO, var("top"), (
            Local("bound", bound), below, Local("less", cast(var("below", self.count), "i64")),
            Local("fits", le(var("less"), var("rank"))),
            Assign("found", select(fits, var("bound", self.key), var("found", self.key))),
            Assign("under", select(fits, var("less"), var("under"))),
        ))

    def place(self) -> list[Statement]:
        """Of the keys that are equal to it, that of the rank."""
        k, same = var("p"), var("same", "b1")
        hit = and_(same, eq(var("equals"), var("rank") - var("under")))
        where = cast(load(PLACES, var("base") + var("where"), "u32"), "i64") if self.form.is_long else var("where")
        value = load(INPUT, var("read") + var("origin") * var("stride"), self.form.code)
        return [
            Local("equals", ZERO), Local("where", ZERO),
            For("p", ZERO, var("kept"), (
                Local("same", eq(self.offset(k), var("found", self.key))),
                Assign("where", select(hit, k, var("where"))),
                Assign("equals", var("equals") + cast(same, "i64")),
            )),
            Local("origin", where),
            Store(VALUES, var("write"), value), Store(INDICES, var("write"), var("origin")),
        ]
