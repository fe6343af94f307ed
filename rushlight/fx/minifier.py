"""A small graph that still fails: what is left of a large one when everything that does not matter is taken away.

Enters: a graph, its inputs, and a question, `fails(graph, inputs)`. Leaves: a graph and inputs for which the answer is
still yes, and of which nothing more can be taken away by these steps: results that are not needed, the end of the
graph, and stretches of it whose values become inputs (they are computed once, by running the graph). Refuses: graphs
that do not fail to begin with.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from .._C import Tensor
from .graph import Graph
from .graph_module import GraphModule
from .interpreter import Interpreter
from .node import Node, map_aggregate

Fails = Callable[[GraphModule, list[Any]], bool]


def minified(graph: GraphModule, inputs: Sequence[Any], fails: Fails, most_tries: int = 500
             ) -> tuple[GraphModule, list[Any]]:
    """A graph that fails as `graph` does, and its inputs."""
    search = _Search(fails, most_tries)
    state = graph, list(inputs)
    if not search.is_failing(*state):
        raise ValueError("minified: the graph does not fail on these inputs")
    while True:
        smaller = search.step(*state)
        if smaller is None:
            return state
        state = smaller


class _Search:
    """One search."""

    def __init__(self, fails: Fails, most_tries: int) -> None:
        self.fails, self.left = fails, most_tries

    def is_failing(self, graph: GraphModule, inputs: list[Any]) -> bool:
        if self.left <= 0:
            return False
        self.left -= 1
        try:
            return bool(self.fails(graph, list(inputs)))
        except Exception:      # noqa: BLE001 - something else is wrong with it
            return False

    def step(self, graph: GraphModule, inputs: list[Any]) -> tuple[GraphModule, list[Any]] | None:
        """A smaller graph that fails; None where there is none."""
        for rule in (self.fewer_results, self.shorter, self.with_inputs):
            found = rule(graph, inputs)
            if found is not None:
                return found
        return None

    def fewer_results(self, graph: GraphModule, inputs: list[Any]) -> tuple[GraphModule, list[Any]] | None:
        """Half of the results, or all but one."""
        results = _results(graph)
        size = len(results) // 2
        while size:
            for start in range(0, len(results), size):
                found = self.tried(graph, inputs, results[:start] + results[start + size:], {})
                if found is not None:
                    return found
            size //= 2
        return None

    def shorter(self, graph: GraphModule, inputs: list[Any]) -> tuple[GraphModule, list[Any]] | None:
        """The graph up to one of its nodes, whose value is the result: first the shortest that fail."""
        calls = [n for n in graph.graph.nodes if n.op not in ("placeholder", "output", "get_attr")]
        step = max(len(calls) // 2, 1)
        while step:
            for at in range(step - 1, len(calls) - 1, step):
                found = self.tried(graph, inputs, [calls[at]], {})
                if found is not None:
                    return found
            step //= 2
        return None

    def with_inputs(self, graph: GraphModule, inputs: list[Any]) -> tuple[GraphModule, list[Any]] | None:
        """Values of stretches of the graph as inputs."""
        calls = [n for n in graph.graph.nodes if n.op not in ("placeholder", "output", "get_attr")]
        values = _values(graph, inputs)
        size = max(len(calls) // 2, 1)
        while size:
            for start in range(0, len(calls), size):
                cut = {n: values[n] for n in calls[start:start + size] if isinstance(values.get(n), Tensor)}
                if cut and len(cut) < len(calls):
                    found = self.tried(graph, inputs, _results(graph), cut)
                    if found is not None:
                        return found
            size //= 2
        return None

    def tried(self, graph: GraphModule, inputs: list[Any], results: list[Any], given: dict[Node, Any]
              ) -> tuple[GraphModule, list[Any]] | None:
        result = _part(graph, inputs, results, given)
        is_smaller = _size(result[0]) < _size(graph) or len(_results(result[0])) < len(_results(graph))
        return result if is_smaller and self.is_failing(*result) else None


def _results(graph: GraphModule) -> list[Any]:
    returned = graph.graph.output_node().args[0]
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


def _is_write(node: Node) -> bool:
    """Whether a node is there for what it does, and not for its value."""
    return node.op == "call_function" and not node.users and node.target is not operator.getitem


def _size(graph: GraphModule) -> int:
    return sum(n.op not in ("placeholder", "output", "get_attr") for n in graph.graph.nodes)


def _values(graph: GraphModule, inputs: list[Any]) -> dict[Node, Any]:
    """What each node gives."""
    found: dict[Node, Any] = {}

    class Keeping(Interpreter):
        def run_node(self, n: Node) -> Any:
            found[n] = super().run_node(n)
            return found[n]

    Keeping(graph).run(*[x.clone() if isinstance(x, Tensor) and not x.requires_grad else x for x in inputs])
    return found


def _part(graph: GraphModule, inputs: list[Any], results: list[Any], given: dict[Node, Any]
          ) -> tuple[GraphModule, list[Any]]:
    """The graph of some results, in which some nodes are inputs; only what these need is left, in the same order."""
    needed: set[Node] = set()
    todo = [n for n in results if isinstance(n, Node)]
    while todo:
        node = todo.pop()
        if node not in needed:
            needed.add(node)
            todo += [] if node in given else node.all_input_nodes
    result, copied, kept = Graph(), {}, []
    for node, value in zip(graph.graph.find_nodes(op="placeholder"), inputs, strict=True):
        if node in needed:
            copied[node] = result.placeholder(node.target)
            kept.append(value)
    for node in graph.graph.nodes:
        if node in given and node in needed:
            copied[node] = result.placeholder(f"given_{node.name}")
            kept.append(given[node].detach())
    for node in graph.graph.nodes:
        if node in needed and node not in copied:
            copied[node] = result.node_copy(node, lambda n: copied[n])
        elif _is_write(node) and node not in copied and all(n in copied for n in node.all_input_nodes):
            copied[node] = result.node_copy(node, lambda n: copied[n])
    result.output(tuple(map_aggregate(n, lambda x: copied[x] if isinstance(x, Node) else x) for n in results))
    return GraphModule(graph, result), kept
