"""Attention with dropout whose noise two numbers name, in the form that holds all scores."""

from __future__ import annotations

import math

import pytest

import rushlight as rl

dropped = rl.ops.aten._attention_dropped


def drawn(*shape):
    return rl.randn(*shape, dtype=rl.float64, requires_grad=True)


@pytest.mark.parametrize("kind", ["plain", "causal", "mask", "shared heads"])
def test_gradients_go_through_the_same_noise(kind):
    rl.manual_seed(0)
    q, k, v = drawn(1, 2, 3, 4), *[drawn(1, 1 if kind == "shared heads" else 2, 5, 4) for _ in range(2)]
    mask = rl.rand(3, 5) > 0.3 if kind == "mask" else None
    seeds = rl.tensor([7, 0, 9, 0])
    assert rl.autograd.gradcheck(
        lambda q, k, v: dropped(q, k, v, seeds, 0.4, kind == "causal", attn_mask=mask)[0], (q, k, v)
    )


def test_without_noise_it_is_attention_and_the_seed_names_the_noise():
    rl.manual_seed(0)
    q, k, v = (rl.randn(2, 3, 16, 8) for _ in range(3))
    seeds = rl.tensor([5, 0, 1, 0])
    out, log = dropped(q, k, v, seeds, 1e-12)
    assert rl.allclose(out, rl.nn.functional.scaled_dot_product_attention(q, k, v), atol=1e-5)
    assert rl.allclose(log, (q @ k.mT / math.sqrt(8)).logsumexp(-1), atol=1e-5)
    one, same, other = (dropped(q, k, v, rl.tensor([s, 0, 1, 0]), 0.5)[0] for s in (5, 5, 6))
    assert rl.equal(one, same) and not rl.equal(one, other)
    many = rl.stack([dropped(q, k, v, rl.tensor([s, 0, 1, 0]), 0.3)[0] for s in range(400)])
    assert rl.allclose(many.mean(0), out, atol=0.25)
