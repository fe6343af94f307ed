"""Views of a part: select, narrow, slices, diagonals, windows, and splitting into many parts."""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base.assertions import sym_ite, sym_max, sym_min
from ...base.shape import INTS, holds, is_hidden
from ...op import Composite, Geometry, Meta, View, find_op, wrap_dim


def _with(values: Any, d: int, value: int) -> tuple[int, ...]:
    return (*values[:d], value, *values[d + 1 :])


class Select(View):
    """One position along a dimension, which disappears."""

    schema = "select(Tensor(a) input, int dim, int index) -> Tensor(a)"

    def geometry(self, t, dim, index):
        if t.ndim == 0:
            raise IndexError("select: a 0-dim tensor has no dimension to select from.")
        d = wrap_dim("select", dim, t.ndim)
        size = t.shape[d]
        if not (holds(-size <= index) and holds(index < size)):
            raise IndexError(
                f"select(): index {index} out of range for tensor of size {list(t.shape)} at dimension {d}"
            )
        i = _from_front(index, size)
        strides = t.stride()
        return Geometry((*t.shape[:d], *t.shape[d + 1 :]), (*strides[:d], *strides[d + 1 :]), i * strides[d])

    def vjp(self, g, input: Meta, dim, index):
        return {"input": input.zeros().select_scatter(g, dim, index)}

    def inverse(self, base, new, which, dim, index):
        return base.select_scatter(new, dim, index)


