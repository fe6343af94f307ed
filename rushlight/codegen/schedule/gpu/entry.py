"""Schedules for GPUs: a thread for each result, or a block for each row; launches large enough to fill the unit.

Enters: a `Lowered`. Leaves: a `Schedule` whose nests nvptx/lower.py lowers: an outermost vector loop is a thread for
each iteration, another one a block whose threads share the loops inside. What each form of op becomes is in fold.py,
loops.py, pieces.py, contraction.py, walk.py and forms/places.py; row programs are in rows.py.
"""

from __future__ import annotations

from ....loops.lowered import Lowered
from ..forms.launch import Schedule
from ..forms.pieces import moves_in_boxes
from ..forms.places import schedule_places
from .contraction import schedule_contraction
from .fold import schedule_fold
from .loops import schedule_gather, schedule_points, schedule_scatter
from .pieces import schedule_pieces
from .walk import schedule_walk


def schedule(lowered: Lowered, written: bool = False, many_dims: bool = False) -> Schedule:
    """How a GPU runs an op; `written`: it loads kernels that are written as PTX too, `many_dims`: its pointwise kernels
    go along more than two dims."""
    if lowered.pieces is not None and moves_in_boxes(lowered):
        return schedule_pieces(lowered, written)
    if lowered.folding is not None:
        tiled = schedule_contraction(lowered)
        if tiled is not None:
            return tiled
        return schedule_fold(lowered) if lowered.aligned else schedule_places(lowered, stages_by_row=True)
    if lowered.walk is not None:
        return schedule_walk(lowered, written)
    if lowered.scatter is not None:
        return schedule_scatter(lowered)
    return schedule_points(lowered, many_dims) if lowered.aligned else schedule_gather(lowered)
