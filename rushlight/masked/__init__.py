"""rushlight.masked: reductions and normalizations that leave elements out.

A `mask` holds True where an element counts. `MaskedTensor`, PyTorch's prototype of a tensor that carries its mask, is
not supported: keep data and mask apart and pass `mask=` to the functions here.
"""

from typing import Any, NoReturn

from .normalize import log_softmax, logaddexp, normalize, softmax, softmin
from .reduce import (  # noqa: A004
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    logsumexp,
    mean,
    median,
    norm,
    prod,
    std,
    sum,
    var,
)

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor",
    "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median", "norm", "normalize", "prod", "softmax",
    "softmin", "std", "sum", "var",
]


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"masked.{name}: tensors that carry a mask are not supported. Keep the mask apart and pass mask= to the"
        " functions of rushlight.masked."
    )


class MaskedTensor:
    """A tensor with its mask: not supported."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse("MaskedTensor")


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> NoReturn:
    """Not supported."""
    _refuse("masked_tensor")


def as_masked_tensor(data: Any, mask: Any) -> NoReturn:
    """Not supported."""
    _refuse("as_masked_tensor")


def is_masked_tensor(obj: Any, /) -> bool:
    """Always False: there are no masked tensors here."""
    return False
