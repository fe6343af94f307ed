"""Calls made in a process right after it was forked."""

import os
from collections.abc import Callable

__all__ = ["register_after_fork"]


def register_after_fork(func: Callable[[], object]) -> None:
    """Call `func` in every process forked from this one, before it goes on."""
    os.register_at_fork(after_in_child=func)
