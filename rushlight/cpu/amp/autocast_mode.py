"""`torch.cpu.amp.autocast`, deprecated for `torch.amp.autocast("cpu")`."""

from __future__ import annotations

import warnings
from typing import Any

from ..._C import bfloat16
from ...amp import autocast_mode

__all__ = ["autocast"]


class autocast(autocast_mode.autocast):  # noqa: N801 - PyTorch's name
    """autocast("cpu", ...)."""

    def __init__(self, enabled: bool = True, dtype: Any = bfloat16, cache_enabled: bool = True) -> None:
        warnings.warn(
            "torch.cpu.amp.autocast is deprecated: use torch.amp.autocast('cpu', ...).", FutureWarning, stacklevel=2
        )
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)
