"""GPU schedules of walks (scans).

Enters: a Lowered with a `walk` and one tensor. Leaves: a written kernel where there is one (nvptx/scan.py); a thread
for each row where rows are many or short. Otherwise rows are cut into pieces of `PIECE` elements: folded by a thread
each, the folds folded again until few are left, and on the way back every piece is walked from where the one before it
ends. Pieces depend on sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....loops.expr import Value, cast, const, idiv, irem, load, min_, var
from ....loops.lowered import Lowered, NotLowerable
from ....loops.nest import Assign, For, Local, Nest, Statement, Store, operands, rows
from ...nvptx.scan import (
    EXTREMES,
    FORMS,
    LOGS,
    MOST_ITEMS,
    MOST_OF_ROW,
    SIZES,
    WORSE,
    extreme_rows,
    log_rows,
    running,
    running_rows,
    spine,
    summing,
)
from ...nvptx.written import THREADS, WARP, WARPS
from ...text.primitives import SIZE as SIZE_OF
from ..forms.axes import locate
from ..forms.launch import Launch, Schedule, Temp, names, product
from ..forms.sources import given_bits, given_names
from ..forms.walk import element, whole_rows
from .pieces import transposing_launch

PIECE = 64               # elements, or folds, that one thread goes through
MOST = 1 << 31           # elements whose numbers a written kernel can count
ENOUGH = 1 << 16         # rows that keep a unit busy by themselves
MANY = 1024              # short rows that are worth being columns
SHORT = {"add": running_rows, "mul": running_rows, "max": extreme_rows, "min": extreme_rows, "logaddexp": log_rows}
ZERO, SIZE = const(0, "i64"), const(PIECE, "i64")


def schedule_walk(lowered: Lowered, written: bool = False) -> Schedule:
    """The launches of a scan; `written`: the device loads kernels of nvptx/scan.py."""
    if len(lowered.memories) != 1:
        raise NotLowerable(f"{lowered.name}: expected one tensor in a scan, got {len(lowered.memories)}")
    if any(n == 0 for n in lowered.ranges):
        return Schedule(())
    walk, shape = lowered.walk, lowered.ranges
    length = shape[walk.dim] if shape else 1
    number, way = product(shape) // length, written_way(lowered) if written else ""
    if way and length <= WARP * MOST_OF_ROW:
        return short_rows(lowered, way, number, length)
    if way == "add":
        return running_sums(lowered, number, length)
    if written and number >= (MANY if length < 4 * PIECE else 8 * MANY) and are_dense_rows(lowered):
        found = as_columns(lowered, number, length)
        if found is not None:
            return found
    if walk.merge is None or length < 4 * PIECE or number >= ENOUGH:
        return whole_rows(lowered, True)
    return in_pieces(lowered, length)


def form_of(lowered: Lowered) -> tuple[str, str, str]:
    """Types of elements, of what is computed, of results."""
    return lowered.memories[0].code, lowered.walk.compute, lowered.outs[0]


def written_way(lowered: Lowered) -> str:
    """How a scan of elements that lie side by side goes on from one to the next, where there are kernels of its types
    and elements are not too many; else nothing."""
    way = lowered.walk.way if lowered.walk.plain is lowered.body else ""
    forms = EXTREMES if way in WORSE else LOGS if way == "logaddexp" else FORMS
    return way if form_of(lowered) in forms and are_dense_rows(lowered) else ""


def are_dense_rows(lowered: Lowered) -> bool:
    """Whether a scan is along elements that lie side by side, in rows without gaps."""
    memory, dim, shape = lowered.memories[0], lowered.walk.dim, lowered.ranges
    wanted, reach = [], 1
    for n in reversed(shape):
        wanted.append(reach)
        reach *= n
    dense = all(n == 1 or s == w for n, s, w in zip(shape, memory.along(), reversed(wanted), strict=True))
    last = all(n == 1 for n in shape[dim + 1 :])
    return bool(shape) and dense and last and shape[dim] > 1 and reach < MOST


def as_columns(lowered: Lowered, number: int, length: int) -> Schedule | None:
    """Many rows as columns, which threads walk side by side: the tensor is transposed, and the results back. None where
    it cannot be."""
    memory, outs = lowered.memories[0], lowered.outs
    first = 1 + len(outs)
    if memory.offset or any(SIZE_OF[code] > 8 for code in (memory.code, *outs)):
        return None
    below = memory.but(sizes=(length, number), strides=(number, 1), dims=(0, 1))
    columns = lowered.but(
        ranges=(length, number), shape=(length, number), walk=lowered.walk.but(dim=0),
        reads=tuple([below if r is memory else r for r in lowered.reads]),
    )
    (walked,) = whole_rows(columns, True).launches
    places = tuple(range(first, first + 1 + len(outs)))
    launches = [
        transposing_launch([[number, length, 1], [length, 1, number]], SIZE_OF[memory.code], (0, first)),
        walked.but(operands=places),
        *[transposing_launch([[length, number, 1], [number, 1, length]], SIZE_OF[code], (first + 1 + k, 1 + k))
          for k, code in enumerate(outs)],
    ]
    if any(one is None for one in launches):
        return None
    return Schedule(tuple(launches), tuple([Temp(code, (length * number,)) for code in (memory.code, *outs)]))


def short_rows(lowered: Lowered, way: str, number: int, length: int) -> Schedule:
    """A warp for each row, which is read once."""
    form, make = form_of(lowered), SHORT[way]
    items = next(n for n in (1, 2, 4, 8) if n * WARP >= length)
    whole = length % items == 0
    return Schedule((Launch(("written rows", way, form, items, whole), lambda: make(form, items, whole, way),
                            tuple(range(1 + len(lowered.outs))), (length, number), -(-number // WARPS), 1),))


def running_sums(lowered: Lowered, number: int, length: int) -> Schedule:
    """Rows of one tile by one launch; those of several tiles by three."""
    form = form_of(lowered)
    most, key = MOST_ITEMS[SIZES[form[1]]], ("written scan", form)
    if length <= most * THREADS:
        items = next(n for n in (1, 2, 4, 8, 16) if n * THREADS >= length)
        return Schedule((Launch((*key, items), lambda: running(form, items, True), (0, 1), (length, 1), number, 1),))
    tiles = (length + most * THREADS - 1) // (most * THREADS)
    given, extent = (length, tiles), number * tiles
    return Schedule((
        Launch((*key, "sums"), lambda: summing(form, most), (0, 2), given, extent, 1),
        Launch((*key, "spine"), lambda: spine(form), (2,), (tiles,), number, 1),
        Launch((*key, "tiles"), lambda: running(form, most, False), (0, 2, 1), given, extent, 1),
    ), (Temp(form[1], (extent,)),))


def in_pieces(lowered: Lowered, length: int) -> Schedule:
    """Folds on the way up, starts on the way down, walks at the end."""
    memory, walk, shape = lowered.memories[0], lowered.walk, lowered.ranges
    strides, dim = memory.along(), walk.dim
    before = [(n, s) for n, s in zip(shape[:dim], strides[:dim], strict=True) if n != 1]
    after = [(n, s) for n, s in zip(shape[dim + 1 :], strides[dim + 1 :], strict=True) if n != 1]
    outer, inner = product(n for n, _ in before), product(n for n, _ in after)
    accs, outs = [v.dtype for v in walk.init()], len(lowered.outs)
    counts = [-(-length // PIECE)]
    while counts[-1] > PIECE:
        counts.append(-(-counts[-1] // PIECE))
    first = 1 + outs
    places = [tuple(range(first + level * len(accs), first + (level + 1) * len(accs))) for level in range(len(counts))]
    temps = tuple([Temp(code, (outer * inner * n,)) for n in counts for code in accs])
    key = ("gpu walk", lowered.key, memory.code, lowered.outs, len(before), len(after))
    near = [n for n, _ in (*before, *after)] + [s for _, s in (*before, *after)]
    given = (length, strides[dim], inner, *near, *given_bits(lowered))
    ranks = len(before), len(after)

    def of_elements(number: int, make: Callable[..., Nest], used: tuple[int, ...]) -> Launch:
        return Launch((*key, number), lambda: make(lowered, *ranks), used, given, outer * counts[0] * inner, 1)

    launches = [of_elements(0, fold_nest, (0, *places[0]))]
    for level in range(1, len(counts)):
        sizes = (counts[level - 1], inner)
        launches.append(Launch((*key, 1), lambda: folds_nest(lowered), (*places[level - 1], *places[level]), sizes,
                               outer * counts[level] * inner, 1))
    launches.append(Launch((*key, 2), lambda: starts_nest(lowered, False), places[-1], (counts[-1], inner),
                           outer * inner, 1))
    for level in range(len(counts) - 1, 0, -1):
        sizes = (counts[level - 1], inner)
        launches.append(Launch((*key, 3), lambda: starts_nest(lowered, True), (*places[level], *places[level - 1]),
                               sizes, outer * counts[level] * inner, 1))
    launches.append(of_elements(4, walk_nest, (0, *places[0], *range(1, first))))
    return Schedule(tuple(launches), temps)


# --- kernels: iteration i is piece `piece` of row (`before`, `after`), `after` fastest --------------------------------


def item(count: Value) -> list[Statement]:
    """Which piece of which row an iteration is."""
    rest = idiv(var("i"), var("inner"))
    return [Local("after", irem(var("i"), var("inner"))), Local("piece", irem(rest, count)),
            Local("before", idiv(rest, count))]


def pieces_of(length: Value) -> Value:
    return idiv(length + const(PIECE - 1, "i64"), SIZE)


def accumulators(lowered: Lowered) -> tuple[list[str], list[Value], list[Value]]:
    """Names, first values, and the variables."""
    first = list(lowered.walk.init())
    result = names("acc", len(first))
    return result, first, [var(n, v.dtype) for n, v in zip(result, first, strict=True)]


def following(accumulators: Sequence[str], values: Sequence[Value]) -> list[Statement]:
    """The accumulators' next values, worked out before any is changed."""
    later = [Local(f"{n}.next", v) for n, v in zip(accumulators, values, strict=True)]
    return [*later, *[Assign(n, var(f"{n}.next", v.dtype)) for n, v in zip(accumulators, values, strict=True)]]


