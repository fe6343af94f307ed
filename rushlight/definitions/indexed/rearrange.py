"""Elements moved by arithmetic on positions: flip, roll, repeat, tril, triu, diagonals."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.base.shape import INTS, contiguous_format, or_one
from rushlight.devices import handlers
from rushlight.loops.expr import Value, const, eq, ge, le, lt, select
from rushlight.loops.lowered import At, Lowered, Memory, Number, Piece
from rushlight.op import Composite, Loops, Spec, find_op, wrap_dim, wrap_dims
from rushlight.op.definition import OpDefinition
from rushlight.op.factory import fresh
from rushlight.op.indexed import Indexed, contiguous_strides
from rushlight.op.layout import Layout, strides_in
from rushlight.op.memory import check_memory
from rushlight.op.view import elements

ZERO, ONE = const(0, "i64"), const(1, "i64")


class Flip(Loops):
    """The elements in reverse order along `dims`: a copy that writes backwards."""

    batch = "dim"
    schema = "flip(Tensor input, int[] dims) -> Tensor"
    layout = Layout.INPUT

    def lower(self, args):
        input, dims = args[0], wrap_dims("flip", args[1], args[0].ndim)
        dims = frozenset(dims if input.ndim else ())

        def flipped(sizes: Any, strides: Any, offset: int) -> tuple:
            for d in dims:
                offset = offset + strides[d] * (or_one(sizes[d]) - 1)
            return tuple(sizes), tuple([-s if d in dims else s for d, s in enumerate(strides)]), offset

        sizes, strides, start = flipped(input.shape, input.stride(), 0)
        whole = Piece(0, (0,) * len(sizes), sizes, tuple(input.stride()), -start, dims)
        memory = Memory("input", input.dtype.code, sizes, strides, tuple(range(input.ndim)), start)
        return elements("flip", memory, flipped).but(pieces=(whole,), layout=strides_in(self.layout, input))

    def vjp(self, g, dims):
        return {"input": g.flip(dims)}


class FlipLR(Composite):
    """The columns in reverse order."""

    schema = "fliplr(Tensor input) -> Tensor"
    replays = True

    def compute(self, input):
        if input.ndim < 2:
            raise RuntimeError(f"Input must be >= 2-d, got {input.ndim}-d.")
        return input.flip(1)


class FlipUD(Composite):
    """The rows in reverse order."""

    schema = "flipud(Tensor input) -> Tensor"

    def compute(self, input):
        if input.ndim < 1:
            raise RuntimeError(f"Input must be >= 1-d, got {input.ndim}-d.")
        return input.flip(0)


class Rot90(Composite):
    """Turned `k` times by 90 degrees, from the first of `dims` towards the second."""

    schema = "rot90(Tensor input, int k=1, int[] dims=[0, 1]) -> Tensor"
    replays = True

    def compute(self, input, k, dims):
        if len(dims) != 2:
            raise RuntimeError(f"rot90: expected 2 dims to rotate in, got {len(dims)}")
        if input.ndim < 2:
            raise RuntimeError(f"rot90: expected an input with at least 2 dims, got {input.ndim}")
        a, b = (wrap_dim("rot90", d, input.ndim) for d in dims)
        if a == b:
            raise RuntimeError(f"rot90: expected two different dims, got {dims[0]} and {dims[1]}")
        turns = k % 4
        if turns == 1:
            return input.flip(b).transpose(a, b)
        if turns == 2:
            return input.flip((a, b))
        return input.flip(a).transpose(a, b) if turns == 3 else input.clone(memory_format=contiguous_format)


class RollDim(Loops):
    """The elements moved by `shift` along one dim, around the end: two boxes that change places."""

    batch = "dim"
    schema = "_roll(Tensor input, int shift, int dim) -> Tensor"
    function = method = False
    out = False
    layout = Layout.FORMAT

    def lower(self, args):
        input, dim = args[0], wrap_dim("roll", args[2], args[0].ndim)
        shape, strides = tuple(input.shape), tuple(input.stride())
        shift = args[1] % or_one(shape[dim])
        reads = (Memory("input", input.dtype.code, shape, strides), Number("shift", "i64", shift))
        pieces = []
        for first, length, target in ((0, shape[dim] - shift, shift), (shape[dim] - shift, shift, 0)):
            start, sizes = [0] * len(shape), list(shape)
            start[dim], sizes[dim] = target, length
            pieces.append(Piece(0, tuple(start), tuple(sizes), strides, first * strides[dim]))

        def body(at: At, sources: Any) -> tuple:
            place = at[dim] - sources[1].value
            return (sources[0][at.replace(dim, select(lt(place, ZERO), place + sources[0].shape[dim], place))],)

        return Lowered(
            "roll", ("roll", dim), shape, shape, (input.dtype.code,), reads, body, aligned=False, pieces=tuple(pieces),
            layout=strides_in(self.layout, input),
        )

    def vjp(self, g, shift, dim):
        return {"input": find_op("_roll")(g, -shift, dim)}


class Roll(Composite):
    """The elements moved by `shifts` along `dims`, around the end; without dims, of the flattened input."""

    schema = "roll(Tensor input, int[] shifts, int[] dims=[]) -> Tensor"
    replays = True

    def compute(self, input, shifts, dims):
        if not dims:
            if len(shifts) != 1:
                raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:0")
            flat = input.reshape(-1)
            return find_op("_roll")(flat, shifts[0], 0).reshape(input.shape)
        if len(dims) != len(shifts):
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
        if not input.ndim:
            raise IndexError(f"roll: dimension specified as {dims[0]} but tensor has no dimensions")
        out = input
        for shift, dim in zip(shifts, dims, strict=True):
            out = find_op("_roll")(out, shift, wrap_dim("roll", dim, input.ndim))
        return out


class Repeat(Composite):
    """The whole tensor repeated along each dim."""

    schema = "repeat(Tensor input, int[] repeats) -> Tensor"
    replays = True
    function = False

    def compute(self, input, repeats):
        extra = len(repeats) - input.ndim
        if extra < 0:
            raise RuntimeError("repeat: expected at least as many numbers of repeats as the tensor has dimensions")
        if any(n < 0 for n in repeats):
            raise RuntimeError(f"repeat: expected repeats of at least 0, got negative ones: {list(repeats)}")
        # nothing of the input is left: its gradient is 0 and has no graph
        if any(type(n) is int and n == 0 for n in repeats):
            input = find_op("fill")(input, 0)
        sizes = (1,) * extra + tuple(input.shape)
        # A dim of its own for the repeats of a dim; one that stays as it is needs none.
        parts = [(size,) if type(r) is int and r == 1 else (r, size) for r, size in zip(repeats, sizes, strict=True)]
        single = [n for part in parts for n in (1, part[-1])[-len(part) :]]
        wide = [n for part in parts for n in part]
        result = input.reshape(single).expand(wide).clone(memory_format=contiguous_format)
        return result.reshape([r * n for r, n in zip(repeats, sizes, strict=True)])


class Tile(Composite):
    """The whole tensor repeated; missing dims count as 1."""

    schema = "tile(Tensor input, int[] dims) -> Tensor"
    replays = True

    def compute(self, input, dims):
        return input.repeat((1,) * (input.ndim - len(dims)) + tuple(dims))


class RepeatInterleave(Composite):
    """Each element repeated, along `dim` or of the flattened input."""

    schema = (
        "repeat_interleave(Tensor input, int repeats, int? dim=None, *, int? output_size=None) -> Tensor",
        "repeat_interleave(Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor",
        "repeat_interleave(Tensor repeats, *, int? output_size=None) -> Tensor",
    )
    replays = True

    def compute(self, *args):
        if len(args) == 2:
            return check_output_size(repeated_positions(args[0], args[1]), 0, args[1])
        input, repeats, dim, output_size = args
        if dim is None:
            input, dim = input.reshape(-1), 0
        dim = wrap_dim("repeat_interleave", dim, input.ndim)
        count = input.shape[dim] if input.ndim else 1
        if isinstance(repeats, INTS):
            if repeats < 0:
                raise RuntimeError("Repeats must be non-negative")
            return check_output_size(
                repeated_evenly(input.reshape(1) if input.ndim == 0 else input, dim, repeats), dim, output_size
            )
        if repeats.ndim == 0 or (repeats.ndim == 1 and repeats.shape[0] == 1):
            repeats = repeats.reshape(-1).expand((count,))
        elif repeats.ndim != 1:
            raise RuntimeError("repeat_interleave: expected repeats with 0 or 1 dimensions")
        elif repeats.shape[0] != count:
            raise RuntimeError(
                f"repeat_interleave: expected repeats of size {count}, that of input in dim {dim}, got"
                f" {repeats.shape[0]}"
            )
        return check_output_size(
            input.index_select(dim, repeated_positions(repeats, output_size).to(input.device)), dim, output_size
        )


def repeated_evenly(input: Any, dim: int, repeats: int) -> Any:
    """Every position of a dim `repeats` times: no positions are looked at, so sizes alone are enough."""
    before, size, after = tuple(input.shape[:dim]), input.shape[dim], tuple(input.shape[dim + 1 :])
    check_memory((*before, size * repeats, *after), input.dtype, input.device)
    spread = input.unsqueeze(dim + 1).expand((*before, size, repeats, *after))
    return spread.clone(memory_format=contiguous_format).reshape((*before, size * repeats, *after))


def check_output_size(result: Any, dim: int, output_size: int | None) -> Any:
    """The result, if it is as long as the caller promised."""
    if output_size is not None and result.shape[dim] != output_size:
        raise RuntimeError(
            f"repeat_interleave: allocated size does not match required size: output_size is {output_size}, the repeats"
            f" add up to {result.shape[dim]}"
        )
    return result


def repeated_positions(repeats: Any, total: int | None = None) -> Any:
    """0 repeated repeats[0] times, then 1 repeated repeats[1] times, and so on; `total` of them,
    where that is known."""
    if repeats.ndim != 1:
        raise RuntimeError("repeat_interleave: expected a vector as repeats")
    if repeats.dtype not in (_C.int64, _C.int32):
        raise RuntimeError("repeat_interleave: expected repeats of dtype int64 (Long) or int32 (Int)")
    return find_op("_repeated_positions")(repeats, total)


class RepeatedPositions(OpDefinition):
    """Each position as often as its count says; `total` of them where the caller knows."""

    schema = "_repeated_positions(Tensor repeats, int? total=None) -> Tensor"
    function = method = False
    out = False
    differentiable = False
    batch = "data"

    def most(self, repeats, total):
        """The size that elements decide is at most this."""
        return None

    def hidden_size(self, size, repeats, total):
        """The result, given that size."""
        return Spec((size if total is None else total,), repeats.dtype)

    def run(self, repeats, total):
        if repeats.is_meta:
            if total is None:
                raise NotImplementedError(
                    "repeat_interleave: how many repeats there are depends on data, and meta tensors have none. Give"
                    " output_size."
                )
            return fresh(repeats, (total,), None, repeats.dtype, repeats.device)
        if repeats.device.type == "cpu":
            return positions_of(repeats)
        own = handlers[repeats.device.type].own("repeat_interleave")
        return own(None, repeats) if own is not None else positions_by_search(repeats)


def positions_by_search(repeats: Any) -> Any:
    """The positions by ops, for devices: every element of the result looks for the first end behind it."""
    if not repeats.numel():
        return repeats.new_empty((0,))
    ends = repeats.cumsum(0, dtype=_C.int64)
    total, least = find_op("stack")([ends[-1], repeats.min().to(_C.int64)]).tolist()
    if least < 0:
        raise RuntimeError("repeats can not be negative")
    found = find_op("searchsorted")(ends, find_op("arange")(total, device=repeats.device), right=True)
    return found.to(repeats.dtype)


def positions_of(repeats: Any) -> Any:
    """The positions, counted on the host."""
    import numpy as np  # loaded with the first call that needs it

    counts = repeats.contiguous().numpy()
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    # NumPy neither counts with care nor survives what does not fit: the sum is exact where it could wrap.
    may_wrap = len(counts) and int(counts.max()) > 2**62 // len(counts)
    total = sum(counts.tolist()) if may_wrap else int(counts.sum(dtype=np.int64))
    if total >= 2**60:
        raise RuntimeError(f"repeat_interleave: the repeats add up to {total}: the storage size calculation overflowed")
    out = _C.empty((total,), None, _C.int64, _C.device("cpu"))
    out.numpy()[...] = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    return out.to(repeats.dtype) if repeats.dtype is not _C.int64 else out


# --- triangles and diagonals ------------------------------------------------------------------------------------------


class Tril(Indexed):
    """The lower triangle of each matrix, up to a diagonal; 0 elsewhere."""

    schema = "tril(Tensor input, int diagonal=0) -> Tensor"
    runtime = ("diagonal",)
    inplace = True

    def meta(self, input, diagonal):
        if input.ndim < 2:
            raise RuntimeError(f"{self.spec.name}: input tensor must have at least 2 dimensions")
        return Spec(tuple(input.shape), input.dtype)

    def keeps(self, row: Value, column: Value, diagonal: Value) -> Value:
        return le(column - row, diagonal)

    def loops(self, at, input, diagonal):
        value = input[tuple(at)]
        return select(self.keeps(at[-2], at[-1], diagonal), value, const(0, input.code))

    def is_planned(self, args):
        return not self.is_inplace

    def run(self, input, diagonal):
        return input.copy_(find_op(self.spec.name)(input, diagonal))

    def vjp(self, g, diagonal):
        return {"input": g.tril(diagonal)}


class Triu(Tril):
    """The upper triangle of each matrix, from a diagonal; 0 elsewhere."""

    schema = "triu(Tensor input, int diagonal=0) -> Tensor"

    def keeps(self, row, column, diagonal):
        return ge(column - row, diagonal)

    def vjp(self, g, diagonal):
        return {"input": g.triu(diagonal)}


class DiagEmbed(Indexed):
    """Vectors of the last dim as diagonals of new matrices."""

    schema = "diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"

    def prepare(self, args):
        input, offset, dim1, dim2 = args
        dims = [wrap_dim("diag_embed", d, input.ndim + 1) for d in (dim1, dim2)]
        if dims[0] == dims[1]:
            raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
        return (input, offset, *dims)

    def meta(self, input, offset, dim1, dim2):
        if not input.ndim:
            raise RuntimeError("diag_embed: input tensor must have at least 1 dimension")
        size = input.shape[-1] + abs(offset)
        shape = list(input.shape[:-1])
        for d in sorted((dim1, dim2)):
            shape.insert(d, size)
        return Spec(tuple(shape), input.dtype)

    def lowered(self, prepared, spec):
        """Most of a large one is zeros, which are written faster than asked for: they are the background of a box."""
        input, offset, dim1, dim2 = prepared
        found, into = super().lowered(prepared, spec), contiguous_strides(spec.shape)
        others = [s for d, s in enumerate(into) if d not in (dim1, dim2)]
        start = tuple([max(-offset, 0) if d == dim1 else max(offset, 0) if d == dim2 else 0 for d in range(len(into))])
        steps = (*others, into[dim1] + into[dim2])
        box = Piece(0, start, tuple(input.shape), tuple(input.stride()), steps=steps)
        reads = (*found.reads, Number("zero", "i64", 0))
        return found.but(reads=reads, pieces=(box,), background=len(found.reads))

    def loops(self, at, input, offset, dim1, dim2):
        row, column = at[dim1] + const(max(-offset, 0) * -1, "i64"), at[dim2] - const(max(offset, 0), "i64")
        others = [i for d, i in enumerate(at) if d not in (dim1, dim2)]
        on = eq(row, column) & ge(row, ZERO) & lt(row, input.shape[-1])
        safe = select(on, row, ZERO)
        return select(on, input[(*others, safe)], const(0, input.code))

    def vjp(self, g, offset, dim1, dim2):
        return {"input": g.diagonal(offset, dim1, dim2)}


class Diag(Composite):
    """The diagonal of a matrix, or a matrix with a vector on its diagonal."""

    schema = "diag(Tensor input, int diagonal=0) -> Tensor"
    replays = True

    def compute(self, input, diagonal):
        if input.ndim not in (1, 2):
            raise RuntimeError(f"diag: expected 1 or 2 dimensions, got {input.ndim}")
        if input.ndim == 1:
            return input.diag_embed(diagonal)
        return input.diagonal(diagonal).clone(memory_format=contiguous_format)


class DiagFlat(Composite):
    """A matrix with the flattened input on its diagonal."""

    schema = "diagflat(Tensor input, int offset=0) -> Tensor"
    replays = True

    def compute(self, input, offset):
        return input.reshape(-1).diag_embed(offset)
