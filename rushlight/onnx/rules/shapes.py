"""Views, and ops that move elements without looking at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ..building import Builder, Size
from ..model import Value, element_type
from .table import INT64, full_size, is_one, number, permuted, positive, reshaped, result_of, rule

LAST = 2**63 - 1


@rule("view", "reshape", "_unsafe_view", "view_as", "reshape_as")
def view(g: Builder, input: Value, size: Any = None, shape: Any = None, dtype: Any = None, other: Any = None) -> Value:
    if dtype is not None:
        if g.opset >= 26 and dtype.itemsize == input.dtype.itemsize:
            return g.node("BitCast", input, dtype=dtype, to=element_type(dtype))
        raise NotImplementedError(f"view({dtype}) looks at the bits of numbers, which ONNX can only since opset 26")
    if other is not None:
        return reshaped(g, input, full_size(g, other))
    return reshaped(g, input, _told(g, list(size if size is not None else shape)))


def _told(g: Builder, sizes: list[Any]) -> list[Any]:
    """Sizes with -1 replaced where tracing saw a number."""
    seen = result_of(g).shape
    return [n if isinstance(n, Size) or n != -1 or type(seen[i]) is not int else seen[i] for i, n in enumerate(sizes)]


@rule("flatten")
def flatten(g: Builder, input: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    first, last = positive(start_dim, input.ndim), positive(end_dim, input.ndim)
    joined = result_of(g).shape[first] if result_of(g).ndim else 1
    middle = [joined if type(joined) is int else -1]
    sizes = full_size(g, input)
    return reshaped(g, input, [*sizes[:first], *middle, *sizes[last + 1 :]])


@rule("unflatten")
def unflatten(g: Builder, input: Value, dim: int, sizes: Sequence[Any]) -> Value:
    dim, own = positive(dim, input.ndim), full_size(g, input)
    return reshaped(g, input, _told(g, [*own[:dim], *sizes, *own[dim + 1 :]]))


@rule("permute")
def permute(g: Builder, input: Value, dims: Sequence[int]) -> Value:
    return permuted(g, input, [positive(d, input.ndim) for d in dims])


@rule("transpose", "swapaxes", "swapdims")
def transpose(g: Builder, input: Value, dim0: int = 0, dim1: int = 0, axis0: int | None = None,
              axis1: int | None = None) -> Value:
    a, b = (dim0, dim1) if axis0 is None else (axis0, axis1)
    order = list(range(input.ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return permuted(g, input, order)


@rule("t")
def t(g: Builder, input: Value) -> Value:
    return permuted(g, input, list(range(input.ndim))[::-1])


@rule("squeeze")
def squeeze(g: Builder, input: Value, dim: Any = None) -> Value:
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = [positive(d, input.ndim) for d in dims if input.ndim and is_one(input.shape[d])]
    return g.node("Squeeze", input, g.ints(sorted(gone))) if gone else input


@rule("unsqueeze")
def unsqueeze(g: Builder, input: Value, dim: int) -> Value:
    return g.node("Unsqueeze", input, g.ints([dim % (input.ndim + 1)]))


@rule("expand", "broadcast_to")
def expand(g: Builder, input: Value, size: Sequence[Any], implicit: bool = False) -> Value:
    missing = len(size) - input.ndim
    own = [1] * missing + list(input.shape)
    if all(not isinstance(n, Size) and (n == -1 or n == o) for n, o in zip(size, own)) and not missing:
        return input
    # A size of 1 leaves what is there, which is what -1 asks for.
    return g.node("Expand", input, g.sizes([1 if not isinstance(n, Size) and n == -1 else n for n in size]))


@rule("expand_as")
def expand_as(g: Builder, input: Value, other: Value) -> Value:
    return g.node("Expand", input, g.sizes(full_size(g, other)))


@rule("repeat", "tile")
def repeat(g: Builder, input: Value, repeats: Any = None, dims: Any = None) -> Value:
    counts = list(repeats if repeats is not None else dims)
    counts = [1] * (input.ndim - len(counts)) + counts
    if len(counts) > input.ndim:
        input = reshaped(g, input, [1] * (len(counts) - input.ndim) + full_size(g, input))
    return g.node("Tile", input, g.sizes(counts))


@rule("cat")
def cat(g: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    result = result_of(g)
    parts = [g.cast(t, result.dtype) for t in tensors if t.shape != (0,) or result.ndim == 1]
    return g.node("Concat", *parts, axis=positive(dim, result.ndim)) if len(parts) > 1 else g.node("Identity", *parts)


@rule("stack")
def stack(g: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    result = result_of(g)
    axis = positive(dim, result.ndim)
    return g.node("Concat", *[g.node("Unsqueeze", g.cast(t, result.dtype), g.ints([axis])) for t in tensors], axis=axis)


@rule("split", "split_with_sizes", "chunk", "tensor_split")
def split(g: Builder, dim: int = 0, **arguments: Any) -> tuple[Value, ...]:
    input = next(v for v in arguments.values() if isinstance(v, Value))
    axis = positive(dim, input.ndim)
    lengths = [part.shape[axis] for part in g.result]
    if any(type(n) is not int for n in lengths):
        return _varying_pieces(g, input, axis, arguments, len(lengths))
    if len(lengths) == 1:
        return (g.node("Identity", input),)
    return tuple(g.nodes("Split", input, g.ints(lengths), dtypes=[input.dtype] * len(lengths), axis=axis))


def _varying_pieces(g: Builder, x: Value, axis: int, arguments: dict[str, Any], count: int) -> tuple[Value, ...]:
    """Pieces whose sizes vary: slices, one after the other."""
    sizes = arguments.get("split_sizes", arguments.get("split_size", arguments.get("split_size_or_sections")))
    if sizes is None and isinstance(arguments.get("chunks"), int):
        chunks, whole = arguments["chunks"], g.size(x, axis)
        more = g.arithmetic("Add", whole, chunks - 1, "")
        sizes = g.arithmetic("Div", more, chunks, "")
    if sizes is None:
        raise NotImplementedError("pieces whose sizes vary; slice them instead")
    lengths = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes] * count
    found, begin = [], 0
    for length in lengths:
        if isinstance(begin, Size) or isinstance(length, Size):
            end: Any = g.arithmetic("Add", begin, length, "")
        else:
            end = begin + length
        found.append(sliced(g, x, axis, begin, end))
        begin = end
    return tuple(found)


@rule("unbind")
def unbind(g: Builder, input: Value, dim: int = 0) -> tuple[Value, ...]:
    axis = positive(dim, input.ndim)
    return tuple([g.node("Gather", input, g.constant(i, INT64), axis=axis) for i in range(len(g.result))])


def sliced(g: Builder, x: Value, axis: int, start: Any, end: Any, step: int = 1) -> Value:
    """Elements from `start` to `end` along a dim; ONNX clamps them as Python does."""
    return g.node("Slice", x, g.sizes([start]), g.sizes([end]), g.ints([axis]), g.ints([step]))


@rule("slice")
def slice_(g: Builder, input: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    axis = positive(dim, input.ndim)
    start, end = 0 if start is None else start, LAST if end is None else end
    is_whole = not isinstance(start, Size) and start == 0 and not isinstance(end, Size) and end >= LAST and step == 1
    return input if is_whole else sliced(g, input, axis, start, end, step)


@rule("narrow")
def narrow(g: Builder, input: Value, dim: int, start: Any, length: Any) -> Value:
    axis = positive(dim, input.ndim)
    if isinstance(start, Value):
        raise NotImplementedError("narrow from a place that a tensor says")
    if not isinstance(start, Size) and start < 0:
        size = g.size(input, axis)
        start = g.arithmetic("Add", size, start, "") if isinstance(size, Size) else start + size
    if isinstance(start, Size) or isinstance(length, Size):
        end: Any = g.arithmetic("Add", start, length, "")
    else:
        end = start + length
    return sliced(g, input, axis, start, end)


@rule("select")
def select(g: Builder, input: Value, dim: int, index: Any) -> Value:
    return g.node("Gather", input, g.scalar(index, INT64), axis=positive(dim, input.ndim))


@rule("flip")
def flip(g: Builder, input: Value, dims: Sequence[int]) -> Value:
    axes = [positive(d, input.ndim) for d in dims]
    if not axes or not input.ndim:
        return input
    ones = [-1] * len(axes)
    return g.node("Slice", input, g.ints(ones), g.ints([-LAST] * len(axes)), g.ints(axes), g.ints(ones))


@rule("roll")
def roll(g: Builder, input: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    if not dims:
        flat = reshaped(g, input, [-1])
        return reshaped(g, _rolled(g, flat, 0, shifts[0]), full_size(g, input))
    for shift, dim in zip(shifts, dims):
        input = _rolled(g, input, positive(dim, input.ndim), shift)
    return input


def _rolled(g: Builder, x: Value, axis: int, shift: int) -> Value:
    size = x.shape[axis] if x.shape is not None else None
    shift = shift % size if isinstance(size, int) and size else shift
    if not shift:
        return x
    parts = [sliced(g, x, axis, -shift, LAST), sliced(g, x, axis, 0, -shift)]
    rolled = g.node("Concat", *parts, axis=axis)
    return Value(rolled.name, rolled.dtype, x.shape)


def _triangle(upper: int) -> Callable[..., Value]:
    def convert(g: Builder, input: Value, diagonal: Any = 0) -> Value:
        kind = input.dtype
        if kind.code not in ("f32", "f64", "i64", "b1"):       # those that runtimes have
            kind = _C.float32 if kind.is_floating_point else INT64
        return g.cast(g.node("Trilu", g.cast(input, kind), g.scalar(diagonal, INT64), upper=upper), input.dtype)

    return convert


rule("tril")(_triangle(0))
rule("triu")(_triangle(1))


@rule("diagonal")
def diagonal(g: Builder, input: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    a, b = positive(dim1, input.ndim), positive(dim2, input.ndim)
    rest = [d for d in range(input.ndim) if d not in (a, b)]
    last = permuted(g, input, [*rest, a, b])
    length = result_of(g).shape[-1]
    if type(length) is not int:
        raise NotImplementedError("diagonals whose length varies")
    rows = [[i + max(-offset, 0), i + max(offset, 0)] for i in range(length)]
    first = permuted(g, Value(last.name, last.dtype, input.shape), [len(rest), len(rest) + 1, *range(len(rest))])
    if not rows:
        sizes = [*[g.size(input, d) for d in rest], 0]
        return g.node("Expand", number(g, 0, input), g.sizes(sizes), dtype=input.dtype)
    found = g.node("GatherND", first, g.constant(rows, INT64))
    return permuted(g, found, [*range(1, len(rest) + 1), 0])


@rule("clone", "contiguous", "detach", "alias", "lift_fresh_copy", "lift_fresh", "positive", "_laid_out", "lift",
      "resolve_conj", "resolve_neg", "real", "_real_part", "conj", "_conj", "detach_copy", "alias_copy")
def same(g: Builder, input: Value, **layout: Any) -> Value:
    return input


@rule("to", "_to_copy", "type_as", "_to")
def to(g: Builder, input: Value, **options: Any) -> Value:
    wanted = result_of(g).dtype
    if wanted.is_complex:
        raise NotImplementedError("conversion to complex numbers")
    return g.cast(input, wanted)


@rule("copy", "fill")
def overwrite(g: Builder, input: Value, src: Any = None, value: Any = None, non_blocking: bool = False) -> Value:
    source = src if src is not None else value
    given = g.cast(source, input.dtype) if isinstance(source, Value) else number(g, source, input)
    return g.node("Expand", given, g.sizes(full_size(g, input)))


@rule("slice_scatter")
def slice_scatter(g: Builder, input: Value, src: Value, dim: int = 0, start: Any = None, end: Any = None,
                  step: int = 1) -> Value:
    axis = positive(dim, input.ndim)
    every = g.node("Range", g.constant(0, INT64), g.scalar(g.size(input, axis), INT64), g.constant(1, INT64))
    chosen = sliced(g, every, 0, 0 if start is None else start, LAST if end is None else end, step)
    return along_axis(g, input, axis, chosen, g.cast(src, input.dtype))


def along_axis(g: Builder, x: Value, axis: int, places: Value, source: Value) -> Value:
    """x with slices along a dim, at the places that a tensor of one dim says, replaced by those of `source`."""
    order = [axis, *[d for d in range(x.ndim) if d != axis]]
    back = [order.index(d) for d in range(x.ndim)]
    index = g.node("Unsqueeze", places, g.ints([1]))
    return permuted(g, g.node("ScatterND", permuted(g, x, order), index, permuted(g, source, order)), back)


@rule("select_scatter")
def select_scatter(g: Builder, input: Value, src: Value, dim: int, index: Any) -> Value:
    axis = positive(dim, input.ndim)
    place = g.sizes([index]) if isinstance(index, Size) or index >= 0 else g.node(
        "Add", g.size_value(g.size(input, axis)), g.ints([index]))
    return along_axis(g, input, axis, place, g.node("Unsqueeze", g.cast(src, input.dtype), g.ints([axis])))


@rule("unfold")
def unfold(g: Builder, input: Value, dimension: int, size: int, step: int) -> Value:
    axis = positive(dimension, input.ndim)
    if not input.ndim:
        return g.node("Reshape", input, g.ints([size]))
    count = result_of(g).shape[axis]
    if type(count) is int:
        index = g.constant([[i * step + k for k in range(size)] for i in range(count)], INT64)
    else:
        index = _window_starts(g, input, axis, size, step)
    windows = g.node("Gather", input, index, axis=axis)      # dims: before, windows, inside, behind
    order = [d for d in range(input.ndim + 1) if d != axis + 1]
    return permuted(g, windows, [*order, axis + 1])


def _window_starts(g: Builder, x: Value, axis: int, size: int, step: int) -> Value:
    """Places of windows, as many as fit."""
    last = g.scalar(g.arithmetic("Sub", g.size(x, axis), size - 1, "last"), INT64)
    starts = g.node("Range", g.constant(0, INT64), last, g.constant(step, INT64))
    return g.node("Add", g.node("Unsqueeze", starts, g.ints([1])), g.ints(range(size)))


@rule("as_strided")
def as_strided(g: Builder, input: Value, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
               ) -> Value:
    """Elements of the memory: that of a tensor that fills its own in row-major order."""
    seen, offset = g.seen["input"], storage_offset or 0
    if not all(type(n) is int for n in (*size, *stride, offset, *seen.shape)):
        raise NotImplementedError("as_strided with sizes that vary")
    if not seen.is_contiguous() or seen.storage_offset() or seen.untyped_storage().nbytes() not in (
            0, seen.numel() * seen.dtype.itemsize):
        raise NotImplementedError("as_strided of a view: a graph knows values, not the memory behind them")
    places = [offset]
    for n, s in zip(size, stride, strict=True):
        places = [p + i * s for p in places for i in range(n)]
    found = g.node("Gather", reshaped(g, input, [-1]), g.ints(places))
    return g.node("Reshape", found, g.ints(size))


@rule("pixel_shuffle")
def pixel_shuffle(g: Builder, input: Value, upscale_factor: int) -> Value:
    if input.ndim != 4:
        raise NotImplementedError(f"pixel_shuffle of {input.ndim} dims; ONNX has it for batches of images")
    return g.node("DepthToSpace", input, blocksize=upscale_factor, mode="CRD")
