"""Every sampler against PyTorch: the same numbers, bit for bit, and the same generator state afterwards.

PyTorch's x86 builds replace some CPU samplers by vendor code with other streams or last-bit rounding (MKL's Bernoulli
and exponential, an AVX2 Box-Muller for float32); there those cases are compared loosely or left out, as marked.
"""

from __future__ import annotations

import copy
import pickle
import platform
import threading

import pytest

import rushlight

torch = pytest.importorskip("torch")

PORTABLE_NORMAL = platform.machine() in ("aarch64", "arm64")
HAS_MKL = torch.backends.mkl.is_available()
no_mkl = pytest.mark.skipif(HAS_MKL, reason="MKL draws these from a stream of its own")

FLOATS = ("float32", "float64", "float16", "bfloat16")
NUMBERS = ("uint8", "int8", "int16", "int32", "int64", *FLOATS)
SIZES = (0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 100, 5003)


def raw(x) -> bytes:
    """The elements' bytes in row-major order."""
    if isinstance(x, torch.Tensor):
        return x.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if x.numel() else b""
    x = x.detach().contiguous()
    start = x.storage_offset() * x.element_size()
    return bytes(x.untyped_storage().tobytes())[start : start + x.numel() * x.element_size()]


def state_of(t) -> bytes:
    return raw(t.get_rng_state())


def to_rushlight(x):
    """A torch tensor's bytes as a rushlight tensor of the same shape and strides (dense tensors only)."""
    flat = rushlight.frombuffer(bytearray(raw(x)), dtype=getattr(rushlight, str(x.dtype)[6:])) if x.numel() else None
    return rushlight.empty(x.shape, dtype=getattr(rushlight, str(x.dtype)[6:])) if flat is None else flat.view(tuple(x.shape))


def assert_same(case, seed: int = 0, exact: bool = True) -> None:
    """`case(t)` gives the same tensor on both sides and leaves the default generators in the same state."""
    torch.manual_seed(seed)
    rushlight.manual_seed(seed)
    want, got = case(torch), case(rushlight)
    for w, g in zip(want, got, strict=True) if isinstance(want, tuple) else ((want, got),):
        assert str(w.dtype)[6:] == g.dtype.name
        assert tuple(w.shape) == tuple(g.shape)
        assert tuple(w.stride()) == tuple(g.stride())
        if exact:
            assert raw(w) == raw(g)
        else:
            torch.testing.assert_close(torch.frombuffer(bytearray(raw(g)), dtype=w.dtype).view(w.shape), w.contiguous(), rtol=1e-4, atol=1e-5)
    assert state_of(torch) == state_of(rushlight)


def dtype_of(t, name: str):
    return getattr(t, name)


# Ways to lay out the tensor a fill writes; `t` is either library.
LAYOUTS = {
    "transposed": lambda t, d: t.zeros(7, 9, dtype=d).t(),
    "strided": lambda t, d: t.zeros(10, 20, dtype=d)[::2, 1::3],
    "permuted": lambda t, d: t.zeros(4, 5, 6, dtype=d).permute(1, 2, 0),
    "channels last": lambda t, d: t.empty(2, 3, 4, 5, dtype=d, memory_format=t.channels_last),
    "permuted slice": lambda t, d: t.zeros(2, 30, 8, 3, dtype=d).permute(2, 0, 3, 1)[1:6, :, 1:, ::4],
    "offset": lambda t, d: t.zeros(40, dtype=d)[3:30],
    "0-d": lambda t, d: t.zeros((), dtype=d),
    "ones": lambda t, d: t.zeros(1, 20, 1, dtype=d),
}

