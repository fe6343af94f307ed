"""CPU schedules of walks (scans).

Enters: a Lowered with a `walk` and one tensor. Leaves: one launch that walks the range in order; other ranges are
divided among threads and, where the contiguous one is among them, put on lanes. Where halves can be merged a few long
rows are divided too, in chunks that depend on sizes alone (`walk_chunks.py`). Where few elements change the
state, blocks of a dense row that hold none are passed over at once.
"""

from __future__ import annotations

from ....base.shape import is_below
from ....loops.lowered import Lowered, NotLowerable
from ...text.targets import vector_bits
from ..forms.launch import Schedule
from ..forms.walk import is_rare, whole_rows
from .walk_chunks import chunked
from .walk_lanes import rows_in_lanes

SIDE_BY_SIDE = 2048     # elements of rows up to which wide vectors walk a row on each lane sooner than past blocks


def schedule_walk(lowered: Lowered) -> Schedule:
    """The launches of a scan."""
    if len(lowered.memories) != 1:
        raise NotLowerable(f"{lowered.name}: expected one tensor in a scan, got {len(lowered.memories)}")
    if any(n == 0 for n in lowered.ranges):
        return Schedule(())
    if is_rare(lowered):
        short = vector_bits() > 128 and is_below(lowered.ranges[lowered.walk.dim], SIDE_BY_SIDE)
        return (rows_in_lanes(lowered) if short else None) or whole_rows(lowered)
    return chunked(lowered) or rows_in_lanes(lowered) or whole_rows(lowered)
