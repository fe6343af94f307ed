"""Tensors put together: cat, stack and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight.base.promotion import result_type_of
from rushlight.loops.expr import cast, const, eq, load, lt, max_, min_, select, var
from rushlight.loops.lowered import ONE, At, Lowered, Memory
from rushlight.loops.nest import For, Nest, Store, operands, rows
from rushlight.op import Composite, Meta, find_op, wrap_dim
from rushlight.op.definition import KIND_PLANNED, OpDefinition
from rushlight.op.indexed import ZERO, contiguous_strides, copy_steps
from rushlight.op.pointwise import check_devices, compile_for, device_of
from rushlight.op.reduction import GRAIN, as_step, product
from rushlight.ops.copy import ordered_strides, prefers_channels_last
from rushlight.ops.reduction.restore import as_dtype

MOST_JOINED = 8          # tensors one kernel reads side by side
JOINED_FROM = 1 << 16    # elements from which on a kernel of its own pays
SMALLEST_PIECE = 1 << 10   # elements; smaller pieces are not worth cutting
_join_kernels: dict[tuple, Any] = {}


def joined_dtype(tensors: Sequence[Any]) -> Any:
    """The common dtype, found cheaply where all agree."""
    first = tensors[0].dtype
    return first if all(t.dtype is first for t in tensors) else result_type_of(tensors)


class Cat(OpDefinition):
    """Tensors one after another along `dim`. Empty 1-D tensors are skipped."""

    schema = "cat(Tensor[] tensors, int dim=0) -> Tensor"
    aliases = ("concat", "concatenate")
    method = False
    own_out = True
    kind = KIND_PLANNED
    batch = "dim"

    def settled(self, args: tuple) -> tuple[list[tuple[int, Any]], int, Any, list[int]]:
        """The tensors that add something, with their numbers; the dim, the dtype and the result's shape. Raises for what the op refuses."""
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
                if d != dim and t.shape[d] != model.shape[d]:
                    raise RuntimeError(
                        f"cat: sizes must match except in dimension {dim}: expected {model.shape[d]} in dimension {d}, got "
                        f"{t.shape[d]} in tensor number {k}."
                    )
        shape = list(model.shape)
        shape[dim] = sum(t.shape[dim] for _, t in real)
        return real, dim, joined_dtype(tensors), shape

    def lower(self, args):
        real, dim, dtype, shape = self.settled(args)
        pieces = [t for _, t in real if t.shape[dim] != 0]
        reads = tuple([Memory(f"tensors{k}", t.dtype.code, tuple(t.shape), t.stride()) for k, t in enumerate(pieces)])

        def body(at: At, sources: Any) -> tuple:
            starts, end = [], ZERO
            for source in sources:
                starts.append(end)
                end = end + source.shape[dim]
            value = None
            for source, start in zip(reversed(sources), reversed(starts), strict=True):   # every piece is read, so at places it has
                place = max_(min_(at[dim] - start, source.shape[dim] - ONE), ZERO)
                own = cast(source[at.replace(dim, place)], dtype.code)
                value = own if value is None else select(lt(at[dim], start + source.shape[dim]), own, value)
            return (value,)

        return Lowered("cat", ("cat", dim), tuple(shape), tuple(shape), (dtype.code,), reads, body, aligned=False)

    def plan(self, args):
        real, dim, dtype, shape = self.settled(args)
        tensors, device = args[0], device_of(args)
        order = slowest_first(tensors)
        given = None if order is None else ordered_strides(shape, order[::-1])
        strides, new = given or contiguous_strides(shape), ("new", dtype, tuple(shape), given, 0, 0)
        steps, start, inputs = [], 0, len(tensors)
        order = order or range(len(shape))
        if side_by_side(real, order.index(dim), dtype, device, given is not None):
            return _C.Plan(inputs, device, [new], [joined_rows(real, dim, order, inputs, shape, dtype, device)])
        for k, t in real if device.type != "meta" else ():
            steps += copy_steps(device, t, k, (inputs, start * strides[dim] * dtype.itemsize), strides, dtype)
            start += t.shape[dim]
        return _C.Plan(inputs, device, [new], steps)

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
    """The order of the result's dims where every tensor has its channels last, skipped ones too; None for the order they are in."""
    rank = tensors[0].ndim
    if rank not in (4, 5) or not all(t.ndim == rank and prefers_channels_last(t) for t in tensors):
        return None
    return (0, *range(2, rank), 1)


def side_by_side(real: Sequence[tuple[int, Any]], place: int, dtype: Any, device: Any, channels: bool) -> bool:
    """Whether rows of the result are rows of the tensors one after another, worth writing in one go: memory then sees one
    stream of writes instead of one per tensor. `place` is that of the dim in the order of memory, `channels` whether those are last."""
    if not place or device.type != "cpu" or not 2 <= len(real) <= MOST_JOINED:
        return False
    return all(t.dtype is dtype and (t._is_channels_last() if channels else t._is_contiguous()) and t.numel() for _, t in real) and sum(t.numel() for _, t in real) >= JOINED_FROM


