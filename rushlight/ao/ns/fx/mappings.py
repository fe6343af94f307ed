"""Which operators are forms of the same one, what types operators take, and which are not compared.

Enters: nothing. Leaves: new tables at every call, which the caller may extend.
"""

from __future__ import annotations

import operator
from typing import Any

from .... import nn
from ....nn import functional as F  # noqa: N812
from ....nn.modules.linear import NonDynamicallyQuantizableLinear
from ....op import published
from ....ops import quantized as toq
from ...nn import intrinsic as nni, qat as nnqat, quantized as nnq
from ...nn.intrinsic import qat as nniqat, quantized as nniq
from ...nn.intrinsic.quantized import dynamic as nniqd
from ...nn.qat import dynamic as nnqatd
from ...nn.quantized import dynamic as nnqd
from ...quantization import quantization_mappings
from ...quantization.backend_config import get_native_backend_config
from ...quantization.fx import lowering_table as lowered
from .ns_types import NSNodeTargetType

_top = published("")
_DIMS = (1, 2, 3)
_SHARED_SHAPES = ("unsqueeze", "stack", "squeeze", "sort", "repeat_interleave", "min", "mean", "max", "transpose",
                  "flatten", "clamp", "chunk")


def _modules(space: Any, *names: str) -> list[Any]:
    return [getattr(space, name) for name in names]


def _dims(space: Any, name: str) -> list[Any]:
    return [getattr(space, f"{name}{d}d") for d in _DIMS]


def _related() -> list[set[Any]]:
    """Float operators that are forms of one another, in the order that names them."""
    def alone(ops: list[Any]) -> list[set[Any]]:
        return [{op} for op in ops]

    def paired(module: str, function: str) -> list[set[Any]]:
        return [{a, b} for a, b in zip(_dims(nn, module), _dims(F, function), strict=True)]

    return [
        *alone(_dims(nn, "Conv")), *alone(_dims(F, "conv")), {nn.Linear}, {F.linear}, *paired("AvgPool", "avg_pool"),
        *paired("AdaptiveAvgPool", "adaptive_avg_pool"), {nn.LSTM}, {_top["add"], operator.add}, {_top["cat"]},
        {_top["mul"], operator.mul}, {F.relu, nn.ReLU, "relu", "relu_", _top["relu"]},
        *paired("MaxPool", "max_pool"), {_top["sigmoid"], "sigmoid", "sigmoid_", nn.Sigmoid, F.sigmoid},
        {nn.BatchNorm2d}, {nn.BatchNorm3d}, *alone(_dims(nn, "ConvTranspose")), *alone(_dims(F, "conv_transpose")),
        *alone(_modules(nn, "ELU", "Embedding", "EmbeddingBag", "GroupNorm", "Hardswish", "InstanceNorm1d",
                        "InstanceNorm2d", "InstanceNorm3d", "LayerNorm", "LeakyReLU")),
        {nn.ReLU6, F.relu6},
        *alone([F.elu, F.hardswish, F.group_norm, F.instance_norm, F.layer_norm, F.leaky_relu]),
        {nn.SiLU, F.silu}, {nn.Mish, F.mish}, {nn.Tanh, F.tanh, _top["tanh"], "tanh_", "tanh"},
        {"hardsigmoid_", "hardsigmoid", F.hardsigmoid, nn.Hardsigmoid}, {nn.Hardtanh, F.hardtanh, F.hardtanh_},
        {operator.floordiv}, *alone([_top[name] for name in _SHARED_SHAPES]), {F.interpolate}, {nn.Dropout},
        {F.dropout}, {_top["matmul"]}, {nn.Softmax}, {nn.PReLU, nnq.PReLU}, {F.prelu, toq.prelu}, {nn.PixelShuffle},
        {F.pixel_shuffle}, {nn.PixelUnshuffle}, {F.pixel_unshuffle}, {_top["narrow"]},
    ]


def _connections() -> list[tuple[Any, Any]]:
    """(operator, a form of it) from what fusing, training, converting and lowering make of operators."""
    result: list[tuple[Any, Any]] = [(nn.Linear, NonDynamicallyQuantizableLinear)]
    for pattern, config in get_native_backend_config()._pattern_complex_format_to_config.items():
        first = pattern
        while isinstance(first, (list, tuple)):
            first = first[-1]
        made = (config.fused_module, config.qat_module, config.reference_quantized_module)
        result += [(first, form) for form in made if form is not None]
    for single in (lowered.STATIC, lowered.DYNAMIC, lowered.WEIGHT_ONLY, lowered.SCALED):
        result += single.items()
    for double in (lowered.STATIC_FUSED, lowered.STATIC_SUMS, lowered.DYNAMIC_FUSED, lowered.WEIGHTED):
        result += [(source, form) for source, forms in double.items() for form in forms]
    result += [(source, form) for source, forms in lowered.BINARY.items() for form in forms if form is not None]
    result += quantization_mappings.DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.items()
    result += quantization_mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS.items()
    return result


def get_base_name_to_sets_of_related_ops() -> dict[str, set[NSNodeTargetType]]:
    """Operators that are forms of the same one, by a number in words."""
    sets = _related()
    for one, other in _connections():
        for related in sets:
            if one in related or other in related:
                related.update((one, other))
                break
    return {str(number): related for number, related in enumerate(sets)}


def get_base_name_for_op(
    base_name_to_sets_of_related_ops: dict[str, set[NSNodeTargetType]], op: NSNodeTargetType
) -> str | None:
    """The name of the set that an operator is in."""
    return next((name for name, related in base_name_to_sets_of_related_ops.items() if op in related), None)


