"""GPU schedules of row programs: a block for each row; sums over rows by a thread for each column.

Enters: a `RowProgram` (loops/row_program.py), how many rows there are and how long they are. Leaves: one launch over
the rows for the results that belong to them. Sums over rows that need nothing but operands are launches of their own,
in chunks of rows whose sums a third adds up; others are kept by blocks that take several rows each.
"""

from __future__ import annotations

from ....loops.expr import cast, const, idiv, irem, load, min_, replace, var
from ....loops.nest import Local, Nest, Store, operands, reduction, rows
from ....loops.row_program import ROW, RowProgram, reachable
from ..forms.launch import Launch, Schedule, Temp
from ..forms.rows import RowNest

THREADS = 1 << 18        # that keep a unit busy
BLOCKS = 528             # the same, of blocks
FEWEST = 16              # rows that are worth a chunk
TILES, TILE_ROWS = 528, 128     # blocks of columns that keep a unit busy, and rows that are worth one
NARROW = 264             # the same, where a block has chunks side by side: more are more to add up
FEW_COLUMNS, MANY_CHUNKS = 512, 64      # whose sums are added up by a block for each column
TILE, WHOLE = 256, 8     # columns of a tile of half types, and what they are multiples of


def schedule_rows(program: RowProgram, count: int, cols: int, distances: tuple[int, ...] = ()) -> Schedule:
    """How a GPU runs the program over `count` rows of `cols` elements, those of `program.lines` at these distances."""
    inputs, outs, totals = len(program.operands), len(program.results), program.totals()
    place = inputs + outs
    apart = all(
        node.form != "fold" and node.form != "pick" for k in totals for node in reachable([program.results[k][0]])
    )
    tiles = -(-cols // TILE) if apart and cols % WHOLE == 0 and count >= TILE_ROWS else 0
    most = max(1, THREADS // max(1, cols)) if apart else BLOCKS
    if 0 < tiles <= TILES:
        most = max(TILES // tiles, NARROW * TILE // cols)
    per_chunk = max(TILE_ROWS if tiles else FEWEST if apart else 1, -(-count // max(1, most)))
    chunks = -(-count // per_chunk) if totals else 0
    temps = [Temp(program.compute, (chunks, cols)) for _ in totals]
    partial = {k: place + n for n, k in enumerate(totals)}
    error = -1
    if program.bound is not None:
        error = place + len(temps)
        temps.append(Temp("i64", (1,)))
    checked = [error] if error >= 0 else []
    launches = []
    if apart and totals:
        mine = [k for k in range(outs) if k not in totals]
        if mine:
            left, own = without_totals(program, mine, distances)
            numbers = (*range(inputs), *[inputs + k for k in mine], *checked)
            launches.append(Launch(("rows", left.key, False), lambda: RowNest(left, False).nest(), numbers,
                                   (cols, *own), count, 1, error))
        numbers = (*range(inputs), *[partial[k] for k in totals])
        params = (cols, count, per_chunk, chunks, *distances)
        launches.append(
            Launch(("column sums", program.key), lambda: column_sums(program), numbers, params, chunks * cols, 1)
        )
    else:
        numbers = (*range(inputs), *[partial.get(k, inputs + k) for k in range(outs)], *checked)
        params = (cols, count, per_chunk, *distances) if totals else (cols, *distances)
        extent = chunks if totals else count
        launches.append(Launch(("rows", program.key, False), lambda: RowNest(program, False).nest(), numbers, params,
                               extent, 1, error))
    if totals:
        codes = tuple([program.results[k][1] for k in totals])
        by_block = not tiles or (cols <= FEW_COLUMNS and chunks >= MANY_CHUNKS)
        launches.append(
            Launch(("gpu sum_rows", by_block, program.compute, codes),
                   lambda: sums_of_rows(program.compute, codes, by_block),
                   (*partial.values(), *[inputs + k for k in totals]), (cols, chunks), cols, 1)
        )
    return Schedule(tuple(launches), tuple(temps))


def without_totals(
    program: RowProgram, mine: list[int], distances: tuple[int, ...]
) -> tuple[RowProgram, tuple[int, ...]]:
    """The program of those results alone, and the distances of its lines."""
    first = len(program.operands)
    numbers = {**{k: k for k in range(first)}, **{first + k: first + n for n, k in enumerate(mine)}}
    kept = [(numbers[line], far) for line, far in zip(program.lines, distances, strict=True) if line in numbers]
    results = tuple([program.results[k] for k in mine])
    left = program.but(key=("without totals", program.key), results=results, lines=tuple([line for line, _ in kept]))
    return left, tuple([far for _, far in kept])


def column_sums(program: RowProgram) -> Nest:
    """Sums of chunks of rows, a thread for each column of each chunk."""
    totals, result = program.totals(), RowNest(program, False)
    column, chunk = irem(var("c"), var("cols")), idiv(var("c"), var("cols"))
    start = chunk * var("per_chunk")
    accs = [f"acc{k}" for k in totals]
    zero = const(0, program.compute)
    rowwise = [(n, o) for n, o in enumerate(program.operands) if o.kind == ROW]

    def step(now: list) -> list:
        result.row = var("i")
        found = {var(f"in{n}", o.read): cast(load(n, var("i"), o.code), o.read) for n, o in rowwise}
        values = [result.value(program.results[k][0].parts[0], var("j")) for k in totals]
        return [a + cast(replace(v, found), program.compute) for a, v in zip(now, values, strict=True)]

    fold = reduction(
        "i", var("start"), min_(var("start") + var("per_chunk"), var("rows")), accs, [zero] * len(totals), step,
        lambda a, b: [x + y for x, y in zip(a, b, strict=True)],
    )
    first = len(program.operands)
    stores = [Store(first + n, var("c"), var(f"acc{k}", program.compute)) for n, k in enumerate(totals)]
    body = (Local("j", column), Local("start", start), fold, *stores)
    signature = operands([o.code for o in program.operands], [program.compute] * len(totals))
    params = ("cols", "rows", "per_chunk", "chunks", *program.line_names())
    return Nest(f"{program.name}_sums", signature, params, rows(*body, name="c", vector=True))


def sums_of_rows(compute: str, codes: tuple[str, ...], by_block: bool) -> Nest:
    """Column sums of [chunks, cols] arrays: a thread for each column, or a block."""
    count, at = len(codes), var("r") * var("cols") + var("i")
    accs = [f"acc{k}" for k in range(count)]
    total = reduction(
        "r", const(0, "i64"), var("chunks"), accs, [const(0, compute)] * count,
        lambda now: [a + load(k, at, compute) for k, a in enumerate(now)],
        lambda a, b: [x + y for x, y in zip(a, b, strict=True)],
    )
    stores = [Store(count + k, var("i"), cast(var(accs[k], compute), code)) for k, code in enumerate(codes)]
    name = "sum_rows_block" if by_block else "sum_rows"
    signature = operands([compute] * count, list(codes))
    return Nest(name, signature, ("cols", "chunks"), rows(total, *stores, vector=not by_block))
