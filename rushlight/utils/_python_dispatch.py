"""PyTorch's home of dispatch modes, and what wrapper subclasses need around them."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..dispatch.modes import TorchDispatchMode, disable_dispatch_modes as _disable_current_modes, state

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass", "return_and_correct_aliasing"]


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost active mode of this thread."""
    return state.dispatch_modes[-1] if state.dispatch_modes else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """Every active mode of this thread, innermost last."""
    return list(state.dispatch_modes)


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor can be taken apart and put together: it has __tensor_flatten__ and __tensor_unflatten__."""
    return isinstance(t, Tensor) and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def return_and_correct_aliasing(func: Any, args: tuple, kwargs: dict[str, Any], out: Any) -> Any:
    """What a handler should return: for in-place ops the very argument that was written."""
    return args[0] if func.inplace and args else out


__all__ += ["_disable_current_modes", "_get_current_dispatch_mode", "_get_current_dispatch_mode_stack"]
