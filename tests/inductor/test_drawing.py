"""Random numbers between kernels are drawn without Python, and are those of eager mode."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.inductor import compile_fx

F = nn.functional
PROGRAMS = {
    "dropout": lambda x: F.dropout(x, 0.3) + 1,
    "two of them": lambda x: F.dropout(x, 0.5) * F.dropout(x.exp(), 0.1),
    "channels": lambda x: F.dropout2d(x.view(2, 8, -1, 4), 0.3).sin(),
    "coins": lambda x: rl.empty_like(x).bernoulli_(0.2) * x,
    "coins of bytes": lambda x: rl.empty(33, 7, dtype=rl.uint8).bernoulli_(0.7),
    "columns first": lambda x: rl.empty_like(x.t()).bernoulli_().exp(),
    "uniform": lambda x: x.clone().uniform_(-2, 3) * 2,
    "like another": lambda x: rl.rand_like(x.t()) + rl.randn_like(x.double()).t(),
    "normal": lambda x: rl.empty_like(x).normal_(1, 0.5) + x.double().normal_().float(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_are_those_of_eager_mode(name: str, monkeypatch) -> None:
    graphs, plain = [], compile_fx.Compiled
    monkeypatch.setattr(compile_fx, "Compiled", lambda description: graphs.append(plain(description)) or graphs[-1])
    f, x = PROGRAMS[name], rl.randn(32, 20)
    fast = rl.compile(f, fullgraph=True, options={"cache_graphs": False})
    fast(x)
    (graph,) = graphs
    assert graph.calls == () and not any(callable(step.kernel) for step in graph.steps)
    found = []
    for run in (f, fast):
        rl.manual_seed(3)
        rl.rand(5)                      # in the middle of a block of numbers
        drawn = [run(x), run(x)]
        found.append((drawn, rl.get_rng_state()))
    (expected, after), (got, state) = found
    assert all(rl.equal(a, b) for a, b in zip(expected, got, strict=True)) and rl.equal(after, state)
    assert not rl.equal(*got)


def test_generators_of_the_program_are_asked() -> None:
    own = rl.Generator().manual_seed(5)
    fast = rl.compile(lambda x: x.clone().bernoulli_(0.5, generator=own))
    rl.manual_seed(0)
    before, x = rl.get_rng_state(), rl.ones(100)
    got = fast(x)
    assert rl.equal(rl.get_rng_state(), before)
    own.manual_seed(5)
    assert rl.equal(got, x.clone().bernoulli_(0.5, generator=own))


def test_what_a_law_refuses_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"p to be in \[0, 1\]"):
        rl.compile(lambda x: x.clone().bernoulli_(1.5) * 2)(rl.ones(4))


def test_training_steps_draw_new_masks() -> None:
    rl.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4))
    fast, x = rl.compile(model), rl.randn(8, 16)
    found = []
    for run in (model, fast):
        rl.manual_seed(7)
        results = []
        for _ in range(3):
            model.zero_grad()
            run(x).square().sum().backward()
            results += [p.grad.clone() for p in model.parameters()]
        found.append(results)
    for expected, got in zip(*found, strict=True):
        rl.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
