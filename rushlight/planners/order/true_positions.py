"""Where a mask is true: how many elements up to each chunk, and the positions themselves.

Enters: ranks. Leaves: nests over dense masks. Their results are as long as data says, which no Lowered states.
"""

from __future__ import annotations

from typing import Any

from ...codegen.nvptx.scan import COUNTS, MOST_ITEMS, placing, spine, summing
from ...codegen.nvptx.written import THREADS
from ...codegen.schedule.forms.launch import Launch, Schedule, Temp
from ...loops.expr import cast, const, gt, idiv, irem, load, max_, min_, select, var
from ...loops.nest import Assign, For, If, Local, Nest, Operand, Store, operands, reduction, rows

ITEMS = MOST_ITEMS[4]    # elements of a thread of a written kernel
TILE = ITEMS * THREADS
CHUNK = 16384            # elements one thread looks through at a time
BLOCK = 512              # elements whose positions are collected before they are written
ZERO = const(0, "i64")


def chunk_range() -> tuple[Any, Any]:
    first = var("i") * const(CHUNK, "i64")
    return first, min_(first + const(CHUNK, "i64"), var("numel"))


def count_nest() -> Nest:
    """True elements per chunk."""
    truth = cast(load(0, var("j"), "b1"), "i64")
    total = reduction(
        "j", *chunk_range(), ["count"], [ZERO], step=lambda acc: [acc[0] + truth], merge=lambda a, b: [a[0] + b[0]]
    )
    return Nest("count_true", operands(["b1"], ["i64"]), ("numel",), rows(total, Store(1, var("i"), var("count"))))


def ends_nest() -> Nest:
    """Counts of chunks to counts up to their ends, in place."""
    walk = For(
        "k", ZERO, var("chunks"), (Assign("sum", var("sum") + load(0, var("k"), "i64")), Store(0, var("k"), var("sum")))
    )
    return Nest("count_ends", operands([], ["i64"]), ("chunks",), rows(Local("sum", ZERO), walk))


def fill_nest(ndim: int) -> Nest:
    """Positions of true elements; each chunk begins where the one before it ends.

    A block's are collected on the stack first, every position written and counted only if it stays:
    a branch that data decides is guessed wrong too often.
    """
    sizes = [f"n{d}" for d in range(ndim)]
    begin, stop = chunk_range()
    first = var("b") * const(BLOCK, "i64") + begin
    kept = cast(load(0, var("j"), "b1"), "i64")
    collect = For(
        "j",
        first,
        min_(first + const(BLOCK, "i64"), stop),
        (Store(3, var("n"), var("j")), Assign("n", var("n") + kept)),
    )
    rest, places = load(3, var("k"), "i64"), []
    for d in range(ndim - 1, -1, -1):
        places.append(irem(rest, var(sizes[d])) if d else rest)
        rest = idiv(rest, var(sizes[d])) if d else rest
    at = (var("at") + var("k")) * const(max(ndim, 1), "i64")
    stores = [Store(2, at + const(d, "i64"), place) for d, place in enumerate(reversed(places))]
    spread = For("k", ZERO, var("n"), tuple(stores), vector=ndim == 1)
    blocks = idiv(stop - begin + const(BLOCK - 1, "i64"), const(BLOCK, "i64"))
    start = select(gt(var("i"), ZERO), load(1, max_(var("i") - const(1, "i64"), ZERO), "i64"), ZERO)
    loop = For("b", ZERO, blocks, (Local("n", ZERO), collect, spread, Assign("at", var("at") + var("n"))))
    return Nest(
        "positions",
        (*operands(["b1", "i64"], ["i64"]), Operand("i64", BLOCK + 1)),
        ("numel", *sizes),
        rows(Local("at", start), loop),
    )


def spread_nest(ndim: int) -> Nest:
    """A true element writes its coordinates where the count says."""
    sizes, rest, places = [f"n{d}" for d in range(ndim)], var("i"), []
    for d in range(ndim - 1, -1, -1):
        places.append(irem(rest, var(sizes[d])) if d else rest)
        rest = idiv(rest, var(sizes[d])) if d else rest
    at = (load(1, var("i"), "i64") - const(1, "i64")) * const(max(ndim, 1), "i64")
    stores = [Store(2, var("at") + const(d, "i64"), place) for d, place in enumerate(reversed(places))]
    body = (Local("at", at), If(load(0, var("i"), "b1"), tuple(stores)))
    return Nest("spread_positions", operands(["b1", "i64"], ["i64"]), tuple(sizes), rows(*body))


# --- small masks, in one pass that counts on its way -----------------------------------------------------------------


def pack_nest(code: str) -> Nest:
    """The elements under a mask side by side, and how many they are. Each is written, and counted only if it stays."""
    kept = cast(load(1, var("j"), "b1"), "i64")
    walk = For("j", ZERO, var("numel"),
               (Store(2, var("n"), load(0, var("j"), code)), Assign("n", var("n") + kept)))
    return Nest("pack_true", operands([code, "b1"], [code, "i64"]), ("numel",),
                rows(Local("n", ZERO), walk, Store(3, ZERO, var("n"))))


def place_nest(code: str) -> Nest:
    """Elements, under a mask the next ones of a source instead, and how many those are: of a source that is too short
    the last one is repeated."""
    kept, last = load(1, var("j"), "b1"), var("given") - const(1, "i64")
    taken = select(kept, load(2, min_(var("n"), last), code), load(0, var("j"), code))
    walk = For("j", ZERO, var("numel"), (Store(3, var("j"), taken), Assign("n", var("n") + cast(kept, "i64"))))
    return Nest("place_true", operands([code, "b1", code], [code, "i64"]), ("numel", "given"),
                rows(Local("n", ZERO), walk, Store(4, ZERO, var("n"))))


# --- by written kernels -----------------------------------------------------------------------------------------------


def tile_counts(numel: int) -> Schedule:
    """How many elements before each tile of a mask, and in all, are true."""
    tiles = -(-numel // TILE)
    return Schedule((
        Launch(("written", "sums"), lambda: summing(COUNTS, ITEMS), (0, 1), (numel, tiles), tiles, 1),
        Launch(("written", "spine"), lambda: spine(COUNTS), (1,), (tiles + 1,), 1, 1),
    ))


def tile_positions(shape: tuple[int, ...], numel: int, length: int) -> Schedule:
    """Positions of true elements, from how many are before each tile."""
    tiles, flat = -(-numel // TILE), len(shape) == 1
    place = Launch(("written", "places"), lambda: placing(ITEMS), (0, 1, 2 if flat else 3), (numel, tiles), tiles, 1)
    if flat:
        return Schedule((place,))
    rank = len(shape)
    spread = Launch(("coordinates", rank), lambda: coordinates_nest(rank), (3, 2), shape, length, 1)
    return Schedule((place, spread), (Temp("i64", (length,)),))


def coordinates_nest(ndim: int) -> Nest:
    """The coordinates of numbered elements."""
    sizes, rest, places = [f"n{d}" for d in range(ndim)], var("number"), []
    for d in range(ndim - 1, -1, -1):
        places.append(irem(rest, var(sizes[d])) if d else rest)
        rest = idiv(rest, var(sizes[d])) if d else rest
    at = var("i") * const(ndim, "i64")
    stores = [Store(1, at + const(d, "i64"), place) for d, place in enumerate(reversed(places))]
    return Nest("coordinates", operands(["i64"], ["i64"]), tuple(sizes),
                rows(Local("number", load(0, var("i"), "i64")), *stores, vector=True))
