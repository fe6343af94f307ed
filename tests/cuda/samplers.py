"""Every sampler that PyTorch has on CUDA devices: a program of each, for either library.

    python -m tests.cuda.samplers                  where there is a card and PyTorch: both, bit for bit
    python -m tests.cuda.samplers --dump file.npz  PyTorch's numbers, to be compared where there is no card

A program gets a library and a device, draws from seed 42, and returns tensors. How far it moved the generator counts.
"""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any, str], Any]
FLOATS = ("float32", "float64", "float16", "bfloat16")
WHOLE = ("int64", "int32", "int16", "int8", "uint8")


def weights(t: Any, d: str, *sizes: int, dtype: str = "float32") -> Any:
    """Uneven positive numbers without a generator."""
    count = int(np.prod(sizes))
    made = (np.arange(count) * 0.61803398875 % 1.0 + 0.01).reshape(sizes)
    return t.from_numpy(made).to(getattr(t, dtype)).to(d)


def permutations() -> dict[str, Program]:
    made: dict[str, Program] = {}
    for n in (0, 1, 2, 3, 5, 10, 100, 1000, 29999, 30000, 30001, 200_003):
        made[f"randperm {n}"] = lambda t, d, n=n: t.randperm(n, device=d)
    for name in ("int32", "int16", "float32", "float64"):
        made[f"randperm 1000 {name}"] = lambda t, d, name=name: t.randperm(1000, device=d, dtype=getattr(t, name))
    made["randperm 100 uint8"] = lambda t, d: t.randperm(100, device=d, dtype=t.uint8)
    return made


def choices() -> dict[str, Program]:
    made: dict[str, Program] = {}
    for dtype in FLOATS:
        for name, sizes in (("vector", (10,)), ("rows", (5, 7)), ("long", (3000,)), ("many", (70, 33))):
            for replacement in (False, True):
                made[f"multinomial {name} {dtype} {replacement}"] = (
                    lambda t, d, s=sizes, k=dtype, r=replacement: t.multinomial(weights(t, d, *s, dtype=k), 4, r)
                )
        made[f"multinomial one {dtype}"] = lambda t, d, k=dtype: t.multinomial(weights(t, d, 6, 40, dtype=k), 1)
        made[f"multinomial many samples {dtype}"] = (
            lambda t, d, k=dtype: t.multinomial(weights(t, d, 3, 20, dtype=k), 1000, True)
        )
    return made


def laws() -> dict[str, Program]:
    made: dict[str, Program] = {}
    rates = [0.05, 0.5, 1.0, 3.7, 12.0, 40.0, 63.5, 64.0, 90.0, 500.0, 3999.0, 4001.0, 1e5]
    for dtype in FLOATS:
        for rate in rates:
            if rate < 6e4 or dtype != "float16":
                made[f"poisson {rate} {dtype}"] = (
                    lambda t, d, r=rate, k=dtype: t.poisson(t.full((300,), r, dtype=getattr(t, k), device=d))
                )
        for alpha in (0.05, 0.5, 0.9, 1.0, 2.5, 10.0, 300.0):
            made[f"gamma {alpha} {dtype}"] = (
                lambda t, d, a=alpha, k=dtype: t._standard_gamma(t.full((300,), a, dtype=getattr(t, k), device=d))
            )
        made[f"dirichlet {dtype}"] = lambda t, d, k=dtype: t._sample_dirichlet(weights(t, d, 40, 5, dtype=k) * 4)
    for dtype in ("float32", "float64"):
        for count, p in ((1, 0.5), (8, 0.3), (30, 0.9), (100, 0.02), (100, 0.4), (1000, 0.7), (100_000, 0.5), (9, 0),
                         (9, 1)):
            made[f"binomial {count} {p} {dtype}"] = lambda t, d, n=count, p=p, k=dtype: t.binomial(
                t.full((300,), float(n), dtype=getattr(t, k), device=d),
                t.full((300,), float(p), dtype=getattr(t, k), device=d),
            )
    return made


