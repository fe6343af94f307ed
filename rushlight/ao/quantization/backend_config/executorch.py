"""Backends that ExecuTorch lowers to."""

from __future__ import annotations

from .... import nn
from ....nn import functional as F  # noqa: N812
from .backend_config import BackendConfig, BackendPatternConfig, DTypeConfig
from .backends import (
    DYNAMIC,
    DYNAMIC_HALF,
    DYNAMIC_SYMMETRIC,
    PLAIN,
    SYMMETRIC,
    SYMMETRIC_PLAIN,
    WEIGHT_ONLY,
    WEIGHTED,
    build,
)
from .families import SHARED, TOP, binary, configure, embedding, forward_conv, plain_linear

__all__ = ["get_executorch_backend_config"]


def _sharing(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    ops = [
        nn.Flatten, F.adaptive_avg_pool2d, F.elu, F.hardtanh, F.max_pool2d, F.pad, F.relu, F.relu6, F.leaky_relu,
        F.leaky_relu_, nn.AdaptiveAvgPool2d, nn.ConstantPad2d, nn.ELU, nn.MaxPool2d, nn.ReLU6, nn.Hardtanh,
        nn.LeakyReLU, *(TOP[name] for name in ("clamp", "flatten", "mean", "permute", "permute_copy", "squeeze")),
        "clamp", "mean", "permute", "reshape", "relu", "relu_", "squeeze", "squeeze_", "leaky_relu",
    ]
    return [configure(op, dtypes, SHARED) for op in ops]


def _embedding(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    made = embedding(dtypes)
    return [*made[:2], configure(F.embedding, dtypes, index={"weight": 1}), *made[2:]]


def get_executorch_backend_config() -> BackendConfig:
    """What backends of ExecuTorch can quantize."""
    both = [SYMMETRIC_PLAIN, PLAIN]
    return build("executorch", (
        (plain_linear, [SYMMETRIC, WEIGHTED, DYNAMIC, DYNAMIC_SYMMETRIC, DYNAMIC_HALF]),
        (lambda dtypes: forward_conv(dtypes, 2), [SYMMETRIC, WEIGHTED]),
        (lambda dtypes: binary(dtypes, ("add", "sub", "mul")), [SYMMETRIC_PLAIN, WEIGHTED]),
        (_sharing, both),
        (lambda dtypes: [configure(nn.BatchNorm2d, dtypes)], both),
        (lambda dtypes: [configure(TOP[name], dtypes, SHARED) for name in ("cat", "concat", "concatenate")], both),
        (_embedding, [WEIGHT_ONLY]),
    ))
