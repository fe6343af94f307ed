"""Linear maps as layers: Linear, Bilinear, Identity, and the lazy Linear.

Enters: tensors whose last dim is the input features. Leaves: the same with output features. Refuses what
`nn.functional.linear` refuses.
"""

from __future__ import annotations

import math
from typing import Any

from ..._C import Tensor
from ...op import find_op
from .. import functional as F, init
from ..parameter import Parameter, UninitializedParameter
from .descriptions import describe_layers
from .lazy import LazyModuleMixin
from .module import Module

_empty = find_op("empty")


class Identity(Module):
    """Its input, whatever the arguments.

    Arguments:
        *args: ignored
        **kwargs: ignored

    Shape:
        input of any shape; output of the same shape

    Example:
        >>> layer = rl.nn.Identity()
        >>> tuple(layer(rl.ones(2, 3)).shape)
        (2, 3)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """x Wᵀ + b, with W of shape (out_features, in_features).

    Shape:
        input (..., in_features); output (..., out_features)

    Example:
        >>> layer = rl.nn.Linear(3, 2)
        >>> tuple(layer(rl.ones(2, 3)).shape)
        (2, 2)
    """

    __constants__ = ("in_features", "out_features")

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(_empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_empty((out_features,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform over ±1/sqrt(in_features), weight and bias."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight.shape[1]) if self.weight.shape[1] else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear that dynamic quantization leaves alone: MultiheadAttention reads its weight directly."""


class Bilinear(Module):
    """x1ᵀ A x2 + b for every output feature.

    Arguments:
        in1_features: size of each row of the first input
        in2_features: size of each row of the second input

    Shape:
        inputs (..., in1_features) and (..., in2_features); output (..., out_features)

    Example:
        >>> layer = rl.nn.Bilinear(3, 4, 2)
        >>> tuple(layer(rl.ones(5, 3), rl.ones(5, 4)).shape)
        (5, 2)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(_empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(_empty((out_features,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform over ±1/sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that takes in_features from its first input.

    Example:
        >>> layer = rl.nn.LazyLinear(2)
        >>> tuple(layer(rl.ones(2, 3)).shape)
        (2, 2)
    """

    cls_to_become = Linear
    weight: UninitializedParameter
    bias: UninitializedParameter

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)  # the real parameters come with the first input
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Shapes from the first input."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        if self.in_features == 0:
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(f"the input has {input.shape[-1]} features, the "
                                     f"weight {self.weight.shape[-1]}")
            self.in_features = input.shape[-1]


describe_layers(globals())
