"""Ops, one by one: what XLA computes from their StableHLO equals eager mode, gradients included."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.aot.capture import capture
from rushlight.mlir.stablehlo import translate
from tests.mlir import judges

pytest.importorskip("jaxlib")

pytestmark = pytest.mark.share(2)   # of each test that has several cases

F = torch.nn.functional


def check(function, *args, gradients=False, rtol=2e-4, atol=1e-5):
    """The function's results, and the gradients of their squares, as a graph that XLA runs."""
    wanted = [i for i, a in enumerate(args) if gradients and a.is_floating_point()]

    def joint(given):
        given = [a.detach().requires_grad_(i in wanted) for i, a in enumerate(given)]
        made = function(*given)
        outs = list(made) if isinstance(made, (tuple, list)) else [made]
        if wanted:
            loss = sum(o.square().sum() for o in outs if o.is_floating_point())
            slopes = torch.autograd.grad(loss, [given[i] for i in wanted], allow_unused=True)
            outs += [torch.zeros_like(given[i]) if g is None else g for i, g in zip(wanted, slopes, strict=True)]
        return [o.detach().clone() for o in outs]

    expected = joint(args)
    captured = capture(joint, list(args), wants_grad=False)
    given = [*args, *captured.lifted]
    found = judges.run(translate(captured.graph, given), given)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        plain = b.resolve_conj().resolve_neg()
        torch.testing.assert_close(a, plain, rtol=rtol, atol=atol, equal_nan=True)


X = torch.linspace(-3, 3, 24).reshape(2, 3, 4)
Y = torch.linspace(0.5, 2, 4)
I = torch.tensor([2, 0, 1])
IMAGE = torch.linspace(-1, 1, 2 * 4 * 8 * 8).reshape(2, 4, 8, 8).sin()

POINTWISE = (
    "abs neg exp log1p expm1 sin cos tan tanh sigmoid relu sqrt rsqrt reciprocal floor ceil round trunc frac sign erf "
    "erfc lgamma digamma isnan signbit square log2 log10 exp2 sinh cosh asin acos atan asinh acosh atanh logit sinc "
    "sgn nan_to_num i0 erfinv"
).split()


