"""Families of operators and how each is quantized: the rows that every backend's table is made of.

Enters: a family's name and the combinations of types a backend computes it in. Leaves: one `BackendPatternConfig` for
each pattern of the family. What the backends have is in `backends`.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable
from typing import Any

from .... import nn
from ...._C import quint8 as _QUINT8
from ....nn import functional as F  # noqa: N812
from ....op import published
from ...nn import intrinsic as nni, qat as nnqat
from ...nn.intrinsic import qat as nniqat
from ...nn.quantized import reference as nnqr
from ..fuser_method_mappings import (
    _sequential_wrapper2,
    fuse_conv_bn,
    fuse_conv_bn_relu,
    fuse_convtranspose_bn,
    fuse_linear_bn,
)
from ..qconfig_mapping import _FIXED_QPARAMS_OP_TO_OBSERVER
from .backend_config import BackendPatternConfig, DTypeConfig, DTypeWithConstraints, ObservationType

OWN = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
NONE = ObservationType.INPUT_OUTPUT_NOT_OBSERVED
TOP = published("")       # the functions of the top level, by name
DTypes = list[DTypeConfig]
Configs = list[BackendPatternConfig]


def configure(
    pattern: Any, dtypes: DTypes, observed: ObservationType = OWN, *, root: type | None = None,
    reference: type | None = None, qat: type | None = None, fused: type | None = None, fuser: Callable | None = None,
    index: dict[str, int] | None = None,
) -> BackendPatternConfig:
    """A config of a pattern, with what is given."""
    return BackendPatternConfig(pattern)._put(
        observation_type=observed, dtype_configs=dtypes, root_module=root, reference_quantized_module=reference,
        qat_module=qat, fused_module=fused, fuser_method=fuser, _input_type_to_index=index or {},
    )


def _each(patterns: Iterable[Any], dtypes: DTypes, observed: ObservationType = OWN) -> Configs:
    return [configure(pattern, dtypes, observed) for pattern in patterns]


# --- operators with weights -------------------------------------------------------------------------------------------


def plain_linear(dtypes: DTypes) -> Configs:
    """Linear: the module, its trained form and the function."""
    linear: dict[str, Any] = {"root": nn.Linear, "reference": nnqr.Linear}
    return [
        configure(nn.Linear, dtypes, **linear, qat=nnqat.Linear),
        configure(nnqat.Linear, dtypes, **linear),
        configure(F.linear, dtypes, index={"weight": 1, "bias": 2}),
    ]


def linear(dtypes: DTypes) -> Configs:
    """Linear, with a relu or a batch norm after it."""
    made: dict[str, Any] = {"root": nn.Linear, "reference": nnqr.Linear}
    relu: dict[str, Any] = {"fuser": _sequential_wrapper2(nni.LinearReLU), "fused": nni.LinearReLU}
    return [
        *plain_linear(dtypes),
        configure((nn.Linear, nn.ReLU), dtypes, **relu),
        configure((nn.Linear, F.relu), dtypes, **relu),
        configure(nni.LinearReLU, dtypes, **made, qat=nniqat.LinearReLU),
        configure(nniqat.LinearReLU, dtypes, **made),
        configure((F.linear, nn.ReLU), dtypes),
        configure((F.linear, F.relu), dtypes),
        configure((nn.Linear, nn.BatchNorm1d), dtypes, fuser=fuse_linear_bn, fused=nni.LinearBn1d),
        configure(nni.LinearBn1d, dtypes, **made, qat=nniqat.LinearBn1d),
        configure(nniqat.LinearBn1d, dtypes, **made),
    ]


def forward_conv(dtypes: DTypes, d: int) -> Configs:
    """Convolution over `d` dimensions, with a batch norm, a relu or both after it."""
    conv, norm, function = getattr(nn, f"Conv{d}d"), getattr(nn, f"BatchNorm{d}d"), getattr(F, f"conv{d}d")
    made: dict[str, Any] = {"root": conv, "reference": getattr(nnqr, f"Conv{d}d")}
    with_relu, with_norm, with_both = (getattr(nni, f"Conv{tail}{d}d") for tail in ("ReLU", "Bn", "BnReLU"))
    qat_relu, qat_norm, qat_both = (getattr(nniqat, f"Conv{tail}{d}d") for tail in ("ReLU", "Bn", "BnReLU"))
    relu: dict[str, Any] = {"fuser": _sequential_wrapper2(with_relu), "fused": with_relu}
    both: dict[str, Any] = {"fuser": fuse_conv_bn_relu, "fused": with_both}
    qat = getattr(nnqat, f"Conv{d}d")
    return [
        configure(conv, dtypes, **made, qat=qat),
        configure(qat, dtypes, **made),
        configure(function, dtypes, index={"weight": 1, "bias": 2}),
        configure((conv, nn.ReLU), dtypes, **relu),
        configure((conv, F.relu), dtypes, **relu),
        configure(with_relu, dtypes, qat=qat_relu),
        configure(qat_relu, dtypes, **made),
        configure((function, nn.ReLU), dtypes),
        configure((function, F.relu), dtypes),
        configure((conv, norm), dtypes, fuser=fuse_conv_bn, fused=with_norm),
        configure((conv, norm, nn.ReLU), dtypes, **both),
        configure((conv, norm, F.relu), dtypes, root=conv, **both),
        configure(with_norm, dtypes, qat=qat_norm),
        configure(with_both, dtypes, qat=qat_both),
        configure(qat_norm, dtypes, **made),
        configure(qat_both, dtypes, **made),
    ]


def conv(dtypes: DTypes) -> Configs:
    """Convolutions of one to three dimensions, the transposed ones too."""
    result: Configs = []
    for d in (1, 2, 3):
        transposed, reference = getattr(nn, f"ConvTranspose{d}d"), getattr(nnqr, f"ConvTranspose{d}d")
        made: dict[str, Any] = {"root": transposed, "reference": reference}
        result += [
            *forward_conv(dtypes, d),
            configure(transposed, dtypes, **made),
            configure((transposed, getattr(nn, f"BatchNorm{d}d")), dtypes, **made, fuser=fuse_convtranspose_bn),
            configure(getattr(F, f"conv_transpose{d}d"), dtypes, index={"weight": 1, "bias": 2}),
        ]
    return result


def rnn(dtypes: DTypes) -> Configs:
    """Recurrent layers and cells."""
    names = ("GRUCell", "LSTMCell", "RNNCell", "LSTM", "GRU")
    return [
        configure(getattr(nn, name), dtypes, root=getattr(nn, name), reference=getattr(nnqr, name)) for name in names
    ]


def embedding(dtypes: DTypes) -> Configs:
    """Embeddings and bags of them."""
    result: Configs = []
    for name in ("Embedding", "EmbeddingBag"):
        made: dict[str, Any] = {"root": getattr(nn, name), "reference": getattr(nnqr, name)}
        result += [
            configure(getattr(nn, name), dtypes, **made, qat=getattr(nnqat, name)),
            configure(getattr(nnqat, name), dtypes, **made),
        ]
    return result


# --- operators without ------------------------------------------------------------------------------------------------


def binary(dtypes: DTypes, names: tuple[str, ...] = ("add", "mul")) -> Configs:
    """Arithmetic of two tensors (an observer of its own) or a tensor and a number (the input's), relu after or not."""
    by_count = {0: OWN, 1: SHARED, 2: OWN}
    ops = [op for name in names for op in (getattr(operator, name), TOP[name])]
    patterns = [p for op in ops for p in ((op, nn.ReLU), (op, F.relu), (op, TOP["relu"]), op)]
    return [c._set_num_tensor_args_to_observation_type(by_count) for c in _each(patterns, dtypes)]


def arithmetic(dtypes: DTypes) -> Configs:
    """Arithmetic and the product of matrices."""
    return [*binary(dtypes), configure(TOP["matmul"], dtypes)]


def cat(dtypes: DTypes) -> Configs:
    """Concatenation: one scale for all parts and the whole."""
    return _each([TOP["cat"]], dtypes, SHARED)


def layer_norm(dtypes: DTypes) -> Configs:
    """Layer norm."""
    return [configure(nn.LayerNorm, dtypes), configure(F.layer_norm, dtypes, index={"weight": 2, "bias": 3})]


def default(dtypes: DTypes) -> Configs:
    """Operators whose quantized form takes the scale of its output."""
    names = ("ELU", "LeakyReLU", "Hardswish", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "Dropout", "PReLU")
    functions = (F.elu, F.hardswish, F.leaky_relu, F.dropout)
    return [
        *_each([*(getattr(nn, name) for name in names), *functions], dtypes),
        configure(F.group_norm, dtypes, index={"weight": 2, "bias": 3}),
        configure(F.instance_norm, dtypes, index={"weight": 3, "bias": 4}),
    ]


def _pinned(dtypes: DTypes, scale: float, zero_point: int) -> DTypes:
    """The combinations, with the qparams of 8-bit activations fixed; ValueError where bounds on the scale are set."""
    result = copy.deepcopy(dtypes)
    for config in result:
        for side in (config.input_dtype_with_constraints, config.output_dtype_with_constraints):
            if side.dtype != _QUINT8:
                continue
            for bound in ("scale_min_lower_bound", "scale_max_upper_bound"):
                if getattr(side, bound) is not None:
                    raise ValueError(f"{bound} cannot be set for operators with fixed qparams: {config}")
            side.__dict__.update(DTypeWithConstraints(_QUINT8, 0, 255, None, None, scale, zero_point).__dict__)
    return result


def fixed(dtypes: DTypes) -> Configs:
    """Operators whose results lie between known bounds."""
    made = {op: observer() for op, observer in _FIXED_QPARAMS_OP_TO_OBSERVER.items()}
    return [configure(op, _pinned(dtypes, float(o.scale), int(o.zero_point))) for op, o in made.items()]


_SHARING_MODULES = (
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "Hardtanh",
    "Identity", "MaxPool1d", "MaxPool2d", "MaxPool3d", "PixelShuffle", "PixelUnshuffle", "ReLU", "ReLU6",
)
_SHARING_FUNCTIONS = (
    TOP["adaptive_avg_pool1d"], F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.hardtanh, F.hardtanh_, F.interpolate,
    F.max_pool1d, F.max_pool2d, F.max_pool3d, F.pixel_shuffle, F.pixel_unshuffle, F.relu, F.relu6, TOP["avg_pool1d"],
    F.avg_pool2d, F.avg_pool3d,
    *(TOP[name] for name in ("clamp", "flatten", "mean", "narrow", "repeat_interleave", "transpose", "squeeze",
                             "stack", "unsqueeze")),
    operator.floordiv,
)
_SHARING_METHODS = (
    "contiguous", "clamp", "detach", "detach_", "mean", "permute", "repeat", "repeat_interleave", "reshape", "resize_",
    "relu", "relu_", "squeeze", "squeeze_", "transpose", "unsqueeze", "unsqueeze_", "view",
)


def sharing(dtypes: DTypes) -> Configs:
    """Operators that take quantized values as they are: the output has the input's qparams."""
    modules = [getattr(nn, name) for name in _SHARING_MODULES]
    return _each([*modules, *_SHARING_FUNCTIONS, *_SHARING_METHODS], dtypes, SHARED)


def tensor_info(dtypes: DTypes) -> Configs:
    """Questions about a tensor, whose answers are no tensors."""
    return _each(["shape", "size"], dtypes, NONE)


def batch_norm(dtypes: DTypes) -> Configs:
    """Batch norms that no convolution took in, with a relu after them or not."""
    result: Configs = []
    for d in (2, 3):
        norm, with_relu = getattr(nn, f"BatchNorm{d}d"), getattr(nni, f"BNReLU{d}d")
        fusion: dict[str, Any] = {"fuser": _sequential_wrapper2(with_relu), "fused": with_relu}
        result += [configure((norm, nn.ReLU), dtypes, **fusion), configure((norm, F.relu), dtypes, **fusion),
                   configure(norm, dtypes)]
    return [*result, *_each([nni.BNReLU2d, nni.BNReLU3d], dtypes)]
