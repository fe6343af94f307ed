"""The fast path of Transformer layers in evaluation: on unless a program switches it off."""

from __future__ import annotations

_is_fastpath_enabled = True


def get_fastpath_enabled() -> bool:
    """Whether layers may take their fast path."""
    return _is_fastpath_enabled


def set_fastpath_enabled(value: bool) -> None:
    """Let layers take their fast path, or not."""
    global _is_fastpath_enabled
    _is_fastpath_enabled = value
