"""Calls of ATen's ops by name, as the bodies of composite functions make them while a program is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...aten.adapters import ADAPTERS
from ...aten.namespaces import namespace
from ...dispatch.modes import below, state
from .calls import record
from .state import current


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Run an op and write it down."""
    return call_with(name, ADAPTERS.get(name) or getattr(namespace("aten"), name), args, kwargs)


def call_with(name: str, run: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """As above, with the function that computes it."""
    with below(state.function_modes):
        return record(current.recorder, name, args, kwargs, run)  # type: ignore[arg-type]


def size(tensor: Any, dim: int) -> Any:
    """A tensor's size, which the trace follows."""
    with below(state.function_modes):
        return current.recorder.size(tensor, dim)  # type: ignore[union-attr]


def named(tensor: Any, name: str) -> Any:
    """A tensor whose value is called so, unless it has a name."""
    found = current.recorder.known(tensor)
    if found is not None and not found.has_name():
        found.set_debug_name(name)
    return tensor


def ignored(call: Callable[[], Any]) -> Any:
    """What a call answers, unseen by the trace."""
    with below(state.function_modes):
        return call()


def lifted(made: Any, *then: str) -> Any:
    """A tensor made of the program's numbers: a constant, brought to its device and dtype, then through some ops."""
    device, dtype = ignored(lambda: (made.device, made.dtype))
    source = ignored(lambda: made.clone())
    result = call_with("to", lambda *_: made, (source, device, dtype, False, False, None), {})
    for name in then:
        result = call_with(name, lambda tensor: getattr(tensor, name)(), (result,), {})  # noqa: B023
    return result
