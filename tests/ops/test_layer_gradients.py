"""Gradients of layers as ops of their own: equal to what autograd computes, and to PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight.nn import functional as F

X = rl.linspace(-4, 4, 24).reshape(4, 6) + 0.013
G = rl.linspace(1, -2, 24).reshape(4, 6)
IMAGE = rl.linspace(-1, 1, 2 * 4 * 36).reshape(2, 4, 6, 6).sin()
aten = rl.ops.aten

# op, the function it is the gradient of, its other arguments
ELEMENTS: dict[str, tuple[Any, tuple]] = {
    "threshold_backward": (lambda x: F.threshold(x, 0.3, 0.0), (0.3,)),
    "gelu_backward": (F.gelu, ()), "silu_backward": (F.silu, ()), "mish_backward": (F.mish, ()),
    "leaky_relu_backward": (lambda x: F.leaky_relu(x, 0.2), (0.2, False)),
    "softplus_backward": (lambda x: F.softplus(x, 2.0, 3.0), (2.0, 3.0)),
    "hardswish_backward": (F.hardswish, ()), "hardsigmoid_backward": (F.hardsigmoid, ()),
    "hardtanh_backward": (lambda x: F.hardtanh(x, -1.0, 2.0), (-1.0, 2.0)),
    "hardshrink_backward": (F.hardshrink, (0.5,)), "softshrink_backward": (F.softshrink, (0.5,)),
}


def slope(f: Any, x: Any, g: Any) -> Any:
    x = x.detach().requires_grad_()
    return rl.autograd.grad(f(x), x, g)[0]


@pytest.mark.parametrize("name", ELEMENTS)
def test_activations(name: str) -> None:
    f, rest = ELEMENTS[name]
    rl.testing.assert_close(getattr(aten, name)(G, X, *rest), slope(f, X, G))


def test_activations_from_their_results() -> None:
    rl.testing.assert_close(aten.sigmoid_backward(G, X.sigmoid()), slope(rl.sigmoid, X, G))
    rl.testing.assert_close(aten.tanh_backward(G, X.tanh()), slope(rl.tanh, X, G))
    rl.testing.assert_close(aten.elu_backward(G, 0.7, 1, 1, True, F.elu(X, 0.7)), slope(lambda x: F.elu(x, 0.7), X, G))
    rl.testing.assert_close(aten.elu_backward(G, 0.7, 1, 1, False, X), slope(lambda x: F.elu(x, 0.7), X, G))
    result, buffer = aten.log_sigmoid_forward(X)
    rl.testing.assert_close(result, F.logsigmoid(X))
    rl.testing.assert_close(aten.log_sigmoid_backward(G, X, buffer), slope(F.logsigmoid, X, G))
    half = G[:, :3].contiguous()
    rl.testing.assert_close(aten.glu_backward(half, X, 1), slope(lambda x: F.glu(x, 1), X, half))
    with pytest.raises(RuntimeError, match="alpha is -1"):
        aten.elu_backward(G, -1, 1, 1, True, X)
    with pytest.raises(RuntimeError, match="negative_slope is -0.5"):
        aten.leaky_relu_backward(G, X, -0.5, True)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_losses(reduction: int) -> None:
    target, word = G * 0.5, ("none", "mean", "sum")[reduction]
    g = G if reduction == 0 else rl.tensor(1.5)
    for name, f, rest in (("mse_loss", F.mse_loss, {}), ("smooth_l1_loss", F.smooth_l1_loss, {"beta": 0.7}),
                          ("huber_loss", F.huber_loss, {"delta": 0.7})):
        got = getattr(aten, f"{name}_backward")(g, X, target, reduction, *rest.values())
        rl.testing.assert_close(got, slope(lambda x, f=f, rest=rest: f(x, target, reduction=word, **rest), X, g))
    with pytest.raises(RuntimeError, match="reduction"):
        aten.mse_loss_backward(g, X, target, 7)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_classes(reduction: int, weighted: bool) -> None:
    scores, target = X.log_softmax(1), rl.tensor([1, 5, -100, 0])
    weight = rl.linspace(0.5, 1.5, 6) if weighted else None
    word = ("none", "mean", "sum")[reduction]
    g = rl.linspace(1, 2, 4) if reduction == 0 else rl.tensor(1.5)

    def loss(x: Any) -> Any:
        return F.nll_loss(x, target, weight, reduction=word)

    result, total = aten.nll_loss_forward(scores, target, weight, reduction, -100)
    rl.testing.assert_close(result, loss(scores))
    got = aten.nll_loss_backward(g, scores, target, weight, reduction, -100, total)
    rl.testing.assert_close(got, slope(loss, scores, g))


def test_norms_give_what_is_asked_for() -> None:
    weight = rl.linspace(0.5, 1.5, 6)
    _, mean, rstd = aten.native_layer_norm(X, [6], weight, weight, 1e-5)
    found = aten.native_layer_norm_backward(G, X, [6], mean, rstd, weight, weight, [True, False, True])
    assert found[1] is None
    rl.testing.assert_close(found[0], slope(lambda x: F.layer_norm(x, (6,), weight, weight), X, G))
    rl.testing.assert_close(found[2], G.sum(0))
    with pytest.raises(RuntimeError, match="save_mean"):
        aten.native_batch_norm_backward(IMAGE, IMAGE, None, None, None, None, None, True, 1e-5, [True, True, True])


@pytest.mark.parametrize("train", [False, True])
def test_batch_norm(train: bool) -> None:
    weight, mean, var = rl.linspace(0.5, 1.5, 4), rl.linspace(-1, 1, 4), rl.linspace(1, 2, 4)
    g = IMAGE.cos()
    saved = aten.native_batch_norm(IMAGE, weight, weight, mean.clone(), var.clone(), train, 0.1, 1e-5)[1:]
    found = aten.native_batch_norm_backward(g, IMAGE, weight, mean, var, *saved, train, 1e-5, [True, True, True])
    w = weight.clone().requires_grad_()
    x = IMAGE.clone().requires_grad_()
    result = F.batch_norm(x, mean.clone(), var.clone(), w, w.detach(), train, 0.1, 1e-5)
    for got, wanted in zip(found, rl.autograd.grad(result, (x, w), g), strict=False):
        rl.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    rl.testing.assert_close(found[2], g.sum((0, 2, 3)))


def test_windows_and_sizes() -> None:
    def check(got: Any, f: Any, g: Any) -> None:
        rl.testing.assert_close(got, slope(f, IMAGE, g))

    g = rl.linspace(-1, 1, 2 * 4 * 9).reshape(2, 4, 3, 3)
    check(aten.avg_pool2d_backward(g, IMAGE, [2, 2], [], [0, 0], False, True, None), lambda x: F.avg_pool2d(x, 2), g)
    check(aten.avg_pool2d_backward(g, IMAGE, [3, 3], [2, 2], [1, 1], False, False, 5),
          lambda x: F.avg_pool2d(x, 3, 2, 1, False, False, 5), g)
    g = rl.linspace(-1, 1, 2 * 4 * 20).reshape(2, 4, 4, 5)
    check(aten._adaptive_avg_pool2d_backward(g, IMAGE), lambda x: F.adaptive_avg_pool2d(x, (4, 5)), g)
    g = rl.linspace(-1, 1, 2 * 4 * 72).reshape(2, 4, 8, 9)
    check(aten.reflection_pad2d_backward(g, IMAGE, [1, 2, 1, 1]), lambda x: F.pad(x, (1, 2, 1, 1), mode="reflect"), g)
    g = rl.linspace(-1, 1, 2 * 4 * 108).reshape(2, 4, 9, 12)
    sizes = [9, 12], [2, 4, 6, 6]
    for mode, op in (("bilinear", aten.upsample_bilinear2d_backward), ("bicubic", aten.upsample_bicubic2d_backward)):
        check(op(g, *sizes, False), lambda x, mode=mode: F.interpolate(x, (9, 12), mode=mode), g)
    check(aten.upsample_nearest2d_backward(g, *sizes), lambda x: F.interpolate(x, (9, 12)), g)
    with pytest.raises(RuntimeError, match=r"\[9, 11\]"):
        aten.upsample_nearest2d_backward(g, [9, 11], [2, 4, 6, 6])


def test_views() -> None:
    g = rl.linspace(0, 1, 12).reshape(4, 3)
    rl.testing.assert_close(aten.slice_backward(g, [4, 6], 1, 1, 6, 2), slope(lambda x: x[:, 1:6:2], X, g))
    rl.testing.assert_close(aten.select_backward(g[:, 0], [4, 6], 1, 3), slope(lambda x: x[:, 3], X, g[:, 0]))
    line = g[:, 1]
    rl.testing.assert_close(aten.diagonal_backward(line, [4, 6], 1, 0, 1), slope(lambda x: x.diagonal(1), X, line))


def test_pytorch() -> None:
    """The same calls there."""
    torch = pytest.importorskip("torch")
    x, g = torch.tensor(X.tolist()), torch.tensor(G.tolist())
    for name, (_, rest) in ELEMENTS.items():
        theirs = getattr(torch.ops.aten, name)(g, x, *rest)
        rl.testing.assert_close(getattr(aten, name)(G, X, *rest), rl.tensor(theirs.tolist()))
