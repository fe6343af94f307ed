"""Lists of tensors at once, copying views, settings and checks: what PyTorch's op records do not visit."""

from __future__ import annotations

import pytest

import rushlight as rl


def test_foreach_takes_lists_tensors_and_numbers() -> None:
    xs = [rl.ones(2), rl.full((3,), 2.0)]
    assert [x.tolist() for x in rl._foreach_add(xs, 1)] == [[2, 2], [3, 3, 3]]
    assert [x.tolist() for x in rl._foreach_add(xs, xs, alpha=2)] == [[3, 3], [6, 6, 6]]
    assert [x.tolist() for x in rl._foreach_mul(xs, [2, 3])] == [[2, 2], [6, 6, 6]]
    assert [x.tolist() for x in rl._foreach_mul(xs, rl.tensor(4.0))] == [[4, 4], [8, 8, 8]]
    assert [x.tolist() for x in rl._foreach_pow(2, xs)] == [[2, 2], [4, 4, 4]]
    assert [x.tolist() for x in rl._foreach_addcdiv(xs, xs, xs, [1, 2])] == [[2, 2], [4, 4, 4]]
    assert [x.item() for x in rl._foreach_norm(xs)] == pytest.approx([2**0.5, 12**0.5])


def test_foreach_in_place_changes_every_tensor() -> None:
    xs = [rl.ones(2), rl.full((3,), 4.0)]
    assert rl._foreach_sqrt_(xs) is None
    rl._foreach_maximum_(xs, 1.5)
    rl._foreach_lerp_(xs, [x + 1 for x in xs], 0.5)
    assert [x.tolist() for x in xs] == [[2, 2], [2.5, 2.5, 2.5]]
    rl._foreach_zero_(xs)
    assert all(not x.any() for x in xs)


def test_foreach_gradients_pass_through() -> None:
    xs = [rl.ones(2, requires_grad=True), rl.ones(3, requires_grad=True)]
    sum(y.sum() for y in rl._foreach_exp(rl._foreach_mul(xs, 2))).backward()
    assert xs[0].grad.tolist() == pytest.approx([2 * rl.e**2] * 2)


def test_foreach_refuses_lists_of_other_lengths() -> None:
    with pytest.raises(RuntimeError, match="same number"):
        rl._foreach_add([rl.ones(1)], [rl.ones(1), rl.ones(1)])
    with pytest.raises(RuntimeError, match="at least one"):
        rl._foreach_neg([])


def test_copying_views_share_no_memory() -> None:
    x = rl.randn(4, 6)
    for result in (
        rl.permute_copy(x, (1, 0)),
        rl.expand_copy(x, (2, 4, 6)),
        rl.select_copy(x, 0, 1),
        rl.slice_copy(x, 0, 1, 3),
        *rl.split_copy(x, 2),
        rl.detach_copy(x),
        rl.view_copy(x, (24,)),
    ):
        assert result.is_contiguous() and result.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_copying_views_pass_gradients() -> None:
    x = rl.randn(3, 3, requires_grad=True)
    rl.diagonal_copy(x).sum().backward()
    assert rl.equal(x.grad, rl.eye(3))


def test_settings_are_remembered() -> None:
    rl.use_deterministic_algorithms(True, warn_only=True)
    assert rl.are_deterministic_algorithms_enabled() and rl.get_deterministic_debug_mode() == 1
    rl.set_deterministic_debug_mode("default")
    assert not rl.are_deterministic_algorithms_enabled()
    with pytest.raises(RuntimeError, match="lowest"):
        rl.set_float32_matmul_precision("lowest")


def test_checks_raise_their_class() -> None:
    rl._check(True)
    with pytest.raises(ValueError, match="too many"):
        rl._check_value(False, lambda: "too many")
    with pytest.raises(RuntimeError):
        rl._check_tensor_all(rl.tensor([True, False]))
    with pytest.raises(AssertionError, match="no"):
        rl._assert(False, "no")


def test_fill_diagonal_wraps_in_any_layout() -> None:
    dense, transposed = rl.zeros(9, 2), rl.zeros(2, 9).t()
    assert rl.equal(dense.fill_diagonal_(1, wrap=True), transposed.fill_diagonal_(1, wrap=True))
    assert dense[:, 0].tolist() == [1, 0, 0, 1, 0, 0, 1, 0, 0]


def test_segment_reduce_of_offsets_with_empty_runs() -> None:
    x = rl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    result = rl.segment_reduce(x, "max", offsets=rl.tensor([0, 2, 2, 3]), initial=-1)
    assert result.tolist() == [2, -1, 3]
    result.sum().backward()
    assert x.grad.tolist() == [0, 1, 1]


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool", "bfloat16", "complex64"])
@pytest.mark.parametrize(
    ("shapes", "dim"),
    [([(300, 200), (300, 64), (300, 1)], 1), ([(40, 30, 50), (40, 7, 50)], 1), ([(70000, 1), (70000, 1)], -1)],
)
def test_large_rows_are_joined(shapes: list, dim: int, dtype: str) -> None:
    """Rows written end to end by one kernel hold what one copy per tensor would."""
    parts = [(rl.randn(shape) * 3).to(getattr(rl, dtype)) for shape in shapes]
    joined = rl.cat(parts, dim)
    start = 0
    for part in parts:
        assert rl.equal(joined.narrow(dim, start, part.shape[dim]), part)
        start += part.shape[dim]
    assert start == joined.shape[dim]


@pytest.mark.parametrize("count", [4, 9, 32])
@pytest.mark.parametrize("shape", [(3, 64, 64), (1, 5, 1023), (2, 1, 4097), (70000,)])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "complex64"])
def test_many_large_tensors_are_stacked(count: int, shape: tuple, dtype: str) -> None:
    """Tensors written some at a time, in pieces, hold what one copy per tensor would;
    strided ones and other dims too."""
    parts = [(rl.randn(shape) * 3).to(getattr(rl, dtype)) for _ in range(count)]
    for dim in (0, 1, -1):
        stacked = rl.stack(parts, dim)
        assert all(rl.equal(stacked.select(dim, k), part) for k, part in enumerate(parts))
    transposed = [part.transpose(0, -1) for part in parts]
    assert all(rl.equal(row, part) for row, part in zip(rl.stack(transposed), transposed))
