"""Differences and sums of neighbours: diff, gradient, and the trapezoidal rule.

Enters: sampled values, and where they were sampled. Leaves: composites of slices and arithmetic, so gradients and
shapes without data come from those. Refuses: samples too few for the wanted order, coordinates of other lengths.
"""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.base.shape import NUMBERS
from rushlight.op import Composite, find_op, wrap_dim
from rushlight.op.view import wrap_dims


class Diff(Composite):
    """The n-th differences of neighbours along `dim`."""

    schema = "diff(Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor"
    replays = True

    def compute(self, input, n, dim, prepend, append):
        if input.ndim == 0:
            raise RuntimeError("diff: expected an input with dimensions, got a number")
        if n < 0:
            raise RuntimeError(f"diff: expected n of at least 0, got {n}")
        dim = wrap_dim("diff", dim, input.ndim)
        for extra in (prepend, append):
            check_neighbour(input, extra, dim)
        if prepend is not None or append is not None:
            input = find_op("cat")([t for t in (prepend, input, append) if t is not None], dim)
        if n == 0:
            return input.clone()
        for _ in range(min(n, input.shape[dim])):
            length = max(input.shape[dim] - 1, 0)
            after, before = input.narrow(dim, input.shape[dim] - length, length), input.narrow(dim, 0, length)
            input = after.logical_xor(before) if input.dtype is _C.bool else after - before
        return input


def check_neighbour(input: Any, extra: Any, dim: int) -> None:
    """What is put before or behind must fit everywhere but along `dim`."""
    if extra is None:
        return
    if extra.ndim != input.ndim:
        raise RuntimeError(
            f"diff: expected prepend and append with the input's number of dimensions, {input.ndim}, got {extra.ndim}"
        )
    if any(a != b for d, (a, b) in enumerate(zip(extra.shape, input.shape, strict=True)) if d != dim):
        raise RuntimeError(
            f"diff: prepend and append may differ from the input's size {list(input.shape)} in dim alone, got"
            f" {list(extra.shape)}"
        )


# --- gradient ---------------------------------------------------------------------------------------------------------


class NumericGradient(Composite):
    """Derivatives of sampled values along each of `dim`: central differences inside, one-sided at the edges."""

    schema = "gradient(Tensor input, *, any spacing=None, any dim=None, int edge_order=1) -> Tensor[]"
    replays = True
    method = False
    out = False

    def compute(self, input, spacing, dim, edge_order):
        dims = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
        wrapped = wrap_dims("gradient", dims, input.ndim)
        if edge_order not in (1, 2):
            raise RuntimeError(f"gradient: expected edge_order 1 or 2, got {edge_order}")
        for d in wrapped:
            if input.ndim and input.shape[d] < edge_order + 1:
                raise RuntimeError(
                    f"gradient: expected at least edge_order + 1 elements in each dimension, got {input.shape[d]} at"
                    f" dim {d}"
                )
        steps = check_spacing(input, spacing, wrapped, dim)
        return tuple(differences(input, d, step, edge_order) for d, step in zip(wrapped, steps, strict=True))


def check_spacing(input: Any, spacing: Any, dims: tuple[int, ...], given: Any) -> list[Any]:
    """One number or one vector of coordinates for each dim."""
    if spacing is None:
        return [1] * len(dims)
    if isinstance(spacing, (complex, *NUMBERS)):
        return [spacing] * len(dims)
    if isinstance(spacing, _C.Tensor):
        spacing = [spacing]
    steps = list(spacing)
    if (isinstance(given, int) and len(steps) != 1) or len(steps) != len(dims):
        raise RuntimeError(
            f"gradient: expected spacing to be a number or one entry per dim ({len(dims)}), got {len(steps)} entries"
        )
    for d, step in zip(dims, steps, strict=True):
        if isinstance(step, _C.Tensor):
            if step.ndim != 1:
                raise RuntimeError(f"gradient: expected spacing tensors with one dimension, got {step.ndim}")
            if step.device != input.device:
                raise RuntimeError(
                    f"gradient: expected spacing on the same device as input, {input.device}, got {step.device}"
                )
            if step.shape[0] != input.shape[d]:
                raise RuntimeError(
                    f"gradient: expected a spacing of length {input.shape[d]} for dim {d}, got {step.shape[0]}"
                )
    return steps


def differences(y: Any, dim: int, step: Any, edge_order: int) -> Any:
    """The derivative along one dim, sampled evenly `step` apart or at the coordinates `step`."""
    n = y.shape[dim]

    def at(start: int, count: int) -> Any:
        return y.narrow(dim, start, count)

    if isinstance(step, _C.Tensor):
        first, inside, last = uneven(at, step, (1,) * (y.ndim - dim - 1), n, edge_order)
    else:
        inside = (at(2, n - 2) - at(0, n - 2)) / (2 * step) if n > 2 else None
        if edge_order == 1:
            first, last = (at(1, 1) - at(0, 1)) / step, (at(n - 1, 1) - at(n - 2, 1)) / step
        else:
            first = (-1.5 * at(0, 1) + 2 * at(1, 1) - 0.5 * at(2, 1)) / step
            last = (1.5 * at(n - 1, 1) - 2 * at(n - 2, 1) + 0.5 * at(n - 3, 1)) / step
    return find_op("cat")([part for part in (first, inside, last) if part is not None], dim)


