"""Autocast regions: `with autocast("cpu"):`, or the same as a decorator, and custom functions that respect them.

Enters: a device type, the lower type and whether to keep casts of parameters. Leaves: a region of the thread in which
ops cast their arguments. Refuses: device types without autocasting; types and devices that cannot be used get PyTorch's
warning and a region that casts nothing.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from .._C import Tensor, bfloat16, dtype as _dtype, float16, float64
from ..devices import find, handlers, private_use
from ..dispatch import autocast as _state
from ..dispatch.autocast import is_autocast_available

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]


_F = TypeVar("_F", bound=Callable)


def autocast_decorator(autocast_instance: autocast, func: _F) -> _F:
    """`func` run inside the region."""

    @functools.wraps(func)
    def decorate_autocast(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    decorate_autocast.__script_unsupported = "torch.jit.script cannot compile a function decorated with @autocast()"
    return decorate_autocast


class autocast:  # noqa: N801 - PyTorch's name
    """A region in which ops on `device_type` choose between `dtype` and float32. Regions nest;
    `enabled=False` suspends one.

    Arguments:
        device_type: "cpu", "cuda", …
        dtype: the lower type; None for the device's own
        enabled: whether the region does anything
        cache_enabled: whether weights are turned into the lower type once for the whole region

    Example:
        >>> with rl.autocast("cpu", dtype=rl.bfloat16):
        ...     (rl.ones(2, 3) @ rl.ones(3, 2)).dtype
        rushlight.bfloat16
    """

    def __init__(
        self, device_type: str, dtype: _dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if _state.lower_type(device_type) is None:
            raise RuntimeError(f"autocast: unsupported autocast device_type '{device_type}'")
        self.device = device_type
        supported: Sequence[_dtype] = (bfloat16, float16)
        if device_type == private_use.state.name:
            supported = self._types_of_module()
        elif device_type in handlers and device_type != "cuda":
            supported = _state.lower_types(device_type)
        self.fast_dtype = _state.get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = _state.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = enabled and self._is_usable(supported)
        self._outer: list[tuple[bool, bool, Any]] = []

    def _types_of_module(self) -> Sequence[_dtype]:
        """The types that the module of a back end (PrivateUse1) says it autocasts to."""
        ask = getattr(private_use.modules.get(self.device), "get_amp_supported_dtype", None)
        if ask is None:
            raise AssertionError(
                f"autocast({self.device!r}): the backend has not registered a module, or the module lacks"
                " `get_amp_supported_dtype() -> List[torch.dtype]`. It registers one with"
                " torch._register_device_module."
            )
        return ask()

    def _is_usable(self, supported: Sequence[_dtype]) -> bool:
        if self.device == "cuda" and not find("cuda"):
            warnings.warn("autocast('cuda'): CUDA is not available, so it has no effect.", stacklevel=3)
            return False
        if self.fast_dtype in supported:
            return True
        name = self.device if self.device == private_use.state.name else self.device.upper()
        warnings.warn(
            f"{name} autocast: the target dtype is not supported, so it has no effect.\n"
            f"Pass {' or '.join(f'dtype={each}' for each in supported)}.",
            stacklevel=3,
        )
        return False

    def __enter__(self) -> autocast:
        self._outer.append(
            (
                _state.is_autocast_cache_enabled(),
                _state.is_autocast_enabled(self.device),
                _state.get_autocast_dtype(self.device),
            )
        )
        _state.set_autocast_enabled(self.device, self._enabled)
        _state.set_autocast_dtype(self.device, self.fast_dtype)
        _state.autocast_increment_nesting()
        _state.set_autocast_cache_enabled(self._cache_enabled)
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> Literal[False]:
        if _state.autocast_decrement_nesting() == 0:
            _state.clear_autocast_cache()
        cache_enabled, enabled, dtype = self._outer.pop()
        _state.set_autocast_enabled(self.device, enabled)
        _state.set_autocast_dtype(self.device, dtype)
        _state.set_autocast_cache_enabled(cache_enabled)
        return False

    def __call__(self, func: _F) -> _F:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. As a context manager it is `with"
                " autocast(...):`."
            )
        return autocast_decorator(self, func)


def _enter_autocast(*vals: Any) -> autocast:
    """Open a region that `_exit_autocast` closes."""
    return autocast(*vals).__enter__()


def _exit_autocast(mode: autocast) -> None:
    """Close a region that `_enter_autocast` opened."""
    mode.__exit__(None, None, None)


def _cast(value: Any, device_type: str, dtype: _dtype) -> Any:
    """Floating-point tensors in `value` and its containers in another type; doubles and other devices as they are."""
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype is not float64
        return value.to(dtype) if eligible else value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and type(value).__module__ != "numpy":
        return (_cast(v, device_type, dtype) for v in value)
    return value


def _check_device_type(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def custom_fwd(fwd: Callable | None = None, *, device_type: str, cast_inputs: _dtype | None = None) -> Callable:
    """For `Function.forward`: remember the region's state for `custom_bwd`; with `cast_inputs`,
    cast the inputs and leave the region."""
    _check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args: Any, **kwargs: Any) -> Any:
        context, is_inside = args[0], _state.is_autocast_enabled(device_type)
        context._dtype = _state.get_autocast_dtype(device_type)
        context._fwd_used_autocast = is_inside and cast_inputs is None
        if cast_inputs is None or not is_inside:
            return fwd(*args, **kwargs)
        with autocast(device_type=device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return decorate_fwd


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Callable:
    """For `Function.backward`: run in the state of the region its forward ran in."""
    _check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type=device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd
