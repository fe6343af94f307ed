"""rushlight.nn.attention: which form of scaled_dot_product_attention may be used, and causal biases.

Enters: forms a caller allows, by `SDPBackend`. Leaves: a context in which `scaled_dot_product_attention` chooses among
them alone. On the CPU there are two: MATH, and FLASH_ATTENTION, which holds no scores; others can be named but serve
nothing. Refuses: what is no `SDPBackend`.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from ...definitions.attention import scaled as _attention

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
    """Within the context, attention uses one of `backends`. Priorities change nothing:
    the flash form is taken where it can be."""
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

# --- other implementations of flash attention -------------------------------------------------------------------------

_impls: dict[str, Any] = {"FA3": None, "FA4": None}
_active: list[tuple[str, Any]] = []


def register_flash_attention_impl(impl: str, *, register_fn: Any) -> None:
    """Make an implementation known; `register_fn()` puts it in place and may answer with a handle whose `remove()`
    takes it away."""
    _impls[impl] = register_fn


def list_flash_attention_impls() -> list[str]:
    """The names of all that are known."""
    return sorted(_impls)


def current_flash_attention_impl() -> str | None:
    """The name of the one put in place, if any."""
    return _active[-1][0] if _active else None


def activate_flash_attention_impl(impl: str) -> None:
    """Put a known implementation in place."""
    if impl not in _impls:
        raise ValueError(f"activate_flash_attention_impl: expected one of {list_flash_attention_impls()}, got {impl!r}")
    if _impls[impl] is None:
        raise ModuleNotFoundError(f"activate_flash_attention_impl: {impl} is a CUDA library that is not here")
    restore_flash_attention_impl(_raise_warn=False)
    _active.append((impl, _impls[impl]()))


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Take the implementation put in place away again."""
    if not _active and _raise_warn:
        import warnings

        warnings.warn("restore_flash_attention_impl: none was put in place", stacklevel=2)
    for _, handle in _active:
        if handle is not None:
            handle.remove()
    _active.clear()
