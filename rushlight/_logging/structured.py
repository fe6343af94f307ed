"""Stacks as records of the trace hold them: file names are numbers, which a record `str` explains once.

Enters: frames (`traceback.FrameSummary`). Leaves: dicts of line, name, number of the file, and the line's text.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

from ..base.sources import PACKAGE

INTERN_TABLE: dict[str, int] = {}


def intern_string(s: str | None) -> int:
    """The number of a text; -1 for None."""
    if s is None:
        return -1
    if s not in INTERN_TABLE:
        from . import tracing  # noqa: PLC0415 - which asks for stacks

        number = INTERN_TABLE[s] = len(INTERN_TABLE)
        if tracing.trace_log.handlers:
            tracing.write("str", lambda: (s, number), lambda: None, suppress_context=True)
    return INTERN_TABLE[s]


def from_traceback(tb: Sequence[traceback.FrameSummary]) -> list[dict[str, Any]]:
    """Frames as records hold them."""
    return [
        {"line": frame.lineno, "name": frame.name, "filename": intern_string(frame.filename), "loc": frame.line}
        for frame in tb
    ]


def get_user_stack(num_frames: int) -> list[dict[str, Any]]:
    """The innermost frames of the program's own."""
    return from_traceback(user_frames()[-num_frames:])


def user_frames() -> list[traceback.FrameSummary]:
    """The frames of the program, without ours and without those that run it."""
    return [frame for frame in traceback.extract_stack() if _is_users(frame.filename)]


def _is_users(file: str) -> bool:
    return not file.startswith((PACKAGE, "<frozen"))


def get_framework_stack(num_frames: int = 25, cpp: bool = False) -> list[dict[str, Any]]:
    """The innermost frames, ours too. `cpp`: frames of C++ are not known here."""
    return from_traceback(traceback.extract_stack()[:-1][-num_frames:])
