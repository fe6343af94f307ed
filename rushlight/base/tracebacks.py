"""Tracebacks of errors that end a program: the user's lines and the message, without the frames of this package.

Enters: an exception nobody caught, in any thread. Leaves: what Python prints of it, less our frames, and one line that
says how many those were. RUSHLIGHT_TRACEBACK=full keeps them. Only the printing changes: the exception itself keeps
every frame, so debuggers (`pdb.pm`), test runners, logging and `except` blocks see all of them.
An error raised by our own frames alone is printed whole.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType

from . import environment
from .sources import PACKAGE

# whose frames are ours: those of the package
_folder = os.path.join(PACKAGE, "")
STARTER = "<frozen runpy>"   # between `rushlight run` and the program


def hidden(trace: TracebackType | None) -> tuple[TracebackType | None, int]:
    """The traceback without our frames, and how many those were. The whole of it if nothing else would be left."""
    kept: list[TracebackType] = []
    ours = 0
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(_folder):
            ours += 1
            if all(known.tb_frame.f_code.co_filename == STARTER for known in kept):
                kept.clear()   # `python -m rushlight run`: what started us is no more the user's than we are
        elif name != STARTER or kept or not ours:
            kept.append(trace)
        trace = trace.tb_next
    shown = None
    for entry in reversed(kept):
        shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown, ours if kept else 0


def users_level() -> int:
    """What `warnings.warn` needs as its stacklevel to show the program's line, whatever lies between of ours."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_folder):
        level, frame = level + 1, frame.f_back
    return level


def chain(error: BaseException | None) -> list[BaseException]:
    """An exception with those that led to it."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and not any(each is known for known in found):
            found.append(each)
            waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]
    return found


def printed(
    error: BaseException, trace: TracebackType | None, print_it: Callable[[TracebackType | None], object]
) -> None:
    """Call `print_it(traceback)` while the exception and its chain are without our frames."""
    if environment.get("RUSHLIGHT_TRACEBACK") == "full":
        print_it(trace)
        return
    whole = [(each, each.__traceback__) for each in chain(error)]
    count = 0
    try:
        for each, frames in whole:
            shown, ours = hidden(frames)
            count += ours
            if ours:
                each.__traceback__ = shown
        print_it(error.__traceback__ if error.__traceback__ is not None else trace)
    finally:
        for each, frames in whole:
            each.__traceback__ = frames
    if count and sys.stderr is not None:
        print(
            f"[{count} frame{'s' if count > 1 else ''} of Rushlight not shown; RUSHLIGHT_TRACEBACK=full shows"
            f" {'them' if count > 1 else 'it'}]",
            file=sys.stderr,
        )


def install() -> None:
    """From now on, in this process. A hook that was there before does the printing."""
    print_main, print_thread = sys.excepthook, threading.excepthook

    def main_hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        printed(error, trace, lambda shown: print_main(kind, error, shown))

    def thread_hook(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is None:
            print_thread(args)
            return
        printed(
            args.exc_value,
            args.exc_traceback,
            lambda shown: print_thread(threading.ExceptHookArgs((args.exc_type, args.exc_value, shown, args.thread))),
        )

    sys.excepthook, threading.excepthook = main_hook, thread_hook
