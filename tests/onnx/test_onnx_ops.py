"""Ops, one by one: what ONNX Runtime computes equals eager mode."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.utils import _pytree as pytree
from tests.export.models import Call

pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.share(2)   # of each test that has several cases

F = nn.functional


def check(function, *args, **options):
    model = Call(function)
    with torch.no_grad():
        expected = pytree.tree_leaves(model(*[a.clone() for a in args]))
    found = torch.onnx.export(model, args, **options)(*args)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        # the runtime may keep halves as floats between two ops
        rtol, atol = (2e-3, 2e-3) if b.dtype is torch.float16 else (1e-4, 1e-5)
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)


X = torch.linspace(-3, 3, 24).reshape(2, 3, 4)
Y = torch.linspace(0.5, 2, 4)
I = torch.tensor([2, 0, 1])
IMAGE = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8).sin()

POINTWISE = (
    "abs neg exp log1p expm1 sin cos tanh sigmoid relu sqrt rsqrt reciprocal floor ceil round trunc frac sign erf erfc "
    "isnan isinf isfinite signbit square log2 log10 exp2 sinh cosh asinh atan logit sinc sgn deg2rad nan_to_num"
).split()
ACTIVATIONS = (
    "gelu silu mish hardswish hardsigmoid hardtanh relu6 elu selu celu softplus softsign logsigmoid tanhshrink "
    "softshrink hardshrink leaky_relu"
).split()


@pytest.mark.parametrize("name", POINTWISE)
def test_functions_of_one_number(name):
    check(getattr(torch, name), X)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    check(getattr(F, name), X)


@pytest.mark.parametrize("function", [
    lambda x, y: x + y, lambda x, y: 2 - x, lambda x, y: torch.add(x, y, alpha=3), lambda x, y: x / y,
    lambda x, y: x // y, lambda x, y: x % y, lambda x, y: x**2, lambda x, y: y**x, lambda x, y: torch.fmod(x, y),
    lambda x, y: torch.maximum(x, y), lambda x, y: x > y, lambda x, y: x.eq(x) & (y < 1), lambda x, y: ~(x != x),
    lambda x, y: torch.where(x > 0, x, y), lambda x, y: torch.atan2(x, y), lambda x, y: x.clamp(-1, 1),
    lambda x, y: torch.clamp(x, min=y), lambda x, y: torch.lerp(x, y, 0.3), lambda x, y: x.masked_fill(x > 0, 7.0),
    lambda x, y: torch.logaddexp(x, y), lambda x, y: torch.xlogy(x, y), lambda x, y: torch.copysign(x, y - 1),
    lambda x, y: torch.addcmul(x, x, y, value=0.5), lambda x, y: x.to(torch.int32) * 2, lambda x, y: x.half() + 1,
    lambda x, y: x.to(torch.int8) // 2, lambda x, y: x.long() % 2,
    lambda x, y: x.int() << 1,
])
def test_arithmetic(function):
    check(function, X, Y)


@pytest.mark.parametrize("function", [
    lambda x: x.sum(), lambda x: x.sum(1), lambda x: x.mean((0, 2), keepdim=True), lambda x: x.prod(1),
    lambda x: x.amax(-1), lambda x: x.max(1), lambda x: x.argmin(), lambda x: x.argmax(1, keepdim=True),
    lambda x: x.var(1), lambda x: x.std(), lambda x: torch.var_mean(x, (1, 2), correction=0), lambda x: (x > 0).any(1),
    lambda x: (x > -9).all(), lambda x: x.logsumexp(1), lambda x: x.norm(), lambda x: x.norm(3, 1),
    lambda x: x.cumsum(1), lambda x: x.count_nonzero(1), lambda x: x.int().sum(1), lambda x: x.nansum(0),
    lambda x: x.softmax(1), lambda x: x.log_softmax(-1), lambda x: x.topk(2), lambda x: x.sort(1, descending=True),
    lambda x: x.aminmax(dim=1), lambda x: F.normalize(x, dim=1),
])
def test_reductions(function):
    check(function, X)


@pytest.mark.parametrize("function", [
    lambda x: x.reshape(-1), lambda x: x.view(6, 4), lambda x: x.permute(2, 0, 1), lambda x: x.transpose(0, 2),
    lambda x: x[:, 1:, ::2], lambda x: x[..., -1], lambda x: x[:, None], lambda x: x.unsqueeze(0).squeeze(0),
    lambda x: x.expand(5, 2, 3, 4), lambda x: x.repeat(2, 1, 1), lambda x: torch.cat([x, x], 1),
    lambda x: torch.stack([x, x], -1), lambda x: x.split(2, 2), lambda x: x.split([1, 3], 2), lambda x: x.chunk(2, 1),
    lambda x: x.unbind(1), lambda x: x.flip(0, 2), lambda x: x.roll(1, 1), lambda x: x.roll(5), lambda x: x.tril(),
    lambda x: x.triu(1), lambda x: x.diagonal(0, 1, 2), lambda x: x.unfold(2, 2, 1), lambda x: F.pad(x, (1, 2, 0, 1)),
    lambda x: F.pad(x, (-1, 0)), lambda x: x.flatten(1), lambda x: x.unflatten(2, (2, 2)), lambda x: x.narrow(1, 1, 2),
    lambda x: torch.zeros_like(x) + torch.ones(4) + torch.arange(4) + torch.full((3, 1), 2.0),
    lambda x: torch.eye(4) + x[0, :1],
    lambda x: torch.movedim(x, 0, 2), lambda x: x.diag_embed(), lambda x: torch.diff(x), lambda x: x.rot90(1, (1, 2)),
])
def test_shapes(function):
    check(function, X)


@pytest.mark.parametrize("function", [
    lambda x, i: x[:, i], lambda x, i: x[:, i, i], lambda x, i: x[0, i[:, None], i], lambda x, i: x.index_select(1, i),
    lambda x, i: x.gather(1, i.expand(2, 1, 3).transpose(1, 2)), lambda x, i: x[x > 0], lambda x, i: x.take(i),
    lambda x, i: x.scatter(1, i.reshape(1, 3, 1), 9.0), lambda x, i: x.index_add(1, i, x),
    lambda x, i: (x > 1).nonzero(),
    lambda x, i: x.scatter_add(1, i.reshape(1, 3, 1), x), lambda x, i: x.index_put((i[:2],), x.new_ones(())),
    lambda x, i: x.index_copy(1, i, x), lambda x, i: x.index_fill(1, i, 3.0), lambda x, i: F.one_hot(i, 4),
    lambda x, i: F.embedding(i, x[0]), lambda x, i: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
    lambda x, i: torch.isin(i, i[:1]), lambda x, i: torch.unique(i), lambda x, i: x.index_put((i - 3,), x[0, 0, 0]),
])
def test_indexing(function):
    check(function, torch.cat([X, X])[:3], I)


def written(x):
    y = x.clone()
    y[:, 1] = 5.0
    y[0] += 1
    y.select(2, 0).mul_(3)
    y.diagonal(0, 1, 2).zero_()
    return y


@pytest.mark.parametrize("function", [
    lambda x: written(x), lambda x: x @ x.mT, lambda x: torch.einsum("bij,bkj->bik", x, x),
    lambda x: torch.baddbmm(x @ x.mT, x, x.mT, beta=0.5, alpha=2), lambda x: torch.addmm(x[0], x[0] @ x[0].T, x[1]),
    lambda x: F.layer_norm(x, (4,)), lambda x: F.rms_norm(x, (4,)), lambda x: F.group_norm(x, 3),
    lambda x: F.instance_norm(x), lambda x: F.batch_norm(x, None, None, training=True),
    lambda x: F.scaled_dot_product_attention(x, x, x),
    lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    lambda x: F.scaled_dot_product_attention(x[None, :, None], x[None, :1, None], x[None, :1, None], enable_gqa=True),
    lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(3, 3, dtype=torch.bool).tril(-1)),
    lambda x: F.cross_entropy(x[0], I), lambda x: F.mse_loss(x, x * 2),
    lambda x: F.huber_loss(x, x * 2, reduction="sum"), lambda x: F.binary_cross_entropy_with_logits(x, x.sigmoid()),
    lambda x: F.glu(x), lambda x: F.dropout(x, 0.5, False),
    lambda x: F.cosine_similarity(x, x + 1), lambda x: F.pixel_shuffle(x.reshape(1, 4, 2, 3), 2),
])
def test_layers(function):
    check(function, X)


@pytest.mark.parametrize("function", [
    lambda x: F.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 2, count_include_pad=False),
    lambda x: F.adaptive_avg_pool2d(x, 1),
    lambda x: F.adaptive_avg_pool2d(x, (4, 3)), lambda x: F.adaptive_max_pool2d(x, 2),
    lambda x: F.interpolate(x, scale_factor=2), lambda x: F.interpolate(x, (5, 11), mode="bilinear"),
    lambda x: F.interpolate(x, (16, 12), mode="bicubic", align_corners=True), lambda x: F.unfold(x, 3, padding=1),
    lambda x: F.conv2d(x, x[:, :, :3, :3], padding="same"),
    lambda x: F.conv2d(x, x[:1, :, :3, :3], stride=2, dilation=2),
    lambda x: F.conv_transpose2d(x, x[0, :, None, :3, :3], stride=2, padding=1, output_padding=1),
    lambda x: F.conv2d(x, x[0, :, None, :3, :3], groups=3), lambda x: F.conv1d(x[0], x[0, :, :, :3]),
    lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1), align_corners=False),
    lambda x: F.pad(x, (1, 1, 2, 0), "reflect"),
])
def test_images(function):
    check(function, IMAGE)


def test_equal_constants_and_nodes_are_one():
    class Twice(nn.Module):
        def forward(self, x):
            return (x + 2.0).exp() * (x + 2.0).exp()

    shared = torch.onnx.export(Twice(), (X,)).model.graph
    apart = torch.onnx.export(Twice(), (X,), optimize=False).model.graph
    assert [n.op for n in shared.nodes] == ["Add", "Exp", "Mul"] and len(apart.nodes) == 5 and len(apart.tensors) == 1


def test_no_op_is_converted_as_if_it_did_not_write():
    class Renorm(nn.Module):
        def forward(self, table, i):
            return F.embedding(i, table, max_norm=1.0)

    table = torch.ones(4, 4) * 3
    with pytest.warns(UserWarning, match="writes to table"):
        program = torch.onnx.export(Renorm(), (table, I))
    torch.testing.assert_close(program(table, I)[0], Renorm()(table.clone(), I))
