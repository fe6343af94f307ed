"""Elements picked by index tensors: gather, index_select, take and advanced indexing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight.base.shape import holds
from rushlight.loops.expr import cast, const, idiv, irem
from rushlight.op import Composite, Meta, Spec, find_op, wrap_dim
from rushlight.op.indexed import Indexed
from rushlight.op.layout import by_stride, ordered_strides

INDEX_TYPES = (_C.int64, _C.int32)
LONG_ONLY = {
    "index_copy": RuntimeError,
    "index_fill": IndexError,
    "take": RuntimeError,
    "put_": RuntimeError,
    "take_along_dim": RuntimeError,
}
ONE = const(1, "i64")


def check_index_dtype(name: str, index: Any) -> None:
    """int64 and int32 are the types of indices; some ops take int64 alone."""
    if name in LONG_ONLY and index.dtype is not _C.int64:
        raise LONG_ONLY[name](
            f"{name}: expected an index of dtype int64, got {index.dtype.name}. Convert it with .long()."
        )
    if index.dtype not in INDEX_TYPES:
        raise RuntimeError(f"{name}: expected an index of dtype int64 or int32, got {index.dtype.name}")


def with_dims(t: Any) -> Any:
    """A 0-d tensor seen as one of one element."""
    return t if t.ndim else t.unsqueeze(0)


class Gather(Indexed):
    """out[i][j] = input[index[i][j]][j], for dim 0 of two, and so on."""

    schema = "gather(Tensor input, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"
    own_out = ("input",)
    exact_out = True

    def prepare(self, args):
        input, dim, index, _ = args
        dim = wrap_dim(self.name, dim, input.ndim)
        if index.numel():
            check_index_dtype("gather", index)
            check_index_fits("gather", input, index, dim, "self")
        return (with_dims(input), dim, index, False)

    def meta(self, input, dim, index, sparse_grad):
        return Spec(tuple(index.shape), input.dtype)

    def loops(self, at, input, dim, index, sparse_grad):
        picked = at.bounded(index[tuple(at)], input.shape[dim], dim, negative=False)
        return input[at.at_least(1).replace(dim, picked)]

    def index_error(self, index, dim, args):
        return RuntimeError(
            f"gather(): index {index} is out of bounds for dimension {dim} with size {args[0].shape[dim]}"
        )

    def vjp(self, g, input: Meta, dim, index):
        return {"input": g.new_zeros(input.shape).scatter_add(dim, index, g)}


def check_index_fits(name: str, input: Any, index: Any, dim: int, what: str) -> None:
    """Same rank, and no larger than `input` apart from `dim`."""
    if max(index.ndim, 1) != max(input.ndim, 1):
        raise RuntimeError(
            f"{name}: expected an index with as many dimensions as {what}, got {index.ndim} and {input.ndim}"
        )
    for d in range(index.ndim if input.ndim else 0):
        if d != dim and not holds(index.shape[d] <= input.shape[d]):
            raise RuntimeError(
                f"{name}(): Size does not match at dimension {d} expected index {list(index.shape)} to be no larger"
                f" than {what} {list(input.shape)} apart from dimension {dim}"
            )


class TakeAlongDim(Composite):
    """Elements of `input` picked by `indices` along `dim`, both broadcast against each other elsewhere."""

    schema = "take_along_dim(Tensor input, Tensor indices, int? dim=None) -> Tensor"

    def compute(self, input, indices, dim):
        check_index_dtype("take_along_dim", indices)
        if dim is None:
            return input.reshape(-1).gather(0, from_front(indices.reshape(-1), input.numel()))
        if input.ndim != indices.ndim:
            raise RuntimeError(
                f"take_along_dim: expected indices with as many dimensions as input, got {input.ndim} for "
                f"input and {indices.ndim} for indices"
            )
        dim = wrap_dim("take_along_dim", dim, input.ndim)
        common = broadcast_shapes([[1 if d == dim else n for d, n in enumerate(t.shape)] for t in (input, indices)])
        sizes = [[t.shape[dim] if d == dim else n for d, n in enumerate(common)] for t in (input, indices)]
        return input.expand(sizes[0]).gather(dim, from_front(indices, input.shape[dim]).expand(sizes[1]))


def from_front(indices: Any, size: int) -> Any:
    """Indices counted from the front; negative ones count from the end."""
    return indices.where(indices >= 0, indices + size)


def broadcast_shapes(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The common shape; IndexError where there is none."""
    ndim = max((len(s) for s in shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for k, n in enumerate(shape):
            at = ndim - len(shape) + k
            if result[at] == 1:
                result[at] = n
            elif n not in (1, result[at]):
                raise IndexError(
                    "shape mismatch: the index tensors do not broadcast: shapes"
                    f" {', '.join(str(list(s)) for s in shapes)}"
                )
    return tuple(result)


class IndexSelect(Indexed):
    """Slices of `input` along `dim`, in the order given by the 1-D `index`."""

    schema = "index_select(Tensor input, int dim, Tensor index) -> Tensor"
    own_out = True

    def prepare(self, args):
        input, dim, index = args
        check_index_dtype("index_select", index)
        if index.ndim > 1:
            raise IndexError(f"index_select: expected a vector as index, got shape {list(index.shape)}")
        return (input, wrap_dim(self.name, dim, input.ndim), with_dims(index))

    def meta(self, input, dim, index):
        if not input.ndim:
            if index.shape[0] != 1:
                raise RuntimeError("index_select: a scalar input takes an index of 1 value, got more")
            return Spec((), input.dtype)
        return Spec((*input.shape[:dim], index.shape[0], *input.shape[dim + 1 :]), input.dtype)

    def loops(self, at, input, dim, index):
        full = at.at_least(1)
        size = input.shape[dim] if input.ndim else ONE
        picked = at.bounded(index[full[dim]], size, dim, negative=False)
        return input[full.replace(dim, picked)] if input.ndim else input[()]

    def index_error(self, index, dim, args):
        size = args[0].shape[dim] if args[0].ndim else 1
        return IndexError(
            f"index_select(): index out of range in self: index {index} is out of bounds for dimension {dim} with size"
            f" {size}"
        )

    def vjp(self, g, input: Meta, dim, index):
        if not input.ndim:
            return {"input": g}
        return {"input": g.new_zeros(input.shape).index_add(dim, index, g)}


class Take(Indexed):
    """Elements of the flattened input, in the shape of `index`."""

    schema = "take(Tensor input, Tensor index) -> Tensor"
    own_out = True

    def prepare(self, args):
        check_index_dtype("take", args[1])
        if args[1].numel() and not args[0].numel():
            raise IndexError("take: the input is empty, so no index is valid")
        return args

    def meta(self, input, index):
        return Spec(tuple(index.shape), input.dtype)

    def loops(self, at, input, index):
        return input[flat_position(at, index[tuple(at)], input)]

    def index_error(self, index, dim, args):
        return IndexError(f"take: index {index} is out of range for a tensor of {number_of(args[0].shape)} elements.")

    def vjp(self, g, input: Meta, index):
        return {"input": g.new_zeros(input.shape).put(index, g, True)}


def number_of(shape: Sequence[int]) -> int:
    """How many elements a shape has."""
    count = 1
    for n in shape:
        count *= n
    return count


def flat_position(at: Any, index: Any, t: Any) -> tuple:
    """Position in `t` of its flattened element `index`, checked."""
    size = ONE
    for n in t.shape:
        size = size * n
    rest = at.bounded(cast(index, "i64"), size)
    position = []
    for n in reversed(t.shape[1:]):
        position.append(irem(rest, n))
        rest = idiv(rest, n)
    return (*([rest] if t.shape else []), *reversed(position))   # what is left is below the first size


# --- advanced indexing ------------------------------------------------------------------------------------------------


def is_mask(index: Any) -> bool:
    """Whether an index names elements by truths."""
    return index is not None and index.dtype in (_C.bool, _C.uint8)


def index_tensors(name: str, input: Any, indices: Sequence[Any]) -> list[Any]:
    """Masks turned into index tensors; IndexError for other types and for masks of another shape."""
    if len(flattened := [i for i in indices if i is not None]) == 0:
        raise IndexError(f"{name}: at least one index must be provided")
    found: list[Any] = []
    for i in indices:
        if i is None or i.dtype in INDEX_TYPES or i.dtype in (_C.int8, _C.int16):
            found.append(i)
            continue
        if i.dtype not in (_C.bool, _C.uint8):
            raise IndexError(f"index: expected tensors of dtype int64, int32, bool or uint8, got {i.dtype.name}")
        for k, n in enumerate(i.shape):
            at = len(found) + k
            if at >= input.ndim or input.shape[at] != n:
                raise IndexError(
                    f"index: the mask of shape {list(i.shape)} at index {k} does not fit dimension {at} onwards of the"
                    f" tensor of shape {list(input.shape)}"
                )
        if i.ndim == 1:
            found.append(find_op("nonzero")(i).view(-1))
        else:
            found.extend(
                find_op("nonzero")(i, as_tuple=True) if i.ndim else [find_op("nonzero")(i.unsqueeze(0)).squeeze(1)]
            )
    if len(found) > input.ndim and not (len(flattened) == 1 and flattened[0].ndim == 0):
        raise IndexError(f"too many indices for tensor of dimension {input.ndim}")
    return found


class Places:
    """Where the broadcast index dims and the untouched dims of advanced indexing go."""

    def __init__(self, ndim: int, indices: Sequence[Any], common: int) -> None:
        self.indexed = [d for d, i in enumerate(indices) if i is not None]
        self.rest = [d for d in range(ndim) if d not in self.indexed]
        together = self.indexed[-1] - self.indexed[0] + 1 == len(self.indexed)
        self.first = self.indexed[0] if together else 0
        self.common = common

    def split(self, at: Sequence[Any]) -> tuple[list[Any], dict[int, Any]]:
        """(position among the indices, position by untouched dim) of an output position."""
        shared = list(at[self.first : self.first + self.common])
        others = [*at[: self.first], *at[self.first + self.common :]]
        return shared, dict(zip(self.rest, others, strict=True))

    def shape(self, sizes: Sequence[int], common: Sequence[int]) -> tuple[int, ...]:
        others = [sizes[d] for d in self.rest]
        return (*others[: self.first], *common, *others[self.first :])

    def strides(self, shape: Sequence[int], input: Any, indices: Sequence[Any]) -> tuple[int, ...] | None:
        """Strides of the result: untouched dims as `input` has them, the others as the indices do."""
        if input._is_contiguous() and all(i is None or i._is_contiguous() for i in indices):
            return None
        behind = len(shape) - self.first - self.common
        kept = [input.stride()[d] for d in self.rest]
        own = [*kept[: self.first], *(0,) * self.common, *kept[self.first :]]
        shown = []
        for i in indices:
            if i is not None:
                strides = [0 if n == 1 else s for n, s in zip(i.shape, i.stride(), strict=True)]
                before = len(shape) - behind - len(strides)
                shown.append([*(0,) * before, *strides, *(0,) * behind])
        order = by_stride(shape, own, *shown)
        return None if order == list(reversed(range(len(shape)))) else ordered_strides(shape, order)


def layout_of(input: Any, indices: Sequence[Any]) -> tuple[Places, tuple[int, ...]]:
    """The layout, and the indices' common shape."""
    common = broadcast_shapes([tuple(i.shape) for i in indices if i is not None])
    return Places(input.ndim, indices, len(common)), common


def index_position(at: Any, input: Any, indices: Sequence[Any]) -> tuple:
    """The input position that output position `at` shows."""
    common = max(i.ndim for i in indices if i is not None)
    shared, position = Places(input.ndim, indices, common).split(at)
    for d, i in enumerate(indices):
        if i is not None:
            position[d] = at.bounded(cast(i.broadcast(shared), "i64"), input.shape[d], d)
    return tuple(position[d] for d in range(input.ndim))


def leading_mask(input: Any, indices: Sequence[Any]) -> Any:
    """The one mask that indices consist of, if it covers leading dims of `input` exactly; else None."""
    mask = indices[0] if indices else None
    if mask is None or mask.dtype is not _C.bool or any(i is not None for i in indices[1:]) or not mask.ndim:
        return None
    return mask if tuple(mask.shape) == tuple(input.shape[: mask.ndim]) else None


def flat_shape(input: Any, mask: Any) -> tuple[int, ...]:
    """The input's shape with the masked dims as one."""
    return (mask.numel(), *input.shape[mask.ndim :])


class Index(Indexed):
    """`input[indices]` with an index tensor, a mask or None per dim."""

    schema = "index(Tensor input, Tensor?[] indices) -> Tensor"
    own_out = True
    function = method = False

    def is_planned(self, args):
        input, indices = args      # indices from the host serve any device: moved there below
        return not any(i is not None and i.device != input.device and i.device.type == "cpu" for i in indices)

    def prepare(self, args):
        input, indices = args
        if any(map(is_mask, indices)):
            return None
        indices = index_tensors("index", input, indices)
        indices += [None] * (input.ndim - len(indices))
        return (input, indices)

    def run(self, input, indices):
        mask = leading_mask(input, indices)
        if mask is not None and _C.view_strides(input, flat := flat_shape(input, mask)) is not None:
            places = find_op("nonzero")(mask.reshape(-1)).view(-1)
            return input.view(flat).index_select(0, places.to(input.device))
        found = [None if i is None else i.to(input.device) for i in index_tensors("index", input, indices)]
        if not input.ndim and len(found) == 1:   # a 0-d mask over a 0-d tensor
            return input.unsqueeze(0).index_select(0, found[0])
        return find_op("index")(input, found)

    def meta(self, input, indices):
        layout, common = layout_of(input, indices)
        if 0 not in common and any(input.shape[d] == 0 for d in layout.indexed):
            d = next(d for d in layout.indexed if input.shape[d] == 0)
            raise IndexError(f"index is out of bounds for dimension {d} with size 0")
        shape = layout.shape(input.shape, common)
        return Spec(shape, input.dtype, layout.strides(shape, input, indices))

    def loops(self, at, input, indices):
        return input[index_position(at, input, indices)]

    def index_error(self, index, dim, args):
        return IndexError(f"index {index} is out of bounds for dimension {dim} with size {args[0].shape[dim]}")

    def vjp(self, g, input: Meta, indices):
        return {"input": find_op("_index_put_new")(g.new_zeros(input.shape), indices, g, True)}
