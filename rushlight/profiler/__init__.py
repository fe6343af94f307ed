"""`torch.profiler`: labels and activities exist; the profiler itself is not written yet and says so when used."""

from __future__ import annotations

import enum

from ..autograd.profiler import ProfilerActivity, kineto_available, record_function  # noqa: F401
from ..base.refusals import names_of


class ProfilerAction(enum.Enum):
    """What a schedule asks of the profiler in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """What can be watched on this machine."""
    return {ProfilerActivity.CPU}


globals().update(names_of("torch.profiler"))
