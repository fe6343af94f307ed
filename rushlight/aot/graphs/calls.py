"""Ops over functions inside of compiled graphs: each call with its graphs is an op of its own.

Enters: an op of `_higher_order_ops`, its arguments, and its functions as graphs. Leaves: an overload that takes the
tensors among the arguments and runs the op with those graphs, so that partitions, functionalization and compilers see
an ordinary op: one that runs in Python, between kernels. Its graphs are compiled where a compiler is given.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from ..._higher_order_ops.core import HigherOrderOp, device_of, recording_mode
from ...autograd.grad_mode import no_grad
from ...dispatch.modes import disable_dispatch_modes
from ...fake import FakeTensor, FakeTensorMode
from ...fx.graph_module import GraphModule
from ...fx.node import _draws
from ...library.definition import CustomOp
from ...op.schema import parse
from ...utils import _pytree as pytree

_numbers = itertools.count()


class GraphCall(CustomOp):
    """One call."""

    def __init__(self, op: HigherOrderOp, arguments: tuple, graphs: Mapping[str, GraphModule]) -> None:
        name = f"{op.name}_{next(_numbers)}"
        super().__init__(parse(f"{name}(Tensor[] tensors) -> Tensor[]"), f"rushlight::{name}")
        self.op, self.graphs = op, dict(graphs)
        self.functions: dict[str, Callable] = dict(graphs)
        self.places = {at: name for name, (at, _) in op.functions(arguments).items()}
        # a function is one leaf
        self.leaves, self.structure = pytree.tree_flatten(
            tuple(None if i in self.places else a for i, a in enumerate(arguments))
        )
        self.plain["cpu"] = (None, self.run)      # nobody registers kernels for it: none has to be looked for
        self.batch = "random" if any(_holds_draws(g) for g in self.graphs.values()) else type(self).batch

    def tensors(self) -> list[Tensor]:
        """What the call takes, in order."""
        return [leaf for leaf in self.leaves if isinstance(leaf, Tensor)]

    def forget_tensors(self, results: Sequence[Tensor]) -> None:
        """The places of tensors, without those it was traced with; and what the results are like."""
        self.results = [(tuple(t.shape), tuple(t.stride()), t.dtype) for t in results]
        numbers = (n for t in (*self.tensors(), *results) for n in (*t.shape, *t.stride()))
        self.is_fixed = all(type(n) is int for n in numbers)
        self.devices = [device_of(t) for t in self.tensors()]
        self.leaves = [_TENSOR if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]

    def compile(self, compiler: Callable[[GraphModule, list[Any]], Callable]) -> None:
        """Run compiled graphs instead, each made when it is first called."""
        self.functions = {name: _Compiled(graph, compiler) for name, graph in self.graphs.items()}

    def run(self, *args: Any) -> Any:
        (tensors,) = args
        if any([t.is_meta and not isinstance(t, FakeTensor) for t in tensors]):      # noqa: C419 - a list: in each call
            if self.is_fixed:
                return [_C.empty(*layout, dtype, _C.device("meta")) for *layout, dtype in self.results]
            with FakeTensorMode() as mode:
                result = self.called([
                    mode.empty(tuple(t.shape), t.stride() if t._is_dense() else None, t.dtype, device)
                    for t, device in zip(tensors, self.devices, strict=True)
                ])
            return [_C.empty(tuple(t.shape), t.stride(), t.dtype, _C.device("meta")) for t in result]
        return self.called(tensors)

    def called(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        given = iter(tensors)
        arguments = self.arranged([next(given) if leaf is _TENSOR else leaf for leaf in self.leaves])
        is_fake = any([isinstance(t, FakeTensor) for t in tensors])      # noqa: C419 - a list: in each call
        is_seen = is_fake or recording_mode() is not None
        for at, name in self.places.items():
            arguments[at] = self.graphs[name] if is_seen else self.functions[name]
        with no_grad():
            return list(self.op(*arguments) if is_seen else self.op.run(*arguments))

    def arranged(self, leaves: list[Any]) -> list[Any]:
        """The arguments of the op: leaves and lists of them, nearly always."""
        arguments: list[Any] = []
        start = 0
        for child in self.structure._children:
            if child.type is None:
                arguments.append(leaves[start])
            elif child.type in (list, tuple) and all(c.type is None for c in child._children):
                arguments.append(child.type(leaves[start : start + len(child._children)]))
            else:
                return list(pytree.tree_unflatten(leaves, self.structure))
            start += child.num_leaves
        return arguments


class _Tensor:
    """A place for a tensor."""


_TENSOR = _Tensor()


class _Compiled:
    """A graph, compiled when it is first called, for tensors laid out as those it was traced with. Graphs whose sizes
    are symbols run op by op."""

    def __init__(self, graph: GraphModule, compiler: Callable[[GraphModule, list[Any]], Callable]) -> None:
        self.graph, self.compiler = graph, compiler
        self.compiled: Callable | None = None
        self.like = [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]
        self.layouts = [(tuple(t.shape), tuple(t.stride())) for t in self.like]
        self.strides = [strides for _, strides in self.layouts]
        self.is_fixed = all(type(n) is int for layout in self.layouts for numbers in layout for n in numbers)

    def __call__(self, *tensors: Tensor) -> Sequence[Tensor]:
        if not self.is_fixed:
            return self.graph(*tensors)
        if self.compiled is None:
            with disable_dispatch_modes():
                self.compiled = self.compiler(self.graph, self.like)
        given = list(tensors) if [t.stride() for t in tensors] == self.strides else [
            t if t.stride() == strides else t.new_empty_strided(sizes, strides).copy_(t)
            for t, (sizes, strides) in zip(tensors, self.layouts, strict=True)]
        return self.compiled(given) if getattr(self.compiled, "_boxed_call", False) else self.compiled(*given)


def _holds_draws(graph: GraphModule) -> bool:
    return any(_draws(node.target) for node in graph.graph.nodes if node.op == "call_function")


def calls_in(graph: GraphModule) -> list[GraphCall]:
    """The calls of this kind in a graph."""
    found = [getattr(node.target, "definition", None) for node in graph.graph.nodes if node.op == "call_function"]
    return [definition for definition in found if isinstance(definition, GraphCall)]
