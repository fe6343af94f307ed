"""Sorting and selecting along long dims, copies that turn rows into columns, and checks of computed places."""

from __future__ import annotations

import math

import pytest

import rushlight as rl

pytestmark = pytest.mark.share(2)   # of each test that has several cases

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64")


def repeated(dtype: str, *shape: int) -> rl.Tensor:
    """Numbers with many repetitions."""
    rl.manual_seed(3)
    low = 0 if dtype == "uint8" else -20
    return rl.randint(low, 20, shape).to(getattr(rl, dtype))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_is_stable_in_both_directions(dtype: str, descending: bool) -> None:
    x = repeated(dtype, 1000)
    values, indices = rl.sort(x, descending=descending)
    listed = x.tolist()
    expected = sorted(range(1000), key=lambda k: (-listed[k] if descending else listed[k], k))
    assert indices.tolist() == expected
    assert values.tolist() == [listed[k] for k in expected]


def test_sort_of_booleans_keeps_the_order_of_equals() -> None:
    x = repeated("int32", 300) > 3
    listed = x.tolist()
    assert rl.sort(x)[1].tolist() == sorted(range(300), key=lambda k: (listed[k], k))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_nan_is_the_largest_number_and_infinities_are_in_place(dtype: str) -> None:
    x = rl.zeros(200, dtype=getattr(rl, dtype))
    x[10], x[50], x[90], x[150] = math.nan, math.inf, -math.inf, math.nan
    values, indices = rl.sort(x)
    assert indices.tolist()[-3:] == [50, 10, 150] and indices[0].item() == 90
    assert all(math.isnan(v) for v in values.tolist()[-2:])
    values, indices = rl.sort(x, descending=True)
    assert indices.tolist()[:3] == [10, 150, 50] and indices[-1].item() == 90
    assert rl.topk(x, 3)[1].tolist() == [10, 150, 50]
    assert rl.topk(x, 1, largest=False)[1].tolist() == [90]


def test_zeros_of_both_signs_are_equal_and_keep_their_sign() -> None:
    x = rl.tensor([0.0, -0.0] * 100)
    values, indices = rl.sort(x)
    assert indices.tolist() == list(range(200))
    assert [math.copysign(1, v) for v in values.tolist()[:4]] == [1, -1, 1, -1]


def test_full_range_of_integers() -> None:
    for dtype in (rl.int8, rl.int16, rl.int32, rl.int64):
        info = rl.iinfo(dtype)
        x = rl.tensor([info.max, 0, info.min, -1, 1] * 20, dtype=dtype)
        assert rl.sort(x)[0].tolist() == sorted(x.tolist())


@pytest.mark.parametrize(
    "shape, dim", [((3, 100, 5), 1), ((100, 4), 0), ((2, 3, 130), 2), ((0, 100), 1), ((100, 0), 0)]
)
def test_sort_along_any_dim_of_any_layout(shape: tuple[int, ...], dim: int) -> None:
    x = rl.randn(shape[::-1]).permute(*reversed(range(len(shape))))
    values, indices = x.sort(dim)
    assert (values.gather(dim, rl.zeros_like(indices).narrow(dim, 0, min(1, shape[dim]))) <= values).all()
    assert rl.equal(x.gather(dim, indices), values)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "int8"])
