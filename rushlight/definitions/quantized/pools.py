"""Pools, resampling and padding of quantized images: sums and choices of integers.

Enters: images quantized per tensor. Leaves: images with the same scale and zero point and PyTorch's integers. Refuses:
what the ops refuse for other tensors; modes that PyTorch has no quantized kernel for, by name.

Where channels lie last PyTorch rounds whole vectors of channels before it adds the zero point (`ahead`), else after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from rushlight import _C
from rushlight.base.shape import channels_last, channels_last_3d
from rushlight.op import Composite, Pointwise, find_op, ops

from ..pool.largest import adaptive_sizes
from ..pool.sizes import Pooling, check_image, check_rank
from ..resample.interpolate import asked, check_mode, output_sizes, resample_axes
from ..resample.tables import NEAREST, NEAREST_EXACT
from ..window.axes import ADAPTIVE, AVERAGE, Axis, pack, table_of
from ..window.layout import is_channels_last
from .container import ints, is_quantized, like, qparams, rule
from .pointwise import Integers, bounds, held, quantized_number, single

AVERAGE_LANES, ADAPTIVE_LANES = 16, 8      # channels that PyTorch's kernels take at a time: sliding windows, others


class QuantizedAverage(Pointwise):
    """Integers from sums of them: ((total - zero * count) * factor, rounded) + zero. `form`: 0 rounds first, 1 adds the
    zero point first, 2 does both in one step, 3 knows nothing of zero points."""

    schema = (
        "_quantized_average(Tensor total, Tensor count, Tensor factor, Scalar low, Scalar high, Scalar zero, int form,"
        " dtype dtype) -> Tensor"
    )
    function = method = inplace = differentiable = False

    def common_dtype(self, args: tuple, operands: list[int]) -> Any:
        return _C.float64

    def operand_compute(self, i: int, compute: str, own: str) -> str:
        return own if self.spec.params[i].type == "Tensor" else compute

    def result_dtype(self, common: Any, *args: Any) -> Any:
        return args[-1]

    def expr(self, s, total, count, factor, low, high, zero, form, dtype):
        code = dtype.code
        if form == 3:
            return s.cast(s.cast(s.round(s.cast(total, "f32") * factor), "i64"), code)
        here = s.cast(total - count * s.cast(zero, "i32"), "f32")
        point = s.cast(zero, "f32")
        if form == 0:
            rounded = s.cast(s.round(here * factor), "f64") + zero
        else:
            rounded = s.cast(s.round(s.fma(here, factor, point) if form == 2 else here * factor + point), "f64")
        return s.cast(s.cast(held(rounded, low + zero, high + zero), "i64"), code)


ROUNDED_FIRST, SHIFTED, IN_ONE_STEP, PLAIN_MEAN = range(4)


def listed(numbers: Sequence[int], d: int, count: int, dtype: Any) -> Any:
    """Numbers as a tensor along dim `d` of `count`."""
    return ops["zeros"](()).new_tensor(list(numbers), dtype=dtype).view([-1 if k == d else 1 for k in range(count)])


@lru_cache(maxsize=512)
def boxes(numbers: tuple[tuple[int, ...], ...]) -> Any:
    """Products of one number per axis for every position of an image."""
    result = None
    for d, own in enumerate(numbers):
        along = listed(own, d, len(numbers), _C.int32)
        result = along if result is None else result * along
    return result


def averaged(q: Any, axes: Sequence[Axis], factors: Callable, lanes: int, forms: tuple[int, int, int]) -> Any:
    """Sums over windows, times factors: with channels last of whole vectors of channels, of the other channels, and of
    other images, each in its own form and with its own `factors(form)`."""
    integers, (_, zero_point) = ints(q), qparams(q, "pool")
    total = find_op("_window_sum")(integers.to(_C.int32), pack(axes))
    count = boxes(tuple(tuple(table_of(axis).counts) for axis in axes))
    op, limits = ops["_quantized_average"], bounds(zero_point, integers.dtype.code)

    def call(part: Any, form: int, out: Any = None) -> Any:
        return op(part, count, factors(form), *limits, form, integers.dtype, out=out)

    if not is_channels_last(q, len(axes)):
        return like(q, call(total, forms[2]))
    order = channels_last if len(axes) == 2 else channels_last_3d
    result = ops["empty"](total.shape, dtype=integers.dtype, memory_format=order)
    cut = 0 if integers.dtype is _C.int32 else q.shape[1] - q.shape[1] % lanes
    for form, part in ((forms[0], slice(0, cut)), (forms[1], slice(cut, q.shape[1]))):
        if part.start < part.stop:
            call(total[:, part], form, result[:, part])
    return like(q, result)


def average_pool(name: str, count: int, q: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool,
                 counts_padding: bool, divisor: int | None = None) -> Any:
    """The mean of sliding windows."""
    if divisor == 0:
        raise RuntimeError(f"{name}: divisor must be not zero")
    pool = Pooling(name, count, kernel, stride, padding, 1, ceil_mode)
    check_image(name, q.shape, count)
    sizes = zip(q.shape[q.ndim - count :], pool.outputs(q.shape), pool.kernel, pool.stride, pool.padding, strict=True)
    axes = [Axis(AVERAGE, n, out, k, s, p, int(counts_padding), 0) for n, out, k, s, p in sizes]
    whole = tuple(tuple(table_of(axis).divisors or ()) for axis in axes)

    def factors(form: int) -> Any:
        parts = boxes(whole) if divisor is None else boxes(((divisor,),))
        own = (1.0 / parts.to(_C.float64)).to(_C.float32)
        return own if form == ROUNDED_FIRST or not is_channels_last(q, count) else 1.0 / (1.0 / own)

    undivided = [axis._replace(e=1) for axis in axes]
    return averaged(q, undivided, factors, AVERAGE_LANES, (ROUNDED_FIRST, SHIFTED, SHIFTED))


def adaptive_pool(name: str, count: int, q: Any, output_size: Any) -> Any:
    """The mean of as many windows as the output has elements."""
    sizes = adaptive_sizes(name, q, output_size, count)
    check_rank(name, q.shape, count)
    if 0 in q.shape[1 if q.ndim == count + 2 else 0 :]:
        raise RuntimeError(f"{name}: only the batch dimension of input may be empty, got sizes {list(q.shape)}")
    axes = [Axis(ADAPTIVE, n, out) for n, out in zip(q.shape[q.ndim - count :], sizes, strict=True)]
    counts = tuple(tuple(table_of(axis).counts) for axis in axes)

    def factors(form: int) -> Any:
        if form == PLAIN_MEAN:      # one division after another, each rounded
            own = ops["ones"](())
            for d, numbers in enumerate(counts):
                own = own / listed(numbers, d, count, _C.float32)
            return own
        own = 1.0 / boxes(counts).to(_C.float32)
        return 1.0 / (1.0 / own)

    return averaged(q, axes, factors, ADAPTIVE_LANES, (IN_ONE_STEP, SHIFTED, PLAIN_MEAN))


@rule("avg_pool2d")
def avg_pool2d(q: Any, *rest: Any) -> Any:
    return average_pool("avg_pool2d", 2, q, *rest)


@rule("avg_pool3d")
def avg_pool3d(q: Any, *rest: Any) -> Any:
    if q.ndim == 5 and q.numel():      # volumes are taken, and come, with channels last
        q = like(q, ints(q).contiguous(memory_format=channels_last_3d))
    return average_pool("avg_pool3d", 3, q, *rest)


@rule("avg_pool1d")
def avg_pool1d(q: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, counts_padding: bool) -> Any:
    numbers = [flat(n, missing) for n, missing in ((kernel, 1), (stride, 1), (padding, 0))]
    found = average_pool("avg_pool1d", 2, raised(q), *numbers, ceil_mode, counts_padding)
    return lowered(found)


def flat(given: Any, missing: int) -> tuple[int, int] | None:
    """Numbers of one dim as those of an image of one row."""
    if given is None or given == [] or given == ():
        return None
    return (missing, given if isinstance(given, int) else given[0])


def raised(q: Any) -> Any:
    """Rows as images of one row."""
    return like(q, ints(q).unsqueeze(-2))


def lowered(q: Any) -> Any:
    return like(q, ints(q).squeeze(-2))


@rule("adaptive_avg_pool2d", "_adaptive_avg_pool2d")
def adaptive_avg_pool2d(q: Any, output_size: Any) -> Any:
    return adaptive_pool("adaptive_avg_pool2d", 2, q, output_size)


@rule("adaptive_avg_pool3d", "_adaptive_avg_pool3d")
def adaptive_avg_pool3d(q: Any, output_size: Any) -> Any:
    return adaptive_pool("adaptive_avg_pool3d", 3, q, output_size)


@rule("adaptive_avg_pool1d")
def adaptive_avg_pool1d(q: Any, output_size: Any) -> Any:
    size = output_size if isinstance(output_size, int) else output_size[0]
    return lowered(adaptive_pool("adaptive_avg_pool2d", 2, raised(q), (1, size)))


# --- maxima -----------------------------------------------------------------------------------------------------------


def max_pool(name: str, count: int, q: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
             return_indices: bool = False) -> Any:
    """The largest element of sliding windows."""
    if return_indices:
        raise NotImplementedError(f"{name}: positions of maxima are not implemented for quantized tensors")
    qparams(q, name)
    return like(q, ops[f"max_pool{count}d"](ints(q), kernel, stride, padding, dilation, ceil_mode))


@rule("max_pool2d")
def max_pool2d(q: Any, *rest: Any) -> Any:
    return max_pool("max_pool2d", 2, q, *rest)


@rule("max_pool3d")
def max_pool3d(q: Any, *rest: Any) -> Any:
    return max_pool("max_pool3d", 3, q, *rest)


@rule("max_pool1d")
def max_pool1d(q: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
               return_indices: bool = False) -> Any:
    numbers = [flat(n, missing) for n, missing in ((kernel, 1), (stride, 1), (padding, 0), (dilation, 1))]
    return lowered(max_pool("max_pool1d", 2, raised(q), *numbers, ceil_mode, return_indices))


class QuantizedMaxPool(Composite):
    """The largest element of windows over quantized images."""

    method = out = differentiable = False
    count: int

    def compute(self, input, kernel_size, stride, padding, dilation, ceil_mode):
        if not is_quantized(input):
            raise NotImplementedError(f"{self.name}: expected a quantized tensor, got one of {input.dtype}")
        return {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}[self.count](
            input, kernel_size, stride, padding, dilation, ceil_mode
        )


def _max_pool(count: int) -> None:
    text = (
        f"quantized_max_pool{count}d(Tensor input, int[{count}] kernel_size, int[{count}]? stride=None, int[{count}]"
        f" padding=0, int[{count}] dilation=1, bool ceil_mode=False) -> Tensor"
    )
    body = {"schema": text, "count": count, "__doc__": QuantizedMaxPool.__doc__, "__module__": __name__}
    type(f"QuantizedMaxPool{count}d", (QuantizedMaxPool,), body)


for _count in (1, 2, 3):
    _max_pool(_count)


def extreme(name: str, q: Any, rest: tuple) -> Any:
    """The largest or smallest element, of all or along a dim, with where it is."""
    qparams(q, name)
    if rest and isinstance(rest[0], _C.Tensor):
        raise NotImplementedError(f"{name}: not implemented for two quantized tensors. Use dequantize() first.")
    found = ops[name](ints(q), *rest)
    return like(q, found) if not rest else type(found)((like(q, found[0]), found[1]))


@rule("max")
def largest(q: Any, *rest: Any) -> Any:
    return extreme("max", q, rest)


@rule("min")
def smallest(q: Any, *rest: Any) -> Any:
    return extreme("min", q, rest)


# --- resampling -------------------------------------------------------------------------------------------------------


ROWS, VECTORS, SINGLE = range(3)


class QuantizedBilinear(Integers):
    """The mean of four integers with the weights of their places. `form` says which products and sums are rounded
    together, as in PyTorch: none of rows, and of channels that lie last those of vectors and of single ones."""

    schema = (
        "_quantized_bilinear(Tensor a, Tensor b, Tensor c, Tensor d, Tensor down, Tensor across, Scalar low, Scalar"
        " high, Scalar zero, int form) -> Tensor"
    )

    def expr(self, s, a, b, c, d, down, across, low, high, zero, form):
        code = a.dtype
        a, b, c, d = (s.cast(x, "f32") for x in (a, b, c, d))
        point, up, back = s.cast(zero, "f32"), 1.0 - down, 1.0 - across
        if form == VECTORS:
            mixed = s.fma(down, s.fma(across, d, back * c), up * s.fma(across, b, back * a))
        elif form == SINGLE:
            mixed = s.fma(up, s.fma(back, a, across * b), down * s.fma(back, c, across * d))
        else:
            mixed = up * (back * a + across * b) + down * (back * c + across * d)
        rounded = s.cast(s.round(mixed - point + point), zero.dtype)
        return s.cast(s.cast(held(rounded, low + zero, high + zero), "i64"), code)


@lru_cache(maxsize=512)
def places(size: int, out: int, corners: bool, factor: float | None, joined: bool) -> tuple:
    """For every position of an output axis the two input positions around its place, and how far it is from the first;
    computed in float32, as PyTorch does."""
    if corners:
        step = single((size - 1) / (out - 1)) if out > 1 else 0.0
    else:
        step = single(1.0 / factor) if factor is not None and factor > 0 else single(size / out)
    first, second, beyond = [], [], []
    for k in range(out):
        if corners:
            place = single(step * k)
        else:
            wide = step * single(k + 0.5)
            place = max(single((wide if joined else single(wide)) - 0.5), 0.0)
        low = min(int(place), size - 1)
        first.append(low)
        second.append(min(low + 1, size - 1))
        beyond.append(single(place - low))
    whole, part = ops["zeros"]((), dtype=_C.int64), ops["zeros"](())
    return whole.new_tensor(first), whole.new_tensor(second), part.new_tensor(beyond)


def bilinear(name: str, q: Any, sizes: Sequence[int], corners: bool, factors: Sequence[float | None]) -> Any:
    """Images at another size, mixed of four neighbours."""
    zero_point = qparams(q, name)[1]
    check_resized(name, q, sizes)
    integers, turned = ints(q), is_channels_last(q, 2)
    rows, cols = (
        places(int(n), int(out), corners, f, turned)
        for n, out, f in zip(q.shape[2:], sizes, factors, strict=True)
    )
    if tuple(sizes) == tuple(q.shape[2:]) and not turned:
        return like(q, integers.clone())
    above, below = (integers.index_select(2, rows[k]) for k in (0, 1))
    four = [t.index_select(3, cols[k]) for t in (above, below) for k in (0, 1)]
    limits, op = bounds(zero_point, integers.dtype.code), ops["_quantized_bilinear"]
    down, across = rows[2].view(-1, 1), cols[2]
    if not turned:
        return like(q, op(*four, down, across, *limits, ROWS))
    result = ops["empty"](four[0].shape, dtype=integers.dtype, memory_format=channels_last)
    cut = 0 if integers.dtype is _C.int32 else q.shape[1] - q.shape[1] % ADAPTIVE_LANES
    for form, part in ((VECTORS, slice(0, cut)), (SINGLE, slice(cut, q.shape[1]))):
        if part.start < part.stop:
            op(*[t[:, part] for t in four], down, across, *limits, form, out=result[:, part])
    return like(q, result)


def check_resized(name: str, q: Any, sizes: Sequence[int]) -> None:
    """Raise for images and sizes without elements."""
    if q.ndim != len(sizes) + 2 or 0 in q.shape[1:]:
        raise RuntimeError(f"{name}: expected an input with {len(sizes) + 2} dimensions and elements, got sizes"
                           f" {list(q.shape)}")
    if min(sizes) <= 0:
        raise RuntimeError(f"{name}: expected sizes above 0, got input {list(q.shape[2:])} and output {list(sizes)}")


def nearest(name: str, q: Any, sizes: Sequence[int], mode: int, factors: Sequence[float | None]) -> Any:
    """Images at another size, each element the nearest of the input."""
    qparams(q, name)
    check_resized(name, q, sizes)
    axes = resample_axes(tuple(q.shape), name, _C.uint8, tuple(sizes), mode, False, tuple(factors), False)
    return like(q, find_op("_window_sum")(ints(q), axes[0]))


@rule("interpolate")
def interpolate(
    q: Any, size: Any, scale_factor: Any, mode: str, corners: bool | None, recompute: bool | None, antialias: bool
) -> Any:
    mode = mode.strip("'")
    if mode in ("nearest", "area", "nearest-exact") and corners is not None:
        raise ValueError("interpolate: align_corners applies to the modes linear, bilinear, bicubic and trilinear only")
    sizes, factors = asked(q, size, scale_factor, mode == "area" or bool(recompute), bool(recompute))
    check_mode(q, mode, antialias, corners)
    if mode == "area":
        return adaptive_pool("adaptive_avg_pool", len(sizes), q, sizes)
    return resampled("interpolate", mode, q, sizes, bool(corners), factors, antialias)


def resampled(
    name: str, mode: str, q: Any, sizes: Sequence[int], corners: bool, factors: Sequence[float | None], antialias: bool
) -> Any:
    """Images at another size, by one of the modes that there are for quantized tensors."""
    if mode == "bilinear" and not antialias:
        return bilinear(name, q, sizes, corners, factors)
    if mode in ("nearest", "nearest-exact") and len(sizes) > 1:
        return nearest(name, q, sizes, NEAREST if mode == "nearest" else NEAREST_EXACT, factors)
    raise NotImplementedError(
        f"{name}: mode {mode!r} is not implemented for quantized tensors with {q.ndim} dimensions. Use dequantize()"
        " first."
    )


def _named(name: str, mode: str, takes_corners: bool) -> None:
    """The rule of a mode's own op, with sizes and a factor per dim or with a list of either."""

    def run(q: Any, output_size: Any, *rest: Any) -> Any:
        corners, scales = (bool(rest[0]), rest[1:]) if takes_corners else (False, rest)
        if len(scales) == 1:
            sizes, factors = output_sizes(name, q, output_size, scales[0])
        else:
            sizes, factors = list(output_size), list(scales)
        return resampled(name, mode, q, sizes, corners, factors, False)

    rule(name)(run)


