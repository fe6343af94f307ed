"""For type checkers."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def not_none(obj: T | None) -> T:
    """`obj`, which must not be None."""
    if obj is None:
        raise TypeError("not_none: expected a value, got None")
    return obj
