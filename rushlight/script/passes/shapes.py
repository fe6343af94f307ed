"""What is known of tensors, carried through a graph.

`propagate_shapes`: from the types of the parameters, by running each node on tensors without data; what depends on
unknown numbers stays unknown. `complete_shapes`: from examples of the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._C import Tensor
from ...base import late
from ...fake import FakeTensorMode
from .. import types as t
from ..constants import constant_of
from ..ir import Block, Graph, Node, Value
from .effects import has_side_effects
from .tidy import erase_shapes

_NO = object()


def complete_shapes(graph: Graph, examples: Sequence[Any], with_grad: bool = False) -> None:
    """Types from examples of the parameters. Refuses another number of them than the graph has parameters."""
    inputs = graph.inputs()
    if len(inputs) != len(examples):
        raise RuntimeError(f"complete_shape_analysis: expected {len(inputs)} example inputs, got {len(examples)}")
    erase_shapes(graph)
    for value, example in zip(inputs, examples, strict=True):
        if isinstance(example, Tensor):
            type = t.TensorType.of(example)
            if not with_grad:
                type.requires_grad_ = False
            value.type_ = type
    propagate_shapes(graph)


def propagate_shapes(graph: Graph) -> None:
    """Types of all values from those of the parameters."""
    _Shapes().block(graph.block)


class _Shapes:
    def __init__(self) -> None:
        self.mode = FakeTensorMode()
        self.known: dict[Value, Any] = {}

    def block(self, block: Block) -> None:
        for node in block.nodes():
            self.node(node)

    def node(self, node: Node) -> None:
        if node.kind_ == "prim::If":
            for block in node.blocks_:
                self.block(block)
            for output, values in zip(node.outputs_, zip(*(block.return_node.inputs_ for block in node.blocks_),
                                                         strict=True), strict=True):
                both = t.unify(values[0].type_, values[1].type_)
                if both is not None and isinstance(both, t.TensorType):
                    output.type_ = both
            return
        if node.kind_ == "prim::Loop":
            self.loop(node)
            return
        if node.blocks_ or has_side_effects(node) or node.kind_ == "prim::Constant":
            for block in node.blocks_:
                self.block(block)
            return
        self.run(node)

    def loop(self, node: Node) -> None:
        """What stays the same from turn to turn is known within."""
        body = node.blocks_[0]
        carried = body.params.outputs_[1:]
        types = [value.type_ for value in node.inputs_[2:]]
        for _ in range(8):
            for value, type in zip(carried, types, strict=True):
                if isinstance(type, t.TensorType):
                    value.type_ = type
            self.block(body)
            merged = [t.unify(before, left.type_) or before if isinstance(before, t.TensorType) else before
                      for before, left in zip(types, body.return_node.inputs_[1:], strict=True)]
            if merged == types:
                break
            types = merged
        for output, type in zip(node.outputs_, types, strict=True):
            if isinstance(type, t.TensorType):
                output.type_ = type

    def fake(self, value: Value) -> Any:
        """What a node may be run on in place of a value; `_NO` where too little is known."""
        held = constant_of(value, _NO)
        if held is not _NO:
            return self.mode.from_tensor(held) if isinstance(held, Tensor) else held
        type = value.type_
        if isinstance(type, t.TensorType):
            return self._tensor(type)
        return self.known.get(value, _NO)

    def _tensor(self, type: t.TensorType) -> Any:
        sizes = type.sizes()
        if sizes is None or type.dtype is None:
            return _NO
        strides = type.strides() if type.strides_ is not None else type.contiguous().strides()
        with self.mode:
            return late.provided("package").empty_strided(
                sizes, strides, dtype=type.dtype, device=type.device_ or "cpu")

    def run(self, node: Node) -> None:
        given = [self.fake(value) for value in node.inputs_]
        if any(value is _NO for value in given):
            return
        found = self._result(node, given)
        if found is _NO:
            return
        results = [found] if len(node.outputs_) == 1 else list(found)
        for output, result in zip(node.outputs_, results, strict=True):
            if isinstance(result, Tensor):
                output.type_ = t.TensorType.of(result)
                output.type_.requires_grad_ = None       # whoever runs it decides
            elif _is_known(result):
                self.known[output] = result

    def _result(self, node: Node, given: list[Any]) -> Any:
        from ..execute import Program

        alone = Graph()
        values = {value: alone.add_input("", value.type_) for value in dict.fromkeys(node.inputs_)}
        for value in values:
            if constant_of(value, _NO) is not _NO:
                values[value] = alone.insert_node(alone.create_clone(value.node_, {})).outputs_[0]
        copy = alone.insert_node(alone.create_clone(node, values))
        for output in copy.outputs_:
            alone.register_output(output)
        row = dict(zip(node.inputs_, given, strict=True))
        try:
            with self.mode:
                return Program(alone).run(*row.values())
        except Exception:  # noqa: BLE001 - what cannot be told stays unknown
            return _NO


def _is_known(value: Any) -> bool:
    """Numbers, words and rows of them, tensors without data included."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_known, value))
    return value is None or isinstance(value, (bool, int, float, complex, str, Tensor))
