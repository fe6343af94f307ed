"""Modes: handlers that see every op called while they are active on a thread.

Enters: `with mode:`. Leaves: a stack per thread; while a stack is not empty one bit of the thread's mask sends every
call to the dispatcher. A mode's handler runs with the mode itself popped, so what it calls goes to the mode below.
Compiled functions run as they are under modes, but for those that are open: function modes of the program, which are
captured with it, and dispatch modes that say they do not mind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _C
from ..base.homes import is_own
from .keys import ATEN, FUNCTION, MODE


class _State(threading.local):
    def __init__(self) -> None:
        self.function_modes: list[TorchFunctionMode] = []
        self.dispatch_modes: list[TorchDispatchMode] = []
        self.subclass_functions_disabled = False
        self.all_functions_disabled = False
        self.subclass_dispatch_disabled = False


state = _State()


def refresh() -> None:
    """Set or clear the thread's mode bit to match the stacks."""
    keys, excluded = _C.get_thread_keys()
    active = bool(state.function_modes or state.dispatch_modes)
    shown = bool(state.dispatch_modes) and not state.dispatch_modes[-1].own_ops
    asked = any(map(is_open, state.function_modes))
    keys = keys & ~(MODE | ATEN | FUNCTION) | MODE * active | ATEN * shown | FUNCTION * asked
    _C.set_thread_keys(keys, excluded)
    if active:
        _C.open_modes(all(map(is_open, state.function_modes)) and all(map(_is_not_minded, state.dispatch_modes)))


def is_open(mode: TorchFunctionMode) -> bool:
    """Whether capture can look into a mode that sees calls: those of programs, and those of ours that see the same."""
    return mode.sees_programs or not is_own(type(mode))


def _is_not_minded(mode: TorchDispatchMode) -> bool:
    return type(mode).ignore_compile_internals()


class TorchFunctionMode:
    """Override `__torch_function__(self, func, types, args, kwargs)` to see calls before autograd."""

    sees_programs = False     # of a mode of this package: whether it is shown calls as the program writes them

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __torch_function__")

    def __enter__(self) -> Any:
        state.function_modes.append(self)
        refresh()
        return self

    def __exit__(self, *exc: object) -> None:
        state.function_modes.pop()
        refresh()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A new instance, to be used as a context manager."""
        return cls(*args, **kwargs)


class TorchDispatchMode:
    """Override `__torch_dispatch__(self, func, types, args, kwargs)` to see calls below autograd."""

    records = False     # whether it makes a graph of the calls: then every call must be one that holds for all elements
    records_gradients = True     # whether derivatives are part of that graph
    own_ops = False     # whether it is shown our ops as they are; programs' modes see them as calls of ATen's
    keeps_layers = False     # whether it takes recurrent layers as single ops
    fresh: Callable[[Any], Any] | None = None     # what becomes of tensors that the program makes of its own data

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __torch_dispatch__")

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether the mode is part of the framework: then it sees what compiled code calls, and not its program."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Whether functions may run compiled under the mode, which then sees the calls that are left of their ops."""
        return cls.is_infra_mode()

    def __enter__(self) -> Any:
        state.dispatch_modes.append(self)
        refresh()
        return self

    def __exit__(self, *exc: object) -> None:
        state.dispatch_modes.pop()
        refresh()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A new instance, to be used as a context manager."""
        return cls(*args, **kwargs)


@contextmanager
def below(stack: list[Any]) -> Iterator[Any]:
    """The top mode, taken off its stack while its handler runs."""
    mode = stack.pop()
    refresh()
    try:
        yield mode
    finally:
        stack.append(mode)
        refresh()


@contextmanager
def _flag(name: str) -> Iterator[None]:
    before = getattr(state, name)
    setattr(state, name, True)
    try:
        yield
    finally:
        setattr(state, name, before)


def DisableTorchFunctionSubclass() -> Any:  # noqa: N802 - PyTorch's name
    """Context in which subclasses' `__torch_function__` is not asked (modes still are)."""
    return _flag("subclass_functions_disabled")


def DisableTorchFunction() -> Any:  # noqa: N802 - PyTorch's name
    """Context in which neither modes nor subclasses are asked through `__torch_function__`."""
    return _flag("all_functions_disabled")


@contextmanager
def disable_torch_dispatch() -> Iterator[None]:
    """Context in which neither modes nor subclasses are asked through `__torch_dispatch__`: ops go to the kernels."""
    with _flag("subclass_dispatch_disabled"), disable_dispatch_modes():
        yield


@contextmanager
def disable_dispatch_modes() -> Iterator[None]:
    """Context in which no TorchDispatchMode is active on this thread."""
    saved, state.dispatch_modes = state.dispatch_modes, []
    refresh()
    try:
        yield
    finally:
        state.dispatch_modes = saved
        refresh()