# name: (method, arguments, dtypes)
FILLS = {
    "uniform": ("uniform_", (), FLOATS),
    "uniform bounds": ("uniform_", (-2.5, 3.7), FLOATS),
    "uniform narrow": ("uniform_", (1.0, 1.001), FLOATS),
    "normal": ("normal_", (), FLOATS),
    "normal moments": ("normal_", (1.5, 0.3), FLOATS),
    "log_normal": ("log_normal_", (), FLOATS),
    "cauchy": ("cauchy_", (1.5, 0.3), FLOATS),
    "exponential": ("exponential_", (2.7,), FLOATS),
    "geometric": ("geometric_", (0.3,), NUMBERS),
    "bernoulli": ("bernoulli_", (0.3,), (*NUMBERS, "bool")),
    "random": ("random_", (), (*NUMBERS, "bool")),
    "random to": ("random_", (100,), NUMBERS),
    "random from": ("random_", (3, 90), (*NUMBERS, "uint16", "uint32", "uint64")),
    "random open": ("random_", (0, None), (*NUMBERS, "bool", "uint16", "uint32")),
    "random wide": ("random_", (-(2**40), 2**41), ("int64", "float64")),
    "random edge": ("random_", (0, 2**28), ("int32", "int64", "uint32")),
    "random below edge": ("random_", (0, 2**28 - 1), ("int32", "int64", "uint32")),
    "random all bits": ("random_", (-(2**63), None), ("int64", "float64", "float32", "bfloat16")),
    "random signed": ("random_", (-(2**63), 2**63 - 1), ("int64",)),
}
FILL_CASES = [pytest.param(m, a, d, id=f"{n}-{d}") for n, (m, a, ds) in FILLS.items() for d in ds]


def skip_vendor(method: str) -> None:
    if HAS_MKL and method in ("bernoulli_", "exponential_"):
        pytest.skip("MKL draws these from a stream of its own")


@pytest.mark.parametrize(("method", "arguments", "dtype"), FILL_CASES)
def test_fill_sizes(method, arguments, dtype):
    skip_vendor(method)
    exact = PORTABLE_NORMAL or dtype != "float32" or method != "normal_"
    for size in SIZES:
        assert_same(lambda t, n=size: getattr(t.zeros(n, dtype=dtype_of(t, dtype)), method)(*arguments), size, exact)


@pytest.mark.parametrize(("method", "arguments", "dtype"), FILL_CASES)
def test_fill_visits_strided_memory_in_pytorch_order(method, arguments, dtype):
    skip_vendor(method)
    exact = PORTABLE_NORMAL or dtype != "float32" or method != "normal_"
    for layout in LAYOUTS.values():
        assert_same(lambda t, make=layout: getattr(make(t, dtype_of(t, dtype)), method)(*arguments), 5, exact)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_large_fills_cross_stages_and_threads(dtype):
    n = 3 * 65536 + 5
    assert_same(lambda t: t.empty(n, dtype=dtype_of(t, dtype)).uniform_())
    assert_same(lambda t: t.empty(n, dtype=dtype_of(t, dtype)).normal_(), exact=PORTABLE_NORMAL or dtype != "float32")
    assert_same(lambda t: t.empty(n, dtype=dtype_of(t, dtype)).cauchy_())
    assert_same(lambda t: t.empty(n // 4, 4, dtype=dtype_of(t, dtype)).t().geometric_(0.1))


def test_results_do_not_depend_on_thread_count():
    threads = rushlight.get_num_threads()
    found = set()
    try:
        for n in (1, 2, 3):
            rushlight.set_num_threads(n)
            rushlight.manual_seed(3)
            found.add(raw(rushlight.randn(200_001)) + raw(rushlight.empty(100_001).cauchy_()))
    finally:
        rushlight.set_num_threads(threads)
    assert len(found) == 1


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 33])
def test_complex(dtype, size):
    exact = PORTABLE_NORMAL or dtype != "complex64"
    assert_same(lambda t: t.randn(size, dtype=dtype_of(t, dtype)), exact=exact)
    assert_same(lambda t: t.rand(size, dtype=dtype_of(t, dtype)))
    assert_same(lambda t: t.randn_like(t.zeros(size, 2, dtype=dtype_of(t, dtype)).t()))
    assert_same(lambda t: t.zeros(size, dtype=dtype_of(t, dtype)).uniform_(-1, 2))


