"""Methods of every tensor that speak of sparse parts; on strided tensors most refuse, by name."""

from __future__ import annotations

from typing import Any

from ...base.shape import sparse_coo
from ...op.registry import install_methods
from .container import BY_ROW, COMPRESSED, is_sparse, nnz, sparse_dims, values_of


def _need(name: str, t: Any, layouts: tuple, kind: str) -> Any:
    if t.layout not in layouts:
        raise RuntimeError(f"{name} expected {kind} tensor layout but got {t.layout}")
    return t


def _sorted_coo(name: str, t: Any) -> Any:
    _need(name, t, (sparse_coo,), "sparse coordinate")
    if not t._sorted:
        raise RuntimeError(f"{name}: the tensor is uncoalesced. Call .coalesce() on it first")
    return t


def indices(self: Any) -> Any:
    """The indices of a coalesced COO tensor, [sparse dims, elements]."""
    return _sorted_coo("indices", self)._index[0]


def values(self: Any) -> Any:
    """The values of a coalesced COO or a compressed tensor."""
    if self.layout is sparse_coo:
        return values_of(_sorted_coo("values", self))
    return values_of(_need("values", self, COMPRESSED, "sparse"))


def _indices(self: Any) -> Any:
    """The indices as they are held."""
    return _need("_indices", self, (sparse_coo,), "sparse coordinate")._index[0]


def _values(self: Any) -> Any:
    """The values as they are held, outside the graph."""
    return _need("_values", self, (sparse_coo, *COMPRESSED), "sparse")._held


def _compressed(name: str, position: int, by_row: bool) -> Any:
    layouts = tuple(x for x in COMPRESSED if (x in BY_ROW) == by_row)

    def method(self: Any) -> Any:
        return _need(name, self, layouts, f"sparse {'row' if by_row else 'column'} compressed")._index[position]

    method.__name__, method.__doc__ = name, f"The {name.replace('_', ' ')} of a compressed tensor."
    return method


def is_coalesced(self: Any) -> bool:
    """Whether the indices of a COO tensor are distinct and in order."""
    return _need("is_coalesced", self, (sparse_coo,), "sparse coordinate")._sorted


def _coalesced_(self: Any, coalesced: bool) -> Any:
    """Say whether the indices are distinct and in order; nothing is checked."""
    _need("_coalesced_", self, (sparse_coo,), "sparse coordinate")._sorted = bool(coalesced)
    return self


def _nnz(self: Any) -> int:
    """How many elements (or blocks) are held."""
    if not is_sparse(self):
        raise NotImplementedError("_nnz: not implemented for strided tensors")
    return nnz(self)


def sparse_dim(self: Any) -> int:
    """How many dims are indexed."""
    return sparse_dims(self) if is_sparse(self) else 0


def dense_dim(self: Any) -> int:
    """How many dims each value has."""
    return self.ndim - sparse_dim(self)


def sparse_resize_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Not supported: sizes of a sparse tensor are fixed."""
    raise NotImplementedError(
        "sparse_resize_: sparse tensors keep their sizes here. Build a new one with sparse_coo_tensor."
    )


METHODS = {
    "indices": indices, "values": values, "_indices": _indices, "_values": _values, "is_coalesced": is_coalesced,
    "_coalesced_": _coalesced_, "crow_indices": _compressed("crow_indices", 0, True),
    "col_indices": _compressed("col_indices", 1, True), "ccol_indices": _compressed("ccol_indices", 0, False),
    "row_indices": _compressed("row_indices", 1, False), "_nnz": _nnz, "sparse_dim": sparse_dim, "dense_dim": dense_dim,
    "_dimI": sparse_dim, "_dimV": dense_dim, "sparse_resize_": sparse_resize_,
    "sparse_resize_and_clear_": sparse_resize_,
}

install_methods(__name__, METHODS)
