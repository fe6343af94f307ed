"""Laws of several draws on CUDA devices: Poisson, gamma, Dirichlet, binomial, choices, permutations.

Enters: a tensor to fill, a generator, tensors of the law's numbers. Leaves: the tensor filled by kernels of
codegen/nvptx/philox_walks.py, and the generator moved on as PyTorch moves it for the same call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import _C
from ..._C import Generator, Tensor
from ...base.dtype import finfo
from ...codegen.nvptx.philox_walks import BLOCK, EACH, binomial_nest, choice_nest, gamma_nest, island_nest, poisson_nest
from . import half_sums
from .random import fill, in_order, kernel, run, source_kernel, take
from .random_sources import gamma_source, poisson_source

# what a call moves a generator by
POISSON, GAMMA, BINOMIAL = 20, 12, 44
ROW = 128                # threads of a block that chooses for one row
NETWORK = 32             # elements that PyTorch sorts by a network
MOST_ROWS = 65535        # rows of choices that have blocks of their own


def samplers(device: Any) -> dict[str, Callable]:
    """The functions that `Device.implementation` answers with."""
    def bound(function: Callable) -> Callable:
        return lambda out, generator, *given: function(device, out, generator, *given)

    return {"random_poisson": bound(poisson), "random_gamma": bound(gamma), "random_dirichlet": bound(dirichlet),
            "random_binomial": bound(binomial), "random_multinomial": bound(choose),
            "random_permutation": bound(permute), "random_rrelu": bound(slopes),
            "random_order": equals_in_order}


def walk(
    device: Any, out: Any, generator: Any, given: tuple, moved: int, make: tuple, extent: int = 0, source: Any = None
) -> Any:
    """A kernel over elements in the order of memory, with its counter and seed; `source` makes it in CUDA C."""
    count = out.numel()
    if not count:
        return out
    target, into = in_order(out)
    order = sorted(range(out.ndim), key=lambda d: -out.stride(d)) if not out.is_contiguous() else range(out.ndim)
    laid = [t.to(out.dtype).expand(out.shape).permute(tuple(order)).contiguous() for t in given]
    start = take(generator, out, moved)
    name, nest = make
    code = out.dtype.code
    chosen = source and source_kernel(device, (name, code, "source"), len(given) + 1, lambda: source(code), start)
    chosen = chosen or kernel(device, (name, code), lambda: nest(code), start)
    run(chosen, (*laid, target), [count, start.counter, start.seed], extent or count, start)
    if into is not None:
        into.copy_(target)
    return out


def poisson(device: Any, out: Tensor, generator: Generator | None, rates: Tensor) -> Any:
    """Numbers of events."""
    return walk(device, out, generator, (rates,), POISSON, ("poisson", poisson_nest), source=poisson_source)


def gamma(device: Any, out: Tensor, generator: Generator | None, shapes: Tensor) -> Any:
    """Gamma numbers of scale one."""
    least = finfo(out.dtype).tiny
    nest = ("gamma", lambda code: gamma_nest(code, least))
    return walk(device, out, generator, (shapes,), GAMMA, nest, source=lambda code: gamma_source(code, least))


def dirichlet(device: Any, out: Tensor, generator: Generator | None, shapes: Tensor) -> Any:
    """Shares along the last dim: gamma numbers by their sum."""
    found, limits = gamma(device, shapes.new_empty(shapes.shape), generator, shapes), finfo(shapes.dtype)
    total = half_sums.row_sum(found) if found.shape[-1] <= half_sums.WARP * half_sums.AT_ONCE else found.sum(-1, True)
    return out.copy_((found / total).clamp(limits.tiny, 1 - limits.eps))


def binomial(device: Any, out: Tensor, generator: Generator | None, counts: Tensor, probabilities: Tensor) -> Any:
    """Successes."""
    blocks = -(-out.numel() // (BLOCK * EACH))
    return walk(device, out, generator, (counts, probabilities), BINOMIAL, ("binomial", binomial_nest), blocks * BLOCK)


def choose(device: Any, out: Tensor, generator: Generator | None, weights: Tensor) -> Any:
    """Categories of each row, with replacement."""
    rows, samples = out.shape
    shares, ends = half_sums.shares_and_ends(weights) if weights.itemsize == 2 else sums(weights)
    lanes = -(-samples // ROW) * ROW
    start = take(generator, out, -(-rows // MOST_ROWS) * 4)
    code = weights.dtype.code
    result = kernel(device, ("choice", code), lambda: choice_nest(code), start)
    given = [out.numel(), start.counter, start.seed, weights.shape[1], samples, lanes]
    run(result, (ends.contiguous(), shares.contiguous(), out), given, out.numel(), start)
    return out


def sums(weights: Tensor) -> tuple[Any, Any]:
    """Each row's weights as shares of one, and their running sums."""
    shares = weights / weights.sum(1, keepdim=True)
    return shares, shares.cumsum(1)


def permute(device: Any, out: Tensor, generator: Generator | None) -> Any:
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
    start = take(generator, out, -(-n // 4) * 4)
    result = kernel(device, ("islands",), island_nest, start)
    run(result, (ordered, places), [n, start.counter, start.seed], n, start)
    return out.copy_(places)


def equals_in_order(values: Tensor, places: Tensor) -> Any:
    """Places of the largest values, those of equal ones in the order that PyTorch's network for up to 32 gives them:
    it exchanges what is not strictly in order."""
    count = values.shape[-1]
    if not 1 < count <= NETWORK or not (values.narrow(-1, 1, count - 1) == values.narrow(-1, 0, count - 1)).any():
        return places
    # Whoever gathers them takes what is larger than the last first, by place, and then what equals it.
    last = (values == values.narrow(-1, count - 1, 1)).to(_C.int64)
    start = (last * (1 << 40) + places).argsort(-1)
    keys, at = values.gather(-1, start).cpu().tolist(), places.gather(-1, start).cpu().tolist()
    rows = [network(k, p) for k, p in (zip(keys, at, strict=True) if values.ndim == 2 else [(keys, at)])]
    return places.new_tensor(rows if values.ndim == 2 else rows[0])


def network(keys: list[float], places: list[int]) -> list[int]:
    """Bitonic sorting, the largest first; what is missing counts as last."""
    items = [(key, place, True) for key, place in zip(keys, places, strict=True)]
    items += [(0.0, 0, False)] * (NETWORK - len(items))
    size = 2
    while size <= NETWORK:
        stride = size // 2
        while stride:
            for thread in range(NETWORK // 2):
                backwards = size < NETWORK and bool(thread & size // 2)
                low = 2 * thread - (thread & stride - 1)
                a, b = items[low], items[low + stride]
                if ((a[0] > b[0] and a[2]) or not b[2]) == backwards:
                    items[low], items[low + stride] = b, a
            stride //= 2
        size *= 2
    return [place for _, place, _ in items[: len(keys)]]


def slopes(
    device: Any, out: Tensor, generator: Generator | None, noise: Tensor, input: Tensor, lower: float, upper: float
) -> Any:
    """A leaky relu whose slopes are drawn, and the slopes in `noise`."""
    drawn = fill(device, "spread", input.new_empty(input.shape), generator, (lower, upper - lower))
    is_low = input <= 0
    noise.copy_(drawn.where(is_low, drawn.new_ones(())))
    return out.copy_((input * drawn).where(is_low, input))
