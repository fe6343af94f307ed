"""Pointwise ops behind a product run in its kernel, where nobody else reads the product."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.inductor import compile_graph, settings

F = nn.functional


def compiled(f, *tensors):
    """What the graph of `f` gives, and whether ops run in its products."""
    result = compile_graph(make_fx(f, tracing_mode="fake", _own_ops=True)(*tensors), list(tensors))
    got = result(list(tensors))
    return got, [label for label in result.description.labels if label.startswith("product[")]


def joined(f, *tensors) -> bool:
    """Whether ops were joined to a product; the results are eager mode's to the last bit."""
    got, products = compiled(f, *tensors)
    expected = f(*[t.clone() for t in tensors])
    expected = expected if isinstance(expected, tuple) else (expected,)
    for g, e in zip(got, expected, strict=True):
        assert g.shape == e.shape and g.stride() == e.stride() and rl.equal(g, e)
    return bool(products)


@pytest.fixture
def tensors():
    rl.manual_seed(0)
    return rl.randn(3, 250, 40), rl.randn(90, 40), rl.randn(90)


@pytest.mark.parametrize("then", [rl.relu, F.gelu, lambda y: y.tanh() * 0.5 + 1, lambda y: y.clamp(-1, 1).neg()])
def test_activations_behind_products(tensors, then) -> None:
    x, w, b = tensors
    flat = x.flatten(0, 1)
    assert joined(lambda x, w, b: then(F.linear(x, w, b)), x, w, b)
    assert joined(lambda x, w: then(F.linear(x, w)), x, w)
    assert joined(lambda x, w: then(x @ w.t()), flat, w)
    assert joined(lambda x, w, b: then(rl.addmm(b, x, w.t())), flat, w, b)


def test_rows_of_numbers_are_read_there(tensors) -> None:
    x, w, b = tensors
    assert joined(lambda x, w, b: F.linear(x, w) * b + b.exp(), x, w, b)
    assert joined(lambda x, w, b: F.linear(x, w, b) * b.sum(), x, w, b)


def test_results_of_other_types(tensors) -> None:
    x, w, b = tensors
    assert joined(lambda x, w, b: F.linear(x, w, b).relu().double(), x, w, b)
    assert joined(lambda x, w, b: F.linear(x, w, b) > 0, x, w, b)


def test_what_others_read_stays_apart(tensors) -> None:
    x, w, b = tensors
    assert not joined(lambda x, w, b: (F.linear(x, w, b), F.linear(x, w, b).relu()), x, w, b)
    assert not joined(lambda x, w, b: F.linear(x, w, b).relu() @ F.linear(x, w, b).transpose(1, 2), x, w, b)
    assert not joined(lambda x, w, r: F.linear(x, w) + r, x, w, rl.randn(3, 250, 90))
    assert not joined(lambda x, w: F.linear(x, w).relu(), rl.randn(4, 5), rl.randn(6, 5))


def test_nothing_joins_without_fusion(tensors, monkeypatch) -> None:
    monkeypatch.setattr(settings, "fuse", False)
    assert not joined(lambda x, w, b: F.linear(x, w, b).relu(), *tensors)


def test_what_is_written_in_between_is_read_before(tensors) -> None:
    x, w, b = tensors

    def program(x, w, b):
        product = F.linear(x, w, b)
        scale = b.mul_(2).sum()
        return product.relu() * scale

    assert rl.equal(compiled(program, x, w, b.clone())[0][0], program(x, w, b.clone()))


def test_weights_may_change_between_calls() -> None:
    model = nn.Sequential(nn.Linear(40, 90), nn.GELU(), nn.Linear(90, 70), nn.ReLU()).eval()
    fast, x = rl.compile(model), rl.randn(1000, 40)
    with rl.no_grad():
        for _ in range(3):
            assert rl.equal(fast(x), model(x))
            model[0].weight.mul_(-0.5)
            model[2].bias.add_(1)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_gradients_of_a_transformer(activation) -> None:
    rl.manual_seed(1)
    model = nn.Transformer(32, 4, 1, 1, 256, dropout=0.0, activation=activation, batch_first=True)
    fast = rl.compile(model)
    source, target = rl.randn(8, 32, 32, requires_grad=True), rl.randn(8, 40, 32, requires_grad=True)
    found = []
    for run in (model, fast):
        model.zero_grad()
        source.grad = target.grad = None
        run(source, target).square().sum().backward()
        found.append([source.grad.clone(), target.grad.clone(), *[p.grad.clone() for p in model.parameters()]])
    for expected, got in zip(*found, strict=True):
        rl.testing.assert_close(got, expected, rtol=1e-4, atol=1e-3)
