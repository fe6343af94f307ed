"""Planning how often small numbers occur, on devices that load written kernels (codegen/nvptx/counts.py).

Enters: a tensor of numbers, and how many of them are asked for. Leaves: whether a kernel serves, and its schedule: the
results are cleared, then blocks count portions of the tensor in memory of their own, and add up.
"""

from __future__ import annotations

from typing import Any

from ...codegen.nvptx.counts import ROOMS, STEP, counting
from ...codegen.schedule.forms.launch import Launch, Schedule
from ...codegen.schedule.forms.loops import clear_launch
from ...devices import handlers

COUNTING = 1056     # blocks that keep a unit busy
MOST = 1 << 31      # elements that written kernels can count


def has_counts(t: Any, bins: int) -> bool:
    """Whether `_count_numbers` serves so many numbers there."""
    handler = handlers.get(t.device.type)
    return handler is not None and handler.loads_written and 0 < bins <= ROOMS[-1] and 0 < t.numel() < MOST


def counts_schedule(code: str, length: int, bins: int) -> Schedule:
    """How often each number from 0 up to `bins` occurs among `length` of a type."""
    room = next(n for n in ROOMS if n >= bins)
    portion = -(-length // (COUNTING * STEP)) * STEP
    key, params = ("count", code, room), (length, portion, bins)
    counts = Launch(key, lambda: counting(code, room), (0, 1), params, -(-length // portion), 1)
    return Schedule((clear_launch("i64", (bins,), 1), counts))
