"""The first few elements in order along a dim, taken one after another.

Enters: a tensor, a dim, how many are wanted, the order. Leaves: one kernel that looks for the lowest key
(`radix.key_of`) of a row as often as an element is wanted. Dims of at most `LONGEST` elements hold their keys near and
look along all of them: once for what the lowest is, once more for where it is first. Longer ones hold the lowest key of
every strip and its place; what was taken comes before all that is left, so only the strip it was in is read again.
All of it is vector compares. Refuses: sizes that are not known to be that small, long dims that are no runs in
memory, and more elements than sorting would be as fast for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...base.shape import is_below
from ...codegen.schedule.forms.launch import Launch, Schedule, grain_of, product
from ...loops.expr import Value, and_, cast, const, eq, gt, idiv, load, min_, or_, select, var
from ...loops.nest import For, Local, Nest, Operand, Store, operands, reduction, rows
from ...op.indexed import contiguous_strides
from .radix import BITS, key_of
from .ranks import KEYS, STRIP, row_places

MOST, LONGEST = 12, 1024               # elements wanted, and those of a dim, where all keys are held
MOST_OF_LONG, STRIPS, WIDE = 256, 4096, 64  # elements wanted of a longer one; its strips, at most, and what one has
FEWER = 16                # times fewer are wanted than a long dim has, at least
PLACES = KEYS + 1         # the operand that says where each key is from, until it is taken
ZERO = const(0, "i64")


def few_launches(input: Any, dim: int, count: int, descending: bool) -> Schedule | None:
    """The kernel for the first `count` elements along `dim` in order, and where they are; None where others serve."""
    sizes, strides = tuple(input.shape), input.stride()
    if input.device.type != "cpu" or input.dtype.code not in BITS or not sizes:
        return None
    length = sizes[dim]
    is_long = not (is_below(length, LONGEST + 1) and is_below(count, MOST + 1))
    most, longest, fewer = (MOST_OF_LONG, WIDE * STRIPS, FEWER) if is_long else (MOST, LONGEST, 4)
    if not is_below(length, longest + 1) or not is_below(count, most + 1) or not is_below(fewer * count, length):
        return None
    if is_long and strides[dim] != 1:
        return None
    outs = contiguous_strides([count if d == dim else n for d, n in enumerate(sizes)])
    axes = [(sizes[d], strides[d], outs[d]) for d in range(len(sizes)) if d != dim and sizes[d] != 1]
    params = [a[k] for k in range(3) for a in axes] + [length, strides[dim], outs[dim], count]
    code, extent, grain = input.dtype.code, product(a[0] for a in axes), grain_of(length * MOST)
    form, nest = (code, len(axes), descending), strips_nest if is_long else few_nest
    return Schedule(
        (Launch((nest.__name__, *form), partial(nest, *form), (0, 1, 2), tuple(params), extent, grain),)
    )


def few_nest(code: str, rank: int, descending: bool) -> Nest:
    """One row per iteration."""
    params, places = row_places(rank)
    word = "u64" if BITS[code] == 64 else "u32"
    most = const((1 << BITS[word]) - 1, word)
    length = var("length")
    padded = (length + const(STRIP - 1, "i64")) // const(STRIP, "i64") * const(STRIP, "i64")

    def element(at: Value) -> Value:
        return load(0, var("read") + at * var("stride"), code)

    def lowest(name: str, of: str, value: Value) -> Any:
        return reduction(
            name, ZERO, padded, [of], [most],
            step=lambda acc: [min_(acc[0], value)], merge=lambda a, b: [min_(a[0], b[0])],
        )

    copy = For("h", ZERO, length, (
        Store(KEYS, var("h"), cast(key_of(element(var("h")), descending), word)),
        Store(PLACES, var("h"), cast(var("h"), word)),
    ), vector=True)
    fill = For("f", length, padded, (Store(KEYS, var("f"), most), Store(PLACES, var("f"), most)))
    # The highest key may be an element's own, too: what is taken is known by its place.
    is_it = eq(load(KEYS, var("p"), word), var("key", word))
    at, where = var("write") + var("j") * var("out_stride"), var("where")
    each = For("j", ZERO, var("count"), (
        lowest("k", "key", load(KEYS, var("k"), word)),
        lowest("p", "place", select(is_it, load(PLACES, var("p"), word), most)),
        Local("where", cast(var("place", word), "i64")),
        Store(1, at, element(where)), Store(2, at, where),
        Store(KEYS, where, most), Store(PLACES, where, most),
    ))
    memory = (*operands([code], [code, "i64"]), Operand(word, LONGEST), Operand(word, LONGEST))
    return Nest("few_first", memory, params, rows(*places, copy, fill, each))


def strips_nest(code: str, rank: int, descending: bool) -> Nest:
    """One row per iteration, which is not held."""
    params, places = row_places(rank)
    word = "u64" if BITS[code] == 64 else "u32"
    most, width = const((1 << BITS[word]) - 1, word), const(WIDE, "i64")
    length, last, taken = var("length"), var("last", word), var("taken")
    strips = idiv(var("length") + const(WIDE - 1, "i64"), width)

    def element(at: Value) -> Value:
        return load(0, var("read") + at * var("stride"), code)

    def key(at: Value) -> Value:
        return cast(key_of(element(at), descending), word)

    def lowest(name: str, of: str, start: Value, stop: Value, value: Value) -> Any:
        return reduction(name, start, stop, [of], [most],
                         step=lambda acc: [min_(acc[0], value)], merge=lambda a, b: [min_(a[0], b[0])])

    def strip(name: str, at: Value, is_left: Any) -> list[Any]:
        """Writes the lowest key of a strip among those left, and its place; the largest number where there is none."""
        start, stop, here = at * width, min_(at * width + width, length), var(f"{name}.h")
        own, first = f"{name}.key", f"{name}.place"
        found = select(and_(is_left(here), eq(key(here), var(own, word))), cast(here, word), most)
        return [
            lowest(f"{name}.h", own, start, stop, select(is_left(here), key(here), most)),
            lowest(f"{name}.h", first, start, stop, found),
            Store(KEYS, at, var(own, word)), Store(PLACES, at, var(first, word)),
        ]

    def comes_later(at: Value) -> Value:
        return or_(gt(key(at), last), and_(eq(key(at), last), gt(at, taken)))

    every = For("s", ZERO, strips, tuple(strip("all", var("s"), lambda at: eq(ZERO, ZERO))))
    is_it = eq(load(KEYS, var("p"), word), last)
    at = var("write") + var("j") * var("out_stride")
    each = For("j", ZERO, var("count"), (
        lowest("k", "last", ZERO, strips, load(KEYS, var("k"), word)),
        lowest("p", "place", ZERO, strips, select(is_it, load(PLACES, var("p"), word), most)),
        Local("taken", cast(var("place", word), "i64")),
        Store(1, at, element(taken)), Store(2, at, taken),
        *strip("one", idiv(taken, width), comes_later),
    ))
    memory = (*operands([code], [code, "i64"]), Operand(word, STRIPS), Operand(word, STRIPS))
    return Nest("few_of_strips", memory, params, rows(*places, every, each))
