"""Layers keep only what their gradient reads: their output may be overwritten,
and is freed when nobody else holds it."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight

MAKERS = {
    "batch_norm": lambda lib: lib.nn.BatchNorm2d(4),
    "group_norm": lambda lib: lib.nn.GroupNorm(2, 4),
    "layer_norm": lambda lib: lib.nn.LayerNorm(6),
    "rms_norm": lambda lib: lib.nn.RMSNorm(6),
    "max_pool": lambda lib: lib.nn.MaxPool2d(2),
    "conv": lambda lib: lib.nn.Conv2d(4, 4, 3),
}


@pytest.mark.parametrize("name", MAKERS)
def test_activation_may_overwrite_the_output(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(3, 4, 6, 6).tolist()
    gradients = []
    for lib in (torch, rushlight):
        layer = MAKERS[name](lib)
        with lib.no_grad():
            for p in layer.parameters():
                p.copy_(lib.linspace(-0.5, 1, p.numel()).reshape(p.shape))
        leaf = lib.tensor(x, requires_grad=True)
        y = layer(leaf)
        y += 1
        y = lib.nn.functional.relu(y, inplace=True)
        (y * y).sum().backward()
        gradients.append([leaf.grad.tolist(), *(p.grad.tolist() for p in layer.parameters())])
    for theirs, ours in zip(*gradients, strict=True):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", MAKERS)
def test_output_is_not_held_by_the_graph(name: str) -> None:
    def leaves(value: Any) -> list[Any]:
        return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (tuple, list)) else [value]

    y = MAKERS[name](rushlight)(rushlight.randn(3, 4, 6, 6, requires_grad=True))
    saved = leaves(y.grad_fn._kept_values())
    assert not any(isinstance(value, rushlight.Tensor) and value.data_ptr() == y.data_ptr() for value in saved)
