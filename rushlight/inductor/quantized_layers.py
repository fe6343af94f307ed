"""Integers in the place of floats that were quantized and dequantized around a linear layer.

Enters: a graph of quantized inference, as torchao's `convert_pt2e` makes them: `dequantize -> linear -> relu ->
quantize`, the last two where they are. Leaves: the graph with such layers as one product of bytes
(definitions/quantized/folded.py). Refuses nothing: what is not such a pattern stays.

Sums of integers are exact, so results differ from those of the floats in their last bits, as PyTorch's fused layers do.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..definitions.quantized.folded import head_of
from ..fx import GraphModule, Node
from ..op import find_op

SPACE = "quantized_decomposed::"
BYTES = {_C.uint8: (0, 255), _C.int8: (-128, 127)}


def fold_layers(graph_module: GraphModule) -> None:
    """Rewrite the graph in place."""
    graph = graph_module.graph
    if not any(name_of(node).startswith(SPACE) for node in graph.nodes):
        return
    for node in list(graph.nodes):
        if name_of(node) == "linear":
            fold_linear(graph_module, node)
    graph.eliminate_dead_code()
    graph_module.recompile()


def name_of(node: Node) -> str:
    """The op that a node calls, "" for none."""
    return str(node.target.name) if node.op == "call_function" and isinstance(node.target, _C.Overload) else ""


def arguments(node: Any, op: str) -> tuple | None:
    """The bound arguments of a call of a quantized_decomposed op; None for other nodes."""
    if not isinstance(node, Node) or name_of(node) != SPACE + op or node.target.definition.spec.overload:
        return None
    params = node.target.definition.spec.params
    given = {**dict(zip((p.name for p in params), node.args, strict=False)), **node.kwargs}
    return tuple(given[p.name] if p.name in given else p.default for p in params)


def rows_behind(node: Any) -> tuple[Node, float, int] | None:
    """The bytes, the scale and the zero point of an activation that was dequantized per tensor."""
    found = arguments(node, "dequantize_per_tensor")
    if found is None:
        return None
    source, scale, zero, low, high, dtype, *rest = found
    plain = dtype in BYTES and (low, high) == BYTES[dtype] and not any(rest) and isinstance(scale, float)
    return (source, scale, int(zero)) if plain else None


def weights_behind(graph: Any, node: Any) -> tuple[Node, Any, Any] | None:
    """The integers, scales and zero points (nodes) of weights that were dequantized by row."""
    found = arguments(node, "dequantize_per_channel")
    if found is None:
        return None
    source, scales, zeros, axis, _, _, dtype, *rest = found
    shape = getattr(source.meta.get("val"), "shape", ())
    if axis != 0 or dtype is not _C.int8 or any(rest) or len(shape) != 2 or zeros is None:
        return None
    return source, scales, zeros


def only_user(node: Node) -> Node | None:
    users = list(node.users)
    return users[0] if len(users) == 1 else None


def fold_linear(graph_module: GraphModule, node: Node) -> None:
    """Replace a linear layer, with the rectifier and the quantization after it, if it is one of integers."""
    x, weight, bias = (*node.args, None)[:3]
    rows, weights = rows_behind(x), weights_behind(graph_module.graph, weight)
    if rows is None or weights is None or node.kwargs:
        return
    (source, scale, zero), last, is_rectified = rows, node, False
    dtype = source.meta["val"].dtype if "val" in source.meta else None
    if dtype not in BYTES:
        return
    following = only_user(last)
    if following is not None and name_of(following) == "relu":
        last, is_rectified = following, True
        following = only_user(last)
    out = arguments(following, "quantize_per_tensor")
    is_bytes, out_scale, out_zero = False, 1.0, None
    if out is not None and following is not None and out[5] is _C.uint8 and isinstance(out[1], float):
        is_bytes = tuple(out[3:5]) == BYTES[_C.uint8]
    if is_bytes and out is not None and following is not None:
        out_scale, out_zero, last = out[1], int(out[2]), following
    head, flip = head_of(dtype, scale, zero, is_rectified, out_zero)
    graph = graph_module.graph
    with graph.inserting_before(last):
        held = graph.create_node("get_attr", constant(graph_module, head))
        call = find_op("_folded_linear").overload_list[0]
        made = graph.call_function(call, (source, scale, held, flip, *weights, bias, is_bytes, out_scale))
    made.meta.update(last.meta)
    last.replace_all_uses_with(made)


def constant(graph_module: GraphModule, value: Any) -> str:
    """A tensor as a buffer of the graph; its name."""
    number = 0
    while hasattr(graph_module, f"_head{number}"):
        number += 1
    graph_module.register_buffer(f"_head{number}", value)
    return f"_head{number}"
