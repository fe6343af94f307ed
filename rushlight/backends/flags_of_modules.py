"""Switches of backends: attributes of modules that check what is assigned to them, and contexts that put them back.

Enters: assignments such as `backends.cudnn.benchmark = True`. Leaves: the value when asked. Switches of libraries that
are not here are kept and change nothing, so that programs that set them run. Refuses: values of another type than the
switch has, and plain assignment after `disable_global_flags()`.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

_frozen = [False]


def disable_global_flags() -> None:
    """From now on switches change only through `flags(...)` contexts."""
    _frozen[0] = True


def flags_frozen() -> bool:
    """Whether plain assignment to switches is refused."""
    return _frozen[0]


@contextlib.contextmanager
def allow_assignment() -> Iterator[None]:
    """A context in which switches may be set whatever `disable_global_flags` said."""
    before, _frozen[0] = _frozen[0], False
    try:
        yield
    finally:
        _frozen[0] = before


class ContextProp:
    """A switch that is read and set by functions."""

    def __init__(self, getter: Callable[[], Any], setter: Callable[[Any], None]) -> None:
        self.getter, self.setter = getter, setter

    def __get__(self, obj: Any, objtype: Any = None) -> Any:
        return self.getter()

    def __set__(self, obj: Any, val: Any) -> None:
        if flags_frozen():
            raise RuntimeError(
                f"{obj.__name__}: disable_global_flags() forbids setting flags. Use the flags() context manager."
            )
        self.setter(val)


class Switch(ContextProp):
    """A switch that remembers one of a few values, or any of a type, and tells `told`."""

    def __init__(
        self, name: str, value: Any, allowed: Any = bool, told: Callable[[Any], None] | None = None
    ) -> None:
        super().__init__(lambda: self.value, self.assign)
        self.name, self.value, self.allowed, self.told = name, value, allowed, told

    def assign(self, value: Any) -> None:
        if isinstance(self.allowed, tuple):
            if value not in self.allowed:
                raise RuntimeError(f"{self.name} must be one of {', '.join(map(repr, self.allowed))}, got {value!r}")
        elif not isinstance(value, self.allowed):
            raise RuntimeError(f"{self.name} must be of type {self.allowed.__name__}, got {type(value).__name__}")
        self.value = value
        if self.told is not None:
            self.told(value)


class PropModule(types.ModuleType):
    """A module whose class holds its switches."""


def turn_into(name: str, **switches: ContextProp) -> dict[str, ContextProp]:
    """Make the module `name` one with these switches; returns them."""
    module = sys.modules[name]
    module.__class__ = type(f"{name.rpartition('.')[2].title()}Module", (PropModule,), dict(switches))
    return switches


def set_switches(switches: dict[str, ContextProp], values: dict[str, Any]) -> tuple:
    """Set the switches whose value is not None; what all of them had before."""
    before = tuple(switch.getter() for switch in switches.values())
    for name, value in values.items():
        if value is not None:
            switches[name].setter(value)
    return before


@contextlib.contextmanager
def switched(switches: dict[str, ContextProp], values: dict[str, Any]) -> Iterator[None]:
    """A context with other values, whatever is frozen."""
    before = set_switches(switches, {})
    set_switches(switches, values)
    try:
        yield
    finally:
        set_switches(switches, dict(zip(switches, before, strict=True)))


PRECISIONS = ("none", "ieee", "tf32", "bf16")
_precisions: dict[tuple[str, str], str] = {}


def precision_of(backend: str, op: str) -> str:
    """What a program allowed for float32: its own setting, else the backend's, else the general one.
    Kernels keep full precision."""
    for key in ((backend, op), (backend, "all"), ("generic", "all")):
        if _precisions.get(key, "none") != "none":
            return _precisions[key]
    return "none"


def set_precision(backend: str, op: str, value: str) -> None:
    """Allow a precision for float32."""
    if value not in PRECISIONS or (value == "bf16" and backend == "cuda"):
        raise RuntimeError(f"fp32_precision of {backend} {op}: expected one of {', '.join(PRECISIONS)}, got {value!r}")
    _precisions[backend, op] = value


def precision_switch(backend: str, op: str) -> ContextProp:
    """`fp32_precision` of a module."""
    return ContextProp(lambda: precision_of(backend, op), lambda value: set_precision(backend, op, value))


class FP32Precision:
    """`conv`, `matmul` and `rnn` of a backend: each has its own `fp32_precision`."""

    def __init__(self, backend: str, op: str) -> None:
        self.__dict__.update(backend=backend, op=op)

    def __getattr__(self, name: str) -> Any:
        if name == "fp32_precision":
            return precision_of(self.backend, self.op)
        raise AttributeError("Unknown attribute " + name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "fp32_precision":
            raise AttributeError("Unknown attribute " + name)
        set_precision(self.backend, self.op, value)