def joined_rows(real: Sequence[tuple[int, Any]], dim: int, order: Sequence[int], inputs: int, shape: Sequence[int], dtype: Any, device: Any) -> tuple:
    """The step that writes the result row by row."""
    key = (dtype.code, len(real), device.type)
    kernel = _join_kernels.get(key)
    if kernel is None:
        kernel = _join_kernels[key] = as_step(compile_for(device, join_nest(dtype.code, len(real))))
    place = order.index(dim)
    lengths = [product(t.shape[d] for d in order[place:]) for _, t in real]
    width = sum(lengths)
    return (kernel, [*(k for k, _ in real), inputs], [width, *lengths], product(shape[d] for d in order[:place]), max(1, GRAIN // width), -1)


def join_nest(code: str, count: int) -> Nest:
    """Row i of the result: row i of every operand, end to end."""
    i, start, body = var("i"), var("i") * var("width"), []
    for k in range(count):
        j, length = var(f"j{k}"), var(f"n{k}")
        body.append(For(j.attr, ZERO, length, (Store(count, start + j, load(k, i * length + j, code)),), vector=True))
        start = start + length
    return Nest("join", operands([code] * count, [code]), ("width", *(f"n{k}" for k in range(count))), rows(*body))


def chunks_of(tensors: Sequence[Any], dtype: Any, device: Any) -> int:
    """Into how many equal pieces to cut tensors that are put one after another whole; 1 where one copy each serves as well.

    A copy shared by the threads costs them a meeting: for many tensors of a few pages each, as images are, that shows.
    One piece for each thread measured best; smaller ones are slower.
    """
    size = tensors[0].numel()
    if device.type != "cpu" or len(tensors) < 4 or size * len(tensors) < JOINED_FROM or not all(t.dtype is dtype and t._is_contiguous() for t in tensors):
        return 1
    return next((count for count in range(_C.get_num_threads(), 1, -1) if size % count == 0 and size // count >= SMALLEST_PIECE), 1)


def stacked_steps(tensors: Sequence[Any], chunks: int, dtype: Any, device: Any) -> list[tuple]:
    """Steps that write tensors of one size one after another, some of them at a time, each cut into `chunks` pieces."""
    size, inputs, steps = tensors[0].numel(), len(tensors), []
    for first in range(0, inputs, MOST_JOINED):
        count = min(MOST_JOINED, inputs - first)
        key = (dtype.code, -count, device.type)
        kernel = _join_kernels.get(key)
        if kernel is None:
            kernel = _join_kernels[key] = as_step(compile_for(device, stack_nest(dtype.code, count)))
        target = (inputs, first * size * dtype.itemsize)
        steps.append((kernel, [*range(first, first + count), target], [size, size // chunks], chunks, 1, -1))
    return steps


def stack_nest(code: str, count: int) -> Nest:
    """Piece i of every operand, to its place in that operand's part of the result."""
    i, size, piece, body = var("i"), var("size"), var("piece"), []
    for k in range(count):
        j = var(f"j{k}")
        body.append(For(j.attr, ZERO, piece, (Store(count, size * k + i * piece + j, load(k, i * piece + j, code)),), vector=True))
    return Nest("stack", operands([code] * count, [code]), ("size", "piece"), rows(*body))


def is_skipped(t: Any) -> bool:
    """An empty 1-D tensor joins anything, adding nothing."""
    return len(t.shape) == 1 and t.shape[0] == 0


class Stack(OpDefinition):
    """Tensors of one shape along a new dim."""

    schema = "stack(Tensor[] tensors, int dim=0) -> Tensor"
    method = False
    own_out = True
    kind = KIND_PLANNED
    batch = "new dim"

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
                raise RuntimeError(f"stack: expected tensors of equal size, got {list(model.shape)} at entry 0 and {list(t.shape)} at entry {k}")
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

        return Lowered("stack", ("stack", dim), shape, shape, (dtype.code,), reads, body, aligned=False)

    def plan(self, args):
        dim, dtype, shape = self.settled(args)
        tensors, device, inputs = args[0], device_of(args), len(args[0])
        strides = contiguous_strides(shape)
        inside = (*strides[:dim], *strides[dim + 1 :])
        chunks = chunks_of(tensors, dtype, device) if product(shape[:dim]) == 1 else 1
        steps = stacked_steps(tensors, chunks, dtype, device) if chunks > 1 else []
        for k, t in enumerate(tensors) if device.type != "meta" and not steps else ():
            steps += copy_steps(device, t, k, (inputs, k * strides[dim] * dtype.itemsize), inside, dtype)
        return _C.Plan(inputs, device, [("new", dtype, shape, None, 0, 0)], steps)

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
    method = False
    own_out = True

    def compute(self, tensors):
        check_some("hstack", tensors)
        tensors = [find_op("atleast_1d")(t) for t in tensors]
        return find_op("cat")(tensors, 0 if tensors and tensors[0].ndim == 1 else 1)


class VStack(Composite):
    """Tensors as rows, one above another."""

    schema = "vstack(Tensor[] tensors) -> Tensor"
    aliases = ("row_stack",)
    method = False
    own_out = True

    def compute(self, tensors):
        check_some("vstack", tensors)
        return find_op("cat")([find_op("atleast_2d")(t) for t in tensors], 0)


class DStack(Composite):
    """Tensors along the third dim."""

    schema = "dstack(Tensor[] tensors) -> Tensor"
    method = False
    own_out = True

    def compute(self, tensors):
        check_some("dstack", tensors)
        return find_op("cat")([find_op("atleast_3d")(t) for t in tensors], 2)


class ColumnStack(Composite):
    """Vectors as the columns of a matrix; matrices side by side."""

    schema = "column_stack(Tensor[] tensors) -> Tensor"
    method = False
    own_out = True

    def compute(self, tensors):
        return find_op("cat")([t.reshape(t.numel(), 1) if t.ndim <= 1 else t for t in tensors], 1)
