"""Planning the recursion of connectionist temporal classification: an item per thread, label positions in vectors.

Enters: a type and sizes. Leaves: a schedule over log probabilities, extended labels, what may be skipped, lengths and
starts, and the scores of every position at every time, behind `EDGE` columns that no path reaches.
"""

from __future__ import annotations

from ..codegen.schedule.forms.launch import Launch, Schedule
from ..loops.expr import Value, cast, const, eq, load, max_, min_, select, var
from ..loops.nest import For, Local, Nest, Store, operands, rows
from ..op.pointwise import scalars

ZERO, ONE = const(0, "i64"), const(1, "i64")
IMPOSSIBLE = float("-inf")
EDGE = 2                 # columns of -inf before the first position: what the recursion reads there


def log_sum(code: str, *terms: Value) -> Value:
    """Log of the sum of exponentials, -inf where all are."""
    top = terms[0]
    for t in terms[1:]:
        top = max_(top, t)
    top = select(eq(top, const(IMPOSSIBLE, code)), const(0.0, code), top)
    total = scalars.exp(terms[0] - top)
    for t in terms[1:]:
        total = total + scalars.exp(t - top)
    return scalars.log(total) + top


def scores_nest(code: str) -> Nest:
    """The recursion for item i: a serial loop over time, a vector loop over positions."""
    item, t, s = var("i"), var("t"), var("s")
    width, classes = var("width"), var("classes")
    never = const(IMPOSSIBLE, code)
    line = (item * var("times") + t) * (width + EDGE)
    label = load(1, item * width + s, "i64")
    time = var("start") + t * var("step")
    chance = load(0, (time * var("items") + item) * classes + label, code)
    before = line - (width + EDGE) + s
    above = [load(5, before + EDGE - k, code) for k in range(2)]
    skipped = load(5, before, code) + load(2, item * width + s, code)
    first = For("s", ZERO, min_(width, const(2, "i64")), (Store(5, line + EDGE + s, chance),))
    clear = For("c", ZERO, width + EDGE, (Store(5, line + var("c"), never),), vector=True)
    edge = For("c", ZERO, const(EDGE, "i64"), (Store(5, line + var("c"), never),))
    recur = For("s", ZERO, width, (Store(5, line + EDGE + s, log_sum(code, *above, skipped) + chance),), vector=True)
    body = (
        Local("length", cast(load(3, item, "i64"), "i64")),
        Local("start", cast(load(4, item, "i64"), "i64")),
        For("t", ZERO, min_(ONE, var("length")), (clear, first)),
        For("t", ONE, var("length"), (edge, recur)),
        For("t", var("length"), var("times"), (clear,)),
    )
    return Nest(
        "ctc_scores",
        operands([code, "i64", code, "i64", "i64"], [code]),
        ("times", "items", "classes", "width", "step"),
        rows(*body),
    )


def scores_schedule(code: str, times: int, items: int, classes: int, width: int, step: int) -> Schedule:
    """The recursion as one launch; time runs in steps of `step`."""
    params = (times, items, classes, width, step)
    return Schedule((Launch((code,), lambda: scores_nest(code), tuple(range(6)), params, items, 1),))
