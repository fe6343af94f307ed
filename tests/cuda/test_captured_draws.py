"""Random numbers in CUDA graphs, and compiled graphs that are replayed: they go on from run to run as eager mode's do.
Kernels are run by a CPU, generators and replays on a simulated driver, and whole programs on a card."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.nvptx import philox, philox_walks
from rushlight.devices.cuda import random_sources
from tests.cuda.test_philox import INTEGERS, LANES, SAMPLERS, on_card, run as run_nest
from tests.cuda.test_simulated_driver import CC, driver, run

pytestmark = pytest.mark.share(2)   # of each test that has several cases

__all__ = ["driver"]
simulated = pytest.mark.skipif(CC is None or sys.platform != "linux", reason="needs a C compiler")

# What a CPU can run: laws of float32 take instructions of a GPU's.
FILLS = [("uniform", "f32"), ("bernoulli", "f32"), ("spread", "f32"), ("kept", "b1"), ("range", "i64"),
         ("wide_range", "i64"), ("bits64", "i64"),
         *[(law, "f64") for law in ("uniform", "normal", "log_normal", "exponential", "cauchy")]]
ONE = np.float64(1.0).view(np.int64)


def same_from_memory(nest, arrays, params, extent):
    """A kernel that is given counter 7 and a seed, and one that finds 5 and the seed in memory and is given 2."""
    at, seed = nest.params.index("counter"), nest.params.index("seed")
    params[at], params[seed] = 7, 42
    expected = run_nest(nest, [a.copy() for a in arrays], params, extent)
    params[at], params[seed] = 2, 0
    start, given = np.array([5, 42]), [a.copy() for a in arrays]
    run_nest(philox.from_memory(nest), [*given, start], params, extent)
    assert given[-1].tolist() == expected and start.tolist() == [5, 42]
    assert any(expected) or not arrays[-1].size


@pytest.mark.parametrize(("law", "code"), FILLS)
def test_seed_and_counter_are_found_in_memory(law, code):
    out = np.zeros(300, {"f32": np.float32, "f64": np.float64, "i64": np.int64, "b1": np.bool_}[code])
    first, second = (10, 0) if code == "i64" else (int(np.float64(0.4).view(np.int64)), int(ONE))
    same_from_memory(philox.fill_nest(law, code), [out], [300, LANES, 0, 0, first, second], LANES)


def test_other_kernels_find_them_too():
    keep = int(np.float64(0.75).view(np.int64))
    same_from_memory(philox.dropout_nest(4), [np.zeros(300, np.bool_)], [300, 512, 0, 0, keep, 0], 75)
    p = np.full(300, 0.4, np.float32)
    nest = philox.bernoulli_nest("f32", "f32", False)
    same_from_memory(nest, [p, np.zeros(300, np.float32)], [300, 0, 0, 0, 0, 0], 75)
    counts, chances = np.full(300, 8.0), np.full(300, 0.3)
    block = philox_walks.BLOCK
    same_from_memory(philox_walks.binomial_nest("f64"), [counts, chances, np.zeros(300)], [300, 0, 0], block)
    keys = np.zeros(30, np.int64)
    same_from_memory(philox_walks.island_nest(), [keys, np.arange(30)], [30, 0, 0], 30)


def test_texts_take_one_operand_more():
    for text in (random_sources.fill_source("normal"), random_sources.poisson_source("f32")):
        changed = random_sources.from_memory(text)
        assert changed.count("const long long* start, long long n,") == 1
        assert changed.count("seed = start[1], counter += start[0];") == 1


@simulated
def test_replays_move_generators(driver):
    run(driver, """
generator, other = rl.cuda.default_generators[0], rl.Generator("cuda").manual_seed(9)
rl.manual_seed(3)
g = rl.cuda.CUDAGraph()
g.register_generator_state(other)

def work():
    y = rl.rand(1000, device="cuda")
    F.dropout(y, 0.5), rl.randperm(100, device="cuda"), rl.multinomial(y, 5, True)
    rl.rand(3, device="cuda", generator=other)

