"""What reference operators are lowered to: the quantized class or op of each."""

from __future__ import annotations

import operator
from typing import Any

from .... import nn
from ...._C import float16, qint8, quint8
from ....nn import functional as F  # noqa: N812
from ....op import published
from ....ops import quantized
from ...nn import intrinsic as nni, quantized as nnq
from ...nn.intrinsic import quantized as nniq
from ...nn.intrinsic.quantized import dynamic as nniqd
from ...nn.quantized import dynamic as nnqd, reference as nnqr

_top = published("")


def _of(space: Any, source: Any, *names: str) -> dict[type, type]:
    return {getattr(source, name): getattr(space, name) for name in names}


# --- modules ----------------------------------------------------------------------------------------------------------

# reference class -> quantized class, and for fused modules also the class that their first part must have
STATIC: dict[type, type] = _of(nnq, nnqr, "Linear", "Conv1d", "Conv2d", "Conv3d")
STATIC_FUSED: dict[type, tuple[type, type]] = {
    getattr(nni, name): (getattr(nnqr, part), getattr(nniq, name))
    for name, part in (("LinearReLU", "Linear"), ("LinearLeakyReLU", "Linear"), ("LinearTanh", "Linear"),
                       ("ConvReLU1d", "Conv1d"), ("ConvReLU2d", "Conv2d"), ("ConvReLU3d", "Conv3d"))
}
STATIC_SUMS: dict[type, tuple[type, type]] = {
    getattr(nni, name): (nnqr.Conv2d, getattr(nniq, name)) for name in ("ConvAdd2d", "ConvAddReLU2d")
}
DYNAMIC: dict[type, type] = _of(nnqd, nnqr, "Linear", "GRUCell", "LSTMCell", "RNNCell", "LSTM", "GRU")
DYNAMIC_FUSED: dict[type, tuple[type, type]] = {nni.LinearReLU: (nnqr.Linear, nniqd.LinearReLU)}
WEIGHT_ONLY: dict[type, type] = _of(nnq, nnqr, "Embedding", "EmbeddingBag")
# modules made of the scale and zero point of their output
SCALED: dict[type, type] = {
    **_of(nnq, nn, "BatchNorm2d", "BatchNorm3d", "ELU", "LeakyReLU", "Hardswish", "InstanceNorm1d", "InstanceNorm2d",
          "InstanceNorm3d", "LayerNorm", "Dropout", "Softmax", "PReLU"),
    **_of(nnq, nnqr, "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"),
    **_of(nniq, nni, "BNReLU2d", "BNReLU3d"),
}

# --- functions --------------------------------------------------------------------------------------------------------

CONVS = (F.conv1d, F.conv2d, F.conv3d)
TRANSPOSED = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
# function -> (op, op with a relu after it)
WEIGHTED: dict[Any, tuple[Any, Any]] = {
    F.linear: (quantized.linear, quantized.linear_relu),
    F.conv1d: (quantized.conv1d, quantized.conv1d_relu),
    F.conv2d: (quantized.conv2d, quantized.conv2d_relu),
    F.conv3d: (quantized.conv3d, quantized.conv3d_relu),
    F.conv_transpose1d: (quantized.conv_transpose1d, None),
    F.conv_transpose2d: (quantized.conv_transpose2d, None),
    F.conv_transpose3d: (quantized.conv_transpose3d, None),
}
# function -> by the types of input and weight, the same
DYNAMICALLY_WEIGHTED: dict[Any, dict[tuple, tuple[Any, Any]]] = {
    F.linear: {
        (quint8, qint8): (quantized.linear_dynamic, quantized.linear_relu_dynamic),
        (float16, float16): (quantized.linear_dynamic_fp16, quantized.linear_relu_dynamic_fp16),
    },
    F.conv1d: {(quint8, qint8): (quantized.conv1d_dynamic, None)},
    F.conv2d: {(quint8, qint8): (quantized.conv2d_dynamic, None)},
    F.conv3d: {(quint8, qint8): (quantized.conv3d_dynamic, None)},
}
PREPACKING = (
    quantized.linear_prepack, quantized.linear_prepack_fp16,
    *(getattr(quantized, f"conv{t}{d}d_prepack") for t in ("", "_transpose") for d in (1, 2, 3)),
)
BINARY: dict[Any, tuple[Any, Any]] = {
    operator.add: (quantized.add, quantized.add_relu),
    _top["add"]: (quantized.add, quantized.add_relu),
    operator.mul: (quantized.mul, quantized.mul_relu),
    _top["mul"]: (quantized.mul, quantized.mul_relu),
    _top["matmul"]: (quantized.matmul, None),
}
# arguments that the quantized form of a function does not take
DROPPED: dict[Any, tuple[str, ...]] = {
    F.hardswish: ("inplace",), F.elu: ("inplace",), F.dropout: ("inplace",),
    F.instance_norm: ("running_mean", "running_var", "use_input_stats", "momentum"),
}

# --- operators that take quantized tensors as they are, or with a scale -----------------------------------------------

Kinds = tuple[tuple[Any, ...], tuple[str, ...], tuple[type, ...]]       # functions, methods, modules

FIXED: Kinds = (
    (F.hardsigmoid, F.sigmoid, _top["sigmoid"], _top["tanh"]),
    ("hardsigmoid", "hardsigmoid_", "sigmoid", "sigmoid_", "tanh", "tanh_"),
    (nn.Hardsigmoid, nn.Sigmoid, nn.Tanh, nn.Softmax),
)
DEFAULT: Kinds = (
    (F.elu, F.hardswish, F.instance_norm, F.layer_norm, F.leaky_relu, F.dropout),
    (),
    tuple(kind for kind in SCALED if kind is not nn.Softmax),
)
COPYING: Kinds = (
    (_top["adaptive_avg_pool1d"], F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.hardtanh, F.hardtanh_, F.interpolate,
     F.max_pool1d, F.max_pool2d, F.max_pool3d, F.relu, F.relu6, _top["avg_pool1d"], F.avg_pool2d, F.avg_pool3d,
     _top["clamp"], _top["flatten"], _top["mean"], operator.floordiv, _top["channel_shuffle"]),
    ("clamp", "mean", "relu", "relu_"),
    tuple(getattr(nn, name) for name in (
        "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
        "Hardtanh", "MaxPool1d", "MaxPool2d", "MaxPool3d", "ReLU", "ReLU6", "ChannelShuffle")),
)
SHAPING: Kinds = (
    (*(_top[name] for name in ("narrow", "transpose", "repeat_interleave", "squeeze", "stack", "unsqueeze", "cat")),
     F.pixel_shuffle, F.pixel_unshuffle),
    ("contiguous", "detach", "detach_", "permute", "repeat", "repeat_interleave", "reshape", "resize_", "shape", "size",
     "squeeze", "squeeze_", "transpose", "unsqueeze", "unsqueeze_", "view"),
    (nn.Identity, nn.PixelShuffle, nn.PixelUnshuffle),
)