FACTORIES = {
    "rand": lambda t: t.rand(3, 5),
    "rand tuple": lambda t: t.rand((2, 3), dtype=t.float64),
    "rand 0-d": lambda t: t.rand(()),
    "rand empty": lambda t: t.rand(0, 4),
    "rand out": lambda t: t.rand(5, out=t.zeros(0, dtype=t.float64)),
    "randn small": lambda t: t.randn(3, 5),
    "randn bfloat16": lambda t: t.randn(33, dtype=t.bfloat16),
    "randn double": lambda t: t.randn(8, 5, dtype=t.double),
    "randn strided out": lambda t: t.randn(9, out=t.zeros(18)[::2]),
    "randint": lambda t: t.randint(10, (4, 3)),
    "randint low": lambda t: t.randint(-3, 10, (7,)),
    "randint float": lambda t: t.randint(0, 10, [7], dtype=t.float32),
    "randint keywords": lambda t: t.randint(low=2, high=5, size=(3,)),
    "randint out": lambda t: t.randint(0, 5, (3,), out=t.zeros(0)),
    "randperm": lambda t: t.randperm(1000),
    "randperm 0": lambda t: t.randperm(0),
    "randperm 1": lambda t: t.randperm(1),
    "randperm int32": lambda t: t.randperm(100, dtype=t.int32),
    "randperm uint8": lambda t: t.randperm(256, dtype=t.uint8),
    "randperm float": lambda t: t.randperm(33, dtype=t.float32),
    "randperm half": lambda t: t.randperm(2049, dtype=t.float16),
    "randperm out": lambda t: t.randperm(3, out=t.zeros(6, dtype=t.int32)[::2]),
    "rand_like": lambda t: t.rand_like(t.zeros(3, 4).t()),
    "rand_like contiguous": lambda t: t.rand_like(t.zeros(3, 4).t(), memory_format=t.contiguous_format),
    "rand_like dtype": lambda t: t.rand_like(t.zeros(3, dtype=t.int64), dtype=t.float64),
    "randn_like": lambda t: t.randn_like(t.zeros(6, 4).t()),
    "randint_like": lambda t: t.randint_like(t.zeros(3, 4).t(), 1, 5),
    "randint_like high": lambda t: t.randint_like(t.zeros(3), 5),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories(name):
    for seed in (0, 7):
        assert_same(FACTORIES[name], seed)


def parameters(t, *shape, scale=1.0, dtype="float32", seed=11):
    """The same uniform numbers on both sides, without touching the default generators."""
    made = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).mul(scale).to(getattr(torch, dtype))
    return made if t is torch else to_rushlight(made)


@pytest.mark.parametrize("dtype", FLOATS)
def test_bernoulli_of_tensors(dtype):
    assert_same(lambda t: t.bernoulli(parameters(t, 100, dtype=dtype)))
    assert_same(lambda t: parameters(t, 10, 7, dtype=dtype).t().bernoulli())
    for target in (*NUMBERS, "bool"):
        assert_same(lambda t, d=target: t.zeros(9, 7, dtype=dtype_of(t, d)).bernoulli_(parameters(t, 7, dtype=dtype)))
        assert_same(lambda t, d=target: t.zeros(9, 7, dtype=dtype_of(t, d)).t().bernoulli_(parameters(t, 9, dtype=dtype)))
    assert_same(lambda t: t.bernoulli(parameters(t, 9, dtype=dtype), out=t.zeros(0, dtype=t.float64)))


@no_mkl
def test_bernoulli_of_probability():
    assert_same(lambda t: t.bernoulli(t.zeros(5, 6).t(), 0.3))
    assert_same(lambda t: t.zeros(50, dtype=t.int64).bernoulli(0.0))
    assert_same(lambda t: t.zeros(50).bernoulli(1.0))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("scale", [0.1, 5, 12, 5000])
def test_poisson(dtype, scale):
    assert_same(lambda t: t.poisson(parameters(t, 30, 40, scale=scale, dtype=dtype)))
    assert_same(lambda t: t.poisson(parameters(t, 10, 7, scale=scale, dtype=dtype).t()))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [0.1, 1, 12, 100])
def test_gamma_and_dirichlet(dtype, scale):
    assert_same(lambda t: t._standard_gamma(parameters(t, 30, 40, scale=scale, dtype=dtype)))
    assert_same(lambda t: t._standard_gamma(parameters(t, 10, 7, scale=scale, dtype=dtype).t()))
    if PORTABLE_NORMAL or dtype == "float32":  # PyTorch's sum of doubles follows the vector width
        assert_same(lambda t: t._sample_dirichlet(parameters(t, 30, 5, scale=scale, dtype=dtype)))


@pytest.mark.skipif(not PORTABLE_NORMAL, reason="the order of PyTorch's sum follows the vector width")
@pytest.mark.parametrize("width", [1, 2, 3, 7, 9, 127, 128, 129, 255, 1000, 2049, 9001])
def test_dirichlet_adds_long_rows_as_pytorch(width):
    assert_same(lambda t: t._sample_dirichlet(parameters(t, 3, width, scale=3, dtype="float64")))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [3, 30, 1000])
