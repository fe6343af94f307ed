"""GPU schedules of ops that only move elements: boxes of tensors to boxes of the results.

Enters: a Lowered with `pieces`. Leaves: a launch that writes the background, if there is one, and copies of the boxes.
Several dense boxes go by one launch. Boxes of one or two loops are pointwise kernels, those that make rows of columns a
written one, others have a thread for every few elements, or a block for each row where rows are long.
"""

from __future__ import annotations

from ....loops.expr import Value, cast, load, var
from ....loops.lowered import Lowered
from ....loops.nest import For, Local, Nest, Store, operands, rows
from ...nvptx.many import Many
from ...nvptx.transpose import tiles, transposing
from ...text.primitives import SIZE
from ..forms.launch import Launch, Schedule, product
from ..forms.pieces import background, checked_pieces, copy_nest, pair_launch
from .items import items_of, position_of, strided

LONG_ROW = 256           # elements from which on a block copies a row
MOST = 1 << 31           # elements that are counted in 32 bits
SEVERAL = 4              # boxes that one launch copies sooner than launches of their own
MOST_TOGETHER = 200      # boxes of such a launch
FEWEST = 16              # rows and columns that are worth tiles


def schedule_pieces(lowered: Lowered, written: bool) -> Schedule:
    """The launches; `written`: the device loads kernels that are written as PTX."""
    if any(n == 0 for n in lowered.shape):
        return Schedule(())
    launches = [] if lowered.background is None else [background(lowered)]
    found = checked_pieces(lowered)
    flat, others = [], []
    for p in found:
        (flat if written and p[0] == p[1] and len(p[2]) == 1 and p[2][0][1:] == [1, 1] else others).append(p)
    if len(flat) >= SEVERAL:      # tensors end to end
        launches += [many_launch(flat[k : k + MOST_TOGETHER]) for k in range(0, len(flat), MOST_TOGETHER)]
        found = others
    for source, code, axes, places in found:
        launches.append(copy_launch(source, code, axes, places, written))
    return Schedule(tuple(launches))


def many_launch(pieces: list[tuple]) -> Launch:
    """Boxes of one dense loop of one type, copied by one launch."""
    code = pieces[0][0]
    operands_ = tuple([place for *_, places in pieces for place in places])
    return Launch(("gpu copy of many", code), lambda: Many(many_nest(code)), operands_,
                  tuple([axes[0][0] for _, _, axes, _ in pieces]), 1, 1)


def many_nest(code: str) -> Nest:
    """Elements of one of them, from `first` to `last`."""
    loop = For("j", var("first"), var("last"), (Store(1, var("j"), load(0, var("j"), code)),), vector=True)
    return Nest("copy_many", operands([code], [code]), ("first", "last"), rows(loop))


def copy_launch(source: str, target: str, axes: list[list[int]], places: tuple, written: bool) -> Launch:
    """The copy of one box from the first of `places` to the second."""
    tiled = transposing_launch(axes, SIZE[source], places) if written and source == target else None
    if tiled is not None:
        return tiled
    if len(axes) <= 2:
        return pair_launch(source, target, axes, places)
    if all(type(a[2]) is int for a in axes):      # writes of neighbouring threads lie side by side
        axes = sorted(axes, key=lambda a: -abs(a[2]))
    params = [a[0] for a in axes] + [a[1] for a in axes] + [a[2] for a in axes]
    rank, numel, inner = len(axes), product(a[0] for a in axes), axes[-1][0]
    if inner >= LONG_ROW and axes[-1][1:] == [1, 1]:
        return Launch(("gpu rows copy", source, target, rank), lambda: copy_nest(source, target, rank), places,
                      tuple(params), numel // inner, 1)
    each, small = items_of(numel)
    extent = -(-numel // each)
    return Launch(("gpu copy", source, target, rank, each, small),
                  lambda: elements_nest(source, target, rank, each, small), places, (*params, extent, numel), extent,
                  1)


def elements_nest(source: str, target: str, rank: int, each: int, small: bool) -> Nest:
    """A strided copy of any rank, in the result's order; a thread copies `each` elements that are far apart."""
    sizes, reads, stores = ([f"{p}{d}" for d in range(rank)] for p in "nso")
    before, after = [], []
    for k, item in enumerate(strided(each)):
        position = position_of(item, sizes, small)
        read, store = (sum_of([at * var(s) for at, s in zip(position, strides, strict=True)])
                       for strides in (reads, stores))
        before.append(Local(f"value{k}", cast(load(0, read, source), target)))
        after.append(Store(1, store, var(f"value{k}", target)))
    return Nest("copy", operands([source], [target]), (*sizes, *reads, *stores, "apart", "count"),
                rows(*before, *after, vector=True))


def sum_of(values: list[Value]) -> Value:
    result = values[0]
    for one in values[1:]:
        result = result + one
    return result


def transposing_launch(axes: list[list[int]], size: int, places: tuple) -> Launch | None:
    """A copy in which another dim lies densely than in the source; None for other copies."""
    dense, to_be = ([k for k, a in enumerate(axes) if a[which] == 1] for which in (1, 2))
    if size > 8 or len(axes) not in (2, 3) or len(dense) != 1 or len(to_be) != 1 or dense == to_be:
        return None
    (count, row, _), (cols, _, out_row) = axes[to_be[0]], axes[dense[0]]
    batch = next((a for k, a in enumerate(axes) if k not in (*dense, *to_be)), [1, 0, 0])
    if count < FEWEST or cols < FEWEST or min(row, out_row, *batch[1:]) < 0 or max(count, cols) >= MOST:
        return None
    row_tiles, col_tiles = tiles(count), tiles(cols)
    params = (count, cols, row, out_row, batch[1], batch[2], row_tiles, col_tiles)
    return Launch(("written transpose", size), lambda: transposing(size), places, params,
                  batch[0] * row_tiles * col_tiles, 1)


__all__ = ["schedule_pieces"]
