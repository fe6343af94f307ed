"""GPU schedules of ops that only move elements: boxes of tensors to boxes of the results.

Enters: a Lowered with `pieces`. Leaves: a launch that writes the background, if there is one, and copies of the boxes.
Several dense boxes go by one launch, and so do several of short rows that are alike. Boxes of one or two loops are
pointwise kernels, those that make rows of columns a written one, others have a thread for every few elements, or a
block for each row where rows are long.
"""

from __future__ import annotations

from ....loops.expr import Value, cast, idiv, irem, load, var
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
MOST_OF_COLUMN = 4096    # elements of such boxes that are columns
FEWEST = 16              # rows and columns that are worth tiles


def schedule_pieces(lowered: Lowered, written: bool) -> Schedule:
    """The launches; `written`: the device loads kernels that are written as PTX."""
    if any(n == 0 for n in lowered.shape):
        return Schedule(())
    launches = [] if lowered.background is None else [background(lowered)]
    alike: dict[tuple | None, list[tuple]] = {}
    for p in checked_pieces(lowered):
        alike.setdefault(likeness(p) if written else None, []).append(p)
    for form, found in alike.items():
        if form is not None and len(found) >= SEVERAL:
            launches += [many_launch(form, found[k : k + MOST_TOGETHER]) for k in range(0, len(found), MOST_TOGETHER)]
        else:
            launches += [copy_launch(*p, written) for p in found]
    return Schedule(tuple(launches))


def likeness(piece: tuple) -> tuple | None:
    """What boxes that one launch copies have in common: their type, and where they are rows rather than dense, the
    elements of a row and the steps from row to row; None for boxes with launches of their own."""
    source, code, axes, _ = piece
    if source != code or len(axes) > 2:
        return None
    if len(axes) == 1 and (axes[0][1:] == [1, 1] or axes[0][0] == 1):
        return (code,)
    if len(axes) == 1 and type(axes[0][0]) is int and axes[0][0] <= MOST_OF_COLUMN:
        axes = [axes[0], [1, 1, 1]]
    if axes[-1][1:] != [1, 1]:
        return None
    (count, *steps), (width, *_) = axes
    is_small = all(type(n) is int for n in (count, width)) and count * width < MOST
    return (code, width, *steps) if is_small and width < LONG_ROW else None


def many_launch(form: tuple, pieces: list[tuple]) -> Launch:
    """Boxes that are alike, copied by one launch."""
    code, *row = form
    operands_ = tuple([place for *_, places in pieces for place in places])
    counts = [product(a[0] for a in axes) for _, _, axes, _ in pieces]
    return Launch(("gpu copy of many", code, len(row)), lambda: Many(many_nest(code, bool(row))), operands_,
                  (*row, *counts), 1, 1)


def many_nest(code: str, is_rows: bool) -> Nest:
    """Elements of one of them, from `first` to `last`."""
    read = store = j = var("j")
    if is_rows:
        at, width = cast(j, "u32"), cast(var("width"), "u32")
        row, place = (cast(found(at, width), "i64") for found in (idiv, irem))
        read, store = (row * var(step) + place for step in ("read_step", "store_step"))
    loop = For("j", var("first"), var("last"), (Store(1, store, load(0, read, code)),), vector=True)
    params = ("width", "read_step", "store_step") if is_rows else ()
    return Nest("copy_many", operands([code], [code]), (*params, "first", "last"), rows(loop))


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
