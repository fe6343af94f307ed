"""What distributions are built with: broadcasting of parameters, probabilities and logits, properties computed once.

Enters: numbers and tensors. Leaves: tensors of one shape, dtype and device. Refuses: parameters that are neither, and
lengths that fill no triangle. The names are PyTorch's, which libraries import from here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

from .._C import Tensor
from ..autograd.grad_mode import enable_grad
from ..base.dtype import finfo
from ..base.promotion import default_dtype
from ..base.shape import Size
from ..dispatch.overrides import is_tensor_like
from ..op import find_op
from ..tensors.interop import tensor
from ..tensors.plain_functions import broadcast_tensors

__all__ = [
    "broadcast_all",
    "logits_to_probs",
    "clamp_probs",
    "probs_to_logits",
    "lazy_property",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060
_Number = (int, float, bool)
_arange, _empty = find_op("arange"), find_op("empty")


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """The values as tensors of one shape; numbers take dtype and device of the first tensor, else the default dtype."""
    if all(isinstance(value, Tensor) for value in values):
        shape = values[0].shape
        return values if all(value.shape == shape for value in values) else broadcast_tensors(*values)
    for value in values:
        if not (is_tensor_like(value) or isinstance(value, _Number)):
            raise ValueError("broadcast_all: expected numbers, Tensors or objects with __torch_function__.")
    first = next((value for value in values if isinstance(value, Tensor)), None)
    options = {"dtype": default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
    return broadcast_tensors(*(value if is_tensor_like(value) else tensor(value, **options) for value in values))


def _standard_normal(shape: Sequence[int], dtype: Any, device: Any) -> Tensor:
    return _empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """`value` summed over its last `dim` dims."""
    return value if dim == 0 else value.reshape((*value.shape[:-dim], -1)).sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities: of log odds if binary, else of unnormalised log probabilities along the last dim."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities away from 0 and 1 by the dtype's epsilon."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log odds if binary, else log probabilities; finite."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property:
    """A property computed at the first look, with gradients recorded, and then an attribute of the instance."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def _triangle(size: int, diag: int, device: Any) -> Tensor:
    """True at and below diagonal `diag` of a square matrix."""
    place = _arange(size, device=device)
    return place < place.view(-1, 1) + (diag + 1)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The entries at and below a diagonal, row by row, as the last dim."""
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    return mat[..., _triangle(size, diag, mat.device)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The square matrix with the last dim's entries at and below a diagonal, row by row, and zeros elsewhere."""
    count = vec.shape[-1]
    # The size n solves n^2 + (1 + 2 diag) n - |diag| (diag + 1) = 2 count.
    linear = 1 + 2 * diag
    exact = (-linear + (linear**2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    size = round(exact)
    if abs(size - exact) > finfo(vec.dtype).eps:
        raise ValueError(
            f"the last dimension has {count} elements, which no lower triangular part of a square matrix has."
        )
    mat = vec.new_zeros(Size((*vec.shape[:-1], size, size)))
    mat[..., _triangle(size, diag, vec.device)] = vec
    return mat
