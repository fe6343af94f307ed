"""Planning runs of equal neighbours in a vector: one walk that finds them all.

Enters: a type of `WALKED`, a length, and which results are wanted. Leaves: a schedule over the vector, the first
elements of runs, the run of every element, the lengths of runs, and how many there are.
"""

from __future__ import annotations

import functools

from ...codegen.schedule.forms.launch import Launch, Schedule
from ...loops.expr import Value, const, gt, idiv, load, ne, select, var
from ...loops.nest import Assign, For, If, Local, Nest, Statement, Store, operands, rows

ZERO, ONE = const(0, "i64"), const(1, "i64")
TOGETHER = 4     # elements of a walk whose steps are written out, so that counting them costs less
WALKED = ("f32", "f64", "i8", "i16", "i32", "i64", "u8")     # types whose runs are found in one walk


def runs_nest(code: str, inverse: bool, counts: bool) -> Nest:
    """One walk without branches: every element is written where its run has its own, as is what is known by then."""
    run, length, kept = var("run"), var("run_length"), var("kept", code)

    def step(at: Value, name: str) -> list[Statement]:
        x, starts = var(f"x{name}", code), var(f"starts{name}", "b1")
        body = [
            Local(f"x{name}", load(0, at, code)),
            Local(f"starts{name}", ne(x, var("previous", code))),
            Assign("run", run + select(starts, ONE, ZERO)),
            Assign("kept", select(starts, x, kept)),
            Assign("previous", x),
            Store(1, run, kept),
        ]
        more = [Assign("run_length", select(starts, ONE, length + ONE)), Store(3, run, length)] if counts else []
        return [*body, *([Store(2, at, run)] if inverse else ()), *more]

    first: list[Statement] = [Local("run", ZERO), Local("run_length", ONE)]
    first += [Local("kept", load(0, ZERO, code)), Local("previous", kept)]
    first += [Store(1, ZERO, kept), *([Store(2, ZERO, ZERO)] if inverse else ())]
    first += [Store(3, ZERO, ONE)] if counts else []
    last, whole = var("length"), idiv(var("length") - 1, const(TOGETHER, "i64")) * TOGETHER
    several = [s for k in range(TOGETHER) for s in step(var("block") * TOGETHER + (k + 1), f".{k}")]
    walk = (
        *first,
        For("block", ZERO, idiv(last - 1, const(TOGETHER, "i64")), tuple(several)),
        For("j", whole + 1, last, tuple(step(var("j"), ""))),
        Store(4, ZERO, run + ONE),
    )
    body = rows(Store(4, ZERO, ZERO), If(gt(last, ZERO), walk))
    return Nest("runs", operands([code], [code, "i64", "i64", "i64"]), ("length",), body)


def runs_schedule(code: str, length: int, inverse: bool, counts: bool) -> Schedule:
    """The walk as one launch."""
    nest = functools.partial(runs_nest, code, inverse, counts)
    return Schedule((Launch((code, inverse, counts), nest, (0, 1, 2, 3, 4), (length,), 1, 1),))
