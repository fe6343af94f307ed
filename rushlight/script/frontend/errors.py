"""What the compiler refuses with: a sentence, the lines it is about, and through which calls it came there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from ..source import Range

_calls: list[tuple[str, Range | None]] = []      # functions being compiled, outermost first, and where each was called


class FrontendError(Exception):
    """Syntax that the language does not have."""

    def __init__(self, source_range: Range | None, msg: str) -> None:
        self.source_range, self.msg = source_range, msg
        self.error_report = told(msg, source_range)
        super().__init__(self.error_report)

    def __str__(self) -> str:
        return self.error_report


class NotSupportedError(FrontendError):
    """A form of Python that scripts cannot take."""


class UnsupportedNodeError(NotSupportedError):
    """A whole kind of statement or expression that scripts do not have."""

    def __init__(self, source_range: Range | None, name: str, reason: str = "") -> None:
        super().__init__(source_range, f"{reason or name} aren't supported")


class CompileError(RuntimeError):
    """A program that cannot be typed or resolved."""

    def __init__(self, message: str, at: Range | None = None) -> None:
        self.msg, self.range = message, at
        super().__init__(told(message, at))


@contextmanager
def compiling(name: str, called_from: Range | None) -> Iterator[None]:
    """Within, errors say that `name` is compiled because of a call."""
    _calls.append((name, called_from))
    try:
        yield
    finally:
        _calls.pop()


def told(message: str, at: Range | None) -> str:
    """The sentence, the lines, and for each function on the way where it was called."""
    text = f"{message}:\n{at.highlight()}" if at is not None else message
    for (outer, _), (inner, place) in reversed(list(pairwise(_calls))):
        if place is not None:
            text += f"'{inner}' is being compiled since it was called from '{outer}'\n{place.highlight()}"
    return text
