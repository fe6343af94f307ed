"""Frames of Python in a recording: what stood around an event, and the numbers that traces give to frames.

Enters: a log whose rows include frames, functions of C and calls of modules. Leaves: stacks, innermost first, each
made once for all that share it; one line of a flame graph's input; numbers for frames.
"""

from __future__ import annotations

from .activities import PYTHON_KINDS, Kind
from .recording import Log

_PLAIN = str.maketrans(" ;\t\n", "____")


class Stacks:
    """The frames around each row of a log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[int, list[str]] = {-1: []}

    def of(self, row: int) -> list[str]:
        """The names of the frames around a row, innermost first, without the row itself."""
        kind, parent = self._log.kind, self._log.parent
        above = parent[row]
        while above >= 0 and kind[above] not in PYTHON_KINDS:
            above = parent[above]
        return self._from(above)

    def _from(self, frame: int) -> list[str]:
        """A frame and those around it: a loop, since stacks may be deeper than Python's own."""
        log, missing = self._log, []
        while frame not in self._known:
            missing.append(frame)
            frame = log.parent[frame]
            while frame >= 0 and log.kind[frame] not in PYTHON_KINDS:
                frame = log.parent[frame]
        for row in reversed(missing):
            self._known[row] = [log.names[log.name[row]], *self._known[frame]]
            frame = row
        return self._known[frame]


def collapsed(stack: list[str], weight: int) -> str:
    """One line for a flame graph: frames from the outermost in, and what they weigh."""
    return ";".join(entry.translate(_PLAIN) for entry in reversed(stack)) + f" {weight}\n"


def module_number(name: str) -> int:
    """The number at the end of `nn.Module: Linear_0`."""
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdigit() else 0


def numbered_frames(log: Log) -> tuple[dict[int, int], dict[int, int]]:
    """Row of a frame -> its number, from 1 on, and row -> the number of the frame around it (-1: none)."""
    numbers: dict[int, int] = {}
    around: dict[int, int] = {}
    if not {Kind.PYTHON, Kind.PYTHON_CALL, Kind.MODULE} & set(log.kind):
        return numbers, around
    parent = log.parent
    for row, kind in enumerate(log.kind):
        if kind not in PYTHON_KINDS:
            continue
        above = parent[row]
        while above >= 0 and above not in numbers:
            above = parent[above]
        numbers[row] = len(numbers) + 1
        around[row] = numbers[above] if above >= 0 else -1
    return numbers, around
