"""Softmax, norms and losses against PyTorch: values, first and second gradients, options, bad input."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
from parity import agree, gradients_agree  # noqa: E402

import rushlight as rl  # noqa: E402

pytestmark = pytest.mark.share(2)   # of each test that has several cases


def sample(*shape: int, dtype: str = "float64", seed: int = 0, scale: float = 1.0) -> Any:
    g = torch.Generator().manual_seed(seed + sum(shape) * 7 + len(shape))
    return (torch.randn(shape, generator=g, dtype=torch.float64) * scale).to(getattr(torch, dtype))


LAST: dict[str, float] = {"float32": 3e-6, "float64": 1e-12, "bfloat16": 1e-2, "float16": 2e-3}
SOFT: dict[str, Callable] = {
    "softmax": lambda m, x, d, **k: m.softmax(x, d, **k),
    "log_softmax": lambda m, x, d, **k: m.log_softmax(x, d, **k),
    "softmin": lambda m, x, d, **k: m.nn.functional.softmin(x, d, **k),
}


@pytest.mark.parametrize("name", SOFT)
def test_soft_functions_along_every_dim(name: str) -> None:
    fn = SOFT[name]
    for shape in ((3, 4, 5), (4,), (2, 7), (1, 1), (3, 130), ()):
        for dim in range(-max(len(shape), 1), max(len(shape), 1)):
            agree(lambda m, x, dim=dim: fn(m, x, dim), sample(*shape), what=f"{shape} {dim}")
            agree(lambda m, x, dim=dim: fn(m, x, dim), sample(*shape, dtype="float32"), what=f"{shape} {dim}")
    gradients_agree(lambda m, x: fn(m, x, -1), sample(3, 4))
    gradients_agree(lambda m, x: fn(m, x, 0), sample(3, 4))
    gradients_agree(lambda m, x: fn(m, x, 1), sample(2, 3, 4).transpose(1, 2))
    gradients_agree(lambda m, x: fn(m, x, 0), sample())


@pytest.mark.parametrize("name", SOFT)
def test_soft_functions_of_far_and_infinite_scores(name: str) -> None:
    x = torch.tensor([[0.0, -50, -87, -88, -100, -200, -1e30, 3], [0, float("-inf")] * 4, [float("inf"), 1] * 4,
                      [float("-inf")] * 8, [float("nan"), 1] * 4, [1e30, -1e30] * 4])
    for dtype in (torch.float32, torch.float64):
        agree(lambda m, x: SOFT[name](m, x, -1), x.to(dtype), rtol=3e-6)
    shares = rl.tensor([[0.0, -88, -95, -100, -103, -104.5, -200] + [-1e4] * 40]).softmax(-1)[0]
    expected = [1.0, 6.054601895e-39, 5.5211e-42, 3.783506e-44, 1.4e-45, 0.0, 0.0]
    assert shares[:7].tolist() == pytest.approx(expected, rel=1e-3, abs=7.1e-46), "small shares are not lost"


@pytest.mark.parametrize("name", SOFT)
def test_soft_functions_with_dtypes_and_layouts(name: str) -> None:
    fn = SOFT[name]
    x = sample(5, 6)
    for dtype in ("float16", "bfloat16", "float32"):
        agree(lambda m, x: fn(m, x, 1), x.to(getattr(torch, dtype)), rtol=LAST[dtype])
        agree(lambda m, x: fn(m, x, 0), x.to(getattr(torch, dtype)), rtol=LAST[dtype])
        agree(lambda m, x, dtype=dtype: fn(m, x, 1, dtype=getattr(m, dtype)), x, rtol=LAST[dtype])
        agree(lambda m, x: fn(m, x, 1, dtype=m.float64), x.to(getattr(torch, dtype)), rtol=1e-6)
    agree(lambda m, x: fn(m, x, 0, dtype=m.float32), (x * 3).to(torch.int32), rtol=3e-6)
    gradients_agree(lambda m, x: fn(m, x, 1, dtype=m.float64), x.to(torch.float32), second=False, rtol=1e-6)
    for y in (x.t(), x[:, ::2], x[1:, 1:], x[:, :1].expand(5, 6), torch.cat([x, x])[::2]):
        agree(lambda m, x: fn(m, x, -1), y)
        agree(lambda m, x: fn(m, x, 0), y)
        gradients_agree(lambda m, x: fn(m, x, -1), y, second=False)
    for shape in ((0, 4), (4, 0), (0,), (2, 0, 3)):
        agree(lambda m, x: fn(m, x, 0), torch.zeros(shape, dtype=torch.float64))
        agree(lambda m, x: fn(m, x, -1), torch.zeros(shape, dtype=torch.float64))
    extreme = torch.tensor(
        [
            [1e30, -1e30, 0.0],
            [float("inf"), 1.0, 2.0],
            [float("-inf"), 0.0, 1.0],
            [float("-inf")] * 3,
            [float("nan"), 0.0, 1.0],
            [1000.0, 1001.0, 999.0],
        ]
    )
    agree(lambda m, x: fn(m, x, 1), extreme)
    agree(lambda m, x: fn(m, x, 0), extreme)
    agree(lambda m, x: fn(m, x, 1), sample(3, 5000, dtype="float32", scale=30))
    agree(lambda m, x: fn(m, x, 2), sample(3, 4))
    agree(lambda m, x: fn(m, x, 0), torch.ones(3, dtype=torch.int64))
    if name != "softmin":
        agree(lambda m, x: fn(m, x, "a"), sample(3, 4))
        agree(lambda m, x, o: getattr(m, name)(x, 1, out=o), sample(3, 4), torch.zeros(3, 4, dtype=torch.float64))


def layer(m: Any, x: Any, shape: Any, *rest: Any, **options: Any) -> Any:
    return m.nn.functional.layer_norm(x, shape, *rest, **options)


def rms(m: Any, x: Any, shape: Any, *rest: Any, **options: Any) -> Any:
    return m.nn.functional.rms_norm(x, shape, *rest, **options)


@pytest.mark.parametrize(
    "shape,normal", [((3, 4), (4,)), ((2, 3, 4), (3, 4)), ((2, 3, 4), (4,)), ((4,), (4,)), ((2, 130), (130,))]
)
def test_norms(shape: tuple, normal: tuple) -> None:
    x, w, b = sample(*shape), sample(*normal, seed=1) + 1, sample(*normal, seed=2)
    agree(lambda m, x: layer(m, x, normal), x)
    agree(lambda m, x, w, b: layer(m, x, normal, w, b), x, w, b)
    agree(lambda m, x, b: layer(m, x, list(normal), None, b, eps=0.1), x, b)
    agree(lambda m, x, w: layer(m, x, normal, w), x, w)
    agree(lambda m, x: rms(m, x, normal), x)
    agree(lambda m, x, w: rms(m, x, normal, w), x, w)
    agree(lambda m, x, w: rms(m, x, normal, w, eps=0.1), x, w)
    second = x.numel() < 100 and x.shape[-1] > 1
    gradients_agree(lambda m, x, w, b: layer(m, x, normal, w, b), x, w, b, second=second, rtol=1e-8)
    gradients_agree(lambda m, x: layer(m, x, normal), x, second=second, rtol=1e-8)
    gradients_agree(lambda m, x, b: layer(m, x, normal, None, b), x, b, second=False, rtol=1e-8)
    gradients_agree(lambda m, x, w: rms(m, x, normal, w, eps=1e-3), x, w, second=second, rtol=1e-8)
    gradients_agree(lambda m, x: rms(m, x, normal), x, second=second, rtol=1e-8)


def test_norms_of_layouts_dtypes_and_nothing() -> None:
    x, w, b = sample(4, 6), sample(6, seed=1), sample(6, seed=2)
    for y in (x.t().contiguous().t(), torch.cat([x, x], 1)[:, ::2], torch.cat([x, x])[::2], x[:1].expand(4, 6)):
        agree(lambda m, x, w, b: layer(m, x, (6,), w, b), y, w, b)
        gradients_agree(lambda m, x, w, b: layer(m, x, (6,), w, b), y, w, b, second=False)
        gradients_agree(lambda m, x, w: rms(m, x, (6,), w), y, w, second=False)
    agree(lambda m, x, w, b: layer(m, x, (6,), w, b), x, w.repeat(2)[::2], b.repeat(2)[::2])
    for dtype in ("float32", "bfloat16", "float16"):
        parts = [t.to(getattr(torch, dtype)) for t in (x, w, b)]
        agree(lambda m, x, w, b: layer(m, x, (6,), w, b), *parts, rtol=LAST[dtype] * 2, what=dtype)
        agree(lambda m, x, w, b: rms(m, x, (6,), w), *parts, rtol=LAST[dtype] * 2, what=dtype)
    for shape in ((0, 6), (2, 0, 6)):
        agree(lambda m, x, w, b: layer(m, x, (6,), w, b), torch.zeros(shape, dtype=torch.float64), w, b)
        gradients_agree(
            lambda m, x, w, b: layer(m, x, (6,), w, b), torch.zeros(shape, dtype=torch.float64), w, b, second=False
        )
    agree(lambda m, x: m.native_layer_norm(x, (6,), None, None, 1e-5), x)
    for bad in (lambda m, x, w: layer(m, x, (5,)), lambda m, x, w: layer(m, x, ()),
                lambda m, x, w: layer(m, x, (6,), w[:5]), lambda m, x, w: layer(m, x, (2, 4, 6)),
                lambda m, x, w: rms(m, x, (5,)), lambda m, x, w: rms(m, x, (6,), w[:5]), lambda m, x, w: layer(m, x),
                lambda m, x, w: layer(m, x.to(m.int64), (6,))):
        agree(bad, x, w)


ELEMENT: dict[str, Callable] = {
    "mse_loss": lambda F, x, y, **k: F.mse_loss(x, y, **k),
    "l1_loss": lambda F, x, y, **k: F.l1_loss(x, y, **k),
    "smooth_l1_loss": lambda F, x, y, **k: F.smooth_l1_loss(x, y, **k),
    "smooth_l1_loss_beta": lambda F, x, y, **k: F.smooth_l1_loss(x, y, beta=0.4, **k),
    "smooth_l1_loss_zero": lambda F, x, y, **k: F.smooth_l1_loss(x, y, beta=0.0, **k),
    "huber_loss": lambda F, x, y, **k: F.huber_loss(x, y, delta=0.7, **k),
    "soft_margin_loss": lambda F, x, y, **k: F.soft_margin_loss(x, y.sign(), **k),
    "kl_div": lambda F, x, y, **k: F.kl_div(x, y.abs(), **k),
    "kl_div_log": lambda F, x, y, **k: F.kl_div(x, y, log_target=True, **k),
    "binary_cross_entropy": lambda F, x, y, **k: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), **k),
    "binary_cross_entropy_with_logits": lambda F, x, y, **k: F.binary_cross_entropy_with_logits(x, y.sigmoid(), **k),
}


@pytest.mark.parametrize("name", ELEMENT)
def test_element_losses(name: str) -> None:
    fn, x, y = ELEMENT[name], sample(3, 4), sample(3, 4, seed=5)
    for reduction in ("mean", "sum", "none", *(("batchmean",) if "kl" in name else ())):
        agree(lambda m, x, y, r=reduction: fn(m.nn.functional, x, y, reduction=r), x, y, rtol=1e-11)
        fixed = "soft_margin" in name   # PyTorch has no gradient for its target
        gradients_agree(
            lambda m, x, y, r=reduction: fn(m.nn.functional, x, y.detach() if fixed else y, reduction=r),
            x,
            y,
            what=reduction,
        )
    agree(lambda m, x, y: fn(m.nn.functional, x.t()[1:], y.t()[1:]), x, y, rtol=1e-11)
    agree(lambda m, x, y: fn(m.nn.functional, x, y, reduction="nonsense"), x, y)
    for dtype in ("float32", "bfloat16", "float16"):
        agree(
            lambda m, x, y: fn(m.nn.functional, x, y),
            x.to(getattr(torch, dtype)),
            y.to(getattr(torch, dtype)),
            rtol=LAST[dtype] * 4,
            what=dtype,
        )
    agree(
        lambda m, x, y: fn(m.nn.functional, x, y),
        torch.zeros(0, 4, dtype=torch.float64),
        torch.zeros(0, 4, dtype=torch.float64),
    )
    (
        agree(lambda m, x, y: fn(m.nn.functional, x, y, size_average=False), x, y, rtol=1e-11)
        if "huber" not in name
        else None
    )
    agree(lambda m, x, y: fn(m.nn.functional, x, y, reduce=False), x, y, rtol=1e-11) if "huber" not in name else None
    agree(lambda m, x, y: fn(m.nn.functional, x, y), x, y[:, :3])


def test_binary_losses_with_weights_and_edges() -> None:
    x, y, w = sample(3, 4), sample(3, 4, seed=5).sigmoid(), sample(4, seed=6).abs()
    gradients_agree(lambda m, x, y, w: m.nn.functional.binary_cross_entropy(x.sigmoid(), y, weight=w.detach()), x, y, w)
    gradients_agree(
        lambda m, x, y, w: m.nn.functional.binary_cross_entropy_with_logits(
            x, y, weight=w.detach(), pos_weight=w.detach() + 1
        ),
        x,
        y,
        w,
    )
    edges = torch.tensor([0.0, 1.0, 0.5, 1.0], dtype=torch.float64)
    agree(lambda m, p, t: m.nn.functional.binary_cross_entropy(p, t, reduction="none"), edges, edges.flip(0))
    agree(lambda m, p, t: m.nn.functional.binary_cross_entropy(p, t), edges + 0.5, edges)
    agree(
        lambda m, p, t: m.nn.functional.binary_cross_entropy_with_logits(p, t, reduction="none"),
        torch.tensor([1e4, -1e4, 0.0, 50.0], dtype=torch.float64),
        edges,
    )
    agree(lambda m, x, y: m.nn.functional.binary_cross_entropy_with_logits(x, y[:2]), x, y)
    agree(lambda m, x, y: m.nn.functional.huber_loss(x, y, delta=0.0), x, y)
    agree(lambda m, x, y: m.nn.functional.smooth_l1_loss(x, y, beta=-1.0), x, y)


CLASSES: dict[str, Callable] = {
    "cross_entropy": lambda F, x, t, **k: F.cross_entropy(x, t, **k),
    "nll_loss": lambda F, x, t, **k: F.nll_loss(F.log_softmax(x, 0 if x.ndim == 1 else 1), t, **k),
}


@pytest.mark.parametrize("name", CLASSES)
def test_class_losses(name: str) -> None:
    fn = CLASSES[name]
    w = sample(5, seed=9).abs() + 0.1
    cases = [
        (sample(4, 5), torch.tensor([0, 4, 2, 2])), (sample(5), torch.tensor(3)),
        (sample(2, 5, 3), torch.tensor([[0, 1, 2], [3, 4, 0]])),
        (sample(2, 5, 2, 2), torch.tensor([[[0, 1], [2, 3]], [[4, 0], [1, 2]]])),
        (sample(5, 4).t(), torch.tensor([0, 4, 2, 2])),
    ]
    for x, t in cases:
        for options in ({}, {"reduction": "sum"}, {"reduction": "none"}, {"weight": True},
                        {"weight": True, "reduction": "none"}, {"ignore_index": 2}, {"ignore_index": 2, "weight": True},
                        {"ignore_index": 2, "reduction": "none"},
                        *(({"label_smoothing": 0.1}, {"label_smoothing": 0.3, "weight": True, "ignore_index": 2},
                        {"label_smoothing": 0.3, "weight": True, "reduction": "none"},
                        {"label_smoothing": 1.0, "reduction": "sum"}) if name == "cross_entropy" else ())):

            def call(m: Any, x: Any, t: Any, w: Any, options: dict = options) -> Any:
                given = {**options, "weight": w.detach()} if "weight" in options else options
                return fn(m.nn.functional, x, t, **given)

            agree(call, x, t, w, rtol=1e-11, what=f"{tuple(x.shape)} {options}")
            gradients_agree(call, x, t, w, what=f"{tuple(x.shape)} {options}")
    x, t = cases[0]
    for dtype in ("float32", "bfloat16", "float16"):
        agree(
            lambda m, x, t: fn(m.nn.functional, x, t), x.to(getattr(torch, dtype)), t, rtol=LAST[dtype] * 2, what=dtype
        )
    everything = torch.full((4,), -100)
    agree(lambda m, x, t: fn(m.nn.functional, x, t), x, everything)
    agree(lambda m, x, t: fn(m.nn.functional, x, t, reduction="sum"), x, everything)
    some = torch.tensor([0, -100, 2, -100])
    agree(lambda m, x, t: fn(m.nn.functional, x, t), x, some, rtol=1e-11)
    gradients_agree(lambda m, x, t: fn(m.nn.functional, x, t), x, some)
    agree(
        lambda m, x, t: fn(m.nn.functional, x, t),
        torch.zeros(0, 5, dtype=torch.float64),
        torch.zeros(0, dtype=torch.int64),
    )
    agree(
        lambda m, x, t: fn(m.nn.functional, x, t, reduction="sum"),
        torch.zeros(0, 5, dtype=torch.float64),
        torch.zeros(0, dtype=torch.int64),
    )


@pytest.mark.parametrize("name", CLASSES)
def test_class_losses_refuse_bad_targets(name: str) -> None:
    fn, x, t = CLASSES[name], sample(4, 5), torch.tensor([0, 4, 2, 2])
    bad: list[Callable] = [
        lambda F, x, t: fn(F, x, t + 1), lambda F, x, t: fn(F, x, t - 1), lambda F, x, t: fn(F, x, t[:3]),
        lambda F, x, t: fn(F, x, t.unsqueeze(1)), lambda F, x, t: fn(F, x[0], t),
        lambda F, x, t: fn(F, x, t, weight=x[0, :4]),
        lambda F, x, t: fn(F, x, t, reduction="median"), lambda F, x, t: fn(F, x, t.float()),
        lambda F, x, t: fn(F, x, t > 0), lambda F, x, t: fn(F, x, t + 1, ignore_index=5),
        lambda F, x, t: fn(F, x, t, ignore_index="a"),
    ]
    for k, call in enumerate(bad):
        agree(lambda m, x, t, call=call: call(m.nn.functional, x, t), x, t, rtol=1e-11, what=f"case {k}")


def test_cross_entropy_with_probabilities() -> None:
    w = sample(5, seed=9).abs() + 0.1
    for shape in ((4, 5), (5,), (2, 5, 3)):
        x, p = sample(*shape), sample(*shape, seed=3).softmax(0 if len(shape) == 1 else 1)
        for options in (
            {},
            {"reduction": "sum"},
            {"reduction": "none"},
            {"label_smoothing": 0.2},
            {"weight": True},
            {"weight": True, "label_smoothing": 0.2},
        ):

            def call(m: Any, x: Any, p: Any, w: Any, options: dict = options) -> Any:
                given = {**options, "weight": w.detach()} if "weight" in options else options
                return m.nn.functional.cross_entropy(x, p, **given)

            agree(call, x, p, w, rtol=1e-11, what=f"{shape} {options}")
            gradients_agree(call, x, p, w, second=False, what=f"{shape} {options}")
    agree(lambda m, x, p: m.nn.functional.cross_entropy(x, p), sample(4, 5), sample(4, 4))
    agree(lambda m, x, p: m.nn.functional.cross_entropy(x, p, label_smoothing=1.5), sample(4, 5), sample(4, 5))
    agree(lambda m, x, p: m.nn.functional.cross_entropy(x, p, ignore_index=1), sample(4, 5), sample(4, 5))


def test_fused_gradients_check_numerically() -> None:
    x = rl.randn(3, 5, dtype=rl.float64, requires_grad=True)
    w = rl.randn(5, dtype=rl.float64, requires_grad=True)
    t = rl.tensor([0, 4, 2])
    assert rl.autograd.gradgradcheck(lambda x: rl.nn.functional.cross_entropy(x, t), (x,))
    assert rl.autograd.gradgradcheck(lambda x, w: rl.nn.functional.layer_norm(x, (5,), w), (x, w))
    assert rl.autograd.gradgradcheck(lambda x, w: rl.nn.functional.rms_norm(x, (5,), w), (x, w))
    assert rl.autograd.gradgradcheck(lambda x: x.log_softmax(0), (x,))


EPS = [("float16", 2.0**-23), ("bfloat16", 2.0**-23), ("float32", 2.0**-23), ("float64", 2.0**-52)]


@pytest.mark.parametrize("dtype, eps", EPS)
def test_rms_norm_without_eps_takes_that_of_the_type_computed_in(dtype, eps):
    x = (rl.arange(1.0, 9.0).reshape(4, 2) * 0.004).to(getattr(rl, dtype))      # squares that eps of a half type hides
    want = x.double() * (x.double().square().mean(-1, keepdim=True) + eps).rsqrt()
    for found in (rl.nn.functional.rms_norm(x, (2,)), rl.nn.RMSNorm(2, dtype=x.dtype)(x)):
        assert rl.allclose(found.double(), want, rtol=1e-2)
