"""Activations as layers: each calls the function of its name.

Enters: a tensor. Leaves: the activation of every element (softmaxes: along a dim). Refuses what the function refuses.
MultiheadAttention, which PyTorch keeps here, has a file of its own.

Shape:
    input of any shape; output of the same shape

Example:
    >>> layer = rl.nn.{name}()
    >>> tuple(layer(rl.ones(2, 3)).shape)
    (2, 3)
"""

from __future__ import annotations

import warnings
from typing import Any

from ..._C import Tensor
from ...base import late
from ...op import find_op
from .. import functional as F, init
from ..parameter import Parameter
from .descriptions import describe_layers
from .module import Module
from .settings import settings

_sigmoid, _tanh = find_op("sigmoid"), find_op("tanh")


class _Inplace(Module):
    """An activation whose only setting is whether to overwrite its input."""

    __constants__ = ("inplace",)

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_Inplace):
    """max(x, 0)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu_(input) if self.inplace else F.relu(input)


class SiLU(_Inplace):
    """x sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, inplace=self.inplace)


class Mish(_Inplace):
    """x tanh(softplus(x))."""

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, inplace=self.inplace)


class SELU(_Inplace):
    """ELU scaled so that activations keep mean 0 and variance 1."""

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Hardsigmoid(_Inplace):
    """A sigmoid of three straight lines."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_Inplace):
    """x hardsigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Threshold(Module):
    """x where it exceeds the threshold, `value` elsewhere.

    Arguments:
        threshold: elements up to this are replaced
        value: what replaces elements up to the threshold

    Example:
        >>> layer = rl.nn.Threshold(0.5, 0.0)
        >>> tuple(layer(rl.ones(2, 3)).shape)
        (2, 3)
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return settings(self, "threshold", "value") + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """Leaky ReLU with a slope drawn anew for every element while training.

    Arguments:
        lower: smallest slope
        upper: largest slope
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return settings(self, "lower", "upper") + (", inplace=True" if self.inplace else "")


class Hardtanh(Module):
    """x clamped to [min_val, max_val].

    Arguments:
        min_val: lower bound
        max_val: upper bound
        min_value: old spelling of `min_val`
        max_value: old spelling of `max_val`
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for old, new, given in (("min_value", "min_val", min_value), ("max_value", "max_val", max_value)):
            if given is not None:
                warnings.warn(
                    f"keyword argument `{old}` is deprecated and rename to `{new}`", FutureWarning, stacklevel=2
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if not self.max_val > self.min_val:
            raise AssertionError(f"max_val must be larger than min_val, got {self.max_val} and {self.min_val}")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return settings(self, "min_val", "max_val") + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """x clamped to [0, 6].

    Example:
        >>> layer = rl.nn.ReLU6()
        >>> tuple(layer(rl.ones(2, 3)).shape)
        (2, 3)
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        return _sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        return _tanh(input)


class _Exponential(Module):
    """ELU and CELU: a scale and whether to overwrite the input."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class ELU(_Exponential):
    """x, and alpha (exp(x) - 1) below zero.

    Arguments:
        alpha: scale of the negative part
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Exponential):
    """x, and alpha (exp(x / alpha) - 1) below zero.

    Arguments:
        alpha: scale of the negative part
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class GLU(Module):
    """One half of a dim times the sigmoid of the other.

    Arguments:
        dim: the dimension that is halved

    Shape:
        input with an even size 2 n along dim; output with size n there

    Example:
        >>> layer = rl.nn.GLU()
        >>> tuple(layer(rl.ones(2, 4)).shape)
        (2, 2)
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class GELU(Module):
    """x times the normal distribution function, exactly or by its tanh approximation.

    Arguments:
        approximate: `none`, or `tanh` for the quicker form
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class _Shrink(Module):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x where |x| > lambd, else zero."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards zero by lambd."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class LeakyReLU(Module):
    """x, and a small slope below zero.

    Arguments:
        negative_slope: slope of the negative part
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return settings(self, "negative_slope") + (", inplace=True" if self.inplace else "")


class LogSigmoid(Module):
    """log(sigmoid(x))."""

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softplus(Module):
    """log(1 + exp(beta x)) / beta, linear where that would overflow.

    Arguments:
        beta: how sharp the bend is
        threshold: where it passes into the identity
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return settings(self, "beta", "threshold")


class PReLU(Module):
    """x, and a learned slope below zero, one or one per channel.

    Arguments:
        num_parameters: 1, or the number of channels
        init: where the slopes begin

    Shape:
        input (N, C, ...); output of the same shape
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(find_op("empty")((num_parameters,), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The slope given at construction."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class _AlongDim(Module):
    """A function of all elements along a dim.

    Example:
        >>> layer = rl.nn.{name}(dim=-1)
        >>> tuple(layer(rl.ones(2, 3)).shape)
        (2, 3)
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(_AlongDim):
    """Softmax of -x."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax(_AlongDim):
    """exp(x) scaled to sum 1 along a dim."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """log(softmax(x))."""

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels of images [N, C, H, W] or [C, H, W].

    Shape:
        images (N, C, H, W) or (C, H, W); output of the same shape

    Example:
        >>> layer = rl.nn.Softmax2d()
        >>> tuple(layer(rl.ones(2, 3, 4, 4)).shape)
        (2, 3, 4, 4)
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: input must have 3 or 4 dims, got {input.dim()}")
        return F.softmax(input, -3, _stacklevel=5)


__getattr__, __dir__ = late.names(globals(), {"MultiheadAttention": "multihead"})   # PyTorch keeps it in this file


describe_layers(globals())
