"""`utils.serialization.config`: options of `load` and `save`, set as attributes, or for a block by `patch`.

Enters: names such as "load.mmap" and values. Leaves: the options changed. Refuses names that are no options.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...serialization.options import load, save

_GROUPS = {"load": load, "save": save}


@contextmanager
def patch(arg1: str | dict[str, Any] | None = None, arg2: Any = None, **kwargs: Any) -> Iterator[None]:
    """Set options inside the `with` block: by one name and value, a dict, or keywords."""
    wanted = {arg1: arg2} if isinstance(arg1, str) else dict(arg1 or {}, **kwargs)
    places = []
    for name, value in wanted.items():
        group, _, option = name.partition(".")
        if group not in _GROUPS or not hasattr(_GROUPS[group], option):
            raise AttributeError(f"utils.serialization.config has no option {name!r}")
        places.append((_GROUPS[group], option, getattr(_GROUPS[group], option), value))
    try:
        for holder, option, _, value in places:
            setattr(holder, option, value)
        yield
    finally:
        for holder, option, before, _ in places:
            setattr(holder, option, before)


__all__ = ["load", "patch", "save"]
