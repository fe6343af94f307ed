"""`torch.cuda.amp.GradScaler`, deprecated for `torch.amp.GradScaler("cuda")`."""

from __future__ import annotations

import warnings

from ...amp import grad_scaler
from ...amp.grad_scaler import OptState

__all__ = ["GradScaler", "OptState"]


class GradScaler(grad_scaler.GradScaler):
    """GradScaler("cuda", ...)."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warnings.warn(
            "torch.cuda.amp.GradScaler is deprecated: use torch.amp.GradScaler('cuda', ...).",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
