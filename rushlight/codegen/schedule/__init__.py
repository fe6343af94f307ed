"""Schedules: the stage between what an op computes (loops/lowered.py) and the loops that compute it (loops/nest.py).

Enters: a `Lowered` and the kind of device. Leaves: a `Schedule`, its launches in order, each with a nest, operands,
run-time parameters, extent and grain. One scheduler per family of targets; what has none of its own takes the CPU's
nests. RUSHLIGHT_SHOW=lowered,schedule prints what enters and what leaves.
"""

from __future__ import annotations

from ...base.show import show, shown_words
from ...loops.lowered import Lowered
from ...loops.row_program import RowProgram
from ...loops.show_lowered import show_lowered
from . import cpu, cpu_rows, gpu, gpu_rows
from .launch import Launch, Schedule, Temp

SCHEDULERS = {"cpu": cpu.schedule, "cuda": gpu.schedule}
ROW_SCHEDULERS = {"cuda": gpu_rows.schedule_rows}


def schedule(lowered: Lowered, target: str = "cpu") -> Schedule:
    """How `lowered` runs on a device of kind `target`."""
    words = shown_words()
    if "lowered" in words:
        show("lowered", lowered.name, show_lowered(lowered))
    made = SCHEDULERS[target](lowered) if target in SCHEDULERS else cpu.schedule(lowered, library=False)
    if "schedule" in words:
        show("schedule", lowered.name, str(made))
    return made


def schedule_rows(program: RowProgram, count: int, cols: int, target: str = "cpu") -> Schedule:
    """How a row program runs on a device of kind `target`, over `count` rows of `cols` elements."""
    if target in ROW_SCHEDULERS:
        return ROW_SCHEDULERS[target](program, count, cols)
    return cpu_rows.schedule_rows(program, count, cols, target)


__all__ = ["ROW_SCHEDULERS", "SCHEDULERS", "Launch", "Schedule", "Temp", "schedule", "schedule_rows"]
