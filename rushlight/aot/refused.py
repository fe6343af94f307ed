"""What cannot be captured, in the user's words: what happened, at which line of the program, what to do.

Enters: an exception raised while a program was traced, and its traceback. Leaves: `NotCaptured`.
"""

from __future__ import annotations

import linecache
import os
from types import TracebackType

from ..base.sources import PACKAGE

_PACKAGE = PACKAGE + os.sep


class NotCaptured(RuntimeError):
    """The program does something while it runs that a graph cannot hold."""


class TooOften(NotCaptured):
    """A function was captured as often as it may be."""


def user_line(trace: TracebackType | None) -> str:
    """`file:line: text` of the innermost frame that is not this package's; empty if there is none."""
    found = None
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith((_PACKAGE, "<")):
            found = name, trace.tb_lineno
        trace = trace.tb_next
    if found is None:
        return ""
    text = linecache.getline(*found).strip()
    return f"{found[0]}:{found[1]}" + (f": {text}" if text else "")


def refusal(what: str, error: BaseException, remedy: str) -> NotCaptured:
    """The exception to raise for `error`."""
    line = user_line(error.__traceback__)
    return NotCaptured(f"compile: {what}{f' at {line}' if line else ''}. {remedy}")