@pytest.mark.parametrize("probability", [0.05, 0.4, 1.0])
def test_binomial(dtype, count, probability):
    def case(t):
        counts = parameters(t, 30, 40, scale=count, dtype=dtype, seed=12).floor()
        return t.binomial(counts, parameters(t, 40, scale=probability, dtype=dtype))

    assert_same(case)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 2), (3, 7), (2, 1000)])
def test_multinomial_with_replacement(dtype, shape):
    assert_same(lambda t: t.multinomial(parameters(t, *shape, dtype=dtype), 50, True))
    assert_same(lambda t: t.multinomial(parameters(t, *shape[::-1], dtype=dtype).t(), 5, True))
    assert_same(lambda t: parameters(t, 9, dtype=dtype).multinomial(num_samples=5, replacement=True))


@no_mkl
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_multinomial_without_replacement(dtype):
    assert_same(lambda t: t.multinomial(parameters(t, 3, 7, dtype=dtype), 1))
    assert_same(lambda t: t.multinomial(parameters(t, 7, dtype=dtype), 1, True))
    assert_same(lambda t: t.multinomial(parameters(t, 3, 7, dtype=dtype), 4))
    assert_same(lambda t: t.multinomial(parameters(t, 50, dtype=dtype), 50))


def test_normal_of_tensors():
    assert_same(lambda t: t.normal(parameters(t, 15), 2.0))
    assert_same(lambda t: t.normal(0.5, parameters(t, 15)))
    assert_same(lambda t: t.normal(parameters(t, 3, 1), parameters(t, 5)))
    assert_same(lambda t: t.normal(parameters(t, 3, 4).t(), parameters(t, 3, 4).t()))
    assert_same(lambda t: t.normal(parameters(t, 40, dtype="float64"), parameters(t, 40)))
    assert_same(lambda t: t.normal(parameters(t, 40), parameters(t, 40, dtype="float64")), exact=PORTABLE_NORMAL)
    assert_same(lambda t: t.normal(1.0, 2.0, (5,)))
    assert_same(lambda t: t.normal(1.0, 2.0, size=(5,), dtype=t.float64))
    assert_same(lambda t: t.normal(parameters(t, 5), parameters(t, 5), out=t.zeros(0)))


@no_mkl
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_dropout(dtype, p):
    assert_same(lambda t: t.dropout(parameters(t, 40, 3, dtype=dtype), p, True))
    assert_same(lambda t: t.dropout(parameters(t, 40, 3, dtype=dtype).t(), p, True))
    assert_same(lambda t: t.dropout_(parameters(t, 40, 3, dtype=dtype), p, True))
    assert_same(lambda t: t.feature_dropout(parameters(t, 5, 3, 4, dtype=dtype), p, True))
    assert_same(lambda t: t.native_dropout(parameters(t, 40, 3, dtype=dtype), p, True))


@no_mkl
def test_alpha_dropout():
    for dtype in ("float32", "float64"):
        assert_same(lambda t, d=dtype: t.alpha_dropout(parameters(t, 40, 3, dtype=d), 0.3, True), exact=False)
        assert_same(lambda t, d=dtype: t.feature_alpha_dropout(parameters(t, 40, 3, 2, dtype=d), 0.3, True), exact=False)


def test_dropout_that_draws_nothing():
    for p, train in ((0.5, False), (0.0, True), (1.0, True)):
        assert_same(lambda t, p=p, train=train: t.dropout(parameters(t, 40), p, train))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_rrelu(dtype):
    assert_same(lambda t: t.rrelu(parameters(t, 50, dtype=dtype) - 0.5, 0.2, 0.9, True))
    assert_same(lambda t: t.rrelu((parameters(t, 5, 6, dtype=dtype) - 0.5).t(), 0.2, 0.9, True).contiguous())
    assert_same(lambda t: t.rrelu_(parameters(t, 50, dtype=dtype) - 0.5, training=True))


