"""Grad modes: whether ops are recorded on this thread. Context managers that also decorate functions.

Enters: a block, a function or a generator. Leaves: the same, run with recording on or off. A decorated generator
switches the mode only while its own code runs, not in its caller between two values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast, overload

from .. import _C

_F = TypeVar("_F", bound=Callable)
CO_GENERATOR = 0x20   # in a code object's flags
is_grad_enabled = _C.is_grad_enabled
is_inference_mode_enabled = _C.is_inference_mode_enabled
_set_grad_enabled, _new = _C._set_grad_enabled, object.__new__      # looked up once: a small network is entered often


def is_generator_function(function: Any) -> bool:
    """As the function of `inspect`, a module too large to import for this."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return bool(code and code.co_flags & CO_GENERATOR)


class ModeContext:
    """A context manager usable as a decorator; `clone` makes a fresh one for every call."""

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exc: Any) -> None:
        raise NotImplementedError

    def clone(self) -> ModeContext:
        return type(self)()

    def __call__(self, original: _F) -> _F:
        if isinstance(original, type):
            raise TypeError(
                f"{type(self).__name__} decorates functions, not classes: decorate {original.__name__}.__init__ or its"
                " methods"
            )
        if is_generator_function(original):
            return cast("_F", self._wrap_generator(original))

        @functools.wraps(original)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return original(*args, **kwargs)

        return cast("_F", within)      # it takes what the original takes

    def _wrap_generator(self, original: Callable) -> Callable:
        @functools.wraps(original)
        def within(*args: Any, **kwargs: Any) -> Any:
            inner = original(*args, **kwargs)
            step, value = inner.send, None
            while True:
                try:
                    with self.clone():
                        result = step(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    value = yield result
                    step = inner.send
                except GeneratorExit:
                    with self.clone():
                        inner.close()
                    raise
                except BaseException as error:
                    value, step = error, inner.throw

        return within


class _Bare(ModeContext):
    """A mode without arguments: `@no_grad` and `@no_grad()` mean the same."""

    @overload
    def __new__(cls, orig_func: None = None) -> Self: ...
    @overload
    def __new__(cls, orig_func: _F) -> _F: ...   # type: ignore[misc]   # a decorated function, not a mode
    def __new__(cls, orig_func: Callable | None = None) -> Any:
        return _new(cls) if orig_func is None else cls()(orig_func)


class _SwitchGrad(_Bare):
    enabled: bool

    def __enter__(self) -> None:
        self.previous = is_grad_enabled()
        _set_grad_enabled(self.enabled)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        _set_grad_enabled(self.previous)


class no_grad(_SwitchGrad):  # noqa: N801 (PyTorch's name)
    """Ops inside are not recorded.

    Arguments:
        orig_func: a function that runs so; None for a block

    Example:
        >>> x = rl.ones(2, requires_grad=True)
        >>> with rl.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    enabled = False


class enable_grad(_SwitchGrad):  # noqa: N801
    """Ops inside are recorded, even within no_grad.

    Arguments:
        orig_func: a function that runs so; None for a block

    Example:
        >>> x = rl.ones(2, requires_grad=True)
        >>> with rl.no_grad(), rl.enable_grad():
        ...     (x * 2).requires_grad
        True
    """

    enabled = True


class set_grad_enabled(ModeContext):  # noqa: N801
    """Turn recording on or off: at once when called, until the end of the block when used with `with`.

    Arguments:
        mode: whether operations are recorded

    Example:
        >>> with rl.set_grad_enabled(False):
        ...     rl.is_grad_enabled()
        False
    """

    def __init__(self, mode: bool) -> None:
        self.previous = _C.is_grad_enabled()
        self.mode = bool(mode)
        _C._set_grad_enabled(self.mode)

    def __enter__(self) -> None:
        _C._set_grad_enabled(self.mode)

    def __exit__(self, *exc: Any) -> None:
        _C._set_grad_enabled(self.previous)

    def __call__(self, original: _F) -> _F:
        _C._set_grad_enabled(self.previous)   # decorating is not yet running
        return super().__call__(original)

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.mode)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"


class inference_mode(ModeContext):  # noqa: N801
    """no_grad, and tensors made inside can never take part in recording: cheaper to make and to write.

    Arguments:
        mode: whether it is on

    Example:
        >>> with rl.inference_mode():
        ...     rl.ones(2).is_inference()
        True
    """

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: _F) -> _F: ...   # type: ignore[misc]   # a decorated function, not a mode
    def __new__(cls, mode: bool | Callable = True) -> Any:
        return super().__new__(cls) if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: bool | Callable = True) -> None:
        self.mode = bool(mode)      # a function has become a decorated one, and does not come here

    def __enter__(self) -> None:
        self.previous = _C.is_inference_mode_enabled(), _C.is_grad_enabled()
        _C._set_inference(self.mode)
        _C._set_grad_enabled(not self.mode)

    def __exit__(self, *exc: Any) -> None:
        inference, grad = self.previous
        _C._set_inference(inference)
        _C._set_grad_enabled(grad)

    def clone(self) -> inference_mode:
        return inference_mode(self.mode)


class set_multithreading_enabled(ModeContext):  # noqa: N801
    """Accepted for compatibility: the engine runs each backward pass on the thread that called it."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: Any) -> None:
        pass

    def clone(self) -> set_multithreading_enabled:
        return set_multithreading_enabled(self.mode)


class enforce_grad_layout_policy(ModeContext):  # noqa: N801 (PyTorch's name)
    """Whether a gradient is laid out as its tensor is. Here it always is: asking for that changes nothing,
    anything else is refused."""

    def __init__(self, enable: bool = True) -> None:
        if not enable:
            raise NotImplementedError(
                "enforce_grad_layout_policy: gradients are laid out as their tensors here, and that cannot be"
                " turned off"
            )
        self.enable = enable

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: Any) -> None:
        pass

    def clone(self) -> enforce_grad_layout_policy:
        return enforce_grad_layout_policy(self.enable)
