"""Fake tensors: shapes without data, symbolic sizes that hold for sizes nobody showed, and what they refuse."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings, strategies as st

import rushlight as rl
from rushlight.fake import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
    ShapeEnv,
    UnsupportedFakeTensorException,
    sym_max,
)
from rushlight.symbols.expression import number, symbol
from rushlight.symbols.ranges import least

F = rl.nn.functional

# Functions of one [a, b] tensor.
MATRICES = {
    "pointwise": lambda x: (x + 1) * x.exp(),
    "broadcast": lambda x: x * x.sum(0) + x.sum(1, keepdim=True),
    "product": lambda x: x @ x.T,
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (x.shape[-1],)),
    "flatten": lambda x: x.flatten(),
    "view": lambda x: x.view(-1, 1, x.shape[1]),
    "transpose": lambda x: x.t().contiguous(),
    "cat": lambda x: rl.cat([x, x, x.t().reshape(x.shape[0], -1)], 1),
    "stack": lambda x: rl.stack([x, x]),
    "narrow": lambda x: x[:, : x.shape[1] - 1],
    "half": lambda x: x[: x.shape[0] // 2],
    "repeat": lambda x: x.repeat(2, 3),
    "expand": lambda x: x.unsqueeze(0).expand(5, -1, -1),
    "pad": lambda x: F.pad(x, (1, 2)),
    "cumsum": lambda x: x.cumsum(0),
    "index": lambda x: x[0],
    "gather": lambda x: x.gather(1, rl.zeros(x.shape[0], 2, dtype=rl.int64)),
    "factory": lambda x: rl.zeros(x.shape[0], 2 * x.shape[1]),
    "like": lambda x: rl.ones_like(x),
    "reduce": lambda x: x.var(1),
    "argmax": lambda x: x.argmax(0),
    "einsum": lambda x: rl.einsum("ij,kj->ik", x, x),
    "linear": lambda x: F.linear(x, rl.ones(7, x.shape[1])),
}
IMAGES = {
    "conv": lambda x: F.conv2d(x, rl.ones(5, 3, 3, 3), padding=1, stride=2),
    "pool": lambda x: F.max_pool2d(x, 2),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
    "upsample": lambda x: F.interpolate(x, scale_factor=2),
    "norm": lambda x: F.group_norm(x, 3),
    "mean": lambda x: x.mean((2, 3)),
}


def traced(fn, shape, dynamic):
    """The result of `fn` on a fake tensor of a shape, with its environment."""
    env = ShapeEnv()
    fake = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    with rl.no_grad():
        x = fake.from_tensor(rl.empty(shape), dynamic_dims=dynamic)
        with fake:
            return fn(x), env


def evaluated(sizes, named):
    return tuple(s.expression.evaluate(named) if hasattr(s, "expression") else s for s in sizes)


@pytest.mark.parametrize("name", MATRICES)
def test_symbolic_sizes_hold_for_other_sizes(name):
    fn = MATRICES[name]
    out, env = traced(fn, (4, 6), (0, 1))
    assert isinstance(out, FakeTensor)
    held = 0
    for a, b in itertools.product((4, 5, 8, 9), (6, 7, 10)):
        sizes = dict(zip(env.hints, (a, b), strict=True))
        if env.holds_for(sizes):
            held += 1
            real = fn(rl.ones(a, b))
            assert evaluated(out.shape, sizes) == tuple(real.shape), (a, b, env.guards)
            assert evaluated(out.stride(), sizes) == real.stride(), (a, b, env.guards)
    assert held > 1, env.guards


@pytest.mark.parametrize("name", IMAGES)
def test_symbolic_images(name):
    fn = IMAGES[name]
    out, env = traced(fn, (2, 3, 8, 10), (0, 2, 3))
    held = 0
    for n, h, w in ((2, 8, 10), (5, 8, 10), (4, 12, 14), (3, 9, 11)):
        sizes = dict(zip(env.hints, (n, h, w), strict=True))
        if env.holds_for(sizes):
            held += 1
            assert evaluated(out.shape, sizes) == tuple(fn(rl.ones(n, 3, h, w)).shape), env.guards
    assert held > 1, env.guards


def test_guards_say_what_was_assumed():
    out, env = traced(lambda x: x.reshape(6, 4), (4, 6), (0, 1))
    assert [repr(g) for g in env.guards] == ["s0*s1 == 24"]
    assert tuple(out.shape) == (6, 4)
    assert not env.holds_for({"s0": 5, "s1": 6})
    _, env = traced(lambda x: x @ rl.ones(6, 2), (4, 6), (0, 1))
    assert not env.holds_for({"s0": 4, "s1": 7})
    assert env.holds_for({"s0": 9, "s1": 6})


def test_static_shapes_devices_and_dtypes():
    mode = FakeTensorMode()
    x = mode.from_tensor(rl.randn(3, 4).to(rl.bfloat16))
    y = (x + x).float()
    assert (tuple(y.shape), y.dtype, y.device.type) == ((3, 4), rl.float32, "cpu")
    with mode:
        z = rl.zeros(2, 3, device="cpu")
        assert isinstance(z, FakeTensor)
    assert "FakeTensor" in repr(z)


def test_the_device_that_is_asked_for():
    with FakeTensorMode():
        x = rl.zeros(3)
        for result in (rl.full_like(x, 2.0, device=x.device), rl.zeros_like(x, device="cpu"), rl.rand_like(x),
                       x.new_full((2,), 1.0, device=x.device), rl.full((2,), 3.0, device="cpu")):
            assert result.device.type == "cpu"
            result[:2].copy_(x[:2])
        assert rl.zeros_like(x, device="meta").device.type == "meta"


def test_gradients_without_data():
    mode = FakeTensorMode()
    w = mode.from_tensor(rl.randn(4, 5, requires_grad=True))
    x = mode.from_tensor(rl.randn(3, 4))
    loss = F.cross_entropy((x @ w).relu(), mode.from_tensor(rl.tensor([0, 1, 2])))
    loss.backward()
    assert isinstance(w.grad, FakeTensor)
    assert tuple(w.grad.shape) == (4, 5)


def test_what_only_elements_can_tell_is_refused():
    mode = FakeTensorMode()
    x = mode.from_tensor(rl.ones(3))
    for ask in (lambda: x.sum().item(), lambda: bool(x.sum() > 0), lambda: x.tolist(), lambda: x.numpy()):
        with pytest.raises(DataDependentOutputException):
            ask()
    with pytest.raises((NotImplementedError, RuntimeError)):
        x.nonzero()
    with pytest.raises(UnsupportedFakeTensorException, match="real tensor"):
        x + rl.ones(3)
    with pytest.raises(UnsupportedFakeTensorException, match="two modes"):
        x + FakeTensorMode().from_tensor(rl.ones(3))
    with pytest.raises(RuntimeError):
        x @ mode.from_tensor(rl.ones(4))


def test_views_share_and_in_place_keeps_the_object():
    mode = FakeTensorMode()
    x = mode.from_tensor(rl.ones(3, 4))
    assert x.add_(1) is x
    y = x.view(12)
    version = x._version
    y.mul_(2)
    assert x._version > version


@settings(deadline=None)
@given(st.integers(2, 9), st.integers(2, 9), st.integers(1, 5))
def test_expressions_evaluate_as_numbers(a, b, k):
    s, t = symbol("s"), symbol("t")
    sizes = {"s": a, "t": b}
    cases = {
        (s * t + number(k)) * s: (a * b + k) * a,
        (s * number(k)) // number(k): a,
        (s * t) // t: a,
        (s + number(k)) // t: (a + k) // b,
        (s * t + number(k)) % t: (a * b + k) % b,
        (s * number(k)) % number(k): 0,
        s.larger(t): max(a, b),
        s.smaller(s + number(k)): a,
        -s + number(k): k - a,
    }
    for expression, value in cases.items():
        assert expression.evaluate(sizes) == value
        bound = least(expression, lambda name: (2, None))
        assert bound is None or bound <= value
    assert (s * number(k)) // number(k) == s


def test_symbols_behave_as_integers():
    env = ShapeEnv()
    s, one = env.create_symbol(6), env.create_symbol(1)
    assert one == 1 and type(one) is int
    assert not isinstance(s, int) and repr(s * 2 - s) == "s0"
    assert s != 1 and s > 1 and not env.guards          # true for every size
    assert repr(sym_max(s, 10)) == "max(10, s0)"
    assert s == 6 and [repr(g) for g in env.guards] == ["s0 == 6"]
    assert sym_max(3, 4) == 4


def test_gradients_keep_device_and_symbols() -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    x = mode.from_tensor(rl.randn(5, 3, requires_grad=True))
    with mode:
        for loss in ((x[1:] * 2).mean(0).sum(), x.relu().sum()):
            (grad,) = rl.autograd.grad(loss, x)
            assert str(grad.device) == "cpu" and [str(s) for s in grad.shape] == ["s0", "s1"]
