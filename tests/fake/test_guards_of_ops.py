"""Ops on symbolic sizes: no guard that only a choice of speed needs, and formulas where elements or layouts decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.fake import DataDependentOutputException, FakeTensorMode, ShapeEnv


def shaped(fn: Callable[..., Any], *shapes: tuple[int, ...], dtype: Any = rl.float32) -> tuple[str, list[str]]:
    """The shapes (or the number) that a call gives for symbolic sizes, and what it assumed of them."""
    env = ShapeEnv(duck_shape=False)
    mode = FakeTensorMode(shape_env=env)
    args = [mode.from_tensor(rl.ones(shape, dtype=dtype)) for shape in shapes]
    with mode:
        result = fn(*args)

    def form(x: Any) -> Any:
        return [*x.shape] if isinstance(x, rl.Tensor) else [form(y) for y in x] if isinstance(x, (tuple, list)) else x

    return str(form(result)), [str(guard) for guard in env.guards]


@pytest.mark.parametrize("fn, shape", [
    (lambda x: rl.sort(x), "[[s0, s1], [s0, s1]]"),
    (lambda x: rl.topk(x, 2), "[[s0, 2], [s0, 2]]"),
    (lambda x: rl.kthvalue(x, 2), "[[s0], [s0]]"),
    (lambda x: rl.median(x, 0), "[[s1], [s1]]"),
    (lambda x: rl.nanmedian(x), "[]"),
    (lambda x: rl.mode(x, 0), "[[s1], [s1]]"),
    (lambda x: rl.quantile(x, 0.5, 0), "[s1]"),
    (lambda x: rl.isin(x, x[0]), "[s0, s1]"),
    (lambda x: rl.bucketize(x, x[0]), "[s0, s1]"),
], ids=["sort", "topk", "kthvalue", "median", "nanmedian", "mode", "quantile", "isin", "bucketize"])
def test_thresholds_of_speed_leave_no_guard(fn: Callable[..., Any], shape: str) -> None:
    assert shaped(fn, (5, 7)) == (shape, [])


def test_factorizations_assume_which_side_is_longer_and_no_more() -> None:
    assert shaped(lambda x: rl.linalg.lu_factor(x), (5, 7)) == ("[[s0, s1], [s0]]", ["s0 <= s1"])
    assert shaped(lambda x: rl.linalg.lu(x), (5, 7)) == ("[[s0, s0], [s0, s0], [s0, s1]]", ["s0 <= s1"])
    assert shaped(rl.linalg.solve, (5, 5), (5, 3)) == ("[s0, s3]", ["s0 == s1", "s0 == s2"])


def test_length_of_a_storage_is_a_formula() -> None:
    assert shaped(lambda x: x.untyped_storage().nbytes(), (5, 7)) == ("4*s0*s1", [])
    assert shaped(lambda x: (x + 1).t().untyped_storage().size(), (5, 7)) == ("4*s0*s1", [])
    # a view's is its source's
    assert shaped(lambda x: x[1:].untyped_storage().nbytes(), (5, 7)) == ("4*s0*s1", [])
    assert shaped(lambda x: x.storage().nbytes(), (5, 7), dtype=rl.float64) == ("8*s0*s1", [])
    assert shaped(lambda x: x.nonzero().untyped_storage().nbytes(), (5, 7)) == ("16*u0", [])
    # a number was asked for
    assert shaped(lambda x: len(x.untyped_storage()), (5, 7)) == ("140", ["s0*s1 == 35"])
    assert shaped(lambda x: [x.untyped_storage().resize_(8), x.untyped_storage().nbytes()][1], (5, 7)) == ("8", [])


def test_length_of_the_storage_of_an_input_with_gaps() -> None:
    env = ShapeEnv(duck_shape=False)
    x = FakeTensorMode(shape_env=env).from_tensor(rl.ones(6, 9)[:, :5])     # its strides stay numbers
    assert x.untyped_storage().nbytes().expression.evaluate({"s0": 6, "s1": 5}) == 4 * (5 * 9 + 5) and not env.guards


def test_elements_decide_how_many_bins() -> None:
    assert shaped(lambda x: rl.bincount(x), (9,), dtype=rl.int64) == ("[u0]", [])
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    with mode:
        counts = rl.bincount(mode.from_tensor(rl.ones(9, dtype=rl.int64)), minlength=4)
        sums = rl.bincount(mode.from_tensor(rl.ones(9, dtype=rl.int64)), mode.from_tensor(rl.ones(9)), minlength=4)
    assert counts.dtype is rl.int64 and sums.dtype is rl.float32 and bool(counts.shape[0] >= 4)
    with mode, pytest.raises(RuntimeError, match="minlength"):
        rl.bincount(mode.from_tensor(rl.ones(9, dtype=rl.int64)), minlength=-1)


def test_elements_decide_where_to_cut() -> None:
    assert shaped(lambda x, at: rl.tensor_split(x, at.long()), (9, 3), (2,)) == (
        "[[u0, s1], [u1 - u0, s1], [s0 - u1, s1]]",
        ["s2 == 2"],
    )
    with FakeTensorMode(), pytest.raises(DataDependentOutputException):
        rl.tensor_split(rl.ones(9), rl.ones(2, dtype=rl.int64))
