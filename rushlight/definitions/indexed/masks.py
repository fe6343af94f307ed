"""Where elements are: nonzero, and the ops that pick or write elements under a mask."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.base.shape import contiguous_format
from rushlight.codegen.schedule.forms.launch import Launch, Schedule
from rushlight.devices import handlers
from rushlight.op import Composite, Library, Spec, find_op
from rushlight.op.definition import OpDefinition
from rushlight.op.indexed import shares_memory
from rushlight.planners.order.true_positions import (
    CHUNK,
    TILE,
    count_nest,
    ends_nest,
    fill_nest,
    pack_nest,
    place_nest,
    spread_nest,
    tile_counts,
    tile_positions,
)
from rushlight.rules.levels import is_readable, is_recorded

from .gather import broadcast_shapes, number_of

MOST = 1 << 31      # elements that written kernels can count
FEW = 4096          # elements that one pass goes through sooner than positions are found
RAW = {1: "u8", 2: "i16", 4: "i32", 8: "i64"}      # elements that are only moved, by their bytes


class CountTrue(Library):
    """How many elements of a dense mask are true up to the end of each chunk of it."""

    computes = False
    schema = "_count_true(Tensor mask) -> Tensor"
    function = method = out = differentiable = False

    def meta(self, mask):
        return Spec((-(-mask.numel() // CHUNK),), _C.int64)

    def launches(self, args):
        numel = args[0].numel()
        chunks = -(-numel // CHUNK)
        return Schedule((
            Launch(("count",), count_nest, (0, 1), (numel,), chunks, 2),
            Launch(("ends",), ends_nest, (1,), (chunks,), 1, 1),
        ))


class TruePositions(Library):
    """[length, ndim] positions of the true elements of a dense mask, in row-major order, from where chunks end."""

    computes = False
    schema = "_true_positions(Tensor mask, Tensor ends, int length) -> Tensor"
    function = method = out = differentiable = False

    def meta(self, mask, ends, length):
        return Spec((length, mask.ndim), _C.int64)

    def launches(self, args):
        shape = tuple(args[0].shape)
        numel, rank = number_of(shape), len(shape)
        launch = Launch((rank,), lambda: fill_nest(rank), (0, 1, 2), (numel, *shape), -(-numel // CHUNK), 2)
        return Schedule((launch,))


def positions(mask: Any) -> Any:
    """[count, ndim] int64 positions of the true elements of a host tensor, in row-major order."""
    mask = mask.contiguous()
    ends = find_op("_count_true")(mask)
    return find_op("_true_positions")(mask, ends, ends[-1].item() if mask.numel() else 0)


class PackTrue(Library):
    """The elements under a mask side by side, with room for all, and how many they are; None where others do better."""

    computes = False
    schema = "_pack_true(Tensor input, Tensor mask) -> (Tensor, Tensor)"
    function = method = out = differentiable = False

    def meta(self, input, mask):
        return Spec((input.numel() + 1,), input.dtype), Spec((), _C.int64)

    def is_planned(self, args):
        return is_small(*args)

    def run(self, input, mask):
        return None

    def launches(self, args):
        code = RAW[args[0].itemsize]
        return Schedule((Launch((code,), lambda: pack_nest(code), (0, 1, 2, 3), (args[0].numel(),), 1, 1),))


class PlaceTrue(Library):
    """A copy with the elements of a source, in order, under a mask, and how many those are; None where others do
    better."""

    computes = False
    schema = "_place_true(Tensor input, Tensor mask, Tensor source) -> (Tensor, Tensor)"
    function = method = out = differentiable = False

    def meta(self, input, mask, source):
        return Spec(tuple(input.shape), input.dtype), Spec((), _C.int64)

    def is_planned(self, args):
        input, mask, source = args
        fits = source.dtype is input.dtype and source._is_contiguous() and source.numel() > 0
        return fits and is_small(input, mask)

    def run(self, input, mask, source):
        return None

    def launches(self, args):
        code, sizes = RAW[args[0].itemsize], (args[0].numel(), args[2].numel())
        return Schedule((Launch((code,), lambda: place_nest(code), (0, 1, 2, 3, 4), sizes, 1, 1),))


def is_small(input: Any, mask: Any) -> bool:
    """Whether one pass over few elements in dense rows serves, the mask being of the same shape."""
    return (
        mask.dtype is _C.bool
        and 0 < input.numel() <= FEW
        and input.itemsize in RAW
        and input.shape == mask.shape
        and input._is_contiguous()
        and mask._is_contiguous()
    )


class Nonzero(OpDefinition):
    """Positions of the elements that are not zero, one row each; with `as_tuple`, one tensor per dim."""

    batch = "data"
    schema = "nonzero(Tensor input, *, bool as_tuple=False) -> Tensor"
    differentiable = False

    def most(self, input, as_tuple):
        """The size that elements decide is at most this."""
        return input.numel()

    def hidden_size(self, size, input, as_tuple):
        """The results, given that size."""
        columns = max(input.ndim, 1) if as_tuple else input.ndim
        return tuple(Spec((size,), _C.int64) for _ in range(columns)) if as_tuple else Spec((size, columns), _C.int64)

    def run(self, input, as_tuple):
        if input.is_meta:
            raise NotImplementedError("nonzero: the number of results depends on data, and meta tensors have none")
        if as_tuple and not input.ndim:
            input = input.unsqueeze(0)
        mask = input if input.dtype is _C.bool else input != 0
        found = positions(mask) if mask.device.type == "cpu" else on_device(mask)
        return (
            tuple(found.select(1, d).contiguous() if input.ndim > 1 else found.view(-1) for d in range(input.ndim))
            if as_tuple
            else found
        )


def on_device(mask: Any) -> Any:
    """Positions by a plugged-in device's own function, or by a thread for each element that knows its place."""
    own = handlers[mask.device.type].own("nonzero")
    if own is not None:
        return own(None, mask)
    mask = mask.contiguous()
    if not mask.numel():
        return _C.empty((0, mask.ndim), None, _C.int64, mask.device)
    if handlers[mask.device.type].loads_written and mask.ndim and mask.numel() < MOST:
        before = find_op("_tile_counts")(mask)
        return find_op("_tile_positions")(mask, before, before[-1].item())
    ends = mask.reshape(-1).cumsum(0)
    return find_op("_spread_positions")(mask, ends, ends[-1].item())


