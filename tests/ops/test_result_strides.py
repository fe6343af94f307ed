"""Results and gradients lie in memory as PyTorch's do, in eager mode, without data and compiled.

What PyTorch answers is stored (`result_strides.txt`), and compared with PyTorch where that is installed.
"""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight._subclasses.fake_tensor import FakeTensorMode
from tests.ops.result_strides import PROGRAMS, inputs, measured, run, shown, stored

pytestmark = pytest.mark.share(2)   # of each test that has several cases

ORDERS, PARTS = list(inputs(rl)), 4


@pytest.mark.share(2)
@pytest.mark.parametrize("part", range(PARTS))   # a machine that has compiled nothing yet needs its time
@pytest.mark.parametrize("order", ORDERS)
def test_results_and_gradients(order: str, part: int) -> None:
    found = dict(measured(rl, order, slice(part, None, PARTS)))
    assert found == {name: stored()[order, name] for name in found}


@pytest.mark.parametrize("order", ORDERS)
def test_stored_answers_are_those_of_pytorch(order: str) -> None:
    torch = pytest.importorskip("torch")
    assert dict(measured(torch, order)) == {name: strides for (at, name), strides in stored().items() if at == order}


@pytest.mark.parametrize("order", ORDERS)
def test_without_data(order: str) -> None:
    """Tensors that have no elements know where those would lie."""
    for name, text in PROGRAMS.items():
        if "tensor(" in text or "x[" in text:   # tensors of elements, and sizes that these decide
            continue
        with FakeTensorMode() as mode:
            found = run(rl, name, mode.from_tensor(inputs(rl)[order]))
        assert found is None or shown(found) == stored()[order, name].split(" ; ")[0], name


COMPILED = ("softmax", "masked_fill", "sort", "flip", "index middle", "index_put", "batch_norm", "roll", "stack")


@pytest.mark.parametrize("name", COMPILED)
def test_compiled(name: str) -> None:
    function = eval(f"lambda x: {PROGRAMS[name]}", {"T": rl, "F": rl.nn.functional})
    for order in ("channels last", "transposed"):
        found = rl.compile(function)(inputs(rl)[order])
        assert shown(found) == stored()[order, name].split(" ; ")[0], order


def test_the_view_of_a_softmax() -> None:
    assert rl.ones(2, 3).t().softmax(0).view(-1).tolist() == [pytest.approx(1 / 3)] * 6


def test_examples_of_a_batch() -> None:
    x = rl.rand(5, 2, 3, 4).transpose(2, 3)
    assert rl.func.vmap(lambda t: t.softmax(0))(x).is_contiguous()
    assert rl.func.vmap(lambda t: t.masked_fill(t > 0, 1))(x).is_contiguous()
    assert rl.func.vmap(lambda t: t.flip(0))(x).stride() == x.stride()
    assert rl.func.vmap(lambda t: t.sort(0)[0])(x).stride() == x.stride()


def test_tangents() -> None:
    x = rl.rand(2, 3, 4).transpose(1, 2)
    primal, tangent = rl.func.jvp(lambda t: t.softmax(1), (x,), (rl.ones_like(x),))
    assert primal.is_contiguous() and tangent.is_contiguous()


def test_every_program_has_an_answer() -> None:
    assert {name for _, name in stored()} == set(PROGRAMS)
