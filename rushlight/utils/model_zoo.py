"""The former home of `hub.load_state_dict_from_url`."""

from __future__ import annotations

from typing import Any

from .. import hub


def load_url(*args: Any, **kwargs: Any) -> Any:
    """hub.load_state_dict_from_url."""
    return hub.load_state_dict_from_url(*args, **kwargs)


def __getattr__(name: str) -> Any:
    if name in ("load_state_dict_from_url", "tqdm"):
        return getattr(hub, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
