"""Schedules: the stage between what an op computes (loops/lowered.py) and the loops that compute it (loops/nest.py).

Enters: a `Lowered` and the kind of device. Leaves: a `Schedule`, its launches in order, each with a nest, operands,
run-time parameters, extent and grain. One scheduler per family of targets; a plugged-in device says which family it is
of (`Device.scheduler`). RUSHLIGHT_SHOW=lowered,schedule prints what enters and what leaves.
"""

from __future__ import annotations

from ...base.show import show, shown_words
from ...devices import handlers
from ...loops.lowered import Lowered
from ...loops.row_program import RowProgram
from ...loops.show_lowered import show_lowered
from .cpu import entry as cpu_entry, rows as cpu_rows, rows_staggered
from .forms.launch import Launch, Schedule, Temp
from .forms.wishes import NONE, Wishes
from .gpu import entry as gpu_entry, rows as gpu_rows

ROW_SCHEDULERS = {"gpu": gpu_rows.schedule_rows}


def family_of(target: str) -> str:
    """The family of schedules that a kind of device takes; that of CPUs, without their library kernels, is ""."""
    if target in ("cpu", "cuda"):
        return "cpu" if target == "cpu" else "gpu"
    device = handlers.get(target)
    return "gpu" if device is not None and device.scheduler == "gpu" else ""


def schedule(lowered: Lowered, target: str = "cpu", wishes: Wishes = NONE) -> Schedule:
    """How `lowered` runs on a device of kind `target`; CPUs heed `wishes`."""
    words = shown_words()
    if "lowered" in words:
        show("lowered", lowered.name, show_lowered(lowered))
    family = family_of(target)
    if family == "gpu":
        device = handlers.get(target)
        result = gpu_entry.schedule(
            lowered, getattr(device, "loads_written", False), getattr(device, "many_dims", False)
        )
    else:
        tiles = family == "cpu" or getattr(handlers.get(target), "loads_tiles", False)
        result = cpu_entry.schedule(lowered, family == "cpu", wishes, tiles)
    if "schedule" in words:
        show("schedule", lowered.name, str(result))
    return result


def schedule_rows(
    program: RowProgram, count: int, cols: int, target: str = "cpu", distances: tuple[int, ...] = ()
) -> Schedule:
    """How a row program runs on a device of kind `target`, over `count` rows of `cols` elements; those of
    `program.lines` lie at these distances."""
    family = family_of(target)
    if family in ROW_SCHEDULERS:
        return ROW_SCHEDULERS[family](program, count, cols, distances)
    if family == "cpu" and rows_staggered.can_stagger(program, cols):
        return rows_staggered.schedule_staggered(program, count, cols, distances)
    return cpu_rows.schedule_rows(program, count, cols, target, distances)


__all__ = ["ROW_SCHEDULERS", "Launch", "Schedule", "Temp", "schedule", "schedule_rows"]
