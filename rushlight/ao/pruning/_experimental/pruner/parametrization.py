"""The parametrization that masks rows of a weight, and the hook that adds the bias of a masked layer."""

from __future__ import annotations

from typing import Any

from ....._C import Tensor
from .....nn import Module
from ...sparsifier.utils import module_contains_param

__all__ = ["BiasHook", "FakeStructuredSparsity", "module_contains_param"]


class FakeStructuredSparsity(Module):
    """Multiplies the rows of a tensor by a mask of one entry per row. The mask is the pruner's: none is saved."""

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        if not isinstance(self.mask, Tensor):
            raise AssertionError(f"mask: expected a Tensor, got {type(self.mask).__name__}")
        if self.mask.shape[0] != x.shape[0]:
            raise AssertionError(f"mask of {self.mask.shape[0]} rows for a tensor of {x.shape[0]}")
        return self.mask.reshape([-1] + [1] * (x.dim() - 1)) * x

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return {}


class BiasHook:
    """A forward hook that adds the module's `_bias` to its output; with `prune_bias`, zero where rows are masked."""

    def __init__(self, parametrization: FakeStructuredSparsity, prune_bias: bool) -> None:
        self.param, self.prune_bias = parametrization, prune_bias

    def __call__(self, module: Any, input: Any, output: Tensor) -> Tensor:
        held = getattr(module, "_bias", None)
        if held is None:
            return output
        bias = held.data
        if self.prune_bias:
            bias[~self.param.mask] = 0
        output += bias.reshape([1, -1] + [1] * (output.dim() - 2))
        return output
