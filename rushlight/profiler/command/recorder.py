"""The command's own recording, which makes way for recordings of the program's.

Enters: nothing. Leaves: one recording of the whole run. Only one recording runs at a time (csrc/profile.h), and a
program that profiles itself must work as it does alone: when it starts a recording ours stops, what the program
recorded is taken over when it stops, and ours goes on. The parts are joined at the end.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ... import _C, _extras
from ...op import find_op
from .events import Kind
from .parts import joined

SMALLEST = 200
SHAPES, MEMORY, STACK, MODULES, THREADS, KERNELS, SOURCES = 1, 2, 4, 8, 16, 32, 64
FLAGS = SHAPES | MEMORY | STACK | MODULES | THREADS | KERNELS | SOURCES


class Recorder:
    """Records from `start` to `stop`, whatever the program records meanwhile."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []
        self.process = os.getpid()
        self.own_start, self.own_stop = _extras.profile_start, _extras.profile_stop
        self.is_nested = False

    def launch_ns(self) -> float:
        """What a recorded call takes that has next to nothing to do: the middle one of many."""
        ones, add = find_op("ones"), find_op("add")
        x = ones((1,), dtype=_C.float32, device=_C.device("cpu"))
        add(x, x)
        self.own_start(FLAGS & ~(STACK | MODULES))
        try:
            for _ in range(SMALLEST):
                add(x, x)
        finally:
            columns = {k: np.frombuffer(v, np.int64) for k, v in self.own_stop()["columns"].items()}
        is_call = columns["kind"] == Kind.OP
        return float(np.median((columns["end"] - columns["begin"])[is_call]))

    def start(self) -> None:
        """Begins; from here on the program's recordings pass through us."""
        self.own_start(FLAGS)
        _extras.profile_start, _extras.profile_stop = self.nested_start, self.nested_stop

    def stop(self) -> dict[str, Any]:
        """Ends, and tells everything."""
        _extras.profile_start, _extras.profile_stop = self.own_start, self.own_stop
        self.parts.append(self.own_stop())
        return joined(self.parts)

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is a process that the program forked: the recording is the parent's."""
        return os.getpid() != self.process

    def nested_start(self, flags: int) -> None:
        """The program starts a recording: ours ends for now."""
        if not self.is_elsewhere and not self.is_nested:
            self.parts.append(self.own_stop())
            self.is_nested = True
        self.own_start(flags)

    def nested_stop(self) -> dict[str, Any]:
        """The program's recording ends: it is ours as well, and ours goes on. RuntimeError where it has none."""
        if not self.is_nested and not self.is_elsewhere:
            raise RuntimeError("the profiler is not enabled: there is no recording to stop")
        recording = self.own_stop()
        if not self.is_elsewhere:
            self.parts.append(recording)
            self.is_nested = False
            self.own_start(FLAGS)
        return recording
