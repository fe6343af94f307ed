"""Branches on elements that go as they do in the call at hand: one graph, checked, and eager code where it is wrong."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight._dynamo.exc import Unsupported
from rushlight.dynamo.record.counting import counters

BACKENDS = ["eager", "inductor"]
mixed, positive = torch.tensor([1.0, -2.0, 3.0, 4.0]), torch.tensor([1.0, 2.0, 3.0, 4.0])


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    counters.clear()


def returns_early(x):
    """Results of other types: no `where` can choose between them."""
    if (x > 0).all():
        return x.long()
    return x.sin() * 2


def returns_early_by_a_count(x):
    n = int((x > 0).sum())
    y = x * n
    return y + 1 if n > 3 else y[:1]


def squeezes(x):
    """Whether there is one decides how many dimensions there are."""
    return x[x > 3.7].squeeze() * 2


def writes_under_a_mask(x):
    result, mask = torch.full_like(x, float("nan"), device=x.device, dtype=x.dtype), x > 0
    if mask.any():
        result[mask] = x[mask].sqrt()
        result = result.clamp(max=1.5)
    return result


def in_a_callee(x):
    return returns_early(x + 1) * 2


def draws_and_writes(x):
    noise = torch.rand(4)
    x.add_(1)
    if (noise >= 0).all() and x.sum() > 9:
        return (x * noise).long()
    return noise


def same(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    torch.testing.assert_close(got, want, equal_nan=True)


PROGRAMS = [returns_early, returns_early_by_a_count, squeezes, writes_under_a_mask, in_a_callee, draws_and_writes]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS)
def test_one_graph_serves_calls_that_go_the_same_way(function, backend):
    fast = torch.compile(function, backend=backend)
    for scale in (1.0, 1.1, 1.2):
        torch.manual_seed(1)
        want, state = function(mixed * scale), torch.get_rng_state()
        torch.manual_seed(1)
        same(fast(mixed * scale), want)
        assert torch.equal(torch.get_rng_state(), state)
    assert not counters["graph_break"] and not counters["checks_failed"]
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", PROGRAMS)
def test_calls_that_go_another_way_are_as_they_are_uncompiled(function, backend):
    fast = torch.compile(function, backend=backend)
    for x in (mixed, positive * 4, mixed, -positive, positive * 4, positive * 4, mixed, -positive):
        given, again = x.clone(), x.clone()
        torch.manual_seed(1)
        want = function(given)
        torch.manual_seed(1)
        same(fast(again), want)
        assert torch.equal(given, again)


def test_what_goes_the_other_way_again_and_again_breaks_the_graph():
    fast = torch.compile(returns_early, backend="eager")
    for x in (mixed, positive, positive, positive, mixed):
        same(fast(x), returns_early(x))
    assert sum(counters["checks_failed"].values()) == 2 and "returns_early" in next(iter(counters["checks_failed"]))
    assert len(counters["graph_break"]) == 1


def test_what_goes_the_other_way_now_and_then_does_too():
    fast = torch.compile(returns_early, backend="eager")
    for _ in range(8):
        for x in (mixed, positive):
            same(fast(x), returns_early(x))
    assert 2 < sum(counters["checks_failed"].values()) < 8 and len(counters["graph_break"]) == 1


def test_the_first_call_changes_its_arguments_once():
    def program(x):
        x.mul_(2)
        return x.long() if x.sum() > 0 else x

    x = positive.clone()
    same(torch.compile(program, backend="eager")(x), (positive * 2).long())
    assert torch.equal(x, positive * 2) and not counters["graph_break"]


def test_whole_graphs_suppose_nothing():
    with pytest.raises(Unsupported, match="truth of a tensor"):
        torch.compile(returns_early, backend="eager", fullgraph=True)(mixed)


def test_loops_that_elements_end_are_not_unrolled():
    def doubles_while_small(x):
        while x.sum() < 100:
            x = x * 2
        return x

    def doubles_until_large(x):
        for _ in range(20):
            x = x * 2
            if x.sum() > 100:
                break
        return x

    for function in (doubles_while_small, doubles_until_large):
        torch._dynamo.reset()
        counters.clear()
        fast = torch.compile(function, backend="eager")
        for x in (positive, positive / 4, positive * 50):
            same(fast(x), function(x))
        assert counters["graph_break"] and not counters["checks_failed"]


def test_sorting_by_elements_supposes_no_order():
    def program(a, b):
        return torch.stack(sorted([a, b], key=lambda t: t.sum().item()))

    fast = torch.compile(program, backend="eager")
    for pair in ((mixed, positive), (positive, mixed)):
        same(fast(*pair), program(*pair))
    assert not counters["checks_failed"]
