"""Small branches on elements of which both sides are computed, and one chosen."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.dynamo.record.counting import counters

high, low = torch.tensor([3.0, 4.0, 5.0]), torch.tensor([-3.0, 0.5, 1.0])


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    counters.clear()


def normalized(x, how="sigmoid"):
    if not torch.all((x >= 0) * (x <= 1)):
        x = x.sigmoid() if how == "sigmoid" else torch.softmax(x, dim=0)
    return x


def as_it_is(x):
    return normalized(x) > 0.5


def with_softmax(x):
    return normalized(x, "softmax") * 2


def with_else(x):
    if x.sum() > 5:
        y = x * 2
        z = y + 1
    else:
        z = x.cos()
    return z.exp()


def by_expression(x):
    return (x.sin() if x.max() > 3 else x.cos()) + 1


def with_a_condition_inside(x):
    y, n = x * 2, 3
    if x.min() < 0:
        if n > 2:
            y = y.abs()
    return y.sum()


def two_of_them(x):
    if x.sum() > 5:
        x = x - 1
    if x.min() < 0:
        x = x + 3
    return x * 2


def returns_early(x):
    if x.sum() > 5:
        if x.ndim == 1:
            return x.sin()
        return x.tan()
    y = x.cos()
    return y * 2


def calls_what_returns_early(x):
    return returns_early(x * 2) + returns_early(x / 4)


def returns_several(x):
    if x.sum() > 5:
        return x.sin(), 3, (x * 2, 0.5)
    return x.cos(), 3, (x * 4, 0.5)


def largest(x):
    return x / max(x.max() - x.min(), x.sum(), x[0]) + min([x[0], x[1]])


WHOLE = [largest, as_it_is, with_softmax, with_else, by_expression, with_a_condition_inside, two_of_them,
         returns_early, calls_what_returns_early, returns_several]


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("function", WHOLE, ids=lambda f: f.__name__)
def test_both_ways_from_one_graph(function, backend):
    fast = torch.compile(function, backend=backend, fullgraph=True)
    for x in (high, low, low / 8 + 0.5, high):
        torch.testing.assert_close(fast(x), function(x))
    assert counters["stats"]["unique_graphs"] == 1


def test_nan_is_true():
    def f(x):
        if x[0]:
            x = x + 1
        return x * 2

    fast = torch.compile(f, backend="eager", fullgraph=True)
    for x in (torch.tensor([float("nan"), 1.0]), torch.tensor([0.0, 1.0]), torch.tensor([2.0, 1.0])):
        torch.testing.assert_close(fast(x), f(x), equal_nan=True)


def leaves(x):
    return normalized(x)


def leaves_as_a_view(x):
    return normalized(x)[1:]


def is_written_to(x):
    y = normalized(x)
    y += 1
    return y.sum()


def other_is_written_to(x):
    y = normalized(x)
    x += 1
    return y.sum()


def is_asked_for(x):
    return x * 2 if normalized(x) is x else x * 3


def largest_leaves(x):
    return max(x[0], x[1])


def largest_is_written_to(x):
    y = max(x[0], x[1])
    y += 1
    return x * 2


def draws(x):
    if x.sum() > 5:
        x = x + torch.rand(3)
    return x * 2


def drops(x):
    if x.sum() > 5:
        x = torch.nn.functional.dropout(x, 0.5)
    return x * 2


def looks_up(x):
    if x.max() < 3:
        x = x[(x > 0).long() + (x > 2).long() * 7]      # out of range for others
    return x * 2


def divides_integers(x):
    n = x.long()
    if n.min() > 0:
        n = n // n
    return n * 2


def writes(x):
    y = x * 1
    if x.sum() > 5:
        y.add_(1)
    return y * 2


seen = []


def appends(x):
    if x.sum() > 5:
        seen.append(1)
    return x * len(seen)


def differ_in_size(x):
    if x.sum() > 5:
        x = x[1:]
    return x * 2


def differ_in_type(x):
    y = x
    if x.sum() > 5:
        y = x.double()
    return y * 2


def differ_in_kind(x):
    n = 1
    if x.sum() > 5:
        n = 2.5
    return (x * n).sin().cos() + x.exp()


def returns_from_a_block(x):
    with torch.no_grad():
        if x.sum() > 5:
            return x * 2
        return x * 3


def returns_itself(x):
    if x.sum() > 5:
        return x
    return x * 2


def returns_a_number(x):
    if x.sum() > 5:
        return x * 2
    return torch.tensor(1.0)


def bound_on_one_side(x):
    if x.sum() > 5:
        y = x * 2
    return y


REFUSED = [largest_leaves, largest_is_written_to, leaves, leaves_as_a_view, is_written_to, other_is_written_to,
           is_asked_for, draws, drops, looks_up, divides_integers, writes, appends, differ_in_size, differ_in_type,
           differ_in_kind, bound_on_one_side, returns_from_a_block, returns_itself, returns_a_number]


def outcome(function, x):
    seen.clear()
    torch.manual_seed(1)
    x = x.clone()
    try:
        result = function(x)
        found = result is x, result.tolist(), result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    except UnboundLocalError as error:
        found = type(error)
    return found, x.tolist(), list(seen), torch.get_rng_state().tolist()


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_a_program_could_tell_breaks(function, without_suppositions):
    fast = torch.compile(function, backend="eager")
    for x in (high, low, low / 8 + 0.5, high):
        assert outcome(fast, x) == outcome(function, x)
    assert counters["graph_break"]


def test_gradients_break(without_suppositions):
    """What was not chosen must give no gradient: sqrt at 0 would give infinity times zero."""
    def f(x):
        y = x
        if x.min() > 0:
            y = x.sqrt()
        return (y * 2).sum()

    fast = torch.compile(f, backend="eager")
    for x in (torch.tensor([0.0, 1.0]), torch.tensor([4.0, 1.0])):
        grads = []
        for function in (f, fast):
            leaf = x.clone().requires_grad_()
            function(leaf).backward()
            grads.append(leaf.grad.tolist())
        assert grads[0] == grads[1]
    assert counters["graph_break"]
