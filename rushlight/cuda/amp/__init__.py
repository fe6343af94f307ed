"""The former home of autocast and gradient scaling for CUDA. There is no CUDA device: both warn and do nothing."""

from .autocast_mode import autocast, custom_bwd, custom_fwd
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


def amp_definitely_not_available() -> bool:
    """True: there is no CUDA device."""
    return True