def simple() -> dict[str, Program]:
    made: dict[str, Program] = {}
    for dtype in FLOATS:
        for name, call in {
            "uniform_": lambda x: x.uniform_(-2, 3), "normal_": lambda x: x.normal_(1, 2),
            "exponential_": lambda x: x.exponential_(1.5), "cauchy_": lambda x: x.cauchy_(1, 2),
            "log_normal_": lambda x: x.log_normal_(0.5, 1.5), "geometric_": lambda x: x.geometric_(0.3),
            "bernoulli_": lambda x: x.bernoulli_(0.3), "random_": lambda x: x.random_(),
            "random_ to": lambda x: x.random_(100), "random_ from to": lambda x: x.random_(-7, 120),
        }.items():
            made[f"{name} {dtype}"] = lambda t, d, f=call, k=dtype: f(t.empty(1001, dtype=getattr(t, k), device=d))
    for dtype in WHOLE:
        for name, call in {
            "geometric_": lambda x: x.geometric_(0.3), "bernoulli_": lambda x: x.bernoulli_(0.3),
            "random_": lambda x: x.random_(), "random_ to": lambda x: x.random_(100),
        }.items():
            made[f"{name} {dtype}"] = lambda t, d, f=call, k=dtype: f(t.empty(1001, dtype=getattr(t, k), device=d))
    for low, high in ((0, 10), (-5, 1 << 20), (0, 1 << 28), (0, (1 << 28) + 1), (-(1 << 31), 1 << 31), (0, 1 << 40),
                      (-(1 << 62), 1 << 62)):
        made[f"randint {low} {high}"] = lambda t, d, a=low, b=high: t.randint(a, b, (1001,), device=d)
    made["random_ bool"] = lambda t, d: t.empty(1001, dtype=t.bool, device=d).random_()
    made["bernoulli_ bool"] = lambda t, d: t.empty(1001, dtype=t.bool, device=d).bernoulli_(0.4)
    for dtype in ("complex64", "complex128"):
        made[f"randn {dtype}"] = lambda t, d, k=dtype: t.view_as_real(t.randn(501, dtype=getattr(t, k), device=d))
        made[f"rand {dtype}"] = lambda t, d, k=dtype: t.view_as_real(t.rand(501, dtype=getattr(t, k), device=d))
    made["randn large"] = lambda t, d: t.randn(1_200_001, device=d)[::997]
    made["rand large half"] = lambda t, d: t.rand(1_200_001, device=d, dtype=t.float16)[::997]
    return made


def tensors() -> dict[str, Program]:
    """Samplers whose numbers are tensors."""
    F = lambda t: t.nn.functional   # noqa: E731  PyTorch's name for it
    made: dict[str, Program] = {
        "normal mean": lambda t, d: t.normal(weights(t, d, 333), 2.0),
        "normal std": lambda t, d: t.normal(0.5, weights(t, d, 333)),
        "normal both": lambda t, d: t.normal(weights(t, d, 333), weights(t, d, 333)),
        "normal broadcast": lambda t, d: t.normal(weights(t, d, 5, 1), weights(t, d, 7)),
        "normal size": lambda t, d: t.normal(1.0, 3.0, (333,), device=d),
        "rand_like": lambda t, d: t.rand_like(weights(t, d, 333)),
        "randn_like": lambda t, d: t.randn_like(weights(t, d, 333, dtype="bfloat16")),
        "randint_like": lambda t, d: t.randint_like(weights(t, d, 333), 3, 90),
        "dropout": lambda t, d: F(t).dropout(weights(t, d, 1001), 0.4),
        "dropout half": lambda t, d: F(t).dropout(weights(t, d, 4096, dtype="bfloat16"), 0.4),
        "dropout1d": lambda t, d: F(t).dropout1d(weights(t, d, 6, 7, 5), 0.4),
        "dropout2d": lambda t, d: F(t).dropout2d(weights(t, d, 6, 7, 5, 2), 0.4),
        "dropout3d": lambda t, d: F(t).dropout3d(weights(t, d, 6, 7, 5, 2, 2), 0.4),
        "alpha_dropout": lambda t, d: F(t).alpha_dropout(weights(t, d, 1001), 0.4, True),
        "feature_alpha_dropout": lambda t, d: F(t).feature_alpha_dropout(weights(t, d, 60, 7), 0.4, True),
        "native_dropout": lambda t, d: t.native_dropout(weights(t, d, 1001), 0.25, True),
        "rrelu": lambda t, d: F(t).rrelu(weights(t, d, 1001) - 0.5, 0.1, 0.4, True),
        "rrelu double": lambda t, d: F(t).rrelu(weights(t, d, 1001, dtype="float64") - 0.5, 0.1, 0.4, True),
        "gumbel": lambda t, d: F(t).gumbel_softmax(weights(t, d, 40, 5), hard=True),
        "fractional_max_pool2d": lambda t, d: F(t).fractional_max_pool2d(weights(t, d, 2, 3, 9, 9), 2, (4, 4)),
        "strides": lambda t, d: t.empty(11, 13, 3, device=d)[:, ::2].uniform_(),
        "turned": lambda t, d: t.empty(11, 13, device=d).t().normal_(),
        "trunc_normal_ calls": lambda t, d: t.nn.init.kaiming_uniform_(t.empty(30, 40, device=d)),
        "orthogonal draws": lambda t, d: t.nn.init.xavier_normal_(t.empty(30, 40, device=d)),
        "several": lambda t, d: [t.rand(5, device=d), t.randn(300, device=d), t.randperm(7, device=d),
                                 t.rand(3, device=d)],
        "Beta": lambda t, d: t.distributions.Beta(weights(t, d, 50), weights(t, d, 50)).sample(),
        "Categorical": lambda t, d: t.distributions.Categorical(weights(t, d, 50, 4)).sample((3,)),
        "Gamma": lambda t, d: t.distributions.Gamma(weights(t, d, 50), weights(t, d, 50)).sample(),
        "VonMises": lambda t, d: t.distributions.VonMises(weights(t, d, 50), weights(t, d, 50)).sample(),
        "StudentT": lambda t, d: t.distributions.StudentT(weights(t, d, 50) + 2).sample(),
    }
    for out in ("float32", "float64", "float16", "int64", "bool"):
        for p in ("float32", "float64"):
            made[f"bernoulli_ {out} of {p}"] = lambda t, d, a=out, b=p: t.empty(
                333, dtype=getattr(t, a), device=d).bernoulli_(weights(t, d, 333, dtype=b).clamp(max=1))
    for dtype in FLOATS:
        made[f"bernoulli {dtype}"] = lambda t, d, k=dtype: t.bernoulli(weights(t, d, 333, dtype=k).clamp(max=1))
    return made


