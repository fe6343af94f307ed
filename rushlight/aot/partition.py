"""Partitions: a joint graph cut into a forward and a backward graph.

Enters: a joint graph (inputs `primals_*`, `lifted_*`, then `tangents_*`), how many of its results are the forward's,
and which inputs the wrappers overwrite. Leaves: a `Partition`: two graphs, and where each value that the backward needs
comes from: an input, a result, or a value that the forward returns besides. Refuses: nothing; the backward of what
needs no tangent belongs to the forward.

`default_partition` saves what the two graphs share. `min_cut` (min_cut.py) chooses what to compute again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _C
from .._C import Tensor
from ..fx._lazy_graph_module import _LazyGraphModule
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node, _draws
from ..op import find_op


@dataclass(frozen=True)
class Saved:
    """A value the backward needs: input number `index`, result number `index`,
    or the `index`-th of the values returned besides the results."""

    place: str      # "input", "result" or "extra"
    index: int
    nbytes: int
    is_tensor: bool


@dataclass(frozen=True)
class Partition:
    """A forward and a backward graph. The backward takes the saved values, in order, then the tangents."""

    forward: GraphModule
    backward: GraphModule
    saved: tuple[Saved, ...]
    num_results: int
    gradients: tuple[bool, ...]      # which of the backward's results are there; the others are None

    @property
    def saved_bytes(self) -> int:
        """Memory the tape keeps that neither the caller's inputs nor results hold already."""
        return sum(s.nbytes for s in self.saved if s.place == "extra")


def is_tangent(node: Node) -> bool:
    return node.op == "placeholder" and "tangents" in str(node.target)


def nbytes_of(node: Node) -> int:
    """How much memory a node's value takes; symbols count as their hints."""
    value = node.meta.get("val")
    if not isinstance(value, Tensor):
        return 8
    sizes = [getattr(n, "hint", n) for n in value.shape]
    return math.prod(int(n) if n is not None else 1 for n in sizes) * value.dtype.itemsize


def needed_for(roots: Iterable[Any], stop: Callable[[Node], bool] = lambda node: False) -> set[Node]:
    """Every node that `roots` are computed from, themselves included; `stop` nodes are taken as given."""
    found: set[Node] = set()
    waiting = [r for r in roots if isinstance(r, Node)]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            if not stop(node):
                waiting += node.all_input_nodes
    return found


BACKWARD = {"partitioner_tag": "is_backward"}      # in the meta of nodes: what a gradient's formula computes


def after_tangents(graph: Graph) -> set[Node]:
    """Every node that is computed from a tangent, or for one."""
    found: set[Node] = set()
    for node in graph.nodes:
        if is_tangent(node) or node.meta.items() >= BACKWARD.items() or any(a in found for a in node.all_input_nodes):
            found.add(node)
    return found


def with_effects(graph: Graph, chosen: set[Node], backward: set[Node]) -> set[Node]:
    """`chosen` with every draw of random numbers, since eager mode draws them too and the generator must be as far
    afterwards; and with every check of what only elements can tell."""
    effects = [n for n in graph.nodes if n.op == "call_function" and n.is_impure() and n not in backward]
    return chosen | needed_for(effects)


def default_partition(
    joint: GraphModule, num_results: int, overwritten: Sequence[int] = (), **options: Any
) -> Partition:
    """The forward is what no tangent is needed for; the backward is the rest, and what both use is saved."""
    if options:
        raise TypeError(f"default_partition: unexpected options {sorted(options)}")
    graph = joint.graph
    returned = graph.output_node().args[0]
    backward = after_tangents(graph)
    grads = [r for r in returned[num_results:] if isinstance(r, Node)]
    later = needed_for([g for g in grads if g in backward], lambda node: node not in backward)
    forward_only = [g for g in grads if g not in backward]
    shared = [n for n in graph.nodes if n in later and n not in backward] + [
        g for g in dict.fromkeys(forward_only) if g not in later
    ]
    return cut(
        joint, num_results, list(dict.fromkeys(source_of(n) for n in shared if not is_cheap_constant(n))), overwritten
    )


def source_of(node: Node) -> Node:
    """What a view looks at: saving that is saving the view, and inputs need not be saved at all."""
    while (
        isinstance(node.target, _C.Overload)
        and node.target.is_view
        and len(node.all_input_nodes) == 1
        and isinstance(node.meta.get("val"), Tensor)
    ):
        node = node.all_input_nodes[0]
    return node


def is_cheap_constant(node: Node) -> bool:
    """Whether a value is made of nothing: it is made where it is used."""
    return node.op == "call_function" and not node.all_input_nodes and not _draws(node.target) and not _is_filled(node)


