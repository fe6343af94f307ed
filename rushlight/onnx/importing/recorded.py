"""Calls of rules as plain records, of which a graph is made when somebody runs or looks at it.

Enters: calls, in the order in which a file has them. Leaves: an `fx.Graph`, without the calls that no result needs. A
node of fx is linked, named, and known to all that use it: made for every node of a file, that took longer than all the
rest of loading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ... import fx
from ...fx._lazy_graph_module import _FORWARD, _generating, _LazyGraphModule
from ...fx.node import map_aggregate
from ...nn.modules.module import Module


class Call:
    """One node to be: as `fx.Graph.create_node` takes it, with calls where nodes will be."""

    __slots__ = ("args", "is_used", "kwargs", "name", "node", "op", "target")

    def __init__(self, op: str, target: Any, args: tuple, kwargs: Mapping[str, Any], name: str | None = None) -> None:
        self.op, self.target, self.args, self.kwargs, self.name = op, target, args, kwargs, name
        self.node: Any = None
        self.is_used = False

    def __repr__(self) -> str:
        return f"{self.name or self.op}: {getattr(self.target, '__name__', self.target)}"


class Recorded:
    """A graph to be."""

    def __init__(self) -> None:
        self.placeholders: list[Call] = []
        self.calls: list[Call] = []
        self.result: Any = None

    def placeholder(self, target: str, args: tuple) -> Call:
        self.placeholders.append(Call("placeholder", target, args, {}))
        return self.placeholders[-1]

    def add(self, op: str, target: Any, args: tuple, kwargs: Mapping[str, Any], name: str | None = None) -> Call:
        found = Call(op, target, args, kwargs, name)
        self.calls.append(found)
        return found

    def output(self, result: Any) -> None:
        """The results; calls that none of them needs are dropped."""
        self.result = result
        _use(result)
        for call in reversed(self.calls):
            if call.is_used:
                _use(call.args)
                if call.kwargs:
                    _use(call.kwargs)
        self.calls = [call for call in self.calls if call.is_used]

    def made(self) -> fx.Graph:
        """The graph."""
        graph = fx.Graph()
        for call in (*self.placeholders, *self.calls):
            call.node = graph.create_node(call.op, call.target, map_aggregate(call.args, _node_of),
                                          {k: map_aggregate(v, _node_of) for k, v in call.kwargs.items()}, call.name)
        graph.output(map_aggregate(self.result, _node_of))
        return graph


def _node_of(value: Any) -> Any:
    return value.node if type(value) is Call else value


def _use(value: Any) -> None:
    """Note of the calls in a value that they are needed."""
    kind = type(value)
    if kind is Call:
        value.is_used = True
    elif kind is tuple or kind is list:
        for part in value:
            _use(part)
    elif kind is dict:
        for part in value.values():
            _use(part)


class _PendingGraph:
    """The graph of a module: made when it is first read, it then stands in this place."""

    def __get__(self, module: Any, kind: type | None = None) -> Any:
        if module is None:
            return self
        with _generating:                    # another thread may be at it
            recorded = module.__dict__.get("_recorded")
            if recorded is None:
                if "_graph" in module.__dict__:
                    return module.__dict__["_graph"]
                raise AttributeError(f"{type(module).__name__} has no graph")
            graph = recorded.made()
            graph.owning_module = module
            module.__dict__["_graph"] = graph
            del module.__dict__["_recorded"]
        return graph


class RecordedModule(_LazyGraphModule):
    """A graph module of recorded calls."""

    _graph: Any = _PendingGraph()
    forward: Callable[..., Any] = _FORWARD

    def __init__(self, recorded: Recorded, modules: Mapping[str, Module]) -> None:
        Module.__init__(self)
        type(self).__name__ = "GraphModule"
        self.__dict__.update(
            _recorded=recorded, _is_pending=True, _replace_hooks=[], _create_node_hooks=[], _erase_node_hooks=[],
            _deepcopy_hooks=[], _tracer_cls=None, _tracer_extras={}, meta={}, shape_env=None)
        used = {call.target for call in recorded.calls if call.op in ("get_attr", "call_module")}
        for name, module in modules.items():
            if name in used:
                self.add_module(name, module)

    def __deepcopy__(self, memo: Any) -> Any:
        assert self._graph is not None       # a copy has a graph
        return super().__deepcopy__(memo)

    def __reduce__(self) -> tuple:
        assert self._graph is not None
        return super().__reduce__()
