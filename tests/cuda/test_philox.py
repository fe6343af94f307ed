"""Random numbers of CUDA devices: the kernels, run by a CPU, against numbers that PyTorch drew on a card;
and on a card, every sampler against PyTorch's, bit for bit."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

import rushlight as rl
from rushlight import codegen
from rushlight.codegen.nvptx import philox

LANES = 256     # of few elements


def bits(number):
    return struct.unpack("<q", struct.pack("<d", number))[0]


def run(nest, arrays, params, extent):
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    kernel(codegen.compile(nest).address)(pointers, (ctypes.c_int64 * len(params))(*params), 0, extent)
    return arrays[-1].tolist()


# Drawn by PyTorch 2.11 on an H200 from seed 42, after 4 numbers were drawn.
@pytest.mark.parametrize(("law", "code", "dtype", "first", "second", "expected"), [
    ("uniform", "f32", np.float32, bits(0.0), bits(1.0),
     [0.9877186417579651, 0.12889964878559113, 0.5621041655540466, 0.5221080183982849, 0.7444776296615601]),
    ("uniform", "f64", np.float64, bits(0.0), bits(1.0),
     [0.3270632689464365, 0.9914872990889656, 0.8834939571538416, 0.11550460529449641, 0.08033165514705082]),
    ("uniform", "f32", np.float32, bits(-2.0), bits(3.0),
     [2.9385931491851807, -1.3555017709732056, 0.8105208277702332, 0.6105400919914246, 1.7223881483078003]),
    ("range", "i64", np.int64, 10, 0, [3, 9, 0, 4, 2]),
    ("range", "i32", np.int32, 1 << 31, 0, [2094735655, 553619769, 266735452, 94953276, 1050023314]),
    ("wide_range", "i64", np.int64, 3 << 40, -(1 << 40),
     [-930603176707, -850440086124, 398931569803, 1357705752987, 627410245747]),
])
def test_known_numbers(law, code, dtype, first, second, expected):
    out = np.zeros(5, dtype)
    assert run(philox.fill_nest(law, code), [out], [5, LANES, 1, 42, first, second], LANES) == expected


def test_numbers_of_ordered_choices_follow_each_other():
    """Those of the first thread's sequence, whose numbers are known to be PyTorch's."""
    n, p = 4 * LANES * 2, 0.55
    drawn, kept = np.zeros(n, np.float32), np.zeros(7, np.bool_)
    run(philox.fill_nest("uniform", "f32"), [drawn], [n, LANES, 1, 42, bits(0.0), bits(1.0)], 2 * LANES)
    run(philox.ordered_nest(), [kept], [7, 0, 1, 42, bits(p), 0], 2)
    assert kept.tolist() == (drawn[::LANES][:7] > p).tolist() and 0 < kept.sum() < 7


def test_known_choices():
    p, out = np.full(300, 0.4, np.float32), np.zeros(300, np.float32)
    run(philox.bernoulli_nest("f32", "f32", False), [p, out], [300, 0, 1, 42, 0, 0], 75)
    assert out[:20].tolist() == [0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0]
    for count, vector, expected in (
        (300, 4, "011110111001111111111011"), (5000, 8, "011101101011111110011111")
    ):
        kept = np.zeros(count, np.bool_)
        lanes = -(-count // 256) * 256
        run(philox.dropout_nest(vector), [kept], [count, lanes, 1, 42, bits(0.75), 0], count // vector)
        assert "".join("01"[int(k)] for k in kept[:24]) == expected


SAMPLERS = {
    "rand": lambda t, n, d: t.rand(n, device="cuda", dtype=d),
    "randn": lambda t, n, d: t.randn(n, device="cuda", dtype=d),
    "uniform_": lambda t, n, d: t.empty(n, device="cuda", dtype=d).uniform_(-2, 3),
    "normal_": lambda t, n, d: t.empty(n, device="cuda", dtype=d).normal_(1, 2),
    "bernoulli_": lambda t, n, d: t.empty(n, device="cuda", dtype=d).bernoulli_(0.3),
    "bernoulli": lambda t, n, d: t.bernoulli(t.full((n,), 0.4, device="cuda", dtype=d)),
    "dropout": lambda t, n, d: t.nn.functional.dropout(t.ones(n, device="cuda", dtype=d), 0.1),
    "native_dropout": lambda t, n, d: t.native_dropout(t.ones(n, device="cuda", dtype=d), 0.25, True)[0],
    "exponential_": lambda t, n, d: t.empty(n, device="cuda", dtype=d).exponential_(1.5),
    "cauchy_": lambda t, n, d: t.empty(n, device="cuda", dtype=d).cauchy_(1, 2),
    "log_normal_": lambda t, n, d: t.empty(n, device="cuda", dtype=d).log_normal_(0.5, 1.5),
    "geometric_": lambda t, n, d: t.empty(n, device="cuda", dtype=d).geometric_(0.3),
    "random_": lambda t, n, d: t.empty(n, device="cuda", dtype=d).random_(),
    "a column": lambda t, n, d: t.empty(n, 3, device="cuda", dtype=d)[:, 1].uniform_(),
    "turned": lambda t, n, d: t.empty(3, n, device="cuda", dtype=d).t().uniform_(),
    "three turned": lambda t, n, d: t.empty(2, n, 3, device="cuda", dtype=d).permute(1, 2, 0).normal_(),
    "feature_dropout": lambda t, n, d: t.nn.functional.dropout1d(t.ones(n, 2, device="cuda", dtype=d), 0.2, True),
    "alpha_dropout": lambda t, n, d: t.nn.functional.alpha_dropout(t.ones(n, device="cuda", dtype=d), 0.2, True),
}
INTEGERS = {
    "randint": lambda t, n, d: t.randint(10, (n,), device="cuda", dtype=d),
    "random_": lambda t, n, d: t.empty(n, device="cuda", dtype=d).random_(),
    "random_ to": lambda t, n, d: t.empty(n, device="cuda", dtype=d).random_(100),
}
WIDE = (1 << 27, 1 << 28, (1 << 30) + 7, (1 << 31) + 5, 1 << 32, 3 << 40)
SIZES = (1, 5, 300, 5000, 1_100_003)
# Doubles go through functions that round otherwise than CUDA's.
NEAR = {"randn", "normal_", "three turned", "log_normal_", "exponential_", "cauchy_", "geometric_"}


def same(ours, theirs, exact=True):
    import torch

    a, b = np.asarray(ours.detach().cpu().double()), theirs.detach().cpu().double().numpy()
    assert a.shape == b.shape
    if exact:
        assert (a == b).all(), (np.mean(a == b), a.ravel()[:4], b.ravel()[:4])
    else:
        assert np.allclose(a, b, rtol=1e-9)
    assert rl.cuda.default_generators[0].get_offset() == torch.cuda.default_generators[0].get_offset()


def both(sampler, n, name):
    import torch

    found = []
    for library in (rl, torch):
        library.cuda.manual_seed(42)
        library.rand(3, device="cuda")
        found.append(sampler(library, n, getattr(library, name)))
    return found


on_card = pytest.mark.skipif(not rl.cuda.is_available(), reason="needs a CUDA device")


@on_card
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_numbers_are_pytorchs(sampler, name, n):
    pytest.importorskip("torch")
    same(*both(SAMPLERS[sampler], n, name), exact=name != "float64" or sampler not in NEAR)


@on_card
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ["int64", "int32", "int16", "uint8", "bool"])
@pytest.mark.parametrize("sampler", INTEGERS)
def test_integers_are_pytorchs(sampler, name, n):
    pytest.importorskip("torch")
    if name == "bool" and sampler != "random_":
        pytest.skip("bool holds no such number")
    same(*both(INTEGERS[sampler], n, name))


@on_card
@pytest.mark.parametrize("high", WIDE)
def test_wide_ranges_are_pytorchs(high):
    pytest.importorskip("torch")
    same(*both(lambda t, n, d: t.randint(-5, high, (n,), device="cuda", dtype=d), 1000, "int64"))


@on_card
def test_seeds_and_states():
    rl.manual_seed(7)
    a = rl.rand(5, device="cuda")
    state = rl.cuda.get_rng_state()
    b = rl.rand(5, device="cuda")
    rl.cuda.set_rng_state(state)
    assert (rl.rand(5, device="cuda") == b).all()
    rl.manual_seed(7)
    with rl.random.fork_rng(devices=[0]):
        rl.rand(9, device="cuda")
    assert (rl.rand(5, device="cuda") == a).all()
    own = rl.Generator(device="cuda").manual_seed(7)
    assert (rl.rand(5, device="cuda", generator=own) == a).all()
    with pytest.raises(RuntimeError, match="generator"):
        rl.rand(5, generator=own)
    with pytest.raises(RuntimeError, match="generator"):
        rl.rand(5, device="cuda", generator=rl.Generator())
