"""Operators and methods of tensors that PyTorch writes in Python, as the ATen ops they call.

Enters: what the program gives them. Leaves: their results, written down. Values of the trace get no names here: to
these functions every tensor is `self`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .aten import call


def rsub(self: Any, other: Any) -> Any:
    return call("rsub", self, other)


def rdiv(self: Any, other: Any) -> Any:
    return call("mul", call("reciprocal", self), other)


def floordiv(self: Any, other: Any) -> Any:
    return call("floor_divide", self, other)


def rfloordiv(self: Any, other: Any) -> Any:
    return call("floor_divide", other, self)


def rpow(self: Any, other: Any) -> Any:
    return call("pow", other, self)


def rmatmul(self: Any, other: Any) -> Any:
    return call("matmul", other, self)


def rmod(self: Any, other: Any) -> Any:
    return call("remainder", other, self)


def split(self: Any, split_size: Any, dim: int = 0) -> Any:
    if isinstance(split_size, (list, tuple)):
        return call("split_with_sizes", self, split_size, dim)
    return call("split", self, split_size, dim)


def norm(self: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The vector norm, and of two dimensions the nuclear one."""
    if p == "fro" and (dim is None or isinstance(dim, int) or len(dim) <= 2):
        return call("linalg_vector_norm", self, 2, _dims(dim), keepdim, dtype=dtype)
    if p == "nuc":
        return call("linalg_matrix_norm", self, "nuc", [0, 1] if dim is None else dim, keepdim, dtype=dtype)
    dims = list(range(self.dim())) if dim is None else _dims(dim)
    return call("linalg_vector_norm", self, p if p != "fro" else 2.0, dims, keepdim, dtype=dtype)


def _dims(dim: Any) -> Any:
    return dim if dim is None or isinstance(dim, (list, tuple)) else [dim]


def unflatten(self: Any, dim: int, sizes: Any) -> Any:
    return call("unflatten", self, dim, sizes)


WRITTEN_IN_PYTHON: dict[str, Callable] = {
    "__rsub__": rsub, "__rdiv__": rdiv, "__rtruediv__": rdiv, "__floordiv__": floordiv, "__rfloordiv__": rfloordiv,
    "__rpow__": rpow, "__rmatmul__": rmatmul, "__rmod__": rmod, "split": split, "unflatten": unflatten, "norm": norm,
}
