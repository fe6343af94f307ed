"""Subgraphs as modules, and whether two graphs are the same."""

from __future__ import annotations

from ....nn import Module
from ...graph import Graph
from .fuser_utils import HolderModule, lift_subgraph_as_module
from .matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "Module", "compare_graphs", "lift_subgraph_as_module"]


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs compute the same in the same way, up to names."""
    return bool(SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right))
