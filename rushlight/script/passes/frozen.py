"""What frozen graphs allow: weights are constants, so that norms and sums with constants become part of them.

Enters: a graph whose weights are constants. Leaves: whether something changed. Convolutions and linear layers take up
the batch norm behind them, convolutions also sums, differences, products and quotients with constants of one value per
channel. Only where nobody else reads what comes between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _C
from ...base import late
from ..constants import constant_of, insert_constant
from ..ir import Graph, Node, Value
from .dead_code import drop_dead

_CONVOLUTIONS = frozenset(("aten::conv1d", "aten::conv2d", "aten::conv3d"))
_DROPOUTS = frozenset(("aten::dropout", "aten::dropout_", "aten::feature_dropout", "aten::feature_dropout_"))
_QUESTIONS = frozenset(("aten::dim", "aten::size", "aten::numel", "prim::dtype", "prim::device"))
_NO = object()


def run_frozen_passes(graph: Graph, optimize_numerics: bool = True) -> None:
    """Dropouts away, then, if numbers may change in their last digits, everything that becomes part of weights."""
    remove_dropout(graph)
    if optimize_numerics:
        changed = True
        while changed:
            changed = fold_conv_bn(graph)
            changed = fold_conv_sum(graph) or changed
            changed = fold_conv_product(graph) or changed
            changed = fold_linear_bn(graph) or changed
    drop_dead(graph)


def remove_dropout(graph: Graph) -> bool:
    """Dropouts that are off."""
    changed = False
    for node in list(graph.all_nodes()):
        if node.kind_ in _DROPOUTS and len(node.inputs_) == 3 and constant_of(node.inputs_[2], None) is False:
            node.outputs_[0].replace_all_uses_with(node.inputs_[0])
            node.destroy()
            changed = True
    return changed


def _tensor(value: Value) -> Any:
    """A constant tensor; None for None; `_NO` for what is neither."""
    held = constant_of(value, _NO)
    return held if held is None or isinstance(held, _C.Tensor) else _NO


def _weights(node: Node) -> tuple[Any, Any] | None:
    """Weight and bias (perhaps None) of a layer, where both are constants."""
    weight, bias = (_tensor(value) for value in node.inputs_[1:3])
    return None if weight is None or weight is _NO or bias is _NO else (weight, bias)


def _replace(graph: Graph, layer: Node, gone: Node, weight: Any, bias: Any, suffix: str) -> bool:
    """Give a layer other weights; it stands for the node behind it."""
    with graph.inserting(layer), graph.at_range(None):
        for at, held in ((1, weight), (2, bias)):
            before = layer.inputs_[at]
            made = insert_constant(graph, held)
            base = before.name or (layer.inputs_[1].name.removesuffix("weight" + suffix) + "bias" if at == 2 else "")
            layer.replace_input(at, made)
            if base:
                made.set_debug_name(f"{base}{suffix}")
    gone.outputs_[0].replace_all_uses_with(layer.outputs_[0])
    gone.destroy()
    return True


def _is_convolution(node: Node) -> bool:
    """Convolutions, those of traces included where they are not transposed."""
    return node.kind_ in _CONVOLUTIONS or (
        node.kind_ == "aten::_convolution" and constant_of(node.inputs_[6], None) is False)


def _is_linear(node: Node) -> bool:
    return node.kind_ == "aten::linear"


def _layers(graph: Graph, behind: tuple[str, ...], is_layer: Callable[[Node], bool]) -> list[tuple[Node, Node]]:
    """Pairs of a layer and the only node that reads it."""
    found = []
    for node in graph.all_nodes():
        if node.kind_ in behind:
            layer = node.inputs_[0].node_
            if is_layer(layer) and _is_read_by(layer.outputs_[0], node) and layer.block is node.block:
                found.append((layer, node))
    return found


def _is_read_by(value: Value, node: Node) -> bool:
    """Whether only a node reads the elements of a value; others may ask for its shape."""
    return all((user is node and offset == 0) or user.kind_ in _QUESTIONS for user, offset in value.uses_)


def _norm(node: Node) -> tuple[Any, Any, Any, Any, float] | None:
    """Weight, bias, mean, variance and epsilon of a batch norm that is not training."""
    parts = [_tensor(value) for value in node.inputs_[1:5]]
    eps = constant_of(node.inputs_[7], None)
    if any(part is _NO for part in parts) or parts[2] is None or parts[3] is None or eps is None or (
            constant_of(node.inputs_[5], None) is not False):
        return None
    return (*parts, eps)  # type: ignore[return-value]


def _fuse_norm(weight: Any, bias: Any, norm: tuple[Any, Any, Any, Any, float]) -> tuple[Any, Any]:
    """Weight and bias of a layer that does what a norm behind it did."""
    torch = late.provided("package")
    scale, shift, mean, variance, eps = norm
    factor = torch.rsqrt(variance + eps)
    if scale is not None:
        factor = factor * scale
    bias = torch.zeros_like(mean) if bias is None else bias
    fused = (bias - mean) * factor + (0 if shift is None else shift)
    return weight * factor.reshape(-1, *[1] * (weight.ndim - 1)).to(weight.dtype), fused.to(weight.dtype)


def _fold_norm(graph: Graph, is_layer: Callable[[Node], bool]) -> bool:
    changed = False
    for layer, node in _layers(graph, ("aten::batch_norm",), is_layer):
        found, norm = _weights(layer), _norm(node)
        if found is None or norm is None or found[0].shape[0] != norm[2].shape[0]:
            continue
        changed |= _replace(graph, layer, node, *_fuse_norm(*found, norm), "_fused_bn")
    return changed


def fold_conv_bn(graph: Graph) -> bool:
    return _fold_norm(graph, _is_convolution)


def fold_linear_bn(graph: Graph) -> bool:
    return _fold_norm(graph, _is_linear)


def _per_channel(value: Value, weight: Any) -> Any:
    """A constant that has one value, or one for each channel of a convolution's result, as a row; else None."""
    held, channels = constant_of(value, _NO), weight.shape[0]
    if isinstance(held, (int, float)) and not isinstance(held, bool):
        return late.provided("package").full([channels], float(held), dtype=weight.dtype)
    if not isinstance(held, _C.Tensor) or held.dtype != weight.dtype or held.device != weight.device:
        return None
    spatial = weight.ndim - 2
    if held.numel() == 1 and held.ndim <= spatial + 1:
        return held.reshape(1).expand(channels)
    shape = tuple(held.shape)
    fits = shape in ((channels, *[1] * spatial), (1, channels, *[1] * spatial))
    return held.reshape(channels) if fits else None