def test_interleaved_samplers_share_the_waiting_normal():
    def case(t):
        parts = [t.randn(3), t.rand(2), t.randn(20), t.randn(1, dtype=t.float64), t.zeros(3).log_normal_(), t.randn(5),
                 t._standard_gamma(parameters(t, 3)), t.randn(1), t.zeros(2).cauchy_(), t.randn(17, dtype=t.bfloat16), t.randn(2)]  # fmt: skip
        return tuple(p.double() for p in parts)

    for seed in range(5):
        assert_same(case, seed, exact=PORTABLE_NORMAL)


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
    for bad, error in ((2**64, ValueError), (-(2**63) - 1, ValueError), (1.5, RuntimeError), ("a", RuntimeError), (True, RuntimeError)):
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
    assert raw(rushlight.randn(700, dtype=rushlight.float64, generator=ours)) == raw(torch.randn(700, dtype=torch.float64, generator=back))


def test_bad_states():
    g = rushlight.Generator()
    before = raw(g.get_state())
    cases = [(rushlight.zeros(5), TypeError), (rushlight.zeros(5, dtype=rushlight.uint8), RuntimeError),
             (rushlight.zeros(5056, dtype=rushlight.uint8), RuntimeError), (b"123", TypeError)]  # fmt: skip
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
    with pytest.raises(RuntimeError), rushlight.random.fork_rng(devices=[0]):
        pass


