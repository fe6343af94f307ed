"""Products with sparse matrices: one generated kernel by rows, and compositions of it.

Enters: sparse and dense matrices. Leaves: dense products (or sparse ones of two sparse factors) with derivatives for
both sides. Refuses: inner sizes that do not agree, and indices that point outside (the kernel checks each one).
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base.shape import sparse_coo, sparse_csr
from ...op import Composite, Library, OpDefinition, Spec, find_op
from ...planners.sparse import product_schedule
from .container import SparseTensor, is_sparse, make, nnz, positions, put_together, rule, sparse_dims, taken, values_of
from .convert import coalesced, compressed_of, to_compressed, to_coo

_WIDE = {_C.float16: _C.float32, _C.bfloat16: _C.float32}


class CsrProduct(Library):
    """A matrix in CSR parts times a dense matrix."""

    schema = "_csr_product(Tensor crow, Tensor col, Tensor values, Tensor dense) -> Tensor"
    function = method = out = False

    def meta(self, crow, col, values, dense):
        return Spec((crow.shape[0] - 1, dense.shape[1]), values.dtype)

    def is_planned(self, args):
        return args[2].dtype not in _WIDE and all(t._is_contiguous() for t in args)

    def launches(self, args):
        crow, col, values, dense = args
        return product_schedule(values.dtype.code, crow.shape[0] - 1, col.shape[0], *dense.shape)

    def on_error(self, args):
        inner = args[3].shape[0]

        def on_error(code: int) -> None:
            what = f"a column index is outside [0, {inner})" if code == 1 else "a row begins or ends outside the values"
            raise IndexError(f"sparse product: {what}. rushlight.sparse.check_sparse_tensor_invariants finds where.")

        return on_error

    def run(self, crow, col, values, dense):
        wide = _WIDE.get(values.dtype, values.dtype)
        result = find_op("_csr_product")(
            *[t.detach().contiguous() for t in (crow, col)],
            values.detach().to(wide).contiguous(),
            dense.detach().to(wide).contiguous(),
        )
        return result.to(values.dtype)

    def vjp(self, g, crow, col, values, dense):
        count = find_op("arange")(col.shape[0], device=col.device)
        row = find_op("searchsorted")(crow, count, right=True) - 1
        grads = {"values": dots(row, col, g, dense.conj())}
        grads["dense"] = pairs_product(col, row, values.conj(), dense.shape[0], g)
        return grads


def dots(row: Any, col: Any, a: Any, b: Any) -> Any:
    """a[row[k]] . b[col[k]] for every k, without conjugation."""
    return (a.index_select(0, row) * b.index_select(0, col)).sum(-1)


def pairs_product(row: Any, col: Any, values: Any, count: int, dense: Any) -> Any:
    """The matrix with `values` at (row, col), in any order, times a dense one."""
    order = row.argsort(stable=True)
    return find_op("_csr_product")(
        compressed_of(row.index_select(0, order), count),
        col.index_select(0, order),
        values.index_select(0, order),
        dense,
    )


def rows_of(t: SparseTensor) -> tuple[Any, Any, Any]:
    """(crow, col, values) of a matrix in any sparse layout."""
    if t._layout is sparse_coo and sparse_dims(t) == 2 and t._sorted:
        row, col = t._index[0].unbind(0)
        return compressed_of(row, t.shape[0]), col, values_of(t)
    t = to_compressed(t, sparse_csr)
    crow, col = (i.to(_C.int64) for i in t._index)
    return crow, col, values_of(t)


def check_sizes(name: str, a: Any, b: Any) -> None:
    """What products of matrices need."""
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(f"{name}: expected matrices, got {a.ndim} and {b.ndim} dims")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{name}: mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and"
            f" {b.shape[0]}x{b.shape[1]}): inner sizes must agree."
        )
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{name}: expected both factors to have the same dtype, but got {a.dtype.name} and {b.dtype.name}"
        )


def times_dense(a: SparseTensor, b: Any) -> Any:
    """sparse @ dense; the gradient of the first has its places only."""
    check_sizes("sparse.mm", a, b)
    return find_op("_csr_product")(*rows_of(a), b)


class DenseGradientProduct(OpDefinition):
    """sparse @ dense, with a dense gradient for the sparse factor as `mm` has it."""

    schema = "_sparse_dense_product(Tensor sparse, Tensor dense) -> Tensor"
    function = method = out = False

    def run(self, sparse, dense):
        return times_dense(sparse.detach(), dense.detach())

    def vjp(self, g, sparse, dense):
        transposed = sparse.transpose(0, 1)
        transposed = transposed.conj() if sparse.is_complex() else transposed
        return {"sparse": g @ dense.mH, "dense": times_dense(transposed, g)}


def times_sparse(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """sparse @ sparse: every pair of elements that meet, added up by place."""
    check_sizes("sparse.mm", a, b)
    layout = a._layout
    a = coalesced(to_coo(a))
    (row, inner), left = a._index[0].unbind(0), values_of(a)
    crow, col, right = rows_of(b)
    first = crow.index_select(0, inner)
    counts = crow.index_select(0, inner + 1) - first
    element = find_op("repeat_interleave")(find_op("arange")(nnz(a), device=row.device), counts)
    start = counts.cumsum(0) - counts
    other = find_op("arange")(element.shape[0], device=row.device) - (start - first).index_select(0, element)
    values = left.index_select(0, element) * right.index_select(0, other)
    indices = find_op("stack")([row.index_select(0, element), col.index_select(0, other)])
    result = coalesced(put_together(sparse_coo, (a.shape[0], b.shape[1]), (indices,), values))
    return result if layout is sparse_coo else to_compressed(result, layout)


@rule("mm")
def mm(a: Any, b: Any) -> Any:
    check_sizes("mm", a, b)
    if not is_sparse(a) and not is_sparse(b):     # what is sparse in the call is none of the factors
        return find_op("mm")(a, b)
    if not is_sparse(a):
        return mm(b.transpose(0, 1), a.transpose(0, 1)).transpose(0, 1)
    return times_sparse(a, b) if is_sparse(b) else find_op("_sparse_dense_product")(a, b)


@rule("mv")
def mv(a: Any, b: Any) -> Any:
    if b.ndim != 1 or is_sparse(b):
        raise RuntimeError(f"mv: expected a dense vector, got {b.ndim} dims of layout {b.layout}")
    return mm(a, b.unsqueeze(1)).squeeze(1)


@rule("bmm")
def bmm(a: Any, b: Any) -> Any:
    if not is_sparse(a) or is_sparse(b) or a.ndim != 3:
        raise NotImplementedError("bmm: expected a sparse tensor of 3 dims and a dense one")
    return find_op("stack")([mm(x, y) for x, y in zip(a, b, strict=True)])


@rule("matmul", "__matmul__")
def matmul(a: Any, b: Any) -> Any:
    if a.ndim == 2 and b.ndim == 1:
        return mv(a, b)
    if a.ndim == 3 and b.ndim == 3:
        return bmm(a, b)
    return mm(a, b)


@rule("addmm")
def addmm(input: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    if is_sparse(input) and not is_sparse(mat1) and not is_sparse(mat2):
        raise RuntimeError(
            f"addmm: expected a strided input where both factors are strided, got one of layout {input.layout}. Use"
            " to_dense()."
        )
    result = mm(mat1, mat2)
    result = result if alpha == 1 else result * alpha
    if beta == 0:
        return result
    return (input if beta == 1 else input * beta) + result


@rule("linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    result = mm(input, weight.transpose(0, 1))
    return result if bias is None else result + bias


# --- the namespace's own ----------------------------------------------------------------------------------------------


class SparseMm(Composite):
    """Matrix product whose sparse factors get sparse gradients."""

    schema = "_sparse_mm(Tensor sparse, Tensor dense) -> Tensor"
    function = method = out = False

    def compute(self, sparse, dense):
        if not is_sparse(sparse):
            return find_op("mm")(sparse, dense)
        return times_sparse(sparse, dense) if is_sparse(dense) else times_dense(sparse, dense)


REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


class SparseMmReduce(Composite):
    """A CSR matrix times a dense one with another way of combining the products of a row;
    0 for rows without elements."""

    schema = "_sparse_mm_reduce(Tensor sparse, Tensor dense, str reduce) -> Tensor"
    function = method = out = False

    def compute(self, sparse, dense, reduce):
        if reduce not in REDUCTIONS:
            raise RuntimeError(f"sparse.mm: expected reduce 'sum', 'prod', 'mean', 'amax' or 'amin', got {reduce}")
        if not is_sparse(sparse) or sparse._layout is not sparse_csr or is_sparse(dense):
            raise NotImplementedError(
                f"sparse.mm: reduce needs a CSR and a dense matrix, got layouts {sparse.layout} and {dense.layout}"
            )
        check_sizes("sparse.mm", sparse, dense)
        crow, col, values = rows_of(sparse)
        if reduce in ("sum", "mean"):
            result = find_op("_csr_product")(crow, col, values, dense)
            counts = (crow[1:] - crow[:-1]).clamp(min=1).unsqueeze(1)
            return result if reduce == "sum" else (result / counts).to(result.dtype)
        parts = values.unsqueeze(1) * dense.index_select(0, col)
        row = positions(sparse)[0].unsqueeze(1).expand(parts.shape)
        return parts.new_zeros((sparse.shape[0], dense.shape[1])).scatter_reduce(
            0, row, parts, reduce, include_self=False
        )


class SampledAddmm(OpDefinition):
    """beta * input + alpha * (mat1 @ mat2) at the places of a CSR matrix."""

    schema = (
        "_sparse_sampled_addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1.0, Scalar alpha=1.0) -> Tensor"
    )
    function = method = out = False

    def run(self, input, mat1, mat2, beta, alpha):
        if not is_sparse(input) or input._layout is not sparse_csr:
            raise NotImplementedError(f"sparse.sampled_addmm: expected a CSR matrix, got layout {input.layout}")
        check_sizes("sparse.sampled_addmm", mat1, mat2)
        if (mat1.shape[0], mat2.shape[1]) != tuple(input.shape):
            raise RuntimeError(
                f"sparse.sampled_addmm: expected sizes {list(input.shape)} of mat1 @ mat2, got"
                f" {[mat1.shape[0], mat2.shape[1]]}"
            )
        row, col = positions(input)
        result = dots(row, col, mat1.detach(), mat2.detach().transpose(0, 1)) * alpha
        return make(sparse_csr, input.shape, input._index, result + input._held * beta if beta != 0 else result)

    def vjp(self, g, input, mat1, mat2, beta, alpha):
        pattern = input.detach()
        row, col = positions(pattern)
        part = taken(g, pattern)
        part = part * (alpha.conjugate() if isinstance(alpha, complex) else alpha)
        transposed = pairs_product(col, row, part, input.shape[1], mat1.conj())
        return {
            "input": g * beta,
            "mat1": pairs_product(row, col, part, input.shape[0], mat2.mH),
            "mat2": transposed.transpose(0, 1),
        }


def spread_diagonals(diagonals: Any, offsets: Any, shape: tuple[int, int], layout: Any) -> SparseTensor:
    """Rows of `diagonals` on the diagonals that `offsets` name."""
    rows_, cols, values = [], [], []
    for k, offset in enumerate(offsets.tolist()):
        first, last = max(offset, 0), min(shape[1], shape[0] + offset, diagonals.shape[1])
        if first < last:
            col = find_op("arange")(first, last, device=diagonals.device)
            rows_.append(col - offset)
            cols.append(col)
            values.append(diagonals[k, first:last])
    cat = find_op("cat")
    if not values:
        return make(sparse_coo, shape, (offsets.new_zeros((2, 0), dtype=_C.int64),), diagonals.reshape(-1)[:0], True)
    indices = find_op("stack")([cat(rows_), cat(cols)])
    result = put_together(sparse_coo, shape, (indices,), cat(values))
    return result if layout in (None, sparse_coo) else to_compressed(result, layout)