def fold_conv_sum(graph: Graph) -> bool:
    """`conv(x) + c` and `conv(x) - c`."""
    changed = False
    for layer, node in _layers(graph, ("aten::add", "aten::sub"), _is_convolution):
        found = _weights(layer)
        if found is None or constant_of(node.inputs_[2], None) != 1:
            continue
        row = _per_channel(node.inputs_[1], found[0])
        if row is None or not found[0].dtype.is_floating_point:
            continue
        weight, bias = found
        bias = late.provided("package").zeros_like(row) if bias is None else bias
        changed |= _replace(graph, layer, node, weight, bias + row if node.kind_ == "aten::add" else bias - row,
                            "_fused_as")
    return changed


def fold_conv_product(graph: Graph) -> bool:
    """`conv(x) * c` and `conv(x) / c`."""
    changed = False
    for layer, node in _layers(graph, ("aten::mul", "aten::div"), _is_convolution):
        found = _weights(layer)
        if found is None or len(node.inputs_) != 2:
            continue
        weight, bias = found
        row = _per_channel(node.inputs_[1], weight)
        if row is None or not weight.dtype.is_floating_point:
            continue
        factor = row if node.kind_ == "aten::mul" else 1 / row
        fused = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
        changed |= _replace(graph, layer, node, fused, None if bias is None else bias * factor, "_fused_md")
    return changed
