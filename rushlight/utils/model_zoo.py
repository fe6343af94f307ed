"""The former home of `hub.load_state_dict_from_url`."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load_url(*args: Any, **kwargs: Any) -> Any:
    """hub.load_state_dict_from_url."""
    return import_module("...hub", __name__).load_state_dict_from_url(*args, **kwargs)


def __getattr__(name: str) -> Any:
    if name in ("load_state_dict_from_url", "tqdm"):
        return getattr(import_module("...hub", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
