"""A line on stderr when the program waits: what is being done, once it has taken longer than the user expects.

Enters: words, and a block. Leaves: the block's result; and where it takes longer than RUSHLIGHT_NOTICE seconds, one
line while it runs and one with the whole time at its end. Many short waits that add up to as much say so once. Costs a
waiting thread, so it is for work of milliseconds and more.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from types import TracebackType

from . import environment


def patience() -> float:
    """Seconds before a line is printed; 0 for never."""
    text = environment.get("RUSHLIGHT_NOTICE")
    try:
        return max(float(text), 0.0)
    except ValueError:
        warnings.warn(
            f"RUSHLIGHT_NOTICE: expected a number of seconds, got {text!r}. It is"
            f" {environment.VARIABLES['RUSHLIGHT_NOTICE'].default}.",
            RuntimeWarning,
            stacklevel=2,
        )
        return float(environment.VARIABLES["RUSHLIGHT_NOTICE"].default)


class waiting_for:  # noqa: N801 - reads as a sentence: with waiting_for("kernel add")
    """`with waiting_for("compiling add"):` around work that is quick as a rule."""

    unsaid = 0.0        # seconds of waits too short to be spoken of, in this process
    added_up = False    # and whether their sum was

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        self.start = time.perf_counter()
        self.said = False
        seconds = patience()
        self.timer = threading.Timer(seconds, self.say) if seconds else None
        if self.timer is not None:
            self.timer.daemon = True
            self.timer.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.timer is not None:
            self.timer.cancel()
        taken = time.perf_counter() - self.start
        if self.timer is not None and not self.said and not waiting_for.added_up:
            waiting_for.unsaid += taken
            if waiting_for.unsaid > self.timer.interval:
                waiting_for.added_up = True
                self.print(f"compiling kernels that are used for the first time, {waiting_for.unsaid:.0f} s so far; "
                           "they are kept for later runs")
        if self.said:
            self.print(f"{self.what}: {'done' if error is None else 'failed'} after {taken:.1f} s")

    def say(self) -> None:
        self.said = True
        self.print(f"{self.what}, {time.perf_counter() - self.start:.0f} s so far")

    @staticmethod
    def print(text: str) -> None:
        if sys.stderr is not None:
            print(f"rushlight: {text}", file=sys.stderr, flush=True)
