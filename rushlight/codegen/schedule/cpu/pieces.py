"""CPU schedules of ops that only move elements: boxes of tensors to boxes of the results.

Enters: a Lowered with `pieces`. Leaves: a launch that writes the background, if there is one, and copies of the boxes:
ranges joined where memory allows it, the last in vectors, rows turned into columns by a kernel of its own. Boxes that
lie end to end go together where that spares memory a stream of writes, or threads a meeting.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....loops.expr import cast, const, idiv, irem, load, var
from ....loops.inline import row_major
from ....loops.lowered import Lowered, Piece
from ....loops.nest import For, Nest, Store, operands, rows
from ...library.row_copies import RowCopy
from ...library.transpose import Transpose, height_for
from ...text.primitives import SIZE
from ..forms.launch import GRAIN, Launch, Schedule, grain_of, product
from ..forms.pieces import BACKWARDS, background, checked_pieces, copy_nest, pair_launch

ZERO = const(0, "i64")
MOST_JOINED = 8          # tensors one kernel reads side by side
JOINED_FROM = 1 << 16    # elements from which on a kernel that writes several boxes pays
SMALLEST_PIECE = 1 << 10   # elements; smaller parts of a box are not worth cutting
FEW_ROWS = 8              # rows one behind the other that are no run
MOST_ROWS = 64            # rows of a run: threads are to share them
SHORT_ROW = 16    # elements of rows up to which a copy has them written out
WRITTEN_OUT_FROM = 4096   # elements of such a copy: small ones of all lengths share a plan


def schedule_pieces(lowered: Lowered, library: bool) -> Schedule:
    """The launches; `library`: kernels that are no nests may serve too."""
    if any(n == 0 for n in lowered.shape):
        return Schedule(())
    layout = lowered.layout or row_major(lowered.shape)
    pieces = [p for p in lowered.pieces if all(n != 0 for n in p.sizes)]
    launches = [] if lowered.background is None else [background(lowered)]
    together = end_to_end(lowered, pieces, layout) if library else None
    if together is not None:
        return Schedule((*launches, *together))
    for source, code, axes, places in checked_pieces(lowered):
        launches.append(copy_launch(source, code, axes, places, library))
    return Schedule(tuple(launches))


# --- one box ----------------------------------------------------------------------------------------------------------


def copy_launch(source: str, target: str, axes: list[list[int]], places: tuple, library: bool) -> Launch:
    """The copy of one box from the first of `places` to the second."""
    if library and source == target and (transposed := transposing_launch(axes, SIZE[source], places)):
        return transposed
    if not library and len(axes) <= 2:
        return pair_launch(source, target, axes, places)
    if library and source == target and (dense := dense_rows_launch(axes, SIZE[source], places)):
        return dense
    if library and (short := short_rows_launch(source, target, axes, places)):
        return short
    backwards = axes[-1][1:] == [1, -1]
    inside = len(axes) > 2
    if inside:
        axes = with_long_runs(axes)
    params = [a[0] for a in axes] + [a[1] for a in axes] + [a[2] for a in axes]
    inner, numel, rank = axes[-1][0], product(a[0] for a in axes), len(axes)
    extent, grain = (numel, GRAIN) if rank == 1 else (numel // inner, grain_of(inner))
    if rank == 1 and backwards:
        extent, grain = -(-numel // BACKWARDS), grain_of(BACKWARDS)
    if inside:
        run, runs = runs_of(axes)
        params += [run, runs]
        extent, grain = product(a[0] for a in axes[:-2]) * runs, grain_of(inner * run)
    return Launch(
        ("copy", source, target, rank, backwards, inside),
        lambda: copy_nest(source, target, rank, backwards, inside),
        places,
        tuple(params),
        extent,
        grain,
    )


def dense_rows_launch(axes: list[list[int]], size: int, places: tuple) -> Launch | None:
    """A copy of dense rows to dense rows; None for other copies."""
    if len(axes) < 2 or axes[-1][1:] != [1, 1]:
        return None
    axes = with_long_runs(axes)
    length, (count, read, store) = axes[-1][0] * size, axes[-2]
    run, runs = runs_of(axes)
    params = [length, count, run, runs, read * size, store * size]
    for n, s, o in axes[:-2]:
        params += [n, s * size, o * size]
    outer = len(axes) - 2
    extent = product(a[0] for a in axes[:-2]) * runs
    grain = grain_of(axes[-1][0] * run)
    return Launch(("copy of dense rows", outer), lambda: RowCopy(outer), places, tuple(params), extent, grain)


def runs_of(axes: list[list[int]]) -> tuple[int, int]:
    """How many rows an iteration takes, and how many iterations take all that lie one distance apart."""
    (count, *_), (inner, *_) = axes[-2:]
    run = min(MOST_ROWS, count, grain_of(inner))
    return run, -(-count // run)


def with_long_runs(axes: list[list[int]]) -> list[list[int]]:
    """The loops with the longest of the outer ones next to the last, if that there is short."""
    if axes[-2][0] >= FEW_ROWS:
        return axes
    long = max(range(len(axes) - 1), key=lambda k: axes[k][0])
    return [a for k, a in enumerate(axes[:-1]) if k != long] + [axes[long], axes[-1]]


def short_rows_launch(source: str, target: str, axes: list[list[int]], places: tuple) -> Launch | None:
    """A copy whose last loop is so short that a kernel has it written out, inside of the longest other one;
    None for other copies."""
    if len(axes) < 2 or product(a[0] for a in axes) < WRITTEN_OUT_FROM or axes[-1][0] > SHORT_ROW:
        return None
    length = next(n for n in range(1, SHORT_ROW + 1) if axes[-1][0] == n)   # a number, for plans of this length alone
    long = max(range(len(axes) - 1), key=lambda k: axes[k][0])
    if axes[long][0] < 2 * length:
        return None
    ordered = [a for k, a in enumerate(axes[:-1]) if k != long] + [axes[long], axes[-1]]
    dense = ordered[-1][1:] == [1, 1]
    params = [a[0] for a in ordered[:-1]] + [a[1] for a in ordered] + [a[2] for a in ordered]
    rank, inner = len(ordered), length * ordered[-2][0]
    extent = product(a[0] for a in ordered) // inner
    return Launch(
        ("copy of short rows", source, target, rank, length, dense),
        lambda: short_rows_nest(source, target, rank, length, dense),
        places,
        tuple(params),
        extent,
        grain_of(inner),
    )


def short_rows_nest(source: str, target: str, rank: int, length: int, dense: bool) -> Nest:
    """The last loop written out, in that before it; the others flattened."""
    sizes, (reads, stores) = [f"n{d}" for d in range(rank - 1)], ([f"{p}{d}" for d in range(rank)] for p in "so")
    item, row = var("i"), var("j")
    read, store = row * var(reads[-2]), row * var(stores[-2])
    for d in range(rank - 3, -1, -1):
        at = irem(item, var(sizes[d])) if d else item
        read, store = read + at * var(reads[d]), store + at * var(stores[d])
        item = idiv(item, var(sizes[d])) if d else item
    moves = []
    for k in range(length):
        here, there = (k, k) if dense else (var(reads[-1]) * k, var(stores[-1]) * k)
        moves.append(Store(1, store + there, cast(load(0, read + here, source), target)))
    body = rows(For("j", ZERO, var(sizes[-1]), tuple(moves)))
    return Nest("copy", operands([source], [target]), (*sizes, *reads, *stores), body)


def transposing_launch(axes: list[list[int]], size: int, places: tuple) -> Launch | None:
    """A copy in which another dim lies densely than in the source; None for other copies."""
    dense = [k for k, a in enumerate(axes[:-1]) if a[1] == 1]
    if len(axes) not in (2, 3) or axes[-1][1] == 1 or axes[-1][2] != 1 or len(dense) != 1:
        return None
    (rows_, row, _), (cols, _, out_row) = axes[-1], axes[dense[0]]
    batch = next((a for k, a in enumerate(axes[:-1]) if k != dense[0]), [1, 0, 0])
    height = height_for(size, rows_, cols)
    if height is None:
        return None
    strips = -(-rows_ // height)
    params = (rows_, cols, row, out_row, strips, batch[1], batch[2])
    grain = grain_of(cols * height)
    return Launch(
        ("transpose", size, height), lambda: Transpose(size, height), places, params, batch[0] * strips, grain
    )


# --- boxes end to end -------------------------------------------------------------------------------------------------


def end_to_end(lowered: Lowered, pieces: Sequence[Piece], layout: Sequence[int]) -> list[Launch] | None:
    """Launches that write dense boxes side by side; None where each is copied by itself as well."""
    code, shape = lowered.outs[0], lowered.shape
    memories = lowered.memories
    if len(pieces) < 2 or lowered.background is not None or any(memories[p.memory].code != code for p in pieces):
        return None
    dim = next((d for d in range(len(shape)) if any(p.start[d] != 0 for p in pieces[1:])), None)
    sizes = [product(p.sizes) for p in pieces]
    if dim is None or sum(sizes) < JOINED_FROM or not all(fits(p, dim, shape, layout) for p in pieces):
        return None
    outer = [d for d in range(len(shape)) if d != dim and layout[d] > layout[dim] and shape[d] != 1]
    if outer:
        return [side_by_side(lowered, pieces, product(shape[d] for d in outer))] if len(pieces) <= MOST_JOINED else None
    return whole_pieces(lowered, pieces, sizes)


def fits(piece: Piece, dim: int, shape: Sequence[int], layout: Sequence[int]) -> bool:
    """Whether a box lies in memory as it will in the result, and is as large but along `dim`."""
    if piece.backwards or any(n != m for d, (n, m) in enumerate(zip(piece.sizes, shape, strict=True)) if d != dim):
        return False
    order = sorted(range(len(shape)), key=lambda d: layout[d])
    step = 1
    for d in order:
        if piece.sizes[d] != 1:
            if piece.strides[d] != step:
                return False
            step = step * piece.sizes[d]
    return True


def side_by_side(lowered: Lowered, pieces: Sequence[Piece], count: int) -> Launch:
    """Rows of the result are rows of the boxes one after another:
    memory sees one stream of writes instead of one per box."""
    lengths = [product(p.sizes) // count for p in pieces]
    code, width, number = lowered.outs[0], sum(lengths), len(pieces)
    places = tuple([(p.memory, p.offset * SIZE[code]) for p in pieces])
    return Launch(
        ("join", code, number),
        lambda: join_nest(code, number),
        (*places, len(lowered.memories)),
        (width, *lengths),
        count,
        grain_of(width),
    )


def join_nest(code: str, count: int) -> Nest:
    """Row i of the result: row i of every operand, end to end."""
    i, start, body = var("i"), var("i") * var("width"), []
    for k in range(count):
        j, length = var(f"j{k}"), var(f"n{k}")
        body.append(For(j.attr, ZERO, length, (Store(count, start + j, load(k, i * length + j, code)),), vector=True))
        start = start + length
    return Nest("join", operands([code] * count, [code]), ("width", *(f"n{k}" for k in range(count))), rows(*body))


def whole_pieces(lowered: Lowered, pieces: Sequence[Piece], sizes: Sequence[int]) -> list[Launch] | None:
    """Equal boxes put one after another whole, some of them at a time, each cut among the threads;
    None where one copy each serves as well.

    A copy shared by the threads costs them a meeting: for many boxes of a few pages each, as images are, that shows.
    One part for each thread measured best; smaller ones are slower.
    """
    from ...._C import get_num_threads  # noqa: PLC0415 - schedules for other machines need no core

    size, code, out = sizes[0], lowered.outs[0], len(lowered.memories)
    if len(pieces) < 4 or any(n != size for n in sizes):
        return None
    parts = next((n for n in range(get_num_threads(), 1, -1) if size % n == 0 and size // n >= SMALLEST_PIECE), 1)
    if parts == 1:
        return None
    launches = []
    for first in range(0, len(pieces), MOST_JOINED):
        some = pieces[first : first + MOST_JOINED]
        places = [(p.memory, p.offset * SIZE[code]) for p in some] + [(out, first * size * SIZE[code])]
        count = len(some)
        launches.append(
            Launch(
                ("stack", code, count),
                lambda n=count: stack_nest(code, n),
                tuple(places),
                (size, size // parts),
                parts,
                1,
            )
        )
    return launches


def stack_nest(code: str, count: int) -> Nest:
    """Part i of every operand, to its place in that operand's share of the result."""
    i, size, piece, body = var("i"), var("size"), var("piece"), []
    for k in range(count):
        j = var(f"j{k}")
        body.append(
            For(
                j.attr,
                ZERO,
                piece,
                (Store(count, size * k + i * piece + j, load(k, i * piece + j, code)),),
                vector=True,
            )
        )
    return Nest("stack", operands([code] * count, [code]), ("size", "piece"), rows(*body))
