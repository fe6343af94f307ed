"""rushlight.nn.attention: which form of scaled_dot_product_attention may be used, and causal biases.

Enters: forms a caller allows, by `SDPBackend`. Leaves: a context in which `scaled_dot_product_attention` chooses among them
alone. On the CPU there are two: MATH, and FLASH_ATTENTION, which holds no scores; others can be named but serve nothing.
Refuses: what is no `SDPBackend`.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from ...ops import attention as _attention

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """Forms of scaled dot product attention."""

    ERROR = -1
    MATH = _attention.MATH
    FLASH_ATTENTION = _attention.FLASH
    EFFICIENT_ATTENTION = _attention.EFFICIENT
    CUDNN_ATTENTION = _attention.CUDNN
    OVERRIDEABLE = _attention.OVERRIDEABLE


@contextlib.contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[dict]:
    """Within the context, attention uses one of `backends`. Priorities change nothing: the flash form is taken where it can be."""
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(f"sdpa_kernel: expected an SDPBackend or a list of them, got {type(backends).__name__}")
    wanted = {int(b) for b in (backends if isinstance(backends, list) else [backends])}
    before = set(_attention.ENABLED)
    try:
        _replace(wanted)
        yield {}
    finally:
        _replace(before)


def _replace(wanted: set[int]) -> None:
    _attention.ENABLED.clear()
    _attention.ENABLED.update(wanted)


def __getattr__(name: str) -> Any:
    """`bias` is loaded when first named."""
    if name == "bias":
        import importlib

        return importlib.import_module(f"{__name__}.bias")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]
