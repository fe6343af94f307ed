"""Modules made without the cost of initial values.

Enters: a module class and its arguments. Leaves: an instance whose parameters are uninitialized memory.
Refuses classes that take no `device`.
"""

from __future__ import annotations

import inspect
from typing import Any

from ..modules.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """An instance on the given device with undefined parameters."""
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError(
            "skip_init: the module's constructor takes no 'device', which is how initialization is skipped"
        )
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **{**kwargs, "device": "meta"}).to_empty(device=device)
