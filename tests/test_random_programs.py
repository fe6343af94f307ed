"""What programs draw (layers, initialisers, distributions, large and odd outputs) against PyTorch, bit for bit.

One item is one way to draw, run on both sides from the same seed; results and generator states must be equal. The items
hold on every machine kind: where PyTorch's arithmetic follows the processor, Rushlight's does too.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.random_parity import FLOATS, assert_same, dtype_of, parameters  # noqa: E402

ITEMS: dict = {}
LARGE = 300_007  # several stages, several threads, a ragged end


def add(name, case):
    assert name not in ITEMS
    ITEMS[name] = case


# --- plain fills in every float dtype: one element, the block's edges, larger than a stage ----------------------------

for d in FLOATS:
    for n in (1, 15, 16, 17, 100, 1000, LARGE):
        add(f"randn {d} {n}", lambda t, d=d, n=n: t.randn(n, dtype=dtype_of(t, d)))
    add(f"rand {d}", lambda t, d=d: t.rand(LARGE, dtype=dtype_of(t, d)))
    add(f"normal_ moments {d}", lambda t, d=d: t.empty(1000, dtype=dtype_of(t, d)).normal_(-3.25, 0.7))
    add(f"normal_ zero std {d}", lambda t, d=d: t.empty(33, dtype=dtype_of(t, d)).normal_(2.5, 0.0))
    add(f"normal_ large std {d}", lambda t, d=d: t.empty(500, dtype=dtype_of(t, d)).normal_(0.0, 1e4))
    add(f"normal_ strided {d}", lambda t, d=d: t.zeros(40, 50, dtype=dtype_of(t, d))[:, ::2].normal_())
    add(f"normal_ transposed {d}", lambda t, d=d: t.zeros(40, 50, dtype=dtype_of(t, d)).t().normal_())
    add(f"normal_ offset {d}", lambda t, d=d: t.zeros(1000, dtype=dtype_of(t, d))[7:].normal_())
    add(f"uniform_ bounds {d}", lambda t, d=d: t.empty(1000, dtype=dtype_of(t, d)).uniform_(-0.1, 0.7))
    add(f"exponential_ {d}", lambda t, d=d: t.empty(LARGE, dtype=dtype_of(t, d)).exponential_(1.3))
    add(f"exponential_ strided {d}", lambda t, d=d: t.zeros(40, 50, dtype=dtype_of(t, d))[:, ::2].exponential_())
    add(f"cauchy_ {d}", lambda t, d=d: t.empty(1000, dtype=dtype_of(t, d)).cauchy_(0.3, 2.0))
    add(f"log_normal_ {d}", lambda t, d=d: t.empty(1000, dtype=dtype_of(t, d)).log_normal_(0.1, 0.4))
    add(f"geometric_ {d}", lambda t, d=d: t.empty(LARGE, dtype=dtype_of(t, d)).geometric_(0.02))
    add(f"bernoulli_ {d}", lambda t, d=d: t.empty(LARGE, dtype=dtype_of(t, d)).bernoulli_(0.37))
    add(f"bernoulli tensor {d}", lambda t, d=d: t.bernoulli(parameters(t, 1000, dtype=d)))
    add(f"poisson {d}", lambda t, d=d: t.poisson(parameters(t, 1000, scale=20, dtype=d)))
    add(f"multinomial {d}", lambda t, d=d: t.multinomial(parameters(t, 20, dtype=d), 500, True))
    add(f"dropout {d}", lambda t, d=d: t.nn.functional.dropout(parameters(t, 1000, dtype=d), 0.2))
    if d != "float16":  # PyTorch has none
        add(f"rrelu {d}", lambda t, d=d: t.nn.functional.rrelu(parameters(t, 1000, dtype=d) - 0.5, training=True))
for d in ("complex64", "complex128"):
    add(f"randn {d}", lambda t, d=d: t.randn(1000, dtype=dtype_of(t, d)))
    add(f"rand {d}", lambda t, d=d: t.rand(1000, dtype=dtype_of(t, d)))
for d in ("uint8", "int8", "int16", "int32", "int64"):
    add(f"randint {d}", lambda t, d=d: t.randint(0, 100, (1000,), dtype=dtype_of(t, d)))
    add(f"randperm {d}", lambda t, d=d: t.randperm(100, dtype=dtype_of(t, d)))
    add(f"bernoulli_ {d}", lambda t, d=d: t.empty(1000, dtype=dtype_of(t, d)).bernoulli_(0.5))
    add(f"geometric_ {d}", lambda t, d=d: t.empty(1000, dtype=dtype_of(t, d)).geometric_(0.3))
    add(f"random_ {d}", lambda t, d=d: t.empty(1000, dtype=dtype_of(t, d)).random_())
add("randint large", lambda t: t.randint(0, 2**40, (LARGE,)))
add("randint negative", lambda t: t.randint(-50, 50, (40, 50)))
add("randperm large", lambda t: t.randperm(LARGE))
add("4M normals", lambda t: t.randn(1 << 22)[:: 1 << 10].clone())

# --- normal, in all forms ---------------------------------------------------------------------------------------------

add("normal tensor mean", lambda t: t.normal(parameters(t, 1000), 2.0))
add("normal tensor std", lambda t: t.normal(0.5, parameters(t, 1000)))
add("normal both tensors", lambda t: t.normal(parameters(t, 30, 1), parameters(t, 40)))
add("normal size", lambda t: t.normal(1.0, 2.0, (30, 40)))
add("normal out", lambda t: t.normal(parameters(t, 100), parameters(t, 100), out=t.zeros(0)))
add("randn_like", lambda t: t.randn_like(t.zeros(30, 40)))
add("randn_like transposed", lambda t: t.randn_like(t.zeros(30, 40).t()))
add("randn out strided", lambda t: t.randn(100, out=t.zeros(200)[::2]))
add("randn channels last", lambda t: t.empty(2, 3, 4, 5, memory_format=t.channels_last).normal_())

# --- layers -----------------------------------------------------------------------------------------------------------


def layer(make, *shape):
    def case(t):
        module = make(t.nn)
        return (module(parameters(t, *shape)), *(p.detach() for p in module.parameters()))

    return case


def weights(make):
    return lambda t: tuple(p.detach() for p in make(t.nn).parameters())


add("Dropout", layer(lambda nn: nn.Dropout(0.3), 30, 40))
add("Dropout inplace", layer(lambda nn: nn.Dropout(0.3, inplace=True), 30, 40))
add("Dropout1d", layer(lambda nn: nn.Dropout1d(0.3), 4, 30, 7))
add("Dropout2d", layer(lambda nn: nn.Dropout2d(0.3), 4, 30, 5, 5))
add("Dropout3d", layer(lambda nn: nn.Dropout3d(0.3), 4, 30, 2, 3, 3))
add("AlphaDropout", layer(lambda nn: nn.AlphaDropout(0.3), 30, 40))
add("FeatureAlphaDropout", layer(lambda nn: nn.FeatureAlphaDropout(0.3), 4, 30, 5))
add("RReLU", layer(lambda nn: nn.RReLU(), 30, 40))
add("FractionalMaxPool2d", layer(lambda nn: nn.FractionalMaxPool2d(3, output_size=5), 2, 3, 12, 12))
add("Linear weights", weights(lambda nn: nn.Linear(30, 40)))
add("Bilinear weights", weights(lambda nn: nn.Bilinear(5, 6, 7)))
add("Conv2d weights", weights(lambda nn: nn.Conv2d(5, 8, 3)))
add("ConvTranspose1d weights", weights(lambda nn: nn.ConvTranspose1d(5, 8, 3)))
add("Embedding weights", weights(lambda nn: nn.Embedding(100, 16)))
add("Embedding padded", weights(lambda nn: nn.Embedding(100, 15, padding_idx=3)))
add("EmbeddingBag weights", weights(lambda nn: nn.EmbeddingBag(100, 16)))
add("LSTM weights", weights(lambda nn: nn.LSTM(7, 9, 2, bidirectional=True)))
add("GRU weights", weights(lambda nn: nn.GRU(7, 9)))
add("MultiheadAttention weights", weights(lambda nn: nn.MultiheadAttention(16, 4)))
add("TransformerEncoderLayer weights", weights(lambda nn: nn.TransformerEncoderLayer(16, 4, 32)))

# --- initialisers -----------------------------------------------------------------------------------------------------

INITIALISERS = {
    "uniform_": lambda init, w: init.uniform_(w, -0.3, 0.4),
    "normal_": lambda init, w: init.normal_(w, 0.1, 0.02),
    "xavier_uniform_": lambda init, w: init.xavier_uniform_(w, 1.4),
    "xavier_normal_": lambda init, w: init.xavier_normal_(w),
    "kaiming_uniform_": lambda init, w: init.kaiming_uniform_(w, 0.2),
    "kaiming_normal_": lambda init, w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"),
    "sparse_": lambda init, w: init.sparse_(w, 0.2),
}
for name, initialise in INITIALISERS.items():
    add(f"init.{name}", lambda t, f=initialise: f(t.nn.init, t.empty(33, 50)))
    add(f"init.{name} double", lambda t, f=initialise: f(t.nn.init, t.empty(33, 50, dtype=t.float64)))

# --- functions that draw inside ---------------------------------------------------------------------------------------

add("multinomial without replacement", lambda t: t.multinomial(parameters(t, 5, 50), 20))
add("multinomial one", lambda t: t.multinomial(parameters(t, 40, 50), 1))
add("binomial", lambda t: t.binomial(parameters(t, 1000, scale=50).floor(), parameters(t, 1000, seed=12)))
add("gumbel_softmax", lambda t: t.nn.functional.gumbel_softmax(t.zeros(40, 50), hard=True).argmax(-1))
add("rand_like", lambda t: t.rand_like(t.zeros(30, 40)))
add("randint_like", lambda t: t.randint_like(t.zeros(30, 40), 3, 99))
add("bernoulli of p", lambda t: t.bernoulli(t.zeros(30, 40), 0.3))
add("native_dropout", lambda t: t.native_dropout(parameters(t, 1000), 0.4, True))
add("feature_dropout", lambda t: t.feature_dropout(parameters(t, 20, 30, 4), 0.4, True))

# --- distributions ----------------------------------------------------------------------------------------------------

DISTRIBUTIONS = {
    "Normal": lambda d, t: d.Normal(parameters(t, 40), parameters(t, 40, seed=12) + 0.1),
    "Uniform": lambda d, t: d.Uniform(parameters(t, 40), parameters(t, 40, seed=12) + 1.1),
    "Bernoulli": lambda d, t: d.Bernoulli(parameters(t, 40)),
    "Categorical": lambda d, t: d.Categorical(parameters(t, 4, 10)),
    "Exponential": lambda d, t: d.Exponential(parameters(t, 40) + 0.5),
    "Gamma": lambda d, t: d.Gamma(parameters(t, 40) + 0.5, parameters(t, 40, seed=12) + 0.5),
    "Beta": lambda d, t: d.Beta(parameters(t, 40) + 0.5, parameters(t, 40, seed=12) + 0.5),
    "Dirichlet": lambda d, t: d.Dirichlet(parameters(t, 4, 10) + 0.5),
    "Poisson": lambda d, t: d.Poisson(parameters(t, 40, scale=30)),
    "Binomial": lambda d, t: d.Binomial(20, parameters(t, 40)),
    "Cauchy": lambda d, t: d.Cauchy(parameters(t, 40), parameters(t, 40, seed=12) + 0.1),
    "HalfNormal": lambda d, t: d.HalfNormal(parameters(t, 40) + 0.1),
    "HalfCauchy": lambda d, t: d.HalfCauchy(parameters(t, 40) + 0.1),
    "Chi2": lambda d, t: d.Chi2(parameters(t, 40) + 2),
    "Multinomial": lambda d, t: d.Multinomial(30, parameters(t, 10)),
    "OneHotCategorical": lambda d, t: d.OneHotCategorical(parameters(t, 4, 10)),
}
for name, make in DISTRIBUTIONS.items():
    add(f"distributions.{name}", lambda t, make=make: make(t.distributions, t).sample((50,)))

# --- generators -------------------------------------------------------------------------------------------------------


def own_generator(t):
    g = t.Generator().manual_seed(99)
    return (t.randn(100, generator=g), t.rand(7, generator=g), t.randperm(50, generator=g), t.randn(3, generator=g),
            t.empty(40).bernoulli_(0.2, generator=g), t.empty(40).exponential_(generator=g), g.get_state())


def state_in_the_middle(t):
    first = t.randn(5), t.randn(100)
    state = t.get_rng_state()
    again = t.randn(5), t.randn(100), t.rand(3)
    t.set_rng_state(state)
    return (*first, *again, t.randn(5), t.randn(100), t.rand(3))


def forked(t):
    with t.random.fork_rng():
        inside = t.randn(50)
    return inside, t.randn(50)


add("own generator", own_generator)
add("state in the middle", state_in_the_middle)
add("forked", forked)
add("blocks and single draws in turn", lambda t: tuple(t.randn(n) for n in (1, 16, 3, 17, 1, 40, 15, 2)))


def test_the_probe_is_whole():
    assert len(ITEMS) >= 163


@pytest.mark.parametrize("name", ITEMS)
def test_same_bits(name):
    for seed in (0, 2**40 + 17):
        assert_same(ITEMS[name], seed)
