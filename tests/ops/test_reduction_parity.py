"""Reductions against PyTorch: dims, dtypes, layouts, empties, NaN, gradients, errors;
and against themselves on threads."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import agree, gradients_agree, ours  # noqa: E402

import rushlight as rl  # noqa: E402

pytestmark = pytest.mark.share(2)   # of each test that has several cases

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64")


def sample(dtype: str, *shape: int, seed: int = 0):
    """Small numbers with repetitions, some zeros and both signs where the dtype has them."""
    generator = torch.Generator().manual_seed(seed)
    kind = getattr(torch, dtype)
    if kind.is_complex:
        return torch.randn(*shape, dtype=kind, generator=generator)
    values = torch.randint(-4, 5, shape, generator=generator).double() * 0.75
    return (values != 0) if kind is torch.bool else values.abs().to(kind) if kind is torch.uint8 else values.to(kind)


def layouts(x):
    """The same kind of data, contiguous and not."""
    yield x
    if x.ndim > 1:
        yield x.transpose(0, -1)
        yield x[:, ::2]
        yield x[..., :1].expand(*x.shape[:-1], 5)
    if x.ndim > 2:
        yield x.permute(1, 2, 0)


DIMMED = {
    "sum": lambda m, x, d, k: m.sum(x, d, k),
    "mean": lambda m, x, d, k: m.mean(x, d, k),
    "nansum": lambda m, x, d, k: m.nansum(x, d, k),
    "amax": lambda m, x, d, k: m.amax(x, () if d is None else d, k),
    "amin": lambda m, x, d, k: m.amin(x, () if d is None else d, k),
    "var": lambda m, x, d, k: m.var(x, d, unbiased=False, keepdim=k),
    "std": lambda m, x, d, k: m.std(x, d, correction=1, keepdim=k),
    "var_mean": lambda m, x, d, k: m.var_mean(x, d, keepdim=k),
    "std_mean": lambda m, x, d, k: m.std_mean(x, d, keepdim=k),
    "any": lambda m, x, d, k: m.any(x, d, k),
    "all": lambda m, x, d, k: m.all(x, d, k),
    "norm": lambda m, x, d, k: m.norm(x, 2, d, k),
    "norm1": lambda m, x, d, k: m.linalg.vector_norm(x, 1, d, k),
    "norm3": lambda m, x, d, k: m.linalg.vector_norm(x, 3, d, k),
    "norm0": lambda m, x, d, k: m.linalg.vector_norm(x, 0, d, k),
    "norm_inf": lambda m, x, d, k: m.linalg.vector_norm(x, math.inf, d, k),
    "norm_neg_inf": lambda m, x, d, k: m.linalg.vector_norm(x, -math.inf, d, k),
    "nanmean": lambda m, x, d, k: m.nanmean(x, d, k),
}
ONE_DIM = {
    "max": lambda m, x, d, k: m.max(x) if d is None else m.max(x, d, k),
    "min": lambda m, x, d, k: m.min(x) if d is None else m.min(x, d, k),
    "argmax": lambda m, x, d, k: m.argmax(x, d, k),
    "argmin": lambda m, x, d, k: m.argmin(x, d, k),
    "prod": lambda m, x, d, k: m.prod(x) if d is None else m.prod(x, d, k),
    "aminmax": lambda m, x, d, k: m.aminmax(x, dim=d, keepdim=k),
    "logsumexp": lambda m, x, d, k: m.logsumexp(x, 0 if d is None else d, k),
    "count_nonzero": lambda m, x, d, k: m.count_nonzero(x, d),
}
LOOSE = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 5e-2, "complex64": 2e-5}


@pytest.mark.share(2)
@pytest.mark.parametrize("name", sorted({**DIMMED, **ONE_DIM}))
def test_values_dtypes_and_layouts(name):
    fn = {**DIMMED, **ONE_DIM}[name]
    dims = (None, 0, -1, (0, 2)) if name in DIMMED else (None, 0, -1)
    for dtype in (
        DTYPES
        if name in ("sum", "mean", "max", "amax", "any")
        else ("float32", "bfloat16", "int64", "bool", "complex64")
    ):
        if name == "prod" and "16" in dtype:
            continue   # products of halves overflow on the way there, which we do in float32
        for k, x in enumerate(layouts(sample(dtype, 4, 6, 5))):
            if name in ("argmax", "argmin", "max", "min") and dtype not in (
                "float32",
                "float64",
                "int64",
                "uint8",
                "bfloat16",
                "bool",
            ):
                continue
            for d in dims if k < 3 else dims[:2]:
                keep = bool(k % 2)
                agree(
                    lambda m, t, d=d, keep=keep: fn(m, t, d, keep),
                    x,
                    rtol=LOOSE.get(dtype),
                    what=f"{name} {dtype} layout {k} dim {d}",
                )


@pytest.mark.parametrize("name", sorted({**DIMMED, **ONE_DIM}))
def test_empty_and_scalar_inputs(name):
    fn = {**DIMMED, **ONE_DIM}[name]
    for shape in ((0,), (3, 0), (0, 3), ()):
        for d in (None, 0, -1, 1):
            agree(lambda m, t, d=d: fn(m, t, d, False), torch.zeros(shape), what=f"{name} {shape} dim {d}")


@pytest.mark.parametrize("name", sorted({**DIMMED, **ONE_DIM}))
def test_nan_and_infinity(name):
    fn = {**DIMMED, **ONE_DIM}[name]
    nan, inf = math.nan, math.inf
    x = torch.tensor(
        [
            [1.0, nan, 2.0, nan],
            [inf, 1.0, -inf, 3.0],
            [-inf, -inf, -inf, -inf],
            [inf, 1.0, inf, 0.0],
            [2.0, 2.0, 1.0, 2.0],
        ]
    )
    for d in (None, 0, 1):
        agree(lambda m, t, d=d: fn(m, t, d, False), x, what=f"{name} dim {d}")
        agree(lambda m, t, d=d: fn(m, t, d, False), x.t(), what=f"{name} transposed dim {d}")


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "argmax", "max", "var", "logsumexp", "prod", "any"])
@pytest.mark.parametrize("shape", [(70000,), (3, 40000), (1500, 70), (700, 3, 40), (40, 9, 33)])
def test_sizes_that_are_cut_into_chunks(name, shape):
    fn = {**DIMMED, **ONE_DIM}[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    if name == "prod":
        x = 1 + x * 1e-3
    for d in [None, *range(len(shape))]:
        agree(lambda m, t, d=d: fn(m, t, d, False), x, rtol=1e-10, what=f"{name} {shape} {d}")
    if len(shape) > 2 and name in DIMMED:
        agree(lambda m, t: fn(m, t, (0, 2), False), x, rtol=1e-10)
        agree(lambda m, t: fn(m, t, (0, 1), False), x.permute(2, 0, 1), rtol=1e-10)
        agree(lambda m, t: fn(m, t, None, False), x[:, :, ::2], rtol=1e-10)


def test_float32_sums_stay_accurate():
    x = torch.rand(1 << 20, generator=torch.Generator().manual_seed(2))
    exact = x.double().sum().item()
    for t in (ours(x), ours(x.reshape(1 << 14, 64)), ours(x.reshape(64, 1 << 14))):
        assert abs(t.sum().item() - exact) / exact < 1e-6
        assert abs(t[..., ::2].double().sum().item() - t[..., ::2].sum().item()) / exact < 1e-6
        for d in range(t.ndim):
            column = t.sum(d).double().sum().item()
            assert abs(column - exact) / exact < 1e-6


def test_results_do_not_depend_on_threads():
    x = ours(torch.randn(700, 1100, generator=torch.Generator().manual_seed(3)))
    before = rl.get_num_threads()
    try:
        seen = []
        for threads in (1, 2, 3):
            rl.set_num_threads(threads)
            seen.append(
                [
                    t.tolist()
                    for t in (x.sum(), x.sum(0), x.sum(1), x.t().sum(1), x[:, ::3].sum(), x.var(), x.logsumexp(0))
                ]
            )
    finally:
        rl.set_num_threads(before)
    assert seen[0] == seen[1] == seen[2]


def test_dtype_argument():
    for dtype in ("float64", "int64", "float16", "complex64"):
        for source in ("float32", "int32", "bool"):
            x = sample(source, 3, 4)
            agree(lambda m, t, d=dtype: m.sum(t, dtype=getattr(m, d)), x, what=f"sum {source} as {dtype}")
            agree(lambda m, t, d=dtype: m.sum(t, 1, dtype=getattr(m, d)), x)
            agree(lambda m, t, d=dtype: m.prod(t, 1, dtype=getattr(m, d)), x)
            agree(lambda m, t, d=dtype: m.mean(t, dtype=getattr(m, d)), x, what=f"mean {source} as {dtype}")
    agree(lambda m, t: m.linalg.vector_norm(t, dtype=m.float64), sample("float32", 3, 4))


def test_ways_to_call():
    x = sample("float64", 3, 4)
    for fn in (
        lambda m, t: t.sum(axis=1), lambda m, t: t.sum((0, 1), keepdim=True), lambda m, t: t.max(dim=1).indices,
        lambda m, t: t.max(t * 2), lambda m, t: m.min(t, t.flip(0)), lambda m, t: t.var(False),
        lambda m, t: t.var(0, False, True), lambda m, t: m.std(t, unbiased=False),
        lambda m, t: t.var(dim=1, correction=0),
        lambda m, t: t.norm(), lambda m, t: t.norm(1, 0), lambda m, t: t.norm(p="fro", dim=(0, 1)),
        lambda m, t: t.norm(float("inf")), lambda m, t: m.trace(t), lambda m, t: m.sum(t, ()),
        lambda m, t: m.any(t > 1, dim=()), lambda m, t: m.all(t > 1, dim=(0, 1)),
        lambda m, t: m.count_nonzero(t, (0, 1)), lambda m, t: t.amax(), lambda m, t: t.amax(1),
        lambda m, t: t.argmax(keepdim=True), lambda m, t: t.logsumexp((0, 1)), lambda m, t: tuple(t.max(1)),
        lambda m, t: m.sum(t, dim=1, out=m.empty(3, dtype=m.float64)),
    ):
        agree(fn, x)


ERRORS = {
    "dim out of range": lambda m, t: m.sum(t, 2),
    "repeated dim": lambda m, t: m.sum(t, (0, 0)),
    "repeated negative dim": lambda m, t: m.mean(t, (1, -1)),
    "mean of ints": lambda m, t: m.mean(t.long()),
    "var of ints": lambda m, t: m.var(t.long()),
    "max of complex": lambda m, t: m.max(t.to(m.complex64)),
    "amax of complex": lambda m, t: m.amax(t.to(m.complex64), 0),
    "argmax of complex": lambda m, t: m.argmax(t.to(m.complex64)),
    "unknown keyword": lambda m, t: m.sum(t, dims=1),
    "norm of ints": lambda m, t: m.linalg.vector_norm(t.long()),
    "max out of range": lambda m, t: m.max(t, 5),
}


@pytest.mark.parametrize("case", ERRORS)
def test_refusals(case):
    agree(ERRORS[case], torch.ones(2, 3), what=case)


GRADIENTS = {
    "sum": lambda m, x: (x.sum(), x.sum(1), x.sum((0, 2), True), x.sum(())),
    "mean": lambda m, x: (x.mean(), x.mean(1, True), x.mean((0, -1))),
    "prod": lambda m, x: (x.prod(), x.prod(1), x.prod(-1, True)),
    "prod with zeros": lambda m, x: (m.where(x > 1, x * 0, x).prod(1), m.where(x.abs() < 0.2, x * 0, x).prod()),
    "amax": lambda m, x: (x.amax(1), x.amin((0, 2), True)),
    "amax of equals": lambda m, x: (x.round().amax(1), x.round().max(), x.round().min()),
    "max": lambda m, x: (x.max(), x.min(), x.max(1).values, x.min(-1, True).values),
    "aminmax": lambda m, x: m.aminmax(x, dim=1),
    "var": lambda m, x: (x.var(), x.var(1), x.var((0, 1), keepdim=True), x.std(1), x.std(correction=0)),
    "var_mean": lambda m, x: (*m.var_mean(x, 1), *m.std_mean(x, 0)),
    "norms": lambda m, x: tuple(
        m.linalg.vector_norm(x, p, d) for p in (1, 2, 3, 1.5, 0.5, math.inf) for d in (None, 1)
    ),
    "norm of zeros": lambda m, x: tuple(m.linalg.vector_norm(x * 0, p, 1) for p in (1, 2, 3)),
    "logsumexp": lambda m, x: (x.logsumexp(1), x.logsumexp((0, 2), True)),
    "nansum": lambda m, x: (x.nansum(), x.nansum(1), x.nanmean(0)),
    "trace": lambda m, x: x[0].trace(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    x = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    second = name != "norm of zeros"   # NaN there for p = 2; 0 here
    gradients_agree(GRADIENTS[name], x, second=second, what=name)
    gradients_agree(GRADIENTS[name], x.transpose(0, 1), second=second, what=name)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "norms"])
def test_complex_gradients(name):
    x = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(6), dtype=torch.complex128)
    gradients_agree(GRADIENTS[name], x, second=name in ("sum", "mean"), what=name)


def test_gradients_of_scalars_and_mixed_precision():
    gradients_agree(
        lambda m, x: (x.sum(), x.mean(0), x.max(), x.prod(), x.logsumexp(0)), torch.tensor(1.5, dtype=torch.float64)
    )
    gradients_agree(lambda m, x: x.sum(dtype=m.float64), torch.randn(3), second=False, rtol=1e-6)


def test_meta_tensors():
    x = rl.empty(3, 4, 5, device="meta")
    assert x.sum().device.type == "meta" and x.sum(1).shape == (3, 5) and x.max(1)[1].dtype is rl.int64
    assert x.mean((0, 2), True).shape == (1, 4, 1) and x.var(0).shape == (4, 5)


@pytest.mark.parametrize("scale", [1e-25, 1e-22, 1e-20])
def test_deviations_whose_squares_vanish_are_numbers(scale: float) -> None:
    x = rl.randn(40, 50) * scale
    for result in (x.std(), x.std(0), x.std(1), x.var(1), *rl.std_mean(x, 0)[:1]):
        assert bool((result >= 0).all())


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "complex64"])
def test_areas_under_samples(dtype):
    y = (torch.arange(60) * 37 % 101).reshape(3, 4, 5).to(getattr(torch, dtype))
    for seen in (y, y.transpose(0, 2), y[:, ::2]):
        for dim in (-1, 0, 1):
            for dx in (1, 0.5, 3):
                agree(lambda m, t, d=dim, w=dx: m.trapezoid(t, dim=d, dx=w), seen, rtol=1e-3)
                agree(lambda m, t, d=dim, w=dx: m.cumulative_trapezoid(t, dim=d, dx=w), seen, rtol=1e-3)


def test_areas_under_samples_without_bounds():
    inf, nan = float("inf"), float("nan")
    for values in ([inf, 1.0], [1.0, inf, 2.0], [inf, -inf], [nan, 1.0], [3.0], [1e38, 1e38, 1e38]):
        y = torch.tensor(values)
        agree(lambda m, t: (m.trapezoid(t), m.trapezoid(t, dx=-3), m.cumulative_trapezoid(t)), y)
