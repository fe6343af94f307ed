"""Small rules of PyTorch: which arguments are refused and how, what `out=` answers,
which results exist without data."""

from __future__ import annotations

import math

import pytest

import rushlight as rl
import rushlight.nn.functional as F

LONG_ONLY = {
    "index_copy": (RuntimeError, lambda i: rl.zeros(3, 2).index_copy(0, i, rl.ones(1, 2))),
    "index_fill": (IndexError, lambda i: rl.zeros(3, 2).index_fill(0, i, 2)),
    "take": (RuntimeError, lambda i: rl.zeros(3).take(i)),
    "put_": (RuntimeError, lambda i: rl.zeros(3).put_(i, rl.ones(1))),
    "take_along_dim": (RuntimeError, lambda i: rl.zeros(3).take_along_dim(i, 0)),
    "nll_loss": (RuntimeError, lambda i: F.nll_loss(rl.zeros(1, 3), i)),
    "cross_entropy": (RuntimeError, lambda i: F.cross_entropy(rl.zeros(1, 3), i)),
}


@pytest.mark.parametrize("name", LONG_ONLY)
def test_indices_that_must_be_long(name: str) -> None:
    error, call = LONG_ONLY[name]
    call(rl.tensor([1]))
    with pytest.raises(error, match="int64"):
        call(rl.tensor([1], dtype=rl.int32))


def test_byte_targets_are_for_plain_batches_only() -> None:
    assert F.nll_loss(rl.zeros(2, 3), rl.ones(2, dtype=rl.uint8)).item() == 0
    with pytest.raises(RuntimeError, match="int64"):
        F.nll_loss(rl.zeros(2, 3, 2, 2), rl.ones(2, 2, 2, dtype=rl.uint8))


def test_out_of_a_list_answers_with_none() -> None:
    x = rl.arange(6.0).reshape(2, 3)
    parts = [rl.empty(3), rl.empty(3)]
    assert rl.unbind_copy(x, out=parts) is None
    assert [p.tolist() for p in parts] == x.tolist()
    halves = [rl.empty(2, 1), rl.empty(2, 2)]
    assert rl.split_with_sizes_copy(x, [1, 2], 1, out=halves) is None
    assert halves[1].tolist() == [[1.0, 2.0], [4.0, 5.0]]


@pytest.mark.parametrize("name", ["cat", "stack", "hstack", "vstack", "dstack", "column_stack"])
def test_joining_into_an_input_is_refused(name: str) -> None:
    x = rl.arange(4.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        getattr(rl, name)([x[:2], x[:2]], out=x)


def test_narrow_copy_refuses_a_large_dim_with_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="narrow_copy"):
        rl.narrow_copy(rl.zeros(3, 3), 5, 0, 1)
    with pytest.raises(IndexError):
        rl.narrow_copy(rl.zeros(3, 3), -4, 0, 1)


def test_arange_of_integers_by_a_fraction_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="step"):
        rl.arange(0, 3, 0.5, dtype=rl.int64)
    with pytest.raises(RuntimeError, match="step"):
        rl.arange(0, 3, 0)


def test_repeat_interleave_without_data() -> None:
    x = rl.zeros(3, 4, device="meta")
    assert tuple(x.repeat_interleave(2).shape) == (24,)
    assert tuple(x.repeat_interleave(2, dim=1).shape) == (3, 8)
    assert tuple(x.repeat_interleave(rl.tensor([1, 2, 3]), dim=0).shape) == (6, 4)
    assert tuple(x.repeat_interleave(rl.zeros(3, dtype=rl.int64, device="meta"), dim=0, output_size=6).shape) == (6, 4)
    assert rl.tensor([[1, 2], [3, 4]]).repeat_interleave(2, 0).tolist() == [[1, 2], [1, 2], [3, 4], [3, 4]]
    assert rl.tensor([[1, 2], [3, 4]]).repeat_interleave(2).tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert rl.tensor(5).repeat_interleave(3).tolist() == [5, 5, 5]


def test_ravel_is_dense() -> None:
    x = rl.arange(12.0).reshape(3, 4)
    for v, shares in ((x, True), (x[0], True), (x[:, 0], False), (x[:, ::2], False), (x.t(), False)):
        y = v.ravel()
        assert y.is_contiguous()
        assert (y.data_ptr() == v.data_ptr()) is shares
        assert y.tolist() == v.flatten().tolist()


def test_conj_physical_of_a_real_tensor_is_the_tensor() -> None:
    x = rl.ones(3)
    assert x.conj_physical() is x
    assert rl.tensor([1 + 2j]).conj_physical().item() == 1 - 2j


def test_logsumexp_gradient_at_infinities() -> None:
    inf = math.inf
    for values, wanted in (
        ([inf, 1.0, 2.0], [math.nan, 0.0, 0.0]),
        ([-inf, 1.0, 1.0], [0.0, 0.5, 0.5]),
        ([-inf, -inf], [math.nan, math.nan]),
    ):
        x = rl.tensor(values, dtype=rl.float64, requires_grad=True)
        (g,) = rl.autograd.grad(x.logsumexp(0), x)
        assert g.tolist() == pytest.approx(wanted, nan_ok=True)


def test_integer_sequences_count_between_whole_numbers() -> None:
    assert rl.linspace(1.5, 10.7, 7, dtype=rl.int64).tolist() == [1, 2, 4, 5, 7, 8, 10]
    assert rl.logspace(1.5, 6.2, 7, base=2, dtype=rl.int16).tolist() == [2, 3, 6, 11, 20, 35, 64]
    assert rl.linspace(1.5, 2.5, 3).tolist() == [1.5, 2.0, 2.5]
