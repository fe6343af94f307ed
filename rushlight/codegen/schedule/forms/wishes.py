"""Wishes: what whoever asks for a plan knows, and a planner could not tell from sizes and types.

Enters: what a compiler found out about a whole graph (weights that stay the same, ops that come behind, forms that were
measured). Leaves: one frozen record that goes with the question, from `Library.plan` through `Room` to the planners and
schedulers that heed it. It changes how a result is computed; but for `large`, to no other numbers than rounding gives.
Refuses nothing here: what a planner cannot grant it leaves, or, for `finish`, refuses itself (`NotLowerable`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....loops.record import Record

if TYPE_CHECKING:
    from ...library.convolution.finish import Finish


class Wishes(Record):
    """`packs_apart`: right operands of products are packed by launches of their own, which several products may share.

    Of convolutions: `form`, the one to compute them in, where they can be (None: what is known to be best); `finish`,
    what their kernels compute behind them, whose operands steps of `finishers` take last (the planner names the input
    for them); `packed`: weights are packed for many calls, and matrix products give way to that; `large`: those of 3x3
    may be computed in tiles of 4x4 results, which are less exact (docs/accuracy.md).
    """

    packs_apart: bool = False
    form: str | int | None = None
    finish: Finish | None = None
    packed: bool = False
    large: bool = False


NONE = Wishes()

__all__ = ["NONE", "Wishes"]