@pytest.mark.parametrize("name", POINTWISE)
def test_functions_of_one_number(name):
    special = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-30, 88.0, -104.0])
    check(getattr(torch, name), torch.cat([X.flatten(), special]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int64,
                                   torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_dtypes(dtype):
    x = X.to(dtype) if dtype is not torch.uint8 else X.abs().to(dtype)
    if dtype is torch.float8_e4m3fn:
        check(lambda x: (x.float() * 2).to(dtype).float(), x)
    else:
        check(lambda x: (x + x, x * 3, x.sum(1), x == x.flip(1), x.to(torch.float32) if dtype is not torch.complex64
                         else x.exp()), x, rtol=5e-3)


@pytest.mark.parametrize("function", [
    lambda x, y: 2 - x, lambda x, y: torch.add(x, y, alpha=3), lambda x, y: x / y, lambda x, y: x // y,
    lambda x, y: x % y, lambda x, y: y**x, lambda x, y: torch.fmod(x, y), lambda x, y: torch.maximum(x, y),
    lambda x, y: x.eq(x) & (y < 1), lambda x, y: torch.where(x > 0, x, y), lambda x, y: torch.atan2(x, y),
    lambda x, y: x.clamp(-1, 1), lambda x, y: torch.lerp(x, y, 0.3), lambda x, y: x.masked_fill(x > 0, 7.0),
    lambda x, y: torch.logaddexp(x, y), lambda x, y: torch.copysign(x, y - 1), lambda x, y: x.to(torch.int8) // 2,
    lambda x, y: x.int() << 1, lambda x, y: x.int() >> 1, lambda x, y: torch.nextafter(x, y),
    lambda x, y: torch.hypot(x, y), lambda x, y: x.to(torch.uint8), lambda x, y: torch.ldexp(x, y),
])
def test_arithmetic(function):
    check(function, X, Y)


@pytest.mark.parametrize("function", [
    lambda x: x.sum(), lambda x: x.sum(1), lambda x: x.mean((0, 2), keepdim=True), lambda x: x.prod(1),
    lambda x: x.amax(-1), lambda x: x.max(1), lambda x: x.argmin(), lambda x: x.argmax(1, keepdim=True),
    lambda x: x.var(1), lambda x: torch.var_mean(x, (1, 2), correction=0), lambda x: (x > 0).any(1),
    lambda x: x.logsumexp(1), lambda x: x.norm(3, 1), lambda x: x.cumsum(1), lambda x: x.cumprod(2),
    lambda x: x.cummax(1), lambda x: x.logcumsumexp(0), lambda x: x.count_nonzero(1), lambda x: x.softmax(1),
    lambda x: x.log_softmax(-1), lambda x: x.topk(2), lambda x: x.sort(1, descending=True), lambda x: x.median(1),
    lambda x: x.kthvalue(2), lambda x: x.aminmax(dim=1), lambda x: x[:0].sum(), lambda x: x[:, :0].sum(1),
    lambda x: x.sum().max(0), lambda x: torch.searchsorted(x[0, 0], x[1]),
])
def test_reductions_and_orders(function):
    check(function, X)


@pytest.mark.parametrize("function", [
    lambda x: x.reshape(-1), lambda x: x.permute(2, 0, 1), lambda x: x[:, 1:, ::2], lambda x: x[..., -1],
    lambda x: x.expand(5, 2, 3, 4), lambda x: x.repeat(2, 1, 1), lambda x: torch.cat([x, x], 1),
    lambda x: torch.stack([x, x], -1), lambda x: x.split([1, 3], 2), lambda x: x.unbind(1), lambda x: x.flip(0, 2),
    lambda x: x.roll(1, 1), lambda x: x.tril(), lambda x: x.diagonal(0, 1, 2), lambda x: x.unfold(2, 2, 1),
    lambda x: F.pad(x, (1, 2, 0, 1)), lambda x: F.pad(x, (-1, 0)), lambda x: F.pad(x, (1, 2), "reflect"),
    lambda x: torch.arange(4) + x, lambda x: torch.eye(4) + x[0, :1], lambda x: x.diag_embed(),
    lambda x: x.as_strided((2, 2), (1, 3), 2), lambda x: x.view(torch.int32), lambda x: x[:0],
    lambda x: torch.view_as_real(torch.complex(x, x)), lambda x: x.permute(1, 0, 2).reshape(3, 8),
    lambda x: torch.slice_scatter(x, x[:, :1] * 2, 1, 1, 2), lambda x: x.select_scatter(x[:, 0], 1, 2),
    lambda x: torch.diagonal_scatter(x[0], x[0, 0, :3]),
])
def test_shapes(function):
    check(function, X)


def written(x):
    y = x.clone()
    y[:, 1] = 5.0
    y[0] += 1
    y.diagonal(0, 1, 2).zero_()
    return y


@pytest.mark.parametrize("function", [
    lambda x, i: x[:, i], lambda x, i: x[0, i[:, None], i], lambda x, i: x.index_select(1, i), lambda x, i: x.take(i),
    lambda x, i: x.gather(1, i.expand(2, 1, 3).transpose(1, 2)), lambda x, i: x.scatter(1, i.reshape(1, 3, 1), 9.0),
    lambda x, i: x.index_add(1, i, x), lambda x, i: x.scatter_add(1, i.reshape(1, 3, 1), x), lambda x, i: written(x),
    lambda x, i: x.index_put((i[:2] * 0,), x[:2], accumulate=True), lambda x, i: x.index_fill(1, i, 3.0),
    lambda x, i: x.scatter_reduce(1, i.reshape(1, 3, 1), x, "amax"), lambda x, i: F.embedding(i, x[0]),
    lambda x, i: F.one_hot(i, 4), lambda x, i: x.index_put((x > 0,), x.new_ones(())), lambda x, i: x[i - 3],
])
def test_indexing(function):
    check(function, torch.cat([X, X])[:3], I)


@pytest.mark.parametrize("function", [
    lambda x, w: F.conv2d(x, w, stride=2, padding=1), lambda x, w: F.conv2d(x, w[:, :2], groups=2, dilation=2),
    lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1, dilation=2),
    lambda x, w: F.conv_transpose2d(x, w, stride=3, groups=2), lambda x, w: F.conv1d(x[:, :, 0], w[..., 0], stride=3),
    lambda x, w: F.max_pool2d(x, 3, 2, 1) * w.sum(), lambda x, w: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    lambda x, w: F.adaptive_avg_pool2d(x, (4, 3)), lambda x, w: F.adaptive_max_pool2d(x, 2),
    lambda x, w: F.interpolate(x, (5, 11), mode="bilinear"), lambda x, w: F.interpolate(x, scale_factor=2),
    lambda x, w: F.grid_sample(x, w[:2, :, :, :2].permute(0, 2, 1, 3), align_corners=False),
    lambda x, w: F.batch_norm(x, None, None, training=True), lambda x, w: F.group_norm(x, 2),
    lambda x, w: F.unfold(x, 3),
    lambda x, w: F.scaled_dot_product_attention(x, x, x, is_causal=True), lambda x, w: F.layer_norm(x, (8,)),
    lambda x, w: F.gelu(x) + F.silu(x) + F.softplus(x), lambda x, w: F.cross_entropy(x[:, :, 0, 0], I[:2]),
    lambda x, w: F.linear(x, x[0, 0]), lambda x, w: torch.einsum("bchw,bcwk->bhk", x, x),
])
def test_layers_and_their_gradients(function):
    torch.manual_seed(0)
    check(function, IMAGE, torch.rand(4, 4, 3, 3), gradients=True, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("function", [
    lambda x: torch.fft.rfft(x), lambda x: torch.fft.ifft(x, norm="ortho"), lambda x: torch.fft.fft2(x),
    lambda x: torch.fft.irfft(x.to(torch.complex64), 5), lambda x: torch.complex(x, x).sqrt().exp(),
    lambda x: torch.complex(x, x).conj() * 2, lambda x: torch.linalg.cholesky(x[0] @ x[0].mT + torch.eye(3) * 9),
    lambda x: torch.linalg.solve_triangular(x[0, :, :3].tril() + torch.eye(3) * 9, x[0], upper=False),
])
def test_transforms_and_triangles(function):
    check(function, X)


def test_donated_inputs_are_noted():
    captured = capture(lambda given: [given[0] + 1, given[1].sum()], [X, X * 2], wants_grad=False)
    text = translate(captured.graph, [X, X], donated=[0, 1])
    assert text.count("tf.aliasing_output") == 1 and "%arg0: tensor<2x3x4xf32> {tf.aliasing_output = 0 : i32}" in text
    judges.run(text, [X, X])
    with pytest.raises(ValueError, match="input 0 is a tensor<2x3x4xf32>, result 1"):
        translate(captured.graph, [X, X], donated={0: 1})