def source(lowered: Lowered, before: int, after: int) -> tuple[Value, list[str]]:
    """The element at `j` of a row, and the parameters it takes."""
    sizes, strides = names("n", before + after), names("s", before + after)
    place = var("j") * var("stride")
    if before:
        place = place + locate(var("before"), sizes[:before], strides[:before])
    if after:
        place = place + locate(var("after"), sizes[before:], strides[before:])
    return element(lowered, place), ["length", "stride", "inner", *sizes, *strides, *given_names(lowered)]


def elements_of_piece(length: Value, body: Sequence[Statement]) -> For:
    start = var("piece") * SIZE
    return For("j", start, min_(start + SIZE, length), tuple(body))


def fold_nest(lowered: Lowered, before: int, after: int) -> Nest:
    """The fold of every piece."""
    result, first, now = accumulators(lowered)
    x, params = source(lowered, before, after)
    loop = elements_of_piece(var("length"), following(result, lowered.walk.step(tuple(now), x, var("j"))))
    stores = [Store(1 + k, var("i"), v) for k, v in enumerate(now)]
    body = [*item(pieces_of(var("length"))), *[Local(n, v) for n, v in zip(result, first, strict=True)], loop, *stores]
    return Nest(f"{lowered.name}_fold", operands([lowered.memories[0].code], [v.dtype for v in now]), tuple(params),
                rows(*body))


