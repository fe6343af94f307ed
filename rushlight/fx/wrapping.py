"""`fx.wrap`: the functions and methods that tracing records as one call, in the tables that `patching` reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
_wrapped_methods_to_patch: list[tuple[type, str]] = []


def wrap(fn_or_name: str | Callable) -> str | Callable:
    """At a module's top level: record calls of this function (or builtin, by name) as one node instead of tracing
    through."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("wrap: expected a callable or the name of one")
    name = fn_or_name.__name__ if callable(fn_or_name) else fn_or_name
    caller = inspect.currentframe().f_back
    if caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap: call it at module level, outside any function")
    _wrapped_fns_to_patch[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name
