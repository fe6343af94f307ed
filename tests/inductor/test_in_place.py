"""Ops that copy a tensor which nobody else reads, and write to the copy, write to the tensor itself."""

from __future__ import annotations

import pytest

import rushlight as rl
from tests.inductor.harness import check, compiled, kernels

INDEX = rl.tensor([3, 0, 3, 19, 7])


def is_in_place(made, name: str) -> bool:
    return f"steps[{name}_]" in kernels(made) and f"steps[{name}]" not in kernels(made)


def test_gradient_of_an_embedding() -> None:
    def gradient(index, g):
        return rl.zeros(20, 8).index_add(0, index, g)

    made = check(gradient, INDEX, rl.randn(5, 8))
    assert is_in_place(made, "index_add")
    for _ in range(2):      # what is written to is made anew
        g = rl.randn(5, 8)
        assert rl.equal(made([INDEX, g])[0], gradient(INDEX, g))


def test_training_an_embedding() -> None:
    table = rl.nn.Embedding(50, 16)
    index = rl.randint(0, 50, (4, 9))

    def loss(model):
        return (model(index) * 3).square().mean()

    loss(table).backward()
    expected, table.weight.grad = table.weight.grad, None
    loss(rl.compile(table)).backward()
    rl.testing.assert_close(table.weight.grad, expected)


@pytest.mark.parametrize("write", [
    lambda t, i, s: t.scatter_add(0, i[:, None].expand(5, 8), s),
    lambda t, i, s: t.index_put((i,), s, accumulate=True),
    lambda t, i, s: t.index_copy(0, i[1:4:2], s[:2]),
])
def test_other_writers_equal_eager(write) -> None:
    check(lambda i, s: write(rl.full((20, 8), 2.0), i, s), INDEX, rl.randn(5, 8))


def test_what_others_read_is_copied() -> None:
    def both(index, g):
        start = rl.ones(20, 8)
        return start.index_add(0, index, g), start * 2

    def returned(index, g):
        start = rl.ones(20, 8)
        return start.index_add(0, index, g), start

    def itself(index):
        start = rl.ones(5, 8)
        return start.index_add(0, index.clamp(0, 4), start)

    assert not is_in_place(check(both, INDEX, rl.randn(5, 8)), "index_add")
    assert not is_in_place(check(returned, INDEX, rl.randn(5, 8)), "index_add")
    assert not is_in_place(check(itself, INDEX), "index_add")


def test_twice_from_one_start() -> None:
    def twice(index, g):
        return rl.zeros(20, 8).index_add(0, index, g) + rl.zeros(20, 8).index_add(0, index, g * 2)

    check(twice, INDEX, rl.randn(5, 8))


def test_inputs_are_left_alone() -> None:
    start = rl.randn(20, 8)
    made = check(lambda t, i, g: t.index_add(0, i, g), start, INDEX, rl.randn(5, 8))
    assert not is_in_place(made, "index_add")


def test_a_bad_index_is_told() -> None:
    made = compiled(lambda i, g: rl.zeros(20, 8).index_add(0, i, g), (INDEX, rl.randn(5, 8)))
    with pytest.raises(RuntimeError, match="20"):
        made([rl.tensor([3, 0, 3, 20, 7]), rl.randn(5, 8)])
