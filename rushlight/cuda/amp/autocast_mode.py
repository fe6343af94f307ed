"""`torch.cuda.amp.autocast` and the decorators of custom functions, deprecated for those of `torch.amp`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..._C import float16
from ...amp import autocast_mode

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


def _deprecated(name: str, replacement: str) -> None:
    warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `{replacement}` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(autocast_mode.autocast):  # noqa: N801 - PyTorch's name
    """autocast("cuda", ...)."""

    def __init__(self, enabled: bool = True, dtype: Any = float16, cache_enabled: bool = True) -> None:
        _deprecated("autocast", "torch.amp.autocast('cuda', args...)")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd: Callable | None = None, *, cast_inputs: Any = None) -> Callable:
    """custom_fwd(device_type="cuda")."""
    _deprecated("custom_fwd", "torch.amp.custom_fwd(args..., device_type='cuda')")
    return autocast_mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable) -> Callable:
    """custom_bwd(device_type="cuda")."""
    _deprecated("custom_bwd", "torch.amp.custom_bwd(args..., device_type='cuda')")
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
