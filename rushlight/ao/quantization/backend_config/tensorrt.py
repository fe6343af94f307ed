"""TensorRT: signed activations throughout."""

from __future__ import annotations

from typing import Any

from .backend_config import BackendConfig
from .backends import build

__all__ = ["get_tensorrt_backend_config", "get_tensorrt_backend_config_dict"]


def get_tensorrt_backend_config() -> BackendConfig:
    """What TensorRT can quantize."""
    return build("tensorrt")


def get_tensorrt_backend_config_dict() -> dict[str, Any]:
    """`get_tensorrt_backend_config` as a dictionary."""
    return get_tensorrt_backend_config().to_dict()
