"""Stacks as records of the trace hold them: file names are numbers, which a record `str` explains once.

Enters: the frames that run. Leaves: dicts of line, name, number of the file, and the line's text.
"""

from __future__ import annotations

import traceback
from typing import Any

from ..base.sources import PACKAGE
from .tracing import INTERN_TABLE, from_traceback, intern_string

__all__ = ["INTERN_TABLE", "from_traceback", "get_framework_stack", "get_user_stack", "intern_string"]


def get_user_stack(num_frames: int) -> list[dict[str, Any]]:
    """The innermost frames of the program's own."""
    frames = [frame for frame in traceback.extract_stack() if not frame.filename.startswith((PACKAGE, "<frozen"))]
    return from_traceback(frames[-num_frames:])


def get_framework_stack(num_frames: int = 25, cpp: bool = False) -> list[dict[str, Any]]:
    """The innermost frames, ours too. Frames of C++ (`cpp`) are not known here."""
    return from_traceback(traceback.extract_stack()[:-1][-num_frames:])
