"""Matrices of two values in four, packed as the tensor cores of GPUs read them, and back.

Enters: a dense matrix of float16, bfloat16 or int8 with at most two nonzeros in each four of a row, or of float32 with
at most one in each two. Leaves: the kept values, half as many, and their places, two bits each, in the order that
CUTLASS has them: rows interwoven in groups, and columns swapped in squares of two. The bits are PyTorch's.
Refuses sizes that the packing cannot hold.
"""

from __future__ import annotations

from typing import Any

from .._C import Tensor, bfloat16, float16, float32, int8, int16, int32, int64
from ..op import find_op

_META = {int8: int32, float16: int16, bfloat16: int16, float32: int16}


def _codes_in(meta_dtype: Any) -> int:
    """How many fours of places an element of the meta matrix holds."""
    return meta_dtype.itemsize * 2


def _calculate_meta_reordering_scatter_offsets(m: int, meta_ncols: int, meta_dtype: Any, device: Any) -> Tensor:
    """Where each element of a meta matrix, row by row, goes."""
    group, weave = (32, 4) if meta_dtype.itemsize == 2 else (16, 2)
    row = find_op("arange")(m, device=device)[:, None].expand(m, meta_ncols)
    column = find_op("arange")(meta_ncols, device=device).expand(m, meta_ncols)
    row = row // group * group + row % 8 * weave + row % group // 8
    swap = column % 2 - row % 2         # 1 at the top right of a square of two, -1 at its bottom left
    row, column = row + swap, column - swap
    return (column // 2 * (2 * m) + row * 2 + column % 2).reshape(-1)


def sparse_semi_structured_from_dense_cutlass(dense: Tensor) -> tuple[Tensor, Tensor]:
    """The kept values of a matrix and the meta matrix of their places."""
    if dense.dim() != 2:
        raise RuntimeError(f"Expected 2-dimensional dense tensor, got {dense.dim()}-dimensional tensor")
    if dense.dtype not in _META:
        raise RuntimeError(f"Invalid datatype {dense.dtype} of dense matrix: expected int8 or a float of 16 or 32 bits")
    meta_dtype = _META[dense.dtype]
    rows, columns = dense.shape
    group, held = 16 if meta_dtype is int32 else 32, _codes_in(meta_dtype)
    if rows % group:
        raise RuntimeError(f"Number of rows of dense matrix {rows} must be divisible by {group}")
    if columns % (4 * held):
        raise RuntimeError(f"Number of columns of dense matrix {columns} must be divisible by {4 * held}")
    pairs = dense.dtype is float32
    parts = dense.reshape(rows, -1, 2 if pairs else 4)
    first, second = _places(parts != 0, pairs)
    if pairs:
        kept = parts.gather(-1, first[..., None] // 2).reshape(rows, columns // 2)
    else:
        kept = parts.gather(-1, find_op("stack")((first, second), -1)).reshape(rows, columns // 2)
    shifts = find_op("arange")(held, device=dense.device) * 4
    meta = ((first + second * 4).reshape(rows, -1, held) * 2**shifts).sum(-1).to(meta_dtype)
    offsets = _calculate_meta_reordering_scatter_offsets(rows, meta.shape[1], meta_dtype, dense.device)
    ordered = find_op("empty_like")(meta).reshape(-1).scatter_(0, offsets, meta.reshape(-1))
    return kept, ordered.reshape(meta.shape)


def _places(nonzero: Tensor, pairs: bool) -> tuple[Tensor, Tensor]:
    """The first and second place kept in each four; a float32 takes two of them."""
    one = nonzero[..., 0]
    two, last = (one, nonzero[..., 1]) if pairs else (nonzero[..., 1], nonzero[..., 3])
    first = find_op("where")(one, 0, find_op("where")(two, 1, 2))
    second = find_op("where")(one & two, 1, find_op("where")(last | ~(one | two), 3, 2))
    return first.to(int64), second.to(int64)


def sparse_semi_structured_to_dense_cutlass(sparse: Tensor, meta_reordered: Tensor) -> Tensor:
    """The dense matrix of kept values and the meta matrix of their places."""
    for name, given in (("sparse", sparse), ("meta", meta_reordered)):
        if given.dim() != 2:
            raise RuntimeError(f"Expected 2-dimensional {name} tensor, got {given.dim()}-dimensional tensor")
    if meta_reordered.device != sparse.device:
        raise RuntimeError(f"Expected meta matrix to be on {sparse.device} device, got {meta_reordered.device}")
    if meta_reordered.dtype not in (int16, int32):
        raise RuntimeError(f"Invalid datatype {meta_reordered.dtype} of meta matrix: expected int16 or int32")
    rows, columns = sparse.shape
    pairs, held = sparse.dtype is float32, _codes_in(meta_reordered.dtype)
    size = 2 if pairs else 4
    if meta_reordered.shape[0] != rows:
        raise RuntimeError(f"Number of rows of meta matrix {meta_reordered.shape[0]} must be {rows}, as of sparse")
    if meta_reordered.shape[1] * size * held != 2 * columns:
        raise RuntimeError(
            f"Number of columns of sparse matrix {columns} different from the"
            f" {meta_reordered.shape[1] * size * held // 2} that the meta matrix is for"
        )
    offsets = _calculate_meta_reordering_scatter_offsets(
        rows, meta_reordered.shape[1], meta_reordered.dtype, sparse.device
    )
    meta = meta_reordered.reshape(-1).gather(0, offsets).reshape(rows, -1, 1).to(int64)
    shifts = find_op("arange")(2 * held, device=sparse.device) * 2
    places = (meta >> shifts & 3).reshape(rows, -1, 2)
    if pairs:
        places = places[..., :1] // 2
    dense = find_op("zeros")((rows, places.shape[1], size), dtype=sparse.dtype, device=sparse.device)
    return dense.scatter_(-1, places, sparse.reshape(places.shape)).reshape(rows, 2 * columns)
