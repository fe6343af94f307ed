"""Tensors of two values in four: packed values and their places, with the products that use them.

Enters: CUDA matrices of at most two nonzeros in each four of a row, or packed parts from anywhere. Leaves: subclasses
of Tensor; products unpack, since no library that multiplies packed matrices is bound here.
Refuses other ops, by name; matrices that are not on CUDA, and cuSPARSELt's own packing, which this version cannot make.
"""

from __future__ import annotations

import warnings
from collections import namedtuple
from typing import Any

from .._C import Tensor, _disabled_torch_function_impl, bfloat16, float8_e4m3fn, float16, float32, int8
from ..base.shape import Size
from ..op import find_op
from ._semi_structured_conversions import (
    sparse_semi_structured_from_dense_cutlass,
    sparse_semi_structured_to_dense_cutlass,
)

__all__ = [
    "SparseSemiStructuredTensor",
    "SparseSemiStructuredTensorCUTLASS",
    "SparseSemiStructuredTensorCUSPARSELT",
    "to_sparse_semi_structured",
]

_SEMI_STRUCTURED_SPARSE_CONFIG = namedtuple(
    "_SEMI_STRUCTURED_SPARSE_CONFIG", "sparse_min_rows sparse_min_cols dense_min_rows dense_min_cols"
)
_PARTS = ("packed", "meta", "packed_t", "meta_t", "compressed_swizzled_bitmask")


class SparseSemiStructuredTensor(Tensor):
    """A matrix of two values in four, as its packed parts; `packed_t` and `meta_t` are those of its transpose."""

    _DEFAULT_ALG_ID: int = 0
    _DTYPE_SHAPE_CONSTRAINTS: dict[Any, Any]
    _FORCE_CUTLASS: bool = False
    _FUSE_TRANSPOSE: bool = False
    _PROTOTYPE_WARNING_SHOWN: bool = False
    BACKEND: str

    @staticmethod
    def __new__(
        cls: Any,
        shape: Any,
        packed: Tensor | None,
        meta: Tensor | None,
        packed_t: Tensor | None,
        meta_t: Tensor | None,
        compressed_swizzled_bitmask: Tensor | None,
        fuse_transpose_cusparselt: bool = False,
        alg_id_cusparselt: int = 0,
        requires_grad: bool = False,
    ) -> Any:
        if not cls._PROTOTYPE_WARNING_SHOWN:
            warnings.warn("SparseSemiStructuredTensor is a prototype in PyTorch and may change.", UserWarning,
                          stacklevel=2)
            cls._PROTOTYPE_WARNING_SHOWN = True
        like = packed if packed is not None else packed_t
        if like is None:
            raise ValueError(f"{cls.__name__}: packed and packed_t are both None; give one of them")
        made: Any = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, Size(shape), device=like.device, dtype=like.dtype, layout=like.layout, requires_grad=requires_grad
        )
        made.packed, made.meta, made.packed_t, made.meta_t = packed, meta, packed_t, meta_t
        made.compressed_swizzled_bitmask = compressed_swizzled_bitmask
        made.fuse_transpose_cusparselt = fuse_transpose_cusparselt
        made.alg_id_cusparselt = alg_id_cusparselt
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"{type(self).__name__}(shape={self.shape})"

    def __tensor_flatten__(self) -> tuple[list[str], tuple[Any, ...]]:
        inner = [name for name in _PARTS if getattr(self, name) is not None]
        this: Any = self
        return inner, (self.shape, this.fuse_transpose_cusparselt, this.alg_id_cusparselt, self.requires_grad)

    @classmethod
    def __tensor_unflatten__(cls, inner_tensors: Any, tensor_meta: Any, outer_size: Any, outer_stride: Any) -> Tensor:
        shape, fuse, algorithm, requires_grad = tensor_meta
        return cls(shape, *(inner_tensors.get(name) for name in _PARTS), fuse, algorithm, requires_grad)

    __torch_function__ = _disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = str(func).split(".")[1]
        rule = _RULES.get(name)
        if rule is None:
            raise NotImplementedError(
                f"{cls.__name__}: no rule for {name}; there are rules for {', '.join(sorted(_RULES))}."
                " Call to_dense() first"
            )
        return rule(*args, **(kwargs or {}))

    def values(self) -> Tensor:
        """The kept values."""
        packed: Any = self.packed  # type: ignore[attr-defined]
        return packed.detach()

    def indices(self) -> Tensor:
        """The places of the kept values, as they are packed."""
        return self.meta  # type: ignore[attr-defined, no-any-return]

    @classmethod
    def _validate_device_dim_dtype_shape(cls, original_tensor: Tensor) -> None:
        """Refuse what cannot be packed."""
        of = "original_tensor"
        if not original_tensor.is_cuda:
            raise RuntimeError(f"{of}.device= {original_tensor.device} is not supported! Only CUDA tensors are"
                               " currently supported.")
        if original_tensor.dim() != 2:
            raise RuntimeError(f"{of}.dim = {original_tensor.dim()} is not supported! Only 2d tensors are.")
        if not original_tensor.is_contiguous():
            raise RuntimeError(f"{of} is not contiguous! Only contiguous tensors are currently supported.")
        if original_tensor.dtype not in cls._DTYPE_SHAPE_CONSTRAINTS:
            raise RuntimeError(f"{of}.dtype {original_tensor.dtype} is not a supported dtype for {cls}!")
        least = cls._DTYPE_SHAPE_CONSTRAINTS[original_tensor.dtype][:2]
        if any(size < unit or size % unit for size, unit in zip(original_tensor.shape, least)):
            raise RuntimeError(f"{of}.shape: expected multiples of {tuple(least)}, neither of them 0,"
                               f" got {tuple(original_tensor.shape)}")

    @classmethod
    def from_dense(cls, original_tensor: Tensor, alg_id: int = 0) -> SparseSemiStructuredTensor:
        """Pack a matrix; subclasses define it."""
        raise NotImplementedError(f"{cls.__name__}.from_dense is not defined")


