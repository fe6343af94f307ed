"""Norms of inference folded into the weights of the convolutions before them, and larger tiles for these, where the
program asks for it.

Enters: the nodes of a graph whose parameters and buffers are static (`settings.freeze`, PyTorch's `freezing`). Leaves:
fewer of them; the folded weights are computed with what else depends on static tensors alone, and again when one of
them changes. Convolutions with static weights take fewer multiplications, and have larger rounding errors
(docs/accuracy.md, large tiles).

    (conv(x, w) + b - mean) * scale + shift    =    conv(x, w * scale) + (b - mean) * scale + shift

The products of weights are rounded, so results differ from those of the norm by itself in their last bits. Graphs that
compute gradients have no static tensors, and are left as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..codegen.schedule.forms.wishes import Wishes
from ..op.registry import find_op
from .read_graph import Node, Reader
from .values import Buffer, Value

CODES = ("f32", "f64")


def fold_norms(reader: Reader, outputs: Sequence[Value]) -> None:
    """Rewrite the reader's nodes."""
    static = static_buffers(reader.nodes)
    uses: dict[Buffer, int] = {}
    for v in (*[v for n in reader.nodes for v in n.inputs], *outputs):
        uses[v.buffer] = uses.get(v.buffer, 0) + 1
    producers = {n.results[0].buffer: n for n in reader.nodes if len(n.results) == 1}
    gone: set[int] = set()
    instead: dict[int, list[Node]] = {}
    for norm in reader.nodes:
        if norm.definition.name != "_scaled_channels":
            continue
        conv = producers.get(norm.args[0].buffer)
        if conv is not None and uses[norm.args[0].buffer] == 1 and can_fold(conv, norm, static):
            instead[id(norm)] = folded(reader, conv, norm)
            gone |= {id(conv), id(norm)}
    if instead:
        reader.nodes = [n for old in reader.nodes for n in instead.get(id(old), [] if id(old) in gone else [old])]


def enlarge_tiles(reader: Reader) -> None:
    """Plans of convolutions for weights that were made ready before: tiles of 4x4 results where they take less time."""
    static = static_buffers(reader.nodes)
    for node in reader.nodes:
        if node.definition.name != "convolution" or node.form != "steps" or node.is_settled:
            continue
        if node.inputs[1].buffer in static:
            plan = reader.planned(node.definition, node.args, Wishes(large=True))
            node.plan = node.plan if plan is None else plan


def static_buffers(nodes: Sequence[Node]) -> set[Buffer]:
    """What is the same from call to call: static inputs, and what pointwise ops make of them alone."""
    found = {v.buffer for n in nodes for v in n.inputs if v.buffer.is_static}
    for n in nodes:
        if n.form == "points" and n.inputs and not n.writes and all(v.buffer in found for v in n.inputs):
            found |= {v.buffer for v in n.results}
    return found


def can_fold(conv: Node, norm: Node, static: set[Buffer]) -> bool:
    """Whether the norm is one of a convolution's result, with numbers per channel that do not change."""
    if conv.definition.name != "convolution" or conv.args[6] or conv.writes:
        return False
    read, result = norm.args[0], norm.results[0]
    if not read.is_whole or read.dtype.code not in CODES or result.dtype is not read.dtype or read.varies:
        return False
    if read.strides != result.strides:
        return False
    numbers = [v for v in norm.args[1:] if v is not None]
    weights = [v for v in conv.args[1:3] if v is not None]
    if any(v.dtype is not read.dtype or v.buffer not in static for v in (*numbers, *weights)):
        return False
    return all(math.prod(v.sizes) == read.sizes[1] == channels_at(v, len(read.sizes)) for v in numbers)


def channels_at(v: Value, ndim: int) -> int:
    """The size of a value along the dim of channels, broadcast to so many dims."""
    place = len(v.sizes) - (ndim - 1)
    return v.sizes[place] if place >= 0 else 1


def folded(reader: Reader, conv: Node, norm: Node) -> list[Node]:
    """Nodes that compute the norm's result in the convolution."""
    source, weight, bias, *rest = conv.args
    ndim = len(norm.args[0].sizes)

    def along(v: Value, dims: int) -> Value:
        """The channels' numbers as the first of so many dims."""
        stride = v.strides[len(v.sizes) - (ndim - 1)]
        shape = (math.prod(v.sizes), *(1,) * (dims - 1))
        return Value(v.buffer, shape, (stride, *(0,) * (dims - 1)), v.offset, v.dtype)

    mean, scale, shift = [None if v is None else along(v, 1) for v in norm.args[1:]]
    before, reader.nodes = reader.nodes, []
    weight = reader.op(find_op("mul"), weight, along(norm.args[2], len(weight.sizes)))
    if bias is None:
        bias = reader.op(find_op("mul"), reader.op(find_op("neg"), mean), scale)
        bias = bias if shift is None else reader.op(find_op("add"), bias, shift)
    else:
        bias = reader.op(find_op("_scaled_channels"), bias, mean, scale, shift)
    result: Any = reader.op(find_op("convolution"), source, weight, bias, *rest)
    assert result.sizes == norm.results[0].sizes and result.strides == norm.results[0].strides
    reader.nodes[-1].results = [norm.results[0]]
    found, reader.nodes = reader.nodes, before
    return found
