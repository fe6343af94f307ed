"""Constructors: sparse tensors from index tensors, values and sizes.

Enters: tensors or nested lists. Leaves: sparse tensors, differentiable in values that require grad. Refuses: parts of
sizes that do not fit; with `check_invariants`, also indices out of range or out of order (`check_indices`).
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...base.shape import Size, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from ...op import Composite
from .container import BLOCKED, BY_ROW, COMPRESSED, SparseTensor, make, put_together

always_check = [False]   # one cell: what `sparse.check_sparse_tensor_invariants` switches
_OPTIONS = (
    "dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=False, bool requires_grad=False,"
    " bool? check_invariants=None"
)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """A tensor as it is, or made from numbers."""
    if not isinstance(data, _C.Tensor):
        return _C.from_data(data, dtype, device)
    if device is not None and _C.device(device) != data.device:
        data = data.to(device)
    return data if dtype is None or dtype is data.dtype else data.to(dtype)


def wants_checks(given: bool | None) -> bool:
    return always_check[0] if given is None else given


def finish(layout: Any, size: Any, index: tuple, values: Any, is_sorted: bool, requires_grad: bool) -> SparseTensor:
    """The tensor: a leaf if asked for, else part of the graph of its values."""
    if requires_grad:
        return make(layout, size, index, values, is_sorted).requires_grad_()
    return put_together(layout, size, index, values, is_sorted)


def check_coo(indices: Any, values: Any, size: Any) -> None:
    """Numbers of dims and elements must agree."""
    if indices.ndim != 2:
        raise RuntimeError(f"sparse_coo_tensor: expected indices of shape (sparse_dim, nnz), got {list(indices.shape)}")
    if not values.ndim or indices.shape[1] != values.shape[0]:
        raise RuntimeError(
            f"sparse_coo_tensor: expected as many values as indices (nnz), got {indices.shape[1]} indices, values:"
            f" {values.shape[0] if values.ndim else 0}"
        )
    own, dense = indices.shape[0], values.ndim - 1
    if len(size) != own + dense:
        raise RuntimeError(
            f"sparse_coo_tensor: expected len(size) = sparse_dim + dense_dim = {own} + {dense}, got {len(size)}"
        )
    if tuple(size[own:]) != tuple(values.shape[1:]):
        raise RuntimeError(
            f"sparse_coo_tensor: values has incorrect size, expected {[values.shape[0], *size[own:]]}, got"
            f" {list(values.shape)}"
        )


def check_range(indices: Any, size: Any) -> None:
    """Indices must name elements."""
    if not indices.numel():
        return
    for dim, index in enumerate(indices.unbind(0)):
        low, high = index.min().item(), index.max().item()
        if low < 0:
            raise RuntimeError(f"sparse_coo_tensor: found negative index {low} for dim {dim}")
        if high >= size[dim]:
            raise RuntimeError(
                f"sparse_coo_tensor: size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found"
                f" index {high}"
            )


def smallest_size(indices: Any, values: Any) -> tuple[int, ...]:
    """The sizes that just hold every index."""
    if indices.ndim != 2:
        raise RuntimeError(f"sparse_coo_tensor: expected indices of shape (sparse_dim, nnz), got {list(indices.shape)}")
    if not indices.shape[1]:
        return (0,) * indices.shape[0] + tuple(values.shape[1:])
    check_range(indices, [2**62] * indices.shape[0])
    return (*[index.max().item() + 1 for index in indices.unbind(0)], *values.shape[1:])


class SparseCooTensor(Composite):
    """A tensor in coordinate form: `indices` [sparse dims, elements] and `values` [elements, dense dims...]."""

    schema = (
        f"sparse_coo_tensor(int[] size, *, {_OPTIONS}) -> Tensor",
        (
            f"sparse_coo_tensor.indices(any indices, any values, int[]? size=None, *, {_OPTIONS}, bool?"
            " is_coalesced=None) -> Tensor"
        ),
    )
    method = out = False

    def compute(self, *args):
        if self.spec.params[0].name == "size":
            size, dtype, layout, device, _, requires_grad, _ = args
            indices = _C.empty((len(size), 0), None, _C.int64, _C.device(device or "cpu"))
            values = _C.empty((0,), None, dtype or _C.get_default_dtype(), _C.device(device or "cpu"))
            return make(sparse_coo, Size(size), (indices,), values, True).requires_grad_(requires_grad)
        indices, values, size, dtype, layout, device, _, requires_grad, checks, is_coalesced = args
        if layout is not None and layout is not sparse_coo:
            raise RuntimeError(f"sparse_coo_tensor: expected layout rushlight.sparse_coo, got {layout}")
        values = as_tensor(values, dtype, device)
        indices = as_tensor(indices, None, device or values.device).detach()
        indices = indices if indices.dtype is _C.int64 else indices.to(_C.int64)
        size = smallest_size(indices, values) if size is None else size
        check_coo(indices, values, size)
        if wants_checks(checks):
            check_range(indices, size)
        return finish(sparse_coo, Size(size), (indices,), values, bool(is_coalesced), requires_grad)


# --- compressed -------------------------------------------------------------------------------------------------------


def check_compressed(name: str, layout: Any, compressed: Any, plain: Any, values: Any, size: Any) -> None:
    """Numbers of rows and elements must agree."""
    block = 2 if layout in BLOCKED else 0
    if compressed.ndim > 1 or plain.ndim > 1:
        raise NotImplementedError(
            f"{name}: batches of compressed matrices are not supported, got indices of {compressed.ndim} dims"
        )
    if values.ndim > 1 + block:
        raise NotImplementedError(
            f"{name}: dense dims of compressed layouts are not supported, got values of {values.ndim} dims"
        )
    if compressed.ndim != 1 or plain.ndim != 1 or values.ndim != 1 + block:
        raise RuntimeError(
            f"{name}: indices must have 1 dim and values {1 + block}, got {compressed.ndim}, {plain.ndim} and"
            f" {values.ndim}"
        )
    if compressed.dtype is not plain.dtype or compressed.dtype not in (_C.int32, _C.int64):
        raise RuntimeError(
            f"{name}: indices must be int32 or int64 and of one dtype, got {compressed.dtype.name} and"
            f" {plain.dtype.name}"
        )
    if plain.shape[0] != values.shape[0]:
        raise RuntimeError(
            f"{name}: the indices' length must be equal to nnz (={values.shape[0]}) as defined by values.shape[0], but"
            f" got {plain.shape[0]}"
        )
    if len(size) != 2:
        raise RuntimeError(f"{name}: expected two sizes, got {list(size)}")


def check_order(name: str, layout: Any, compressed: Any, plain: Any, values: Any, size: Any) -> None:
    """Rows must begin in order and their indices be in range, sorted and distinct."""
    first, second = ("crow_indices", "col_indices") if layout in BY_ROW else ("ccol_indices", "row_indices")
    block = tuple(values.shape[1:3]) if layout in BLOCKED else (1, 1)
    grid = [n // b for n, b in zip(size, block, strict=True)]
    rows, cols = grid if layout in BY_ROW else grid[::-1]
    if compressed.shape[0] != rows + 1:
        raise RuntimeError(
            f"{name}: {first} must have {rows + 1} elements for size {list(size)}, got {compressed.shape[0]}"
        )
    if compressed[0].item() != 0:
        raise RuntimeError(f"{name}: `{first}[..., 0] == 0` is not satisfied.")
    if compressed[-1].item() != values.shape[0]:
        raise RuntimeError(f"{name}: `{first}[..., -1] == nnz` is not satisfied.")
    steps = compressed[1:] - compressed[:-1]
    if steps.numel() and (steps.min().item() < 0 or steps.max().item() > cols):
        raise RuntimeError(f"{name}: `0 <= {first}[..., 1:] - {first}[..., :-1] <= {cols}` is not satisfied.")
    if plain.numel() and (plain.min().item() < 0 or plain.max().item() >= cols):
        raise RuntimeError(f"{name}: `0 <= {second} < {cols}` is not satisfied.")
    if plain.shape[0] > 1:
        starts = plain.new_zeros((plain.shape[0] + 1,), dtype=_C.bool).index_fill(0, compressed.to(_C.int64), True)[
            1:-1
        ]
        if not ((plain[1:] > plain[:-1]) | starts).all().item():
            raise RuntimeError(
                f"{name}: `{second}` of each of {first} are sorted and distinct along the last dimension values` is not"
                " satisfied."
            )


def compressed_tensor(
    name: str, layout: Any, compressed: Any, plain: Any, values: Any, size: Any, options: tuple
) -> SparseTensor:
    """CSR, CSC, BSR or BSC from its parts."""
    dtype, given_layout, device, _, requires_grad, checks = options
    if given_layout is not None and given_layout is not layout:
        raise RuntimeError(f"{name}: expected layout {layout}, got {given_layout}")
    values = as_tensor(values, dtype, device)
    compressed, plain = (as_tensor(i, None, device or values.device).detach() for i in (compressed, plain))
    if size is None:
        block = tuple(values.shape[1:3]) if layout in BLOCKED else (1, 1)
        grid = [compressed.shape[-1] - 1, plain.max().item() + 1 if plain.numel() else 0]
        size = [n * b for n, b in zip(grid if layout in BY_ROW else grid[::-1], block, strict=True)]
    check_compressed(name, layout, compressed, plain, values, size)
    if wants_checks(checks):
        check_order(name, layout, compressed, plain, values, size)
    return finish(layout, Size(size), (compressed, plain), values, False, requires_grad)


class SparseCompressedTensor(Composite):
    """A matrix in one of the compressed layouts."""

    schema = (
        "sparse_compressed_tensor(any compressed_indices, any plain_indices, any values, int[]? size=None, *,"
        f" {_OPTIONS}) -> Tensor"
    )
    method = out = False

    def compute(self, compressed_indices, plain_indices, values, size, *options):
        if options[1] not in COMPRESSED:
            raise RuntimeError(f"sparse_compressed_tensor: expected a compressed layout, got {options[1]}")
        return compressed_tensor(
            "sparse_compressed_tensor", options[1], compressed_indices, plain_indices, values, size, options
        )


class _Compressed(Composite):
    method = out = False
    held_layout: Any

    def compute(self, compressed, plain, values, size, *options):
        return compressed_tensor(self.name, self.held_layout, compressed, plain, values, size, options)


class SparseCsrTensor(_Compressed):
    """A matrix by rows: where each row begins, the columns of its elements, and their values."""

    schema = (
        f"sparse_csr_tensor(any crow_indices, any col_indices, any values, int[]? size=None, *, {_OPTIONS}) -> Tensor"
    )
    held_layout = sparse_csr


class SparseCscTensor(_Compressed):
    """A matrix by columns."""

    schema = (
        f"sparse_csc_tensor(any ccol_indices, any row_indices, any values, int[]? size=None, *, {_OPTIONS}) -> Tensor"
    )
    held_layout = sparse_csc


class SparseBsrTensor(_Compressed):
    """A matrix of blocks, by rows of blocks."""

    schema = (
        f"sparse_bsr_tensor(any crow_indices, any col_indices, any values, int[]? size=None, *, {_OPTIONS}) -> Tensor"
    )
    held_layout = sparse_bsr


class SparseBscTensor(_Compressed):
    """A matrix of blocks, by columns of blocks."""

    schema = (
        f"sparse_bsc_tensor(any ccol_indices, any row_indices, any values, int[]? size=None, *, {_OPTIONS}) -> Tensor"
    )
    held_layout = sparse_bsc


class SparseZeros(Composite):
    """A sparse tensor that holds nothing: what `zeros` and `empty` make of a sparse layout."""

    schema = "_sparse_zeros(int[] size, dtype dtype, layout? layout, device device, bool requires_grad) -> Tensor"
    function = method = out = False

    def compute(self, size, dtype, layout, device, requires_grad):
        place = _C.device(device)
        if any(n < 0 for n in size):
            raise RuntimeError(f"zeros: sizes must not be negative, got {list(size)}")
        if layout is sparse_coo:
            index = (_C.empty((len(size), 0), None, _C.int64, place),)
        elif layout in (sparse_csr, sparse_csc) and len(size) == 2:
            index = (
                _C.empty((size[layout is sparse_csc] + 1,), None, _C.int64, place).zero_(),
                _C.empty((0,), None, _C.int64, place),
            )
        else:
            raise RuntimeError(
                f"zeros: layout {layout} of {len(size)} dims is not supported; only strided, COO, CSR and CSC tensors"
                " can be made here"
            )
        return make(layout, Size(size), index, _C.empty((0,), None, dtype, place), True).requires_grad_(requires_grad)
