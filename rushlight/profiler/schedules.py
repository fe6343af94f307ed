"""When a profiler records: steps of waiting, warming up and recording.

Enters: how many steps of each. Leaves: a function from the number of a step to what is to be done in it.
Refuses: negative numbers, and no step of recording at all (AssertionError, as PyTorch).
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable


class ProfilerAction(enum.Enum):
    """What a schedule asks of the profiler in a step. `DEVICE_STOPPED` is the profiler's own: a schedule may not ask
    for it."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Cycles of `wait`, `warmup` and `active` steps, `repeat` of them (0: for ever), after `skip_first` steps.

    With `skip_first_wait` the first cycle has no waiting. The last active step of a cycle saves.
    """
    least = {"wait": 0, "warmup": 0, "active": 1, "repeat": 0, "skip_first": 0}
    given = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip_first}
    wrong = [f"{name}={given[name]} (need at least {least[name]})" for name in least if given[name] < least[name]]
    if wrong:
        raise AssertionError(f"Invalid profiler schedule arguments: {', '.join(wrong)}")
    if warmup == 0:
        warnings.warn("schedule: without warmup the first recorded step pays for the profiler's start", stacklevel=2)
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step += (wait if skip_first_wait else 0) - skip_first
        if repeat and step >= repeat * length:
            return ProfilerAction.NONE
        at = step % length
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def record_always(step: int) -> ProfilerAction:
    """Every step is recorded: the schedule of a profiler that was given none."""
    return ProfilerAction.RECORD
