"""Equal expressions are computed once.

Enters: a graph. Leaves: whether something changed. Of two nodes that do the same with the same values the second goes,
unless something that they read or make is written, they are random, or both results are seen from outside (who would
then see one value where there were two).
"""

from __future__ import annotations

from typing import Any

from ..ir import Block, Graph, Node
from .aliases import Aliases
from .effects import has_side_effects, is_random


def drop_duplicates(graph: Graph) -> bool:
    """All of it."""
    return _in_block(graph.block, [], Aliases(graph))


def _in_block(block: Block, above: list[dict[Any, Node]], aliases: Aliases) -> bool:
    """`above` are the nodes that have run when the block does."""
    known: dict[Any, Node] = {}
    changed = False
    for node in list(block.nodes()):
        if node.kind_ in ("prim::PythonOp", "prim::Print") or has_side_effects(node) or is_random(node) or (
                aliases.node_has_writers(node)):
            for inner in node.blocks_:
                changed |= _in_block(inner, [*above, known], aliases)
            continue
        if node.blocks_:
            for inner in node.blocks_:
                changed |= _in_block(inner, [*above, known], aliases)
            continue
        key = same_key(node)
        first = next((found[key] for found in (known, *reversed(above)) if key in found), None)
        if first is not None and aliases.may_exchange(first.outputs_, node.outputs_):
            node.replace_all_uses_with(first)
            node.destroy()
            changed = True
        elif first is None:
            known[key] = node
    return changed


def same_key(node: Node) -> Any:
    """Equal for nodes that compute the same."""
    return (node.kind_, tuple(output.type_ for output in node.outputs_), tuple(map(id, node.inputs_)),
            tuple((name, node.attribute_kinds[name], attribute_key(value))
                  for name, value in sorted(node.attributes.items())), id(node.pyobj) if node.pyobj is not None else 0)


def attribute_key(value: Any) -> Any:
    """Equal for equal attributes; -0.0 is not 0.0, 1 is not True, tensors are their elements."""
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(attribute_key, value))
    if isinstance(value, dict):
        return ("dict", *((attribute_key(k), attribute_key(v)) for k, v in value.items()))
    if isinstance(value, (float, complex)):
        return (type(value).__name__, repr(value))
    if type(value).__name__ in ("Tensor", "Parameter"):
        return _tensor_key(value)
    try:
        hash(value)
    except TypeError:
        return ("object", id(value))
    return (type(value).__name__, value)


def _tensor_key(tensor: Any) -> Any:
    if tensor.device.type != "cpu" or tensor.numel() > 4096 or tensor.layout != tensor.detach().layout:
        return ("tensor", id(tensor))
    return ("tensor", str(tensor.dtype), tuple(tensor.shape), tuple(tensor.stride()), repr(tensor.detach().tolist()))
