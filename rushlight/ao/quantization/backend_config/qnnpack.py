"""The qnnpack kernels: unsigned activations, or signed ones with symmetric weights and scales not below 2^-12."""

from .backend_config import BackendConfig
from .backends import (
    PLAIN as qnnpack_default_op_quint8_dtype_config,
    SYMMETRIC as qnnpack_weighted_op_qint8_symmetric_dtype_config,
    SYMMETRIC_PLAIN as qnnpack_default_op_qint8_symmetric_dtype_config,
    WEIGHTED as qnnpack_weighted_op_quint8_dtype_config,
    build,
)

__all__ = [
    "get_qnnpack_backend_config", "qnnpack_default_op_qint8_symmetric_dtype_config",
    "qnnpack_default_op_quint8_dtype_config", "qnnpack_weighted_op_qint8_symmetric_dtype_config",
    "qnnpack_weighted_op_quint8_dtype_config",
]


def get_qnnpack_backend_config() -> BackendConfig:
    """What the qnnpack kernels can quantize."""
    return build("qnnpack")
