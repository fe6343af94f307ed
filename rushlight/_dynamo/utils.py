"""Small questions about capture that libraries ask."""

from __future__ import annotations

from typing import Any

from ..dynamo.bytecode import instructions
from ..dynamo.record.counting import compilation_time_metrics, compile_times, counters

__all__ = ["compilation_time_metrics", "compile_times", "counters", "is_compile_supported", "is_dynamo_supported"]


def is_dynamo_supported() -> bool:
    """Whether functions can be captured here: on versions of CPython whose bytecode is known."""
    return instructions.IS_SUPPORTED


def is_inductor_supported() -> bool:
    """Whether captured graphs can be handed to the inductor here."""
    return True


def is_compile_supported(device_type: Any) -> bool:
    """Whether `compile()` makes code for a device: not yet for any."""
    return is_dynamo_supported()
