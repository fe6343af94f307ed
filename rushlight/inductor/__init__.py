"""The inductor: graphs of ops as one native plan.

Enters: a graph of `make_fx` (forward, backward or both) over tensors of known or symbolic sizes. Leaves: a callable
that runs it through one `_C.Plan`, with no Python between kernels. The way of a graph, a file each:

    values.py       tensors of the graph: a buffer and how it is looked at
    read_graph.py   nodes of the graph: definitions with their arguments bound; views are geometry, composites are their
                    bodies
    units.py        which nodes share a kernel: pointwise groups, rows (softmax, norms and what stands around them),
                    folds
    merge.py        units that meet in a node, or read the same, become one
    in_place.py     ops that write to what was made for them alone
    tune.py         the fastest form of a convolution, by measuring
    join.py         one Lowered of a group, one row program of rows
    emit.py         units as slots and steps of the plan
    sized.py        graphs with symbolic sizes: one plan for many of them
    parts.py        graphs in which elements decide sizes: parts, and the ops that tell these between them
    compiled.py     what comes out: a plan, and how calls reach it
    stored.py       the same as data, for later processes
    compile_fx.py   the whole, and what the rest of the framework calls
"""

from ..base import late

__getattr__, __dir__ = late.names(globals(), late.by_name({"compile_fx": "compile_graph"}), files=(
    "compile_fx", "compiled", "described", "emit", "in_place", "join", "merge", "mixed", "packing", "parts", "products",
    "read_graph", "replay", "report", "rows", "settings", "sized", "stored", "tune", "units", "values",
))

__all__ = ["compile_graph"]  # noqa: F822 - a late name
