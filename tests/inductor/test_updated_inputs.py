"""Inputs that a compiled function writes to by index: written there, without a copy of the rest."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.inductor import in_place

WRITES = {
    "index_copy": lambda t, at, new: t.index_copy_(1, at, new),
    "index_put": lambda t, at, new: t.__setitem__((slice(None), at), new),
    "index_add": lambda t, at, new: t.index_add_(1, at, new),
    "scatter": lambda t, at, new: t.scatter_(1, at.view(1, -1, 1).expand_as(new), new),
}


@pytest.fixture
def written(monkeypatch):
    """How many inputs graphs write to."""
    found = []
    original = in_place.write_inputs

    def counted(reader, outputs, overwritten):
        result = original(reader, outputs, overwritten)
        found.append(sum([result[p] is None for p in overwritten]))
        return result

    monkeypatch.setattr("rushlight.inductor.compile_fx.write_inputs", counted)
    rl.inductor.settings.cache_graphs, before = False, rl.inductor.settings.cache_graphs
    yield found
    rl.inductor.settings.cache_graphs = before


@pytest.mark.parametrize("name", WRITES)
def test_the_input_has_its_new_values(name, written):
    def step(cache, at, new):
        WRITES[name](cache, at, new)
        return cache.sum(1) + new.sum()

    run, cache = rl.compile(step), rl.randn(2, 8, 4)
    expected = cache.clone()
    with rl.no_grad():
        for k in range(3):
            at, new, version = rl.tensor([k, k + 2]), rl.randn(2, 2, 4), cache._version
            assert rl.allclose(run(cache, at, new), step(expected, at, new))
            assert rl.equal(cache, expected) and cache._version > version
    assert written[0] == 1


def test_old_values_that_are_read_as_well_stay(written):
    def step(cache, at, new):
        before = cache * 2
        cache.index_copy_(0, at, new)
        return before, cache + 1

    run, cache = rl.compile(step), rl.arange(12.0).view(4, 3)
    expected, at, new = cache.clone(), rl.tensor([1]), rl.ones(1, 3)
    with rl.no_grad():
        for ours, wanted in zip(run(cache, at, new), step(expected, at, new), strict=True):
            assert rl.equal(ours, wanted)
    assert rl.equal(cache, expected) and written == [0]


def test_inputs_that_come_in_another_layout(written):
    run = rl.compile(lambda cache, at, new: cache.index_copy_(0, at, new))
    with rl.no_grad():
        for cache in (rl.zeros(4, 6), rl.zeros(6, 4).t(), rl.zeros(4, 12)[:, ::2], rl.zeros(8, 6)[1:5]):
            result = run(cache, rl.tensor([2]), rl.ones(1, 6))
            assert result is cache and cache.sum().item() == 6 and cache[2].sum().item() == 6


def test_a_write_for_the_backward_too_is_still_a_copy(written):
    def step(cache, at, new):
        cache.index_copy_(0, at, new)
        return (cache * new.sum()).sum()

    cache, new = rl.zeros(4, 3), rl.ones(1, 3, requires_grad=True)
    rl.compile(step)(cache, rl.tensor([1]), new).backward()
    assert cache[1].tolist() == [1.0, 1.0, 1.0] and new.grad.tolist() == [[6.0, 6.0, 6.0]]
