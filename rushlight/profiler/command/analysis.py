"""From a recording to findings.

Enters: a recording of the whole run, the machine's peaks, when the program began and ended. Leaves: `Findings`, which
the table, the summary and the page are written of.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .advice import Case, advise, for_line
from .events import Events
from .findings import Findings, LineRow, MemoryUse
from .lines import Line, lines_of
from .peaks import Peaks
from .stacks import collapsed_stacks
from .units import count_text
from .verdicts import Verdicts

LINES = 25


def analysed(
    recording: dict[str, Any], peaks: Peaks, span: tuple[int, int], program: str, outcome: str
) -> Findings:
    """All that is found; `span` is the program's run by the recording's clock, in nanoseconds."""
    events = Events(recording)
    wall_ns = max(span[1] - span[0], 1)
    verdicts = Verdicts(events, peaks)
    ops, share = verdicts.rows(), verdicts.share(wall_ns)
    lines = lines_of(events, verdicts, recording["sources"])
    case = Case(events, verdicts, ops, lines, share, wall_ns / 1e3)
    advice = advise(case)
    dropped = recording.get("dropped", 0)
    notes = (f"{count_text(dropped)} events beyond the limit of a recording are missing.",) if dropped else ()
    return Findings(
        program, outcome, wall_ns / 1e3, peaks, ops, share, memory_use(events, span[0]),
        tuple([line_row(line, for_line(line, advice)) for line in lines[:LINES] if line.time > 0.002 * wall_ns]),
        advice, collapsed_stacks(events), notes,
    )


def line_row(line: Line, advice: str) -> LineRow:
    """A line as it is shown."""
    file = os.path.relpath(line.file)
    return LineRow(
        line.file if file.startswith("..") else file, line.number, line.text, line.time / 1e3, line.calls, line.names,
        line.bound, advice,
    )


def memory_use(events: Events, begin: int) -> MemoryUse:
    """Bytes of tensors over time, of all devices together."""
    taken = events.memory
    order = np.argsort(taken["begin"], kind="stable")
    place = (taken["device"] * 256 + taken["unit"])[order]
    total = taken["total"][order]
    held = np.zeros(len(order), np.int64)
    for one in np.unique(place):
        at = np.flatnonzero(place == one)
        last = np.searchsorted(at, np.arange(len(order)), side="right") - 1
        before = int(total[at[0]] - taken["value"][order][at[0]])
        held += np.where(last >= 0, total[at][np.maximum(last, 0)], before)
    if not len(order):
        return MemoryUse(0, 0)
    moments = (taken["begin"][order] - begin) / 1e3
    steps = list(zip(moments.tolist(), held.tolist(), strict=True))
    return MemoryUse(int(held.max()), int(held[-1]), steps)
