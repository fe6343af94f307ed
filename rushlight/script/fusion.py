"""Runs of pointwise nodes that become one kernel once a program has run often enough.

Enters: a block. Leaves: its runs, each with a graph of its own; `Fused`, which calls the run node by node while it is
cold and through `compile` when it is hot: shapes, types and gradients are then compile's to see. A run that cannot be
compiled stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..op.pointwise import Pointwise
from . import types as t
from .ir import Block, Graph, Node, Value
from .schemas import overload_of
from .settings import SETTINGS

FEWEST = 3          # nodes that are worth a kernel of their own
HOT = 50            # calls after which compiling pays
_PLAIN = (t.IntType, t.FloatType, t.BoolType, t.NoneType, t.NumberType, t.StringType)


class Run:
    """Pointwise nodes that stand together."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        made = {output for node in nodes for output in node.outputs_}
        self.inputs: list[Value] = []
        for node in nodes:
            for value in node.inputs_:
                if value not in made and value not in self.inputs and value.node_.kind_ != "prim::Constant":
                    self.inputs.append(value)
        own = set(nodes)
        self.outputs = [output for node in nodes for output in node.outputs_
                        if any(use.user not in own for use in output.uses_)]

    def graph(self) -> Graph:
        """The run as a graph: inputs, constants, nodes, outputs."""
        found = Graph()
        values = {value: found.add_input("", value.type_) for value in self.inputs}
        for node in self.nodes:
            for value in node.inputs_:
                if value not in values:
                    copy = found.insert_node(found.create_clone(value.node_, {}))
                    values[value] = copy.outputs_[0]
            copy = found.insert_node(found.create_clone(node, values))
            values.update(zip(node.outputs_, copy.outputs_, strict=True))
        for output in self.outputs:
            found.register_output(values[output])
        return found


def runs_of(block: Block, op_of: Callable[[Any], Any]) -> list[Run]:
    """The runs of a block that are worth fusing."""
    found: list[Run] = []
    current: list[Node] = []

    def close() -> None:
        if len(current) >= FEWEST:
            found.append(Run(list(current)))
        current.clear()

    for node in block.nodes():
        if is_pointwise(node, op_of):
            current.append(node)
        elif node.kind_ != "prim::Constant":
            close()
    close()
    return [run for run in found if run.outputs]


def is_pointwise(node: Node, op_of: Callable[[Any], Any]) -> bool:
    """Whether a node computes one tensor element by element from tensors and numbers, and writes nothing."""
    if not node.kind_.startswith("aten::") or node.blocks_ or len(node.outputs_) != 1:
        return False
    types = [value.type_ for value in node.inputs_]
    if not isinstance(node.outputs_[0].type_, t.TensorType) or not all(
            isinstance(type, (t.TensorType, *_PLAIN)) for type in types) or (
            not any(isinstance(type, t.TensorType) for type in types)):
        return False
    schema = overload_of(node.kind_, types)
    if schema is None or schema.is_mutable or schema.overload == "out":
        return False
    overloads = getattr(op_of(schema), "overload_list", None)
    return bool(overloads) and isinstance(overloads[0].definition, Pointwise)


class Fused:
    """A run as a program calls it: `cell[0]` is the way to call it now."""

    def __init__(self, plain: Callable[..., Any]) -> None:
        self.plain, self.calls = plain, 0
        self.cell: list[Callable[..., Any]] = [self._cold]

    def _cold(self, *args: Any) -> Any:
        self.calls += 1
        if self.calls > HOT:
            self._heat()
        return self.plain(*args)

    def _heat(self) -> None:
        """From now on through `compile`; where fusion is switched off, as before, until it is on."""
        if not (SETTINGS.fuses and SETTINGS.optimizes and SETTINGS.shapes()):
            return
        from ..compiler.driver import compile

        compiled = compile(self.plain, fullgraph=True, dynamic=SETTINGS.is_dynamic())

        def hot(*args: Any) -> Any:
            try:
                return compiled(*args)
            except Exception:      # an error of the program comes from its nodes; what only compile refuses, they take
                result = self.plain(*args)
                self.cell[0] = self.plain
                return result

        self.cell[0] = hot
