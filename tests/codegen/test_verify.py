"""The verifier refuses nests that would make wrong code, and says why."""

from __future__ import annotations

import pytest

from rushlight.loops import expr as e
from rushlight.loops.nest import Assign, Check, For, Local, Nest, Store, operands, pointwise_nest, reduction, rows
from rushlight.loops.verify import IllegalNest, verify

ZERO = e.const(0, "i64")
i, n = e.var("i"), e.var("n")
X = e.load(0, i, "f32")


def nest(*body, vector=False, params=("n",)):
    return Nest("subject", operands(["f32"], ["f32"], ["i64"]), params, rows(*body, vector=vector))


def fold(step=lambda a: [a[0] + X], merge=lambda a, b: [a[0] + b[0]], init=e.const(0.0, "f32"), **options):
    return reduction("j", ZERO, n, ["acc"], [init], step, merge, **options)


LEGAL = [
    pointwise_nest("add", ["f32", "f32"], ["f32"], [e.arg(0, "f32") + e.arg(1, "f32")]),
    nest(fold(), Store(1, i, e.var("acc", "f32"))),
    nest(Local("s", X), For("j", ZERO, n, (Assign("s", e.var("s", "f32") + 1.0),)), Store(1, i, e.var("s", "f32"))),
]
ILLEGAL = {
    "undeclared name": nest(Store(1, i, e.var("nothing", "f32"))),
    "name out of its block": nest(For("j", ZERO, n, (Local("t", X),)), Store(1, i, e.var("t", "f32"))),
    "loop variable after its loop": nest(For("j", ZERO, n, ()), Store(1, e.var("j"), X)),
    "name declared twice": nest(Local("t", X), Local("t", X)),
    "wrong dtype of a name": nest(Local("t", X), Store(1, i, e.cast(e.var("t", "f64"), "f32"))),
    "operand out of range": nest(Store(7, i, X)),
    "operand of another dtype": nest(Store(1, i, e.cast(X, "f64"))),
    "load of another dtype": nest(Store(1, i, e.cast(e.load(0, i, "f64"), "f32"))),
    "index that is no i64": nest(Store(1, e.cast(i, "i32"), X)),
    "unknown combine": nest(Store(1, i, X, "xor")),
    "assignment to a loop variable": nest(Assign("i", ZERO)),
    "assignment to a parameter": nest(Assign("n", ZERO)),
    "vector loop that carries": nest(Local("s", X), For("j", ZERO, n, (Assign("s", X),), vector=True)),
    "check in a reduction": nest(fold(body=[Check(e.lt(i, n), 2, i)])),
    "merge of another dtype": nest(fold(merge=lambda a, b: [e.cast(a[0], "f64")])),
    "step reads a merge name": nest(fold(step=lambda a: [e.var("acc.a", "f32")])),
    "arg without a point": nest(Store(1, i, e.arg(0, "f32"))),
    "store at no point": nest(Store(1, None, X)),
    "error cell of another dtype": nest(Check(e.lt(i, n), 1, i)),
    "unknown primitive": nest(Store(1, i, e.node("frobnicate", (X,), "f32"))),
    "primitive on the wrong dtype": nest(Store(1, i, e.node("and", (X, X), "f32"))),
    "disagreeing arguments": nest(Store(1, i, e.node("add", (X, e.const(1, "i32")), "f32"))),
    "name that is no symbol": Nest("a b", operands([], []), (), rows()),
}


@pytest.mark.parametrize("subject", LEGAL, ids=lambda s: s.name)
def test_legal_nests_pass_and_print(subject):
    assert verify(subject) is subject
    assert subject.name in str(subject)


@pytest.mark.parametrize("why", ILLEGAL)
def test_illegal_nests_are_refused(why):
    with pytest.raises(IllegalNest, match=r"got "):
        verify(ILLEGAL[why])


def test_digest_tells_structures_apart_and_nothing_else():
    subjects = [*LEGAL, nest(fold(blocked=True), Store(1, i, e.var("acc", "f32"))), nest(Store(1, i, X)),
                nest(Store(1, i, X), vector=True), nest(Store(1, i, X, "add"))]
    assert len({s.digest() for s in subjects}) == len(subjects)
    assert nest(Store(1, i, X)).digest() == nest(Store(1, i, X)).digest()