def uneven(at: Any, x: Any, trailing: tuple[int, ...], n: int, edge_order: int) -> tuple[Any, Any, Any]:
    """First, inner and last derivatives over coordinates that are not evenly spaced."""
    gaps = (x.narrow(0, 1, n - 1) - x.narrow(0, 0, n - 1)).reshape((n - 1, *trailing))

    def gap(start: int, count: int = 1) -> Any:
        return gaps.narrow(0, start, count)

    inside = None
    if n > 2:
        left, right = gap(0, n - 2), gap(1, n - 2)
        a, b, c = -right / (left * (left + right)), (right - left) / (left * right), left / (right * (left + right))
        inside = a * at(0, n - 2) + b * at(1, n - 2) + c * at(2, n - 2)
    if edge_order == 1:
        return (at(1, 1) - at(0, 1)) / gap(0), inside, (at(n - 1, 1) - at(n - 2, 1)) / gap(n - 2)
    h0, h1 = gap(0), gap(1)
    first = (
        -(2 * h0 + h1) / (h0 * (h0 + h1)) * at(0, 1)
        + (h0 + h1) / (h0 * h1) * at(1, 1)
        - h0 / (h1 * (h0 + h1)) * at(2, 1)
    )
    h0, h1 = gap(n - 3), gap(n - 2)
    last = (
        h1 / (h0 * (h0 + h1)) * at(n - 3, 1)
        - (h1 + h0) / (h0 * h1) * at(n - 2, 1)
        + (2 * h1 + h0) / (h1 * (h0 + h1)) * at(n - 1, 1)
    )
    return first, inside, last


# --- the trapezoidal rule ---------------------------------------------------------------------------------------------


class _Trapezoids(Composite):
    """What the forms of the rule share: areas between neighbours."""

    out = False
    method = False

    def pieces(self, y: Any, x: Any, dx: Any, dim: int) -> tuple[Any, Any]:
        """(twice the mean heights times widths where those vary, the constant width)."""
        if y.dtype is _C.bool:
            raise RuntimeError(f"{self.name}: expected numbers as y, got bool")
        dim = wrap_dim(self.name, dim, y.ndim)
        n = y.shape[dim] if y.ndim else 1
        heights = y.narrow(dim, 1, n - 1) + y.narrow(dim, 0, n - 1)
        if x is None:
            return heights, dx
        if x.dtype is _C.bool:
            raise RuntimeError(f"{self.name}: received a bool input for `x`, but bool is not supported")
        return heights * widths(self.name, y, x, dim), 1

    def bind(self, args: tuple) -> tuple[Any, Any, Any, int]:
        given = {p.name: a for p, a in zip(self.spec.params, args, strict=True)}
        y, x, dx = given["y"], given.get("x"), given.get("dx", 1)
        dim = wrap_dim(self.name, given["dim"], y.ndim)
        if isinstance(dx, bool):
            raise RuntimeError(f"{self.name}: received a bool input for `dx`, but bool is not supported")
        if isinstance(dx, complex):
            raise RuntimeError(f"{self.name}: expected dx to be a real number.")
        return y, x, dx, dim


def widths(name: str, y: Any, x: Any, dim: int) -> Any:
    """Distances between coordinates, shaped to multiply the heights along `dim`."""
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(
                f"{name}: expected as many elements in x as y has sample points, got {x.shape[0]} and {y.shape[dim]}"
            )
        x = x.reshape((*(1,) * dim, x.shape[0], *(1,) * (y.ndim - dim - 1)))
    else:
        x = x.reshape((*(1,) * (y.ndim - x.ndim), *x.shape)) if x.ndim < y.ndim else x
    back = dim - y.ndim
    n = x.shape[back]
    return x.narrow(back, 1, n - 1) - x.narrow(back, 0, n - 1)


class Trapezoid(_Trapezoids):
    """The area under samples `y` along `dim`, taken at `x` or `dx` apart."""

    schema = (
        "trapezoid(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
        "trapezoid(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
    )
    replays = True
    aliases = ("trapz",)

    def compute(self, *args):
        y, x, dx, dim = self.bind(args)
        if y.ndim == 0 or not y.shape[dim]:
            sizes = [n for d, n in enumerate(y.shape) if d != dim]
            return y.new_zeros(sizes)
        if x is None and y.dtype is not _C.bool:      # every sample counts whole, but the first and the last
            area = y.sum(dim) - (y.select(dim, 0) + y.select(dim, -1)) * 0.5
            return area * dx if dx != 1 else area
        heights, dx = self.pieces(y, x, dx, dim)
        return heights.sum(dim) / 2


class CumulativeTrapezoid(_Trapezoids):
    """The areas under samples `y` up to each along `dim`."""

    schema = (
        "cumulative_trapezoid(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
        "cumulative_trapezoid(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
    )
    replays = True

    def compute(self, *args):
        y, x, dx, dim = self.bind(args)
        heights, dx = self.pieces(y, x, dx, dim)
        return (heights * (dx / 2)).cumsum(dim)
