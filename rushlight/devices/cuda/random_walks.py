"""Laws of several draws on CUDA devices: Poisson, gamma, Dirichlet, binomial, choices, permutations.

Enters: a tensor to fill, a generator, tensors of the law's numbers. Leaves: the tensor filled by kernels of
codegen/philox_walks.py, and the generator moved on as PyTorch moves it for the same call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import _C
from ...base.dtype import finfo
from ...codegen.philox_walks import BLOCK, EACH, binomial_nest, choice_nest, gamma_nest, island_nest, poisson_nest
from .random import fill, in_order, kernel, run, take

# what a call moves a generator by
POISSON, GAMMA, BINOMIAL = 20, 12, 44
ROW = 128                # threads of a block that chooses for one row
MOST_ROWS = 65535        # rows of choices that have blocks of their own


def samplers(device: Any) -> dict[str, Callable]:
    """The functions that `Device.implementation` answers with."""
    def bound(function: Callable) -> Callable:
        return lambda out, generator, *given: function(device, out, generator, *given)

    return {"random_poisson": bound(poisson), "random_gamma": bound(gamma), "random_dirichlet": bound(dirichlet),
            "random_binomial": bound(binomial), "random_multinomial": bound(choose),
            "random_permutation": bound(permute), "random_rrelu": bound(slopes)}  # fmt: skip


def walk(device: Any, out: Any, generator: Any, given: tuple, moved: int, make: tuple, extent: int = 0) -> Any:
    """A kernel over elements in the order of memory, with its counter and seed."""
    count = out.numel()
    if not count:
        return out
    target, into = in_order(out)
    order = sorted(range(out.ndim), key=lambda d: -out.stride(d)) if not out.is_contiguous() else range(out.ndim)
    laid = [t.to(out.dtype).expand(out.shape).permute(tuple(order)).contiguous() for t in given]
    counter, seed = take(generator, out, moved)
    name, nest = make
    result = kernel(device, (name, out.dtype.code), lambda: nest(out.dtype.code))
    run(result, (*laid, target), [count, counter, seed], extent or count)
    if into is not None:
        into.copy_(target)
    return out


def poisson(device: Any, out: Any, generator: Any, rates: Any) -> Any:
    """Numbers of events."""
    return walk(device, out, generator, (rates,), POISSON, ("poisson", poisson_nest))


def gamma(device: Any, out: Any, generator: Any, shapes: Any) -> Any:
    """Gamma numbers of scale one."""
    least = finfo(out.dtype).tiny
    return walk(device, out, generator, (shapes,), GAMMA, ("gamma", lambda code: gamma_nest(code, least)))


def dirichlet(device: Any, out: Any, generator: Any, shapes: Any) -> Any:
    """Shares along the last dim: gamma numbers by their sum."""
    result = gamma(device, shapes.new_empty(shapes.shape), generator, shapes)
    return out.copy_(result / result.sum(-1, keepdim=True))


def binomial(device: Any, out: Any, generator: Any, counts: Any, probabilities: Any) -> Any:
    """Successes."""
    blocks = -(-out.numel() // (BLOCK * EACH))
    return walk(device, out, generator, (counts, probabilities), BINOMIAL, ("binomial", binomial_nest), blocks * BLOCK)


def choose(device: Any, out: Any, generator: Any, weights: Any) -> Any:
    """Categories of each row, with replacement."""
    rows, samples = out.shape
    shares = weights / weights.sum(1, keepdim=True)
    ends = shares.cumsum(1)
    lanes = -(-samples // ROW) * ROW
    counter, seed = take(generator, out, -(-rows // MOST_ROWS) * 4)
    code = weights.dtype.code
    result = kernel(device, ("choice", code), lambda: choice_nest(code))
    given = [out.numel(), counter, seed, weights.shape[1], samples, lanes]
    run(result, (ends.contiguous(), shares.contiguous(), out), given, out.numel())
    return out


def permute(device: Any, out: Any, generator: Any) -> Any:
    """The numbers from 0 on in random order: by random keys of as many bits as make equal ones rare; of those that are
    equal all the same, the order is drawn again."""
    n = out.numel()
    if not n:
        return out
    wanted = min(64, math.ceil(math.log2(n - (6.0 * n * n + 1) / (12 * math.log(0.9)))))
    whole = 64 if wanted > 32 else 32
    keys = out.new_empty((n,), dtype=_C.int64 if whole == 64 else _C.int32)
    low = -(1 << (whole - 1))
    fill(device, "range", keys, generator, ((1 << whole) - 1, low))
    ordered = keys.to(_C.int64)
    if wanted < whole:
        ordered = ordered & ((1 << wanted) - 1)
    ordered, places = ordered.sort(stable=True)
    counter, seed = take(generator, out, -(-n // 4) * 4)
    result = kernel(device, ("islands",), island_nest)
    run(result, (ordered, places), [n, counter, seed], n)
    return out.copy_(places)


def slopes(device: Any, out: Any, generator: Any, noise: Any, input: Any, lower: float, upper: float) -> Any:
    """A leaky relu whose slopes are drawn, and the slopes in `noise`."""
    drawn = fill(device, "spread", input.new_empty(input.shape), generator, (lower, upper - lower))
    is_low = input <= 0
    noise.copy_(drawn.where(is_low, drawn.new_ones(())))
    return out.copy_((input * drawn).where(is_low, input))
