"""`__torch_function__` for people: the default of tensor subclasses, and the questions libraries ask about overrides."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from . import _C
from ._C import Tensor
from .autograd.backward import tensor_backward as plain_backward
from .dispatch.dispatcher import ask_overrides, flat, overloaded_types
from .dispatch.modes import DisableTorchFunction, DisableTorchFunctionSubclass, TorchFunctionMode, below, state
from .op import ops

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "TorchFunctionMode", "get_overridable_functions", "handle_torch_function",
    "has_torch_function", "is_tensor_like", "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip


def default_torch_function(cls: type, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
    """Run the op on the tensors as they are; results become instances of the subclass."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return convert(result, cls)


def convert(result: Any, cls: type) -> Any:
    """Tensors in a result as instances of `cls`."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        result = result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        result = type(result)(convert(r, cls) for r in result)
    return result


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether any argument (or an active mode) overrides functions."""
    if state.all_functions_disabled:
        return False
    if state.function_modes:
        return True
    return not state.subclass_functions_disabled and any(_overrides(a) for a in relevant_args)


def _overrides(a: Any) -> bool:
    handler = getattr(type(a), "__torch_function__", None)
    return type(a) is not Tensor and handler is not None and handler is not _C._disabled_torch_function_impl


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Ask the overriding arguments in order, for functions written in Python."""
    owners = [a for a in relevant_args if _overrides(a)]
    ordered = overloaded_types(owners)
    types = tuple(type(a) for a in ordered)
    if state.function_modes:
        with below(state.function_modes) as mode:
            result = mode.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for owner in ordered:
        result = type(owner).__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(f"no implementation found for '{public_api.__module__}.{public_api.__name__}' on types that implement __torch_function__: {[t.__name__ for t in types]}")


def wrap_torch_function(dispatcher: Callable) -> Callable:
    """Decorator: the function goes to overriding arguments, which `dispatcher(*args)` lists."""

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def overridable(func: Callable) -> Callable:
    """Decorator for functions of tensors written in Python: arguments with `__torch_function__`, and modes, may take the call."""

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        owners = [a for a in flat(args) if type(a) is not Tensor and _overrides(a)]
        if owners or state.function_modes:
            answer = ask_overrides(call, owners, args, kwargs)
            if answer is not NotImplemented:
                return answer
        return func(*args, **kwargs)

    return call


def is_tensor_like(inp: Any) -> bool:
    """A tensor, or an object that overrides functions."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def get_overridable_functions() -> dict[Any, list[Callable]]:
    """Every op that subclasses and modes can override, under the type that has its methods."""
    return {Tensor: list(ops.values())}


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether a function is found on Tensor."""
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func


def resolve_name(f: Callable) -> str | None:
    """A readable name of an op or function."""
    return f"torch.{f.__name__}" if hasattr(f, "__name__") else None


def make_wrapper_subclass(
    cls: type, size: Any, *, strides: Any = None, storage_offset: int = 0, memory_format: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False, dispatch_sizes_strides_policy: str | None = None, dispatch_device: bool = False,
    dispatch_layout: bool = False,
) -> Tensor:
    """A subclass instance with sizes and types but no data: the subclass's handlers supply the behaviour."""
    if getattr(cls, "__torch_dispatch__", None) in (None, _C._disabled_torch_function_impl):
        raise RuntimeError(f"{cls.__name__}: _make_wrapper_subclass requires __torch_dispatch__ to be defined")
    if pin_memory:
        raise RuntimeError("_make_wrapper_subclass: pin_memory=True needs a CUDA device, and none is available")
    made = _C.make_wrapper(cls, size, strides, dtype or _C.get_default_dtype(), device, storage_offset)
    return made.requires_grad_() if requires_grad else made


def backward_or_override(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    """`Tensor.backward` where modes or subclasses may want the call."""
    answer = ask_overrides(Tensor.backward, [self], (self, *args), kwargs)
    return plain_backward(self, *args, **kwargs) if answer is NotImplemented else answer


def install() -> None:
    """Give tensors their default `__torch_function__` and the wrapper constructor."""
    _C._autograd_callbacks["tensor_backward"] = backward_or_override
    Tensor.__torch_function__ = classmethod(default_torch_function)
    Tensor.__torch_dispatch__ = _C._disabled_torch_function_impl
    Tensor._make_wrapper_subclass = staticmethod(make_wrapper_subclass)