def test_generator_argument_leaves_the_default_alone():
    g = rushlight.Generator().manual_seed(7)
    before = state_of(rushlight)
    x = rushlight.zeros(5)
    for f in (lambda: rushlight.rand(3, generator=g), lambda: x.normal_(generator=g), lambda: rushlight.randperm(5, generator=g),
              lambda: rushlight.randint(3, (2,), generator=g), lambda: rushlight.poisson(x.zero_() + 1, g), lambda: rushlight.rand_like(x, generator=g),
              lambda: rushlight.multinomial(x + 1, 3, True, generator=g), lambda: rushlight.bernoulli(x, 0.5, generator=g)):  # fmt: skip
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
    threads = [threading.Thread(target=lambda mine=mine: mine.extend(rushlight.rand(1).item() for _ in range(200))) for mine in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(value for mine in drawn for value in mine) == want


# --- refusals ---------------------------------------------------------------------------------------------------------

REFUSED = [
    "t.zeros(3).uniform_(1, 0)", "t.zeros(3).uniform_(float('nan'), 1)", "t.zeros(3).uniform_(0, float('inf'))",
    "t.zeros(3).uniform_(-3e38, 3e38)", "t.zeros(3, dtype=t.half).uniform_(0, 70000)", "t.zeros(3, dtype=t.int64).uniform_()",
    "t.zeros(3, dtype=t.bool).uniform_()", "t.zeros(3).expand(2, 3).uniform_()", "t.zeros(3).expand(2, 3).normal_()",
    "t.zeros(3).normal_(0, -1)", "t.zeros(3, dtype=t.int64).normal_()", "t.zeros(3).log_normal_(0, 0)", "t.zeros(3).cauchy_(0, 0)",
    "t.zeros(3, dtype=t.int64).log_normal_()", "t.zeros(3, dtype=t.int64).cauchy_()", "t.zeros(3).exponential_(0)",
    "t.zeros(3, dtype=t.int64).exponential_()", "t.zeros(3, dtype=t.complex64).exponential_()", "t.zeros(3).geometric_(0)",
    "t.zeros(3).geometric_(1)", "t.zeros(3, dtype=t.bool).geometric_(0.5)", "t.zeros(3, dtype=t.complex64).geometric_(0.5)",
    "t.zeros(3).bernoulli_(1.5)", "t.zeros(3).bernoulli_(float('nan'))", "t.zeros(3, dtype=t.complex64).bernoulli_()",
    "t.zeros(3).bernoulli_(t.tensor([0.1, 0.2]))", "t.zeros(3).bernoulli_(t.tensor([2.0]))", "t.zeros(3).bernoulli_(t.tensor([1]))",
    "t.zeros(3).bernoulli_(t.zeros(2, 3))", "t.bernoulli(t.zeros(3, dtype=t.int64))", "t.bernoulli(t.zeros(3) + 2)",
    "t.zeros(3).random_(5, 5)", "t.zeros(3).random_(5, 3)", "t.zeros(3).random_(0)", "t.zeros(3, dtype=t.int64).random_(0, 2**63)",
    "t.zeros(3, dtype=t.bool).random_(0, 3)", "t.zeros(3, dtype=t.complex64).random_()", "t.zeros(3, dtype=t.complex64).random_(0, 5)",
    "t.zeros(3, dtype=t.uint8).random_(0, 257)", "t.zeros(3, dtype=t.uint8).random_(-1, 25)", "t.zeros(3, dtype=t.half).random_(0, 70000)",
    "t.zeros(3, dtype=t.int32).random_(0, 2**31 + 1)", "t.zeros(3, dtype=t.uint16).random_()", "t.zeros(3).random_(1.5, 3)",
    "t.zeros(3, dtype=t.uint64).random_(0, None)", "t.zeros(3, dtype=t.float16).random_(-2**63, None)",
    "t.zeros(3, dtype=t.int32).random_(-2**63, None)", "t.randint(0, 5, (3,), dtype=t.complex64)", "t.randint(5, 0, (3,))",
    "t.randint(0, 300, (3,), dtype=t.uint8)", "t.randint(5, 3)", "t.randint(0, 5, (3,), requires_grad=True)",
    "t.randint(0, 5, (3,), out=t.zeros(0), dtype=t.int32)", "t.rand(3, dtype=t.int32)", "t.rand(-1)", "t.rand()", "t.rand(2.5)",
    "t.rand(3, out=t.zeros(0, dtype=t.double), dtype=t.float32)", "t.rand(3, out=t.zeros(3, requires_grad=True))",
    "t.rand_like(t.zeros(3, dtype=t.int64))", "t.randn(3, dtype=t.int32)", "t.normal(0.0, 1.0, 3)", "t.normal(0.0, 1.0)",
    "t.normal(0, -1, (3,))", "t.normal(t.zeros(3), t.ones(2))", "t.normal(t.zeros(3), -t.ones(3))", "t.normal(t.zeros(3), -1)",
    "t.normal(t.zeros(3, dtype=t.int64), t.ones(3))", "t.normal(t.zeros(3), t.ones(3, dtype=t.complex64))", "t.randperm(-1)",
    "t.randperm(257, dtype=t.uint8)", "t.randperm(129, dtype=t.int8)", "t.randperm(2050, dtype=t.half)", "t.randperm(3, dtype=t.bool)",
    "t.randperm(3, dtype=t.complex64)", "t.randperm(3.0)", "t.poisson(t.zeros(3, dtype=t.int64))", "t.poisson(-t.ones(3))",
    "t.poisson(t.full((2,), float('nan')))", "t._standard_gamma(t.zeros(3, dtype=t.half))", "t._sample_dirichlet(t.zeros(3, dtype=t.half))",
    "t.binomial(t.ones(3), t.ones(2))", "t.binomial(t.ones(3, dtype=t.int64), t.ones(3))", "t.binomial(t.ones(3), t.ones(3).double())",
    "t.multinomial(-t.ones(3), 2)", "t.multinomial(-t.ones(3), 2, True)", "t.multinomial(t.tensor([1.0, float('inf')]), 1)",
    "t.multinomial(t.tensor([1.0, float('inf')]), 2, True)", "t.multinomial(t.tensor([1.0, float('nan')]), 2, True)",
    "t.multinomial(t.tensor([0.0, 0.0]), 2, True)", "t.multinomial(t.ones(3), 4)", "t.multinomial(t.ones(3), 0)",
    "t.multinomial(t.ones(3, 0), 2, True)", "t.multinomial(t.ones(2, 3, 4), 2)", "t.multinomial(t.ones(3, dtype=t.int64), 2)",
    "t.multinomial(t.ones(3), 2, out=t.zeros(0))", "t.dropout(t.ones(3), 1.5, True)", "t.feature_dropout(t.ones(3), 0.5, True)",
    "t.rrelu(t.ones(3), 0.3, 0.2, True)", "t.zeros(3, requires_grad=True).uniform_()", "t.set_rng_state([1])",
]  # fmt: skip


@pytest.mark.parametrize("code", REFUSED)
def test_refused_as_pytorch_refuses(code):
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - its type is what we compare with
        eval(code, {"t": torch})
    with pytest.raises(theirs.type):
        eval(code, {"t": rushlight})


def test_imprecise_bounds_warn_and_draw_as_pytorch():
    cases = (("float32", 2**24 + 5, 2**24 + 7), ("float32", -(2**30), -(2**30) + 100), ("float16", 0, 60000), ("bfloat16", 3, 1001), ("float64", 1, 2**62))
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
