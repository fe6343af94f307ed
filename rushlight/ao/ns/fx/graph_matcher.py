"""Two graphs matched, subgraph by subgraph, from their outputs back.

Enters: two graph modules of one model (float and quantized, or other forms). Leaves: pairs of subgraphs, first to last,
by names such as `base_op_7_0`. Refuses: graphs whose operators are not forms of each other (GraphMatchingException).
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator
from typing import Any

from .... import nn
from ...._C import float16
from ....fx import GraphModule, Node
from ....nn import functional as F  # noqa: N812
from ...quantization.backend_config import get_native_backend_config
from ...quantization.fake_quantize import FakeQuantizeBase
from ...quantization.observer import ObserverBase
from ...quantization.utils import getattr_from_fqn
from .mappings import get_base_name_to_sets_of_related_ops, get_unmatchable_types_map
from .ns_types import NSNodeTargetType, NSSubgraph

Sets = dict[str, set[NSNodeTargetType]]
Fusion = tuple[tuple, int]      # operators last to first, and which of them, first to last, is the one that counts


class GraphMatchingException(Exception):
    """Two graphs are not of the same model."""


class SubgraphTypeRelationship(enum.Enum):
    """How two operators are related."""

    EQUAL = enum.auto()
    EQUAL_BUT_UKNOWN = enum.auto()
    RELATED_BUT_NOT_EQUAL = enum.auto()
    NOT_RELATED = enum.auto()


def get_reversed_fusions() -> list[Fusion]:
    """Chains of operators that are matched as one: the native backend's patterns, each also with its observer."""
    result: list[Fusion] = []
    for pattern in get_native_backend_config()._pattern_complex_format_to_config:
        flat = pattern
        if isinstance(pattern, tuple) and len(pattern) == 2 and isinstance(pattern[1], tuple):
            flat = (pattern[0], *pattern[1])
        chain = flat if isinstance(flat, tuple) else (flat,)
        if len(chain) > 1:
            result.append((chain, 0))
        result += [((cls, *chain), 0) for cls in (ObserverBase, FakeQuantizeBase)]
    extra: list[Fusion] = [((("to", float16), F.relu, F.linear, "dequantize"), 1)]
    for d in (1, 2, 3):
        extra.append(((getattr(nn, f"BatchNorm{d}d"), getattr(nn, f"Conv{d}d")), 0))
    for d in (1, 2, 3):
        extra.append(((nn.ReLU, getattr(nn, f"BatchNorm{d}d"), getattr(nn, f"Conv{d}d")), 0))
    for other, base in extra:
        result += [(other, base), ((ObserverBase, *other), base), ((FakeQuantizeBase, *other), base)]
    return result


def end_node_matches_reversed_fusion(end_node: Node, chain: tuple, gm: GraphModule, seen_nodes: set[Node]) -> bool:
    """Whether the operators before a node, and it, are a chain; each takes the one before as its first argument."""
    node: Any = end_node
    for operator in chain:
        if not isinstance(node, Node) or node in seen_nodes or not _is_operator(node, operator, gm):
            return False
        if not node.args or not isinstance(node.args[0], Node):
            return False
        node = node.args[0]
    return True


def _is_operator(node: Node, operator: Any, gm: GraphModule) -> bool:
    if node.op == "call_function":
        return node.target is operator      # two spellings of one op compare equal
    if node.op == "call_module":
        return isinstance(operator, type) and isinstance(getattr_from_fqn(gm, node.target), operator)
    if node.op == "call_method":
        if isinstance(operator, tuple):
            return (node.target, *node.args[1:2]) == operator
        return node.target == operator
    return False


def _subgraphs(gm: GraphModule, unmatchable: Sets) -> Iterator[NSSubgraph]:
    """The subgraphs that can be matched, from the output back."""
    fusions = get_reversed_fusions()
    seen: set[Node] = set()
    stack = [node for node in gm.graph.nodes if node.op == "output"]
    while stack:
        end = stack.pop()
        if end in seen:
            continue
        start = base = end
        for chain, base_index in fusions:
            if end_node_matches_reversed_fusion(end, chain, gm, seen):
                for i in range(len(chain) - 1):
                    seen.add(start)
                    start = start.args[0]
                    if i == len(chain) - 2 - base_index:
                        base = start
                break
        seen.add(start)
        stack += start.all_input_nodes
        if not _is_matchable(base, gm, unmatchable):
            continue
        is_module = end.op == "call_module" and start is end
        if is_module and isinstance(getattr_from_fqn(gm, end.target), (ObserverBase, FakeQuantizeBase)):
            continue
        yield NSSubgraph(start, end, base)