@pytest.mark.parametrize(
    "n, k", [(100, 1), (1000, 10), (1000, 499), (1000, 700), (1000, 1000), (100_000, 5), (100_000, 9000)]
)
def test_topk_names_the_first_of_equals(dtype: str, n: int, k: int) -> None:
    x = repeated(dtype, n)
    for largest in (True, False):
        values, indices = rl.topk(x, k, largest=largest)
        want = rl.sort(x, descending=largest)
        assert rl.equal(values, want[0][:k]) and rl.equal(indices, want[1][:k])


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
def test_rows_held_near_at_any_stride(dtype: str) -> None:
    """Dims of up to some hundred elements, whole and the first few of them, at lengths where vectors or kernels end."""
    for n in (1, 3, 15, 16, 17, 63, 65, 96, 97, 200):
        x = repeated(dtype, 2, n, 3)
        if dtype.startswith(("float", "bfloat")):
            x[0, ::4] = math.nan
            x[1, 1::5, 1] = -math.inf
        elif dtype != "bool":
            x[:, ::6] = rl.iinfo(x.dtype).max
            x[:, 1::7] = rl.iinfo(x.dtype).min
        for descending in (False, True):
            values, indices = x.sort(1, descending)
            for row, column in ((0, 0), (1, 1), (0, 2)):
                listed = [(math.inf, 1) if k != k else (float(k), 0) for k in x[row, :, column].tolist()]
                order = sorted(range(n), key=lambda k: ((-listed[k][0], -listed[k][1]) if descending else listed[k], k))
                assert indices[row, :, column].tolist() == order
            assert rl.equal(values.nan_to_num(99), x.gather(1, indices).nan_to_num(99))
            for k in {0, 1, min(5, n), min(12, n), n // 4, n}:
                first = x.topk(k, 1, descending)
                assert rl.equal(first[1], indices[:, :k])
                assert rl.equal(first[0].nan_to_num(99), values[:, :k].nan_to_num(99))


def test_topk_of_rows_whose_elements_are_all_equal() -> None:
    x = rl.ones(2, 70_000)
    values, indices = x.topk(3)
    assert values.tolist() == [[1, 1, 1]] * 2 and indices.tolist() == [[0, 1, 2]] * 2


def test_gradients_pass_through_long_sorts() -> None:
    x = rl.randn(3, 500, requires_grad=True)
    weights = rl.arange(500.0)
    (x.sort(1)[0] * weights).sum().backward()
    assert rl.equal(x.grad, x.argsort(1).argsort(1).to(rl.float32))


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    x = repeated("float32", 200_000)
    threads, result = rl.get_num_threads(), []
    for count in (1, 2):
        rl.set_num_threads(count)
        result.append((*x.sort(), *x.topk(50), x.cumsum(0)))
    rl.set_num_threads(threads)
    assert all(rl.equal(a, b) for a, b in zip(*result, strict=True))


def test_long_products_stay_zero_after_a_zero() -> None:
    x = rl.full((400_000,), 1.1)
    x[5] = 0
    assert not x.cumprod(0)[5:].any()


# --- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(
    "shape, order",
    [
        ((70, 131), (1, 0)),
        ((64, 64), (1, 0)),
        *[((300, n, k), (0, 2, 1)) for n, k in ((8, 64), (64, 8), (12, 20), (4, 4), (2, 2), (8, 5), (5, 8), (6, 40))],
        ((3, 50, 60), (0, 2, 1)),
        ((40, 3, 50), (2, 1, 0)),
        ((2, 9, 17, 40), (0, 2, 3, 1)),
        ((5, 6, 20, 30), (3, 2, 1, 0)),
    ],
)
def test_permuted_copies_are_dense_and_equal(dtype: str, shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    x = rl.arange(math.prod(shape)).reshape(shape).remainder(113).to(getattr(rl, dtype))
    result = x.permute(order).contiguous()
    assert result.is_contiguous() and result.data_ptr() != x.data_ptr()
    back = [order.index(d) for d in range(len(order))]
    assert rl.equal(result.permute(back), x)


def test_channels_last_copy_keeps_the_elements() -> None:
    x = rl.randn(2, 20, 30, 30)
    result = x.contiguous(memory_format=rl.channels_last)
    assert result.stride() == (18000, 1, 600, 20) and rl.equal(result, x)


# --- checks of computed places ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0, 4095, 4096, 9999])
def test_one_bad_index_among_many_is_found(bad: int) -> None:
    x, index = rl.randn(10_000), rl.arange(10_000)
    index[bad] = 10_000
    with pytest.raises((RuntimeError, IndexError), match="10000"):
        x.gather(0, index)
    with pytest.raises(IndexError, match="10000"):
        x.index_select(0, index)
    with pytest.raises(RuntimeError, match="10000"):
        rl.zeros(10_000).scatter_add_(0, index, x)


def test_scatter_add_with_repeated_index_adds_rows() -> None:
    rl.manual_seed(1)
    rows, index = rl.randn(500, 300), rl.randint(0, 7, (500, 1))
    result = rl.zeros(7, 300).scatter_add(0, index.expand(500, 300), rows)
    assert rl.allclose(result, rl.zeros(7, 300).index_add(0, index.squeeze(1), rows), atol=1e-5)


@pytest.mark.parametrize("width", [64, 65, 200, 1300])
def test_rows_added_anywhere_are_the_same_on_any_number_of_threads(width: int) -> None:
    """Threads share the columns, so that every element adds its rows in order."""
    rl.manual_seed(2)
    rows, index = rl.randn(3000, width), rl.randint(0, 50, (3000,))
    threads, results = rl.get_num_threads(), []
    for count in (1, 2, 3):
        rl.set_num_threads(count)
        added = rl.zeros(50, width).index_add(0, index, rows)
        written = rl.zeros(50, width).index_copy(0, index, rows)
        results.append((added, written, rl.zeros(50, width).scatter_add(0, index[:, None].expand(3000, width), rows)))
    rl.set_num_threads(threads)
    assert all(rl.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))
    wide = rl.nn.functional.one_hot(index, 50).to(rl.float64).t() @ rows.double()
    assert rl.allclose(results[0][0].double(), wide, atol=1e-4)
    last = {int(row): k for k, row in enumerate(index)}
    assert all(rl.equal(results[0][1][row], rows[k]) for row, k in last.items())
