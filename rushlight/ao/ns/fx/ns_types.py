"""What the numeric suite passes around: matched subgraphs, and results by layer, kind and model."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from ....fx import Node


class NSSingleResultValuesType(str, enum.Enum):  # noqa: UP042 - PyTorch's bases
    """The kinds of results."""

    WEIGHT = "weight"
    NODE_OUTPUT = "node_output"
    NODE_INPUT = "node_input"


class NSSubgraph(NamedTuple):
    """Nodes that are compared as one: the first, the last, and the one whose operator names it."""

    start_node: Node
    end_node: Node
    base_op_node: Node


NSSingleResultType = dict[str, Any]
NSResultsType = dict[str, dict[str, dict[str, list[NSSingleResultType]]]]
NSNodeTargetType = Callable | str
