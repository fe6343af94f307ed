"""rushlight.signal: tools for signals; `windows` is what it has."""

from . import windows

__all__ = ["windows"]
