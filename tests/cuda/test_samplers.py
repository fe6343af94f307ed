"""Samplers of several draws: the kernels run by a CPU against numbers that PyTorch 2.11 drew on an H200 from seed 42,
and on a card every sampler against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.philox_walks import BLOCK, binomial_nest, choice_nest, island_nest

from .samplers import PROGRAMS, drawn, same
from .test_philox import run

# Functions of doubles round otherwise than CUDA's, `pow` of float32 and sums of half types too; which of equal elements
# of a half type comes first differs; and numbers of events between the rates 64 and 4000 are the vendor's own there.
NEAR = ("normal_ float64", "exponential_ float64", "cauchy_ float64", "log_normal_ float64", "randn complex128",
        "gamma", "dirichlet", "Beta", "Gamma", "StudentT", "VonMises")  # fmt: skip
ELSEWHERE = ("multinomial rows bfloat16 False", "multinomial vector float16 True", "multinomial rows float16 True",
             "multinomial long float16 True", "multinomial many float16 True", "multinomial many samples float16",
             "multinomial vector bfloat16 True", "multinomial rows bfloat16 True", "multinomial long bfloat16 True",
             "multinomial many bfloat16 True", "multinomial many samples bfloat16", "poisson 64.0", "poisson 90.0",
             "poisson 500.0", "poisson 3999.0", "poisson 4001.0 float16", "poisson 4001.0 bfloat16")  # fmt: skip


@pytest.mark.parametrize(("count", "p", "expected"), [
    (8.0, 0.3, [5, 2, 3, 1, 0, 2, 5, 3, 3, 2, 3, 3]), (1000.0, 0.7, [676, 697, 672, 708, 696, 699]),
])  # fmt: skip
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
    if name.startswith(ELSEWHERE):
        assert int(got[-1]) == int(want[-1]) and got[0].shape == want[0].shape
    elif name.startswith(NEAR):
        assert all(np.allclose(a, b, rtol=2e-2 if "16" in name else 2e-5) for a, b in zip(got, want, strict=True))
    else:
        assert same(got, want) == ""