work()
moved = generator.get_offset()
assert other.get_offset() == 4
with rl.cuda.graph(g):
    work()
assert generator.get_offset() == moved and other.get_offset() == 4      # nothing ran
for k in range(2, 5):
    g.replay()
    assert generator.get_offset() == k * moved and other.get_offset() == 4 * k
state = rl.cuda.get_rng_state()
g.replay()
rl.cuda.set_rng_state(state)
assert generator.get_offset() == 4 * moved
rl.manual_seed(4)
g.replay()
assert generator.get_offset() == moved and generator.initial_seed() == 4
for wrong in (rl.Generator(), 3):
    try:
        g.register_generator_state(wrong)
    except TypeError:
        continue
    raise SystemExit("no generator of a GPU")
""")


@simulated
def test_seeds_lie_where_nothing_captured_writes(driver):
    run(driver, """
from rushlight.devices.cuda import captures
x, g = rl.ones(40, 50, device="cuda"), rl.cuda.CUDAGraph()
own, seen = rl.Generator("cuda"), []
with rl.cuda.graph(g):
    for k in range(30):
        y = x * k
        seen += [y.data_ptr() + 8 * n for n in range(y.numel() // 2)]
        del y                                            # whose memory serves what comes next
    rl.rand(3, device="cuda")
    rl.rand(3, device="cuda", generator=own)
    for k in range(30):
        y = x.sum(1)
        seen += [y.data_ptr() + 8 * n for n in range(20)]
        del y
places = [d.memory.data_ptr() for d in g._drawn]
assert len(places) == 2 == len(set(places)) and not set(places) & set(seen)
""")


@simulated
def test_states_are_kept_and_restored_inside_a_capture(driver):
    run(driver, """
generator = rl.cuda.default_generators[0]
rl.manual_seed(3)
rl.rand(3, device="cuda")
outside = rl.cuda.get_rng_state()
rl.rand(3, device="cuda")
g = rl.cuda.CUDAGraph()
with rl.cuda.graph(g):
    state = rl.cuda.get_rng_state()
    rl.rand(5000, device="cuda")
    rl.cuda.set_rng_state(state)
    rl.rand(3, device="cuda")
    rl.rand(3, device="cuda")
assert generator.get_offset() == 8
g.replay()
assert generator.get_offset() == 16
for wrong in (lambda: rl.manual_seed(7), lambda: rl.cuda.set_rng_state(outside)):
    try:
        with rl.cuda.graph(rl.cuda.CUDAGraph()):
            wrong()
            rl.rand(3, device="cuda")
    except RuntimeError as error:
        assert "cuda.graph: the generator" in str(error)
    else:
        raise SystemExit("no replay could repeat that")
    assert not rl.cuda.is_current_stream_capturing()
    assert generator.get_offset() == 16 and generator.initial_seed() == 3
""")


COUNTED = """
def replays(f, *args):
    before = count(LAUNCHES)
    result = f(*args)
    return result, (count(LAUNCHES) - before) // 1000      # the simulated driver counts a graph as a thousand

x = rl.arange(40.0).reshape(10, 4).cuda()
"""


@simulated
def test_graphs_that_draw_are_replayed(driver):
    run(driver, COUNTED + """
generator = rl.cuda.default_generators[0]
net = rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.Dropout(0.5), rl.nn.ReLU(), rl.nn.Linear(8, 2)).cuda()
called = rl.compile(net, mode="reduce-overhead")

def step():
    called(x).square().mean().backward()
    net.zero_grad()

offsets, found = [generator.get_offset()], []
for _ in range(16):
    found.append(replays(step)[1])
    offsets.append(generator.get_offset())
assert found[-1] == 2, found                              # forward and backward
assert {b - a for a, b in zip(offsets, offsets[1:])} == {4}, offsets
""")


@simulated
def test_compiled_dropout_is_the_sampler_of_eager_mode(driver):
    run(driver, """
from rushlight.devices.cuda import random
drawn, plain, at_once = [], random.dropout, random.dropped

def dropout(device, out, generator, input, keep):
    drawn.append((out.dtype, out.stride(), input.dtype, tuple(input.shape), keep))
    return plain(device, out, generator, input, keep)

def dropped(device, outs, generator, input, keep, scale):
    drawn.append((outs[1].dtype, outs[1].stride(), input.dtype, tuple(input.shape), keep))
    return at_once(device, outs, generator, input, keep, scale)

random.dropout, random.dropped = dropout, dropped
for dtype in (rl.float32, rl.bfloat16, rl.float64):
    x = rl.ones(2, 8, 4, 4, device="cuda", dtype=dtype).to(memory_format=rl.channels_last).requires_grad_()
    for f in (lambda x: F.dropout(x * 2, 0.3) + 1, lambda x: rl.native_dropout(x.sin(), 0.1, True)[0]):
        drawn.clear()
        f(x)
        eager = list(drawn)
        drawn.clear()
        rl.compile(f, fullgraph=True)(x).sum().backward()
        assert len(eager) == 1 and drawn == eager, (eager, drawn)
""")


@simulated
def test_results_that_are_held_are_moved_before_a_replay(driver):
    run(driver, COUNTED + """
called = rl.compile(lambda x: (x + 1, x * 2), mode="reduce-overhead")
for _ in range(5):
    called(x)
(first, other), times = replays(called, x)
shown, at = first.view(-1)[3:], first.data_ptr()
del other
before = count(LAUNCHES)
second, _ = called(x)
assert count(LAUNCHES) == before + 1001                   # a copy of what is held, and the graph
assert second.data_ptr() == at != first.data_ptr() and shown.data_ptr() == first.data_ptr() + 12
kept, times = [], []
for _ in range(5):
    result, n = replays(called, x)
    kept.append(result)
    times.append(n)
assert times == [1] * 5 and len({t.data_ptr() for pair in kept for t in pair}) == 10
large = rl.empty(1 << 25, device="cuda")
called = rl.compile(lambda x: x + 1, mode="reduce-overhead")
for _ in range(5):
    called(large)
kept, times = replays(called, large)
address = kept.data_ptr()
assert times == 1
assert replays(called, large)[1] == 0 and kept.data_ptr() == address      # not worth a copy
""")


@simulated
def test_what_else_is_replayed(driver):
    run(driver, COUNTED + """
def settles(f, *args):
    for _ in range(20):
        times = replays(f, *args)[1]
    return times

quick = {"mode": "reduce-overhead"}
called = rl.compile(lambda x: (x * 2).sum(-1), dynamic=True, **quick)
for size in (3, 5, 7):                                    # a graph for each size
    assert settles(called, rl.ones(size, 4).cuda()) == 1
assert replays(called, rl.ones(5, 4).cuda())[0].shape == (5,)
options = {"triton.cudagraphs": True, "triton.cudagraph_skip_dynamic_graphs": True}
assert settles(rl.compile(lambda x: x * 2, dynamic=True, options=options), x) == 0
total = rl.zeros(()).cuda()

def mutates(x):
    total.add_(x.sum())
    return x * total

version = total._version
assert settles(rl.compile(mutates, **quick), x) == 1 and total._version == version + 20
assert settles(rl.compile(lambda x, s: x * s, **quick), x, rl.tensor(2.0)) == 1
called = rl.compile(lambda x, s: x * s, **quick)
assert [settles(called, x, s) for s in (2.0, 3.0, 4.0)] == [1, 1, 1]

def broken(x):
    y = x.sin()
    rl._dynamo.graph_break()
    return y.cos()

assert settles(rl.compile(broken, **quick), x) == 2
net = rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.Dropout(0.5), rl.nn.BatchNorm1d(8)).cuda()
for reentrant in (True, False):
    checkpoint, called = rl.utils.checkpoint.checkpoint, rl.compile(net, **quick)
    given = x.clone().requires_grad_()

    def step():
        checkpoint(called, given, use_reentrant=reentrant).sum().backward()
        net.zero_grad()

    assert settles(step) == 3, reentrant                  # forward, again, backward
