"""LSTMs that observe themselves, as custom modules: their outputs are nested, and quantized when converted.

Enters: a call of such an LSTM. Leaves: a `DeQuantStub` after each of its three values, and its users reading those.
"""

from __future__ import annotations

import operator
from typing import Any

from ....fx import Graph, GraphModule, Node
from ....nn import LSTM, Module, MultiheadAttention
from ...nn import quantizable
from ..stubs import DeQuantStub
from ..utils import activation_is_statically_quantized
from .utils import _get_module, free_name


def is_custom_lstm(node: Node, modules: dict[str, Module], qconfig: Any = None, is_custom: bool | None = None) -> bool:
    """Whether a node calls an LSTM that will observe itself; without a qconfig, one that does."""
    return _is_custom(node, modules, LSTM, quantizable.LSTM, qconfig, is_custom)


def is_custom_attention(node: Node, modules: dict[str, Module]) -> bool:
    """Whether a node calls an attention that observes itself."""
    return _is_custom(node, modules, MultiheadAttention, quantizable.MultiheadAttention, None, None)


def _is_custom(
    node: Node, modules: dict[str, Module], float_class: type, observed_class: type, qconfig: Any,
    is_custom: bool | None,
) -> bool:
    module = _get_module(node, modules)
    if qconfig is None or is_custom is None:
        return isinstance(module, observed_class)
    return isinstance(module, float_class) and is_custom and activation_is_statically_quantized(qconfig)


def insert_dequant_stubs(node: Node, model: GraphModule, modules: dict[str, Module]) -> None:
    """Take (output, (hidden, cell)) apart, dequantize each, and put them together again for the node's users."""
    graph = model.graph

    def item(value: Node, index: int, after: Node) -> Node:
        with graph.inserting_after(after):
            return graph.call_function(operator.getitem, (value, index))

    def stub(value: Node) -> Node:
        name = free_name(model, "dequant_stub_")
        modules[name] = DeQuantStub()
        setattr(model, name, modules[name])
        with graph.inserting_after(value):
            return graph.call_module(name, (value,))

    def joined(*values: Node) -> Node:
        with graph.inserting_after(values[-1]):
            return graph.call_function(tuple, (list(values),))

    output = item(node, 0, node)
    output_dq = stub(output)
    hidden = item(node, 1, output_dq)
    first_dq = stub(item(hidden, 0, hidden))
    second_dq = stub(item(hidden, 1, first_dq))
    whole = joined(output_dq, joined(first_dq, second_dq))
    for user in list(node.users):
        if user is not output and user is not hidden:
            user.replace_input_with(node, whole)
    _skip_tuples(graph)


def _skip_tuples(graph: Graph) -> None:
    """Let users of an item of a tuple read what the tuple was made of."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target is operator.getitem:
            source = node.args[0]
            if isinstance(source, Node) and source.op == "call_function" and source.target is tuple:
                node.replace_all_uses_with(source.args[0][node.args[1]])


def lstm_behind(arg: Node, modules: dict[str, Module]) -> Node | None:
    """The self-observing LSTM whose dequantized value this is, if it is one: a stub or a tuple of stubs of items."""
    value: Any = arg
    if value.op == "call_function" and value.target is tuple:
        value = value.args[0][0]
    if not isinstance(value, Node) or not isinstance(_get_module(value, modules), DeQuantStub):
        return None
    depth = 0
    value = value.args[0]
    while isinstance(value, Node) and value.op == "call_function" and value.target is operator.getitem and depth < 2:
        value, depth = value.args[0], depth + 1
    return value if depth and isinstance(value, Node) and is_custom_lstm(value, modules) else None
