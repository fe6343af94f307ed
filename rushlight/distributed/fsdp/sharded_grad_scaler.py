"""`ShardedGradScaler`: a gradient scaler that skips a step in all processes if any of them met an infinity."""

from __future__ import annotations

from typing import Any

from ...amp.grad_scaler import GradScaler
from ..collectives import all_reduce
from ..groups import default_group, resolve

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """As `GradScaler`; each process has a part of the gradients, so what was found in them is exchanged.

    Arguments as there, and process_group: those that have the other parts."""

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, backoff_factor: float = 0.5,
        growth_factor: float = 2.0, growth_interval: int = 2000, enabled: bool = True, process_group: Any = None,
    ) -> None:
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        if enabled:
            self.process_group = resolve(process_group) if process_group is not None else default_group()

    def unscale_(self, optimizer: Any) -> None:
        """Divide gradients by the scale; infinities of any process count in all."""
        if not self._enabled:
            return
        super().unscale_(optimizer)
        for found in self._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values():
            all_reduce(found, group=self.process_group)
