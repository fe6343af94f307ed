"""Block programs: loops, conditions, least sizes, scratch memory and slots do what their words say, on any number of threads."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.loops import expr
from rushlight.loops.nest import For, Nest, Store, operands, rows
from rushlight.op.blocks import SCRATCH, Block, Call, Form, Loop, When, step
from rushlight.op.pointwise import compile_for

CPU = rl.device("cpu")


def adding_kernel() -> int:
    """target[i, j] += number, for rows i and columns j < cols."""
    i, j = expr.var("i"), expr.var("j")
    at = i * expr.var("row") + j
    add = Store(0, at, expr.load(0, at, "f32") + expr.cast(expr.var("number"), "f32"))
    return compile_for(CPU, Nest("add_number", operands([], ["f32"]), ("cols", "row", "number"), rows(For("j", expr.const(0, "i64"), expr.var("cols"), (add,), vector=True))))


def run(made, target):
    return rl._C.Plan(1, CPU, [("arg", None, None, None, 0, 0)], [made])(target)


@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_with_edges_and_conditions(threads):
    i, j = Form.var("i"), Form.var("j")
    size, total_rows, total_cols = 4, 10, 7
    height, width = (size, total_rows - i * size), (3, total_cols - j * 3)
    place = Block(0, (i * (size * total_cols) + j * 3) * 4)
    body = [Loop("j", 3, [When(i - j + 1, [Call(adding_kernel(), [place], [width, total_cols, i * 10 + j + 1], height)])])]
    before = rl.get_num_threads()
    rl.set_num_threads(threads)
    try:
        got = run(step([0], [("i", 3)], ["j"], 64, body), rl.zeros(total_rows, total_cols))
    finally:
        rl.set_num_threads(before)
    for r in range(total_rows):
        for c in range(total_cols):
            bi, bj = r // size, c // 3
            assert float(got[r, c]) == (bi * 10 + bj + 1 if bj <= bi else 0)


def test_scratch_is_the_thread_s_own_and_offsets_add_up():
    i, j = expr.var("i"), expr.var("j")
    copy = compile_for(CPU, Nest("copy_row", operands(["f32"], ["f32"]), ("cols",), rows(For("j", expr.const(0, "i64"), expr.var("cols"), (Store(1, i * expr.var("cols") + j, expr.load(0, i * expr.var("cols") + j, "f32")),), vector=True))))
    b = Form.var("b")
    scratch = Block(SCRATCH, 64).after(64)
    here = Block(0, b * 20)
    body = [Call(copy, [here, scratch], [5]), Call(adding_kernel(), [scratch], [5, 5, b]), Call(copy, [scratch, here], [5])]
    got = run(step([0], [("b", 40)], [], 256, body), rl.ones(40, 5))
    assert rl.equal(got, (rl.arange(40) + 1.0).unsqueeze(1).expand(40, 5))


def test_forms_are_linear():
    form = 3 + Form.var("x") * 2 - Form.var("y") - 1
    assert form.constant == 2 and form.factors == {"x": 2, "y": -1}
    assert (10 - form).constant == 8


def test_too_large_programs_are_refused():
    with pytest.raises(AssertionError, match="variables"):
        step([0], [(name, 1) for name in "abcdefghi"], [], 64, [])
