"""Questions that code asks to know whether it is being compiled."""

from __future__ import annotations

from ..dynamo.record.tracing import is_compiling, tracing

__all__ = ["is_compiling", "tracing"]