def _is_filled(node: Node) -> bool:
    """Memory that draws are written to: what it holds is not what made it."""
    return any(_draws(user.target) for user in node.users if user.op == "call_function")


def cut(joint: GraphModule, num_results: int, saved: Sequence[Node], overwritten: Sequence[int]) -> Partition:
    """The two graphs for a choice of saved values. What the backward needs and is not saved, it computes again."""
    graph = joint.graph
    returned = graph.output_node().args[0]
    results, grads = list(returned[:num_results]), list(returned[num_results:])
    primals = [n for n in graph.nodes if n.op == "placeholder" and not is_tangent(n)]
    tangents = [n for n in graph.nodes if is_tangent(n)]
    saved = _whole(saved)
    replaced = {primals[i] for i in overwritten}
    backward = after_tangents(graph)
    forward_nodes = with_effects(graph, needed_for([*results, *saved]), backward)
    places, extras = _places(saved, primals, results, replaced)
    forward = _graph(
        joint, forward_nodes, primals, [*results, *extras], {e for e in extras if e in replaced}, "forward"
    )
    chosen = set(saved)
    backward_nodes = needed_for(grads, lambda node: node in chosen)
    backward_graph = _graph(
        joint, backward_nodes - chosen, [*saved, *tangents], grads, set(), "backward", again=backward_nodes - backward
    )
    return Partition(forward, backward_graph, places, num_results, tuple(isinstance(g, Node) for g in grads))


def _whole(saved: Sequence[Node]) -> list[Node]:
    """Saved values as tensors: of an op with several results, the items."""
    found: dict[Node, None] = {}
    for node in saved:
        if (
            isinstance(node.meta.get("val"), Tensor)
            or node.op == "placeholder"
            or not any(
                u.target.__class__.__name__ == "builtin_function_or_method" and u.target.__name__ == "getitem"
                for u in node.users
            )
        ):
            found.setdefault(node)
        else:
            for user in node.users:
                found.setdefault(user)
    return list(found)


def _places(
    saved: Sequence[Node], primals: list[Node], results: list[Any], replaced: set[Node]
) -> tuple[tuple[Saved, ...], list[Node]]:
    at_input = {n: i for i, n in enumerate(primals) if n not in replaced}
    at_result: dict[Node, int] = {}
    for i, r in enumerate(results):
        if isinstance(r, Node):
            at_result.setdefault(r, i)
    extras: list[Node] = []
    places = []
    for node in saved:
        is_tensor = isinstance(node.meta.get("val"), Tensor)
        size = nbytes_of(node)
        if node in at_input:
            places.append(Saved("input", at_input[node], size, is_tensor))
        elif node in at_result and is_tensor:
            places.append(Saved("result", at_result[node], size, is_tensor))
        else:
            places.append(Saved("extra", len(extras), size, is_tensor))
            extras.append(node)
    return tuple(places), extras


def _graph(
    joint: GraphModule,
    nodes: set[Node],
    inputs: Sequence[Node],
    outputs: Sequence[Any],
    copied: set[Node],
    name: str,
    again: Collection[Node] = (),
) -> GraphModule:
    """A graph of some of the joint graph's nodes, in its order; `copied` inputs are returned as copies,
    `again` made just before they are used."""
    graph = Graph()
    result: dict[Node, Node] = {}
    for node in inputs:
        result[node] = graph.placeholder(node.name)
        result[node].meta = dict(node.meta)

    def make(node: Node) -> None:
        waiting = [node]
        while waiting:
            last = waiting[-1]
            missing = [n for n in last.all_input_nodes if n not in result]
            if missing:
                waiting += reversed(missing)
            else:
                waiting.pop()
                if last not in result:
                    assert (
                        last.op != "placeholder"
                    ), f"{name}: input {last.name} of the joint graph is needed and not given"
                    result[last] = graph.node_copy(last, lambda n: result[n])

    for node in joint.graph.nodes:
        if node in nodes and node.op != "output" and node not in again:
            make(node)
    for o in outputs:
        if isinstance(o, Node):
            make(o)
    returned = [result[o] if isinstance(o, Node) else o for o in outputs]
    for i, o in enumerate(outputs):
        if isinstance(o, Node) and o in copied:     # the wrapper overwrites this input before the backward runs
            returned[i] = graph.call_function(find_op("clone").overload_list[0], (result[o],))
            returned[i].meta = dict(o.meta)
    graph.output(tuple(returned))
    return _LazyGraphModule(joint, graph, name)
