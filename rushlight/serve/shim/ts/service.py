"""The place of `emit_metrics` that handlers know."""

from __future__ import annotations

from typing import Any


def emit_metrics(metrics: Any) -> None:
    """Nothing is written of what a handler counts: it stays in its worker."""
