"""Common subexpressions: a call with the same target and arguments as an earlier one is that one.

Enters: a graph without effects besides those of banned ops. Leaves: a new graph with each computation once. Calls that
draw random numbers or write to their arguments are never merged.
"""

from __future__ import annotations

from typing import Any

from ....._C import Op, Overload
from .....aten.namespaces import namespace
from .....op import ops
from .....utils._pytree import tree_flatten
from ....graph import Graph
from ....graph_module import GraphModule
from ....node import Node
from ...infra.pass_base import PassBase, PassResult

_RANDOM = (
    "dropout",
    "native_dropout",
    "bernoulli",
    "multinomial",
    "normal",
    "poisson",
    "binomial",
    "rrelu",
    "rand_like",
    "rand",
    "randint",
    "randn",
    "randperm",
)
_INPLACE = ("add_", "sub_", "mul_", "div_", "pow_", "lerp_", "relu_", "sigmoid_", "tanh_")


def get_CSE_banned_ops() -> set[Any]:  # noqa: N802 - PyTorch's name
    """The ops, as packets, that must not be merged."""
    aten = namespace("aten")
    return {getattr(aten, name) for name in (*_RANDOM, *_INPLACE) if name in ops}


class CSEPass(PassBase):
    """Merges equal calls, except of `banned_ops`."""

    def __init__(self, banned_ops: set[Any] | None = None) -> None:
        self.banned_ops = banned_ops or set()

    def call(self, graph_module: GraphModule) -> PassResult:
        result, values, known, modified = Graph(), {}, {}, False
        for node in graph_module.graph.nodes:
            key = (
                None
                if node.op in ("placeholder", "output", "get_attr") or self._is_banned(node)
                else _key(node, values)
            )
            if key is not None and key in known:
                values[node] = known[key]
                modified = True
                continue
            values[node] = result.node_copy(node, values.__getitem__)
            if key is not None:
                known[key] = values[node]
        return PassResult(GraphModule(graph_module, result) if modified else graph_module, modified)

    def _is_banned(self, node: Node) -> bool:
        packet = getattr(node.target, "overloadpacket", node.target)
        if packet in self.banned_ops or node.is_impure():
            return True
        name = (
            node.target
            if isinstance(node.target, str)
            else node.target.__name__ if isinstance(node.target, (Op, Overload)) else ""
        )
        return node.op != "call_module" and name.endswith("_") and not name.endswith("__")


def _key(node: Node, values: dict[Node, Node]) -> Any | None:
    """What makes two calls the same; None for arguments that cannot be compared."""
    leaves, spec = tree_flatten((node.args, node.kwargs))
    leaves = tuple(
        (type(x), values.get(x, x)) if isinstance(x, Node) else (type(x), repr(x) if isinstance(x, slice) else x)
        for x in leaves
    )
    key = node.op, node.target, leaves, repr(spec)
    try:
        hash(key)
    except TypeError:
        return None
    return key
