"""Attention that programs write out is the op that holds no scores; what only looks like it stays as written."""

from __future__ import annotations

import math

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.inductor import compile_fx, settings

F = nn.functional
INF = -math.inf


@pytest.fixture
def ops(monkeypatch):
    """The ops of every graph that is compiled."""
    found: list[str] = []

    class Seen(compile_fx.Compiled):
        def __init__(self, description) -> None:
            super().__init__(description)
            found.extend([label.split("[")[1].split("]")[0] for label in self.labels])

    monkeypatch.setattr(compile_fx, "Compiled", Seen)
    monkeypatch.setattr(settings, "cache_graphs", False)
    return found


def heads(dtype=rl.float32, length=19, keys=None, width=16, batch=2, count=3):
    """Query, key and value as views of what a projection gives."""
    rl.manual_seed(0)
    keys = length if keys is None else keys
    joined = rl.randn(batch, max(length, keys), 3, count, width, dtype=dtype)
    q, k, v = joined.permute(2, 0, 3, 1, 4)
    return q[:, :, :length], k[:, :, :keys], v[:, :, :keys]


def check(f, ops, *args, fused=True, rtol=2e-5, atol=2e-6) -> None:
    """Values and gradients of the compiled function are those of the function, in type and layout too."""
    leaves = [[a.detach().clone(memory_format=rl.preserve_format).requires_grad_(a.is_floating_point()) for a in args]
              for _ in range(2)]
    expected, got = f(*leaves[0]), rl.compile(f, fullgraph=True)(*leaves[1])
    assert (got.dtype, got.shape, got.stride()) == (expected.dtype, expected.shape, expected.stride())
    rl.testing.assert_close(got, expected, rtol=rtol, atol=atol, equal_nan=True)
    for out in (expected, got):
        (out * rl.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)).sum().backward()
    for a, b in zip(*leaves, strict=True):
        if a.grad is not None:
            rl.testing.assert_close(b.grad, a.grad, rtol=rtol, atol=20 * atol, equal_nan=True)
    assert any("flash_attention" in name for name in ops) == fused
    assert any("softmax" in name for name in ops) != fused


def causal(q, k):
    return rl.ones(q.shape[-2], k.shape[-2]).tril()


def plain(q, k, v):
    return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1) @ v


def filled(q, k, v):
    scores = (q @ k.transpose(-2, -1)) * 0.3
    return F.softmax(scores.masked_fill(causal(q, k) == 0, INF), dim=-1) @ v


def joined_heads(q, k, v):
    scores = rl.matmul(q, k.mT) * 0.25
    y = rl.softmax(rl.where(causal(q, k) > 0, scores, INF), -1) @ v
    return y.transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)


def added(q, k, v):
    mask = rl.zeros(q.shape[0], 1, 1, k.shape[2])
    mask[:, :, :, -3:] = rl.finfo(rl.float32).min
    return (mask + 0.5 * (q @ k.transpose(2, 3))).softmax(dim=-1) @ v


def both(q, k, v):
    bias = rl.linspace(-1, 1, k.shape[2])
    scores = (q * 0.2) @ k.transpose(2, 3) + bias
    scores = scores.masked_fill(causal(q, k) == 0, INF)
    return F.dropout(scores.softmax(3), 0.1, training=False) @ v


@pytest.mark.parametrize("f", [plain, filled, joined_heads, added, both])
@pytest.mark.parametrize("sizes", [{}, {"length": 64, "width": 32}, {"length": 5, "keys": 33, "width": 7}])
def test_forms(ops, f, sizes) -> None:
    check(f, ops, *heads(**sizes))


