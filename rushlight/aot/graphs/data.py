"""Graphs of Dynamo's as data: named by it, and put together again from it.

Enters: a graph of calls of our ops and of Python's own operators. Leaves: what JSON holds, the same in every process
for the same graph: nodes by their numbers, functions by their names; and the other way round, a graph. Refuses
(`NotKept`): graphs that hold anything of the program's own.
"""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Mapping, Sequence
from typing import Any

from ... import _C
from ...base import shape, sources
from ...base.late import import_module
from ...codegen.stored.graphs import NotKept
from ...dynamo.stored.fingerprints import op_name
from ...dynamo.stored.values import described_value, restored_value
from ...op import find_op
from ...op.registry import _aliases, ops

_ROOT = __name__.partition(".")[0]
_NAMED = (_C.dtype, _C.device, shape.layout, shape.memory_format)
_MODULES = {"_operator": operator, "math": math, f"{_ROOT}._C": _C}


def described(gm: Any) -> list[Any]:
    """The nodes of a graph."""
    if isinstance(gm, StoredModule):
        return gm.data
    numbers: dict[Any, int] = {}
    found: list[Any] = []
    for node in gm.graph.nodes:
        numbers[node] = len(numbers)
        if node.op == "placeholder":
            found.append(["input"])
        elif node.op in ("call_function", "output"):
            name = target_name(node.target) if node.op == "call_function" else ""
            found.append([node.op, name, _argument(node.args, numbers), _argument(node.kwargs, numbers)])
        else:
            raise NotKept(f"the graph holds {node.target} ({node.op})")
    return found


def _argument(x: Any, numbers: Mapping[Any, int]) -> Any:
    """An argument of a node."""
    try:
        if x in numbers:
            return ["node", numbers[x]]
    except TypeError:      # no node, and not to be hashed
        pass
    if isinstance(x, (list, tuple)):
        return ["list" if isinstance(x, list) else "tuple", [_argument(v, numbers) for v in x]]
    if isinstance(x, Mapping):
        return ["dict", [[described_value(k), _argument(v, numbers)] for k, v in x.items()]]
    if type(x) is slice:
        return ["slice", [_argument(v, numbers) for v in (x.start, x.stop, x.step)]]
    return described_value(x)


def target_name(target: Any) -> str:
    """The name of a function that a node calls: ours, or one of Python's own."""
    if isinstance(target, _C.Op):
        return op_name(target)
    if isinstance(target, _C.Overload):
        name = target.definition.name
        listed = find_op(name).overload_list if name in ops else []
        number = next((k for k, overload in enumerate(listed) if overload is target), None)
        if number is None or "::" in name:
            raise NotKept(f"the graph calls {target}, which the program defined")
        return f"overload {name} {number}"
    home, name = getattr(target, "__module__", None), getattr(target, "__qualname__", "")
    if isinstance(target, types.FunctionType):
        written = target.__globals__.get("__name__", "").split(".")
        if _is_ours(written) and "<" not in name and target.__closure__ is None:
            return f"{'.'.join(written)}:{name}"
    elif isinstance(target, types.BuiltinFunctionType) and getattr(_MODULES.get(home), name, None) is target:
        return f"{home}:{name}"
    raise NotKept(f"the graph calls {getattr(target, '__qualname__', target)}, a function of the program's own")


def _is_ours(home: Sequence[str]) -> bool:
    return home[0] == _ROOT and (len(home) == 2 or sources.takes_part(home[1]))


# --- back -------------------------------------------------------------------------------------------------------------


class StoredModule:
    """A graph that another process captured: put together when it is asked for, which most programs never do."""

    def __init__(self, data: list[Any], meta: dict[str, Any]) -> None:
        self.data, self.meta = data, meta

    @functools.cached_property
    def module(self) -> Any:
        from ...fx.graph import Graph  # noqa: PLC0415 - as above
        from ...fx.graph_module import GraphModule  # noqa: PLC0415
        from ...nn import Module  # noqa: PLC0415

        graph = Graph()
        nodes: list[Any] = []
        for k, (kind, *rest) in enumerate(self.data):
            if kind == "input":
                nodes.append(graph.placeholder(f"arg{k}"))
                continue
            args, kwargs = (_restored(part, nodes) for part in rest[1:])
            if kind == "output":
                nodes.append(graph.output(args[0]))
            else:
                nodes.append(graph.call_function(target_named(rest[0]), args, kwargs))
        module = GraphModule(Module(), graph)
        module.meta.update(self.meta)
        return module

    def forward(self, *args: Any) -> Any:
        return self.module.forward(*args)


def _restored(x: Any, nodes: Sequence[Any]) -> Any:
    if type(x) is not list:
        return x
    kind, *rest = x
    if kind == "node":
        return nodes[rest[0]]
    if kind in ("list", "tuple", "slice"):
        parts = [_restored(v, nodes) for v in rest[0]]
        return parts if kind == "list" else tuple(parts) if kind == "tuple" else slice(*parts)
    if kind == "dict":
        return {restored_value(k): _restored(v, nodes) for k, v in rest[0]}
    return restored_value(x)


def target_named(name: str) -> Any:
    """The function of that name."""
    home, colon, rest = name.partition(":")
    if name.startswith("overload "):
        _, op, number = name.split(" ")
        return find_op(op).overload_list[int(number)]
    if not colon:
        return _aliases[name.removeprefix("alias ")] if name.startswith("alias ") else ops[name]
    if home not in _MODULES and not _is_ours(home.split(".")):
        raise NotKept(f"the graph calls {rest} of {home}")
    found = _MODULES.get(home) or import_module(home)
    for part in rest.split("."):
        found = getattr(found, part)
    if target_name(found) != name:
        raise NotKept(f"the graph calls {name}, which is another function here")
    return found
