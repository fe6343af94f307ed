"""`torch._dynamo.backends.registry`: the register of compile backends (`compiler.registry`) where PyTorch has it."""

from __future__ import annotations

from typing import Any

from ...compiler.registry import list_backends, register_backend

__all__ = ["list_backends", "lookup_backend", "register_backend"]


def lookup_backend(backend: Any) -> Any:
    """The compile function of a name; a function is its own."""
    from ...compiler import driver  # noqa: PLC0415 - most programs name backends, and call none

    return driver.lookup_backend(backend)
