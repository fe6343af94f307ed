"""torch_xla.amp: mixed precision on the device."""

from __future__ import annotations

from typing import Any

from ... import _C
from ...amp import GradScaler, autocast as _autocast

__all__ = ["GradScaler", "autocast"]


class autocast(_autocast):  # noqa: N801 - torch_xla's name
    """A region that computes in bfloat16 where that is safe."""

    def __init__(self, device: Any, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__(_C.device(device).type, dtype, enabled, cache_enabled)
