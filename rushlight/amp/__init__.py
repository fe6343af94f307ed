"""Mixed precision: regions that compute in bfloat16 or float16 where that is safe, and the scaling of gradients.

Which ops compute in which type is decided in `rushlight.dispatch.autocast`.
"""

from .autocast_mode import _enter_autocast, _exit_autocast, autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

__all__ = [
    "GradScaler",
    "_enter_autocast",
    "_exit_autocast",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "is_autocast_available",
]