rl.compiler.cudagraph_mark_step_begin()
""")


@on_card
@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_captured_numbers_are_those_of_eager_mode(sampler, name):
    captured_equals_eager(lambda: SAMPLERS[sampler](rl, 5000, getattr(rl, name)))


@on_card
@pytest.mark.parametrize("sampler", [*INTEGERS, "randperm", "poisson", "gamma", "binomial", "multinomial"])
def test_captured_integers_and_walks_are_those_of_eager_mode(sampler):
    given = rl.rand(40, 50, device="cuda") * 4 + 0.5
    walks = {
        "randperm": lambda: rl.randperm(3000, device="cuda"), "poisson": lambda: rl.poisson(given),
        "gamma": lambda: rl._standard_gamma(given), "binomial": lambda: rl.binomial(given.ceil() * 9, given / 8),
        "multinomial": lambda: rl.multinomial(given, 20, True),
    }
    captured_equals_eager(walks.get(sampler) or (lambda: INTEGERS[sampler](rl, 5000, rl.int64)))


def captured_equals_eager(draw):
    rl.manual_seed(5)
    expected = [(draw(), draw()) for _ in range(3)]
    rl.manual_seed(5)
    graph = rl.cuda.CUDAGraph()
    with rl.cuda.graph(graph):
        found = draw(), draw()
    for eager in expected:
        graph.replay()
        for a, b in zip(found, eager, strict=True):
            assert rl.equal(a, b)
    assert not rl.equal(expected[0][0], expected[1][0])


def trained(compiled, steps, checkpointed=False):
    """Losses and weights of a small network with dropout, and the generator's state."""
    rl.manual_seed(11)
    net = rl.nn.Sequential(
        rl.nn.Linear(32, 64), rl.nn.Dropout(0.3), rl.nn.ReLU(), rl.nn.Linear(64, 64), rl.nn.Dropout(0.1),
        rl.nn.Linear(64, 4),
    ).cuda()
    optimizer = rl.optim.SGD(net.parameters(), lr=0.05)
    x = rl.randn(16, 32, device="cuda")
    called = rl.compile(net, mode="reduce-overhead") if compiled else net
    losses = []
    for k in range(steps):
        if k == steps // 2:
            rl.manual_seed(99)
        if k == steps - 5:
            state = rl.cuda.get_rng_state()
        if k == steps - 2:
            rl.cuda.set_rng_state(state)
        run_it = rl.utils.checkpoint.checkpoint if checkpointed else lambda f, *a, **_: f(*a)
        loss = run_it(called, x, use_reentrant=False).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        rl.rand(7, device="cuda")                       # others draw in between
    return rl.stack(losses).cpu(), [p.detach().cpu() for p in net.parameters()], rl.cuda.get_rng_state()