PROGRAMS: dict[str, Program] = {**permutations(), **choices(), **laws(), **simple(), **tensors()}


def numbers(t: Any, result: Any) -> list[np.ndarray]:
    """Results as arrays, half types widened."""
    if isinstance(result, (list, tuple)):
        return [a for part in result for a in numbers(t, part)]
    if result.dtype in (t.bfloat16, t.float16):
        result = result.float()
    return [result.cpu().numpy()]


def drawn(t: Any, name: str, generator: Any, device: str = "cuda") -> list[np.ndarray]:
    """A program's results and, last, how far the generator went."""
    generator.manual_seed(42)
    made = numbers(t, PROGRAMS[name](t, device))
    return [*made, np.array(generator.get_offset())]


def same(a: list[np.ndarray], b: list[np.ndarray]) -> str:
    """What differs, or nothing."""
    if len(a) != len(b):
        return f"{len(a)} arrays and {len(b)}"
    for one, other in zip(a[:-1], b[:-1], strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"{one.dtype}{list(one.shape)} and {other.dtype}{list(other.shape)}"
        bad = ~((one == other) | ((one != one) & (other != other)))
        if bad.any():
            at = int(bad.flatten().nonzero()[0][0])
            near = np.allclose(one, other, rtol=1e-12 if one.dtype == np.float64 else 1e-5)
            return (f"{int(bad.sum())} of {bad.size} differ{', in the last digits' if near else ''}, the first at {at}:"
                    f" {one.flatten()[at]} and {other.flatten()[at]}")
    return "" if int(a[-1]) == int(b[-1]) else f"the generators are at {int(a[-1])} and {int(b[-1])}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.samplers")
    parser.add_argument("--dump", help="write PyTorch's numbers here")
    options = parser.parse_args()
    import torch

    torch.cuda.init()
    theirs: dict[str, list[np.ndarray]] = {}
    for name in PROGRAMS:
        try:
            theirs[name] = drawn(torch, name, torch.cuda.default_generators[0])
        except Exception as error:   # noqa: BLE001  PyTorch refuses some types
            print(f"PyTorch refuses {name}: {str(error)[:80]}")
    if options.dump:
        np.savez_compressed(
            options.dump, **{f"{name}/{k}": a for name, found in theirs.items() for k, a in enumerate(found)}
        )
    import rushlight as rl

    equal = 0
    for name, want in theirs.items():
        try:
            what = same(drawn(rl, name, rl.cuda.default_generators[0]), want)
        except Exception as error:   # noqa: BLE001  a list must survive every failure
            what = f"{type(error).__name__}: {traceback.format_exception_only(error)[-1].strip()[:160]}"
        equal += not what
        if what:
            print(f"{name}: {what}")
    print(f"samplers: {equal} of {len(theirs)} bit for bit as PyTorch {torch.__version__}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
