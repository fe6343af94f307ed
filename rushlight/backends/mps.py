"""Apple's Metal is not here."""

from __future__ import annotations

__all__ = ["get_core_count", "get_name", "is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_built() -> bool:
    """False."""
    return False


def is_available() -> bool:
    """False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """False: only asked where Metal is."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """False: only asked where Metal is."""
    return False


def get_name() -> str:
    """Refused: there is no such device."""
    raise RuntimeError("mps.get_name: Metal is not available")


def get_core_count() -> int:
    """Refused: there is no such device."""
    raise RuntimeError("mps.get_core_count: Metal is not available")
