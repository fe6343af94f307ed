"""Schedules: the stage between what an op computes (loops/lowered.py) and the loops that compute it (loops/nest.py).

Enters: a `Lowered` and the kind of device. Leaves: a `Schedule`, its launches in order, each with a nest, operands,
run-time parameters, extent and grain. One scheduler per family of targets; what has none of its own takes the CPU's
nests. RUSHLIGHT_SHOW=lowered,schedule prints what enters and what leaves.
"""

from __future__ import annotations

from ...base.show import show, shown_words
from ...loops.lowered import Lowered
from ...loops.show_lowered import show_lowered
from . import cpu, gpu
from .launch import Launch, Schedule, Temp

SCHEDULERS = {"cpu": cpu.schedule, "cuda": gpu.schedule}


def schedule(lowered: Lowered, target: str = "cpu") -> Schedule:
    """How `lowered` runs on a device of kind `target`."""
    words = shown_words()
    if "lowered" in words:
        show("lowered", lowered.name, show_lowered(lowered))
    made = SCHEDULERS[target](lowered) if target in SCHEDULERS else cpu.schedule(lowered, library=False)
    if "schedule" in words:
        show("schedule", lowered.name, str(made))
    return made


__all__ = ["SCHEDULERS", "Launch", "Schedule", "Temp", "schedule"]
