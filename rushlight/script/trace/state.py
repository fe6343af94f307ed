"""Whether a program is being traced, and what the tracer warns with. Small: the public face imports it at once."""

from __future__ import annotations

import threading
import warnings
from typing import Any


class TracerWarning(Warning):
    """What a trace cannot know."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Leave out warnings about code of this package."""
        warnings.filterwarnings("ignore", category=TracerWarning, module=r"rushlight.(?!jit)")


class _Current(threading.local):
    recorder: Any = None       # the Recorder that writes down what this thread calls


current = _Current()


def is_tracing() -> bool:
    """Whether the program of this thread is being traced now."""
    return current.recorder is not None and not current.recorder.is_paused
