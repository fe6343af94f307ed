"""Generators (seeds, states, forks, threads), refusals, and gradients around samplers, against PyTorch's."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest

import rushlight

torch = pytest.importorskip("torch")

from tests.random_parity import assert_same, dtype_of, raw, state_of, to_rushlight  # noqa: E402

# --- generators -------------------------------------------------------------------------------------------------------


def test_seeds():
    for seed in (0, 1, -1, 2**63, 2**64 - 1, -(2**63), 2**32 + 5):
        assert rushlight.manual_seed(seed).initial_seed() == torch.manual_seed(seed).initial_seed()
        assert rushlight.initial_seed() == torch.initial_seed()
        assert state_of(rushlight) == state_of(torch)
    assert rushlight.Generator().initial_seed() == torch.Generator().initial_seed()
    assert raw(rushlight.Generator().get_state()) == raw(torch.Generator().get_state())
    assert rushlight.Generator("cpu").device == rushlight.device("cpu")
    drawn = rushlight.seed()
    assert rushlight.initial_seed() == drawn and rushlight.seed() != drawn


def test_bad_seeds():
    g = rushlight.Generator()
    for bad, error in (
        (2**64, ValueError),
        (-(2**63) - 1, ValueError),
        (1.5, RuntimeError),
        ("a", RuntimeError),
        (True, RuntimeError),
    ):
        with pytest.raises(error):
            torch.Generator().manual_seed(bad)
        with pytest.raises(error):
            g.manual_seed(bad)
    with pytest.raises(RuntimeError):
        g.get_offset()
    with pytest.raises(RuntimeError):
        g.set_offset(3)
    with pytest.raises(NotImplementedError):
        g.graphsafe_get_state()
    with pytest.raises(RuntimeError):
        rushlight.Generator("meta")


@pytest.mark.parametrize("draws", [0, 1, 3, 300, 700])
def test_states_travel_both_ways(draws):
    theirs = torch.Generator().manual_seed(9)
    torch.rand(draws, generator=theirs)
    torch.randn(3, generator=theirs)
    ours = rushlight.Generator().set_state(to_rushlight(theirs.get_state()))
    assert raw(ours.get_state()) == raw(theirs.get_state())
    assert raw(rushlight.randn(5, generator=ours)) == raw(torch.randn(5, generator=theirs))
    back = torch.Generator().set_state(torch.frombuffer(bytearray(raw(ours.get_state())), dtype=torch.uint8))
    assert raw(rushlight.randn(700, dtype=rushlight.float64, generator=ours)) == raw(
        torch.randn(700, dtype=torch.float64, generator=back)
    )


def test_bad_states():
    g = rushlight.Generator()
    before = raw(g.get_state())
    cases = [(rushlight.zeros(5), TypeError), (rushlight.zeros(5, dtype=rushlight.uint8), RuntimeError),
             (rushlight.zeros(5056, dtype=rushlight.uint8), RuntimeError), (b"123", TypeError)]
    for bad, error in cases:
        with pytest.raises(error):
            g.set_state(bad)
    broken = g.get_state()
    broken[8], broken[16], broken[17] = 255, 88, 2  # 254 words left from word 600 on: past the block
    with pytest.raises(RuntimeError):
        g.set_state(broken)
    assert raw(g.get_state()) == before


def test_clone_pickle_and_copy_continue_the_stream():
    g = rushlight.Generator().manual_seed(4)
    rushlight.randn(3, generator=g)
    copies = [g.clone_state(), pickle.loads(pickle.dumps(g)), copy.deepcopy(g), copy.copy(g)]
    want = raw(rushlight.randn(20, generator=g))
    assert all(raw(rushlight.randn(20, generator=c)) == want for c in copies)
    assert all(c.initial_seed() == 4 for c in copies)


def test_fork_rng():
    rushlight.manual_seed(1)
    before = state_of(rushlight)
    with rushlight.random.fork_rng():
        rushlight.randn(100)
        assert state_of(rushlight) != before
    assert state_of(rushlight) == before
    with pytest.raises(ValueError), rushlight.random.fork_rng(devices=[]):
        rushlight.rand(3)
        raise ValueError
    assert state_of(rushlight) == before
    with rushlight.random.fork_rng(enabled=False):
        rushlight.rand(3)
    assert state_of(rushlight) != before
    if not rushlight.cuda.is_available():   # as in PyTorch, where programs catch it
        with pytest.raises(AssertionError, match="CUDA"), rushlight.random.fork_rng(devices=[0]):
            pass
    with pytest.raises(RuntimeError), rushlight.random.fork_rng(device_type="nothing"):
        pass


def test_generator_argument_leaves_the_default_alone():
    g = rushlight.Generator().manual_seed(7)
    before = state_of(rushlight)
    x = rushlight.zeros(5)
    for f in (lambda: rushlight.rand(3, generator=g), lambda: x.normal_(generator=g),
              lambda: rushlight.randperm(5, generator=g), lambda: rushlight.randint(3, (2,), generator=g),
              lambda: rushlight.poisson(x.zero_() + 1, g), lambda: rushlight.rand_like(x, generator=g),
              lambda: rushlight.multinomial(x + 1, 3, True, generator=g),
              lambda: rushlight.bernoulli(x, 0.5, generator=g)):
        state = raw(g.get_state())
        f()
        assert raw(g.get_state()) != state
    assert state_of(rushlight) == before
    with pytest.raises(TypeError):
        rushlight.rand(3, generator=3)


def test_threads_share_one_stream():
    rushlight.manual_seed(0)
    want = sorted(rushlight.rand(800).tolist())
    rushlight.manual_seed(0)
    drawn: list[list[float]] = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda mine=mine: mine.extend(rushlight.rand(1).item() for _ in range(200)))
        for mine in drawn
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(value for mine in drawn for value in mine) == want


# --- refusals ---------------------------------------------------------------------------------------------------------

REFUSED = [
    "t.zeros(3).uniform_(1, 0)", "t.zeros(3).uniform_(float('nan'), 1)", "t.zeros(3).uniform_(0, float('inf'))",
    "t.zeros(3).uniform_(-3e38, 3e38)", "t.zeros(3, dtype=t.half).uniform_(0, 70000)",
    "t.zeros(3, dtype=t.int64).uniform_()", "t.zeros(3, dtype=t.bool).uniform_()", "t.zeros(3).expand(2, 3).uniform_()",
    "t.zeros(3).expand(2, 3).normal_()", "t.zeros(3).normal_(0, -1)", "t.zeros(3, dtype=t.int64).normal_()",
    "t.zeros(3).log_normal_(0, 0)", "t.zeros(3).cauchy_(0, 0)", "t.zeros(3, dtype=t.int64).log_normal_()",
    "t.zeros(3, dtype=t.int64).cauchy_()", "t.zeros(3).exponential_(0)",
    "t.zeros(3, dtype=t.int64).exponential_()", "t.zeros(3, dtype=t.complex64).exponential_()",
    "t.zeros(3).geometric_(0)", "t.zeros(3).geometric_(1)", "t.zeros(3, dtype=t.bool).geometric_(0.5)",
    "t.zeros(3, dtype=t.complex64).geometric_(0.5)", "t.zeros(3).bernoulli_(1.5)",
    "t.zeros(3).bernoulli_(float('nan'))", "t.zeros(3, dtype=t.complex64).bernoulli_()",
    "t.zeros(3).bernoulli_(t.tensor([0.1, 0.2]))", "t.zeros(3).bernoulli_(t.tensor([2.0]))",
    "t.zeros(3).bernoulli_(t.tensor([1]))", "t.zeros(3).bernoulli_(t.zeros(2, 3))",
    "t.bernoulli(t.zeros(3, dtype=t.int64))", "t.bernoulli(t.zeros(3) + 2)",
    "t.zeros(3).random_(5, 5)", "t.zeros(3).random_(5, 3)", "t.zeros(3).random_(0)",
    "t.zeros(3, dtype=t.int64).random_(0, 2**63)", "t.zeros(3, dtype=t.bool).random_(0, 3)",
    "t.zeros(3, dtype=t.complex64).random_()", "t.zeros(3, dtype=t.complex64).random_(0, 5)",
    "t.zeros(3, dtype=t.uint8).random_(0, 257)", "t.zeros(3, dtype=t.uint8).random_(-1, 25)",
    "t.zeros(3, dtype=t.half).random_(0, 70000)", "t.zeros(3, dtype=t.int32).random_(0, 2**31 + 1)",
    "t.zeros(3, dtype=t.uint16).random_()", "t.zeros(3).random_(1.5, 3)",
    "t.zeros(3, dtype=t.uint64).random_(0, None)", "t.zeros(3, dtype=t.float16).random_(-2**63, None)",
    "t.zeros(3, dtype=t.int32).random_(-2**63, None)", "t.randint(0, 5, (3,), dtype=t.complex64)",
    "t.randint(5, 0, (3,))", "t.randint(0, 300, (3,), dtype=t.uint8)", "t.randint(5, 3)",
    "t.randint(0, 5, (3,), requires_grad=True)", "t.randint(0, 5, (3,), out=t.zeros(0), dtype=t.int32)",
    "t.rand(3, dtype=t.int32)", "t.rand(-1)", "t.rand()", "t.rand(2.5)",
    "t.rand(3, out=t.zeros(0, dtype=t.double), dtype=t.float32)", "t.rand(3, out=t.zeros(3, requires_grad=True))",
    "t.rand_like(t.zeros(3, dtype=t.int64))", "t.randn(3, dtype=t.int32)", "t.normal(0.0, 1.0, 3)",
    "t.normal(0.0, 1.0)", "t.normal(0, -1, (3,))", "t.normal(t.zeros(3), t.ones(2))",
    "t.normal(t.zeros(3), -t.ones(3))", "t.normal(t.zeros(3), -1)", "t.normal(t.zeros(3, dtype=t.int64), t.ones(3))",
    "t.normal(t.zeros(3), t.ones(3, dtype=t.complex64))", "t.randperm(-1)",
    "t.randperm(257, dtype=t.uint8)", "t.randperm(129, dtype=t.int8)", "t.randperm(2050, dtype=t.half)",
    "t.randperm(3, dtype=t.bool)", "t.randperm(3, dtype=t.complex64)", "t.randperm(3.0)",
    "t.poisson(t.zeros(3, dtype=t.int64))", "t.poisson(-t.ones(3))",
    "t.poisson(t.full((2,), float('nan')))", "t._standard_gamma(t.zeros(3, dtype=t.half))",
    "t._sample_dirichlet(t.zeros(3, dtype=t.half))", "t.binomial(t.ones(3), t.ones(2))",
    "t.binomial(t.ones(3, dtype=t.int64), t.ones(3))", "t.binomial(t.ones(3), t.ones(3).double())",
    "t.multinomial(-t.ones(3), 2)", "t.multinomial(-t.ones(3), 2, True)",
    "t.multinomial(t.tensor([1.0, float('inf')]), 1)", "t.multinomial(t.tensor([1.0, float('inf')]), 2, True)",
    "t.multinomial(t.tensor([1.0, float('nan')]), 2, True)", "t.multinomial(t.tensor([0.0, 0.0]), 2, True)",
    "t.multinomial(t.ones(3), 4)", "t.multinomial(t.ones(3), 0)", "t.multinomial(t.ones(3, 0), 2, True)",
    "t.multinomial(t.ones(2, 3, 4), 2)", "t.multinomial(t.ones(3, dtype=t.int64), 2)",
    "t.multinomial(t.ones(3), 2, out=t.zeros(0))", "t.dropout(t.ones(3), 1.5, True)",
    "t.feature_dropout(t.ones(3), 0.5, True)", "t.rrelu(t.ones(3), 0.3, 0.2, True)",
    "t.zeros(3, requires_grad=True).uniform_()", "t.set_rng_state([1])",
]


@pytest.mark.parametrize("code", REFUSED)
def test_refused_as_pytorch_refuses(code):
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - its type is what we compare with
        eval(code, {"t": torch})
    with pytest.raises(theirs.type):
        eval(code, {"t": rushlight})


def test_imprecise_bounds_warn_and_draw_as_pytorch():
    cases = (
        ("float32", 2**24 + 5, 2**24 + 7),
        ("float32", -(2**30), -(2**30) + 100),
        ("float16", 0, 60000),
        ("bfloat16", 3, 1001),
        ("float64", 1, 2**62),
    )
    for dtype, low, high in cases:
        with pytest.warns(UserWarning):
            assert_same(lambda t, d=dtype, a=low, b=high: t.zeros(50, dtype=dtype_of(t, d)).random_(a, b))


# --- autograd, other devices ------------------------------------------------------------------------------------------


def test_gradients_end_at_a_fill():
    x = rushlight.ones(4, requires_grad=True)
    y = x * 2
    y.uniform_()
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 0]
    with rushlight.no_grad():
        x.normal_()
    assert rushlight.rand(3, requires_grad=True).requires_grad
    p = rushlight.full((4,), 0.5, requires_grad=True)
    rushlight.bernoulli(p).sum().backward()
    assert p.grad.tolist() == [0, 0, 0, 0]


def test_fill_counts_as_a_write():
    x = rushlight.ones(4, requires_grad=True)
    y = x.exp()
    z = y * y
    with rushlight.no_grad():
        y.normal_()
    with pytest.raises(RuntimeError):
        z.sum().backward()


def test_dropout_scales_gradients_by_its_noise():
    x = rushlight.ones(100, requires_grad=True)
    y = rushlight.dropout(x, 0.25, True)
    y.sum().backward()
    assert raw(x.grad) == raw(y)


def test_rrelu_scales_gradients_by_its_slopes():
    x = rushlight.full((20,), -1.0, requires_grad=True)
    y = rushlight.rrelu(x, 0.1, 0.9, True)
    y.sum().backward()
    assert raw(x.grad) == raw(-y)


def test_meta_draws_nothing():
    before = state_of(rushlight)
    assert rushlight.rand(3, device="meta").is_meta
    assert rushlight.zeros(3, device="meta").normal_().is_meta
    assert rushlight.randperm(3, device="meta").dtype is rushlight.int64
    assert state_of(rushlight) == before


def test_functional_dropout_draws_the_same_mask():
    x, results = [1.0] * 64, []
    for library in (rushlight, torch):
        library.manual_seed(7)
        results.append(library.nn.functional.dropout(library.tensor(x), 0.3).tolist())
    assert results[0] == results[1]
    kept = rushlight.ones(8)
    assert rushlight.nn.functional.dropout(kept, training=False) is kept
    assert rushlight.nn.functional.dropout(kept, 1.0, inplace=True) is kept and float(kept.sum()) == 0
