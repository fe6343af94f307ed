"""The passes in the order in which a graph is made better as a whole."""

from __future__ import annotations

from ..ir import Graph
from .cse import drop_duplicates
from .dead_code import drop_dead
from .mutation import remove_list_mutation
from .peephole import peephole
from .pooling import pool_constants
from .propagation import propagate_constants
from .unroll import unroll_constant_loops, unroll_loops


def optimize(graph: Graph, *, unroll_all: bool = False, is_exact: bool = True) -> None:
    """Dead code, duplicates, small rewrites, constants, then loops written out and the same again."""
    drop_dead(graph)
    drop_duplicates(graph)
    peephole(graph, is_exact=is_exact)
    propagate_constants(graph)
    pool_constants(graph)
    if (unroll_loops if unroll_all else unroll_constant_loops)(graph):
        remove_list_mutation(graph)
        peephole(graph, is_exact=is_exact)
        propagate_constants(graph)
    drop_duplicates(graph)
