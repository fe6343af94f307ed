"""The torch dialect: what torch-mlir lowers of our text equals eager mode."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import mlir, nn

pytest.importorskip("torch_mlir")

from tests.mlir.test_linalg_ops import IMAGE, I, X, Y, check  # noqa: E402

pytestmark = pytest.mark.share(3)      # of each test that has several cases

F = nn.functional


@pytest.mark.parametrize("name", (
    "abs neg exp log1p sin cos tanh sigmoid relu sqrt rsqrt reciprocal floor ceil round trunc frac sign erf square "
    "log2 logit sgn deg2rad nan_to_num").split())
def test_functions_of_one_number(name):
    check(getattr(torch, name), X, dialect="torch")


@pytest.mark.parametrize("function", [
    lambda x, y: x + y, lambda x, y: 2 - x, lambda x, y: torch.add(x, y, alpha=3), lambda x, y: x / y,
    lambda x, y: x**2, lambda x, y: torch.where(x > 0, x, y), lambda x, y: x.clamp(-1, 1), lambda x, y: x.half() + 1,
    lambda x, y: torch.hypot(x, y), lambda x, y: torch.copysign(x, y - 1), lambda x, y: x.long() * 2,
    lambda x, y: x.trunc().reciprocal(), lambda x, y: 1 / x.long(),
    lambda x, y: torch.lerp(x, y, 0.3), lambda x, y: F.gelu(x), lambda x, y: F.mish(x),
])
def test_arithmetic(function):
    check(function, X, Y, dialect="torch")


@pytest.mark.parametrize("function", [
    lambda x: x.sum(), lambda x: x.mean((0, 2), keepdim=True), lambda x: x.amax(-1), lambda x: x.max(1),
    lambda x: x.argmax(1, keepdim=True), lambda x: x.var(1), lambda x: (x > 0).any(1), lambda x: x.logsumexp(1),
    lambda x: x.softmax(1), lambda x: x.cumsum(1), lambda x: x.cummax(1), lambda x: x[0, 0, 0].sum(0),
])
def test_reductions(function):
    check(function, X, dialect="torch")


@pytest.mark.parametrize("function", [
    lambda x: x.reshape(-1), lambda x: x.permute(2, 0, 1), lambda x: x[:, 1:, ::2], lambda x: x[..., -1],
    lambda x: x.expand(5, 2, 3, 4), lambda x: torch.cat([x, x], 1), lambda x: x.split(2, 2), lambda x: x.flip(0, 2),
    lambda x: x.tril(), lambda x: torch.arange(4) + x, lambda x: x.as_strided((2, 2), (3, 5), 1),
    lambda x: F.pad(x, (1, 2)), lambda x: x.gather(1, I.reshape(1, 3, 1).expand(2, 3, 4)), lambda x: x[:, I],
    lambda x: x @ x.mT, lambda x: F.layer_norm(x, (4,)), lambda x: F.cross_entropy(x[0], I),
    lambda x: F.scaled_dot_product_attention(x, x, x),
])
def test_shapes_and_layers(function):
    check(function, X, dialect="torch")


@pytest.mark.parametrize("function", [
    lambda x: F.max_pool2d(x, 2), lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: F.conv2d(x, x[:, :, :3, :3], padding=1),
    lambda x: F.interpolate(x, scale_factor=2), lambda x: F.adaptive_avg_pool2d(x, 2),
])
def test_images(function):
    check(function, IMAGE, dialect="torch")


def test_ops_have_pytorchs_overloads_and_all_of_their_arguments():
    text = str(mlir.export(lambda x, y: torch.add(x, y).sum(1), (X, Y), dialect="torch"))
    assert '"torch.aten.add.Tensor"' in text and '"torch.aten.sum.dim_IntList"' in text
    assert "!torch.vtensor<[2,3,4],f32>" in text and '"torch.prim.ListConstruct"' in text


def test_a_network_with_its_weights():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 5)).eval()
    with torch.no_grad():
        for weights in ("inline", "resource"):
            text = check(model, IMAGE, dialect="torch", weights=weights)
            assert ("dense_resource<" in text) == (weights == "resource")


def test_an_op_without_a_rule_is_refused_with_its_line():
    with pytest.raises(mlir.UnsupportedOp, match=r"(?s)svd.*torch dialect.*test_torch_dialect_ops\.py"):
        mlir.export(lambda x: torch.linalg.svd(x), (X[0],), dialect="torch")
