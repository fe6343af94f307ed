"""GPU schedules of contractions: a thread sums a tile of results in registers.

Enters: a Lowered that is a product of matrices (forms/contraction.py). Leaves: one launch. Threads of a warp take
columns side by side and the same rows: what they read of the right factor are neighbours, and of the left one the same.
Operands that are computed (another type, a scale) are so where they are read, and what follows the sums where they are
stored. This is for devices without a library of products: it uses no shared memory and no matrix instructions. None
where there are too few results for tiles: those are folds like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....loops.contraction import multiply_add
from ....loops.expr import Value, and_, const, idiv, irem, lt, min_, var
from ....loops.lowered import Lowered, Placed
from ....loops.nest import If, Local, Nest, Reduce, Statement, Store, operands, rows
from ..forms.contraction import Parts, factors_of, parts_of, result_of
from ..forms.launch import Launch, Schedule
from ..forms.sources import given_bits, given_names

LANES = 32               # columns side by side that threads of a warp take
TILE = (4, 4)            # rows and columns of a thread
FEWEST = 16              # rows and columns from which on tiles pay
ZERO = const(0, "i64")
AXES = ("b", "i", "j", "k")


def schedule_contraction(lowered: Lowered) -> Schedule | None:
    """The launch of a contraction; None where it is better folded."""
    parts = parts_of(lowered)
    if parts is None or not (parts.rows.size >= FEWEST and parts.columns.size >= FEWEST):
        return None
    batch, m, n, k = parts.sizes
    high, wide = -(-m // TILE[0]), -(-n // (LANES * TILE[1]))
    params = [m, n, k, high, wide]
    for r in range(len(lowered.memories)):
        params += [axis.strides[r] for axis in (parts.batch, parts.rows, parts.columns, parts.deep)]
    params += [parts.batch.other, parts.rows.other, parts.columns.other, *given_bits(lowered)]
    codes = tuple([m.code for m in lowered.memories])
    types = tuple([type(r.value) for r in lowered.reads if not hasattr(r, "dims")])
    key = ("gpu contraction", lowered.key, codes, lowered.outs, parts.left, parts.right, parts.swapped, types)
    numbers = tuple(range(len(codes) + 1))
    extent = batch * high * wide * LANES
    return Schedule((Launch(key, lambda: tile_nest(lowered, parts), numbers, tuple(params), extent, 1),))


def tile_nest(lowered: Lowered, parts: Parts) -> Nest:
    """A thread for each tile of `TILE` results, whose columns are `LANES` apart."""
    codes, compute = [m.code for m in lowered.memories], lowered.folding.compute
    strides = [[f"s{r}.{name}" for name in AXES] for r in range(len(codes))]
    out = [f"out.{name}" for name in AXES[:3]]
    i, high, wide, lanes = var("i"), var("high"), var("wide"), const(LANES, "i64")
    body: list[Statement] = [
        Local("lane", irem(i, lanes)),
        Local("column", irem(idiv(i, lanes), wide) * const(LANES * TILE[1], "i64") + var("lane")),
        Local("row", irem(idiv(i, lanes * wide), high) * const(TILE[0], "i64")),
        Local("batch", idiv(i, lanes * wide * high)),
    ]
    at_rows = [var("row") + const(r, "i64") for r in range(TILE[0])]
    at_columns = [var("column") + const(LANES * q, "i64") for q in range(TILE[1])]
    # What lies behind the last row or column is computed of the last one, and not stored.
    near_rows = [named(body, f"row{r}", min_(at, var("m") - const(1, "i64"))) for r, at in enumerate(at_rows)]
    near_columns = [named(body, f"column{q}", min_(at, var("n") - const(1, "i64"))) for q, at in enumerate(at_columns)]

    def placed(row: Value, column: Value, k: Value) -> list[Placed]:
        position = (var("batch"), row, column, k)
        places = [sum_of([x * var(s) for x, s in zip(position, own, strict=True)]) for own in strides]
        return [Placed(r, place, code) for r, (place, code) in enumerate(zip(places, codes, strict=True))]

    def factors(row: Value, column: Value) -> tuple[Value, Value]:
        x, y = factors_of(lowered, placed(row, column, var("k.at")))
        return (y, x) if parts.swapped else (x, y)

    left = [factors(row, near_columns[0])[0] for row in near_rows]
    right = [factors(near_rows[0], column)[1] for column in near_columns]
    pairs = [(r, q) for r in range(TILE[0]) for q in range(TILE[1])]
    names = tuple([f"acc{r}.{q}" for r, q in pairs])
    step = [multiply_add(left[r], right[q], var(name, compute)) for (r, q), name in zip(pairs, names, strict=True)]
    merge = [var(f"{name}.a", compute) + var(f"{name}.b", compute) for name in names]
    zero = const(0.0 if compute[0] in "fc" else 0, compute)
    body.append(Reduce("k.at", ZERO, var("k"), names, (zero,) * len(names), tuple(step), tuple(merge)))
    for (r, q), name in zip(pairs, names, strict=True):
        value = result_of(lowered, placed(near_rows[r], near_columns[q], ZERO), var(name, compute))
        position = (var("batch"), at_rows[r], at_columns[q])
        store = Store(len(codes), sum_of([x * var(s) for x, s in zip(position, out, strict=True)]), value)
        body.append(If(and_(lt(at_rows[r], var("m")), lt(at_columns[q], var("n"))), (store,)))
    params = ("m", "n", "k", "high", "wide", *[s for own in strides for s in own], *out, *given_names(lowered))
    return Nest(f"{lowered.name}_tiles", operands(codes, lowered.outs), params, rows(*body, vector=True))


def named(body: list[Statement], name: str, value: Value) -> Value:
    """The value under a name."""
    body.append(Local(name, value))
    return var(name)


def sum_of(terms: Sequence[Value]) -> Value:
    total = ZERO
    for term in terms:
        total = total + term
    return total