for _count in (2, 3):
    _named(f"upsample_nearest{_count}d", "nearest", False)
    _named(f"_upsample_nearest_exact{_count}d", "nearest-exact", False)
_named("upsample_bilinear2d", "bilinear", True)


# --- padding and shuffling --------------------------------------------------------------------------------------------


@rule("constant_pad_nd")
def constant_pad_nd(q: Any, pad: Sequence[int], value: float) -> Any:
    scale, zero_point = qparams(q, "constant_pad_nd")
    integers = ints(q)
    around = quantized_number(float(value), scale, zero_point, integers.dtype.code)
    return like(q, ops["constant_pad_nd"](integers, pad, around))


@rule("_pad_by_index")
def pad_by_index(q: Any, pad: Sequence[int], mode: str) -> Any:
    if mode != "reflect" or len(pad) > 4:
        raise NotImplementedError(f"pad: mode {mode!r} of {len(pad) // 2} dimensions is not implemented for quantized"
                                  " tensors. Use dequantize() first.")
    qparams(q, "pad")
    return like(q, find_op("_pad_by_index")(ints(q).contiguous(), pad, mode))


@rule("channel_shuffle")
def channel_shuffle(q: Any, groups: int) -> Any:
    if q.ndim != 4:
        raise RuntimeError(f"channel_shuffle: expects 4D input, but got input with sizes {list(q.shape)}")
    if q.dtype is not _C.quint8:
        raise RuntimeError(f"channel_shuffle: works only on quint8 tensors among quantized ones, got {q.dtype}")
    return like(q, ops["channel_shuffle"](ints(q), groups))


def _rearranged(name: str) -> None:
    """The rule of an op that moves elements and knows nothing of what they are; results lie in dense rows."""

    def run(q: Any, *rest: Any) -> Any:
        return like(q, ops[name](ints(q), *rest).contiguous())

    rule(name)(run)


for _name in ("native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle"):
    _rearranged(_name)
