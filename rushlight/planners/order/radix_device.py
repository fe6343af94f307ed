"""Sorting along long dims, and the first few of them, on devices of many threads, by the digits of the elements' keys.

Enters: a tensor of a plugged-in device, a dim, how many elements are wanted, the order. Leaves: launches that write
values and positions, stable in either direction, NaN last as the largest number. Keys are those of radix.py. Records of
key and position are dealt out by four bits of the key at a time, lowest first: threads count the digits of pieces of a
row, the counts of all pieces are summed up in the order (row, digit, piece), and each thread deals its piece out from
the places it then knows. What a kernel does depends on sizes alone, so results do not depend on how threads run.
Refuses: complex numbers, and 2**31 elements or more.
"""

from __future__ import annotations

from typing import Any

from ...codegen.schedule.forms.launch import Launch, Schedule, Temp, names, product
from ...devices import handlers
from ...loops.expr import Value, and_, cast, const, idiv, irem, load, min_, shr, var
from ...loops.nest import Assign, For, If, Local, Nest, Operand, Statement, Store, operands, rows
from ...op.indexed import contiguous_strides
from .radix import BITS, element_of, key_code, key_of
from .radix_blocks import are_few, few_steps, has_keys, is_selected, select_steps, sort_steps

DIGIT_BITS = 4
DIGIT = 1 << DIGIT_BITS
PIECE = 64               # records of a row that one thread deals out
GROUP = 64               # counts that one thread sums up
MOST = 1 << 31
ZERO, ONE = const(0, "i64"), const(1, "i64")
FIRST_TEMP = 3           # behind the input, the values and the positions


def finds_few(input: Any, dim: int, count: int) -> bool:
    """Whether warps of the device look for the first `count` elements one after the other."""
    written = input.device.type in handlers and handlers[input.device.type].loads_written
    return bool(written and input.ndim and count and input.dtype.code in BITS
                and are_few(BITS[input.dtype.code], input.shape[dim], count))


def sort_launches(input: Any, dim: int, count: int, descending: bool) -> Schedule | None:
    """Kernels for the first `count` elements along `dim` in order, and where they are; None where there are none."""
    sizes, strides = tuple([int(n) for n in input.shape]) or (1,), input.stride() or (1,)
    if input.dtype.code not in BITS or product(sizes) >= MOST:
        return None
    code, length = input.dtype.code, sizes[dim]
    others = [d for d in range(len(sizes)) if d != dim and sizes[d] != 1]
    number, total = product(sizes[d] for d in others), product(sizes)
    if not total or not count:
        return None
    key, form = key_code(code), (code, len(others), descending)
    reads = [sizes[d] for d in others], [strides[d] for d in others]
    outs = contiguous_strides([count if d == dim else n for d, n in enumerate(sizes)])
    numbers = (*reads[0], *reads[1], length, strides[dim])
    given = (*reads[0], *reads[1], *[outs[d] for d in others], length, strides[dim], outs[dim], count)
    written = getattr(handlers.get(input.device.type), "loads_written", False)
    if written and is_selected(BITS[code], length, count):
        launches, temps, ordered = select_steps(BITS[code], number, length, count, FIRST_TEMP)
        keys, records, places = FIRST_TEMP, FIRST_TEMP + 1, FIRST_TEMP + 3
        start = Launch(("select keys", form), lambda: keys_nest(*form, False), (0, keys), numbers, total, 1)
        zero = Launch(("select zero",), zero_nest, (records,), (), product(temps[1].sizes), 1)
        taken = Launch(("select take", form), lambda: take_nest(code, len(others), True), (0, ordered, places, 1, 2),
                       given, number * count, 1)
        return Schedule((start, zero, *launches, taken), tuple(temps))
    few = written and are_few(BITS[code], length, count)
    if few:
        launches, temps, ordered = few_steps(BITS[code], number, length, count, FIRST_TEMP)
    elif written:
        launches, temps, ordered = sort_steps(BITS[code], number, length, FIRST_TEMP)
    else:
        launches, temps, ordered = digit_steps(key, BITS[code], number, length)
    slots = (0, FIRST_TEMP) if written else (0, FIRST_TEMP, FIRST_TEMP + 1)
    start = Launch(("sort keys", form, bool(written)), lambda: keys_nest(*form, not written), slots, numbers, total, 1)
    if written and not few and has_keys(BITS[code], length):
        taken = Launch(("sort take keys", form), lambda: keyed_nest(*form), (0, ordered, ordered - 1, 1, 2), given,
                       number * count, 1)
    else:
        taken = Launch(("sort take", form), lambda: take_nest(code, len(others)), (0, ordered, 1, 2), given,
                       number * count, 1)
    return Schedule((start, *launches, taken), tuple(temps))


