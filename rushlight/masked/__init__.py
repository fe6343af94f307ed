"""rushlight.masked: reductions and normalizations that leave elements out, and tensors that carry their mask.

A `mask` holds True where an element counts. The functions take it as `mask=`, or from a `MaskedTensor` that is given in
place of a plain tensor.
"""

from . import rules  # noqa: F401 - what masked tensors do
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
from .tensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor",
    "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median", "norm", "normalize", "prod", "softmax",
    "softmin", "std", "sum", "var",
]