class Slice(View):
    """Positions start to end along a dimension, every `step`-th."""

    schema = "slice(Tensor(a) input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)"
    function = False
    method = False

    def geometry(self, t, dim, start, end, step):
        d = wrap_dim("slice", dim, t.ndim)
        if step <= 0:
            raise RuntimeError("slice step must be positive")
        size = t.shape[d]
        begin, stop = _bound(start, 0, size), _bound(end, size, size)
        count = (
            sym_max((stop - begin + step - 1) // step, 0)
            if is_hidden(stop - begin)
            else (stop - begin + step - 1) // step if stop > begin else 0
        )
        strides = t.stride()
        return Geometry(_with(t.shape, d, count), _with(strides, d, strides[d] * step), begin * strides[d])

    def vjp(self, g, input: Meta, dim, start, end, step):
        return {"input": input.zeros().slice_scatter(g, dim, start, end, step)}

    def inverse(self, base, new, which, dim, start, end, step):
        return base.slice_scatter(new, dim, start, end, step)


def _bound(given: int | None, default: int, size: int) -> int:
    """A bound of a slice counted from the front and held to [0, size]. Not slice.indices(): sizes may be symbolic."""
    if given is None:
        return default
    place = _from_front(given, size)
    if is_hidden(place) or is_hidden(size):     # no question to ask: a formula
        return sym_min(sym_max(place, 0), size)
    return 0 if place < 0 else size if place > size else place


def _from_front(place: int, size: int) -> int:
    """A place that may be counted from the end, counted from the front."""
    if is_hidden(place):
        return sym_ite(place < 0, place + size, place)
    return place + size if place < 0 else place


class Narrow(View):
    """`length` positions along a dimension, from `start`."""

    schema = "narrow(Tensor(a) input, int dim, int start, int length) -> Tensor(a)"

    def geometry(self, t, dim, start, length):
        if t.ndim == 0:
            raise RuntimeError("narrow: a 0-dim tensor has no dimension to narrow.")
        d = wrap_dim("narrow", dim, t.ndim)
        size = t.shape[d]
        if not holds(length >= 0):
            raise RuntimeError(f"narrow(): length must be non-negative, got {length}.")
        if not (holds(-size <= start) and holds(start <= size)):
            raise IndexError(f"narrow(): start (={start}) out of range (expected to be in range of [{-size}, {size}])")
        begin = _from_front(start, size)
        if not holds(begin + length <= size):
            raise RuntimeError(f"narrow(): start ({begin}) + length ({length}) exceeds dimension size ({size}).")
        strides = t.stride()
        return Geometry(_with(t.shape, d, length), strides, begin * strides[d])

    def vjp(self, g, input: Meta, dim, start, length):
        begin = _from_front(start, input.shape[dim])
        return {"input": input.zeros().slice_scatter(g, dim, begin, begin + length)}

    def inverse(self, base, new, which, dim, start, length):
        begin = _from_front(start, base.shape[dim])
        return base.slice_scatter(new, dim, begin, begin + length)


class NarrowFrom(Composite):
    """narrow with its start in a 0-d integer tensor."""

    schema = "narrow(Tensor(a) input, int dim, Tensor start, int length) -> Tensor(a)"

    def compute(self, input, dim, start, length):
        if start.ndim or start.dtype.is_floating_point or start.dtype.is_complex or start.dtype is _C.bool:
            raise RuntimeError(
                f"narrow(): start must be an 0-dim integral Tensor, got {start.dtype.name} with {start.ndim} dims"
            )
        return input.narrow(dim, int(start), length)


class SelectScatter(Composite):
    """A copy of `input` with `src` written at one position of a dimension."""

    schema = "select_scatter(Tensor input, Tensor src, int dim, int index) -> Tensor"

    def compute(self, input, src, dim, index):
        result = input.clone()
        place = result.select(dim, index)
        check_place("select_scatter", place, src)
        place.copy_(src)
        return result

    batch = "body"

    def vjp(self, g, src: Meta, dim, index):
        return {"input": g.select_scatter(src.zeros(), dim, index), "src": g.select(dim, index)}


class SliceScatter(Composite):
    """A copy of `input` with `src` written over a slice."""

    schema = "slice_scatter(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor"

    def compute(self, input, src, dim, start, end, step):
        result = input.clone()
        d = wrap_dim("slice_scatter", dim, input.ndim)
        place = result[(slice(None),) * d + (slice(start, end, step),)]
        check_place("slice_scatter", place, src)
        place.copy_(src)
        return result

    batch = "body"

    def vjp(self, g, src: Meta, dim, start, end, step):
        return {
            "input": g.slice_scatter(src.zeros(), dim, start, end, step),
            "src": find_op("slice")(g, dim, start, end, step),
        }


class DiagonalScatter(Composite):
    """A copy of `input` with `src` written over a diagonal."""

    schema = "diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"

    def compute(self, input, src, offset, dim1, dim2):
        result = input.clone()
        place = result.diagonal(offset, dim1, dim2)
        check_place("diagonal_scatter", place, src)
        place.copy_(src)
        return result

    batch = "body"

    def vjp(self, g, src: Meta, offset, dim1, dim2):
        return {"input": g.diagonal_scatter(src.zeros(), offset, dim1, dim2), "src": g.diagonal(offset, dim1, dim2)}


class AsStridedScatter(Composite):
    """A copy of `input` with `src` written over an arbitrary geometry."""

    schema = (
        "as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor"
    )

    def compute(self, input, src, size, stride, storage_offset):
        result = input.clone()
        place = result.as_strided(size, stride, storage_offset)
        check_place("as_strided_scatter", place, src)
        place.copy_(src)
        return result


def check_place(name: str, place: Any, src: Any) -> None:
    """What is written must have exactly the sizes of where it goes."""
    if place.ndim != src.ndim or not all(holds(a == b) for a, b in zip(place.shape, src.shape, strict=True)):
        raise RuntimeError(f"{name}: expected src of the size of the slice, {list(place.shape)}, got {list(src.shape)}")


class Diagonal(View):
    """A diagonal of every matrix spanned by two dimensions, as a last dimension."""

    schema = "diagonal(Tensor(a) input, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"

    def geometry(self, t, offset, dim1, dim2):
        a, b = wrap_dim("diagonal", dim1, t.ndim), wrap_dim("diagonal", dim2, t.ndim)
        if a == b:
            raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
        strides = t.stride()
        if offset >= 0:
            count, begin = min(t.shape[a], t.shape[b] - offset), offset * strides[b]
        else:
            count, begin = min(t.shape[a] + offset, t.shape[b]), -offset * strides[a]
        keep = [d for d in range(t.ndim) if d not in (a, b)]
        count = max(count, 0)
        sizes = (*(t.shape[d] for d in keep), count)
        return Geometry(sizes, (*(strides[d] for d in keep), strides[a] + strides[b]), begin if count else 0)

    def vjp(self, g, input: Meta, offset, dim1, dim2):
        return {"input": input.zeros().diagonal_scatter(g, offset, dim1, dim2)}

    def inverse(self, base, new, which, offset, dim1, dim2):
        return base.diagonal_scatter(new, offset, dim1, dim2)


class Unfold(View):
    """Windows of `size` along a dimension, `step` apart, as a last dimension."""

    schema = "unfold(Tensor(a) input, int dimension, int size, int step) -> Tensor(a)"
    function = False

    def geometry(self, t, dimension, size, step):
        d = wrap_dim("unfold", dimension, t.ndim)
        limit = t.shape[d] if t.ndim else 1
        if not 0 <= size <= limit:
            raise RuntimeError(f"unfold: maximum size for tensor at dimension {d} is {limit} but size is {size}")
        if step <= 0:
            raise RuntimeError(f"unfold: step is {step} but must be > 0")
        count = (limit - size) // step + 1
        strides = t.stride()
        if t.ndim == 0:
            return Geometry((size,), (1,))
        return Geometry((*_with(t.shape, d, count), size), (*_with(strides, d, strides[d] * step), strides[d]))

    def vjp(self, g, input: Meta, dimension, size, step):
        return {"input": g.unfold_backward(input.shape, dimension, size, step)}


class UnfoldBackward(Composite):
    """Every window's gradient added back to where the window was."""

    schema = "unfold_backward(Tensor grad, int[] input_sizes, int dim, int size, int step) -> Tensor"
    function = False
    out = False

    def compute(self, grad, input_sizes, dim, size, step):
        if not input_sizes:
            return grad.sum()
        d = wrap_dim("unfold_backward", dim, len(input_sizes))
        count = grad.shape[d]
        total = grad.new_zeros(input_sizes)
        for k in range(size):   # windows overlap, their k-th elements do not
            part = grad.new_zeros(input_sizes).slice_scatter(grad.select(-1, k), d, k, k + (count - 1) * step + 1, step)
            total = total + part
        return total


class AsStrided(View):
    """Any geometry over the storage; `storage_offset` counts from its start."""

    schema = "as_strided(Tensor(a) input, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)"
    cacheable = False

    def geometry(self, t, size, stride, storage_offset):
        check_strided(t, size, stride, storage_offset)
        start = t.storage_offset() if storage_offset is None else storage_offset
        return Geometry(tuple(size), tuple(stride), start - t.storage_offset())

    def vjp(self, g, input: Meta, size, stride, storage_offset):
        return {"input": as_strided_gradient(g, input, size, stride, storage_offset)}

    def inverse(self, base, new, which, size, stride, storage_offset):
        return base.as_strided_scatter(new, size, stride, storage_offset)


def check_strided(t: Any, size: Any, stride: Any, storage_offset: int | None) -> None:
    """Refuse geometries that reach outside the storage."""
    if len(size) != len(stride):
        raise RuntimeError(f"as_strided: mismatch in length of strides and shape, got {len(stride)} and {len(size)}")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: expected strides of at least 0, got negative ones: {list(stride)}")
    if any(s < 0 for s in size):
        raise RuntimeError(f"as_strided: sizes must not be negative, got {list(size)}")
    start = t.storage_offset() if storage_offset is None else storage_offset
    if start < 0:
        raise RuntimeError(f"as_strided: Tensor: invalid storage offset {start}")
    if 0 in size:
        return
    need = (start + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1) * t.itemsize
    have = t._storage_bytes() if t._keys and hasattr(t, "_storage_bytes") else t.untyped_storage().nbytes()
    if need > have:
        raise RuntimeError(
            f"as_strided: sizes {list(size)}, strides {list(stride)} and storage offset {start} are out of bounds: they"
            f" need {need} bytes, the storage has {have}"
        )


def as_strided_gradient(g: Any, input: Any, size: Any, stride: Any, storage_offset: int | None) -> Any:
    """Scatter-add of the gradient through the storage both geometries look at."""
    base_offset = input.storage_offset()
    start = base_offset if storage_offset is None else storage_offset
    low = min(base_offset, start)
    high = max(_end(base_offset, input.shape, input.stride()), _end(start, size, stride))
    flat = g.new_zeros((max(high - low, 0),))
    window, whole = flat.as_strided(size, stride, start - low), flat.as_strided(
        input.shape, input.stride(), base_offset - low
    )
    if not window._overlaps_itself() and not whole._overlaps_itself():   # each element has one place: no sums needed
        window.copy_(g)
        return flat.as_strided(input.shape, input.stride(), base_offset - low)
    index = find_op("arange")(flat.numel(), device=g.device)
    where_out = index.as_strided(size, stride, start - low).reshape(-1)
    flat = flat.index_add(0, where_out, g.reshape(-1))
    where_in = index.as_strided(input.shape, input.stride(), base_offset - low)
    counts = flat.new_zeros(flat.shape).index_add(0, where_in.reshape(-1), flat.new_ones((where_in.numel(),)))
    flat = flat / counts.clamp(min=1)   # an input that overlaps itself shares its gradient between its elements
    return flat.index_select(0, where_in.reshape(-1)).reshape(input.shape)


def _end(offset: int, size: Any, stride: Any) -> int:
    if 0 in tuple(size):
        return offset
    return offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1


def split_sizes(name: str, total: int, size: Any) -> list[int]:
    """Lengths of the parts when `total` is cut into pieces of `size`, or as listed."""
    if isinstance(size, INTS):
        if size < 0 or (size == 0 and total):
            raise RuntimeError(
                f"{name}: expects split_size be non-negative (and positive unless the dimension is empty), but got"
                f" split_size={size}"
            )
        if size == 0:
            return [0]
        whole, rest = divmod(total, size)
        return [*[size] * whole, *([rest] if rest else ())] or [0]
    if sum(size) != total or any(s < 0 for s in size):
        raise RuntimeError(
            f"{name}: expected split_sizes that sum to {total}, the input's size in the dimension, got"
            f" split_sizes={list(size)}"
        )
    return list(size)


def cut(t: Any, d: int, lengths: list[int]) -> list[Geometry]:
    """Geometries of consecutive parts along `d`."""
    strides, at, result = t.stride(), 0, []
    for n in lengths:
        result.append(Geometry(_with(t.shape, d, n), strides, at * strides[d]))
        at += n
    return result


class Split(View):
    """Consecutive parts along a dimension."""

    schema = (
        "split(Tensor(a) tensor, int split_size_or_sections, int dim=0) -> Tensor[]",
        "split.sizes(Tensor(a) tensor, int[] split_size_or_sections, int dim=0) -> Tensor[]",
    )

    def geometry(self, t, size, dim):
        if t.ndim == 0:
            raise RuntimeError("split: expected a tensor with dimensions, got a 0-dimensional one")
        d = wrap_dim("split", dim, t.ndim)
        return cut(t, d, split_sizes("split", t.shape[d], size))

    def vjp(self, g, tensor: Meta, split_size_or_sections, dim):
        d = dim % len(tensor.shape)
        lengths = split_sizes("split", tensor.shape[d], split_size_or_sections)
        return {"tensor": join(g, tensor, d, lengths)}

    def inverse(self, base, new, which, size, dim):
        d = dim % base.ndim
        start = sum(split_sizes("split", base.shape[d], size)[:which])
        return base.slice_scatter(new, d, start, start + new.shape[d])


class SplitMethod(Composite):
    """`split` with the name its argument has in the method of PyTorch."""

    schema = (
        "split.method(Tensor(a) tensor, int split_size, int dim=0) -> Tensor[]",
        "split.method_sizes(Tensor(a) tensor, int[] split_size, int dim=0) -> Tensor[]",
    )
    out = False

    def compute(self, tensor, split_size, dim):
        return tensor.split(split_size, dim)


def join(grads: Any, meta: Any, d: int, lengths: list[int]) -> Any:
    """Gradients of parts put back side by side, zeros where there is none."""
    grads = grads if isinstance(grads, tuple) else (grads,)   # an op with a single part gets its gradient bare
    zeros = find_op("zeros")
    parts = [
        zeros(_with(meta.shape, d, n), dtype=meta.dtype, device=meta.device) if p is None else p
        for p, n in zip(grads, lengths, strict=True)
    ]
    return find_op("cat")(parts, d)


class SplitWithSizes(Composite):
    """Consecutive parts of the listed lengths."""

    schema = "split_with_sizes(Tensor(a) input, int[] split_sizes, int dim=0) -> Tensor[]"
    out = False

    def compute(self, input, split_sizes, dim):
        return input.split(split_sizes, dim)


class Unbind(View):
    """Every position along a dimension, as a tuple."""

    schema = "unbind(Tensor(a) input, int dim=0) -> Tensor[]"

    def geometry(self, t, dim):
        if t.ndim == 0:
            raise IndexError("unbind: expected a tensor with dimensions, got one with 0")
        d = wrap_dim("unbind", dim, t.ndim)
        strides = t.stride()
        sizes, rest = (*t.shape[:d], *t.shape[d + 1 :]), (*strides[:d], *strides[d + 1 :])
        return [Geometry(sizes, rest, i * strides[d]) for i in range(t.shape[d])]

    def vjp(self, g, input: Meta, dim):
        d = dim % len(input.shape)
        lengths = [1] * input.shape[d]
        parts = g if isinstance(g, tuple) else (g,)
        return {"input": join(tuple(None if p is None else p.unsqueeze(d) for p in parts), input, d, lengths)}

    def inverse(self, base, new, which, dim):
        return base.select_scatter(new, dim, which)


def resolved(input: Any) -> Any:
    """`input`, or a copy of what it shows: these ops hand memory on, and PyTorch's no bits that say how to read it."""
    return input.resolve_conj().resolve_neg()


class UnsafeSplit(Composite):
    """`split`, promising not to write to the parts: they share memory with the input and are not its views."""

    schema = "unsafe_split(Tensor input, int split_size, int dim=0) -> Tensor[]"
    out = False
    views = "hide"

    def compute(self, input, split_size, dim):
        return resolved(input).split(split_size, dim)


class UnsafeSplitWithSizes(Composite):
    """`split_with_sizes`, promising not to write to the parts."""

    schema = "unsafe_split_with_sizes(Tensor input, int[] split_sizes, int dim=0) -> Tensor[]"
    out = False
    views = "hide"

    def compute(self, input, split_sizes, dim):
        return resolved(input).split(split_sizes, dim)


class UnsafeChunk(Composite):
    """`chunk`, promising not to write to the parts."""

    schema = "unsafe_chunk(Tensor input, int chunks, int dim=0) -> Tensor[]"
    out = False
    views = "hide"

    def compute(self, input, chunks, dim):
        return resolved(input).chunk(chunks, dim)


class Chunk(Composite):
    """At most `chunks` consecutive parts of equal length (the last may be shorter)."""

    schema = "chunk(Tensor(a) input, int chunks, int dim=0) -> Tensor[]"
    out = False

    def compute(self, input, chunks, dim):
        if input.ndim == 0:
            raise RuntimeError("chunk: expected a tensor with dimensions, got a 0-dimensional one")
        if chunks <= 0:
            raise RuntimeError(f"chunk: expected chunks above 0, got {chunks}")
        total = input.shape[wrap_dim("chunk", dim, input.ndim)]
        length = (total + chunks - 1) // chunks
        if length == 0:
            return input.split([0] * chunks, dim)
        return input.split(length, dim)


class TensorSplit(Composite):
    """Parts of nearly equal length, or cut at the listed positions."""

    schema = (
        "tensor_split(Tensor(a) input, int sections, int dim=0) -> Tensor[]",
        "tensor_split.indices(Tensor(a) input, int[] indices, int dim=0) -> Tensor[]",
        "tensor_split.tensor(Tensor(a) input, Tensor tensor_indices_or_sections, int dim=0) -> Tensor[]",
    )
    out = False

    def compute(self, input, at, dim):
        if input.ndim == 0:
            raise RuntimeError("tensor_split: expected a tensor with dimensions, got 0 dims")
        d = wrap_dim("tensor_split", dim, input.ndim)
        if hasattr(at, "tolist"):
            if at.dtype is not _C.int64:
                raise RuntimeError(
                    f"tensor_split: expected tensor_indices_or_sections of dtype int64 (long), got {at.dtype.name}"
                )
            if at.ndim > 1:
                raise RuntimeError(
                    f"tensor_split: expected tensor_indices_or_sections with 0 or 1 dimensions, got {at.ndim}"
                )
            at = [at[i].item() for i in range(at.shape[0])] if at.ndim and at.is_meta and at._keys else at.tolist()
        total = input.shape[d]
        if isinstance(at, INTS):
            if at <= 0:
                raise RuntimeError(f"tensor_split: expected sections above 0, got {at}")
            if at > 2**31:
                raise RuntimeError(f"tensor_split: {at} sections are too many")
            small, extra = divmod(total, at)
            return input.split([small + 1 if i < extra else small for i in range(at)], d)
        if any(map(is_hidden, at)):
            return cut_unseen(input, d, at, total)
        bounds = [slice(None, p).indices(total)[1] for p in at]
        starts, ends = [0, *bounds], [*bounds, total]
        return tuple(input.narrow(d, min(s, total), max(0, e - s)) for s, e in zip(starts, ends, strict=True))


def cut_unseen(input: Any, dim: int, at: list[Any], total: Any) -> tuple[Any, ...]:
    """Parts cut at positions that only elements can tell: they are taken to be in order and inside,
    which a traced graph checks."""
    starts, ends = [0, *at], [*at, total]
    for low, high in (*zip(starts, ends, strict=True), *((p, total) for p in at[:-1])):
        if is_hidden(low) or is_hidden(high):
            holds(low <= high)
    return tuple(input.narrow(dim, start, end - start) for start, end in zip(starts, ends, strict=True))


class HSplit(Composite):
    """tensor_split along the second dimension (the first of a vector)."""

    schema = (
        "hsplit(Tensor(a) input, int sections) -> Tensor[]",
        "hsplit.indices(Tensor(a) input, int[] indices) -> Tensor[]",
    )
    out = False

    def compute(self, input, at):
        if input.ndim < 1:
            raise RuntimeError(f"hsplit: expected at least 1 dimension, got {input.ndim}")
        return even_split("hsplit", input, at, 0 if input.ndim == 1 else 1)


class VSplit(Composite):
    """tensor_split along the first dimension."""

    schema = (
        "vsplit(Tensor(a) input, int sections) -> Tensor[]",
        "vsplit.indices(Tensor(a) input, int[] indices) -> Tensor[]",
    )
    out = False

    def compute(self, input, at):
        if input.ndim < 2:
            raise RuntimeError(f"vsplit: expected at least 2 dimensions, got {input.ndim}")
        return even_split("vsplit", input, at, 0)


class DSplit(Composite):
    """tensor_split along the third dimension."""

    schema = (
        "dsplit(Tensor(a) input, int sections) -> Tensor[]",
        "dsplit.indices(Tensor(a) input, int[] indices) -> Tensor[]",
    )
    out = False

    def compute(self, input, at):
        if input.ndim < 3:
            raise RuntimeError(f"dsplit: expected at least 3 dimensions, got {input.ndim}")
        return even_split("dsplit", input, at, 2)


def even_split(name: str, input: Any, at: Any, dim: int) -> tuple:
    """Parts for hsplit and kin: a number of sections must divide the size."""
    if isinstance(at, INTS) and (at <= 0 or input.shape[dim] % at):
        raise RuntimeError(f"{name}: expected the size {input.shape[dim]} of dimension {dim} to be divisible by {at}")
    return input.tensor_split(at, dim)
