"""rushlight.sparse: functions of sparse tensors that are not methods.

Enters: sparse tensors of any layout (see `definitions/sparse/`). Leaves: sparse or dense tensors whose gradients for
sparse arguments hold the same places as those. `solve`, which needs a GPU, is refused by name.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NoReturn

from .. import _C
from ..base.shape import sparse_coo, sparse_csc, sparse_csr
from ..definitions.sparse.construct import always_check
from ..definitions.sparse.container import SparseTensor
from ..definitions.sparse.products import spread_diagonals
from ..op import find_op

__all__ = [
    "SparseTensor", "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm",
    "sampled_addmm", "softmax", "solve", "spdiags", "sum", "to_sparse_semi_structured",
]
_SEMI_STRUCTURED = frozenset((
    "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT", "SparseSemiStructuredTensorCUTLASS",
    "to_sparse_semi_structured",
))


def mm(mat1: Any, mat2: Any, reduce: str | None = None, *, out: Any = None) -> Any:
    """mat1 @ mat2; with `reduce` (CSR @ dense), the products of a row are combined by sum, mean, amax, amin or prod."""
    if reduce is not None:
        return find_op("_sparse_mm_reduce")(mat1, mat2, reduce)
    return _written("sparse.mm", find_op("_sparse_mm")(mat1, mat2), out)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """beta * mat + alpha * (mat1 @ mat2)."""
    result = mm(mat1, mat2)
    result = result if alpha == 1 else result * alpha
    return (mat if beta == 1 else mat * beta) + result


def sampled_addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0, out: Any = None) -> Any:
    """beta * input + alpha * (mat1 @ mat2) at the places of the CSR matrix `input`."""
    return _written(
        "sparse.sampled_addmm", find_op("_sparse_sampled_addmm")(input, mat1, mat2, beta=beta, alpha=alpha), out
    )


def _written(name: str, result: Any, out: Any) -> Any:
    if out is None:
        return result
    if _C.is_grad_enabled() and (result.requires_grad or out.requires_grad):
        raise RuntimeError(
            f"{name}: out= is not differentiable, and an argument requires grad. Leave out= away, or call it under"
            " no_grad()."
        )
    if isinstance(result, SparseTensor) and out.shape != result.shape:
        raise RuntimeError(f"{name}: expected out of sizes {list(result.shape)}, got {list(out.shape)}")
    return out.resize_(result.shape).copy_(result) if not isinstance(result, SparseTensor) else out.copy_(result)


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:  # noqa: A001
    """The sum over `dim`: sparse while sparse dims are left, else dense."""
    return find_op("_sparse_sum")(input, dim, dtype=dtype)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Softmax along `dim` over the elements held; the others count as minus infinity."""
    return find_op("_sparse_softmax")(input, dim, dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of `softmax`."""
    return find_op("_sparse_log_softmax")(input, dim, dtype)


def spdiags(diagonals: Any, offsets: Any, shape: tuple[int, int], layout: Any = None) -> Any:
    """A sparse matrix with rows of `diagonals` on the diagonals that `offsets` name."""
    if diagonals.ndim > 2 or offsets.ndim > 1:
        raise RuntimeError(
            f"spdiags: diagonals must be a vector or matrix and offsets a number or vector, got {diagonals.ndim} and"
            f" {offsets.ndim} dims"
        )
    diagonals, offsets = diagonals.reshape(-1, diagonals.shape[-1]), offsets.reshape(-1)
    if diagonals.shape[0] != offsets.shape[0]:
        raise RuntimeError(
            f"spdiags: number of diagonals ({diagonals.shape[0]}) does not match the number of offsets"
            f" ({offsets.shape[0]})"
        )
    if offsets.dtype is not _C.int64:
        raise RuntimeError(f"spdiags: offset tensor must have dtype int64, but got {offsets.dtype.name}")
    if len(set(offsets.tolist())) != offsets.shape[0]:
        raise RuntimeError("spdiags: offset tensor contains duplicate values")
    if len(shape) != 2:
        raise RuntimeError(f"spdiags: output shape must be 2-dimensional, got {list(shape)}")
    if layout not in (None, sparse_coo, sparse_csr, sparse_csc):
        raise RuntimeError(
            f"spdiags: only output layouts (sparse_coo, sparse_csc, sparse_csr) are supported, got {layout}"
        )
    return spread_diagonals(diagonals, offsets, tuple(shape), layout)


class check_sparse_tensor_invariants:  # noqa: N801 - PyTorch's name
    """Context manager and decorator: check indices whenever a sparse tensor is made."""

    def __init__(self, enable: bool = True) -> None:
        self.state, self.saved = enable, None

    @staticmethod
    def is_enabled() -> bool:
        return always_check[0]

    @staticmethod
    def enable() -> None:
        always_check[0] = True

    @staticmethod
    def disable() -> None:
        always_check[0] = False

    def __enter__(self) -> None:
        if self.saved is not None:
            raise RuntimeError("check_sparse_tensor_invariants: this context manager is already entered")
        self.saved = always_check[0]
        always_check[0] = self.state

    def __exit__(self, *error: Any) -> None:
        always_check[0], self.saved = self.saved, None

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


def as_sparse_gradcheck(gradcheck: Callable) -> Callable:
    """A gradcheck for functions of sparse tensors: the values of sparse inputs are what is varied."""

    def check(func: Callable, inputs: Any, **kwargs: Any) -> bool:
        kwargs.pop("masked", None)
        inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        parts = [
            t.detach()._values().clone().requires_grad_(t.requires_grad) if isinstance(t, SparseTensor) else t
            for t in inputs
        ]
        like = find_op("_sparse_like")

        def on_values(*given: Any) -> Any:
            result = func(
                *[like(t.detach(), g) if isinstance(t, SparseTensor) else g for t, g in zip(inputs, given, strict=True)]
            )
            dense = [
                m.to_dense() if isinstance(m, SparseTensor) else m
                for m in (result if isinstance(result, (tuple, list)) else (result,))
            ]
            return dense[0] if len(dense) == 1 else tuple(dense)

        return gradcheck(on_values, tuple(parts), **kwargs)

    return check


def solve(*args: Any, **kwargs: Any) -> NoReturn:
    """Not supported."""
    raise NotImplementedError(
        "sparse.solve needs a CUDA device with cuDSS, which this version does not have. Use linalg.solve on to_dense()."
    )


def __getattr__(name: str) -> Any:
    """The semi-structured tensors, read when they are asked for."""
    if name in _SEMI_STRUCTURED:
        return getattr(importlib.import_module(f"{__name__}.semi_structured"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
