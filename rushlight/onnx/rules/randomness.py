"""Random numbers, all from the runtime's uniform and normal ones: it draws others than this program would."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ..building import Builder, Size
from ..model import Value
from .creation import filled
from .table import INT64, full_size, number, result_of, rule

NEGATIVE_SATURATION = -1.7580993408473766      # of SELU, which alpha dropout puts in the place of what it drops


def _uniform(g: Builder, sizes: Sequence[int | Size], dtype: Any) -> Value:
    """Numbers from 0 to 1, which is not among them."""
    own = _C.float64 if dtype is _C.float64 else _C.float32
    return g.node("RandomUniformLike", filled(g, sizes, 0, own))


def _normal(g: Builder, sizes: Sequence[int | Size], dtype: Any) -> Value:
    own = _C.float64 if dtype is _C.float64 else _C.float32
    return g.node("RandomNormalLike", filled(g, sizes, 0, own))


def _scaled(g: Builder, x: Value, factor: Any, offset: Any) -> Value:
    parts = [g.cast(n, x.dtype) if isinstance(n, Value) else number(g, float(n), x) for n in (factor, offset)]
    return g.node("Add", g.node("Mul", x, parts[0]), parts[1])


@rule("rand", "rand_like")
def rand(g: Builder, size: Sequence[Any] | None = None, input: Value | None = None, **options: Any) -> Value:
    kind = result_of(g).dtype
    return g.cast(_uniform(g, full_size(g, input) if size is None else size, kind), kind)


@rule("randn", "randn_like")
def randn(g: Builder, size: Sequence[Any] | None = None, input: Value | None = None, **options: Any) -> Value:
    kind = result_of(g).dtype
    return g.cast(_normal(g, full_size(g, input) if size is None else size, kind), kind)


@rule("randint", "randint_like")
def randint(g: Builder, high: int, size: Sequence[Any] | None = None, low: int = 0, input: Value | None = None,
            **options: Any) -> Value:
    drawn = _uniform(g, full_size(g, input) if size is None else size, _C.float64)
    return g.cast(g.node("Floor", _scaled(g, drawn, high - low, low)), result_of(g).dtype)


@rule("randperm")
def randperm(g: Builder, n: Any, **options: Any) -> Value:
    keys = _uniform(g, [n], _C.float32)
    return g.nodes("TopK", keys, g.sizes([n]), dtypes=(keys.dtype, INT64), axis=0, sorted=1)[1]


@rule("uniform")
def uniform(g: Builder, input: Value, **options: Any) -> Value:
    low, high = options.get("from", 0), options.get("to", 1)
    return _scaled(g, _uniform(g, full_size(g, input), input.dtype), high - low, low)


@rule("normal", "normal_functional")
def normal(g: Builder, mean: Any = 0.0, std: Any = 1.0, size: Sequence[Any] | None = None, input: Value | None = None,
           **options: Any) -> Value:
    seen = result_of(g)
    like = next((v for v in (input, mean, std) if isinstance(v, Value)), None)
    sizes = size
    if sizes is None:
        sizes = full_size(g, like) if list(like.shape) == list(seen.shape) else list(seen.shape)
    return g.cast(_scaled(g, _normal(g, sizes, seen.dtype), std, mean), seen.dtype)


@rule("log_normal")
def log_normal(g: Builder, input: Value, mean: float = 1, std: float = 2, generator: Any = None) -> Value:
    return g.node("Exp", _scaled(g, _normal(g, full_size(g, input), input.dtype), std, mean))


@rule("cauchy")
def cauchy(g: Builder, input: Value, median: float = 0, sigma: float = 1, generator: Any = None) -> Value:
    angle = _scaled(g, _uniform(g, full_size(g, input), input.dtype), math.pi, -math.pi / 2)
    return _scaled(g, g.node("Tan", angle), sigma, median)


@rule("exponential")
def exponential(g: Builder, input: Value, lambd: float = 1, generator: Any = None) -> Value:
    rest = _scaled(g, _uniform(g, full_size(g, input), input.dtype), -1, 1)
    return _scaled(g, g.node("Log", rest), -1 / lambd, 0)


@rule("geometric")
def geometric(g: Builder, input: Value, p: float, generator: Any = None) -> Value:
    rest = _scaled(g, _uniform(g, full_size(g, input), _C.float64), -1, 1)
    tries = g.node("Ceil", _scaled(g, g.node("Log", rest), 1 / math.log1p(-p) if p < 1 else 0.0, 0))
    return g.node("Max", tries, number(g, 1, tries))


@rule("bernoulli")
def bernoulli(g: Builder, input: Value, p: float | None = None, generator: Any = None, out: Any = None) -> Value:
    chance = input if p is None else g.constant(p, _C.float32)
    drawn = _uniform(g, full_size(g, input), chance.dtype)
    return g.node("Less", drawn, g.cast(chance, drawn.dtype), dtype=_C.bool)


@rule("multinomial")
def multinomial(g: Builder, input: Value, num_samples: int, replacement: bool = False, generator: Any = None,
                out: Any = None) -> Value:
    """With replacement by the runtime; without, the largest of keys: of each log-chance a draw is taken away."""
    x = input if input.ndim == 2 else g.node("Unsqueeze", input, g.ints([0]))
    logs = g.node("Log", g.cast(x, _C.float32))
    if replacement:
        found = g.cast(g.node("Multinomial", logs, dtype=_C.int32, sample_size=num_samples), INT64)
    else:
        drawn = g.node("RandomUniformLike", logs)
        keys = g.node("Sub", logs, g.node("Log", g.node("Neg", g.node("Log", drawn))))
        found = g.nodes("TopK", keys, g.ints([num_samples]), dtypes=(keys.dtype, INT64), axis=1, sorted=1)[1]
    return found if input.ndim == 2 else g.node("Squeeze", found, g.ints([0]))


@rule("_rrelu_with_noise")
def rrelu(g: Builder, input: Value, lower: float, upper: float, generator: Any = None) -> tuple[Value, Value]:
    slope = g.cast(_scaled(g, _uniform(g, full_size(g, input), input.dtype), upper - lower, lower), input.dtype)
    below = g.node("Less", input, number(g, 0, input), dtype=_C.bool)
    noise = g.node("Where", below, slope, number(g, 1, input), dtype=input.dtype)
    return g.node("Mul", input, noise), noise


def _dropping(by_channel: bool, keeps_moments: bool) -> Callable[..., Value]:
    def convert(g: Builder, input: Value, p: float = 0.5, train: bool = False, training: bool | None = None,
                inplace: bool = False) -> Value:
        if not (train if training is None else training) or not p:
            return input
        sizes = full_size(g, input)
        if by_channel:
            sizes = [*sizes[:2], *[1] * (input.ndim - 2)]
        drawn = _uniform(g, sizes, input.dtype)
        kept = g.node("GreaterOrEqual", drawn, number(g, p, drawn), dtype=_C.bool)
        if not keeps_moments:
            scale = 1 / (1 - p) if p < 1 else 0.0
            return g.node("Mul", input, g.node("Where", kept, number(g, scale, input), number(g, 0, input),
                                               dtype=input.dtype))
        if p == 1:
            return g.node("Mul", input, number(g, 0, input))
        low = NEGATIVE_SATURATION
        scale = ((1 - p) * (1 + p * low * low)) ** -0.5
        chosen = g.node("Where", kept, input, number(g, low, input), dtype=input.dtype)
        return _scaled(g, chosen, scale, -scale * low * p)

    return convert


rule("feature_dropout")(_dropping(True, False))
rule("alpha_dropout")(_dropping(False, True))
rule("feature_alpha_dropout")(_dropping(True, True))
