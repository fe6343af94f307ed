"""The modules of an unflattened program, and calls of them with the structure of arguments that the original had.

Enters: a graph under construction and the signature of a call. Leaves: nodes that take arguments apart and put results
together again, inside the called module and around its call; modules in the order of the original's.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .._C import Tensor
from ..fx._pytree import tree_flatten_spec
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_aggregate
from ..nn import Module
from ..utils import _pytree as pytree
from .unlift import owner_of


class InterpreterModule(GraphModule):
    """One module of an unflattened program: a graph that can be read and changed."""

    def __init__(self, graph: Graph, ty: str | None = None, *, root: Module | None = None) -> None:
        root = root or graph.owning_module or Module()
        super().__init__(root, graph, "InterpreterModule")
        self._ty = ty
        _hold_as(self, root)

    def type_name(self) -> str | None:
        """The class that the original module had, where that is known."""
        return self._ty


def _hold_as(module: Module, like: Module) -> None:
    """Tensors of a graph module as those of another: plain attributes such, buffers that are not saved such."""
    for name in [n for n in module._buffers if n not in like._buffers]:
        module.__dict__[name] = module._buffers.pop(name)
    module._non_persistent_buffers_set |= like._non_persistent_buffers_set
    for name, child in module._modules.items():
        inner = like._modules.get(name)
        if inner is not None and inner is not child:
            _hold_as(child, inner)


class InterpreterModuleDispatcher(Module):
    """A module whose calls do different things: each call runs what the original's call of that number did."""

    def __init__(self, attrs: set[str], call_modules: list[Module]) -> None:
        super().__init__()
        if not call_modules:
            raise ValueError("InterpreterModuleDispatcher: there are no calls to choose from")
        self._modules.update({k: m for k, m in call_modules[0]._modules.items() if m is not None})
        for name in sorted(attrs):
            value = getattr(call_modules[0], name, None)
            if isinstance(value, Tensor):
                setattr(self, name, value)
        self.__dict__["_call_modules"] = list(call_modules)
        self._num_calls = 0

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__["_call_modules"]
        module = own[self._num_calls]
        self._num_calls = (self._num_calls + 1) % len(own)
        return module(*args, **kwargs)

    def call_modules(self) -> list[Module]:
        """What runs, in the order of calls."""
        return list(self.__dict__["_call_modules"])


# --- structures -------------------------------------------------------------------------------------------------------


def _spec(root: Module, graph: Graph, spec: Any) -> Node:
    """A structure, as an attribute of the module."""
    number = 0
    while hasattr(root, f"_spec_{number}"):
        number += 1
    setattr(root, f"_spec_{number}", spec)
    return graph.get_attr(f"_spec_{number}")


def _part(graph: Graph, whole: Any, key: Any) -> Node:
    return graph.call_function(operator.getitem, (whole, key))


def kept_inside(root: Module, graph: Graph, signature: Any) -> list[Node]:
    """Arguments of a module that is called with its own signature: placeholders, taken apart."""
    args, kwargs = signature.in_spec.child(0), signature.in_spec.child(1)
    places = tuple(graph.placeholder(f"_positional_arg_{i}") for i in range(len(args.children())))
    names = {name: graph.placeholder(str(name)) for name in kwargs.context}
    flat = graph.call_function(tree_flatten_spec, ((places, names), _spec(root, graph, signature.in_spec)))
    return [_part(graph, flat, i) for i in range(len(signature.inputs))]


def kept_outside(root: Module, graph: Graph, signature: Any, results: Sequence[Any]) -> Node:
    """The result of such a module, put together."""
    return graph.call_function(pytree.tree_unflatten, (tuple(results), _spec(root, graph, signature.out_spec)))


def kept_call(root: Module, graph: Graph, name: str, signature: Any, given: list[Any]) -> list[Node]:
    """The call of such a module: arguments put together, results taken apart."""
    whole = graph.call_function(pytree.tree_unflatten, (given, _spec(root, graph, signature.in_spec)))
    places, names = _part(graph, whole, 0), _part(graph, whole, 1)
    count = len(signature.in_spec.child(0).children())
    args = tuple(_part(graph, places, i) for i in range(count))
    kwargs = {key: _part(graph, names, key) for key in signature.in_spec.child(1).context}
    call = graph.call_module(name, args, kwargs)
    flat = graph.call_function(tree_flatten_spec, (call, _spec(root, graph, signature.out_spec)))
    return [_part(graph, flat, i) for i in range(len(signature.outputs))]


# --- several calls ----------------------------------------------------------------------------------------------------


def is_same_call(a: Module, b: Module) -> bool:
    """Whether two modules do the same with the same tensors."""
    return isinstance(a, GraphModule) and isinstance(b, GraphModule) and _dump(a) == _dump(b)


def _dump(module: GraphModule) -> list[Any]:
    """What a module does, without the names its nodes have."""
    numbers = {node: i for i, node in enumerate(module.graph.nodes)}
    lines: list[Any] = []
    for node in module.graph.nodes:
        target: Any = node.target
        if node.op == "call_module":
            target = _dump(module.get_submodule(node.target))
        elif node.op == "get_attr":
            value = module
            for part in node.target.split("."):
                value = getattr(value, part)
            is_graph = isinstance(value, GraphModule)
            target = _dump(value) if is_graph else id(value) if isinstance(value, Tensor) else repr(value)
        elif node.op == "placeholder":
            target = ""
        shown = map_aggregate((node.args, node.kwargs), lambda a: f"%{numbers[a]}" if isinstance(a, Node) else repr(a))
        lines.append((node.op, str(target), repr(shown)))
    return lines


def dispatch_calls(root: Module, paths: set[str]) -> None:
    """One module in the place of those of several calls, where signatures are kept: it is exchanged for all."""
    for path in sorted(paths):
        try:
            owner, last = owner_of(root, path)
        except AttributeError:
            continue
        labels = [k for k in owner._modules if k == last or k.startswith(f"{last}@")]
        if len(labels) < 2 or not isinstance(owner, GraphModule):
            continue
        calls = [n for n in owner.graph.nodes if n.op == "call_module" and n.target in labels]
        order = [owner._modules[n.target] for n in calls]
        attrs = {k for m in order for k in (*m._parameters, *m._buffers)}
        for label in labels:
            del owner._modules[label]
        owner._modules[last] = InterpreterModuleDispatcher(attrs, order)
        for node in calls:
            node.target = last
        owner.recompile()


def order_modules(root: Module, paths: Sequence[str]) -> None:
    """Submodules in the order that the original had them in."""
    places = {path: i for i, path in enumerate(paths)}

    def sort(module: Module, path: str) -> None:
        prefix = f"{path}." if path else ""
        children = list(module._modules.items())
        children.sort(key=lambda item: places.get(prefix + item[0].partition("@")[0], len(places)))
        module._modules.clear()
        module._modules.update(children)
        for name, child in children:
            if child is not None:
                sort(child, prefix + name)

    sort(root, "")