def add_op_to_sets_of_related_ops(
    base_name_to_sets_of_related_ops: dict[str, set[NSNodeTargetType]], op: NSNodeTargetType,
    related_op: NSNodeTargetType | None,
) -> None:
    """Add an operator to the set of another, or to a new one."""
    sets = base_name_to_sets_of_related_ops
    if related_op is None:
        number = 0
        while str(number) in sets:
            number += 1
        sets[str(number)] = {op}
        return
    name = get_base_name_for_op(sets, related_op)
    if name is None:
        raise AssertionError(f"{related_op} is in no set of related operators")
    sets[name].add(op)


_WEIGHTED_FUSED = ("ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU")
_NORMS_AND_CURVES = ("BatchNorm2d", "BatchNorm3d", "Dropout", "ELU", "InstanceNorm1d", "InstanceNorm2d",
                     "InstanceNorm3d", "LayerNorm", "Hardswish", "LeakyReLU", "Softmax", "PReLU")
_ONEDNN = ("LinearLeakyReLU", "LinearTanh", "ConvAdd2d", "ConvAddReLU2d")
_WEIGHTED = ("linear", "linear_relu", "conv1d", "conv1d_relu", "conv2d", "conv2d_relu", "conv3d", "conv3d_relu")


def _float_modules() -> set[Any]:
    return {
        nn.Linear, nnqat.Linear, nnqatd.Linear, nnqd.Linear, NonDynamicallyQuantizableLinear, *_dims(nn, "Conv"),
        *_dims(nnqat, "Conv"), nnqat.Embedding, nnqat.EmbeddingBag, nn.LSTM, nnqd.LSTM, *_dims(nn, "ConvTranspose"),
        nn.GroupNorm, nn.ReLU6, nn.SiLU, nn.Mish, *_modules(nn, *_NORMS_AND_CURVES), nni.BNReLU2d, nni.BNReLU3d,
        *_modules(nni, *_WEIGHTED_FUSED, "LinearBn1d"), *_dims(nni, "ConvBn"), *_dims(nniqat, "ConvBn"),
        *_dims(nniqat, "ConvBnReLU"), *_modules(nniqat, *_WEIGHTED_FUSED, "LinearBn1d"), nniqd.LinearReLU,
        *_modules(nni, *_ONEDNN),
    }


def get_node_type_to_io_type_map() -> dict[str, set[NSNodeTargetType]]:
    """Operators by kind of node and by what they take and give: floats, 8-bit integers, or either."""
    plain = ("adaptive_avg_pool2d", "adaptive_avg_pool3d", "dropout", "hardtanh", "hardtanh_", "interpolate",
             "max_pool1d", "max_pool2d", "max_pool3d", "relu6", "pixel_shuffle", "pixel_unshuffle", "relu", "tanh",
             "sigmoid", "hardsigmoid", "avg_pool2d", "avg_pool3d")
    shaped = ("tanh", "sigmoid", "adaptive_avg_pool1d", "avg_pool1d", "cat", "narrow", *_SHARED_SHAPES)
    floats = ("linear", "conv1d", "conv2d", "conv3d", "elu", "hardswish", "instance_norm", "layer_norm", "leaky_relu",
              "dropout", "silu", "mish", "prelu")
    either = ("ReLU", "Tanh", "Sigmoid", "Hardsigmoid", "Dropout", "Hardtanh", "Identity", "PixelShuffle",
              "PixelUnshuffle", "ReLU6")
    pools = [pool for kind in ("AdaptiveAvgPool", "AvgPool", "MaxPool") for pool in _dims(nn, kind)]
    return {
        "funs_io_type_fp32": {*_modules(F, *floats), _top["cat"], operator.add, _top["add"], operator.mul, _top["mul"],
                              _top["sum"]},
        "funs_io_type_fp16": set(),
        "funs_io_type_int8": set(_modules(toq, *_WEIGHTED, "cat", "elu", "hardswish", "instance_norm", "layer_norm",
                                          "leaky_relu", "dropout", "prelu")),
        "funs_io_type_fp32_or_int8": {*_modules(F, *plain), operator.floordiv, operator.add,
                                      *(_top[name] for name in shaped)},
        "mods_io_type_fp32": _float_modules(),
        "mods_io_type_int8": {
            nnq.Linear, *_dims(nnq, "Conv"), nnq.ConvTranspose1d, nnq.ConvTranspose2d, nnq.Embedding, nnq.EmbeddingBag,
            *_modules(nnq, *_NORMS_AND_CURVES), nniq.BNReLU2d, nniq.BNReLU3d, *_modules(nniq, *_WEIGHTED_FUSED),
            *_modules(nniq, *_ONEDNN),
        },
        "mods_io_type_fp32_or_int8": {*_modules(nn, *either), *pools},
        "meths_io_type_fp32_or_int8": {"sigmoid_", "sigmoid", "tanh_", "tanh", "hardsigmoid_", "hardsigmoid", "relu_",
                                       "relu"},
    }


def get_unmatchable_types_map() -> dict[str, set[NSNodeTargetType]]:
    """Operators that are passed over when two graphs are matched."""
    return {
        "funs_unmatchable": {_top["quantize_per_tensor"], operator.getitem},
        "mods_unmatchable": {nn.Identity},
        "meths_unmatchable": {
            "to", "dequantize", "reshape", "view", "unsqueeze_", "unsqueeze", "transpose", "squeeze_", "squeeze",
            "size", "shape", "resize_", "repeat_interleave", "repeat", "permute", "numel", "mean", "detach_", "detach",
            "contiguous", "clamp", "chunk",
        },
    }
