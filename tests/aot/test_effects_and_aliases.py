"""Compiled functions have the effects of eager ones: inputs written to, outputs that share memory, random numbers,
modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn


def compiled(f: Callable, **options: Any) -> Any:
    return rl.compile(f, fullgraph=True, backend="aot_eager", **options)


def both(f: Callable, *args: Any) -> tuple[Any, Any, list[Any], list[Any]]:
    """(eager result, compiled result, eager arguments after, compiled arguments after),
    from copies of the arguments."""
    first, second = (
        [a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, rl.Tensor) else a for a in args]
        for _ in range(2)
    )
    return f(*first), compiled(f)(*second), first, second


# --- inputs that are written to ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [
    lambda x: x.add_(1), lambda x: x.mul_(x), lambda x: x[1].zero_(), lambda x: x.t()[0].add_(2),
    lambda x: x.view(-1)[2:5].copy_(rl.ones(3)), lambda x: x.copy_(x.t() @ x), lambda x: F.relu(x, inplace=True),
    lambda x: x.fill_(3).sub_(1), lambda x: x.index_fill_(0, rl.tensor([1]), 7.0),
    lambda x: x.masked_fill_(x > 0, -1.0), lambda x: x.diagonal().fill_(0.5),
])
def test_inputs_are_written_to(write: Callable) -> None:
    def f(x: Any) -> Any:
        write(x)
        return x.sum()

    expected, got, (a,), (b,) = both(f, rl.randn(3, 3))
    assert rl.equal(a, b) and rl.allclose(expected, got)
    assert b._version > 0


def test_a_written_input_keeps_its_history() -> None:
    def f(x: Any, y: Any) -> Any:
        x.mul_(y)
        return x.sin()

    grads = []
    for run in (f, compiled(f)):
        w, y = rl.arange(3.0).requires_grad_(), rl.ones(3).mul(2).requires_grad_()
        x = w * 3
        out = run(x, y)
        grads.append(rl.autograd.grad(out.sum() + (x * x).sum(), (w, y)))
    for a, b in zip(*grads, strict=True):
        rl.testing.assert_close(b, a)


def test_a_buffer_gets_a_history() -> None:
    def f(buffer: Any, w: Any) -> None:
        buffer.copy_(w * 2)

    buffer, w = rl.zeros(3), rl.ones(3, requires_grad=True)
    compiled(f)(buffer, w)
    assert buffer.requires_grad
    assert rl.equal(rl.autograd.grad(buffer.sum(), w)[0], rl.full((3,), 2.0))


def test_a_saved_input_that_is_overwritten_is_kept() -> None:
    w = rl.randn(3, requires_grad=True)
    x = rl.randn(3)
    expected = rl.autograd.grad((x * w).exp().sum(), w)[0]
    for backend in ("aot_eager", "aot_eager_decomp_partition"):
        given = x.clone()
        out = rl.compile(_exp_then_clear, fullgraph=True, backend=backend)(given, w)
        assert rl.equal(given, rl.zeros(3))
        rl.testing.assert_close(rl.autograd.grad(out.sum(), w)[0], expected)


def _exp_then_clear(x: Any, w: Any) -> Any:
    kept = x.clone()
    x.zero_()
    return (kept * w).exp()


def test_layout_changed_in_place() -> None:
    def f(x: Any) -> Any:
        return x.t_().sum(0)

    a = rl.randn(2, 3)
    b = a.clone()
    expected, got = f(a), rl.compile(f, backend="aot_eager")(b)
    assert a.shape == b.shape and a.stride() == b.stride() and rl.equal(a, b) and rl.equal(expected, got)


def test_leaf_that_requires_grad_is_not_written_to() -> None:
    with pytest.raises(RuntimeError, match="leaf"):
        compiled(lambda x: x.add_(1))(rl.ones(2, requires_grad=True))


def test_parameters_are_stepped_inside() -> None:
    layer = nn.Linear(3, 2)
    start = layer.weight.detach().clone()

    @compiled
    def step(x: Any) -> Any:
        grads = rl.autograd.grad(layer(x).square().sum(), tuple(layer.parameters()))
        with rl.no_grad():
            for p, g in zip(layer.parameters(), grads, strict=True):
                p.sub_(g, alpha=0.1)
        return grads[0]

    g = step(rl.ones(1, 3))
    rl.testing.assert_close(layer.weight.detach(), start - 0.1 * g)
    step(rl.ones(1, 3))
    assert len(step._torchdynamo_orig_callable.__closure__) and not rl.equal(layer.weight, start - 0.1 * g)


# --- outputs that share memory ----------------------------------------------------------------------------------------


def test_outputs_that_are_inputs() -> None:
    x = rl.randn(3)
    out, again = compiled(lambda x: (x, {"a": x}))(x)
    assert out is x and again["a"] is x


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[1],
        lambda x: x.view(-1)[1:4],
        lambda x: x.detach(),
        lambda x: x.unsqueeze(0).expand(2, 3, 3),
    ],
)
def test_views_of_inputs(view: Callable) -> None:
    for wants in (False, True):
        w = rl.randn(3, 3, requires_grad=wants)
        x = w * 1
        expected, got = view(x), compiled(view)(x)
        assert rl.equal(expected, got) and got.data_ptr() == expected.data_ptr() and got.stride() == expected.stride()
        assert got.requires_grad == expected.requires_grad and got is not x
        if got.requires_grad:
            assert rl.equal(
                rl.autograd.grad(got.sum(), w, retain_graph=True)[0], rl.autograd.grad(expected.sum(), w)[0]
            )


def test_a_view_of_a_written_input() -> None:
    expected, got, (a,), (b,) = both(lambda x: x.add_(1)[0], rl.randn(2, 3))
    assert rl.equal(expected, got) and got.data_ptr() == b.data_ptr() and rl.equal(a, b)
    got.zero_()
    assert rl.equal(b[0], rl.zeros(3))


def test_outputs_that_share_memory_with_each_other() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        return y, y[0], y.t(), y

    x = rl.randn(2, 3, requires_grad=True)
    y, row, transposed, same = compiled(f)(x)
    assert same is y and row.data_ptr() == y.data_ptr() == transposed.data_ptr() and transposed.shape == (3, 2)
    g = rl.autograd.grad(y.sum() + row.sum() + transposed.sum(), x)[0]
    assert rl.equal(g, rl.tensor([[6.0] * 3, [4.0] * 3]))
    with rl.no_grad():
        y, row, _, _ = compiled(f)(x)
        row.zero_()
    assert rl.equal(y[0], rl.zeros(3))


def test_memory_shown_as_another_type_stays_shared() -> None:
    x = rl.randn(2, dtype=rl.complex64)
    compiled(lambda x: rl.view_as_real(x))(x).zero_()
    assert x.abs().sum() == 0


def test_shared_arguments_that_are_written_to() -> None:
    x = rl.zeros(4)

    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return b * 2

    run = compiled(f)
    assert rl.equal(run(x, x[:2]), rl.full((2,), 2.0))
    assert rl.equal(run(rl.ones(4), rl.ones(2)), rl.full((2,), 2.0))
    assert rl.equal(run(x, x[:2]), rl.full((2,), 4.0))


def test_repeated_arguments() -> None:
    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return a * b

    x = rl.ones(2)
    run = compiled(f)
    assert rl.equal(run(x, x), rl.full((2,), 4.0)) and rl.equal(x, rl.full((2,), 2.0))
    assert rl.equal(run(rl.ones(2), rl.ones(2)), rl.full((2,), 2.0))
    w = rl.ones(2, requires_grad=True)
    assert rl.equal(rl.autograd.grad(compiled(lambda a, b: (a * b).sum())(w, w), w)[0], rl.full((2,), 2.0))


# --- random numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition"])
@pytest.mark.parametrize("f", [
    lambda x: F.dropout(x, 0.5) * F.dropout(x.exp(), 0.3), lambda x: x * rl.rand_like(x) + rl.randn(3),
    lambda x: (x + x.clone().normal_()).bernoulli(0.5) + x,
    lambda x: F.rrelu(x, training=True) + rl.randint(0, 9, (3,)), lambda x: F.gumbel_softmax(x, tau=1.0),
    lambda x: F.feature_alpha_dropout(x, 0.3), lambda x: x[rl.randperm(4)],
    lambda x: F.dropout2d(x.view(2, 2, 3, 1)).sin(),
])
def test_one_seed_gives_the_same_numbers(f: Callable, backend: str) -> None:
    run = rl.compile(f, fullgraph=True, backend=backend)
    x = rl.rand(4, 3).requires_grad_()
    for seed in (0, 1):
        results = []
        for g in (f, run):
            rl.manual_seed(seed)
            out = g(x)
            # the generator is as far afterwards
            results.append((out, rl.autograd.grad(out.sum(), x)[0], rl.rand(1)))
        for a, b in zip(*results, strict=True):
            rl.testing.assert_close(b, a)


def test_draws_that_nothing_uses_still_move_the_generator() -> None:
    def f(x: Any) -> Any:
        rl.randn(5)
        return x * 2

    values = []
    for g in (f, compiled(f)):
        rl.manual_seed(0)
        g(rl.ones(1, requires_grad=True))
        values.append(rl.rand(1).item())
    assert values[0] == values[1]


# --- modes ------------------------------------------------------------------------------------------------------------


def test_training_flag_and_batch_norm() -> None:
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
    run = compiled(net)
    x = rl.randn(8, 3) * 3 + 1
    net.eval()
    assert rl.equal(run(x), net(x)) and int(net[0].num_batches_tracked) == 0
    run.train()
    run(x)
    assert int(net[0].num_batches_tracked) == 1 and net.training
    rl.testing.assert_close(net[0].running_mean, x.mean(0) * 0.1)


def test_no_grad_and_inference() -> None:
    w = rl.randn(3, requires_grad=True)
    run = compiled(lambda x: x * w)
    x = rl.ones(3)
    assert run(x).requires_grad
    with rl.no_grad():
        assert not run(x).requires_grad
    with rl.inference_mode():
        assert run(x).is_inference()
    assert run(x).requires_grad


def test_mixed_precision() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1))
    run = compiled(net)
    x = rl.randn(2, 4)
    with rl.autocast("cpu", dtype=rl.bfloat16):
        expected, got = net(x), run(x)
        assert got.dtype == expected.dtype and rl.equal(expected, got)
        g = rl.autograd.grad(net[0](x).sum(), net[0].weight)[0]
        assert rl.equal(rl.autograd.grad(compiled(net[0])(x).sum(), net[0].weight)[0], g)
    assert run(x).dtype is rl.float32


def test_twice_differentiated_is_refused() -> None:
    x = rl.randn(3, requires_grad=True)
    (g,) = rl.autograd.grad(compiled(lambda x: x.sin())(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="uncompiled"):
        g.sum().backward()
    (g,) = rl.autograd.grad(compiled(lambda x: (x**3).sum())(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="uncompiled"):     # asked for by name: the path to the input is there
        rl.autograd.grad(g.sum(), x)


def test_saved_tensor_hooks_see_what_is_kept() -> None:
    kept = []
    x = rl.randn(3, requires_grad=True)
    run = compiled(lambda x: x.sin().exp())
    with rl.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t.shape), t)[1], lambda t: t):
        out = run(x)
    assert kept and rl.allclose(rl.autograd.grad(out.sum(), x)[0], x.cos() * x.sin().exp())


def test_gradients_of_some_outputs_only() -> None:
    x, y = rl.randn(3, requires_grad=True), rl.randn(3, requires_grad=True)
    a, b = compiled(lambda x, y: (x.sin(), x * y))(x, y)
    rl.testing.assert_close(rl.autograd.grad(a.sum(), x)[0], x.cos())
    a, b = compiled(lambda x, y: (x.sin(), x * y))(x, y)
    b.sum().backward()
    rl.testing.assert_close(y.grad, x.detach())
