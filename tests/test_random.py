"""Every sampler against PyTorch: the same numbers, bit for bit, and the same generator state afterwards."""

from __future__ import annotations

import pytest

import rushlight

torch = pytest.importorskip("torch")

from tests.random_parity import (  # noqa: E402
    FLOATS,
    NUMBERS,
    SIZES,
    assert_same,
    dtype_of,
    parameters,
    raw,
)

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


@pytest.mark.parametrize(("method", "arguments", "dtype"), FILL_CASES)
def test_fill_sizes(method, arguments, dtype):
    for size in SIZES:
        assert_same(lambda t, n=size: getattr(t.zeros(n, dtype=dtype_of(t, dtype)), method)(*arguments), size)


@pytest.mark.parametrize(("method", "arguments", "dtype"), FILL_CASES)
def test_fill_visits_strided_memory_in_pytorch_order(method, arguments, dtype):
    for layout in LAYOUTS.values():
        assert_same(lambda t, make=layout: getattr(make(t, dtype_of(t, dtype)), method)(*arguments), 5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_large_fills_cross_stages_and_threads(dtype):
    n = 3 * 65536 + 5
    assert_same(lambda t: t.empty(n, dtype=dtype_of(t, dtype)).uniform_())
    assert_same(lambda t: t.empty(n, dtype=dtype_of(t, dtype)).normal_())
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
    assert_same(lambda t: t.randn(size, dtype=dtype_of(t, dtype)))
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


@pytest.mark.parametrize("dtype", FLOATS)
def test_bernoulli_of_tensors(dtype):
    assert_same(lambda t: t.bernoulli(parameters(t, 100, dtype=dtype)))
    assert_same(lambda t: parameters(t, 10, 7, dtype=dtype).t().bernoulli())
    for target in (*NUMBERS, "bool"):
        assert_same(lambda t, d=target: t.zeros(9, 7, dtype=dtype_of(t, d)).bernoulli_(parameters(t, 7, dtype=dtype)))
        assert_same(
            lambda t, d=target: t.zeros(9, 7, dtype=dtype_of(t, d)).t().bernoulli_(parameters(t, 9, dtype=dtype))
        )
    assert_same(lambda t: t.bernoulli(parameters(t, 9, dtype=dtype), out=t.zeros(0, dtype=t.float64)))


def test_bernoulli_of_probability():
    assert_same(lambda t: t.bernoulli(t.zeros(5, 6).t(), 0.3))
    assert_same(lambda t: t.zeros(50, dtype=t.int64).bernoulli(0.0))
    assert_same(lambda t: t.zeros(50).bernoulli(1.0))


@pytest.mark.parametrize("before", [0, 1, 2, 623, 624])
def test_coins_of_whole_blocks_are_uniforms_below_their_probability(before):
    """Also where the first of a coin's two words does not decide, which is once in two million draws."""
    def drawn(draw):
        rushlight.manual_seed(3)
        rushlight.rand(before)
        return draw(), rushlight.rand(5)

    units, following = drawn(lambda: rushlight.rand(2000, dtype=rushlight.float64))
    for place in (0, 311, 312, 313, 700, 1000, 1247):
        for p in (units[place].item(), units[place].item() + 2**-53, 0.0, 1.0):
            coins, then = drawn(lambda p=p: rushlight.empty(2000).bernoulli_(p))
            assert rushlight.equal(coins, (units < p).float())
            assert rushlight.equal(then, following)
    flags, _ = drawn(lambda: rushlight.empty(4000, dtype=rushlight.bool)[::2].bernoulli_(0.25))
    assert rushlight.equal(flags, units < 0.25)


@pytest.mark.parametrize("before", [0, 1, 2, 623])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
def test_coins_that_threads_toss_in_parts(before, dtype):
    """Each thread passes over the words of the parts before its own: the same coins, and the same state behind them."""
    threads = rushlight.get_num_threads()

    def coins(t):
        t.rand(before)
        return t.empty(130_000, dtype=dtype_of(t, dtype)).bernoulli_(0.3), t.rand(5)

    try:
        for n in (1, 2, 3):
            rushlight.set_num_threads(n)
            assert_same(coins)
    finally:
        rushlight.set_num_threads(threads)


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
    assert_same(lambda t: t._sample_dirichlet(parameters(t, 30, 5, scale=scale, dtype=dtype)))


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
    assert_same(lambda t: t.normal(parameters(t, 40), parameters(t, 40, dtype="float64")))
    assert_same(lambda t: t.normal(1.0, 2.0, (5,)))
    assert_same(lambda t: t.normal(1.0, 2.0, size=(5,), dtype=t.float64))
    assert_same(lambda t: t.normal(parameters(t, 5), parameters(t, 5), out=t.zeros(0)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_dropout(dtype, p):
    assert_same(lambda t: t.dropout(parameters(t, 40, 3, dtype=dtype), p, True))
    assert_same(lambda t: t.dropout(parameters(t, 40, 3, dtype=dtype).t(), p, True))
    assert_same(lambda t: t.dropout_(parameters(t, 40, 3, dtype=dtype), p, True))
    assert_same(lambda t: t.feature_dropout(parameters(t, 5, 3, 4, dtype=dtype), p, True))
    assert_same(lambda t: t.native_dropout(parameters(t, 40, 3, dtype=dtype), p, True))


def test_alpha_dropout():
    for dtype in ("float32", "float64"):
        assert_same(lambda t, d=dtype: t.alpha_dropout(parameters(t, 40, 3, dtype=d), 0.3, True))
        assert_same(lambda t, d=dtype: t.feature_alpha_dropout(parameters(t, 40, 3, 2, dtype=d), 0.3, True))


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
                 t._standard_gamma(parameters(t, 3)), t.randn(1), t.zeros(2).cauchy_(), t.randn(17, dtype=t.bfloat16),
                 t.randn(2)]
        return tuple(p.double() for p in parts)

    for seed in range(5):
        assert_same(case, seed)


# Calls that come back are drawn by the core alone: the same numbers, in turns with what is drawn in Python.
REPEATED = {
    "uniform_": lambda t, x: x.clone().uniform_(),
    "uniform_ bounds": lambda t, x: x.clone().uniform_(-1, 2.5),
    "normal_": lambda t, x: x.clone().normal_(1, 2),
    "bernoulli_": lambda t, x: x.clone().bernoulli_(0.3),
    "bernoulli_ of tensors": lambda t, x: x.clone().bernoulli_(x),
    "bernoulli": lambda t, x: x.bernoulli(),
    "bernoulli p": lambda t, x: t.bernoulli(x, 0.7),
    "poisson": lambda t, x: t.poisson(x * 5),
    "rand_like": lambda t, x: t.rand_like(x),
    "randn_like": lambda t, x: t.randn_like(x),
    "randint_like": lambda t, x: t.randint_like(x, 3, 9),
    "rand_like dtype": lambda t, x: t.rand_like(x, dtype=t.float64),
    "exponential_": lambda t, x: x.clone().exponential_(),
}
SMALL = {
    "rows": lambda t, d: t.full((4, 4), 0.4, dtype=d), "row": lambda t, d: t.full((17,), 0.4, dtype=d),
    "number": lambda t, d: t.full((), 0.4, dtype=d), "none": lambda t, d: t.full((0, 3), 0.4, dtype=d),
    "many": lambda t, d: t.full((50, 41), 0.4, dtype=d), "turned": lambda t, d: t.full((3, 5), 0.4, dtype=d).t(),
    "last": lambda t, d: t.full((2, 3, 4, 4), 0.4, dtype=d).contiguous(memory_format=t.channels_last),
    "odd strides": lambda t, d: t.full((400,), 0.4, dtype=d).as_strided((4, 1, 3), (3, 100, 1)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", REPEATED)
def test_calls_that_come_back_draw_the_same(name, dtype):
    def case(t):
        found = []
        for layout in SMALL.values():
            x = layout(t, dtype_of(t, dtype))
            if not x.ndim and "tensors" in name:
                continue      # of one number PyTorch takes it as such
            found += [REPEATED[name](t, x) for _ in range(4)]
            found.append(t.rand(3))
        return tuple(found)

    assert_same(case)


def test_calls_that_come_back_obey_generators_and_gradients():
    def case(t):
        own, x = t.Generator().manual_seed(5), t.full((3, 3), 0.5)
        found = []
        for _ in range(4):
            found += [x.clone().uniform_(), x.clone().uniform_(generator=own)]
            found += [x.bernoulli(generator=own), x.bernoulli()]
            y = x.clone().requires_grad_()
            drawn = (y * 1).normal_() + y.bernoulli() + t.rand_like(y)
            drawn.sum().backward()
            found += [drawn, y.grad, t.rand_like(x, requires_grad=True)]
        return tuple(found)

    assert_same(case)


def test_what_a_law_refuses_is_refused_each_time():
    x = rushlight.full((4, 4), 0.5)
    for _ in range(4):
        x.uniform_(), x.bernoulli_(0.5), rushlight.bernoulli(x, 0.5), rushlight.poisson(x)
        with pytest.raises(RuntimeError, match="range"):
            x.uniform_(2, 1)
        with pytest.raises(RuntimeError, match=r"\[0, 1\]"):
            x.bernoulli_(1.5)
        with pytest.raises(RuntimeError):
            rushlight.bernoulli(x + 1)
        with pytest.raises(RuntimeError):
            rushlight.poisson(x - 9)
        with pytest.raises(NotImplementedError):
            rushlight.rand_like(x.long())
        with pytest.raises(RuntimeError, match="leaf"):
            x.clone().requires_grad_().uniform_()
        before = x._version
        x.uniform_()
        assert x._version == before + 1
        with rushlight.inference_mode():
            frozen = rushlight.rand_like(x)
        with pytest.raises(RuntimeError):
            frozen.uniform_()


def test_integers_beyond_what_a_type_counts_warn_each_time():
    x = rushlight.zeros(3, dtype=rushlight.float16)
    for _ in range(4):
        with pytest.warns(UserWarning, match="counts every integer"):
            rushlight.randint_like(x, 60000)
