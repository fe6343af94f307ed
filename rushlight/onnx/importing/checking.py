"""Whether a graph is one: every name defined once, before it is read, and nothing read that nothing defines.

Enters: nodes, and the names that are there before them. Leaves: the nodes in an order in which they can run (files
should have that order; some do not). Refuses: cycles, names defined twice or never, operators without a rule.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ..errors import UnsupportedOperatorError
from ..model import Graph, Model, Node
from .errors import damaged
from .table import NEWEST, first_version, found

# Operators with graphs in them (`control.py`), by the version that brought them.
CONTROL = {("", "If"): 1, ("", "Loop"): 1, ("", "Scan"): 8, ("", "SequenceMap"): 17,
           ("ai.onnx.preview", "FlexAttention"): 1, ("ai.onnx.preview.training", "Gradient"): 1}


def ordered(nodes: Sequence[Node], graph: Graph | None, known: Collection[str], scope: Any, where: str) -> list[Node]:
    """The nodes, each after those whose results it reads."""
    if _is_in_order(nodes, graph, known, scope):
        return list(nodes)
    makers: dict[str, int] = {}
    for k, node in enumerate(nodes):
        for name in node.outputs:
            if not name:
                continue
            if name in makers or name in known:
                raise damaged(f"{where or 'the graph'} defines {name!r} twice")
            makers[name] = k
    waiting: list[int] = []
    readers: dict[int, list[int]] = {}
    for k, node in enumerate(nodes):
        before = set()
        for name in (*(n for n in node.inputs if n), *_captured(node)):
            if name in makers:
                before.add(makers[name])
            elif name not in known and (scope is None or scope.find(name) is None):
                raise damaged(f"{_label(node)} reads {name!r}, which nothing defines")
        waiting.append(len(before))
        for b in before:
            readers.setdefault(b, []).append(k)
    if graph is not None:
        for value in graph.outputs:
            is_outside = scope is not None and scope.find(value.name) is not None
            if value.name not in makers and value.name not in known and not is_outside:
                raise damaged(f"{where or 'the graph'} has the result {value.name!r}, which nothing defines")
    return _sorted(nodes, waiting, readers)


def _is_in_order(nodes: Sequence[Node], graph: Graph | None, known: Collection[str], scope: Any) -> bool:
    """Whether the nodes of a file can run as they come, which most can: all that is read was made, and once."""
    made: set[str] = set()
    outside: set[str] = set()            # a node after all may make these, and then it is meant

    def is_there(name: str) -> bool:
        if not name or name in made or name in known:
            return True
        if scope is None or scope.find(name) is None:
            return False
        outside.add(name)
        return True

    for node in nodes:
        for name in node.inputs:
            if name not in made and not is_there(name):
                return False
        if node.attributes and not all(is_there(name) for name in _captured(node)):
            return False
        for name in node.outputs:
            if name and (name in made or name in known or name in outside):
                return False
            made.add(name)
    return graph is None or all(is_there(v.name) and v.name for v in graph.outputs)


def _sorted(nodes: Sequence[Node], waiting: list[int], readers: Mapping[int, list[int]]) -> list[Node]:
    ready = deque([k for k, count in enumerate(waiting) if not count])
    done: list[Node] = []
    while ready:
        k = ready.popleft()
        done.append(nodes[k])
        for reader in readers.get(k, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    if len(done) < len(nodes):
        stuck = [_label(nodes[k]) for k, count in enumerate(waiting) if count]
        raise damaged(f"nodes read one another's results in a circle: {', '.join(stuck[:5])}")
    return done


def _captured(node: Node) -> set[str]:
    """Names that graphs in a node read from around them."""
    found: set[str] = set()
    for value in node.attributes.values():
        if isinstance(value, Graph):
            found |= _free(value)
        elif isinstance(value, list) and value and isinstance(value[0], Graph):
            for graph in value:
                found |= _free(graph)
    return found


def _free(graph: Graph) -> set[str]:
    """Names that a graph, or one in it, reads and does not make."""
    read, own = {v.name for v in graph.outputs}, {v.name for v in graph.inputs}
    for node in graph.nodes:
        read.update(node.inputs)
        own.update(node.outputs)
        if node.attributes:
            read |= _captured(node)
    read.discard("")
    return read - own - graph.tensors.keys()


def _label(node: Node) -> str:
    return f"node {node.name or next(iter(node.outputs), '')!r} ({node.op})"


def check_versions(model: Model) -> None:
    """Whether all versions that a model asks for are known here."""
    for domain, version in {"": model.opset, **model.opsets}.items():
        newest = NEWEST.get(domain)
        if newest is not None and version > newest:
            raise ValueError(f"onnx: the model is in version {version} of {domain or 'ai.onnx'}, and {newest} is the"
                             " newest known here. Write it in an older version: onnx.version_converter does so.")
        if version < 1:
            raise damaged(f"it is in version {version} of {domain or 'ai.onnx'}, and versions begin with 1")


def all_nodes(model: Model) -> Iterator[tuple[Node, Mapping[str, int]]]:
    """Every node of a model, those of functions that it calls and of graphs in graphs too, with the versions it is
    in."""
    seen = set()
    stack = [(model.graph.nodes, {"": model.opset, **model.opsets})]
    while stack:
        nodes, opsets = stack.pop()
        for node in nodes:
            yield node, opsets
            for value in node.attributes.values():
                stack.extend((g.nodes, opsets) for g in (value if isinstance(value, list) else [value])
                             if isinstance(g, Graph))
            key = (node.domain, node.op, node.overload)
            if key in model.functions and key not in seen:
                seen.add(key)
                stack.append((model.functions[key].nodes, {**opsets, **model.functions[key].opsets}))


def check_calls_end(model: Model) -> None:
    """Whether functions of a model call one another in a circle: their bodies would have no end."""
    state: dict[Any, int] = {}

    def enter(key: Any, depth: int) -> None:
        if state.get(key) == 1 or depth > 200:
            raise damaged(f"function {key[1]!r} calls itself")
        if key in state:
            return
        state[key] = 1
        stack = list(model.functions[key].nodes)
        while stack:
            node = stack.pop()
            inner = (node.domain, node.op, node.overload)
            if inner in model.functions:
                enter(inner, depth + 1)
            for value in node.attributes.values():
                stack.extend(n for g in (value if isinstance(value, list) else [value]) if isinstance(g, Graph)
                             for n in g.nodes)
        state[key] = 2

    for key in model.functions:
        enter(key, 0)


def unsupported(model: Model, custom: Collection[tuple[str, str]] = ()) -> list[str]:
    """What a model calls and nothing here implements, one line for each."""
    missing: Counter[tuple[str, str, int]] = Counter()
    first: dict[tuple[str, str, int], str] = {}
    fine: set[tuple[str, str, int]] = set()
    for node, opsets in all_nodes(model):
        if (node.domain, node.op, id(opsets)) in fine:
            continue
        if (node.domain, node.op) in custom or (node.domain, node.op, node.overload) in model.functions:
            continue
        version = opsets.get(node.domain, model.opset if not node.domain else 1)
        if version >= CONTROL.get((node.domain, node.op), version + 1):
            continue
        rule = found(node.domain, node.op, version)
        if rule is None or rule.function is absent:
            key = (node.domain, node.op, version)
            missing[key] += 1
            first.setdefault(key, node.name or next(iter(node.outputs), ""))
        elif not model.functions:
            fine.add((node.domain, node.op, id(opsets)))
    return [_line(*key, count, first[key]) for key, count in missing.items()]


def absent(*inputs: Any) -> None:
    """The rule of an operator that versions of its domain do not have any more."""


def _line(domain: str, op: str, version: int, count: int, node: str) -> str:
    more = f" and {count - 1} more" if count > 1 else ""
    since = first_version(domain, op)
    why = f"; it is there from version {since} on" if since is not None and since > version else ""
    return f"{op} of {domain or 'ai.onnx'} version {version} (node {node!r}{more}){why}"


def check_supported(model: Model, custom: Collection[tuple[str, str]]) -> None:
    """Refuse a model with operators that nothing here implements: all of them at once."""
    lines = unsupported(model, custom)
    if lines:
        raise UnsupportedOperatorError(
            "onnx: the model calls operators that are not here:\n  " + "\n  ".join(lines)
            + "\nGive functions for them: load(..., custom_ops={(domain, op): function})."
        )
