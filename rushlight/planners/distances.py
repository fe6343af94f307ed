"""Planning distances of all pairs of points of a set, and their slopes: triangles, which no ranges of fixed size hold.

Enters: a type, sizes and the order of the norm. Leaves: schedules, and the terms that distances of any two sets are
made of: small whole orders and infinity have expressions of their own (`usual_order`), of others the order is a number.
"""

from __future__ import annotations

import functools
from typing import Any

from ..codegen.schedule.forms.launch import Launch, Schedule, grain_of, number_bits, number_names
from ..loops.expr import Value, add, and_, bitcast, cast, const, div, idiv, load, max_, min_, select, var, xor
from ..loops.lowered import Fold, number_value
from ..loops.nest import Assign, For, Local, Nest, Store, operands, reduction, rows
from ..op.pointwise import scalars

ZERO = const(0, "i64")
STRETCH = 16             # coordinates added up one by one


class Total(Fold):
    """Terms added up."""

    blocked = True

    def init(self, s: Any, code: str) -> tuple[Value]:
        return (const(0, code),)

    def merge(self, s: Any, a: Any, b: Any) -> tuple[Value]:
        return (add(a[0], b[0]),)


class Largest(Total):
    """The largest of terms that are at least 0."""

    blocked = False

    def merge(self, s: Any, a: Any, b: Any) -> tuple[Value]:
        return (max_(a[0], b[0]),)


TOTAL, LARGEST = Total(), Largest()


def usual_order(p: float) -> float | None:
    """The order of a norm that has a kernel of its own: small whole numbers are products."""
    return p if p == float("inf") or p in range(7) else None


def term_of(gap: Value, p: float | None, order: Any) -> Value:
    """What a distance between two coordinates adds to the p-norm; p None: `order` holds it."""
    if p == 0.0:
        return select(scalars.ne(gap, const(0, gap.dtype)), const(1, gap.dtype), const(0, gap.dtype))
    term = scalars.pow(gap, order) if p is None else gap
    for _ in range(1, int(p) if p and p != float("inf") else 1):
        term = term * gap
    return term


def root_of(total: Value, p: float | None, order: Any) -> Value:
    """The p-norm, from what all coordinates added."""
    if p == 2.0:
        return scalars.sqrt(total)
    if p in (0.0, 1.0, float("inf")):
        return total
    return scalars.pow(total, div(const(1, total.dtype), order if p is None else const(p, total.dtype)))


def slope_of(gap: Value, p: float | None, order: Any, weight: Value, distance: Value) -> Value:
    """What a distance changes by with one coordinate, `gap` being the difference of two: `weight` is what all
    coordinates of the pair share."""
    nothing = const(0, gap.dtype)
    if p == 1.0:
        return select(scalars.gt(scalars.abs(gap), nothing), signed(weight, gap), nothing)
    if p == float("inf"):
        return select(scalars.eq(scalars.abs(gap), distance), signed(weight, gap), nothing)
    if p is None:
        power = scalars.pow(scalars.abs(gap), order - 1)
        return select(scalars.eq(gap, nothing), nothing, power * scalars.sign(gap)) * weight
    slope = gap
    for _ in range(2, int(p)):
        slope = slope * scalars.abs(gap)
    return slope * weight


def signed(weight: Value, gap: Value) -> Value:
    """`weight` with its sign changed where `gap` is negative."""
    code, top = ("i64", -(1 << 63)) if gap.dtype == "f64" else ("i32", -(1 << 31))
    return bitcast(xor(bitcast(weight, code), and_(bitcast(gap, code), const(top, code))), gap.dtype)


def pairs_nest(code: str, usual: float | None, p: float | None = None) -> Nest:
    """A row of distances per iteration, vectors of them at a time; coordinates are added up in short stretches, as long
    sums lose digits."""
    i, j, m, width, points = (var(name) for name in ("i", "j", "m", "width", "points"))
    order = None if p is None else cast(number_value("p", p), code)
    before = idiv(i * (2 * points - i - 1), const(2, "i64")) - i - 1
    term = term_of(scalars.abs(load(0, i * width + m, code) - load(1, m * points + j, code)), usual, order)
    fold = LARGEST if usual == float("inf") else TOTAL
    part, total = var("part", code), var("total", code)
    stretch = reduction(
        "m",
        var("stretch") * STRETCH,
        min_(var("stretch") * STRETCH + STRETCH, width),
        ["part"],
        fold.init(scalars, code),
        lambda acc: fold.merge(scalars, acc, (term,)),
        lambda a, b: fold.merge(scalars, a, b),
    )
    stretches = For("stretch", ZERO, idiv(width + (STRETCH - 1), const(STRETCH, "i64")),
                    (stretch, Assign("total", fold.merge(scalars, (total,), (part,))[0])))
    row = (Local("total", fold.init(scalars, code)[0]), stretches, Store(2, before + j, root_of(total, usual, order)))
    params = ("points", "width", *(() if p is None else number_names("p", p)))
    body = rows(Local("first", i + 1), For("j", var("first"), points, row, vector=True))
    return Nest("pair_distances", operands([code] * 2, [code]), params, body)


def slopes_nest(code: str, usual: float | None, p: float | None = None) -> Nest:
    """A coordinate per iteration: every point meets those behind it, which give away what it gets."""
    c, i, j, points = (var(name) for name in ("c", "i", "j", "points"))
    order = None if p is None else cast(number_value("p", p), code)
    row, place = c * points, var("before") + j
    term = slope_of(var("one", code) - load(0, row + j, code), usual, order, load(1, place, code), load(2, place, code))
    given = Store(3, row + j, load(3, row + j, code) - var("term", code))
    sums = reduction(
        "j", var("first"), points, ["total"], TOTAL.init(scalars, code), lambda acc: (acc[0] + var("term", code),),
        lambda a, b: TOTAL.merge(scalars, a, b), body=[Local("term", term), given],
    )
    point = (
        Local("first", i + 1),
        Local("before", idiv(i * (2 * points - i - 1), const(2, "i64")) - i - 1),
        Local("one", load(0, row + i, code)),
        sums,
        Store(3, row + i, load(3, row + i, code) + var("total", code)),
    )
    clear = For("j", ZERO, points, (Store(3, row + j, const(0, code)),), vector=True)
    params = ("points", *(() if p is None else number_names("p", p)))
    body = rows(clear, For("i", ZERO, points, point), name="c")
    return Nest("pair_slopes", operands([code] * 3, [code]), params, body)


def pairs_schedule(code: str, points: int, width: int, p: float) -> Schedule:
    """Distances of pairs i < j of [points, width], which is given as it is and turned: a row of them per item."""
    usual = usual_order(p)
    given = () if usual is not None else (float(p),)
    params = (points, width, *[bits for n in given for bits in number_bits(n)])
    nest, grain = functools.partial(pairs_nest, code, usual, *given), grain_of(points * width // 2)
    return Schedule((Launch((code, usual), nest, (0, 1, 2), params, points, grain),))


def slopes_schedule(code: str, width: int, points: int, p: float) -> Schedule:
    """Gradients of points, [width, points]: a coordinate per item."""
    usual = usual_order(p)
    given = () if usual is not None else (float(p),)
    params = (points, *[bits for n in given for bits in number_bits(n)])
    nest, grain = functools.partial(slopes_nest, code, usual, *given), grain_of(points * points // 2)
    return Schedule((Launch((code, usual), nest, (0, 1, 2, 3), params, width, grain),))
