"""The linalg dialect: what torch-mlir compiles of our text equals eager mode."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import mlir, nn

pytest.importorskip("torch_mlir")

from tests.mlir import compiled  # noqa: E402
from tests.mlir.compiled import compare, tensors_in  # noqa: E402

pytestmark = pytest.mark.share(3)      # of each test that has several cases

F = nn.functional
X = torch.linspace(-3, 3, 24).reshape(2, 3, 4)
Y = torch.linspace(0.5, 2, 4)
I = torch.tensor([2, 0, 1])
IMAGE = torch.linspace(-1, 1, 2 * 3 * 6 * 6).reshape(2, 3, 6, 6).sin()


def check(function, *args, dialect="linalg", **options):
    text = str(mlir.export(function, args, dialect=dialect, **options))
    expected = tensors_in(function(*[a.clone() for a in args]))
    found = compiled.run(text, dialect, args)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        compare(a, b)
    return text


POINTWISE = (
    "abs neg exp log1p expm1 sin cos tanh sigmoid relu sqrt rsqrt reciprocal floor ceil round trunc frac sign erf erfc "
    "isnan signbit square log2 exp2 sinh atan logit sinc lgamma digamma nan_to_num"
).split()


@pytest.mark.parametrize("name", POINTWISE)
def test_functions_of_one_number(name):
    check(getattr(torch, name), X)


@pytest.mark.parametrize("name", "gelu silu mish hardswish elu softplus logsigmoid softshrink leaky_relu".split())
def test_activations(name):
    check(getattr(F, name), X)


@pytest.mark.parametrize("function", [
    lambda x, y: x + y, lambda x, y: torch.add(x, y, alpha=3), lambda x, y: x // y, lambda x, y: x % y,
    lambda x, y: x**2, lambda x, y: torch.where(x > 0, x, y), lambda x, y: x.clamp(-1, 1), lambda x, y: x.half() + 1,
    lambda x, y: x.to(torch.bfloat16) * 3, lambda x, y: x.to(torch.uint8) // 2, lambda x, y: x.long() % 2,
    lambda x, y: x.int() << 1, lambda x, y: x.int() // -1, lambda x, y: torch.complex(x, x * y) * 2j,
    lambda x, y: x.to(torch.int8).abs(), lambda x, y: (x > y) & ~(x < 1), lambda x, y: torch.logaddexp(x, y),
    lambda x, y: (x / 0, -x / 0, (x - x) / 0), lambda x, y: torch.maximum(x / 0 - x / 0, y),
])
def test_arithmetic_of_all_kinds_of_numbers(function):
    check(function, X, Y)


@pytest.mark.parametrize("function", [
    lambda x: x.sum(), lambda x: x.mean((0, 2), keepdim=True), lambda x: x.prod(1), lambda x: x.max(1),
    lambda x: x.argmin(), lambda x: x.var(1), lambda x: torch.var_mean(x, (1, 2), correction=0),
    lambda x: (x > 0).any(1), lambda x: x.logsumexp(1), lambda x: x.norm(3, 1), lambda x: x.int().sum(1),
    lambda x: x.cumsum(1), lambda x: x.cummax(0), lambda x: x[0, 0, 0].cumsum(0), lambda x: x[0, 0, 0].sum(0),
    lambda x: x.softmax(1), lambda x: x.topk(2), lambda x: x.sort(1, descending=True), lambda x: x.median(2),
    lambda x: x[:, :0].sum(1), lambda x: x[:, :0] * 2,
])
def test_reductions_walks_and_orders(function):
    check(function, X)


def test_what_is_no_number_comes_last_in_order():
    nan = float("nan")
    x = torch.tensor([2.0, nan, -1.0, 2.0, nan])
    check(lambda x: (*x.sort(), *x.sort(descending=True), *x.topk(3), x.nanmedian()), x)


@pytest.mark.parametrize("function", [
    lambda x: x.reshape(-1), lambda x: x.view(6, 4), lambda x: x.permute(2, 0, 1), lambda x: x[:, 1:, ::2],
    lambda x: x[..., -1], lambda x: x[:, None], lambda x: x.expand(5, 2, 3, 4), lambda x: torch.cat([x, x], 1),
    lambda x: torch.stack([x, x], -1), lambda x: x.split(2, 2), lambda x: x.unbind(1), lambda x: x.flip(0, 2),
    lambda x: x.roll(1, 1), lambda x: x.tril(), lambda x: x.diagonal(0, 1, 2), lambda x: x.unfold(2, 2, 1),
    lambda x: F.pad(x, (1, -1)), lambda x: torch.eye(4) + x[0, :1], lambda x: x.t() if x.ndim < 3 else x[0].t(),
    lambda x: torch.view_as_complex(x.reshape(2, 3, 2, 2)).conj(), lambda x: torch.arange(4) + x,
    lambda x: x.as_strided((2, 2), (3, 5), 1), lambda x: x.diag_embed(),
])
def test_shapes(function):
    check(function, X)


@pytest.mark.parametrize("function", [
    lambda x, i: x[:, i], lambda x, i: x[0, i[:, None], i], lambda x, i: x.index_select(1, i - 3 + 3),
    lambda x, i: x.gather(1, i.expand(2, 1, 3).transpose(1, 2)), lambda x, i: x.take(i),
    lambda x, i: x.scatter(1, i.reshape(1, 3, 1), 9.0), lambda x, i: x.index_add(1, i * 0, x),
    lambda x, i: x.index_put((i[:2],), x.new_ones(())), lambda x, i: F.one_hot(i, 4),
    lambda x, i: F.embedding(i, x[0]), lambda x, i: x[:, i - 3], lambda x, i: x.masked_fill(x > 0, 7.0),
    lambda x, i: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
    lambda x, i: x.scatter_reduce(1, (i * 0).expand(2, 4, 3).transpose(1, 2), x, "mean", include_self=False),
])
def test_indexing(function):
    check(function, torch.cat([X, X])[:3], I)


def written(x):
    y = x.clone()
    y[:, 1] = 5.0
    y[0] += 1
    y.diagonal(0, 1, 2).zero_()
    return y


@pytest.mark.parametrize("function", [
    written, lambda x: x @ x.mT, lambda x: torch.einsum("bij,bkj->bik", x, x),
    lambda x: torch.addmm(x[0], x[0] @ x[0].T, x[1], beta=2), lambda x: F.layer_norm(x, (4,)),
    lambda x: F.group_norm(x, 3), lambda x: F.batch_norm(x, None, None, training=True),
    lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), lambda x: F.cross_entropy(x[0], I),
    lambda x: F.glu(x), lambda x: F.cosine_similarity(x, x + 1), lambda x: torch.cdist(x, x),
])
def test_layers(function):
    check(function, X)


@pytest.mark.parametrize("function", [
    lambda x: F.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: F.adaptive_avg_pool2d(x, (4, 3)),
    lambda x: F.interpolate(x, scale_factor=2), lambda x: F.interpolate(x, (5, 7), mode="bilinear"),
    lambda x: F.conv2d(x, x[:, :, :3, :3], padding="same"),
    lambda x: F.conv2d(x, x[:1, :, :3, :3], stride=2, dilation=2),
    lambda x: F.conv_transpose2d(x, x[0, :, None, :3, :3], stride=2, padding=1, output_padding=1),
    lambda x: F.conv2d(x, x[0, :, None, :3, :3], groups=3), lambda x: F.conv1d(x[0], x[0, :, :, :3]),
    lambda x: F.pad(x, (1, 1, 2, 0), "reflect"), lambda x: F.unfold(x, 3, padding=1),
])
def test_images(function):
    check(function, IMAGE)


def test_pointwise_ops_are_loops_over_operands():
    text = check(lambda x, y: x * y.exp(), X, Y)
    assert "linalg.generic" in text and "affine_map<(d0, d1, d2) -> (d2)>" in text and "tensor.extract" not in text


def test_a_convolution_reads_by_affine_maps():
    text = check(lambda x: F.conv2d(x, x[:, :, :3, :3]), IMAGE)
    assert "d3 + d6" in text and "tensor.extract\"" not in text


def test_a_network_with_its_weights():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 5)).eval()
    with torch.no_grad():
        for weights in ("inline", "resource"):
            text = check(model, IMAGE, weights=weights)
            assert ("dense_resource<" in text) == (weights == "resource")


def test_an_op_without_a_rule_is_refused_with_its_line():
    with pytest.raises(mlir.UnsupportedOp, match=r"(?s)svd.*linalg.*test_linalg_ops\.py"):
        mlir.export(lambda x: torch.linalg.svd(x), (X[0],), dialect="linalg")