def _is_matchable(node: Node, gm: GraphModule, unmatchable: Sets) -> bool:
    if node.op == "call_function":
        return node.target not in unmatchable["funs_unmatchable"]
    if node.op == "call_module":
        return not isinstance(getattr_from_fqn(gm, node.target), tuple(unmatchable["mods_unmatchable"]))
    return node.op == "call_method" and node.target not in unmatchable["meths_unmatchable"]


def _operator(node: Node, gm: GraphModule) -> Any:
    """A node's function, method, or module class."""
    if node.op == "call_module":
        return type(getattr_from_fqn(gm, node.target))
    return node.target if node.op in ("call_function", "call_method") else None


def _relationship(
    a: NSSubgraph, b: NSSubgraph, gm_a: GraphModule, gm_b: GraphModule, sets: Sets
) -> SubgraphTypeRelationship:
    node_a, node_b = a.base_op_node, b.base_op_node
    if (node_a.op == "call_module") != (node_b.op == "call_module"):
        return SubgraphTypeRelationship.NOT_RELATED
    one, other = _operator(node_a, gm_a), _operator(node_b, gm_b)
    if not any(one in related and other in related for related in sets.values()):
        return SubgraphTypeRelationship.EQUAL_BUT_UKNOWN if one == other else SubgraphTypeRelationship.NOT_RELATED
    if node_a.op == "call_module" and (node_a is not a.start_node or node_b is not b.start_node):
        raise AssertionError(f"{node_a} and {node_b}: modules in the middle of a chain cannot be matched")
    same_form = (node_a is a.start_node) == (node_b is b.start_node)
    if one == other and same_form:
        return SubgraphTypeRelationship.EQUAL
    return SubgraphTypeRelationship.RELATED_BUT_NOT_EQUAL


def _fresh_name(subgraph: NSSubgraph, gm: GraphModule, sets: Sets, taken: set[str]) -> str:
    """`base_op_<set>_<n>`, the first that is free."""
    operator, base = _operator(subgraph.base_op_node, gm), None
    for name, related in sets.items():
        if operator in related:
            base = name
    name = next(n for i in itertools.count() if (n := f"base_op_{base}_{i}") not in taken)
    taken.add(name)
    return name


def get_matching_subgraph_pairs(
    gm_a: GraphModule, gm_b: GraphModule, base_name_to_sets_of_related_ops: Sets | None = None,
    unmatchable_types_map: Sets | None = None,
) -> dict[str, tuple[NSSubgraph, NSSubgraph]]:
    """Pairs of subgraphs, in the order they run."""
    unmatchable = unmatchable_types_map or get_unmatchable_types_map()
    sets = base_name_to_sets_of_related_ops or get_base_name_to_sets_of_related_ops()
    taken_a: set[str] = set()
    taken_b: set[str] = set()
    result: dict[str, tuple[NSSubgraph, NSSubgraph]] = {}
    for a, b in itertools.zip_longest(_subgraphs(gm_a, unmatchable), _subgraphs(gm_b, unmatchable)):
        if a is None or b is None:
            left = (a or b).base_op_node
            raise GraphMatchingException(
                f"{left.format_node()} has no counterpart: one graph has more operators than the other. Add operators "
                "that are not to be matched to unmatchable_types_map."
            )
        related = _relationship(a, b, gm_a, gm_b, sets)
        if related is SubgraphTypeRelationship.NOT_RELATED:
            raise GraphMatchingException(
                f"{a.base_op_node.format_node()} and {b.base_op_node.format_node()} are not forms of one operator. "
                "base_name_to_sets_of_related_ops says which are."
            )
        if related is SubgraphTypeRelationship.EQUAL_BUT_UKNOWN:
            continue
        name = _fresh_name(a, gm_a, sets, taken_a)
        if name != _fresh_name(b, gm_b, sets, taken_b):
            raise AssertionError(f"{a.base_op_node} and {b.base_op_node} would be named differently")
        result[name] = (a, b)
    return dict(reversed(result.items()))
