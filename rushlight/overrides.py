"""`torch.overrides`: `__torch_function__` for people. The protocol and the modes stand in `dispatch.overrides`, the
lists of functions in `dispatch.overridable`."""

from .dispatch.modes import DisableTorchFunction, DisableTorchFunctionSubclass, TorchFunctionMode
from .dispatch.overridable import (
    get_default_nowrap_functions,
    get_ignored_functions,
    get_overridable_functions,
    get_testing_overrides,
    is_tensor_method_or_property,
    resolve_name,
)
from .dispatch.overrides import (
    BaseTorchFunctionMode,
    _get_current_function_mode,
    _get_current_function_mode_stack,
    _get_overloaded_args,
    _is_torch_function_mode_enabled,
    _len_torch_function_stack,
    _pop_mode,
    _pop_mode_temporarily,
    _push_mode,
    enable_reentrant_dispatch,
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    is_tensor_like,
    redispatch_function,
    wrap_torch_function,
)

__all__ = [
    "BaseTorchFunctionMode", "DisableTorchFunction", "DisableTorchFunctionSubclass", "TorchFunctionMode",
    "_get_current_function_mode", "_get_current_function_mode_stack", "_get_overloaded_args",
    "_is_torch_function_mode_enabled", "_len_torch_function_stack", "_pop_mode", "_pop_mode_temporarily", "_push_mode",
    "enable_reentrant_dispatch", "get_default_nowrap_functions", "get_ignored_functions", "get_overridable_functions",
    "get_testing_overrides", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property", "redispatch_function",
    "resolve_name", "wrap_torch_function",
]
