"""Random programs as functions of the generator's state, and functional programs that draw."""

from __future__ import annotations

from itertools import pairwise

import pytest

import rushlight as rl
from rushlight.func import functionalize, grad, with_random_state
from rushlight.fx.experimental.proxy_tensor import make_fx

F = rl.nn.functional


def program(x):
    """Draws of all forms: a composite, factories, fills through a view, samples, and one with several results."""
    y = F.dropout(x, 0.5) + rl.rand(4)
    z = x.clone()
    z.normal_()
    z.view(2, 2).uniform_(1, 2)
    kept, mask = rl.native_dropout(x, 0.3, True)
    return y + z + rl.bernoulli(x.sigmoid()) + rl.randn_like(x) + rl.empty(4).exponential_(2.0) + kept + mask


def seeded(function, *args):
    """The result from a fixed seed on, and the state behind it."""
    rl.manual_seed(3)
    return function(*args), rl.get_rng_state()


@pytest.fixture
def x():
    return rl.linspace(-1, 1, 4)


def test_the_state_goes_in_and_comes_out(x):
    wanted, after = seeded(program, x)
    rl.manual_seed(3)
    state = rl.get_rng_state()
    rl.manual_seed(8)
    mine = rl.get_rng_state()
    for _ in range(2):      # nothing but the arguments counts
        result, left = with_random_state(program)(state, x)
        assert rl.equal(result, wanted) and rl.equal(left, after)
    assert rl.equal(rl.get_rng_state(), mine)      # the generator was neither asked nor moved
    again, _ = with_random_state(program)(left, x)
    assert not rl.equal(again, wanted)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_traced_program_is_a_chain_of_states(x, mode):
    wanted, after = seeded(program, x)
    rl.manual_seed(3)
    state = rl.get_rng_state()
    graph = make_fx(functionalize(with_random_state(program)), tracing_mode=mode)(state, x)
    calls = [n for n in graph.graph.nodes if n.op == "call_function"]
    steps = [n for n in calls if "_random_step" in str(n.target)]
    assert len(steps) == 8
    assert steps[0].args[0].op == "placeholder"
    for before, step in pairwise(steps):
        assert step.args[0].args[0] is before      # an item of what the step before returned
    writes = [str(n.target) for n in calls if str(n.target).partition(".")[2].partition(".")[0].endswith("_")]
    assert not writes, writes
    result, left = graph(state, x)
    assert rl.equal(result, wanted) and rl.equal(left, after)


def test_functionalized_programs_draw_anew_each_time(x):
    graph = make_fx(functionalize(program))(x)
    names = {str(n.target).partition(".")[2].partition(".")[0] for n in graph.graph.nodes if n.op == "call_function"}
    assert {"uniform", "normal_functional", "exponential", "randn_like", "rand", "bernoulli"} <= names
    assert not [name for name in names if name.endswith("_")]
    wanted, after = seeded(program, x)
    for function in (graph, functionalize(program)):
        result, left = seeded(function, x)
        assert rl.equal(result, wanted) and rl.equal(left, after)


@pytest.mark.parametrize("fill", [
    lambda t: t.uniform_(-1, 1), lambda t: t.normal_(1, 2), lambda t: t.log_normal_(), lambda t: t.cauchy_(),
    lambda t: t.exponential_(), lambda t: t.geometric_(0.3), lambda t: t.random_(), lambda t: t.random_(7),
    lambda t: t.random_(2, 9), lambda t: t.bernoulli_(0.4), lambda t: t.bernoulli_(rl.full((2, 1), 0.4)),
])
def test_every_fill_has_a_functional_form(fill):
    def written(x):
        y = x.t().clone()
        fill(y)
        return y

    x = rl.zeros(3, 2)
    wanted, after = seeded(written, x)
    result, left = seeded(functionalize(written), x)
    assert rl.equal(result, wanted) and rl.equal(left, after) and result.stride() == wanted.stride()
    rl.manual_seed(3)
    result, left = with_random_state(written)(rl.get_rng_state(), x)
    assert rl.equal(result, wanted) and rl.equal(left, after)


def test_examples_of_a_batch_draw_from_the_state():
    each = rl.vmap(lambda t: F.dropout(t, 0.5) + rl.rand(2), randomness="different")
    wanted, after = seeded(each, rl.ones(3, 2))
    rl.manual_seed(3)
    result, left = with_random_state(each)(rl.get_rng_state(), rl.ones(3, 2))
    assert rl.equal(result, wanted) and rl.equal(left, after)


def test_gradients_inside_and_generators_of_their_own(x):
    def slope(x):
        return grad(lambda t: (F.dropout(t, 0.5) * t).sum())(x)

    wanted, _ = seeded(slope, x)
    rl.manual_seed(3)
    state = rl.get_rng_state()
    assert rl.equal(with_random_state(slope)(state, x)[0], wanted)
    own = rl.Generator().manual_seed(1)
    numbers, left = with_random_state(lambda: rl.rand(3, generator=own))(state)
    assert rl.equal(numbers, rl.rand(3, generator=rl.Generator().manual_seed(1))) and rl.equal(left, state)


def test_refusals(x):
    state = rl.get_rng_state()
    with pytest.raises(TypeError, match="the generator's state"):
        with_random_state(program)(x, x)
    with pytest.raises(NotImplementedError, match="has a derivative"):
        with_random_state(lambda t: rl._standard_gamma(t))(state, rl.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="no random op"):
        rl.ops.aten._random_step(state, [x], "add", ())
