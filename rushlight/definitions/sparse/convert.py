"""Between layouts: dense to sparse and back, among sparse layouts, and sorting out repeated indices."""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base.shape import sparse_coo, sparse_csc, sparse_csr, strided
from ...op import Composite, OpDefinition, find_op
from .container import (
    BLOCKED,
    BY_ROW,
    COMPRESSED,
    SparseTensor,
    in_blocks,
    is_sparse,
    like,
    make,
    nnz,
    positions,
    put_together,
    rule,
    sparse_dims,
    taken,
    values_of,
)


def flat_places(t: SparseTensor) -> Any:
    """Each element's place among the sparse dims, as one number."""
    at = None
    for index, n in zip(t._index[0].unbind(0), t.shape, strict=False):
        at = index if at is None else at * n + index
    return t._index[0].new_zeros((nnz(t),)) if at is None else at


def unflattened(at: Any, sizes: Any) -> Any:
    """The indices of flat places."""
    rows = []
    for n in reversed(sizes):
        rows.append(at.remainder(n) if n else at)
        at = at.div(n, rounding_mode="floor") if n else at
    return find_op("stack")(rows[::-1]) if rows else at.new_zeros((0, at.shape[0]))


def coalesced(t: SparseTensor) -> SparseTensor:
    """The same tensor with distinct indices in order: values that share a place are added."""
    if t._sorted:
        return t
    own = sparse_dims(t)
    at = flat_places(t)
    order = at.argsort(stable=True)
    distinct, where = find_op("unique_consecutive")(at.index_select(0, order), return_inverse=True)
    values = values_of(t).index_select(0, order)
    if distinct.shape[0] != values.shape[0]:
        values = values.new_zeros((distinct.shape[0], *values.shape[1:])).index_add(0, where, values)
    return put_together(sparse_coo, t.shape, (unflattened(distinct, t.shape[:own]),), values, True)


def to_coo(t: Any, dims: int | None = None) -> SparseTensor:
    """COO form of a dense or sparse tensor; `dims` of a dense one are indexed."""
    if not is_sparse(t):
        dims = t.ndim if dims is None else dims
        if not 0 <= dims <= t.ndim or (dims == 0 and t.ndim):
            raise RuntimeError(f"to_sparse: sparse_dim argument must be in [1,{t.ndim}] range, but {dims} is given")
        held = t.detach() != 0
        for _ in range(t.ndim - dims):
            held = held.any(-1)
        indices = held.nonzero().t().contiguous() if t.ndim else held.reshape(1).nonzero().t()[:0].contiguous()
        values = t[tuple(indices.unbind(0))] if t.ndim else t.reshape(1)
        return put_together(sparse_coo, t.shape, (indices,), values, True)
    if t._layout is sparse_coo:
        return t
    if t._layout in BLOCKED:
        return to_coo(dense_of(t))
    indices = find_op("stack")(list(positions(t)))
    result = put_together(sparse_coo, t.shape, (indices,), values_of(t), t._layout is sparse_csr)
    return result if result._sorted else coalesced(result)


def to_compressed(t: Any, layout: Any, block: Any = None) -> SparseTensor:
    """CSR, CSC, BSR or BSC form of a matrix."""
    if (
        is_sparse(t)
        and t._layout is layout
        and (layout not in BLOCKED or tuple(t._held.shape[1:3]) == tuple(block or t._held.shape[1:3]))
    ):
        return t
    if t.ndim != 2:
        raise RuntimeError(
            f"to_sparse: layout {layout} needs a matrix, got {t.ndim} dims. Batches of compressed matrices are not"
            " supported."
        )
    if layout in BLOCKED:
        return blocked(dense_of(t), layout, block)
    coo = coalesced(to_coo(t))
    if sparse_dims(coo) != 2:
        raise RuntimeError(f"to_sparse: layout {layout} needs 2 sparse dims, got {sparse_dims(coo)}")
    (rows, cols), values = coo._index[0].unbind(0), values_of(coo)
    if layout is sparse_csr:
        return put_together(layout, t.shape, (compressed_of(rows, t.shape[0]), cols.contiguous()), values)
    order = cols.argsort(stable=True)
    index = (compressed_of(cols.index_select(0, order), t.shape[1]), rows.index_select(0, order))
    return put_together(layout, t.shape, index, values.index_select(0, order))


