"""Schedules for CPUs: which loops, in which order, in vectors of what, divided among threads how.

Enters: a `Lowered`. Leaves: a `Schedule`. What each form of op becomes is in fold.py, loops.py, pieces.py,
contraction.py, walk.py and forms/places.py, with the limits they go by; row programs are in rows.py.
"""

from __future__ import annotations

from ....loops.lowered import Lowered
from ..forms.launch import Schedule
from ..forms.pieces import moves_in_boxes
from ..forms.places import schedule_places
from ..forms.wishes import NONE, Wishes
from .contraction import schedule_contraction
from .fold import schedule_fold
from .loops import schedule_gather, schedule_points, schedule_scatter
from .pieces import schedule_pieces
from .walk import schedule_walk


def schedule(lowered: Lowered, library: bool = True, wishes: Wishes = NONE, tiles: bool = True) -> Schedule:
    """How a CPU runs an op; `library`: kernels that are no nests, and what suits this machine's threads, may serve too;
    `tiles`: so may nests with tiles of products."""
    if lowered.pieces is not None and moves_in_boxes(lowered):
        return schedule_pieces(lowered, library)
    if lowered.folding is not None:
        tiled = schedule_contraction(lowered, wishes) if tiles else None
        if tiled is not None:
            return tiled
        return schedule_fold(lowered) if lowered.aligned else schedule_places(lowered)
    if lowered.walk is not None:
        return schedule_walk(lowered)
    if lowered.scatter is not None:
        return schedule_scatter(lowered)
    return schedule_points(lowered) if lowered.aligned else schedule_gather(lowered)
