"""One training program, run on PyTorch and on Rushlight with the same seed, takes the same path."""

from __future__ import annotations

import importlib

import pytest

pytest.importorskip("torch")

STEPS = 40


def train(name: str) -> list[float]:
    """Losses of a small network with layer norm, dropout, label smoothing, clipping and a hand-written Adam."""
    torch, functional = importlib.import_module(name), importlib.import_module(f"{name}.nn.functional")
    torch.manual_seed(0)
    inputs = torch.randn(256, 20)
    labels = (inputs[:, 0] * inputs[:, 1] > 0).long()
    shapes = [(20, 64), (64,), (64,), (64,), (64, 2), (2,)]
    params = [
        (torch.randn(*s) * 0.2 if len(s) == 2 else torch.ones(*s) * (i == 2)).requires_grad_()
        for i, s in enumerate(shapes)
    ]
    first = [torch.zeros_like(p) for p in params]
    second = [torch.zeros_like(p) for p in params]
    losses = []
    for step in range(1, STEPS + 1):
        chosen = torch.randperm(256)[:64]
        x, y = inputs[chosen], labels[chosen]
        w1, b1, scale, shift, w2, b2 = params
        hidden = functional.gelu(functional.layer_norm(x @ w1 + b1, (64,), scale, shift))
        hidden = hidden * (torch.rand(64, 64) > 0.1).float() / 0.9
        loss = functional.cross_entropy(hidden @ w2 + b2, y, label_smoothing=0.05)
        loss = loss + 1e-4 * sum(p.pow(2).sum() for p in params)
        for p in params:
            p.grad = None
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            norm = torch.stack([p.grad.norm() for p in params]).norm()
            clip = torch.clamp(1.0 / (norm + 1e-6), max=1.0)
            for p, m, v in zip(params, first, second, strict=True):
                g = p.grad * clip
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.999).addcmul_(g, g, value=0.001)
                p.addcdiv_(m / (1 - 0.9**step), (v / (1 - 0.999**step)).sqrt().add_(1e-8), value=-0.01)
    return losses


def test_same_seed_same_training_run():
    ours, theirs = train("rushlight"), train("torch")
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert ours[-1] < 0.75 * ours[0]
