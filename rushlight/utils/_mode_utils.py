"""Small questions about modes."""

from __future__ import annotations

from typing import Any

from ..dispatch.modes import disable_dispatch_modes as no_dispatch

__all__ = ["all_same_mode", "no_dispatch"]


def all_same_mode(modes: Any) -> bool:
    """Whether all modes of a sequence are one."""
    return all(mode is modes[0] for mode in modes)
