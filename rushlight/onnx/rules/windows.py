"""Windows over the last dims, whatever their places: sums by a matrix for each dim, extremes by gathering.

Enters: for each dim, which places each window sees. Leaves: sums, or the largest and where it was.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from ...definitions.window.axes import POOL, table_of, unpack
from ..building import Builder
from ..model import Value
from .table import INT64, permuted, reshaped, rule

Places = list[list[int]]      # of each window of a dim
LARGEST_TABLE = 1 << 22


def summed(g: Builder, x: Value, ndim: int, matrices: Sequence[list[list[float]]]) -> Value:
    """The last dims of x, each times a matrix [windows, places]."""
    for d, matrix in enumerate(matrices):
        axis = ndim - len(matrices) + d
        order = [*[i for i in range(ndim) if i != axis], axis]
        weights = g.constant([list(line) for line in zip(*matrix, strict=True)], x.dtype)
        x = permuted(g, g.node("MatMul", permuted(g, x, order), weights), [order.index(i) for i in range(ndim)])
    return x


def largest(g: Builder, x: Value, shape: Sequence[Any], windows: Sequence[Places]) -> tuple[Value, Value]:
    """The largest in every window, and its place among all of these dims, counted in row-major order."""
    lead, sizes = len(shape) - len(windows), list(shape[len(shape) - len(windows):])
    counts, taps = [len(w) for w in windows], [max(map(len, w)) for w in windows]
    full = [[places + places[:1] * (most - len(places)) for places in w] for w, most in zip(windows, taps, strict=True)]
    if math.prod(counts) * math.prod(taps) > LARGEST_TABLE:
        raise NotImplementedError("indices of windows over tensors this large")
    for d, table in enumerate(full):
        x = g.node("Gather", x, g.constant(table, INT64), axis=lead + 2 * d)
    order = [*range(lead), *range(lead, lead + 2 * len(full), 2), *range(lead + 1, lead + 2 * len(full), 2)]
    flat = reshaped(g, permuted(g, x, order), [*_lead(g, x, shape, lead), *counts, math.prod(taps)])
    at = g.node("ArgMax", flat, dtype=INT64, axis=-1, keepdims=1)
    steps = [math.prod(sizes[d + 1:]) for d in range(len(sizes))]
    table = [[sum(full[d][o[d]][t[d]] * steps[d] for d in range(len(full)))
              for t in itertools.product(*[range(n) for n in taps])]
             for o in itertools.product(*[range(n) for n in counts])]
    known = reshaped(g, g.constant(table, INT64), [*[1] * lead, *counts, math.prod(taps)])
    spread = g.node("Expand", known, g.node("Shape", flat, dtype=INT64))
    values, indices = [g.node("GatherElements", t, at, axis=-1) for t in (flat, spread)]
    return g.node("Squeeze", values, g.ints([-1])), g.node("Squeeze", indices, g.ints([-1]))


def _lead(g: Builder, x: Value, shape: Sequence[Any], lead: int) -> list[Any]:
    known = Value(x.name, x.dtype, (*shape[:lead],) + (None,) * 8)
    return [n if isinstance(n, int) else g.size(known, d) for d, n in enumerate(shape[:lead])]


def _tables(axes: Sequence[int]) -> list[Any]:
    found = unpack(axes)
    if any(type(n) is not int for axis in found for n in axis):
        raise NotImplementedError("windows over sizes that vary")
    return [(axis, table_of(axis)) for axis in found]


@rule("_window_sum")
def window_sum(g: Builder, input: Value, axes: Sequence[int]) -> Value:
    matrices = []
    for axis, table in _tables(axes):
        matrix = [[0.0] * axis.source for _ in range(axis.target)]
        for o, (start, count) in enumerate(zip(table.starts, table.counts, strict=True)):
            for k in range(count):
                own = table.weights[o][k] if table.weights else 1 / table.divisors[o] if table.divisors else 1.0
                matrix[o][start + k * _apart(axis)] += own
        matrices.append(matrix)
    return summed(g, input, input.ndim, matrices)


@rule("_window_max")
def window_max(g: Builder, input: Value, axes: Sequence[int], index: int) -> tuple[Value, Value]:
    windows = [[_stretched(axis, start, count) for start, count in zip(table.starts, table.counts, strict=True)]
               for axis, table in _tables(axes)]
    return largest(g, input, input.shape, windows)


def _stretched(axis: Any, start: int, count: int) -> list[int]:
    return list(range(start, start + count * _apart(axis), _apart(axis)))


def _apart(axis: Any) -> int:
    """How far the places of one window are apart."""
    return axis.d if axis.rule == POOL else 1


@rule("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def pool_gradient(g: Builder, grad_output: Value, self: Value, indices: Value, **settings: Any) -> Value:
    """Gradients put back to where the largest were, and added up."""
    dims = 2 if len(settings["kernel_size"]) == 2 else 3
    lead = self.ndim - dims
    sizes = [g.size(self, d) for d in range(self.ndim)]
    flat = [reshaped(g, t, [*sizes[:lead], -1]) for t in (grad_output, indices)]
    zeros = g.node("Mul", reshaped(g, self, [*sizes[:lead], -1]), g.constant(0, self.dtype))
    return reshaped(g, g.node("ScatterElements", zeros, flat[1], flat[0], axis=lead, reduction="add"), sizes)
