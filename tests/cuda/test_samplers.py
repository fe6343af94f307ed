"""Samplers of several draws: the kernels run by a CPU against numbers that PyTorch 2.11 drew on an H200 from seed 42,
and on a card every sampler against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.nvptx.philox_walks import BLOCK, binomial_nest, choice_nest, island_nest
from rushlight.devices.cuda import half_sums, sources
from rushlight.devices.cuda.random_walks import network

from .samplers import PROGRAMS, drawn, same
from .test_philox import run

# What is made of exact numbers by functions that round otherwise. Without NVRTC also: functions of doubles, `pow` of
# float32, and numbers of events between the rates 64 and 4000, whose law is in cuRAND's headers.
NEAR = ("StudentT", "VonMises", "dirichlet float32", "dirichlet float64")
NEAR_WITHOUT = ("normal_ float64", "exponential_ float64", "cauchy_ float64", "log_normal_ float64", "randn complex128",
                "gamma", "dirichlet", "Beta", "Gamma")
ELSEWHERE_WITHOUT = ("poisson 64.0", "poisson 90.0", "poisson 500.0", "poisson 3999.0", "poisson 4001.0 float16",
                     "poisson 4001.0 bfloat16")


def near_names() -> tuple[str, ...]:
    return NEAR if sources.find() is not None else (*NEAR, *NEAR_WITHOUT)


@pytest.mark.parametrize(("count", "p", "expected"), [
    (8.0, 0.3, [5, 2, 3, 1, 0, 2, 5, 3, 3, 2, 3, 3]), (1000.0, 0.7, [676, 697, 672, 708, 696, 699]),
])
def test_known_binomials(count, p, expected):
    out = np.zeros(300)
    found = run(binomial_nest("f64"), [np.full(300, count), np.full(300, p), out], [300, 0, 42], BLOCK)
    assert found[: len(expected)] == expected


def test_known_choices():
    weights = np.arange(10) * 0.61803398875 % 1.0 + 0.01
    shares = weights / weights.sum()
    out = np.zeros(4, np.int64)
    assert run(choice_nest("f64"), [shares.cumsum(), shares, out], [4, 0, 42, 10, 4, 128], 4) == [6, 1, 4, 1]


def test_equal_keys_are_shuffled_and_no_others():
    keys, places = np.array([1, 3, 3, 3, 7, 9, 9]), np.arange(7)
    found = run(island_nest(), [keys, places], [7, 0, 42], 7)
    assert sorted(found[1:4]) == [1, 2, 3] and sorted(found[5:]) == [5, 6] and found[0] == 0 and found[4] == 4
    orders = {tuple(run(island_nest(), [keys, np.arange(7)], [7, 0, seed], 7)) for seed in range(60)}
    assert len(orders) == 12      # all orders of three, by all of two


def rounded_sums(values):
    """Running sums of halves, one after the other, each rounded."""
    total, found = np.float16(0), []
    for v in values:
        total = np.float16(total + v)
        found.append(total)
    return np.array(found)


def test_sums_of_halves_are_rounded_as_they_are_added():
    values = (np.arange(10) * 0.61803398875 % 1.0 + 0.01).astype(np.float16)
    row = rl.from_numpy(values).reshape(1, 10)
    shares, ends = half_sums.shares_and_ends(row)
    want = (values / half_sums.total(row).numpy().reshape(())).astype(np.float16)
    assert (shares.numpy()[0] == want).all()
    assert (ends.numpy()[0] == rounded_sums(want)).all()                # one thread has all ten
    many = rl.rand(7, 300).half()
    got = half_sums.scan_rows(many).float().numpy()
    assert np.abs(got - many.float().numpy().cumsum(1)).max() < 0.6     # in some order, each rounded
    assert (got != np.stack([rounded_sums(r) for r in many.numpy()])).any()
    assert half_sums.row_sum(rl.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]])).tolist() == [[15.0]]
    big, one = 2.0**24, 1.0        # (x0 + x4) + x1, then x2 + x3: another order would lose the ones
    assert half_sums.row_sum(rl.tensor([[big, one, -big, one, one]])).item() == 2.0


def test_which_of_equal_elements_comes_first():
    assert network([0.27, 0.27, 2.3, 0.26], [2, 3, 6, 4]) == [6, 3, 2, 4]
    assert network([5.0, 1.0, 3.0], [0, 1, 2]) == [0, 2, 1]


@pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", PROGRAMS)
def test_sampler(name):
    torch = pytest.importorskip("torch")
    torch.cuda.init()
    try:
        want = drawn(torch, name, torch.cuda.default_generators[0])
    except (RuntimeError, NotImplementedError):
        pytest.skip("PyTorch refuses it")
    got = drawn(rl, name, rl.cuda.default_generators[0])
    if sources.find() is None and name.startswith(ELSEWHERE_WITHOUT):
        assert int(got[-1]) == int(want[-1]) and got[0].shape == want[0].shape
    elif name.startswith(near_names()):
        assert all(np.allclose(a, b, rtol=2e-2 if "16" in name else 2e-5) for a, b in zip(got, want, strict=True))
    else:
        assert same(got, want) == ""


@pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("bad", [3.0, -0.5, float("nan")])
def test_what_is_no_probability_is_told_when_the_card_is_waited_for(bad):
    p = rl.full((1000,), 0.5, device="cuda")
    assert 300 < rl.bernoulli(p).sum().item() < 700
    p[77] = bad
    with pytest.raises(RuntimeError, match=r"probabilities in \[0, 1\].*element 77"):
        rl.bernoulli(p)
        rl.cuda.synchronize()
    assert rl.bernoulli(p.clamp(0, 1).nan_to_num()).shape == (1000,)
    rl.cuda.synchronize()
