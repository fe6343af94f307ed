"""cuSPARSELt is not here."""

from __future__ import annotations

__all__ = ["get_max_alg_id", "is_available", "version"]


def version() -> int | None:
    """None."""
    return None


def is_available() -> bool:
    """False."""
    return False


def get_max_alg_id() -> int | None:
    """None."""
    return None