def compressed_of(sorted_index: Any, count: int) -> Any:
    """Where each of `count` rows begins among sorted row numbers, and where the last ends."""
    counted = find_op("arange")(count + 1, device=sorted_index.device)
    return find_op("searchsorted")(sorted_index.contiguous(), counted)


def blocked(dense: Any, layout: Any, block: Any) -> SparseTensor:
    """BSR or BSC form: blocks that hold an element that is not 0."""
    if block is None or len(block) != 2:
        raise RuntimeError(f"to_sparse: layout {layout} needs a blocksize of two numbers, got {block}")
    if any(b < 1 or n % b for n, b in zip(dense.shape, block, strict=True)):
        raise RuntimeError(
            f"to_sparse: tensor sizes {list(dense.shape)} must be divisible by the blocksize {list(block)}"
        )
    blocks = in_blocks(dense, tuple(block))
    held = (blocks.detach() != 0).any(-1).any(-1)
    by_row = layout in BY_ROW
    first, second = (held if by_row else held.t()).nonzero().unbind(1)
    rows, cols = (first, second) if by_row else (second, first)
    return put_together(
        layout,
        dense.shape,
        (compressed_of(first, held.shape[0 if by_row else 1]), second.contiguous()),
        blocks[rows, cols],
    )


def dense_of(t: Any) -> Any:
    """All elements; those not held are 0."""
    if not is_sparse(t):
        return t
    values, at = values_of(t), positions(t)
    if t._layout in BLOCKED:
        block = t._held.shape[1:3]
        rows, cols = t.shape[0] // block[0], t.shape[1] // block[1]
        result = values.new_zeros((rows, cols, *block)).index_put(at, values, True)
        return result.permute(0, 2, 1, 3).reshape(t.shape)
    if not at:
        return values.sum(0)
    return values.new_zeros(tuple(t.shape)).index_put(at, values, True)


class FullDense(OpDefinition):
    """`to_dense` whose gradient has every element, held or not."""

    schema = "_sparse_full_dense(Tensor input) -> Tensor"
    function = method = out = False

    def run(self, input):
        return dense_of(input.detach())

    def vjp(self, g):
        return {"input": to_coo(g)}


class ToDense(Composite):
    """A strided tensor of the same elements."""

    schema = "to_dense(Tensor input, dtype? dtype=None, *, bool? masked_grad=None) -> Tensor"
    function = out = False

    def compute(self, input, dtype, masked_grad):
        result = find_op("_sparse_full_dense")(input) if masked_grad is False and is_sparse(input) else dense_of(input)
        return result if dtype is None else result.to(dtype)


class ToSparse(Composite):
    """A sparse tensor of the same elements."""

    schema = (
        "to_sparse(Tensor input, int sparse_dim) -> Tensor",
        "to_sparse(Tensor input, *, layout? layout=None, int[]? blocksize=None, int? dense_dim=None) -> Tensor",
    )
    function = out = False

    def compute(self, input, *rest):
        if len(rest) == 1:
            return to_coo(input, rest[0])
        layout, block, dense_dim = rest
        if layout is strided:
            raise RuntimeError("to_sparse: expected a sparse layout, got rushlight.strided. Use to_dense().")
        if block is not None and layout not in BLOCKED:
            raise RuntimeError(f"to_sparse: blocksize is for the blocked layouts, got layout {layout}")
        if layout is None or layout is sparse_coo:
            return to_coo(input, None if dense_dim is None else input.ndim - dense_dim)
        if dense_dim:
            raise NotImplementedError("to_sparse: dense dims of compressed layouts are not supported")
        return to_compressed(input, layout, block)


class _ToLayout(Composite):
    function = out = False


class ToSparseCoo(_ToLayout):
    """COO form."""

    schema = "to_sparse_coo(Tensor input) -> Tensor"

    def compute(self, input):
        return to_coo(input)


class ToSparseCsr(_ToLayout):
    """CSR form of a matrix."""

    schema = "to_sparse_csr(Tensor input, int? dense_dim=None) -> Tensor"

    def compute(self, input, dense_dim):
        if dense_dim:
            raise NotImplementedError("to_sparse_csr: dense dims of compressed layouts are not supported")
        return to_compressed(input, sparse_csr)


class ToSparseCsc(_ToLayout):
    """CSC form of a matrix."""

    schema = "to_sparse_csc(Tensor input, int? dense_dim=None) -> Tensor"

    def compute(self, input, dense_dim):
        if dense_dim:
            raise NotImplementedError("to_sparse_csc: dense dims of compressed layouts are not supported")
        return to_compressed(input, sparse_csc)


