"""Graphs in which elements decide sizes or numbers, or that lie on several devices: consecutive parts, with the ops
that tell these, or move tensors, in between.

Enters: a graph that calls `nonzero`, `unique`, `item` and their like, or `to(device)`, and examples of its inputs.
Leaves: `Parted`, called as `Compiled` is. The graph is cut behind the ops whose results have sizes that only elements
can tell, and behind those that move tensors; each part is on one device and compiled as any graph is, its sizes being
those of the tensors that it is given, so that one plan serves all counts.
Ops that decide stand where everything before them is known; the others wait as long as they can, for company to fuse
with. Random numbers are drawn in the order of the program, and a graph that writes to tensors keeps its order whole.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from .. import _C
from ..aten.overloads import AtenOverload
from ..autograd.grad_mode import no_grad
from ..fx._lazy_graph_module import _LazyGraphModule
from ..fx.elements import as_operand, takes_tensor
from ..fx.experimental.symbolic_sizes import hidden_symbols
from ..fx.graph import Graph
from ..fx.node import Node, _draws, _mutates, map_aggregate
from ..symbols import SymFloat


def are_in(graph: Graph) -> bool:
    """Whether elements decide a size or number of a graph, or it moves tensors."""
    return any(is_deciding(n) or is_real(n) or is_moving(n) for n in graph.nodes)


def tensors_of(node: Node) -> list[Any]:
    """Tensors like those that are a node's value."""
    value = node.meta.get("val")
    return [x for x in (value if isinstance(value, (list, tuple)) else (value,)) if isinstance(x, _C.Tensor)]


def device_of(node: Node) -> Any:
    """Where a node is computed; None for numbers."""
    found = tensors_of(node) or [t for m in node.all_input_nodes for t in tensors_of(m)]
    return found[0].device if found else None


def _host_first(device: Any) -> tuple[bool, str]:
    """An order of devices: numbers on the host may be operands of the others' parts."""
    return device is not None and device.type != "cpu", str(device)


def is_moving(node: Node) -> bool:
    """Whether a node takes tensors of one device to another. Those of one number on the host go anywhere."""
    if node.op != "call_function" or not isinstance(node.target, (_C.Overload, AtenOverload)):
        return False
    given = [t for m in node.all_input_nodes for t in tensors_of(m)]
    made = {t.device for t in tensors_of(node)}
    elsewhere = [t for t in given if t.device not in made]
    return bool(made and elsewhere) and (len(elsewhere) == len(given) or any(t.ndim for t in elsewhere))


def is_real(node: Node) -> bool:
    """Whether a node's value is a real number that elements decide: no plan is made for one of those."""
    value = node.meta.get("val")
    return isinstance(value, SymFloat) and bool(hidden_symbols(node))


def is_spread(graph: Graph) -> bool:
    """Whether a graph takes tensors from device to device."""
    return any(map(is_moving, graph.nodes))


def numbers_of(graph: Graph) -> set[Node]:
    """Nodes that are computed in Python: real numbers, and what these are computed from and go into; between devices,
    all numbers."""
    takes_all = is_spread(graph)
    found = {n for n in graph.nodes if n.op == "call_function" and not is_deciding(n)
             and (is_real(n) or (takes_all and _is_number(n)))}
    for n in reversed(graph.nodes):
        if n in found:
            found |= {m for m in n.all_input_nodes if _is_number(m)}
    for n in graph.nodes:
        if _is_number(n) and any(m in found or is_real(m) for m in n.all_input_nodes):
            found.add(n)
    return found


def _is_number(node: Node) -> bool:
    if node.op != "call_function" or is_deciding(node) or node.target is operator.getitem:
        return False
    if isinstance(node.target, (_C.Overload, AtenOverload)):
        return getattr(getattr(node.target, "definition", None), "gives_number", False)
    return True


def wants_number(node: Node) -> bool:
    """Whether a node calls an op with a real number for which a tensor will not do."""
    return isinstance(node.target, (_C.Overload, AtenOverload)) and any(
        is_real(m) and not takes_tensor(node, m) for m in node.all_input_nodes
    )


