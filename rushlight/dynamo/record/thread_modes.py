"""Modes of a thread that a frame may leave changed: recording of gradients, inference, mixed precision."""

from __future__ import annotations

from ... import _C
from ...dispatch import autocast


def modes_now() -> tuple:
    """The modes of the thread that a frame may leave changed."""
    state = autocast.state
    casting = tuple((d, state.enabled.get(d, False), state.dtypes[d]) for d in autocast.DEVICES)
    return _C.is_grad_enabled(), _C.is_inference_mode_enabled(), casting, state.cache_enabled, state.nesting


def set_modes(modes: tuple) -> None:
    """Bring the thread to these modes."""
    grad, inference, casting, caches, autocast.state.nesting = modes
    for device, enabled, dtype in casting:
        if autocast.state.enabled.get(device, False) != enabled:
            autocast.set_autocast_enabled(device, enabled)
        if autocast.state.dtypes.get(device) != dtype:
            autocast.set_autocast_dtype(device, dtype)
    if autocast.is_autocast_cache_enabled() != caches:
        autocast.set_autocast_cache_enabled(caches)
    if _C.is_inference_mode_enabled() != inference:
        _C._set_inference(inference)
    _C._set_grad_enabled(grad)
