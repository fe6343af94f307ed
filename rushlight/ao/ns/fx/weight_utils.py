"""Weights of layers, however they are kept: parameters, packed, or read by a function.

Enters: a node of a graph. Leaves: its weight and where it is from, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .... import nn
from ....fx import GraphModule, Node
from ....nn import functional as F  # noqa: N812
from ....nn.modules.linear import NonDynamicallyQuantizableLinear
from ....ops import quantized as toq
from ...nn import intrinsic as nni, qat as nnqat, quantized as nnq
from ...nn.intrinsic import qat as nniqat, quantized as nniq
from ...nn.quantized import dynamic as nnqd
from ...quantization.utils import getattr_from_fqn
from .ns_types import NSSingleResultType, NSSingleResultValuesType
from .utils import get_target_type_str, return_first_non_observer_node


def mod_weight_detach(mod: Any) -> Any:
    """A module's weight."""
    return mod.weight.detach()


def mod_0_weight_detach(mod: Any) -> Any:
    """The weight of a fused module's layer."""
    return mod[0].weight.detach()


def mod_weight_bias_0(mod: Any) -> Any:
    """The weight of a quantized module."""
    return mod._weight_bias()[0]


def get_lstm_weight(mod: Any) -> list[Any]:
    """The weights of an LSTM, layer by layer."""
    named = zip(mod._flat_weights_names, mod._flat_weights, strict=True)
    return [value.detach() for name, value in named if "weight_ih_l" in name or "weight_hh_l" in name]


def get_qlstm_weight(mod: Any) -> list[Any]:
    """The weights of a dynamically quantized LSTM, layer by layer."""
    packed = [part for value in mod._all_weight_values for part in value.param.__getstate__()[0][4][:2]]
    return [part.__getstate__()[0][0] for part in packed]


def get_conv_fun_weight(node: Node, gm: GraphModule) -> Any:
    """The weight that a function is given, before its observer or its cast."""
    weight = node.args[1]
    if weight.op == "call_method":      # to(float16) and dequantize
        return getattr_from_fqn(gm, weight.args[0].args[0].target).detach().to(weight.args[0].args[1])
    weight = return_first_non_observer_node(weight, gm)
    if weight.op != "get_attr":
        raise AssertionError(f"{node}: the weight is no attribute but {weight.format_node()}")
    return getattr_from_fqn(gm, weight.target).detach()


def get_qconv_fun_weight(node: Node, gm: GraphModule) -> Any:
    """The packed weight of a quantized convolution function."""
    return getattr_from_fqn(gm, node.args[1].target).weight()


def get_qlinear_fun_weight(node: Node, gm: GraphModule) -> Any:
    """The packed weight of a quantized linear function."""
    (weight, _), _ = getattr_from_fqn(gm, node.args[1].target).__getstate__()
    return weight


def get_op_to_type_to_weight_extraction_fn() -> dict[str, dict[Callable, Callable]]:
    """How the weight of each class and function is found."""
    modules: dict[Any, Callable] = {}
    for d in (1, 2, 3):
        modules[getattr(nni, f"ConvReLU{d}d")] = mod_0_weight_detach
        for space, name in ((nn, "Conv"), (nnqat, "Conv"), (nniqat, "ConvBn"), (nniqat, "ConvBnReLU"),
                            (nniqat, "ConvReLU")):
            modules[getattr(space, f"{name}{d}d")] = mod_weight_detach
        for space, name in ((nnq, "Conv"), (nniq, "ConvReLU")):
            modules[getattr(space, f"{name}{d}d")] = mod_weight_bias_0
    for float_class in (nn.Linear, nnqat.Linear, nniqat.LinearReLU, nniqat.LinearBn1d, NonDynamicallyQuantizableLinear):
        modules[float_class] = mod_weight_detach
    for quantized_class in (nnq.Linear, nniq.LinearReLU, nnqd.Linear):
        modules[quantized_class] = mod_weight_bias_0
    modules |= {nni.LinearReLU: mod_0_weight_detach, nn.LSTM: get_lstm_weight, nnqd.LSTM: get_qlstm_weight}
    functions: dict[Any, Callable] = dict.fromkeys((F.conv1d, F.conv2d, F.conv3d, F.linear), get_conv_fun_weight)
    for d in (1, 2, 3):
        for tail in ("", "_relu"):
            functions[getattr(toq, f"conv{d}d{tail}")] = get_qconv_fun_weight
    functions |= dict.fromkeys((toq.linear, toq.linear_relu), get_qlinear_fun_weight)
    return {"call_module": modules, "call_function": functions}


def extract_weight_from_node(
    node: Node, gm: GraphModule, op_to_type_to_weight_extraction_fn: dict[str, dict[Callable, Callable]] | None = None
) -> NSSingleResultType | None:
    """The weight of a node's operator, as a result; None if it has none that is known."""
    known = (op_to_type_to_weight_extraction_fn or get_op_to_type_to_weight_extraction_fn()).get(node.op, {})
    if node.op == "call_module":
        module = getattr_from_fqn(gm, node.target)
        extract: Any = known.get(type(module))
        weight = extract(module) if extract is not None else None
    else:
        extract = known.get(node.target) if callable(node.target) else None
        weight = extract(node, gm) if extract is not None else None
    if extract is None:
        return None
    kind = get_target_type_str(node, gm)
    return {
        "type": NSSingleResultValuesType.WEIGHT.value,
        "values": [weight],
        "prev_node_name": node.name,
        "prev_node_target_type": kind,
        "ref_node_name": node.name,
        "ref_node_target_type": kind,
        "index_within_arg": 0,
        "index_of_arg": 0,
        "fqn": gm._node_name_to_scope[node.name][0] if hasattr(gm, "_node_name_to_scope") else None,
    }
