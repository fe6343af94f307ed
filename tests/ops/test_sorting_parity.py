"""Sorting, searching and counting against PyTorch."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import agree, gradients_agree, ours  # noqa: E402

import rushlight as rl  # noqa: E402

nan, inf = math.nan, math.inf


def sample(dtype: str, *shape: int):
    values = torch.randint(0, 7, shape, generator=torch.Generator().manual_seed(0))
    return values.to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_sort_is_stable(dtype):
    for shape, dim in (((40,), 0), ((90,), 0), ((5, 9), -1), ((5, 9), 0), ((3, 4, 5), 1), ((3, 70), 1)):
        x = sample(dtype, *shape)
        for descending in (False, True):
            agree(
                lambda m, t, d=dim, r=descending: m.sort(t, dim=d, descending=r, stable=True),
                x,
                what=f"sort {dtype} {shape} {dim} {descending}",
            )
            agree(lambda m, t, d=dim, r=descending: m.argsort(t, dim=d, descending=r, stable=True), x)
    agree(lambda m, t: m.sort(t.t(), stable=True, dim=0), sample(dtype, 5, 9))


def test_nan_sorts_last():
    x = torch.tensor([[3.0, nan, -inf, inf], [nan, nan, 1.0, -0.0]])
    agree(
        lambda m, t: (
            m.sort(t, stable=True),
            m.sort(t, descending=True, stable=True),
            m.msort(t),
            t.topk(3).values,
            t.topk(2, largest=False).values,
        ),
        x,
    )


def test_topk():
    x = torch.randperm(60, generator=torch.Generator().manual_seed(1)).reshape(3, 20).double()
    for k in (0, 1, 5, 20):
        agree(
            lambda m, t, k=k: (
                t.topk(k),
                t.topk(k, largest=False),
                t.topk(min(k, 3), dim=0),
                m.topk(t, k, -1, True, True),
            ),
            x,
        )
    agree(lambda m, t: t.topk(21), x)
    agree(lambda m, t: t.topk(1), torch.tensor(3.0))


def test_long_topk_and_nan():
    x = torch.randperm(600, generator=torch.Generator().manual_seed(1)).reshape(3, 200).double()
    x[0, 5] = nan
    for k in (1, 7, 200):
        agree(lambda m, t, k=k: (t.topk(k), t.topk(k, largest=False), m.sort(t, descending=True, stable=True)), x)


def test_empty_and_scalar():
    for shape in ((), (0,), (3, 0)):
        agree(lambda m, t: (m.sort(t), m.argsort(t), m.msort(t) if t.ndim else t), torch.zeros(shape))


def test_gradients():
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    gradients_agree(
        lambda m, t: (t.sort(1)[0], t.sort(0, descending=True).values, t.topk(2).values, m.msort(t)), x, second=False
    )
    gradients_agree(lambda m, t: (t * t).sort(1)[0], x)


def test_unique():
    for dtype in ("float32", "int64", "uint8", "bool", "bfloat16"):
        x = sample(dtype, 4, 6)
        agree(
            lambda m, t: (
                m.unique(t),
                m.unique(t, return_inverse=True),
                m.unique(t, return_inverse=True, return_counts=True),
            ),
            x,
            what=dtype,
        )
        agree(
            lambda m, t: (m.unique_consecutive(t), m.unique_consecutive(t, return_inverse=True, return_counts=True)),
            x,
            what=dtype,
        )
    x = torch.tensor([[1, 2], [0, 5], [1, 2], [1, 2]])
    agree(
        lambda m, t: (
            m.unique(t, dim=0),
            m.unique(t, return_inverse=True, return_counts=True, dim=0),
            m.unique(t, dim=1),
        ),
        x,
    )
    agree(lambda m, t: m.unique_consecutive(t, return_inverse=True, return_counts=True, dim=0), x)
    agree(lambda m, t: (m.unique(t), t.unique(return_counts=True)[1]), torch.tensor([nan, 1.0, nan, 1.0]))
    agree(lambda m, t: (m.unique(t), m.unique_consecutive(t)), torch.tensor([]))


def test_searchsorted_and_bucketize():
    edges, values = torch.tensor([1.0, 3.0, 3.0, 7.0]), torch.tensor([[0.0, 1.0, 3.0], [7.0, 8.0, nan]])
    pairs = (edges, values)
    agree(
        lambda m, e, v: (
            m.searchsorted(e, v),
            m.searchsorted(e, v, right=True),
            m.searchsorted(e, v, side="right", out_int32=True),
        ),
        *pairs,
    )
    agree(
        lambda m, e, v: (m.bucketize(v, e), m.bucketize(v, e, right=True), m.searchsorted(e, 3.0), m.bucketize(2.5, e)),
        *pairs,
    )
    agree(
        lambda m, e, v: m.searchsorted(e, v),
        torch.tensor([[1.0, 2.0], [5.0, 6.0]]),
        torch.tensor([[1.5, 0.0, 9.0], [5.5, 5.0, 7.0]]),
    )
    agree(
        lambda m, e, v: m.searchsorted(e, v, sorter=m.argsort(e)),
        torch.tensor([7.0, 1.0, 3.0]),
        torch.tensor([2.0, 8.0]),
    )
    agree(lambda m, e, v: m.searchsorted(e, v.long()), *pairs)
    agree(lambda m, e, v: m.searchsorted(e, v, side="middle"), *pairs)
    agree(lambda m, e, v: m.bucketize(e, v), *pairs)


def test_bincount_and_histc():
    x = torch.tensor([0, 4, 1, 1, 4, 4])
    agree(
        lambda m, t: (
            m.bincount(t),
            t.bincount(minlength=8),
            m.bincount(t, t.double() * 0.5),
            m.bincount(t, t.float()),
            m.bincount(t[:0]),
        ),
        x,
    )
    agree(lambda m, t: m.bincount(t - 1), x)
    agree(lambda m, t: m.bincount(t.float()), x)
    agree(lambda m, t: m.bincount(t, minlength=-1), x)
    y = torch.tensor([0.0, 1.0, 2.0, 3.0, 2.5, 2.5, -4.0])
    agree(
        lambda m, t: (
            m.histc(t),
            m.histc(t, 4, 0, 3),
            t.histc(5),
            m.histc(t.double(), bins=3, min=-1, max=1),
            m.histc(t * 0),
        ),
        y,
    )
    agree(lambda m, t: m.histc(t, 4, 3, 1), y)
    agree(lambda m, t: m.histc(t, 0), y)


def test_refusals():
    x = torch.ones(3, 4)
    agree(lambda m, t: t.sort(2), x)
    agree(lambda m, t: t.to(m.complex64).sort(), x)
    agree(lambda m, t: t.topk(9), x)
    with pytest.raises(NotImplementedError, match="meta"):
        rl.empty(3, device="meta").nonzero()
    assert rl.empty(3, 4, device="meta").sort(0)[1].dtype is rl.int64
    assert ours(x).sort().values.shape == (3, 4)


def distinct(*shape: int):
    count = math.prod(shape)
    return torch.randperm(count, generator=torch.Generator().manual_seed(4)).double().reshape(shape) * 0.5


def test_median_and_kthvalue():
    for shape in ((7,), (8,), (4, 6), (3, 5, 2)):
        x = distinct(*shape)
        agree(lambda m, t: (m.median(t), t.median(0), m.median(t, -1, True), m.nanmedian(t), t.nanmedian(0)), x)
        agree(lambda m, t: (t.kthvalue(2), m.kthvalue(t, 1, 0, True)), x)
        agree(lambda m, t: (m.median(t), t.median(0).values), x.long())
    x = torch.tensor([[1.0, nan, 3.0, 2.0], [nan, nan, 5.0, 4.0], [4.0, 3.0, 2.0, 1.0]])
    agree(lambda m, t: (m.median(t), t.median(1), m.nanmedian(t), t.nanmedian(1)), x)
    agree(lambda m, t: (m.median(t), t.median(0), t.kthvalue(1)), torch.tensor(2.0))
    agree(lambda m, t: t.kthvalue(9), x)
    agree(lambda m, t: t.median(0), torch.empty(0, 3))
    gradients_agree(
        lambda m, t: (t.median(), t.median(1)[0], t.nanmedian(0)[0], t.kthvalue(2)[0]), distinct(4, 6), second=False
    )


def test_mode():
    x = torch.tensor([[3, 1, 1, 3, 2], [5, 5, 5, 0, 0], [4, 3, 2, 1, 0]])
    agree(lambda m, t: (t.mode(), t.mode(0).values, m.mode(t, 1, True)), x)
    agree(lambda m, t: t.mode(), x.double())


def test_quantile():
    x = distinct(4, 6)
    q = torch.tensor([0.0, 0.1, 0.5, 0.77, 1.0], dtype=torch.float64)
    for how in ("linear", "lower", "higher", "midpoint", "nearest"):
        agree(
            lambda m, t, w, how=how: (
                m.quantile(t, 0.3, interpolation=how),
                t.quantile(w, 1, interpolation=how),
                m.quantile(t, w, 0, True, interpolation=how),
            ),
            x,
            q,
            rtol=1e-12,
            what=how,
        )
    agree(
        lambda m, t, w: (t.quantile(w), t.nanquantile(w, 1), m.nanquantile(t, 0.5)),
        torch.tensor([[1.0, nan, 3.0], [5.0, 2.0, 4.0]], dtype=torch.float64),
        q,
    )
    agree(lambda m, t: t.quantile(1.5), x)
    agree(lambda m, t: t.long().quantile(0.5), x)
    gradients_agree(lambda m, t: (t.quantile(0.3, 1), t.nanquantile(0.6)), x, second=False)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
@pytest.mark.parametrize("repeated", [False, True])
def test_selected_elements_are_those_of_a_stable_sort(dtype, repeated):
    """Rows long enough that one element is selected: values as a sort has them, positions too, NaN last."""
    x = rl.randn(5, 200, dtype=rl.float64)
    x = (x * 3).round() if repeated or dtype == "int64" else x
    x = x.to(getattr(rl, dtype))
    for holes in (False, True):
        if holes and dtype == "int64":
            continue
        if holes:
            x = x.masked_fill(rl.rand(5, 200) < 0.1, float("nan"))
        for dim, k in ((1, 80), (1, 200), (0, 3), (1, 1)):
            values, positions = x.kthvalue(k, dim)
            ordered, order = x.sort(stable=True, dim=dim)
            assert rl.equal(positions, order.select(dim, k - 1))
            assert rl.allclose(values, ordered.select(dim, k - 1), equal_nan=True)
        count = 200 - x.isnan().sum(1)
        middle = (count - 1).div(2, rounding_mode="floor").unsqueeze(1)
        assert rl.equal(x.nanmedian(1)[0], x.sort(1)[0].gather(1, middle).squeeze(1))
        assert x.median().isnan().item() == holes
        assert x.median(1)[0].isnan().tolist() == (count < 200).tolist()


@pytest.mark.parametrize("shape", [(0,), (1,), (511,), (512,), (513,), (16385,), (300, 70), (5, 6, 7)])
def test_positions_of_true_elements_around_blocks(shape):
    for share in (0.0, 0.01, 0.5, 1.0):
        mask = rl.rand(*shape) < share
        expected = (
            [list(p) for p in itertools.product(*map(range, shape)) if mask[p].item()] if mask.numel() < 1000 else None
        )
        found = mask.nonzero()
        assert found.shape == (int(mask.sum()), len(shape))
        if expected is not None:
            assert found.tolist() == expected
        elif len(shape) == 1:
            assert rl.equal(found.reshape(-1), rl.arange(shape[0])[mask])
        assert mask[tuple(found.unbind(1))].all()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("length", [0, 1, 2, 4, 5, 6, 9, 130])
def test_runs_of_equal_neighbours(dtype, length):
    code, plain = getattr(rl, dtype), [(k * k // 7) % 3 if k % 5 else 1 for k in range(length)]
    found, inverse, counts = rl.unique_consecutive(
        rl.tensor(plain, dtype=code), return_inverse=True, return_counts=True
    )
    values = rl.tensor(plain, dtype=code).tolist()
    starts = [k for k in range(length) if k == 0 or values[k] != values[k - 1]]
    assert found.dtype is code and found.tolist() == [values[k] for k in starts]
    assert counts.tolist() == [b - a for a, b in zip(starts, [*starts[1:], length][: len(starts)], strict=True)]
    assert found[inverse].tolist() == values
    assert rl.unique(rl.tensor(plain, dtype=code)).tolist() == sorted(set(values))


def test_runs_of_zeros_and_nans():
    nan = float("nan")
    found, counts = rl.unique_consecutive(rl.tensor([-0.0, 0.0, nan, nan, 1, 1]), return_counts=True)
    assert str(found.tolist()) == "[-0.0, nan, nan, 1.0]" and counts.tolist() == [2, 1, 1, 2]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8"])
@pytest.mark.parametrize("other", ["float32", "int64", "float16"])
def test_elements_among_few_and_among_many(dtype, other):
    for shape in ((), (7,), (3, 50), (30, 300), (0,)):
        for count in (0, 1, 5, 80, 120, 700):
            x = (torch.arange(math.prod(shape)) * 79 % 1009).reshape(shape).to(getattr(torch, dtype))
            tests = (torch.arange(count) * 31 % 577).to(getattr(torch, other))
            for invert in (False, True):
                agree(lambda m, x, t, i=invert: m.isin(x, t, invert=i), x, tests, what=f"{shape} {count} {invert}")
    turned, among = torch.arange(12.0).reshape(3, 4).t(), torch.tensor([[3, nan], [5, 0]])
    agree(lambda m, x, t: (m.isin(x, t), m.isin(t, x, invert=True)), turned, among)


def test_elements_among_others_of_each_example():
    x, tests = rl.arange(24).reshape(2, 3, 4), rl.tensor([[0, 5, 23], [1, 12, 13]])
    for invert in (False, True):
        each = rl.stack([rl.isin(a, b, invert=invert) for a, b in zip(x, tests, strict=True)])
        assert rl.func.vmap(lambda a, b, i=invert: rl.isin(a, b, invert=i))(x, tests).equal(each)
        same = rl.func.vmap(lambda a, i=invert: rl.isin(a, tests, invert=i))(x)
        assert same.equal(rl.isin(x, tests, invert=invert))
