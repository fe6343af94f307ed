"""The networks of the benchmarks, made small: the same seed gives the same weights and the same losses,
step after step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
networks = pytest.importorskip("benchmarks.networks")


def losses(t: Any, name: str) -> list[float]:
    t.manual_seed(0)
    F = t.nn.functional
    tokens = t.randint(0, 20, (2, 7))
    cases = {
        "mlp": lambda: (networks.mlp(t), t.randn(8, 16), lambda y: (y * y).mean()),
        "lstm": lambda: (
            networks.lstm_language_model(t, 20, 12),
            tokens,
            lambda y: F.cross_entropy(y.flatten(0, 1), tokens.flatten()),
        ),
        "resnet": lambda: (networks.resnet18(t), t.randn(3, 3, 16, 16), lambda y: F.cross_entropy(y, t.arange(3))),
        "unet": lambda: (
            networks.unet(t, 4),
            t.randn(2, 3, 16, 16),
            lambda y: F.cross_entropy(y, t.ones(2, 16, 16, dtype=t.int64)),
        ),
        "gpt": lambda: (
            networks.gpt(t, 2, 24, 3, 7, 20),
            tokens,
            lambda y: F.cross_entropy(y.flatten(0, 1), tokens.flatten()),
        ),
        "gpt with dropout": lambda: (
            networks.gpt(t, 1, 24, 3, 7, 20, 0.25),
            tokens,
            lambda y: F.cross_entropy(y.flatten(0, 1), tokens.flatten()),
        ),
        "bert": lambda: (networks.bert(t, 1, 24, 2, 20), tokens, lambda y: (y[0] * y[0]).mean() + y[1].sum()),
        "vit": lambda: (
            networks.vit(t, 1, 24, 3, 10),
            t.randn(2, 3, 224, 224),
            lambda y: F.cross_entropy(y, t.arange(2)),
        ),
    }
    model, x, loss_of = cases[name]()
    if name == "bert":
        model.eval()
    optimizer = (
        t.optim.AdamW(model.parameters(), lr=1e-3)
        if name != "resnet"
        else t.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    )
    result = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = loss_of(model(x))
        loss.backward()
        optimizer.step()
        result.append(float(loss.detach()))
    return result


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["mlp", "lstm", "resnet", "unet", "gpt", "gpt with dropout", "bert", "vit"])
def test_training_goes_as_in_pytorch(name: str) -> None:
    np.testing.assert_allclose(losses(rl, name), losses(torch, name), rtol=2e-3)


@pytest.mark.parametrize("name", ["bert", "vit"])
def test_inference_without_gradients(name: str) -> None:
    results = []
    for t in (torch, rl):
        t.manual_seed(0)
        model = networks.bert(t, 2, 32, 2, 20).eval() if name == "bert" else networks.vit(t, 2, 24, 3, 10).eval()
        x = t.randint(0, 20, (2, 9)) if name == "bert" else t.randn(2, 3, 224, 224)
        with t.no_grad():
            result = model(x)
        results.append([r.numpy() for r in (result if isinstance(result, tuple) else (result,))])
    for theirs, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
