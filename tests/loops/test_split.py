"""Loops cut where a condition changes compute what the uncut ones do."""

from __future__ import annotations

import pytest

import rushlight as R
from rushlight import _C
from rushlight.codegen import schedule as schedules
from rushlight.loops.expr import const, ge, load, lt, max_, min_, select, var
from rushlight.loops.lowered import Lowered, Memory, Number
from rushlight.loops.nest import For, If, Local, Store
from rushlight.loops.split import MOST_LOOPS, split_loop
from rushlight.op.pack import BY_CODE, lowered_steps

ZERO, J, N = const(0, "i64"), var("j"), var("n")


def loops_of(statements):
    """All loops in order, branches opened."""
    found = []
    for s in statements:
        if isinstance(s, For):
            found.append(s)
        elif isinstance(s, If):
            found += loops_of(s.then) + loops_of(s.otherwise)
    return found


def test_a_padded_row_is_three_loops_without_a_choice():
    own = J - var("before")
    inside = ge(own, ZERO) & lt(own, N)
    value = select(inside, load(0, max_(min_(own, N - 1), ZERO), "f32"), const(0.0, "f32"))
    result = split_loop("j", ZERO, var("m"), [Store(1, J, value)])
    first, middle, last = loops_of(result)
    assert first.body[0].value.op == last.body[0].value.op == "const"
    assert middle.body[0].value is load(0, own, "f32")
    assert all(loop.vector for loop in (first, middle, last)) and isinstance(result[0], Local)


def test_what_the_loop_does_not_change_is_a_branch_around_it():
    value = select(lt(var("y"), N), load(0, J, "f32"), const(0.0, "f32"))
    (result,) = split_loop("j", ZERO, var("m"), [Store(1, J, value)])
    assert isinstance(result, If) and [s.body[0].value.op for s in loops_of([result])] == ["load", "const"]


def test_conditions_on_memory_stay_choices():
    value = select(lt(load(0, J, "i64"), N), load(1, J, "f32"), const(0.0, "f32"))
    (result,) = split_loop("j", ZERO, var("m"), [Store(2, J, value)])
    assert isinstance(result, For) and result.body[0].value is value


def test_the_code_stays_small():
    value = const(0.0, "f32")
    for k in range(40):
        value = select(lt(J, var(f"end{k}")), load(0, J + k, "f32"), value)
    assert len(loops_of(split_loop("j", ZERO, N, [Store(1, J, value)]))) <= MOST_LOOPS


@pytest.mark.parametrize("size", [1, 2, 3, 40, 5000])
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("low, high", [(-3, 2), (0, 0), (2, 7), (9, 4), (100, 6000)])
def test_stretches_meet_without_gaps(size, step, low, high):
    """Conditions on multiples of the position, with limits before, inside and behind the range, in any order."""

    def body(at, sources):
        here = at[-1] * const(step, "i64")
        value = select(
            lt(here, sources[0].value),
            const(1.0, "f32"),
            select(ge(here, sources[1].value), const(2.0, "f32"), const(3.0, "f32")),
        )
        return (value + select(lt(-here, -sources[1].value), const(10.0, "f32"), const(20.0, "f32")),)

    result = Lowered(
        "stretches",
        ("stretches", step),
        (size,),
        (size,),
        ("f32",),
        (Number("low", "i64", low), Number("high", "i64", high)),
        body,
        aligned=False,
    )
    slots = [("new", BY_CODE["f32"], (size,), None, -1, 0)]
    got = _C.Plan(0, R.device("cpu"), slots, lowered_steps(result, R.device("cpu"), {}, slots))()
    places = [k * step for k in range(size)]
    assert got.tolist() == [(1 if p < low else 2 if p >= high else 3) + (10 if -p < -high else 20) for p in places]


def test_rows_that_every_tensor_is_read_along_are_joined():
    x = R.randn(8, 3, 5, 7)
    memory = Memory("x", "f32", tuple(x.shape), x.stride())

    def body(at, sources):
        return (sources[0][at.replace(1, min_(at[1], const(2, "i64")))],)

    result = Lowered(
        "joined",
        ("joined",),
        (8, 4, 5, 7),
        (8, 4, 5, 7),
        ("f32",),
        (memory,),
        body,
        aligned=False,
        through=frozenset((0, 2, 3)),
    )
    (launch,) = schedules.schedule(result).launches
    assert launch.extent * 35 == 8 * 4 * 35
    slots = [("new", BY_CODE["f32"], result.shape, None, -1, 0)]
    got = _C.Plan(1, R.device("cpu"), slots, lowered_steps(result, R.device("cpu"), {}, slots))(x)
    assert R.equal(got, R.cat((x, x[:, 2:]), 1))
