"""Tensors put together: cat, stack and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.base.promotion import result_type_of
from rushlight.base.shape import holds, surely
from rushlight.definitions.reduction.restore import as_dtype
from rushlight.loops.expr import cast, const, eq, lt, max_, min_, select
from rushlight.loops.lowered import ONE, ZERO, At, Lowered, Memory, Piece
from rushlight.op import Composite, Loops, Meta, find_op, wrap_dim
from rushlight.op.layout import ordered_strides, prefers_channels_last
from rushlight.op.pointwise import check_devices


def joined_dtype(tensors: Sequence[Any]) -> Any:
    """The common dtype, found cheaply where all agree."""
    first = tensors[0].dtype
    return first if all(t.dtype is first for t in tensors) else result_type_of(tensors)


class Cat(Loops):
    """Tensors one after another along `dim`. Empty 1-D tensors are skipped."""

    schema = "cat(Tensor[] tensors, int dim=0) -> Tensor"
    aliases = ("concat", "concatenate")
    method = False
    own_out = True
    batch = "dim"
    joins = "along"

    def settled(self, args: tuple) -> tuple[list[tuple[int, Any]], int, Any, list[int]]:
        """The tensors that add something, with their numbers; the dim, the dtype and the result's shape.
        Raises for what the op refuses."""
        tensors, dim = args
        if not tensors:
            raise ValueError("cat(): expected a non-empty list of Tensors")
        check_devices("cat", tuple(tensors))
        real = [(k, t) for k, t in enumerate(tensors) if not is_skipped(t)]
        model = real[0][1] if real else tensors[0]
        for k, t in enumerate(tensors):
            if t.ndim == 0:
                raise RuntimeError(f"cat: expected tensors with dimensions, got a zero-dimensional one at position {k}")
        dim = wrap_dim("cat", dim, model.ndim)
        for k, t in real:
            if t.ndim != model.ndim:
                raise RuntimeError(f"cat: expected one number of dimensions, got {model.ndim} and {t.ndim}")
            for d in range(t.ndim):
                if d != dim and not holds(t.shape[d] == model.shape[d]):
                    raise RuntimeError(
                        f"cat: sizes must match except in dimension {dim}: expected {model.shape[d]} in dimension {d},"
                        f" got {t.shape[d]} in tensor number {k}."
                    )
        shape = list(model.shape)
        shape[dim] = sum(t.shape[dim] for _, t in real)
        return real, dim, joined_dtype(tensors), shape

    def lower(self, args):
        real, dim, dtype, shape = self.settled(args)
        tensors = args[0]
        order = slowest_first(tensors)
        reads = tuple([Memory(f"tensors{k}", t.dtype.code, tuple(t.shape), t.stride()) for k, t in enumerate(tensors)])
        pieces, start = [], 0
        for k, t in real:
            pieces.append(
                Piece(
                    k, tuple([start if d == dim else 0 for d in range(len(shape))]), tuple(t.shape), tuple(t.stride())
                )
            )
            start = start + t.shape[dim]
        used = [k for k, t in real if not surely(t.shape[dim] == 0)]     # sizes that elements decide may be anything

        def body(at: At, sources: Any) -> tuple:
            starts, end, joined = [], ZERO, [sources[k] for k in used]
            for source in joined:
                starts.append(end)
                end = end + source.shape[dim]
            value = None
            # every piece is read, so at places it has
            for source, start in zip(reversed(joined), reversed(starts), strict=True):
                place = max_(min_(at[dim] - start, source.shape[dim] - ONE), ZERO)
                own = cast(source[at.replace(dim, place)], dtype.code)
                value = own if value is None else select(lt(at[dim], start + source.shape[dim]), own, value)
            return (value,)

        return Lowered(
            "cat", ("cat", dim, tuple(used)), tuple(shape), tuple(shape), (dtype.code,), reads, body, aligned=False,
            pieces=tuple(pieces), layout=None if order is None else ordered_strides(shape, order[::-1]),
        )

    def vjp(self, g, tensors: Meta, dim):
        real = [t for t in tensors if not is_skipped(t)]
        dim = dim + max(len(t.shape) for t in tensors) if dim < 0 else dim
        grads, start = [], 0
        for t in tensors:
            if real and is_skipped(t) and len(real[0].shape) != 1:
                grads.append(g.new_zeros(t.shape))
                continue
            part = g.narrow(dim, start, t.shape[dim])
            grads.append(as_dtype(part, t.dtype))
            start += t.shape[dim]
        return {"tensors": grads}


def slowest_first(tensors: Sequence[Any]) -> tuple[int, ...] | None:
    """The order of the result's dims where every tensor has its channels last, skipped ones too;
    None for the order they are in."""
    rank = tensors[0].ndim
    if rank not in (4, 5) or not all(t.ndim == rank and prefers_channels_last(t) for t in tensors):
        return None
    return (0, *range(2, rank), 1)


def stacked_strides(tensors: Sequence[Any], dim: int) -> tuple[int, ...] | None:
    """Strides of the result where the tensors have channels last: as `cat` lays them out, with its dim split in two."""
    order, model = slowest_first(tensors), tensors[0]
    if order is None or dim == model.ndim:
        return None
    joined = [n * len(tensors) if d == dim else n for d, n in enumerate(model.shape)]
    strides = ordered_strides(joined, order[::-1])
    return (*strides[:dim], strides[dim] * model.shape[dim], *strides[dim:])


def is_skipped(t: Any) -> bool:
    """An empty 1-D tensor joins anything, adding nothing."""
    return len(t.shape) == 1 and t.shape[0] == 0


class Stack(Loops):
    """Tensors of one shape along a new dim."""

    schema = "stack(Tensor[] tensors, int dim=0) -> Tensor"
    method = False
    own_out = True
    batch = "new dim"
    joins = "anew"

    def settled(self, args: tuple) -> tuple[int, Any, tuple[int, ...]]:
        """The new dim, the dtype and the shape; raises for what the op refuses."""
        tensors, dim = args
        if not tensors:
            raise RuntimeError("stack expects a non-empty TensorList")
        check_devices("stack", tuple(tensors))
        model = tensors[0]
        dim = wrap_dim("stack", dim, model.ndim + 1)
        for k, t in enumerate(tensors):
            if t.shape != model.shape:
                raise RuntimeError(
                    f"stack: expected tensors of equal size, got {list(model.shape)} at entry 0 and {list(t.shape)} at"
                    f" entry {k}"
                )
        return dim, joined_dtype(tensors), (*model.shape[:dim], len(tensors), *model.shape[dim:])

    def lower(self, args):
        dim, dtype, shape = self.settled(args)
        reads = tuple([Memory(f"tensors{k}", t.dtype.code, tuple(t.shape), t.stride()) for k, t in enumerate(args[0])])

        def body(at: At, sources: Any) -> tuple:
            place, value = (*at[:dim], *at[dim + 1 :]), None
            for k in range(len(sources) - 1, -1, -1):
                own = cast(sources[k][place], dtype.code)
                value = own if value is None else select(eq(at[dim], const(k, "i64")), own, value)
            return (value,)

        pieces = []
        for k, t in enumerate(args[0]):
            start = tuple([k if d == dim else 0 for d in range(len(shape))])
            pieces.append(
                Piece(k, start, (*shape[:dim], 1, *shape[dim + 1 :]), (*t.stride()[:dim], 0, *t.stride()[dim:]))
            )
        return Lowered(
            "stack", ("stack", dim), shape, shape, (dtype.code,), reads, body, aligned=False, pieces=tuple(pieces),
            layout=stacked_strides(args[0], dim),
        )

    def vjp(self, g, tensors: Meta, dim):
        grads = []
        for k, t in enumerate(tensors):
            part = g.select(dim, k)
            grads.append(as_dtype(part, t.dtype))
        return {"tensors": grads}


def check_some(name: str, tensors: Sequence[Any]) -> None:
    """There is nothing to stack in an empty list."""
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty list of Tensors")


class HStack(Composite):
    """Tensors side by side: along dim 1, or dim 0 for vectors."""

    schema = "hstack(Tensor[] tensors) -> Tensor"
    replays = True
    method = False
    own_out = True

    def compute(self, tensors):
        check_some("hstack", tensors)
        tensors = [find_op("atleast_1d")(t) for t in tensors]
        return find_op("cat")(tensors, 0 if tensors and tensors[0].ndim == 1 else 1)


class VStack(Composite):
    """Tensors as rows, one above another."""

    schema = "vstack(Tensor[] tensors) -> Tensor"
    replays = True
    aliases = ("row_stack",)
    method = False
    own_out = True

    def compute(self, tensors):
        check_some("vstack", tensors)
        return find_op("cat")([find_op("atleast_2d")(t) for t in tensors], 0)


class DStack(Composite):
    """Tensors along the third dim."""

    schema = "dstack(Tensor[] tensors) -> Tensor"
    replays = True
    method = False
    own_out = True

    def compute(self, tensors):
        check_some("dstack", tensors)
        return find_op("cat")([find_op("atleast_3d")(t) for t in tensors], 2)


class ColumnStack(Composite):
    """Vectors as the columns of a matrix; matrices side by side."""

    schema = "column_stack(Tensor[] tensors) -> Tensor"
    replays = True
    method = False
    own_out = True

    def compute(self, tensors):
        return find_op("cat")([t.reshape(t.numel(), 1) if t.ndim <= 1 else t for t in tensors], 1)
