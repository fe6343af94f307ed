"""CPU schedules of row programs.

Enters: a `RowProgram` (loops/row_program.py), how many rows there are and how long they are. Leaves: one launch over
the rows; where results are sums over rows, one over chunks of them,
and one that adds up the chunks' sums for each of these results.
"""

from __future__ import annotations

from ....base.shape import is_below
from ....loops.expr import cast, const, load, var
from ....loops.nest import Nest, Store, operands, reduction, rows
from ....loops.row_program import RowProgram
from ..forms.launch import GRAIN, Launch, Schedule, Temp, grain_of
from ..forms.rows import ZERO, RowNest

HELD = 4096              # elements of a row that the nearest cache holds beside what is read and written
SUM_ROWS = 256           # rows whose column sums one chunk keeps


def schedule_rows(
    program: RowProgram, count: int, cols: int, target: str = "cpu", distances: tuple[int, ...] = ()
) -> Schedule:
    """How a CPU runs the program over `count` rows of `cols` elements, those of `program.lines` at these distances;
    elsewhere nothing is kept meanwhile."""
    spills = target == "cpu"
    held = HELD if spills and is_below(cols, HELD + 1) else 0
    inputs, outs, totals = len(program.operands), len(program.results), program.totals()
    place = inputs + outs
    per_chunk = max(1, min(SUM_ROWS, GRAIN * 8 // max(1, cols)))
    chunks = -(-count // per_chunk)
    temps = [Temp(program.compute, (chunks, cols)) for _ in totals]
    partial = {k: place + n for n, k in enumerate(totals)}
    error = -1
    if program.bound is not None:
        error = place + len(temps)
        temps.append(Temp("i64", (1,)))
    numbers = (*range(inputs), *[partial.get(k, inputs + k) for k in range(outs)], *([error] if error >= 0 else []))
    key = ("rows", program.key, spills, held)
    if not totals:
        return Schedule(
            (
                Launch(
                    key, lambda: RowNest(program, spills, held).nest(), numbers, (cols, *distances), count,
                    grain_of(cols), error,
                ),
            ),
            tuple(temps),
        )
    params = (cols, count, per_chunk, *distances)
    launches = [Launch(key, lambda: RowNest(program, spills, held).nest(), numbers, params, chunks, 1, error)]
    for k in totals:
        code = program.results[k][1]
        own = ("sum_rows", program.compute, code)
        launches.append(
            Launch(
                own,
                lambda code=code: sum_rows_nest(program.compute, code),
                (partial[k], inputs + k),
                (cols, chunks),
                cols,
                max(64, GRAIN // max(1, chunks)),
            )
        )
    return Schedule(tuple(launches), tuple(temps))


def sum_rows_nest(compute: str, code: str) -> Nest:
    """Column sums of a [chunks, cols] array."""
    i, r = var("i"), var("r")
    x = load(0, r * var("cols") + i, compute)
    total = reduction(
        "r", ZERO, var("chunks"), ["acc"], [const(0, compute)], lambda acc: [acc[0] + x], lambda a, b: [a[0] + b[0]]
    )
    return Nest(
        "sum_rows",
        operands([compute], [code]),
        ("cols", "chunks"),
        rows(total, Store(1, i, cast(var("acc", compute), code)), vector=True),
    )
