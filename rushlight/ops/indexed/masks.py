"""Where elements are: nonzero, and the ops that pick or write elements under a mask."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.op import Composite, find_op
from rushlight.op.definition import OpDefinition

from .gather import broadcast_shapes


def positions(mask: Any) -> Any:
    """[count, ndim] int64 positions of the true elements of a host tensor, in row-major order."""
    import numpy as np  # loaded with the first call that needs it

    flat = mask.contiguous().view(-1).numpy()
    found = np.flatnonzero(flat).astype(np.int64, copy=False)
    out = _C.empty((len(found), mask.ndim), None, _C.int64, _C.device("cpu"))
    if mask.ndim == 1:
        out.view(-1).numpy()[...] = found
    elif mask.ndim:
        np.stack(np.unravel_index(found, tuple(mask.shape)), axis=1, out=out.numpy())
    return out


class Nonzero(OpDefinition):
    """Positions of the elements that are not zero, one row each; with `as_tuple`, one tensor per dim."""

    schema = "nonzero(Tensor input, *, bool as_tuple=False) -> Tensor"
    differentiable = False

    def run(self, input, as_tuple):
        if input.device.type == "meta":
            raise NotImplementedError("nonzero: the number of results depends on data, and meta tensors have none")
        if as_tuple and not input.ndim:
            input = input.unsqueeze(0)
        mask = input if input.dtype is _C.bool else input != 0
        found = positions(mask.to("cpu") if mask.device.type != "cpu" else mask)
        found = found if input.device.type == "cpu" else found.to(input.device)
        return tuple(found.select(1, d).contiguous() if input.ndim > 1 else found.view(-1) for d in range(input.ndim)) if as_tuple else found


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

    def compute(self, input, mask):
        check_mask("masked_select", mask)
        shape = broadcast_shapes([tuple(input.shape), tuple(mask.shape)]) or (1,)
        return find_op("index")(input.expand(shape), [mask.expand(shape)])


class MaskedScatter(Composite):
    """A copy of `input` with elements of `source`, in order, under the mask."""

    schema = "masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor"
    inplace = True

    def compute(self, input, mask, source):
        check_mask("masked_scatter_", mask)
        if input.dtype is not source.dtype:
            raise RuntimeError(f"masked_scatter: expected self and source to have same dtypes but got {input.dtype.name} and {source.dtype.name}")
        if not self.is_inplace:
            shape = broadcast_shapes([tuple(input.shape), tuple(mask.shape)])
            input = input.expand(shape)
        where = mask.expand(input.shape)
        if not where.ndim:
            where, target = where.unsqueeze(0), input.unsqueeze(0)
        else:
            target = input
        places = list(where.nonzero(as_tuple=True))
        count = places[0].numel()
        if count > source.numel():
            raise RuntimeError(f"masked_scatter: expected self to have no more true mask elements than source has elements, got {count} and {source.numel()}")
        values = source.reshape(-1).narrow(0, 0, count)
        if self.is_inplace:
            target.index_put_(places, values)
            return input
        return target.index_put(places, values).reshape(input.shape)
