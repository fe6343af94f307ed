"""Serial loops that end when no lane has work left (`For.going`)."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from rushlight import codegen
from rushlight.loops.expr import const, gt, load, select, var
from rushlight.loops.nest import Assign, For, Local, Nest, Store, operands, rows
from rushlight.loops.verify import IllegalNest, verify

SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
LIMIT = 40


def halvings(vector: bool = False) -> Nest:
    """How often a number is halved until it is at most 1, and how many turns its vector took."""
    x, count, turns = var("x", "f64"), var("count", "f64"), var("turns", "f64")
    moves = gt(x, 1)
    body = (
        Assign("turns", turns + 1), Assign("count", select(moves, count + 1, count)),
        Assign("x", select(moves, x * 0.5, x)),
    )
    return Nest("halvings", operands(["f64"], ["f64", "f64"]), (), rows(
        Local("x", load(0, var("i"), "f64")), Local("count", const(0.0, "f64")), Local("turns", const(0.0, "f64")),
        For("turn", const(0, "i64"), const(LIMIT, "i64"), body, vector=vector, going=moves),
        Store(1, var("i"), count), Store(2, var("i"), turns), vector=True,
    ))


def run(given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    arrays = [given, np.empty_like(given), np.empty_like(given)]
    pointers = (ctypes.c_void_p * 3)(*[a.ctypes.data for a in arrays])
    SIGNATURE(codegen.compile(halvings()).address)(pointers, (ctypes.c_int64 * 1)(), 0, given.size)
    return arrays[1], arrays[2]


@pytest.mark.parametrize("size", [1, 3, 8, 37])
def test_every_lane_gets_its_turns_and_no_vector_more_than_its_slowest(size):
    given = 2.0 ** np.random.default_rng(0).integers(1, 30, size)
    count, turns = run(given)
    np.testing.assert_array_equal(count, np.log2(given))
    assert (turns >= count).all() and turns.max() == count.max()


def test_the_end_of_the_range_ends_it_too():
    count, turns = run(np.full(5, 2.0**100))
    assert (count == LIMIT).all() and (turns == LIMIT).all()


def test_the_first_turn_is_taken_whatever_the_condition_says():
    _, turns = run(np.full(16, 0.5))
    assert (turns == 1).all()


def test_it_prints_and_is_part_of_the_digest():
    nest = halvings()
    assert "while" in str(nest)
    inner = nest.loop.body[3]
    others = (*nest.loop.body[:3], inner.but(going=None), *nest.loop.body[4:])
    assert nest.but(loop=nest.loop.but(body=others)).digest() != nest.digest()


def test_a_vector_loop_has_no_condition():
    with pytest.raises(IllegalNest, match="vector loop"):
        verify(halvings(vector=True))
