"""The fast path of Transformer layers in evaluation: on unless a program switches it off."""

from __future__ import annotations

from ..nn.modules.inference import FastPath


def get_fastpath_enabled() -> bool:
    """Whether layers may take their fast path."""
    return FastPath.is_enabled


def set_fastpath_enabled(value: bool) -> None:
    """Let layers take their fast path, or not."""
    FastPath.is_enabled = bool(value)
