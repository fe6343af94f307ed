"""Search in sorted sequences, and counting: searchsorted, bucketize, bincount and the histograms.

Enters: values and the edges, bins or weights that sort them. Leaves: one generated kernel for the search (a binary
search whose steps are unrolled), and composites of it and `index_add`, or of a kernel that counts. Refuses: edges of
other shapes than the values need, ranges that are not finite, and bins there are none of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import _C
from ...base.promotion import rank, result_type as common_dtype
from ...base.shape import holds
from ...loops.expr import cast, const, ge, gt, lt, min_, select
from ...op import Composite, Library, OpDefinition, Pointwise, Spec, find_op, result_type
from ...op.indexed import Indexed
from ...op.pointwise import compute_code
from ...planners.order.counts import counts_schedule, few_counts_schedule, has_counts
from ...rules.levels import shape_is_enough

FEW = 4096      # elements that one pass counts sooner than several ops do


class InsertionPoint(Indexed):
    """How many elements of each sorted row stand before each value; `steps` halvings find it."""

    schema = "_insertion_point(Tensor sequence, Tensor input, bool right, bool out_int32, int steps) -> Tensor"
    method = False
    differentiable = False

    def meta(self, sequence, input, right, out_int32, steps):
        return Spec(tuple(input.shape), _C.int32 if out_int32 else _C.int64)

    def loops(self, at, sequence, input, right, out_int32, steps):
        code = compute_code(sequence.code)
        value = cast(input[tuple(at)], code)
        row = () if sequence.ndim == 1 else tuple(at[:-1])
        size = sequence.shape[-1]
        last = size - const(1, "i64")
        found = const(-1, "i64")   # the last element known to stand before the value
        behind = gt if right else ge
        for k in reversed(range(steps)):
            tried = found + const(1 << k, "i64")
            element = cast(sequence[(*row, min_(tried, last))], code)
            # Written so that NaN, to which nothing compares, goes behind everything.
            further = select(behind(element, value), found, tried)
            found = select(lt(tried, size), further, found)
        return found + const(1, "i64")


def search(sequence: Any, values: Any, right: bool, out_int32: bool = False) -> Any:
    """Insertion points of `values` in rows whose shapes are known to fit."""
    length = sequence.shape[-1]
    # of a symbolic length nothing is asked
    steps = length.bit_length() if isinstance(length, (int, _C.Extent)) else 63
    return find_op("_insertion_point")(sequence, values, right, out_int32, steps)


class SearchSorted(Composite):
    """Where each value would be inserted to keep the last dim of `sorted_sequence` in order."""

    schema = (
        "searchsorted(Tensor sorted_sequence, Tensor|Scalar input, *, bool out_int32=False, bool right=False, str?"
        " side=None, Tensor? sorter=None) -> Tensor"
    )
    replays = True
    differentiable = False
    method = False
    exact_out = True

    def compute(self, sorted_sequence, input, out_int32, right, side, sorter):
        sequence = sorted_sequence.detach()
        behind = self.check(sequence, input, right, side, sorter)
        dtype = common_dtype(sequence, input)
        if rank(dtype) == 0 or dtype.is_complex:
            raise NotImplementedError(f'"searchsorted" not implemented for {dtype.name}')
        if sorter is not None:
            sequence = self.reordered(sequence, sorter)
        if not isinstance(input, _C.Tensor):
            # By way of its own type: what `dtype` cannot hold wraps round or is infinite, as an element would be.
            own = _C.float64 if isinstance(input, float) else _C.uint64 if input >= 1 << 63 else _C.int64
            input = sequence.new_full((), input, dtype=own).to(dtype)
        if out_int32 and sequence.shape[-1] >= 2**31:
            raise RuntimeError(
                f"searchsorted(): the size of the boundaries' last dimension should be less than {2**31} for"
                " out_int32=True"
            )
        return search(sequence.to(dtype), input.detach().to(dtype), behind, out_int32)

    def check(self, sequence: Any, input: Any, right: bool, side: Any, sorter: Any) -> bool:
        """Whether to insert behind equal elements."""
        if side not in (None, "left", "right"):
            raise RuntimeError(f"searchsorted: expected side 'left' or 'right', got {side}")
        if side == "left" and right:
            raise RuntimeError("searchsorted: side='left' contradicts right=True")
        is_scalar = not isinstance(input, _C.Tensor) or not input.ndim
        if is_scalar and sequence.ndim != 1:
            raise RuntimeError(
                f"searchsorted: a number as input needs boundaries with 1 dimension, got {sequence.ndim}"
            )
        if not sequence.ndim:
            raise RuntimeError("searchsorted: expected boundaries with dimensions, got 0")
        if sequence.ndim != 1 and tuple(sequence.shape[:-1]) != tuple(input.shape[:-1]):
            raise RuntimeError(
                "searchsorted: expected boundaries with 1 dimension, or with the sizes of input in all dimensions but"
                f" the last, got boundaries of shape {list(sequence.shape)} and input of shape {list(input.shape)}"
            )
        if sorter is not None and (sorter.shape != sequence.shape or sorter.dtype is not _C.int64):
            raise RuntimeError(
                f"searchsorted(): sorter must be an int64 tensor of the boundaries' shape {list(sequence.shape)}, got"
                f" {list(sorter.shape)} {sorter.dtype.name}"
            )
        return right or side == "right"

    def reordered(self, sequence: Any, sorter: Any) -> Any:
        if (
            sorter.numel()
            and not sorter.is_meta
            and (sorter.min().item() < 0 or sorter.max().item() >= sequence.shape[-1])
        ):
            raise RuntimeError("searchsorted(): sorter index out of range")
        return sequence.gather(-1, sorter)


class Bucketize(Composite):
    """The bucket of each value between 1-D `boundaries`."""

    schema = "bucketize(Tensor|Scalar input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"
    replays = True
    method = False
    exact_out = True

    def compute(self, input, boundaries, out_int32, right):
        if boundaries.ndim != 1:
            raise RuntimeError(f"bucketize: expected boundaries with 1 dimension, got {boundaries.ndim}")
        return find_op("searchsorted")(boundaries, input, out_int32=out_int32, right=right)


# --- counting ---------------------------------------------------------------------------------------------------------


class BinCount(OpDefinition):
    """How often each non-negative integer occurs, or the sum of its weights."""

    batch = "loop"
    schema = "bincount(Tensor input, Tensor? weights=None, int minlength=0) -> Tensor"
    differentiable = False
    out = False

    def most(self, input, weights, minlength):
        """The size that elements decide has no bound."""

    def hidden_size(self, size, input, weights, minlength):
        """The result, given that size."""
        self.check(input, weights, minlength)
        if not isinstance(minlength, int) or minlength:
            holds(size >= minlength)      # of a size that is known by now, too
        return Spec((size,), _C.int64 if weights is None else _C.float32 if weights.dtype is _C.float32 else _C.float64)

    def run(self, input, weights, minlength):
        self.check(input, weights, minlength)
        if input.is_meta:
            raise NotImplementedError("bincount: the number of results depends on data, and meta tensors have none")
        if not input.numel():
            return input.new_zeros((minlength,), dtype=_C.int64)
        few = is_few(input)
        lowest, highest = find_op("_ends")(input).tolist() if few else (input.min().item(), input.max().item())
        if lowest < 0:
            raise RuntimeError(f"bincount: expected integers of at least 0 (non-negative), got {lowest}")
        bins = max(highest + 1, minlength)
        if few and bins <= FEW and (weights is None or (is_few(weights) and weights.dtype in (_C.float32, _C.float64))):
            return find_op("_few_counts")(input, bins, weights)
        if weights is None and has_counts(input, bins):
            wide = input if input.dtype in (_C.int32, _C.int64) else input.to(_C.int32)
            return find_op("_count_numbers")(wide.contiguous(), bins)
        return counted(input.to(_C.int64), bins, self.amounts(input, weights))

    def check(self, input: Any, weights: Any, minlength: int) -> None:
        """Refuse what has no bins."""
        if rank(input.dtype) != 1:
            raise NotImplementedError(f'"bincount" not implemented for {input.dtype.name} tensors')
        if input.ndim != 1:
            raise RuntimeError(
                f"bincount: expected a vector of integers, got shape {list(input.shape)} of {input.dtype.name}"
            )
        if minlength < 0:
            raise RuntimeError(f"bincount: minlength should be >= 0, got {minlength}")
        if weights is not None and weights.shape != input.shape:
            raise RuntimeError(
                f"bincount: expected weights of the shape of input, {list(input.shape)}, got {list(weights.shape)}"
            )

    def amounts(self, input: Any, weights: Any) -> Any:
        """What each element adds to its bin."""
        if weights is None:
            return input.new_ones((1,), dtype=_C.int64).expand(input.shape)
        weights = weights.detach()
        weights = find_op("real")(weights) if weights.dtype.is_complex else weights
        return weights if weights.dtype is _C.float32 else weights.to(_C.float64)


class CountNumbers(Library):
    """How often each number from 0 up to `bins` occurs; others are not counted. For devices that load written kernels,
    which have one for a few numbers."""

    schema = "_count_numbers(Tensor numbers, int bins) -> Tensor"
    function = method = out = differentiable = False

    def meta(self, numbers, bins):
        return Spec((bins,), _C.int64)

    def launches(self, args):
        numbers, bins = args
        return counts_schedule(numbers.dtype.code, numbers.numel(), bins)


class FewCounts(Library):
    """How often each number from 0 up to `length` occurs in a dense tensor of few elements, or the sum of its weights;
    others are not counted."""

    schema = "_few_counts(Tensor numbers, int length, Tensor? weights=None) -> Tensor"
    function = method = out = differentiable = False

    def meta(self, numbers, length, weights):
        return Spec((length,), _C.int64 if weights is None else weights.dtype)

    def launches(self, args):
        numbers, length, weights = args
        weight = "" if weights is None else weights.dtype.code
        return few_counts_schedule(numbers.dtype.code, numbers.numel(), length, weight)


def is_few(t: Any) -> bool:
    """Whether a tensor is few elements in dense rows on the host, and nobody sees the ops it goes through."""
    return _C.is_unseen(t) and 0 < t.numel() <= FEW and t._is_contiguous()


def counted(at: Any, bins: int, amounts: Any) -> Any:
    """The sums of `amounts` by the bin that `at` names."""
    return amounts.new_zeros((bins,)).index_add_(0, at, amounts)


class HistogramPlaces(Pointwise):
    """The number of the bin that each element falls into, of equal ranges between two numbers; `bins` where none."""

    schema = "_histogram_places(Tensor input, Tensor first, Tensor last, Tensor bins) -> Tensor"
    function = method = inplace = out = differentiable = False

    def result_dtype(self, common, *args):
        return _C.int32

    def expr(self, s, x, first, last, bins):
        inside, end = s.ge(x, first) & s.le(x, last), s.cast(bins, "i32")
        at = s.where(inside, (x - first) * bins / (last - first), s.cast(const(0, "i32"), x.dtype))
        return s.where(inside, min_(s.cast(at, "i32"), end - const(1, "i32")), end)


class Ends(Composite):
    """The least and the greatest element."""

    schema = "_ends(Tensor input) -> Tensor"
    function = method = out = differentiable = False
    replays = True

    def compute(self, input):
        return find_op("stack")(list(input.aminmax()))


class HistogramCounts(Composite):
    """How many of few elements fall into each of `length` equal ranges between two numbers, in their own dtype."""

    schema = "_histogram_counts(Tensor input, Tensor ends, int length) -> Tensor"
    function = method = out = differentiable = False
    replays = plan_per_shape = True

    def compute(self, input, ends, length):
        places = find_op("_histogram_places")(input, ends.select(0, 0), ends.select(0, 1), input.new_full((), length))
        return find_op("_few_counts")(places, length).to(input.dtype)


class HistC(Composite):
    """How many elements fall into each of `bins` equal ranges between `min` and `max`."""

    schema = "histc(Tensor input, int bins=100, Scalar min=0, Scalar max=0) -> Tensor"
    differentiable = False

    def compute(self, input, bins, min, max):
        if bins <= 0:
            raise RuntimeError(f"histc: bins must be > 0, but got {bins}")
        if not input.dtype.is_floating_point:
            raise NotImplementedError(f'"histc" not implemented for {input.dtype.name} tensors')
        few = is_few(input) and bins <= FEW and input.dtype in (_C.float32, _C.float64)
        low, high, ends = float(min), float(max), None
        x = input if few else input.detach().reshape(-1)
        if low == high and x.numel():
            if shape_is_enough("histc", input):      # elements decide where the bins are
                return input.new_zeros((bins,))
            ends = find_op("_ends")(x) if few else None
            low, high = (x.min().item(), x.max().item()) if ends is None else ends.tolist()
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(f"histc: range of [{low}, {high}] is not finite")
        if low > high:
            raise RuntimeError(f"histc: max must be larger than min, got min {low} and max {high}")
        if low == high:
            low, high, ends = low - 1, high + 1, None
        # In the input's own dtype, number by number: on the borders of bins, roundings decide.
        if few:
            return find_op("_histogram_counts")(x, _C.from_data([low, high], x.dtype) if ends is None else ends, bins)
        first, last = x.new_full((), low), x.new_full((), high)
        if has_counts(x, bins) and x.dtype in (_C.float32, _C.float64):
            places = find_op("_histogram_places")(x.contiguous(), first, last, x.new_full((), bins))
            return find_op("_count_numbers")(places, bins).to(x.dtype)
        inside = (x >= first) & (x <= last)
        at = ((x - first) * bins / (last - first)).masked_fill(~inside, 0)
        # float16 may overflow here, and lands where PyTorch puts it: in the first bin
        return counted(at.to(_C.int64).clamp(0, bins - 1), bins, inside.to(x.dtype))


def histogram_of(name: str, points: Any, edges: Sequence[Any], weight: Any, density: bool) -> Any:
    """Sums of weights of `points` ([N, D]) in the cells between `edges` (D sequences)."""
    cells = [e.shape[0] - 1 for e in edges]
    if not math.prod(cells) or shape_is_enough(name, points):
        return points.new_zeros(cells)
    at, inside = None, None
    for d, e in enumerate(edges):
        x = points.select(-1, d).contiguous()
        place = search(e, x, True) - 1 - (x == e[-1]).to(_C.int64)
        fits = (x >= e[0]) & (x <= e[-1])
        at = place if at is None else at * cells[d] + place
        inside = fits if inside is None else inside & fits
    amounts = inside.to(points.dtype) if weight is None else weight.masked_fill(~inside, 0)
    result = counted(at.masked_fill(~inside, 0), math.prod(cells), amounts).reshape(cells)
    if density:
        result = result / result.sum()
        for d, e in enumerate(edges):
            result = result / (e[1:] - e[:-1]).reshape([-1 if k == d else 1 for k in range(len(cells))])
    return result


def check_points(name: str, points: Any, weight: Any) -> None:
    """What all histograms need of points [N, D] and their weights."""
    if points.dtype not in (_C.float32, _C.float64):
        raise NotImplementedError(f'"{name}" not implemented for {points.dtype.name} tensors')
    if weight is not None:
        if weight.dtype is not points.dtype:
            raise RuntimeError(
                f"{name}: expected a weight of the dtype of input, {points.dtype.name}, got {weight.dtype.name}"
            )
        if tuple(weight.shape) != tuple(points.shape[:-1]):
            raise RuntimeError(
                f"{name}: expected a weight of the shape of input without its last dimension, got {list(weight.shape)}"
                f" for {list(points.shape)}"
            )


def check_edges(name: str, points: Any, edges: Sequence[Any]) -> list[Any]:
    """Edges that were given as tensors."""
    for d, e in enumerate(edges):
        if e.dtype is not points.dtype:
            raise RuntimeError(
                f"{name}: input tensor and bins tensors should have the same dtype, but got {points.dtype.name} and"
                f" bins for dimension {d} with dtype {e.dtype.name}"
            )
        if e.ndim != 1:
            raise RuntimeError(f"{name}: expected the bins of dimension {d} to have one dimension, got {e.ndim}")
        if not e.numel():
            raise RuntimeError(f"{name}: expected at least 1 element in the bins of dimension {d}, got 0")
    return [e.detach().contiguous() for e in edges]


def even_edges(name: str, points: Any, bins: Sequence[int], limits: Sequence[float] | None) -> list[Any]:
    """Edges of equal cells over the points, or over the given limits."""
    for d, count in enumerate(bins):
        if count <= 0:
            raise RuntimeError(f"{name}: bins must be > 0, but got {count} for dimension {d}")
    if limits is not None and len(limits) != 2 * len(bins):
        raise RuntimeError(
            f"{name}: for a {len(bins)}-dimensional histogram range should have {2 * len(bins)} elements, but got"
            f" {len(limits)}"
        )
    result = []
    for d, count in enumerate(bins):
        if limits is not None:
            low, high = limits[2 * d], limits[2 * d + 1]
        elif points.numel() and not points.is_meta:
            low, high = points.select(-1, d).min().item(), points.select(-1, d).max().item()
        else:
            low, high = 0.0, 1.0
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(f"{name}: dimension {d}'s range [{low}, {high}] is not finite")
        if low > high:
            raise RuntimeError(f"{name}: expected min <= max, got {low} and {high} for dimension {d}")
        if low == high:
            low, high = low - 0.5, high + 0.5
        result.append(find_op("linspace")(low, high, count + 1, dtype=points.dtype, device=points.device))
    return result


class Histogram(Composite):
    """Counts (or sums of weights) between edges, and the edges."""

    batch = "loop"
    schema = (
        (
            "histogram(Tensor input, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor"
            " bin_edges)"
        ),
        (
            "histogram(Tensor input, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) ->"
            " (Tensor hist, Tensor bin_edges)"
        ),
    )
    differentiable = False

    def compute(self, input, bins, *rest):
        *limits, weight, density = rest
        points = input.detach().reshape(-1, 1)
        weight = weight if weight is None else weight.detach().reshape(-1)
        check_points("histogram", points, weight)
        if isinstance(bins, _C.Tensor):
            # the result is the caller's, the argument stays so
            edges = [edge.clone() for edge in check_edges("histogram", points, [bins])]
        else:
            edges = even_edges("histogram", points, [bins], limits[0])
        return result_type("histogram", ("hist", "bin_edges"))(
            (histogram_of("histogram", points, edges, weight, density), edges[0])
        )


class HistogramDD(OpDefinition):
    """Counts (or sums of weights) of points in cells of many dims, and the edges of each."""

    schema = (
        (
            "histogramdd(Tensor input, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False)"
            " -> (Tensor hist, Tensor[] bin_edges)"
        ),
        (
            "histogramdd(Tensor input, Tensor[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False)"
            " -> (Tensor hist, Tensor[] bin_edges)"
        ),
        (
            "histogramdd(Tensor input, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) ->"
            " (Tensor hist, Tensor[] bin_edges)"
        ),
    )
    differentiable = False
    method = False
    out = False

    def run(self, input, bins, range, weight, density):
        if input.ndim < 2:
            raise RuntimeError(f"histogramdd: expected an input with 2 dimensions or more, got {input.ndim}")
        dims = input.shape[-1]
        bins = [bins] * dims if isinstance(bins, int) else list(bins)
        if len(bins) != dims:
            raise RuntimeError(
                f"histogramdd: expected bins for each of the {dims} coordinates in input, got {len(bins)}."
            )
        if weight is not None and tuple(weight.shape) != tuple(input.shape[:-1]):
            raise RuntimeError(
                "histogramdd: expected a weight of the shape of input without its last dimension, got"
                f" {list(weight.shape)} for {list(input.shape)}"
            )
        points = input.detach().reshape(-1, dims)
        weight = weight if weight is None else weight.detach().reshape(-1)
        check_points("histogramdd", points, weight)
        if bins and isinstance(bins[0], _C.Tensor):
            edges = check_edges("histogramdd", points, bins)
        else:
            edges = even_edges("histogramdd", points, bins, range)
        shown = bins if bins and isinstance(bins[0], _C.Tensor) else edges   # given edges come back as they are
        return result_type("histogramdd", ("hist", "bin_edges"))(
            (histogram_of("histogramdd", points, edges, weight, density), tuple(shown))
        )