def to_sparse_semi_structured(
    original_tensor: Tensor, transposed: bool = False, alg_id: int = SparseSemiStructuredTensor._DEFAULT_ALG_ID
) -> SparseSemiStructuredTensor:
    """Pack a CUDA matrix of two values in four."""
    if transposed:
        warnings.warn("transposed is deprecated: only contiguous tensors are packed", FutureWarning, stacklevel=2)
    force = SparseSemiStructuredTensor._FORCE_CUTLASS
    kind = SparseSemiStructuredTensorCUTLASS if force else SparseSemiStructuredTensorCUSPARSELT
    return kind.from_dense(original_tensor, alg_id=alg_id)


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """Packed as CUTLASS reads it: kept values, and a matrix of their places."""

    BACKEND = "cutlass"
    _DTYPE_SHAPE_CONSTRAINTS = {
        int8: _SEMI_STRUCTURED_SPARSE_CONFIG(16, 128, 16, 16),
        float16: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 64, 8, 8),
        bfloat16: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 64, 8, 8),
        float32: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 32, 4, 4),
    }

    @classmethod
    def from_dense(cls, original_tensor: Tensor, alg_id: int = 0) -> SparseSemiStructuredTensorCUTLASS:
        """Pack a CUDA matrix."""
        cls._validate_device_dim_dtype_shape(original_tensor)
        packed, meta = sparse_semi_structured_from_dense_cutlass(original_tensor.detach())
        return cls(original_tensor.shape, packed, meta, None, None, None, requires_grad=original_tensor.requires_grad)

    def to_dense(self) -> Tensor:  # type: ignore[override]
        """The matrix unpacked."""
        this: Any = self
        if this.packed is not None and this.meta is not None:
            return sparse_semi_structured_to_dense_cutlass(this.packed, this.meta)
        if this.packed_t is not None and this.meta_t is not None:
            return sparse_semi_structured_to_dense_cutlass(this.packed_t, this.meta_t).t()
        raise AssertionError("meta and packed must not be None")


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """Packed as cuSPARSELt has it, which only that library makes and reads."""

    BACKEND = "cusparselt"
    _DTYPE_SHAPE_CONSTRAINTS = {
        float8_e4m3fn: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 32, 16, 16),
        int8: _SEMI_STRUCTURED_SPARSE_CONFIG(32, 32, 16, 16),
        float16: _SEMI_STRUCTURED_SPARSE_CONFIG(16, 16, 8, 8),
        bfloat16: _SEMI_STRUCTURED_SPARSE_CONFIG(16, 16, 8, 8),
    }

    @classmethod
    def from_dense(cls, original_tensor: Tensor, alg_id: int = 0) -> SparseSemiStructuredTensorCUSPARSELT:
        """Refuses, after the checks: cuSPARSELt is not bound."""
        cls._validate_device_dim_dtype_shape(original_tensor)
        raise NotImplementedError(
            "SparseSemiStructuredTensorCUSPARSELT: cuSPARSELt is not bound in this version. Set"
            " SparseSemiStructuredTensor._FORCE_CUTLASS = True for the packing of CUTLASS."
        )


def _unpacked(value: Any) -> Any:
    return value.to_dense() if isinstance(value, SparseSemiStructuredTensor) else value


def _product(name: str) -> Any:
    def rule(*args: Any, **kwargs: Any) -> Tensor:
        if sum(isinstance(arg, SparseSemiStructuredTensor) for arg in args) > 1:
            raise ValueError("`SparseSemiStructuredTensor @ SparseSemiStructuredTensor` is not supported")
        return find_op(name)(*map(_unpacked, args), **kwargs)

    return rule


def _rebuilt(tensor: Any, change: Any, requires_grad: bool) -> Tensor:
    parts = [None if getattr(tensor, name) is None else change(getattr(tensor, name)) for name in _PARTS]
    settings = (tensor.fuse_transpose_cusparselt, tensor.alg_id_cusparselt, requires_grad)
    return type(tensor)(tensor.shape, *parts, *settings)


def _transposed(tensor: Any) -> Tensor:
    bits = tensor.compressed_swizzled_bitmask
    return type(tensor)(
        (tensor.shape[1], tensor.shape[0]), tensor.packed_t, tensor.meta_t, tensor.packed, tensor.meta,
        None if bits is None else bits.transpose(0, 1), tensor.fuse_transpose_cusparselt, tensor.alg_id_cusparselt,
    )


_RULES: dict[str, Any] = {
    "detach": lambda tensor: _rebuilt(tensor, lambda part: part, requires_grad=False),
    "clone": lambda tensor, **kwargs: _rebuilt(tensor, lambda part: part.clone(), tensor.requires_grad),
    "t": _transposed,
    **{name: _product(name) for name in ("mm", "matmul", "addmm", "linear")},
}
