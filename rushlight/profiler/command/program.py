"""A program run to its end, however that comes.

Enters: a function that runs the program. Leaves: an `Ending`: how it ended, in words, and what the process must do to
end the same way. What Python would print of an exception is printed here, at once, by the hook in force, without the
frames of whoever ran the program. Refuses: nothing; `os._exit`, `os.exec…` and signals that kill never come back.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, NoReturn

OUTSIDE = ("runpy",)         # modules that stand between us and the program's first frame


class Ending(NamedTuple):
    """How a program ended."""

    outcome: str
    status: int | str | None = 0        # as sys.exit takes it
    interrupted: bool = False
    left: object = None                 # what the program leaves behind, alive as long as this is

    def leave(self) -> NoReturn:
        """Ends this process as the program ended."""
        if self.interrupted:            # shown already; Python turns it into the signal's own status
            sys.excepthook = lambda *_: None
            raise KeyboardInterrupt
        sys.exit(self.status)


def run(program: Callable[[], object], ours: frozenset[str]) -> Ending:
    """Runs the program and waits for its threads, as the interpreter would. `ours` are the files whose frames come
    before the program's."""
    ours |= {__file__}
    ending = reached(program, ours)
    if ending.interrupted:
        return ending
    waited = reached(wait_for_threads, ours | {threading.__file__})
    return waited if waited.interrupted else ending


def reached(program: Callable[[], object], ours: frozenset[str]) -> Ending:
    """The end that a function comes to."""
    try:
        return Ending("ended", left=program())
    except SystemExit as left:
        return exited(left)
    except KeyboardInterrupt as interrupt:
        show(interrupt, ours)
        return Ending("was interrupted", 130, True, interrupt)
    except BaseException as error:
        show(error, ours)
        return Ending(f"raised {type(error).__name__}", 1, left=error)


def exited(left: SystemExit) -> Ending:
    """The end by sys.exit, whose argument may be a number, nothing, or something to print."""
    code = left.code
    if code is None or code == 0:
        return Ending("ended", left=left)
    outcome = f"exited with status {code}" if isinstance(code, int) else "exited with a message"
    return Ending(outcome, code if isinstance(code, int) else str(code), left=left)


def wait_for_threads() -> None:
    """Threads that are no daemons belong to the program: the interpreter waits for them, and so does the clock."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def show(error: BaseException, ours: frozenset[str]) -> None:
    """Prints an exception as the interpreter would have."""
    sys.stdout.flush()
    sys.excepthook(type(error), error.with_traceback(first_of_program(error.__traceback__, ours)), error.__traceback__)


def first_of_program(trace: TracebackType | None, ours: frozenset[str]) -> TracebackType | None:
    """A traceback from the program's first frame on."""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename not in ours and trace.tb_frame.f_globals.get("__name__") not in OUTSIDE:
            return trace
        trace = trace.tb_next
    return None
