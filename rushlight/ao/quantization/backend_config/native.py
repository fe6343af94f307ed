"""PyTorch's own kernels: fbgemm's and qnnpack's together."""

from __future__ import annotations

from typing import Any

from .backend_config import BackendConfig
from .backends import (
    DYNAMIC as default_dynamic_int8_dtype_config,
    DYNAMIC_HALF as default_dynamic_float16_dtype_config,
    FLOAT_WEIGHT as input_output_only_quint8_dtype_config,
    HALF as default_op_fp16_dtype_config,
    PLAIN as default_op_quint8_dtype_config,
    WEIGHT_ONLY as weight_only_quint8_dtype_config,
    WEIGHT_ONLY_4 as weight_only_quint4x2_dtype_config,
    WEIGHTED as weighted_op_quint8_dtype_config,
    build,
)

__all__ = [
    "default_dynamic_float16_dtype_config", "default_dynamic_int8_dtype_config", "default_op_fp16_dtype_config",
    "default_op_quint8_dtype_config", "get_native_backend_config", "get_native_backend_config_dict",
    "get_test_only_legacy_native_backend_config", "get_test_only_legacy_native_backend_config_dict",
    "input_output_only_quint8_dtype_config", "weight_only_quint4x2_dtype_config", "weight_only_quint8_dtype_config",
    "weighted_op_quint8_dtype_config",
]


def get_native_backend_config() -> BackendConfig:
    """What the built-in kernels can quantize."""
    return build("native")


def get_test_only_legacy_native_backend_config() -> BackendConfig:
    """The same, with operators in half precision."""
    return build("_native_and_fp16")


def get_native_backend_config_dict() -> dict[str, Any]:
    """`get_native_backend_config` as a dictionary."""
    return get_native_backend_config().to_dict()


def get_test_only_legacy_native_backend_config_dict() -> dict[str, Any]:
    """`get_test_only_legacy_native_backend_config` as a dictionary."""
    return get_test_only_legacy_native_backend_config().to_dict()
