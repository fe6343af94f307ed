"""The keyword arguments that make tensors, taken out of those a module was given.

Enters: `**kwargs` of a constructor. Leaves: device, dtype and memory_format, as factories take them.
Refuses anything else.
"""

from __future__ import annotations

from typing import Any

_SIMPLE = ("device", "dtype", "memory_format")


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Those of `kwargs` that factories take, with those under the key "factory_kwargs";
    anything else is a TypeError."""
    if kwargs is None:
        return {}
    unknown = kwargs.keys() - {*_SIMPLE, "factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    result = dict(kwargs.get("factory_kwargs", {}))
    for name in _SIMPLE:
        if name in kwargs:
            if name in result:
                raise TypeError(f"{name} is given twice: as an argument of its own and inside factory_kwargs")
            result[name] = kwargs[name]
    return result
