"""Normalisation of rows made of separate runs of memory:
the kernels of batch_norm and group_norm while a row fits in cache.

Enters: a dense tensor and how its rows lie in it: row `i` starts at `i * row_stride` and has `runs` runs of `length`
neighbours, `run_stride` apart. A channel of [N, C, L] is N runs; a group of channels of one item is one run per
channel. Weight and bias have one number per run, at `(i % groups) * weight_row + k * weight_run`. Leaves: the result
with mean, reciprocal deviation and variance per row; the gradients. Memory is read once,
the other passes find it in cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...loops.lowered import compute_code
from ...op import Library, Spec
from ...op.pack import BY_CODE
from ...planners.segments import LAYOUT, backward_schedule, forward_schedule

IN_CACHE = 448 * 1024    # bytes of one row of one tensor that stay in a core's cache
SHORT_RUN = 16           # runs below this are not worth a loop of their own
SMALL = 8192             # elements of a whole tensor for which one kernel is best whatever its shape
FEW_ROWS = 16            # with fewer rows there is too little to share among threads


class Layout(NamedTuple):
    """Where rows lie; see the module."""

    rows: int
    runs: int
    length: int
    row_stride: int
    run_stride: int
    groups: int
    weight_row: int
    weight_run: int

    def fits(self, itemsize: int) -> bool:
        """Whether the kernels here are the fast ones."""
        row = self.runs * self.length
        if self.rows * row <= SMALL:
            return row > 0
        return self.length >= SHORT_RUN and self.rows >= FEW_ROWS and row * itemsize <= IN_CACHE


def channels_of(shape: Any, length: int) -> Layout:
    """Rows are the channels of [N, C, length]."""
    return Layout(shape[1], shape[0], length, length, shape[1] * length, shape[1], 1, 0)


def groups_of(shape: Any, length: int, groups: int) -> Layout:
    """Rows are the groups of channels of each item of [N, C, length]."""
    size = shape[1] // groups
    return Layout(shape[0] * groups, size, length, size * length, length, groups, size, 1)


class _Segments(Library):
    """One kernel over rows."""

    function = method = out = differentiable = False


class SegmentNorm(_Segments):
    """(result, mean, 1 / deviation, variance) of the rows of `input`."""

    schema = (
        f"_segment_norm(Tensor input, Tensor? weight, Tensor? bias, {', '.join(f'int {n}' for n in LAYOUT)}, float eps)"
        " -> (Tensor, Tensor, Tensor, Tensor)"
    )

    def meta(self, input, weight, bias, rows, *rest):
        kept = BY_CODE[compute_code(input.dtype.code)]
        return (Spec(tuple(input.shape), input.dtype), *[Spec((rows,), kept)] * 3)

    def launches(self, args):
        codes = tuple([None if t is None else t.dtype.code for t in args[:3]])
        return forward_schedule(codes, args[3:-1], float(args[-1]))


class SegmentNormBackward(_Segments):
    """(gradient of the input, sums of grad and of grad * (input - mean) for every run of every row)."""

    schema = (
        "_segment_norm_backward(Tensor grad, Tensor input, Tensor mean, Tensor rstd, Tensor? weight,"
        f" {', '.join(f'int {n}' for n in LAYOUT)}) -> (Tensor, Tensor, Tensor)"
    )

    def meta(self, grad, input, mean, rstd, weight, rows, runs, *rest):
        return (Spec(tuple(grad.shape), grad.dtype), *[Spec((rows, runs), mean.dtype)] * 2)

    def launches(self, args):
        grad, weight, layout = args[0], args[4], args[5:]
        codes = (grad.dtype.code, None if weight is None else weight.dtype.code)
        return backward_schedule(codes, layout)
