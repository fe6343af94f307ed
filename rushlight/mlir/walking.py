"""The walk over a functional graph: every node once, by the dialect's rules.

Enters: an `fx` graph of ATen ops and what its placeholders are. Leaves: what each node became, in `env`. A dialect
derives from `Walk` and says what calls, constants and sizes are. Refuses: what the dialect has no rule for, with the
op's name and the user's line; ops that write.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from .._higher_order_ops.core import HigherOrderOp
from ..aot.graphs.calls import GraphCall
from ..aot.schema_arguments import bound_arguments
from ..aten.overloads import AtenOverload
from ..aten.plain import ASSERT_SCALAR
from ..fx.node import Node, _draws, map_aggregate
from ..utils import _pytree as pytree
from .building import Builder
from .errors import UnsupportedOp

SYMBOLIC = (_C.SymbolicInt, _C.SymbolicFloat, _C.SymbolicBool)
_LINE = re.compile(r'File "([^"]*)", line (\d+)')


class Walk:
    """One graph on its way into a block of `b`."""

    dialect = ""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.env: dict[Node, Any] = {}
        self.node: Node | None = None      # the one that is translated, of the outermost graph

    # --- what a dialect says ------------------------------------------------------------------------------------------

    def constant(self, name: str, t: Tensor) -> Any:
        """A tensor that the program holds."""
        raise NotImplementedError

    def call(self, node: Node) -> Any:
        """What the call of an op becomes: a value, or a tuple of them."""
        raise NotImplementedError

    def control(self, op: HigherOrderOp, args: tuple, node: Node) -> Any:
        """What a call of an op over functions becomes. Functions are graph modules."""
        raise UnsupportedOp(f"mlir: there is no rule for {op.name} in the {self.dialect} dialect.{line_of(node)}")

    def number(self, node: Node) -> Any:
        """What the program computes with sizes: by default what tracing found."""
        return node.meta.get("val")

    # --- the walk -----------------------------------------------------------------------------------------------------

    def run(self, graph_module: Any, given: Sequence[Any]) -> list[Any]:
        """What the graph returns, its placeholders being `given`."""
        graph = graph_module.graph
        for node, value in zip(graph.find_nodes(op="placeholder"), given, strict=True):
            self.env[node] = value
        for node in graph.nodes:
            if node.op == "get_attr":
                self.env[node] = self.attribute(graph_module, node)
            elif node.op == "call_function":
                self.env[node] = self.visit(node)
            elif node.op not in ("placeholder", "output"):
                raise UnsupportedOp(f"mlir: {node.op} of {node.target}: graphs have calls of ops only.{line_of(node)}")
        returned = graph.output_node().args[0]
        listed = returned if isinstance(returned, (list, tuple)) else (returned,)
        return [self.env[a] if isinstance(a, Node) else a for a in listed]

    def attribute(self, graph_module: Any, node: Node) -> Any:
        held = functools.reduce(getattr, str(node.target).split("."), graph_module)
        return self.constant(str(node.target), held.detach()) if isinstance(held, Tensor) else held

    def visit(self, node: Node) -> Any:
        place = user_place(node)
        if place is not None:
            self.b.location = place
        before, self.node = self.node, self.node or node
        try:
            return self.result(node)
        except UnsupportedOp:
            raise
        except NotImplementedError as error:
            raise UnsupportedOp(f"mlir: {node.target} has no form in the {self.dialect} dialect: {error}"
                                f"{line_of(self.node)}") from error
        finally:
            self.node = before

    def result(self, node: Node) -> Any:
        target = node.target
        if target is operator.getitem:
            return self.given(node.args[0])[node.args[1]]
        if target is ASSERT_SCALAR:
            return None                # what sizes meet was checked when the program was captured
        if isinstance(target, HigherOrderOp):
            return self.control(target, self.given(node.args), node)
        definition = getattr(target, "definition", None)
        if isinstance(definition, GraphCall):
            return self.control(definition.op, graph_call(definition, self.given(node.args[0])), node)
        if not isinstance(target, (AtenOverload, _C.Overload)):
            return self.number(node)
        if _draws(target) and not target.definition.is_composite:
            raise UnsupportedOp(f"mlir: {target} draws random numbers, which a module cannot. Give them to the program "
                                f"as an input.{line_of(self.node)}")
        if target.inplace:
            raise UnsupportedOp(f"mlir: {target} writes to a tensor, which no value of a module can."
                                f"{line_of(self.node)}")
        return self.call(node)

    def given(self, argument: Any) -> Any:
        """An argument with what its nodes became."""
        return map_aggregate(argument, lambda a: self.env[a] if isinstance(a, Node) else a)


def graph_call(definition: GraphCall, tensors: Sequence[Any]) -> tuple:
    """The arguments of a captured call of an op over functions."""
    left = iter(tensors)
    leaves = [leaf if isinstance(leaf, (int, float, bool, str, type(None))) else next(left)
              for leaf in definition.leaves]
    arguments = list(pytree.tree_unflatten(leaves, definition.structure))
    for at, name in definition.places.items():
        arguments[at] = definition.graphs[name]
    return tuple(arguments)


def meta_of(argument: Any) -> Any:
    """An argument as tracing saw it: fakes for tensors."""
    return map_aggregate(argument, lambda a: a.meta.get("val") if isinstance(a, Node) else a)


def bound(node: Node) -> tuple[Any, tuple] | None:
    """The overload of ours that a node calls, and its arguments by the signature, nodes as they are. None where ATen
    has in one op what a few of ours do."""
    target = node.target
    if not isinstance(target, AtenOverload):
        return target, bound_arguments(target, node.args, dict(node.kwargs))
    found = target.ours(node.args, node.kwargs, meta_of)
    return None if found is None else (found[0], bound_arguments(found[0], (), dict(found[1])))


def user_place(node: Node) -> tuple[str, int] | None:
    """The innermost line of the user's program that a node comes from."""
    found = _LINE.findall(node.meta.get("stack_trace") or "")
    return (found[-1][0], int(found[-1][1])) if found else None


def line_of(node: Node | None) -> str:
    """Where a node comes from, to be put behind a message."""
    where = None if node is None else node.meta.get("stack_trace")
    return f"\n  {where}\n" if where else "" if node is None else f" (node {node.name})"