class TileCounts(Library):
    """How many elements before each tile of a dense mask are true, and how many in all."""

    schema = "_tile_counts(Tensor mask) -> Tensor"
    function = method = out = differentiable = False

    def meta(self, mask):
        return Spec((-(-mask.numel() // TILE) + 1,), _C.int32)

    def launches(self, args):
        return tile_counts(args[0].numel())


class TilePositions(Library):
    """[length, ndim] positions of the true elements of a dense mask, from how many there are before each tile."""

    schema = "_tile_positions(Tensor mask, Tensor before, int length) -> Tensor"
    function = method = out = differentiable = False

    def meta(self, mask, before, length):
        return Spec((length, mask.ndim), _C.int64)

    def launches(self, args):
        mask, _, length = args
        return tile_positions(tuple(mask.shape), mask.numel(), length) if length else Schedule(())


class SpreadPositions(Library):
    """[length, ndim] positions of the true elements of a dense mask, from how many there are up to each element."""

    schema = "_spread_positions(Tensor mask, Tensor ends, int length) -> Tensor"
    function = method = out = differentiable = False

    def meta(self, mask, ends, length):
        return Spec((length, mask.ndim), _C.int64)

    def launches(self, args):
        shape = tuple(args[0].shape)
        numel, rank = number_of(shape), len(shape)
        return Schedule((Launch((rank,), lambda: spread_nest(rank), (0, 1, 2), shape, numel, CHUNK),))


class NonzeroStatic(OpDefinition):
    """The first `size` positions of elements that are not zero; rows of `fill_value` where there are fewer."""

    schema = "nonzero_static(Tensor input, *, int size, int fill_value=-1) -> Tensor"
    differentiable = False

    def run(self, input, size, fill_value):
        if size < 0:
            raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
        result = _C.empty((size, input.ndim), None, _C.int64, input.device)
        if input.is_meta:
            return result
        found = input.nonzero()
        count = min(size, found.shape[0])
        result.fill_(fill_value)
        result.narrow(0, 0, count).copy_(found.narrow(0, 0, count))
        return result


class UnsafeMaskedIndex(Composite):
    """`input[indices]` where `mask` holds and `fill` elsewhere; indices under a false mask may be anything."""

    schema = "_unsafe_masked_index(Tensor input, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor"
    method = False
    out = False

    def compute(self, input, mask, indices, fill):
        if input.numel() == 0:   # nothing can be read, and so no mask may hold
            return (
                find_op("index")(input.new_empty([max(n, 1) for n in input.shape]), tame(mask, indices))
                .clone()
                .fill_(fill)
            )
        return find_op("index")(input, tame(mask, indices)).masked_fill(~mask, fill)


class UnsafeMaskedIndexPut(Composite):
    """A copy of `input` with `values` added at `indices` where `mask` holds."""

    schema = (
        "_unsafe_masked_index_put_accumulate(Tensor input, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor"
    )
    method = False
    out = False

    def compute(self, input, mask, indices, values):
        if input.numel() == 0:
            return input.clone()
        return find_op("index_put")(input, tame(mask, indices), values.masked_fill(~mask, 0), True)


def tame(mask: Any, indices: Any) -> list[Any]:
    """Indices with 0 wherever the mask does not hold."""
    return [None if i is None else i.masked_fill(~mask, 0) for i in indices]


class ArgWhere(Composite):
    """Positions of the elements that are not zero, one row each."""

    schema = "argwhere(Tensor input) -> Tensor"

    def compute(self, input):
        return input.nonzero()


class WhereOne(Composite):
    """Positions where the condition holds, one tensor per dim."""

    schema = "where(Tensor condition) -> Tensor[]"
    method = False
    out = False

    def compute(self, condition):
        return condition.nonzero(as_tuple=True)


def check_mask(name: str, mask: Any) -> None:
    """Masks are boolean."""
    if mask.dtype is not _C.bool:
        raise RuntimeError(f"{name}: expected BoolTensor for mask, got {mask.dtype.name}")


class MaskedSelect(Composite):
    """The elements under a mask, in row-major order."""

    schema = "masked_select(Tensor input, Tensor mask) -> Tensor"
    own_out = True

    def compute(self, input, mask):
        check_mask("masked_select", mask)
        if _C.is_unseen(input, mask) and (found := find_op("_pack_true")(input, mask)) is not None:
            return found[0].narrow(0, 0, found[1].item()).clone()
        try:
            shape = broadcast_shapes([tuple(input.shape), tuple(mask.shape)]) or (1,)
        except IndexError:
            raise RuntimeError(
                f"masked_select: input of shape {list(input.shape)} and mask of shape {list(mask.shape)} cannot be"
                " broadcast together"
            ) from None
        return find_op("index")(input.expand(shape), [mask.expand(shape)])


class MaskedScatter(Composite):
    """A copy of `input` with elements of `source`, in order, under the mask."""

    schema = "masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor"
    inplace = True

    def compute(self, input, mask, source):
        check_mask("masked_scatter_", mask)
        if input.dtype is not source.dtype:
            raise RuntimeError(
                f"masked_scatter: expected a source of the dtype of self, {input.dtype.name}, got {source.dtype.name}"
            )
        if _C.is_unseen(input, mask, source) and (found := find_op("_place_true")(input, mask, source)) is not None:
            self.check_count(found[1].item(), source)     # before anything is written
            return input.copy_(found[0]) if self.is_inplace else found[0]
        if not self.is_inplace:
            shape = broadcast_shapes([tuple(input.shape), tuple(mask.shape)])
            input = input.expand(shape)
        where = mask.expand(input.shape)
        if not where.ndim:
            where, target = where.unsqueeze(0), input.unsqueeze(0)
        else:
            target = input
        if where.is_meta and not is_recorded(where):
            return input if self.is_inplace else input.clone(memory_format=contiguous_format)
        # examples of a batch, or a graph in the making: the k-th place under the mask takes the k-th element
        if not is_readable(where) or where.is_meta:
            flat = source.reshape(-1)
            order = (where.reshape(-1).cumsum(0) - 1).clamp(0, max(flat.numel() - 1, 0))
            result = find_op("where")(where, flat.index_select(0, order).reshape(where.shape), target)
            return target.copy_(result) if self.is_inplace else result.reshape(input.shape).contiguous()
        places = list(where.nonzero(as_tuple=True))
        count = places[0].numel()
        self.check_count(count, source)
        values = source.reshape(-1).narrow(0, 0, count)
        if self.is_inplace:
            if shares_memory(target, values):   # as it was before any of it is written
                values = values.clone()
            target.index_put_(places, values)
            return input
        return target.clone(memory_format=contiguous_format).index_put_(places, values).reshape(input.shape)

    def check_count(self, count: int, source: Any) -> None:
        """Refuse a source that is too short."""
        if count > source.numel():
            raise RuntimeError(
                "masked_scatter: expected self to have no more true mask elements than source has elements, got"
                f" {count} and {source.numel()}"
            )
