"""Optimizers inside of compiled functions: parameters and state change as in eager mode."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

import rushlight as rl
from rushlight import nn

OPTIMIZERS: dict[str, Callable] = {
    "SGD": lambda p: rl.optim.SGD(p, lr=0.1),
    "momentum": lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.9),
    "AdamW": lambda p: rl.optim.AdamW(p, lr=0.1),
    "RMSprop": lambda p: rl.optim.RMSprop(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("is_whole", [False, True])
def test_a_compiled_step_updates_as_eager_mode_does(name: str, is_whole: bool) -> None:
    rl.manual_seed(0)
    plain = nn.Linear(4, 3)
    other = copy.deepcopy(plain)
    x = rl.randn(5, 4)
    results = []
    for model, is_compiled in ((plain, False), (other, True)):
        optimizer = OPTIMIZERS[name](model.parameters())
        update = rl.compile(optimizer.step) if is_compiled and not is_whole else optimizer.step

        def train(x, model=model, optimizer=optimizer, update=update):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            update()
            return loss.detach()

        step = rl.compile(train) if is_compiled and is_whole else train
        results.append(rl.stack([step(x) for _ in range(4)]))
    assert (results[0][1:] < results[0][:-1]).all()
    rl.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)
    for a, b in zip(plain.parameters(), other.parameters(), strict=True):
        rl.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
