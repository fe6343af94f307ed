"""Partitions: the largest groups of supported nodes that can each run as one call.

Enters: a GraphModule and what says which nodes are supported. Leaves: partitions, and on request the graph with each
fused to a submodule. Refuses nothing: a node that fits no group stays outside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ...graph_module import GraphModule
from ...node import Node, _get_qualified_name
from ..operator_support import OperatorSupportBase
from ..utils.fuser_utils import fuse_by_partitions

_NON_COMPUTE = frozenset(("torch.ops.aten.view", "_operator.getitem"))


class Partition:
    """A group of nodes, in order."""

    def __init__(
        self, id: int | None = None, nodes: Iterable[Node] | None = None, node_orders: Iterable[int] | None = None
    ) -> None:
        self.id = id
        orders = list(node_orders) if node_orders is not None else None
        self.nodes: dict[Node, int | None] = {n: orders[i] if orders else None for i, n in enumerate(nodes or ())}

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        del self.nodes[node]

    def size(self) -> int:
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Groups the nodes that `operator_support` accepts."""

    def __init__(self, graph_module: GraphModule, operator_support: OperatorSupportBase,
                 allows_single_node_partition: bool = False, non_compute_ops: Sequence[str] | None = None,
                 allowed_single_node_partition_ops: Sequence[str] | None = None,
                 skip_horizontal_fusion: bool = False) -> None:
        self.graph_module, self.operator_support = graph_module, operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = list(non_compute_ops or ())
        self.allowed_single_node_partition_ops = list(allowed_single_node_partition_ops or ())
        self.skip_horizontal_fusion = skip_horizontal_fusion
        self._after: dict[Node, set[Node]] = defaultdict(set)   # all that depends on a node, however far
        for node in reversed(graph_module.graph.nodes):
            for user in node.users:
                self._after[node] |= {user} | self._after[user]

    def propose_partitions(self) -> list[Partition]:
        """The groups: grown from the end of the graph, two merged wherever that makes no circle."""
        modules = dict(self.graph_module.named_modules())
        groups: list[set[Node]] = []
        for node in reversed(self.graph_module.graph.nodes):
            if not self.operator_support.is_node_supported(modules, node):
                continue
            mine = {node}
            for other in list(groups):
                adjacent = not self.skip_horizontal_fusion or any(user in other for user in node.users)
                if adjacent and self._can_merge(mine | other, [g for g in groups if g is not other]):
                    groups.remove(other)
                    mine |= other
            groups.append(mine)
        groups = self._with_getitems(groups)
        if not self.allows_single_node_partition:
            groups = [g for g in groups if self._computes(g)]
        order = {node: i for i, node in enumerate(self.graph_module.graph.nodes)}
        ordered = [sorted(group, key=order.__getitem__) for group in groups if group]
        return [Partition(i, nodes, [order[n] for n in nodes]) for i, nodes in enumerate(ordered)]

    def _can_merge(self, merged: set[Node], others: list[set[Node]]) -> bool:
        """Whether nothing outside would have to run both after and before the merged group,
        other groups counting as one node each."""
        owner = {node: group for group in map(frozenset, others) for node in group}
        waiting = [user for node in merged for user in node.users if user not in merged]
        seen: set[Node] = set()
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            if node in merged:
                return False
            for reached in owner.get(node, (node,)):
                seen.add(reached)
                waiting += [user for user in reached.users if user not in seen]
        return True

    def _with_getitems(self, groups: list[set[Node]]) -> list[set[Node]]:
        """The items of a tuple go with the node that makes it."""
        for node in self.graph_module.graph.nodes:
            if not node.users or not all(
                u.op == "call_function" and _get_qualified_name(u.target) == "_operator.getitem" for u in node.users
            ):
                continue
            home = next((g for g in groups if node in g), None)
            for user in node.users:
                for group in groups:
                    group.discard(user)
                if home is not None:
                    home.add(user)
        return [g for g in groups if g]

    def _computes(self, group: set[Node]) -> bool:
        """Whether a group does more than one computation, or one that is allowed to stand alone."""
        names = [_get_qualified_name(n.target) for n in group if n.op == "call_function"]
        idle = _NON_COMPUTE | set(self.non_compute_ops)
        count = sum(name not in idle for name in names) + sum(
            name in self.allowed_single_node_partition_ops for name in names
        )
        return count > 1

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Each partition as a submodule."""
        return fuse_by_partitions(self.graph_module, [list(p.nodes) for p in partitions], prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Drop nodes that compute nothing from the beginnings and ends of partitions."""
        idle = set(self.non_compute_ops)
        for partition in partitions:
            changed = True
            while changed:
                inside = set(partition.nodes)
                at_edge = [
                    n
                    for n in partition.nodes
                    if n.op == "call_function"
                    and _get_qualified_name(n.target) in idle
                    and (not any(i in inside for i in n.all_input_nodes) or not any(u in inside for u in n.users))
                ]
                for node in at_edge:
                    partition.remove_node(node)
                changed = bool(at_edge)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Propose and fuse."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)