@on_card
@pytest.mark.parametrize("checkpointed", [False, True])
def test_training_with_replays_draws_what_eager_mode_draws(checkpointed):
    rl.use_deterministic_algorithms(True)
    try:
        eager, replayed = trained(False, 40, checkpointed), trained(True, 40, checkpointed)
    finally:
        rl.use_deterministic_algorithms(False)
    assert rl.equal(eager[2], replayed[2])
    # Masks are the same bit for bit; sums are taken in another order by fused kernels.
    assert rl.allclose(eager[0], replayed[0], rtol=1e-4), (eager[0] - replayed[0]).abs().max()
    for a, b in zip(eager[1], replayed[1], strict=True):
        assert rl.allclose(a, b, rtol=1e-3, atol=1e-5)


@on_card
def test_replayed_masks_are_eager_modes_bit_for_bit():
    x = rl.ones(1 << 16, device="cuda", dtype=rl.bfloat16)
    masked = lambda x: rl.nn.functional.dropout(x * 1.5, 0.25) + rl.rand_like(x)      # noqa: E731
    called, found = rl.compile(masked, mode="reduce-overhead"), []
    for function in (masked, called):
        rl.manual_seed(21)
        kept = []
        for k in range(60):
            if k == 30:
                rl.manual_seed(22)
            kept.append(function(x))
        found.append(kept)
    for a, b in zip(*found, strict=True):
        assert rl.equal(a, b)
