"""The table of registered kernels: op and key to function, plus fallbacks of whole keys.

Enters: registrations of `library`. Leaves: for an overload and a key, the function to call. An op with a
registration is marked in the core, so that ops without any keep their fast path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from ..op import ops
from ..op.registry import forms
from .keys import AUTOGRAD_OF, BACKENDS, DispatchKey

kernels: dict[tuple[str, Any], Callable] = {}     # (qualified op name, key) -> function
fallbacks: dict[Any, Callable] = {}               # key -> function(op, *args, **kwargs)
python_rules: dict[tuple[str, type], Callable] = {}   # (op name, mode or subclass) -> its __torch_dispatch__ for that op
with_keyset: set[tuple[str, Any]] = set()
FALLTHROUGH = object()


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """Register this as an implementation to skip a key."""
    raise RuntimeError("fallthrough_kernel marks a key to be skipped; it is never called")


def qualified(namespace: str, name: str) -> str:
    """The name registrations are filed under: aten ops by their bare name."""
    return name if namespace in ("aten", "rushlight") else f"{namespace}::{name}"


def mark(name: str) -> None:
    """Tell the core which calls of this op must come to the dispatcher: those on devices that a registration concerns."""
    mask = _concerned({key for n, key in kernels if n == name})
    for op in forms.get(name) or ([ops[name]] if name in ops else []):
        for overload in op.overload_list:
            overload.overridden = bool(mask) if overload.definition.custom else mask   # ops of `library` are all registrations


def _concerned(keys: set[Any]) -> int:
    """A bit for each type of device whose calls some of the keys may take; set for types that are not known yet."""
    if not keys:
        return 0
    mask = (1 << 64) - 1
    if keys - {*BACKENDS.values(), *(AUTOGRAD_OF[backend] for backend in BACKENDS.values() if backend in AUTOGRAD_OF)}:
        return mask   # of a plugged-in device, of a composite, or above all backends
    for number, device in enumerate(_C.device_types()):
        own = BACKENDS.get(device)
        if own is not None and own not in keys and AUTOGRAD_OF.get(own) not in keys:
            mask &= ~(1 << number)
    return mask


def register(name: str, key: Any, function: Callable, keyset: bool = False) -> None:
    """File an implementation."""
    kernels[name, key] = FALLTHROUGH if function is fallthrough_kernel else function
    if keyset:
        with_keyset.add((name, key))
    mark(name)


def unregister(name: str, key: Any) -> None:
    """Remove an implementation; the op returns to the fast path with its last one."""
    kernels.pop((name, key), None)
    with_keyset.discard((name, key))
    mark(name)


def find(name: str, key: DispatchKey | str) -> Callable | None:
    """The implementation for a key; FALLTHROUGH where it must be skipped; None where nothing is registered."""
    return kernels.get((name, key))
