"""The fbgemm kernels."""

from .backend_config import BackendConfig
from .backends import build

__all__ = ["get_fbgemm_backend_config"]


def get_fbgemm_backend_config() -> BackendConfig:
    """What the fbgemm kernels can quantize."""
    return build("fbgemm")
