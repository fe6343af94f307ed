"""Sums, norms and softmax of sparse tensors."""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base.shape import sparse_coo
from ...op import Composite, OpDefinition, find_op, wrap_dim
from .container import SparseTensor, is_sparse, like, put_together, rule, sparse_dims, values_of
from .convert import coalesced, to_coo


class Total(OpDefinition):
    """The sum of all elements, whose gradient is dense."""

    schema = "_sparse_total(Tensor input) -> Tensor"
    function = method = out = False

    def run(self, input):
        return input._held.sum()

    def vjp(self, g, input):
        return {"input": g.expand(tuple(input.shape))}


@rule("sum")
def total(t: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """All elements to a dense number, or some dims to what `sparse.sum` makes of them."""
    if dtype is not None and not isinstance(dtype, bool):
        t = t.to(dtype)
    if isinstance(dim, _C.dtype):
        t, dim = t.to(dim), None
    if dim is None or (not isinstance(dim, int) and not len(dim)):
        return find_op("_sparse_total")(t)
    if keepdim:
        raise NotImplementedError("sum: keepdim=True is not supported for sparse tensors")
    return sum_over(t, dim)


def sum_over(t: Any, dim: Any) -> Any:
    """The sum over some dims: sparse while sparse dims are left, else dense."""
    t = to_coo(t)
    own = sparse_dims(t)
    dims = {wrap_dim("sparse.sum", d, t.ndim) for d in ((dim,) if isinstance(dim, int) else dim)}
    values = values_of(t)
    dense = sorted(d - own + 1 for d in dims if d >= own)
    if dense:
        values = values.sum(dense)
    kept = [d for d in range(own) if d not in dims]
    if not kept:
        return values.sum(0)
    size = [n for d, n in enumerate(t.shape) if d not in dims]
    if len(kept) == own:
        return put_together(sparse_coo, size, t._index, values, t._sorted)
    indices = t._index[0].index_select(0, t._index[0].new_tensor(kept))
    return coalesced(put_together(sparse_coo, size, (indices,), values))


class SparseSum(Composite):
    """The sum over `dim`, whose gradient has the places of the input."""

    schema = "_sparse_sum(Tensor input, int[]? dim=None, *, dtype? dtype=None) -> Tensor"
    function = method = out = False

    def compute(self, input, dim, dtype):
        if not is_sparse(input):
            raise RuntimeError(f"sparse.sum expected sparse coordinate tensor layout but got {input.layout}")
        input = input if dtype is None else input.to(dtype)
        return values_of(input).sum() if dim is None else sum_over(input, dim)


@rule("linalg_vector_norm", "norm")
def norm(t: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The norm of all elements."""
    if dim is not None and len(dim) not in (0, t.ndim):
        raise NotImplementedError("norm: sparse tensors have norms over all dims only")
    t = coalesced(t) if t._layout is sparse_coo else t
    result = values_of(t).norm(2 if ord is None or ord == "fro" else ord, dtype=dtype)
    return result.reshape((1,) * t.ndim) if keepdim else result


@rule("any")
def any_(t: Any, *rest: Any) -> Any:
    if rest and rest[0] is not None:
        raise NotImplementedError("any: sparse tensors answer over all dims only")
    return (coalesced(t) if t._layout is sparse_coo else t)._held.any()


def softmax_of(name: str, t: Any, dim: int, dtype: Any, log: bool) -> SparseTensor:
    """Softmax of the held elements along `dim`; those not held count as minus infinity."""
    if not is_sparse(t) or t._layout is not sparse_coo:
        raise NotImplementedError(f"{name}: expected a sparse COO tensor, got layout {t.layout}")
    t = coalesced(t if dtype is None else t.to(dtype))
    dim, own, values = wrap_dim(name, dim, t.ndim), sparse_dims(t), values_of(t)
    if dim >= own:
        return like(t, values.log_softmax(dim - own + 1) if log else values.softmax(dim - own + 1))
    place = None
    for d, index in enumerate(t._index[0].unbind(0)):
        if d != dim:
            place = index if place is None else place * t.shape[d] + index
    place = t._index[0].new_zeros((values.shape[0],)) if place is None else place
    _, row = find_op("unique")(place, return_inverse=True)
    count = int(row.max().item()) + 1 if row.numel() else 0
    shape = (count, *values.shape[1:])
    at = row.reshape(-1, *[1] * (values.ndim - 1)).expand(values.shape)
    top = values.detach().new_full(shape, float("-inf")).scatter_reduce(0, at, values.detach(), "amax")
    shifted = values - top.index_select(0, row)
    power = shifted.exp()
    whole = values.new_zeros(shape).index_add(0, row, power).index_select(0, row)
    return like(t, shifted - whole.log() if log else power / whole)


class SparseSoftmax(Composite):
    """Softmax along `dim` over held elements."""

    schema = "_sparse_softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor"
    function = method = out = False

    def compute(self, input, dim, dtype):
        return softmax_of("sparse.softmax", input, dim, dtype, False)


class SparseLogSoftmax(Composite):
    """log(softmax) along `dim` over held elements."""

    schema = "_sparse_log_softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor"
    function = method = out = False

    def compute(self, input, dim, dtype):
        return softmax_of("sparse.log_softmax", input, dim, dtype, True)