def digit_steps(key: str, bits: int, number: int, length: int) -> tuple[list[Launch], list[Temp], int]:
    """The launches that put rows of records in order, the temporaries (keys and positions as they come first), and the
    operand that has the positions in order."""
    pieces, total = -(-length // PIECE), number * length
    levels = [number * DIGIT * pieces]
    while levels[-1] > GROUP:
        levels.append(-(-levels[-1] // GROUP))
    records = [Temp(key, (total,)), Temp("u32", (total,))]
    temps = [*records, *records, *[Temp("u32", (n,)) for n in levels]]
    now, counts, launches = FIRST_TEMP, FIRST_TEMP + 4, []
    for digit in range(0, bits, DIGIT_BITS):
        given = (length, pieces, digit)
        launches.append(Launch(("sort count", key), lambda: count_nest(key), (now, counts), given, number * pieces, 1))
        launches += sums(levels, counts)
        there = FIRST_TEMP + 2 if now == FIRST_TEMP else FIRST_TEMP
        used = (now, now + 1, counts, there, there + 1)
        launches.append(Launch(("sort deal", key), lambda: deal_nest(key), used, given, number * pieces, 1))
        now = there
    return launches, temps, now + 1


def keys_nest(code: str, rank: int, descending: bool, placed: bool = True) -> Nest:
    """A record for each element, row by row; without its place unless `placed`."""
    sizes, strides = names("n", rank), names("s", rank)
    row, j = idiv(var("i"), var("length")), irem(var("i"), var("length"))
    place = j * var("stride")
    for d in range(rank - 1, -1, -1):
        place = place + (irem(row, var(sizes[d])) if d else row) * var(strides[d])
        row = idiv(row, var(sizes[d])) if d else row
    stores = (Store(1, var("i"), key_of(load(0, place, code), descending)), Store(2, var("i"), cast(j, "u32")))
    params, codes = (*sizes, *strides, "length", "stride"), [key_code(code), "u32"]
    kept = 2 if placed else 1
    return Nest("sort_keys", operands([code], codes[:kept]), params, rows(*stores[:kept]))


def zero_nest() -> Nest:
    return Nest("select_zero", operands([], ["u32"]), (), rows(Store(0, var("i"), const(0, "u32"))))


def piece_of_row() -> list[Statement]:
    """Which records iteration i has: those from `first` up to `last`."""
    start = irem(var("i"), var("pieces")) * const(PIECE, "i64")
    return [
        Local("row", idiv(var("i"), var("pieces"))), Local("piece", irem(var("i"), var("pieces"))),
        Local("first", var("row") * var("length") + start),
        Local("last", var("row") * var("length") + min_(start + const(PIECE, "i64"), var("length"))),
    ]


def digit_of(key: Value) -> Value:
    moved = shr(key, cast(var("digit"), key.dtype))
    return cast(and_(moved, const(DIGIT - 1, key.dtype)), "i64")


def count_place(digit: Value) -> Value:
    """Where a piece's count of a digit is: rows, then digits, then pieces."""
    return (var("row") * const(DIGIT, "i64") + digit) * var("pieces") + var("piece")


def each_digit(*body: Statement) -> For:
    return For("d", ZERO, const(DIGIT, "i64"), body)


def count_nest(key: str) -> Nest:
    """How often each digit occurs in each piece."""
    own, one = 2, const(1, "u32")
    at = var("at")
    counted = For("j", var("first"), var("last"), (
        Local("at", digit_of(load(0, var("j"), key))), Store(own, at, load(own, at, "u32") + one),
    ))
    body = [
        *piece_of_row(), each_digit(Store(own, var("d"), const(0, "u32"))), counted,
        each_digit(Store(1, count_place(var("d")), load(own, var("d"), "u32"))),
    ]
    result = (*operands([key], ["u32"]), Operand("u32", DIGIT))
    return Nest("sort_count", result, ("length", "pieces", "digit"), rows(*body))


def deal_nest(key: str) -> Nest:
    """Each piece's records to where the sums of counts say."""
    own, at, to = 5, var("at"), var("to", "u32")
    dealt = For("j", var("first"), var("last"), (
        Local("key", load(0, var("j"), key)), Local("at", digit_of(var("key", key))),
        Local("to", load(own, at, "u32")), Store(own, at, to + const(1, "u32")),
        Store(3, cast(to, "i64"), var("key", key)), Store(4, cast(to, "i64"), load(1, var("j"), "u32")),
    ))
    body = [*piece_of_row(), each_digit(Store(own, var("d"), load(2, count_place(var("d")), "u32"))), dealt]
    result = (*operands([key, "u32", "u32"], [key, "u32"]), Operand("u32", DIGIT))
    return Nest("sort_deal", result, ("length", "pieces", "digit"), rows(*body))


def take_nest(code: str, rank: int, selected: bool = False) -> Nest:
    """The first elements of each row, and where they come from; `selected`: which is said of those that were."""
    row, j = idiv(var("i"), var("count")), irem(var("i"), var("count"))
    if selected:
        among = row * var("count") + cast(load(1, var("i"), "u32"), "i64")
        origin = cast(load(2, among, "u32"), "i64")
    else:
        origin = cast(load(1, row * var("length") + j, "u32"), "i64")
    out = 3 if selected else 2
    params, read, write = taken_places(rank, row, j)
    body: list[Statement] = [
        Local("origin", origin), Local("write", write), Store(out, var("write"), load(0, read, code)),
        Store(out + 1, var("write"), var("origin")),
    ]
    return Nest("sort_take", operands([code, *["u32"] * (out - 1)], [code, "i64"]), params, rows(*body))


def keyed_nest(code: str, rank: int, descending: bool) -> Nest:
    """The same where the keys are in order: elements are what their keys say, and only zeros and NaN, of which there
    are several, are looked up."""
    row, j = idiv(var("i"), var("count")), irem(var("i"), var("count"))
    params, read, write = taken_places(rank, row, j)
    at, key = row * var("length") + j, var("key", key_code(code))
    value, doubtful = element_of(key, code, descending)
    body: list[Statement] = [
        Local("key", load(2, at, key.dtype)), Local("origin", cast(load(1, at, "u32"), "i64")), Local("write", write),
        Store(3, var("write"), value), Store(4, var("write"), var("origin")),
    ]
    if doubtful is not None:
        body.append(If(doubtful, (Store(3, var("write"), load(0, read, code)),)))
    return Nest("sort_take_keys", operands([code, "u32", key.dtype], [code, "i64"]), params, rows(*body))


def taken_places(rank: int, row: Value, j: Value) -> tuple[tuple[str, ...], Value, Value]:
    """The parameters of such a nest, where the element `origin` of a row is, and where its `j`-th result goes."""
    sizes, reads, writes = names("n", rank), names("s", rank), names("o", rank)
    read, write, rest = var("origin") * var("stride"), j * var("out_stride"), row
    for d in range(rank - 1, -1, -1):
        at = irem(rest, var(sizes[d])) if d else rest
        read, write = read + at * var(reads[d]), write + at * var(writes[d])
        rest = idiv(rest, var(sizes[d])) if d else rest
    return (*sizes, *reads, *writes, "length", "stride", "out_stride", "count"), read, write


# --- sums of what is before each count --------------------------------------------------------------------------------


def sums(levels: list[int], first: int) -> list[Launch]:
    """Counts become the sum of those before them: groups are summed up, and their sums, until one group is left."""
    up = [
        Launch(("sort groups",), groups_nest, (first + k, first + k + 1), (levels[k],), levels[k + 1], 1)
        for k in range(len(levels) - 1)
    ]
    top = Launch(("sort top",), lambda: before_nest(False), (first + len(levels) - 1,), (levels[-1],), 1, 1)
    down = [
        Launch(("sort before",), lambda: before_nest(True), (first + k + 1, first + k), (levels[k],), levels[k + 1], 1)
        for k in range(len(levels) - 2, -1, -1)
    ]
    return [*up, top, *down]


def group(body: tuple[Statement, ...]) -> For:
    start = var("i") * const(GROUP, "i64")
    return For("j", start, min_(start + const(GROUP, "i64"), var("count")), body)


def groups_nest() -> Nest:
    total = var("total", "u32")
    loop = group((Assign("total", total + load(0, var("j"), "u32")),))
    body = (Local("total", const(0, "u32")), loop, Store(1, var("i"), total))
    return Nest("sort_groups", operands(["u32"], ["u32"]), ("count",), rows(*body))


def before_nest(continued: bool) -> Nest:
    """Sums in place, of one group or, `continued`, of groups whose starts are known."""
    own, total = int(continued), var("total", "u32")
    step = (Local("here", load(own, var("j"), "u32")), Store(own, var("j"), total),
            Assign("total", total + var("here", "u32")))
    start = load(0, var("i"), "u32") if continued else const(0, "u32")
    return Nest("sort_before", operands(["u32"] if continued else [], ["u32"]), ("count",),
                rows(Local("total", start), group(step)))