class ToSparseBsr(_ToLayout):
    """BSR form of a matrix."""

    schema = "to_sparse_bsr(Tensor input, int[] blocksize, int? dense_dim=None) -> Tensor"

    def compute(self, input, blocksize, dense_dim):
        return to_compressed(input, COMPRESSED[2], blocksize)


class ToSparseBsc(_ToLayout):
    """BSC form of a matrix."""

    schema = "to_sparse_bsc(Tensor input, int[] blocksize, int? dense_dim=None) -> Tensor"

    def compute(self, input, blocksize, dense_dim):
        return to_compressed(input, COMPRESSED[3], blocksize)


class SparseMask(Composite):
    """The elements of `input` at the places of a sparse tensor."""

    schema = "sparse_mask(Tensor input, Tensor mask) -> Tensor"
    function = out = False

    def compute(self, input, mask):
        if not is_sparse(mask):
            raise NotImplementedError("sparse_mask: expected a sparse mask, got a strided tensor")
        if input.shape != mask.shape:
            raise RuntimeError(
                f"sparse_mask: operands have incompatible sizes; got {list(input.shape)} and mask {list(mask.shape)}"
            )
        pattern = mask.detach()
        return like(pattern, taken(input, pattern))


class Coalesce(Composite):
    """The same tensor with distinct indices in order."""

    schema = "coalesce(Tensor input) -> Tensor"
    function = out = False

    def compute(self, input):
        if not is_sparse(input) or input._layout is not sparse_coo:
            raise RuntimeError(f"coalesce: expected the layout sparse_coo, got {input.layout}")
        return coalesced(input)


@rule("clone")
def clone(t: Any, memory_format: Any = None) -> SparseTensor:
    return put_together(t._layout, t.shape, tuple(i.clone() for i in t._index), values_of(t).clone(), t._sorted)


@rule("to")
def to(t: Any, *rest: Any) -> Any:
    """Another dtype or device."""
    result = t
    for a in rest:
        if isinstance(a, _C.dtype) and a is not result.dtype:
            result = (
                like(result, values_of(result).to(a))
                if result.requires_grad
                else make(t._layout, t.shape, result._index, result._held.to(a), t._sorted)
            )
        elif isinstance(a, (str, _C.device)) and _C.device(a) != result.device:
            result = put_together(
                t._layout, t.shape, tuple(i.to(a) for i in result._index), values_of(result).to(a), t._sorted
            )
    return result


def empty_of(t: SparseTensor, dtype: Any = None) -> SparseTensor:
    """A sparse tensor of the same kind that holds nothing."""
    values = t._held[:0].to(dtype or t.dtype)
    if t._layout is sparse_coo:
        return make(sparse_coo, t.shape, (t._index[0][:, :0],), values, True)
    return make(t._layout, t.shape, (t._index[0].new_zeros(t._index[0].shape), t._index[1][:0]), values)


@rule("zeros_like", "empty_like")
def zeros_like(
    t: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> SparseTensor:
    return empty_of(t, dtype).requires_grad_(requires_grad)


@rule("zero_")
def zero_(t: Any) -> Any:
    return replace(t, empty_of(t))


@rule("copy_")
def copy_(t: Any, source: Any, non_blocking: bool = False) -> Any:
    if not (is_sparse(t) and is_sparse(source)):
        raise RuntimeError("copy_: expected two dense or two sparse Tensors. Use to_dense() or to_sparse().")
    return replace(t, source.detach().to(t.dtype).clone())


def replace(t: SparseTensor, result: SparseTensor) -> SparseTensor:
    """Let `t` hold what `made` holds: the in-place forms."""
    if t.requires_grad and _C.is_grad_enabled():
        raise RuntimeError("a sparse tensor that requires grad cannot be changed in place")
    if result._layout is not t._layout or result.shape != t.shape or result.dtype is not t.dtype:
        raise RuntimeError(
            f"in place: the result ({result.layout}, {list(result.shape)}, {result.dtype.name}) does not fit the tensor"
            f" ({t.layout}, {list(t.shape)}, {t.dtype.name})"
        )
    t._index, t._held, t._sorted = result._index, result._held, result._sorted
    _C.bump_version(t)
    return t
