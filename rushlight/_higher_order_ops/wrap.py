"""Regions of a graph that run in another mode: without gradients, or with other types.

Enters: what the mode is, a graph (or a function of tensors), and tensors. Leaves: what the function returns, a tuple.
While something else is recorded the region is no node of its own: its calls are seen one by one, in its mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._C import Tensor
from ..autograd import set_grad_enabled
from ..base import late
from . import core


class _Wrap(core.HigherOrderOp):
    """An op that calls one function in a mode."""

    function_at = 0          # which argument the function is

    def mode(self, *settings: Any) -> Any:
        """The context that the function runs in."""
        raise NotImplementedError

    def __call__(self, *arguments: Any) -> tuple[Tensor, ...]:
        function: Callable = arguments[self.function_at]
        with self.mode(*arguments[: self.function_at]):
            result = function(*arguments[self.function_at + 1 :])
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)


class WrapWithSetGradEnabled(_Wrap):
    """wrap_with_set_grad_enabled(enabled, function, *tensors)"""

    name = "wrap_with_set_grad_enabled"
    function_at = 1

    def mode(self, enabled: bool) -> Any:
        return set_grad_enabled(enabled)


class WrapWithAutocast(_Wrap):
    """wrap_with_autocast(device_type, dtype, enabled, cache_enabled, function, *tensors)"""

    name = "wrap_with_autocast"
    function_at = 4

    def mode(self, device_type: str, dtype: Any, enabled: bool, cache_enabled: bool) -> Any:
        return late.provided("autocast region")(device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


wrap_with_set_grad_enabled = core.register(WrapWithSetGradEnabled())
wrap_with_autocast = core.register(WrapWithAutocast())
