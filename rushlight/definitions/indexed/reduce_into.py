"""scatter_reduce: elements combined where an index tensor says, by sum, product, mean, largest or smallest."""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.base.shape import contiguous_format
from rushlight.definitions.reduction.extremes import highest, lowest
from rushlight.op import Composite, find_op, wrap_dim
from rushlight.op.definition import OpDefinition

from .scatter import _AlongDim, picked

MODES = ("sum", "prod", "mean", "amax", "amin")


class ScatterCombine(_AlongDim):
    """One pass of scatter_reduce over a tensor that already holds the starting values."""

    schema = "_scatter_combine(Tensor input, int dim, Tensor index, Tensor src, str mode) -> Tensor"
    function = method = False
    out = False
    inplace = True

    def combine(self, s, old, new, input, dim, index, src, mode):
        if mode == "prod":
            return old * new
        if mode in ("amax", "amin"):
            return (s.maximum if mode == "amax" else s.minimum)(old, new)
        return old + new


def identity(mode: str, code: str) -> Any:
    """The number that a reduction starts from."""
    code = {"f16": "f32", "bf16": "f32"}.get(code, code)
    return (
        {"sum": 0, "mean": 0, "prod": 1}[mode]
        if mode not in ("amax", "amin")
        else (lowest if mode == "amax" else highest)(code)
    )


class ScatterReduce(OpDefinition):
    """Elements of `src` combined into `input` where `index` says; without `include_self` old values do not count."""

    batch = "dim"
    schema = (
        "scatter_reduce(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) ->"
        " Tensor"
    )
    inplace = True

    def run(self, input, dim, index, src, reduce, include_self):
        if reduce not in MODES:
            raise RuntimeError(f"reduce: expected 'sum', 'prod', 'mean', 'amax' or 'amin', got {reduce}")
        out = input if self.is_inplace else input.clone(memory_format=contiguous_format)
        if not include_self:
            out.scatter_(dim, index, identity(reduce, input.dtype.code))
        find_op("_scatter_combine_")(out, dim, index, src, reduce)
        if reduce == "mean":
            counts = members(out, dim, index, src, include_self)
            out.copy_(
                out / counts
                if out.dtype.is_floating_point or out.dtype.is_complex
                else out.div(counts, rounding_mode="floor")
            )
        return out

    def vjp(self, g, input, dim, index, src, reduce, include_self, result):
        if reduce in ("sum", "mean"):
            if reduce == "mean":
                g = g / members(input, dim, index, src, include_self)
            kept, sent = g, picked(g, dim, index, src)
        elif reduce == "prod":
            kept, sent = product_gradients(g, input, dim, index, src, include_self, result)
        else:
            fixed = result.detach()
            mine, theirs = input.detach() == fixed, src.detach() == picked(fixed, dim, index, src)
            shared = g / mine.to(g.dtype).scatter_add(dim, index, theirs.to(g.dtype))
            kept, sent = mine * shared, theirs * picked(shared, dim, index, src)
        if not include_self:
            kept = kept.scatter(dim, index, 0)
        return {"input": kept, "src": sent}


def members(input: Any, dim: int, index: Any, src: Any, include_self: bool) -> Any:
    """How many elements were averaged at each place; 1 where there were none."""
    start = input.detach() * 0
    start = start.zero_() + (1 if include_self else 0)
    ones = src.detach() * 0
    ones = ones.zero_() + 1
    counts = start.scatter_add(dim, index, ones)
    return counts.masked_fill(counts == 0, 1)


def product_gradients(
    g: Any, input: Any, dim: int, index: Any, src: Any, include_self: bool, result: Any
) -> tuple[Any, Any]:
    """Gradients of products, by division; elements that are the only 0 of their product are taken out of it first."""
    safe = input.masked_fill(input.detach() == 0, 1)
    kept = g * safe.scatter_reduce(dim, index, src, "prod", include_self=include_self) / safe
    zero = src.detach() == 0
    zeros = (g.detach() * 0).zero_().scatter_add(dim, index, zero.to(g.dtype))
    single = zero & (picked(zeros, dim, index, src) == 1)
    without = input.scatter_reduce(dim, index, src.masked_fill(single, 1), "prod", include_self=include_self)
    plain = picked(g * result, dim, index, src) / src.masked_fill(zero, 1)
    return kept, picked(g * without, dim, index, src).where(single, plain)


class IndexReduce(Composite):
    """Slices of `source` combined into the slices of `input` that `index` names; see scatter_reduce."""

    schema = (
        "index_reduce(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) ->"
        " Tensor"
    )
    inplace = True

    def compute(self, input, dim, index, source, reduce, include_self):
        if reduce not in ("prod", "mean", "amax", "amin"):
            raise RuntimeError(f"index_reduce: expected reduce 'prod', 'mean', 'amax' or 'amin', got {reduce}")
        if index.ndim > 1:
            raise IndexError(f"index_reduce: expected a vector as index, got {index.ndim} dimensions")
        if index.dtype not in (_C.int64, _C.int32):
            raise IndexError(f"index_reduce(): Expected dtype int32/int64 for index, got {index.dtype.name}")
        if source.dtype is not input.dtype:
            raise RuntimeError(
                f"index_reduce(): self and source must have the same scalar type, got {input.dtype.name} and"
                f" {source.dtype.name}"
            )
        if input.dtype is _C.bool or input.dtype.is_complex:
            raise NotImplementedError(f'"index_reduce" not implemented for {input.dtype.name} tensors')
        dim = wrap_dim("index_reduce", dim, input.ndim)
        self.check(input, dim, index, source)
        if not input.ndim:
            return self.without_dims(input, index, source, reduce, include_self)
        wide = index.reshape([-1 if d == dim else 1 for d in range(input.ndim)]).expand(source.shape)
        call = input.scatter_reduce_ if self.is_inplace else input.scatter_reduce
        return call(dim, wide.to(_C.int64), source, reduce, include_self=include_self)

    def check(self, input: Any, dim: int, index: Any, source: Any) -> None:
        wanted = [index.numel() if d == dim else n for d, n in enumerate(input.shape)] or [index.numel()]
        if list(source.shape or (1,)) != wanted:
            raise RuntimeError(
                f"index_reduce(): expected source of shape {wanted}: that of self {list(input.shape)} with one slice"
                f" per index along dim {dim}, got {list(source.shape)}"
            )

    def without_dims(self, input: Any, index: Any, source: Any, reduce: str, include_self: bool) -> Any:
        result = (
            input.reshape(1)
            .scatter_reduce(0, index.reshape(-1).to(_C.int64), source.reshape(-1), reduce, include_self=include_self)
            .reshape(())
        )
        return input.copy_(result) if self.is_inplace else result
