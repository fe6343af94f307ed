"""Elements written where index tensors say: scatter, index_add, index_copy, index_fill, index_put, put."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.base.settings import alert_not_deterministic
from rushlight.loops.expr import Value
from rushlight.op import Composite, Meta, find_op, wrap_dim
from rushlight.op.indexed import Scattered, refuse_shared
from rushlight.op.layout import Layout
from rushlight.op.numbers import check_fits
from rushlight.rules.levels import is_recorded

from .gather import (
    check_index_dtype,
    check_index_fits,
    flat_position,
    index_position,
    index_tensors,
    is_mask,
    layout_of,
    leading_mask,
    number_of,
    with_dims,
)


class _NeedsDims(Scattered):
    """Without dims there is one element; the op then runs on a view that has one dim."""

    needs_dims = True

    def is_planned(self, args):
        return bool(args[0].ndim) or self.is_inplace

    def run(self, *args):
        if self.is_inplace:
            return super().run(*args)
        wrap_dim(self.name, args[1], 0)
        given = {p.name: a for p, a in zip(self.spec.params, args, strict=True)}
        lifted = {name: with_dims(a) if isinstance(a, _C.Tensor) else a for name, a in given.items()}
        return find_op(self.spec.name)(**(lifted | {"dim": 0})).squeeze(0)


class _AlongDim(_NeedsDims):
    """What the scatter family shares: loops over `index`, in order along `dim`."""

    def prepare(self, args):
        input, dim, index, *rest = args
        dim = wrap_dim(self.name, dim, input.ndim)
        if index.numel():
            check_index_dtype(self.spec.name, index)
            check_index_fits(self.spec.name, input, index, dim, "self")
        if rest and isinstance(rest[0], _C.Tensor):
            src = rest[0]
            if src.dtype is not input.dtype:
                raise RuntimeError(
                    f"{self.spec.name}: expected src of the dtype of self, {input.dtype.name}, got {src.dtype.name}"
                )
            if index.numel():
                check_index_fits(self.spec.name, src, index, -1, "src")
            rest[0] = with_dims(src)
        return (with_dims(input), dim, with_dims(index), *rest)

    def space(self, input, dim, index, *rest):
        return tuple(index.shape)

    def serial(self, input, dim, index, *rest):
        return frozenset((dim,))

    def writes(self, at, out, input, dim, index, src, *rest):
        place = at.replace(dim, at.bounded(index[tuple(at)], out.shape[dim], dim, negative=False))
        return place, src if isinstance(src, Value) else src[tuple(at)]

    def index_error(self, index, dim, args):
        size = args[0].shape[dim] if args[0].ndim else 1
        return RuntimeError(f"{self.name}(): index {index} is out of bounds for dimension {dim} with size {size}")


def picked(g: Any, dim: int, index: Any, src: Any) -> Any:
    """Gradient of a source: what `g` has where its elements went, 0 for those `index` does not reach."""
    part = g.gather(dim, index)
    for d in range(part.ndim):
        if part.shape[d] != src.shape[d]:
            sizes = list(part.shape)
            sizes[d] = src.shape[d]
            part = g.new_zeros(sizes).slice_scatter(part, d, 0, part.shape[d])
    return part


class Scatter(_AlongDim):
    """A copy of `input` with src[i][j] written at [index[i][j]][j], for dim 0 of two; the last of equals stays."""

    schema = "scatter(Tensor input, int dim, Tensor index, Tensor src) -> Tensor"
    inplace = True

    def vjp(self, g, dim, index, src: Meta):
        return {"input": g.scatter(dim, index, 0), "src": picked(g, dim, index, src)}


class ScatterValue(_AlongDim):
    """A copy of `input` with one number written at every indexed place."""

    schema = "scatter(Tensor input, int dim, Tensor index, Scalar value) -> Tensor"
    inplace = True
    runtime = elements = ("value",)

    def vjp(self, g, dim, index):
        return {"input": g.scatter(dim, index, 0)}


class ScatterWithReduce(Composite):
    """scatter with reduce='add' or 'multiply'."""

    schema = (
        "scatter(Tensor input, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
        "scatter(Tensor input, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
    )
    inplace = True

    def compute(self, input, dim, index, src, reduce):
        if reduce not in ("add", "multiply"):
            raise RuntimeError(f"reduce: expected 'add' or 'multiply', got {reduce}")
        if not isinstance(src, _C.Tensor):
            check_fits(self.name, src, input.dtype)
            src = input.new_full(index.shape, src)
        mode = "sum" if reduce == "add" else "prod"
        if self.is_inplace:
            return input.scatter_reduce_(dim, index, src, mode)
        return input.scatter_reduce(dim, index, src, mode)


class ScatterAdd(_AlongDim):
    """A copy of `input` with src[i][j] added at [index[i][j]][j], for dim 0 of two."""

    schema = "scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor"
    inplace = True

    def combine(self, s, old, new, *args):
        return old + new

    def vjp(self, g, dim, index, src: Meta):
        return {"input": g, "src": picked(g, dim, index, src)}


# --- along one dim, by a vector of indices ----------------------------------------------------------------------------


class _Slices(_NeedsDims):
    """What index_add, index_copy and index_fill share: one index per slice along `dim`."""

    allow_negative = False

    def prepare(self, args):
        input, dim, index, *rest = args
        dim = wrap_dim(self.name, dim, input.ndim)
        check_index_dtype(self.spec.name, index)
        if index.ndim > 1:
            raise IndexError(f"{self.spec.name}(): Index should have dimension 1 or 0 (got {index.ndim})")
        if rest and isinstance(rest[0], _C.Tensor):
            self.check_source(input, dim, with_dims(index), rest[0])
            rest[0] = with_dims(rest[0])
        return (with_dims(input), dim, with_dims(index), *rest)

    def check_source(self, input: Any, dim: int, index: Any, source: Any) -> None:
        if source.dtype is not input.dtype:
            raise RuntimeError(
                f"{self.spec.name}: expected a source of the dtype of self, {input.dtype.name}, got {source.dtype.name}"
            )
        wanted = [index.shape[0] if d == dim else n for d, n in enumerate(input.shape)] or [index.shape[0]]
        if list(with_dims(source).shape) != wanted:
            raise (IndexError if self.spec.name == "index_copy" else RuntimeError)(
                f"{self.spec.name}(): source/destination tensor have different slice shapes, or the number of indices"
                f" ({index.shape[0]}) differs from source.size(dim): self {list(input.shape)}, source"
                f" {list(source.shape)} at dim {dim}"
            )

    def space(self, input, dim, index, *rest):
        return (*input.shape[:dim], index.shape[0], *input.shape[dim + 1 :])

    def serial(self, input, dim, index, *rest):
        return frozenset((dim,))

    def place(self, at: Any, out: Any, dim: int, index: Any) -> tuple:
        return at.replace(dim, at.bounded(index[at[dim]], out.shape[dim], dim, negative=self.allow_negative))

    def index_error(self, index, dim, args):
        return IndexError(
            f"{self.name}(): index out of range in self: index {index} is out of bounds for dimension {dim} with size"
            f" {args[0].shape[dim]}"
        )


class IndexAdd(_Slices):
    """A copy of `input` with slices of `source`, times alpha, added to the slices that `index` names."""

    schema = "index_add(Tensor input, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"
    inplace = True
    runtime = elements = ("alpha",)

    def writes(self, at, out, input, dim, index, source, alpha):
        return self.place(at, out, dim, index), source[tuple(at)]

    def index_error(self, index, dim, args):
        error = super().index_error(index, dim, args)
        return error if args[0].ndim <= 1 else RuntimeError(*error.args)

    def combine(self, s, old, new, input, dim, index, source, alpha):
        return old + new * s.cast(alpha, new.dtype)

    def vjp(self, g, dim, index, source: Meta, alpha):
        part = g.index_select(dim, index).reshape(source.shape)
        return {"input": g, "source": part if alpha == 1 else part * alpha}


class IndexCopy(_Slices):
    """A copy of `input` with slices of `source` written over the slices that `index` names."""

    schema = "index_copy(Tensor input, int dim, Tensor index, Tensor source) -> Tensor"
    inplace = True

    def writes(self, at, out, input, dim, index, source):
        return self.place(at, out, dim, index), source[tuple(at)]

    def vjp(self, g, dim, index, source: Meta):
        return {"input": g.index_fill(dim, index, 0), "source": g.index_select(dim, index).reshape(source.shape)}


class IndexFillTensor(Composite):
    """index_fill with the value in a 0-d tensor."""

    schema = "index_fill(Tensor input, int dim, Tensor index, Tensor value) -> Tensor"
    inplace = True

    def compute(self, input, dim, index, value):
        if value.ndim:
            raise RuntimeError(
                f"index_fill_: expected a number or a 0-dimensional value, got one with {value.ndim} dimensions."
            )
        # As a mask, so that a slice named twice counts once in the gradient of the value.
        if self.is_inplace:
            refuse_shared(self.name, input, (index,))
        chosen = find_op("zeros")(input.shape, dtype=_C.bool, device=input.device).index_fill_(dim, index, 1)
        if value.dtype.is_complex and not input.dtype.is_complex:
            raise RuntimeError(f"index_fill_: a complex value cannot be converted to {input.dtype.name}")
        return (input if self.is_inplace else input.clone()).masked_fill_(chosen, value)


class IndexFill(_Slices):
    """A copy of `input` with a number in the slices that `index` names."""

    schema = "index_fill(Tensor input, int dim, Tensor index, Scalar value) -> Tensor"
    inplace = True
    layout = Layout.INPUT
    runtime = elements = ("value",)
    allow_negative = True

    def prepare(self, args):
        if isinstance(args[3], complex) and not args[0].dtype.is_complex:
            raise RuntimeError(f"{self.name}: a complex value, {args[3]}, cannot be converted to {args[0].dtype.name}")
        return super().prepare(args)

    def writes(self, at, out, input, dim, index, value):
        return self.place(at, out, dim, index), value

    def vjp(self, g, dim, index):
        return {"input": g.index_fill(dim, index, 0)}


# --- anywhere ---------------------------------------------------------------------------------------------------------


class IndexPut(Scattered):
    """`values` written, or with `accumulate` added, where `indices` point."""

    schema = "index_put(Tensor input, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"
    inplace = True
    layout = Layout.INPUT

    def prepare(self, args):
        input, indices, values, accumulate = args
        if values.dtype is not input.dtype:
            raise RuntimeError(
                f"index_put: expected values of the dtype of the destination, {input.dtype.name}, got"
                f" {values.dtype.name}."
            )
        if any(map(is_mask, indices)):
            return None
        indices = index_tensors(self.name, input, indices)
        indices += [None] * (input.ndim - len(indices))
        layout, common = layout_of(input, indices)
        shape = layout.shape(input.shape, common)
        if len(values.shape) > len(shape):
            extra = len(values.shape) - len(shape)
            if any(n != 1 for n in values.shape[:extra]):
                raise RuntimeError(
                    f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result"
                    f" of shape {list(shape)}"
                )
            values = values.view(values.shape[extra:])
        try:
            values = values.expand(shape)
        except RuntimeError:
            raise RuntimeError(
                f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of"
                f" shape {list(shape)}"
            ) from None
        return (input, indices, values, accumulate)

    def run(self, input, indices, values, accumulate):
        if input.is_meta and not is_recorded(input) and any(map(is_mask, indices)):
            return input if self.is_inplace else input.clone()
        mask = leading_mask(input, indices)
        if mask is not None and values.numel() == 1 and not accumulate and values.ndim <= input.ndim:
            wide = mask.view(*mask.shape, *(1,) * (input.ndim - mask.ndim)) if mask.ndim < input.ndim else mask
            return (input if self.is_inplace else input.clone()).masked_fill_(wide, values.reshape(()))
        found = index_tensors(self.name, input, indices)
        if not input.ndim and len(found) == 1:   # a 0-d mask over a 0-d tensor
            if self.is_inplace:
                input.unsqueeze(0).index_put_([found[0]], values, accumulate)
                return input
            return input.unsqueeze(0).index_put([found[0]], values, accumulate).squeeze(0)
        if self.is_inplace and not any(map(is_mask, indices)):
            copied = [None if i is None else i.clone() for i in found]
            values = values.clone()
            plan = self.plan((input, copied, values, accumulate))
            return plan(input, *[i for i in copied if i is not None], values)
        return find_op(self.name)(input, found, values, accumulate)

    def space(self, input, indices, values, accumulate):
        return tuple(values.shape)

    def serial(self, input, indices, values, accumulate):
        layout, common = layout_of(input, indices)
        return frozenset(range(layout.first, layout.first + len(common)))

    def writes(self, at, out, input, indices, values, accumulate):
        return index_position(at, out, indices), values[tuple(at)]

    def combine(self, s, old, new, input, indices, values, accumulate):
        return old + new if accumulate else new

    def index_error(self, index, dim, args):
        return IndexError(f"index {index} is out of bounds for dimension {dim} with size {args[0].shape[dim]}")

    def vjp(self, g, indices, values: Meta, accumulate):
        kept = g if accumulate else g.index_put(indices, g.new_zeros(()), False)
        return {"input": kept, "values": find_op("index")(g, indices).sum_to_size(values.shape)}


class IndexPutNew(Composite):
    """index_put under a name that transforms need not override."""

    schema = "_index_put_new(Tensor input, Tensor?[] indices, Tensor values, bool accumulate) -> Tensor"
    function = method = False
    out = False

    def compute(self, input, indices, values, accumulate):
        return find_op("index_put")(input, indices, values, accumulate)


class Put(Scattered):
    """`source` written, or added, at flattened positions of `input`."""

    schema = "put(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> Tensor"
    inplace = True
    layout = Layout.INPUT

    def prepare(self, args):
        input, index, source, accumulate = args
        if not accumulate:
            alert_not_deterministic("put_")
        check_index_dtype("put_", index)
        if source.dtype is not input.dtype:
            raise RuntimeError(
                f"put_: expected a source of the dtype of self, {input.dtype.name}, got {source.dtype.name}"
            )
        if source.numel() != index.numel():
            raise IndexError(
                f"put_: expected as many elements in source as in index, got {source.numel()} and {index.numel()}"
            )
        if index.numel() and not input.numel():
            raise IndexError("put_(): cannot put elements into an empty tensor")
        if source.shape != index.shape:
            flat = [t if t.ndim == 1 else _flat_view(t) for t in (index, source)]
            if None in flat:
                return None
            index, source = flat
        return (input, index, source, accumulate)

    def run(self, input, index, source, accumulate):
        return find_op(self.name)(input, index.reshape(-1).clone(), source.reshape(-1).clone(), accumulate)

    def space(self, input, index, source, accumulate):
        return tuple(index.shape)

    def serial(self, input, index, source, accumulate):
        return frozenset(range(index.ndim))

    def writes(self, at, out, input, index, source, accumulate):
        return flat_position(at, index[tuple(at)], out), source[tuple(at)]

    def combine(self, s, old, new, input, index, source, accumulate):
        return old + new if accumulate else new

    def index_error(self, index, dim, args):
        return IndexError(f"put_: index {index} is out of range for a tensor of {number_of(args[0].shape)} elements.")

    def vjp(self, g, index, source: Meta, accumulate):
        kept = g if accumulate else g.put(index, g.new_zeros(index.shape), False)
        return {"input": kept, "source": g.take(index).reshape(source.shape)}


def _flat_view(t: Any) -> Any:
    strides = _C.view_strides(t, (t.numel(),))
    return None if strides is None else t.view(-1)
