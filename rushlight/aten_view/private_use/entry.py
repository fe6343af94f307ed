"""Calls that concern PyTorch's device of others, above autograd: kernels registered there, and moves to the device.

Enters: a call by ATen's overload. Leaves: its result where a back end has a kernel under `AutocastPrivateUse1` or
`AutogradPrivateUse1`, or under `PrivateUse1` for an op that PyTorch otherwise takes apart; NotImplemented else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base.shape import preserve_format
from ...devices import private_use
from ...devices.private_use import PRIVATE
from ...dispatch import table
from ...dispatch.autocast import is_autocast_enabled
from ...dispatch.dispatcher import tensors_of
from ...dispatch.keys import AUTOCAST, DispatchKey
from ..words import aten


class _Running(threading.local):
    def __init__(self) -> None:
        self.kernels: list[tuple[str, DispatchKey]] = []     # above autograd, on this thread's stack


_running = _Running()


def before_autograd(func: Any, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call as a back end's kernels above autograd answer it."""
    move = _MOVES.get(name)
    if move is not None and (private_use.is_private(_place(args, kwargs)) or args[0]._keys & PRIVATE):
        return move(*args, **kwargs)
    if not any(t._keys & PRIVATE for t in tensors_of((*args, *kwargs.values()))):
        return NotImplemented
    for key in _above():
        kernel = table.private.get((name, key))
        if kernel is not None and kernel is not table.FALLTHROUGH and (name, key) not in _running.kernels:
            return _guarded((name, key), kernel, args, kwargs)
    return NotImplemented


def has_kernel(name: str, args: tuple) -> bool:
    """Whether a back end has a kernel of its own for a call on its device."""
    return (name, DispatchKey.PrivateUse1) in table.private and any(t._keys & PRIVATE for t in tensors_of(args))


def _above() -> tuple[DispatchKey, ...]:
    keys, excluded = _C.get_thread_keys()
    below = () if _C.is_inference_mode_enabled() or _C._is_below_autograd() else (DispatchKey.AutogradPrivateUse1,)
    if not keys & ~excluded & AUTOCAST or not is_autocast_enabled(private_use.state.name):
        return below
    return (DispatchKey.AutocastPrivateUse1, *below)


class BelowAutograd:
    """A region whose calls are not recorded, nor seen by a back end's kernels for autograd. Kernels of extensions open
    one in every call."""

    def __enter__(self) -> None:
        self.was_below = _C._set_below_autograd(True)
        self.mode = _C.is_grad_enabled()
        _C._set_grad_enabled(False)

    def __exit__(self, *error: object) -> None:
        _C._set_grad_enabled(self.mode)
        _C._set_below_autograd(self.was_below)


def below_autograd() -> BelowAutograd:
    """Such a region."""
    return BelowAutograd()


def _guarded(call: tuple[str, DispatchKey], kernel: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    _running.kernels.append(call)
    try:
        return kernel(*args, **kwargs)
    finally:
        _running.kernels.pop()


# --- moves ------------------------------------------------------------------------------------------------------------


def _place(args: tuple, kwargs: dict[str, Any]) -> Any:
    """Where a move goes."""
    values = (*args[1:], *kwargs.values())
    found = next((v for v in values if isinstance(v, (_C.device, str, Tensor))), None)
    return found.device if isinstance(found, Tensor) else found


def _to(self: Tensor, device: Any, dtype: Any, non_blocking: bool, copy: bool, memory_format: Any) -> Any:
    place = self.device if device is None else _C.device(device)
    if private_use.is_private(place) and place.index is None:
        place = _C.device(place.type, 0)
    is_same = place == self.device and dtype in (None, self.dtype) and memory_format in (None, preserve_format)
    if is_same and not copy:
        return self
    named = {"dtype": dtype, "device": None if place == self.device else place, "memory_format": memory_format}
    named = {k: v for k, v in named.items() if v is not None}
    return aten._to_copy(self, **named, **({"non_blocking": True} if non_blocking else {}))


def _to_device(self: Tensor, device: Any = None, dtype: Any = None, non_blocking: bool = False, copy: bool = False,
               memory_format: Any = None, **layout: Any) -> Any:
    return _to(self, device, dtype, non_blocking, copy, memory_format)


def _to_other(self: Tensor, other: Tensor, non_blocking: bool = False, copy: bool = False,
              memory_format: Any = None) -> Any:
    return _to(self, other.device, other.dtype, non_blocking, copy, memory_format)


_MOVES: dict[str, Callable] = {
    "to.device": _to_device, "to.other": _to_other,
    "to.dtype_layout": lambda self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False,
    copy=False, memory_format=None: _to(self, device, dtype, non_blocking, copy, memory_format),
    "to.dtype": lambda self, dtype, non_blocking=False, copy=False, memory_format=None: _to(
        self, None, dtype, non_blocking, copy, memory_format),
}