def is_deciding(node: Node) -> bool:
    """Whether elements decide a size of the node's result, or are the result; items of such results count too."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return isinstance(node.args[0], Node) and is_deciding(node.args[0])
    if not isinstance(node.target, (_C.Overload, AtenOverload)):
        return False
    definition = getattr(node.target, "definition", None)
    if getattr(definition, "hidden_size", None) is not None or node.target._opname == "_local_scalar_dense":
        return True
    hidden = hidden_symbols(node)
    return bool(hidden) and bool(hidden - set().union(*map(hidden_symbols, node.all_input_nodes)))


def called_between(graph: Graph) -> set[Node]:
    """Nodes that run between parts, with the items of their results."""
    found: set[Node] = set()
    for n in graph.nodes:
        is_drawn = n.op == "call_function" and _draws(n.target) and bool(hidden_symbols(n))      # a call in any plan
        is_item = n.target is operator.getitem and n.args[0] in found
        if is_deciding(n) or wants_number(n) or is_drawn or is_item or is_moving(n):
            found.add(n)
    return found


def levels_of(graph: Graph, deciding: set[Node], numbers: set[Node]) -> dict[Node, int]:
    """Of each node the number of the part it is in; deciding ones run behind the part of their number, and numbers
    before it."""
    nodes = [n for n in graph.nodes if n.op == "call_function"]
    # draws write to memory that was made for them
    has_writes = any(_mutates(n.target) and not _draws(n.target) for n in nodes)
    in_order = [n for n in nodes if has_writes or _draws(n.target)]
    after = dict(pairwise(in_order))
    before = {n: m for m, n in after.items()}
    first: dict[Node, int] = {}
    for n in nodes:
        is_item = n.target is operator.getitem and n in deciding      # stands with what it is an item of
        sources = [m for m in (*n.all_input_nodes, *([before[n]] if n in before else [])) if m in first]
        first[n] = max(
            [first[m] + (m not in numbers if n in numbers else m in deciding and not is_item) for m in sources],
            default=0,
        )
    if has_writes:
        return first
    level: dict[Node, int] = {}
    for n in reversed(nodes):
        wanted = [level[m] - (m in numbers) for m in n.users if m in level]
        wanted += [level[after[n]]] if n in after else []
        if n in deciding or n in numbers or not n.users:      # what is only checked is checked as soon as it can be
            level[n] = first[n]
        else:
            level[n] = min(wanted, default=max(first.values()))
    for n in nodes:
        if n.target is operator.getitem and n.args[0] in level and n.args[0] not in deciding:
            level[n] = level[n.args[0]]      # parts hand on tensors: items are of the part of the whole
    return level


class Parted:
    """A graph in parts. Called with the list of inputs; returns the list of results."""

    def __init__(self, graph_module: Any, examples: Sequence[Any],
                 compile: Callable[[Any, Sequence[Any]], Any]) -> None:
        graph = graph_module.graph
        self.compile, self.owner = compile, graph_module
        self.placeholders = list(graph.find_nodes(op="placeholder"))
        for node, example in zip(self.placeholders, examples, strict=True):
            node.meta.setdefault("val", example)
        self.static = {self.placeholders[k] for k in graph_module.meta.get("static_inputs", ())}
        self.held = {n: operator.attrgetter(n.target)(graph_module) for n in graph.nodes if n.op == "get_attr"}
        self.outputs = graph.output_node().args[0]
        self.is_single = isinstance(self.outputs, Node)
        deciding = called_between(graph)
        numbers = numbers_of(graph)
        level = levels_of(graph, deciding, numbers)
        self.steps: list[_Step] = []
        for k in range(max(level.values()) + 1):
            nodes = [n for n in graph.nodes if level.get(n) == k]
            self.steps += [_Call(n) for n in nodes if n in numbers]
            rest = [n for n in nodes if n not in deciding and n not in numbers]
            places = sorted({device_of(n) for n in rest}, key=_host_first) if is_spread(graph) else ()
            for part in [[n for n in rest if device_of(n) == place] for place in places] or [rest]:
                self.add_part(part, k)
            self.steps += [_Call(n) for n in nodes if n in deciding]
        last = {n: k for k, step in enumerate(self.steps) for n in (*step.inputs, *step.outputs)}
        kept = set(graph.output_node().all_input_nodes)
        self.ended = [[n for n, at in last.items() if at == k and n not in kept] for k in range(len(self.steps))]

    def add_part(self, nodes: list[Node], number: int) -> None:
        """One more part: its nodes, as a graph of what comes before them."""
        if not any(isinstance(n.target, (_C.Overload, AtenOverload)) for n in nodes):
            self.steps += [_Call(n) for n in nodes]      # numbers, and items of what is there
            return
        inside = set(nodes)
        inputs = list(dict.fromkeys(m for n in nodes for m in n.all_input_nodes if m not in inside))
        outputs = [n for n in nodes if any(m not in inside for m in n.users)]
        graph, copies = Graph(), {}
        for n in inputs:
            copies[n] = graph.placeholder(n.name)
            copies[n].meta = dict(n.meta)
        for n in nodes:
            copies[n] = graph.node_copy(n, copies.__getitem__)
        values = [n.meta.get("val") for n in (*inputs, *nodes)]
        device = next((v.device for v in values if isinstance(v, _C.Tensor)), _C.device("cpu"))
        for n in filter(is_real, inputs):
            copies[n].meta = {"val": _C.empty((), None, _C.float64, device)}
            for user in list(copies[n].users):
                user.replace_input_with(copies[n], as_operand(graph, copies[n], user))
        graph.output(tuple([copies[n] for n in outputs]))
        module = _LazyGraphModule(self.owner, graph, f"part_{number}")
        module.meta["static_inputs"] = [k for k, n in enumerate(inputs) if n in self.static]
        examples = [copies[n].meta["val"] if is_real(n) else self.held.get(n, n.meta.get("val")) for n in inputs]
        self.steps.append(_Part(self.compile(module, examples), inputs, outputs, device))

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        values = dict(zip(self.placeholders, inputs, strict=True))
        values.update(self.held)
        with no_grad():
            for step, ended in zip(self.steps, self.ended, strict=True):
                step.run(values)
                for node in ended:
                    values.pop(node, None)
        results = map_aggregate(self.outputs, lambda a: values[a] if isinstance(a, Node) else a)
        return [results] if self.is_single else list(results)

    @property
    def parts(self) -> list[Any]:
        """The compiled parts, in order."""
        return [step.function for step in self.steps if isinstance(step, _Part)]

    @property
    def compilations(self) -> int:
        """How many plans there were."""
        return sum(getattr(part, "compilations", 1) for part in self.parts)

    @property
    def calls(self) -> tuple[str, ...]:
        """Ops that run in Python."""
        own = [step.node.target._opname for step in self.steps if isinstance(step, _Call) and step.is_op]
        return (*own, *(name for part in self.parts for name in part.calls))


class _Step:
    inputs: Sequence[Node]
    outputs: Sequence[Node]

    def run(self, values: dict[Node, Any]) -> None:
        raise NotImplementedError


class _Call(_Step):
    """A node that is called as it is."""

    def __init__(self, node: Node) -> None:
        self.node, self.inputs, self.outputs = node, node.all_input_nodes, [node]
        self.is_op = isinstance(node.target, (_C.Overload, AtenOverload))

    def run(self, values: dict[Node, Any]) -> None:
        node = self.node
        args, kwargs = map_aggregate((node.args, node.kwargs), lambda a: values[a] if isinstance(a, Node) else a)
        values[node] = node.target(*args, **kwargs)


class _Part(_Step):
    """A compiled graph. Real numbers reach it as tensors, since plans are for all of them."""

    def __init__(self, function: Any, inputs: Sequence[Node], outputs: Sequence[Node], device: Any) -> None:
        self.function, self.inputs, self.outputs, self.device = function, inputs, outputs, device
        self.reals = [k for k, n in enumerate(inputs) if is_real(n)]

    def run(self, values: dict[Node, Any]) -> None:
        given = [values[n] for n in self.inputs]
        for k in self.reals:
            given[k] = _C.empty((), None, _C.float64, self.device).fill_(given[k])
        results = self.function(given)
        values.update(zip(self.outputs, results, strict=True))
