"""PyTorch's home of dispatch modes, and what wrapper subclasses need around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._C import Tensor
from ..dispatch.modes import TorchDispatchMode, below, disable_dispatch_modes as _disable_current_modes, state

__all__ = [
    "BaseTorchDispatchMode",
    "TorchDispatchMode",
    "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing",
    "transform_subclass",
]


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost active mode of this thread."""
    return state.dispatch_modes[-1] if state.dispatch_modes else None


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """Every active mode of this thread, innermost last."""
    return list(state.dispatch_modes)


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor can be taken apart and put together: it has __tensor_flatten__ and __tensor_unflatten__."""
    return isinstance(t, Tensor) and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """The same for a class."""
    return (
        issubclass(t, Tensor)
        and t is not Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode is active on this thread."""
    return bool(state.dispatch_modes)


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    """Whether a mode is active that does not say it ignores the compiler's own calls."""
    return any(not getattr(type(m), "ignore_compile_internals", bool)() for m in state.dispatch_modes)


def any_torch_dispatch_mode_on_stack() -> bool:
    """Whether a mode is active on this thread."""
    return bool(state.dispatch_modes)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return func(*args, **(kwargs or {}))


def _push_mode(mode: TorchDispatchMode) -> None:
    mode.__enter__()


def _pop_mode(k: Any = None) -> TorchDispatchMode:
    mode = state.dispatch_modes[-1]
    mode.__exit__(None, None, None)
    return mode


def _pop_mode_temporarily(k: Any = None) -> Any:
    """A context without the innermost mode."""
    return below(state.dispatch_modes)


def transform_subclass(
    t: Any, callback: Callable[[str, Any], Any], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """A wrapper tensor like `t` around callback(name, inner) for each tensor inside."""
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    result = type(t).__tensor_unflatten__(
        {name: callback(name, getattr(t, name)) for name in names}, context, outer_size, outer_stride
    )
    assert tuple(result.shape) == tuple(
        outer_size
    ), f"{type(t)}.__tensor_unflatten__ must return shape {tuple(outer_size)}, got {tuple(result.shape)}"
    assert tuple(result.stride()) == tuple(
        outer_stride
    ), f"{type(t)}.__tensor_unflatten__ must return strides {tuple(outer_stride)}, got {tuple(result.stride())}"
    return result


def return_and_correct_aliasing(func: Any, args: tuple, kwargs: dict[str, Any], out: Any) -> Any:
    """What a handler should return: for in-place ops the very argument that was written."""
    return args[0] if func.inplace and args else out


__all__ += ["_disable_current_modes", "_get_current_dispatch_mode", "_get_current_dispatch_mode_stack"]
