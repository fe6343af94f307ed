"""Activations, softmaxes and dropouts as scripts."""

# ruff: noqa: UP007, UP045 - annotations as the language reads them
from __future__ import annotations

from typing import Optional

from ..._C import Tensor
from .language import torch


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    return torch.threshold_(input, threshold, value) if inplace else torch.threshold(input, threshold, value)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    return torch.relu_(input) if inplace else torch.relu(input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    if input.dim() == 0:
        raise RuntimeError("glu: a scalar (0 dims) cannot be halved; input needs 1 dim or more")
    return torch.glu(input, dim)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} is above max_val {max_val}")
    return torch.hardtanh_(input, min_val, max_val) if inplace else torch.hardtanh(input, min_val, max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    return torch.relu6_(input) if inplace else torch.relu6(input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return torch.elu_(input, alpha) if inplace else torch.elu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    return torch.selu_(input) if inplace else torch.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return torch.celu_(input, alpha) if inplace else torch.celu(input, alpha)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return torch.leaky_relu_(input, negative_slope) if inplace else torch.leaky_relu(input, negative_slope)


def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False,
          inplace: bool = False) -> Tensor:
    return torch.rrelu_(input, lower, upper, training) if inplace else torch.rrelu(input, lower, upper, training)


def tanhshrink(input: Tensor) -> Tensor:
    return input - input.tanh()


def softsign(input: Tensor) -> Tensor:
    return input / (input.abs() + 1)


def tanh(input: Tensor) -> Tensor:
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    return input.sigmoid()


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    return torch.hardsigmoid_(input) if inplace else torch.hardsigmoid(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    return torch.silu_(input) if inplace else torch.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    return torch.mish_(input) if inplace else torch.mish(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    return torch.hardswish_(input) if inplace else torch.hardswish(input)


def _dim_or_usual(dim: Optional[int], rank: int) -> int:
    """The dim that is given, or the one that calls without get: the channels' of inputs with a batch."""
    if dim is not None:
        return dim
    return 1 if rank == 2 or rank > 3 else 0


def softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    along = _dim_or_usual(dim, input.dim())
    return input.softmax(along) if dtype is None else input.softmax(along, dtype=dtype)


def softmin(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    along = _dim_or_usual(dim, input.dim())
    return (-input).softmax(along) if dtype is None else (-input).softmax(along, dtype=dtype)


def log_softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    along = _dim_or_usual(dim, input.dim())
    return input.log_softmax(along) if dtype is None else input.log_softmax(along, dtype=dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    noise = -torch.empty_like(logits, memory_format=torch.contiguous_format).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    best = soft.max(dim, keepdim=True)[1]
    one_hot = torch.zeros_like(logits, memory_format=torch.contiguous_format).scatter_(dim, best, 1.0)
    return one_hot - soft.detach() + soft      # the value of one_hot, the gradient of soft


def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout: probability p must be between 0 and 1, got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    _check_probability(p)
    return torch.dropout_(input, p, training) if inplace else torch.dropout(input, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    _check_probability(p)
    return torch.alpha_dropout_(input, p, training) if inplace else torch.alpha_dropout(input, p, training)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    _check_probability(p)
    return (torch.feature_alpha_dropout_(input, p, training) if inplace else
            torch.feature_alpha_dropout(input, p, training))


def _channels_dropped(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    return torch.feature_dropout_(input, p, training) if inplace else torch.feature_dropout(input, p, training)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    _check_probability(p)
    if input.dim() != 2 and input.dim() != 3:
        raise RuntimeError(f"dropout1d: input must be 2D (channels first) or 3D, got {input.dim()} dims")
    if input.dim() == 3:
        return _channels_dropped(input, p, training, inplace)
    if inplace:
        return torch.feature_dropout_(input.unsqueeze_(0), p, training).squeeze_(0)
    return torch.feature_dropout(input.unsqueeze(0), p, training).squeeze(0)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    _check_probability(p)
    return _channels_dropped(input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    _check_probability(p)
    return _channels_dropped(input, p, training, inplace)
