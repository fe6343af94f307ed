"""Nests as GPU kernels: which loop the grid takes.

Enters: a nest written for [begin, end) slices. Leaves: a nest whose outermost loop is worth a thread per iteration;
lower.py then strides it by the grid. Refuses: nothing, but a nest with little outer parallelism stays slow.
"""

from __future__ import annotations

from ..loops.expr import idiv, irem, var
from ..loops.nest import BEGIN, END, For, Local, Nest


def for_grid(nest: Nest) -> Nest:
    """Pointwise nests get one flat loop over both dimensions; others keep their outer loop."""
    inner = nest.loop.body[0] if len(nest.loop.body) == 1 else None
    if not nest.point or not isinstance(inner, For):
        return nest
    count = inner.stop
    body = (
        Local(nest.loop.var, idiv(var("flat"), count)),
        Local(inner.var, irem(var("flat"), count)),
        *inner.body,
    )
    loop = For("flat", BEGIN * count, END * count, body)
    return Nest(nest.name, nest.operands, nest.params, loop, nest.point)
