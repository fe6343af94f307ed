"""Ops whose sizes elements decide, of few elements: one pass gives what the ops of many do, PyTorch's numbers, and the
same refusals."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.definitions.indexed import masks
from rushlight.definitions.order import histogram

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
          "complex128")
SIZES = ((), (1,), (7,), (4, 4), (2, 3, 5), (3, 0))


def tensors(t, dtype: str, shape: tuple, layout: str):
    """A tensor and a mask of a shape, both laid out in a way, and a source that is longer than the mask has places."""
    count = 1
    for n in shape:
        count *= n
    x = ((t.arange(count) * 7) % 11 - (0 if dtype in ("uint8", "bool") else 5)).to(getattr(t, dtype)).view(shape)
    mask = ((t.arange(count) * 5) % 3 != 1).view(shape)
    source = t.arange(count + 3).to(x.dtype)
    if layout == "turned" and len(shape) > 1:
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    if layout == "gaps" and shape:
        x, mask = t.stack((x, x), -1).select(-1, 0), t.stack((mask, mask), -1).select(-1, 0)
        source = t.stack((source, source), -1).select(-1, 1)
    return x, mask, source


CALLS = {
    "masked_select": lambda t, x, mask, source: t.masked_select(x, mask),
    "masked_scatter": lambda t, x, mask, source: t.masked_scatter(x, mask, source),
    "masked_scatter_": lambda t, x, mask, source: (y := x.clone()).masked_scatter_(mask, source) is y and y,
    "wider": lambda t, x, mask, source: t.masked_scatter(x, t.stack((mask, mask)), t.cat((source, source))),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_masks_give_what_the_oracle_does(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    for shape in SIZES:
        for layout in ("rows", "turned", "gaps"):
            for _ in range(2):
                ours, theirs = (CALLS[name](t, *tensors(t, dtype, shape, layout)) for t in (rl, torch))
                assert (ours.shape, ours.stride()) == (theirs.shape, theirs.stride()), (shape, layout)
                assert ours.tolist() == theirs.tolist(), (shape, layout)


@pytest.mark.parametrize("name", ["masked_select", "masked_scatter", "masked_scatter_"])
def test_few_elements_and_many_give_the_same(name: str, monkeypatch) -> None:
    given = [tensors(rl, dtype, (4, 9), "rows") for dtype in ("float32", "bfloat16", "complex64", "bool")]
    few = [CALLS[name](rl, *g) for g in given]
    monkeypatch.setattr(masks, "FEW", 0)
    rl._C.forget_plans()
    many = [CALLS[name](rl, *g) for g in given]
    rl._C.forget_plans()
    assert all(a.equal(b) for a, b in zip(few, many, strict=True))
    if name == "masked_scatter_":
        assert [t._version for t in few] == [t._version for t in many]


def test_a_source_that_is_written_is_read_as_it_was() -> None:
    for shape in ((3, 4), (70, 80)):
        x = rl.arange(float(shape[0] * shape[1])).view(shape)
        mask = x % 3 != 1
        y = x.clone()
        y.masked_scatter_(mask, y)
        assert y.equal(x.masked_scatter(mask, x))


def test_selected_elements_have_memory_of_their_own() -> None:
    x = rl.arange(16.0).view(4, 4)
    y = x.masked_select(x > 11)
    assert y.untyped_storage().nbytes() == 16 and not y._is_view()
    y.fill_(0)
    assert x[3].tolist() == [12, 13, 14, 15]


def test_a_source_that_is_too_short_changes_nothing() -> None:
    x = rl.zeros(2, 3)
    for source in (rl.ones(2), rl.ones(0)):
        with pytest.raises(RuntimeError, match="no more true mask elements than source"):
            x.masked_scatter_(x == 0, source)
        with pytest.raises(RuntimeError, match="no more true mask elements than source"):
            x.masked_scatter(x == 0, source)
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]] and x._version == 0
    assert x.masked_scatter(x != 0, rl.ones(0)).equal(x)
    with pytest.raises(RuntimeError, match="dtype"):
        x.masked_scatter(x == 0, rl.ones(6, dtype=rl.int32))
    with pytest.raises(RuntimeError, match="BoolTensor"):
        x.masked_select(rl.ones(2, 3, dtype=rl.uint8))


def test_gradients_are_recorded() -> None:
    x, source = rl.ones(2, 3, requires_grad=True), rl.ones(6, requires_grad=True)
    mask = rl.tensor([[True, False, True], [False, True, False]])
    for _ in range(3):
        (x.masked_select(mask).sum() * 2 + x.masked_scatter(mask, source).sum()).backward()
    assert x.grad.tolist() == [[6, 3, 6], [3, 6, 3]] and source.grad.tolist() == [3, 3, 3, 0, 0, 0]


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8"])
def test_bincount(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    for values in ([0], [3, 1, 1, 120], [5] * 9, list(range(100))):
        for least in (0, 4, 300):
            for form in (lambda t: t, lambda t: t.repeat_interleave(2)[::2]):
                ours, theirs = (t.bincount(form(t.tensor(values, dtype=getattr(t, dtype))), minlength=least)
                                for t in (rl, torch))
                assert ours.dtype is rl.int64 and ours.tolist() == theirs.tolist()
                weights = [t.rand(len(values), generator=t.Generator().manual_seed(1)) * 9 for t in (rl, torch)]
                for kind in ("float32", "float64", "float16", "int64"):
                    ours, theirs = (
                        t.bincount(form(t.tensor(values, dtype=getattr(t, dtype))), form(w.to(getattr(t, kind))), least)
                        for t, w in zip((rl, torch), weights, strict=True))
                    assert str(ours.dtype)[-7:] == str(theirs.dtype)[-7:] and ours.tolist() == theirs.tolist()
    if dtype != "uint8":
        with pytest.raises(RuntimeError, match="non-negative"):
            rl.bincount(rl.tensor([1, -1], dtype=getattr(rl, dtype)))


def test_bins_that_are_far_more_than_elements() -> None:
    found = rl.bincount(rl.tensor([1, 70_000]))
    assert found.shape == (70_001,) and found.nonzero().view(-1).tolist() == [1, 70_000]


HISTOGRAMS = [
    ([0.0, 1.0, 2.0, 2.0, -3.5], 4, 0, 0), ([0.0, 1.0, 2.0, 2.0, -3.5], 4, -1, 2), ([5.0, 5.0], 3, 0, 0),
    ([5.0], 1, 5, 5), ([0.1, 0.3, 0.5, 0.7, 0.9, 1.0], 10, 0, 1), ([float("nan"), 1.0, 2.0], 5, 0, 3),
    ([float("inf"), -float("inf"), 1.0], 5, 0, 3), ([-0.0, 0.0], 2, -1, 1), ([k / 7 for k in range(50)], 100, 0, 0),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", range(len(HISTOGRAMS)))
def test_histc(case: int, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    values, *options = HISTOGRAMS[case]
    for form in (lambda t: t, lambda t: t.repeat_interleave(2)[::2], lambda t: t.view(1, -1, 1)):
        for _ in range(2):
            ours, theirs = (t.histc(form(t.tensor(values, dtype=getattr(t, dtype))), *options) for t in (rl, torch))
            assert ours.tolist() == theirs.tolist() and str(ours.dtype)[-7:] == dtype


def test_histograms_of_few_and_many_agree(monkeypatch) -> None:
    rl.manual_seed(0)
    x = rl.randn(900)
    few = [rl.histc(x, 13), rl.histc(x, 7, -1, 0.5), rl.histc(x.double(), 50), rl.bincount((x.abs() * 9).long())]
    monkeypatch.setattr(histogram, "FEW", 0)
    many = [rl.histc(x, 13), rl.histc(x, 7, -1, 0.5), rl.histc(x.double(), 50), rl.bincount((x.abs() * 9).long())]
    assert all(a.equal(b) for a, b in zip(few, many, strict=True))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_histc_of_several_dims(dtype: str) -> None:
    x = ((rl.arange(60) * 7) % 11).to(getattr(rl, dtype))
    assert rl.equal(rl.histc(x.view(3, 4, 5), 11, 0, 11), rl.histc(x, 11, 0, 11))
    assert rl.histc(x.view(5, 12), 11, 0, 11).sum() == 60


def test_histc_refuses() -> None:
    x = rl.tensor([1.0, float("nan")])
    for options, words in (((5,), "not finite"), ((5, 2, 1), "max must be larger"), ((0,), "bins must be > 0")):
        with pytest.raises(RuntimeError, match=words):
            rl.histc(x, *options)
    with pytest.raises(NotImplementedError, match="histc"):
        rl.histc(rl.ones(3, dtype=rl.int64))
    assert rl.histc(rl.empty(0), 3).tolist() == [0, 0, 0]
