"""Which modules a call needs, and which of a failed package were needed first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from .writer import PackagingError


def trace_dependencies(callable: Callable[[Any], Any], inputs: Iterable[tuple[Any, ...]]) -> list[str]:
    """The names of the modules whose functions run while `callable` is called with each of the inputs."""
    seen: set[str] = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and (name := frame.f_globals.get("__name__")):
            seen.add(name)

    try:
        sys.setprofile(note)
        for given in inputs:
            callable(*given)
    finally:
        sys.setprofile(None)
    return list(seen)


def find_first_use_of_broken_modules(exc: PackagingError) -> dict[str, list[str]]:
    """For each module at fault in a package that could not be written, the names that lead to it."""
    if not isinstance(exc, PackagingError):
        raise TypeError(f"find_first_use_of_broken_modules: expected a PackagingError, got {type(exc).__name__}")
    return {name: [name] for name in exc.broken}
