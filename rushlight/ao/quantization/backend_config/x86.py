"""The x86 kernels."""

from .backend_config import BackendConfig
from .backends import build

__all__ = ["get_x86_backend_config"]


def get_x86_backend_config() -> BackendConfig:
    """What the x86 kernels can quantize."""
    return build("x86")