def test_three_dims_and_doubles(ops) -> None:
    q, k, v = [t.reshape(6, 19, 16) for t in heads()]
    check(lambda q, k, v: rl.bmm((rl.bmm(q, k.transpose(1, 2)) / 4).softmax(-1), v), ops, q, k, v)
    ops.clear()
    check(filled, ops, *heads(rl.float64), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
def test_halves_are_no_less_exact(ops, dtype) -> None:
    def f(q, k, v):
        scores = (q @ k.transpose(-2, -1)) * 0.25
        return F.softmax(scores.masked_fill(causal(q, k) == 0, INF), dim=-1, dtype=rl.float32).to(q.dtype) @ v

    given = heads(dtype, length=64, width=32)
    exact = f(*[t.double() for t in given])
    with rl.no_grad():
        got = rl.compile(f)(*given)
    assert got.dtype is dtype
    assert (got.double() - exact).abs().max() <= (f(*given).double() - exact).abs().max()


def test_rows_of_which_nothing_is_visible_are_nan(ops) -> None:
    hidden = rl.zeros(2, 1, 19, 19, dtype=rl.bool)
    hidden[1, 0, 4] = True

    def f(q, k, v):
        return F.softmax((q @ k.transpose(-2, -1)).masked_fill(hidden, INF), dim=-1) @ v

    q, k, v = heads()
    with rl.no_grad():
        got = rl.compile(f)(q, k, v)
    rl.testing.assert_close(got, f(q, k, v), rtol=2e-5, atol=2e-6, equal_nan=True)
    assert got.isnan().any(-1).sum() == 3 and any("flash_attention" in name for name in ops)
    values = [v.clone().requires_grad_() for _ in range(2)]
    for function, own in zip((f, rl.compile(f)), values, strict=True):
        function(q, k, own).sum().backward()
    rl.testing.assert_close(values[1].grad, values[0].grad, rtol=2e-5, atol=2e-6, equal_nan=True)
    ops.clear()
    check(lambda q, k, v, m: (q @ k.mT + m).softmax(-1) @ v, ops, q, k, v, rl.zeros(19, 19), fused=False)
    ops.clear()
    with rl.no_grad():
        mask = rl.zeros(19, 19).masked_fill(hidden[1, 0], INF)
        rl.testing.assert_close(rl.compile(lambda q, k, v: (q @ k.mT + mask).softmax(-1) @ v)(q, k, v),
                                (q @ k.mT + mask).softmax(-1) @ v, equal_nan=True)
    assert any("flash_attention" in name for name in ops)


def test_nan_and_infinite_elements(ops) -> None:
    q, k, v = [t.clone() for t in heads()]
    q[0, 0, 3, 2], k[1, 1, 5, 1], v[0, 2, 0, 0] = math.nan, math.inf, math.inf
    with rl.no_grad():
        got = rl.compile(plain)(q, k, v)
    rl.testing.assert_close(got, plain(q, k, v), rtol=2e-5, atol=2e-6, equal_nan=True)
    assert any("flash_attention" in name for name in ops)


def weights_too(q, k, v):
    w = F.softmax(q @ k.transpose(-2, -1), dim=-1)
    return (w @ v) * w.sum()


def other_dim(q, k, v):
    return F.softmax(q @ k.transpose(-2, -1), dim=-2) @ v


def scaled_after(q, k, v):
    return F.softmax((q @ k.transpose(-2, -1) + causal(q, k)) * 3, dim=-1) @ v


def filled_with_a_number(q, k, v):
    return F.softmax((q @ k.transpose(-2, -1)).masked_fill(causal(q, k) == 0, -1e4), dim=-1) @ v


def repeated_heads(q, k, v):
    return F.softmax(q @ k[:, :1].transpose(-2, -1), dim=-1) @ v


def rounded(q, k, v):
    return F.softmax((q @ k.transpose(-2, -1)).bfloat16().float(), dim=-1) @ v


def written_between(q, k, v):
    own = k.clone()
    w = F.softmax(q @ own.transpose(-2, -1), dim=-1)
    own.mul_(2)
    return w @ v


def test_keys_that_are_written_to_before_the_end(ops) -> None:
    given = heads()
    with rl.no_grad():
        rl.testing.assert_close(rl.compile(written_between)(*given), written_between(*given))
    assert not any("flash_attention" in name for name in ops)


def unrecorded_weights(q, k, v):
    with rl.no_grad():
        w = F.softmax(q @ k.transpose(-2, -1), dim=-1)
    return w @ v


@pytest.mark.parametrize(
    "f", [weights_too, other_dim, scaled_after, filled_with_a_number, repeated_heads, rounded, unrecorded_weights])
def test_what_is_something_else_stays(ops, f) -> None:
    check(f, ops, *heads(), fused=False, rtol=1e-2 if f is rounded else 2e-5, atol=1e-3 if f is rounded else 2e-6)


def test_dropout_that_drops_stays(ops) -> None:
    def f(q, k, v):
        return F.dropout(F.softmax(q @ k.transpose(-2, -1), dim=-1), 0.5) @ v

    given = heads()
    rl.manual_seed(5)
    expected = f(*given)
    rl.manual_seed(5)
    rl.testing.assert_close(rl.compile(f)(*given), expected)
    assert not any("flash_attention" in name for name in ops)


def test_the_setting_and_sizes_that_vary(ops) -> None:
    q, k, v = heads()
    rl.testing.assert_close(rl.compile(plain, options={"fuse": False})(q, k, v), plain(q, k, v))
    assert not any("flash_attention" in name for name in ops)
    made = rl.compile(filled, dynamic=True)
    for length in (19, 23, 40):
        given = heads(length=length)
        rl.testing.assert_close(made(*given), filled(*given), rtol=2e-5, atol=2e-6)
    assert any("flash_attention" in name for name in ops)


def test_under_mixed_precision_and_no_grad(ops) -> None:
    given = heads(length=32, width=32)
    made = rl.compile(filled)
    with rl.no_grad():
        rl.testing.assert_close(made(*given), filled(*given), rtol=2e-5, atol=2e-6)
    with rl.autocast("cpu", dtype=rl.bfloat16):
        got, expected = made(*given), filled(*given)
    assert got.dtype is expected.dtype
    rl.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2)