def joined(lowered: Lowered, now: Sequence[Value], here: Sequence[Value]) -> list[Value]:
    return list(lowered.walk.merge(tuple(now), tuple(here)))


def folds_nest(lowered: Lowered) -> Nest:
    """Folds of `PIECE` folds."""
    result, first, now = accumulators(lowered)
    codes, count = [v.dtype for v in now], var("count")
    at = (var("before") * count + var("j")) * var("inner") + var("after")
    here = [Local(f"here{k}", load(k, at, code)) for k, code in enumerate(codes)]
    values = joined(lowered, now, [var(f"here{k}", code) for k, code in enumerate(codes)])
    loop = elements_of_piece(count, [*here, *following(result, values)])
    stores = [Store(len(codes) + k, var("i"), v) for k, v in enumerate(now)]
    body = [*item(pieces_of(count)), *[Local(n, v) for n, v in zip(result, first, strict=True)], loop, *stores]
    return Nest(f"{lowered.name}_folds", operands(codes, codes), ("count", "inner"), rows(*body))


def starts_nest(lowered: Lowered, continued: bool) -> Nest:
    """Folds become what is before them, in place: of a whole row or, `continued`, of a piece that has a start."""
    result, first, now = accumulators(lowered)
    codes, count, inner = [v.dtype for v in now], var("count"), var("inner")
    own = len(codes) if continued else 0
    at = (var("before") * count + var("j")) * inner + var("after")
    here = [Local(f"here{k}", load(own + k, at, code)) for k, code in enumerate(codes)]
    stores = [Store(own + k, at, v) for k, v in enumerate(now)]
    values = joined(lowered, now, [var(f"here{k}", code) for k, code in enumerate(codes)])
    step = [*here, *stores, *following(result, values)]
    if continued:
        first = [load(k, var("i"), code) for k, code in enumerate(codes)]
        head, loop = item(pieces_of(count)), elements_of_piece(count, step)
    else:
        head = [Local("after", irem(var("i"), inner)), Local("before", idiv(var("i"), inner))]
        loop = For("j", ZERO, count, tuple(step))
    body = [*head, *[Local(n, v) for n, v in zip(result, first, strict=True)], loop]
    return Nest(f"{lowered.name}_starts", operands(codes if continued else [], codes), ("count", "inner"), rows(*body))


def walk_nest(lowered: Lowered, before: int, after: int) -> Nest:
    """Every piece walked from its start."""
    result, _, now = accumulators(lowered)
    codes = [v.dtype for v in now]
    x, params = source(lowered, before, after)
    at = (var("before") * var("length") + var("j")) * var("inner") + var("after")
    out = 1 + len(codes)
    stores = [
        Store(out + k, at, cast(v, code))
        for k, (v, code) in enumerate(zip(lowered.walk.emit(tuple(now)), lowered.outs, strict=True))
    ]
    loop = elements_of_piece(
        var("length"), [*following(result, lowered.walk.step(tuple(now), x, var("j"))), *stores]
    )
    starts = [Local(n, load(1 + k, var("i"), code)) for k, (n, code) in enumerate(zip(result, codes, strict=True))]
    return Nest(f"{lowered.name}_pieces", operands([lowered.memories[0].code, *codes], lowered.outs), tuple(params),
                rows(*item(pieces_of(var("length"))), *starts, loop))
