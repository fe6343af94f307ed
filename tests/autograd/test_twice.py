"""A second backward pass over a graph: only what was saved of tensors, and freed, is missed.

Each program says whether it can be walked twice without `retain_graph`; where PyTorch is installed, so does PyTorch,
and for the samples of every op record of it as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl

TWICE = {
    "sum": "x.sum()",
    "mean": "x.mean()",
    "neg": "(-x).sum()",
    "add": "(x + 1 + x).sum()",
    "add tensor": "(x + T.ones(3, 4)).sum()",
    "sub alpha": "T.sub(x, x, alpha=2).sum()",
    "cat": "T.cat([x, x]).sum()",
    "stack": "T.stack([x, x]).sum()",
    "expand": "x[None].expand(2, 3, 4).sum()",
    "permute": "x.permute(1, 0).t().T.sum()",
    "views": "x.view(-1)[2:5].unsqueeze(0).sum()",
    "slices": "x[1:, ::2].sum()",
    "casts": "x.double().half().float().sum()",
    "clone": "x.clone().contiguous().sum()",
    "unbind": "sum(x.unbind()).sum()",
    "split": "sum(x.split(1)).sum()",
    "cumsum": "x.cumsum(0).sum()",
    "flip": "x.flip(0).roll(1).sum()",
    "repeat": "x.repeat(2, 2).sum()",
    "pad": "T.nn.functional.pad(x, (1, 1)).sum()",
    "diagonal": "x.diagonal().sum()",
    "tril": "x.tril().sum()",
    "round": "x.round().sum()",
    "interpolate": "T.nn.functional.interpolate(x[None, None], scale_factor=2).sum()",
}
ONCE = {
    "mul": "(x * x).sum()",
    "mul number": "(x * 2).sum()",
    "mul tensor": "(x * T.ones(3, 4)).sum()",
    "div number": "(x / 3).sum()",
    "div": "(3 / x).sum()",
    "exp": "x.exp().sum()",
    "pow": "(x ** 2).sum()",
    "relu": "x.relu().sum()",
    "matmul": "(x @ T.ones(4, 2)).sum()",
    "linear": "T.nn.functional.linear(x, T.ones(2, 4)).sum()",
    "softmax": "x.softmax(0).sum()",
    "max": "x.max()",
    "max along": "x.max(0)[0].sum()",
    "where": "T.where(x > 0, x, 0.0).sum()",
    "masked_fill": "x.masked_fill(x > 0, 1).sum()",
    "index": "x[[0, 1]].sum()",
    "index behind": "x[:, [0, 1]].sum()",
    "gather": "x.gather(0, T.zeros(1, 4, dtype=T.int64)).sum()",
    "std": "x.std()",
    "norm": "x.norm()",
    "prod": "x.prod()",
    "clamp": "x.clamp(0).sum()",
    "loss": "T.nn.functional.mse_loss(x, T.zeros(3, 4))",
    "fft": "T.fft.fft(x).abs().sum()",
    "conv": "T.nn.functional.conv1d(x[None], T.ones(1, 3, 2)).sum()",
}


def loss_of(T: Any, text: str) -> tuple[Any, Any]:
    """(leaf, loss) of a program."""
    leaf = T.arange(1.0, 13.0).view(3, 4).requires_grad_()
    return leaf, eval(text, {"T": T, "x": leaf})


def passes(T: Any, text: str) -> int:
    """How many of two backward passes go through."""
    leaf, loss = loss_of(T, text)
    loss.backward()
    once = leaf.grad.clone()
    try:
        loss.backward()
    except RuntimeError as error:
        assert "second time" in str(error) and "retain_graph=True" in str(error)
        return 1
    assert T.equal(leaf.grad, 2 * once)
    return 2


@pytest.mark.parametrize("name", TWICE)
def test_graphs_that_saved_no_tensor_run_again(name: str) -> None:
    assert passes(rl, TWICE[name]) == 2


@pytest.mark.parametrize("name", ONCE)
def test_graphs_that_saved_tensors_do_not(name: str) -> None:
    assert passes(rl, ONCE[name]) == 1


def test_pytorch_says_so_too() -> None:
    torch = pytest.importorskip("torch")
    assert {name: passes(torch, text) for name, text in TWICE.items()} == dict.fromkeys(TWICE, 2)
    assert {name: passes(torch, text) for name, text in ONCE.items()} == dict.fromkeys(ONCE, 1)


def test_two_losses_on_one_trunk() -> None:
    x = rl.ones(3, requires_grad=True)
    trunk = x + 1
    (trunk * 2).sum().backward()
    trunk.sum().backward()
    assert x.grad.tolist() == [3.0] * 3
    trunk = x * x
    (trunk + 1).sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        trunk.sum().backward()


def test_gradients_asked_for_twice() -> None:
    x = rl.ones(3, requires_grad=True)
    loss = x.sum()
    for _ in range(3):
        assert rl.autograd.grad(loss, x)[0].tolist() == [1.0] * 3
    a, b = rl.ones(3, requires_grad=True), rl.ones(3, requires_grad=True)
    loss = rl.addcmul(a, x.detach(), b).sum()
    rl.autograd.grad(loss, a)
    with pytest.raises(RuntimeError, match="second time"):   # what `a` needs is there, but the node gave up the rest
        rl.autograd.grad(loss, a)


def test_hooks_run_again() -> None:
    x = rl.ones(3, requires_grad=True)
    seen: list[float] = []
    middle = x + 1
    middle.register_hook(lambda g: seen.append(g.sum().item()))
    middle.retain_grad()
    loss = middle.sum()
    loss.backward()
    loss.backward()
    assert seen == [3.0, 3.0] and middle.grad.tolist() == [2.0] * 3


def scaled(*, saves: bool, reads: bool) -> Callable:
    """A function of a user that doubles, and may save its input, and may read what was saved."""

    class Double(rl.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            if saves:
                ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if reads:
                assert len(ctx.saved_tensors) == saves
            return g * 2

    return Double.apply


@pytest.mark.parametrize("saves", [False, True])
@pytest.mark.parametrize("reads", [False, True])
def test_functions_of_users(saves: bool, reads: bool) -> None:
    x = rl.ones(3, requires_grad=True)
    loss = scaled(saves=saves, reads=reads)(x).sum()
    loss.backward()
    if not reads:
        loss.backward()
        assert x.grad.tolist() == [4.0] * 3
    else:   # its context was freed, whether there was something in it or not
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


def test_a_write_into_a_part_cannot_be_undone_twice() -> None:
    x = rl.ones(3, requires_grad=True)
    y = x + 1
    y[0] = 5.0
    loss = y.sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_compiled_graphs_run_once() -> None:
    x = rl.ones(3, requires_grad=True)
    loss = rl.compile(lambda x: x.sum())(x)
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_what_is_no_tensor_can_still_be_read() -> None:
    x = rl.ones(3, 4, requires_grad=True)
    y = x.cumsum(1)
    node = y.grad_fn
    y.sum().backward()
    assert node._saved_dim == 1


def test_memory_of_saved_tensors_is_given_back() -> None:
    import weakref

    x = rl.ones(3, requires_grad=True)
    factor = rl.ones(3)
    kept = weakref.ref(factor)
    loss = (x * factor).sum()
    del factor
    assert kept() is not None
    loss.backward()
    assert kept() is None
