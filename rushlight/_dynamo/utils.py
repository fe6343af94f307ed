"""Small questions about capture that libraries ask."""

from __future__ import annotations

from typing import Any

from ..dynamo.record.counting import counters
from .eval_frame import is_dynamo_supported

__all__ = ["counters", "is_compile_supported", "is_dynamo_supported"]


def is_compile_supported(device_type: Any) -> bool:
    """Whether `compile()` makes code for a device: not yet for any."""
    return is_dynamo_supported()
