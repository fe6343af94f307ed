"""Values of exported graphs: what a node's value is in a signature, and arguments as leaves."""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..aten.plain import ASSERT_SCALAR
from ..fx.node import Node, map_aggregate
from ..utils import _pytree as pytree
from .graph_signature import ConstantArgument, SymBoolArgument, SymFloatArgument, SymIntArgument, TensorArgument


def note_numbers(graph: Any) -> None:
    """Values of the nodes that compute sizes."""
    for node in graph.nodes:
        if node.op == "call_function" and "val" not in node.meta and node.target is not ASSERT_SCALAR:
            args = map_aggregate(node.args, lambda a: a.meta.get("val") if isinstance(a, Node) else a)
            is_size = getattr(node.target, "_opname", "") == "sym_size"
            node.meta["val"] = args[0].shape[args[1]] if is_size else node.target(*args)


def argument_of(value: Any, node: Any) -> Any:
    """The spec of a value of the graph."""
    if not isinstance(node, Node):
        return ConstantArgument("", node)
    kinds = {"SymInt": SymIntArgument, "SymFloat": SymFloatArgument, "SymBool": SymBoolArgument}
    kind = kinds.get(type(value).__name__)
    if isinstance(value, Tensor) or value is None:
        return TensorArgument(node.name)
    return kind(node.name) if kind else TensorArgument(node.name)


def flat_arguments(in_spec: Any, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """Leaves of arguments of the structure that was exported; keywords in its order."""
    names = in_spec.child(1).context
    if set(names) == set(kwargs):
        kwargs = {n: kwargs[n] for n in names}
    count, keywords = len(in_spec.child(0).children()), list(names)
    if len(args) != count or set(kwargs) != set(keywords):
        raise ValueError(
            f"the program was exported for {count} arguments by place and {keywords} by name, got {len(args)} and "
            f"{list(kwargs)}"
        )
    leaves, spec = pytree.tree_flatten((args, kwargs))
    if spec != in_spec:
        raise ValueError(f"the program was exported for arguments of the structure {in_spec}, got {spec}")
    return leaves
