"""The first few elements in order along a dim of middle length, taken one after another.

Enters: a tensor, a dim of at most `LONGEST` elements, how many are wanted (at most `MOST`), the order. Leaves: one
kernel that holds a row's keys (`radix.key_of`) near and looks for the lowest as often as an element is wanted:
once along the keys for what it is, once more for where it is first. Both are vector compares and nothing else. Refuses:
sizes that are not known to be that small, and more elements than sorting would be as fast for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...base.shape import is_below
from ...codegen.schedule.forms.launch import Launch, Schedule, grain_of, product
from ...loops.expr import Value, cast, const, eq, load, min_, select, var
from ...loops.nest import For, Local, Nest, Operand, Store, operands, reduction, rows
from ...op.indexed import contiguous_strides
from .radix import BITS, key_of
from .ranks import KEYS, STRIP, row_places

MOST, LONGEST = 12, 1024
PLACES = KEYS + 1         # the operand that says where each key is from, until it is taken
ZERO = const(0, "i64")


def few_launches(input: Any, dim: int, count: int, descending: bool) -> Schedule | None:
    """The kernel for the first `count` elements along `dim` in order, and where they are; None where others serve."""
    sizes, strides = tuple(input.shape), input.stride()
    if input.device.type != "cpu" or input.dtype.code not in BITS or not sizes:
        return None
    length = sizes[dim]
    if not is_below(length, LONGEST + 1) or not is_below(count, MOST + 1) or not is_below(4 * count, length):
        return None
    outs = contiguous_strides([count if d == dim else n for d, n in enumerate(sizes)])
    axes = [(sizes[d], strides[d], outs[d]) for d in range(len(sizes)) if d != dim and sizes[d] != 1]
    params = [a[k] for k in range(3) for a in axes] + [length, strides[dim], outs[dim], count]
    code, extent, grain = input.dtype.code, product(a[0] for a in axes), grain_of(length * MOST)
    form = (code, len(axes), descending)
    return Schedule(
        (Launch(("few_first", *form), partial(few_nest, *form), (0, 1, 2), tuple(params), extent, grain),)
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
