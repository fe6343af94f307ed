"""The table of registered kernels: op and key to function, plus fallbacks of whole keys.

Enters: registrations of `library`. Leaves: for an overload and a key, the function to call. An op with a
registration is marked in the core, so that ops without any keep their fast path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import _C
from ..devices import private_use
from ..op import ops
from ..op.registry import forms
from .keys import AUTOGRAD_OF, BACKENDS, DispatchKey

kernels: dict[tuple[str, Any], Any] = {}          # (qualified op name, key) -> function, or FALLTHROUGH
fallbacks: dict[Any, Callable] = {}               # key -> function(op, *args, **kwargs)
# (op name, mode or subclass) -> its __torch_dispatch__ for that op
python_rules: dict[tuple[str, type], Callable] = {}
# PyTorch's device of others: (ATen's overload as `add.Tensor`, key) -> function, or FALLTHROUGH
private: dict[tuple[str, Any], Any] = {}
PRIVATE_KEYS = (DispatchKey.PrivateUse1, DispatchKey.AutogradPrivateUse1, DispatchKey.AutocastPrivateUse1)
with_keyset: set[tuple[str, Any]] = set()
FALLTHROUGH = object()
EVERY_TYPE = (1 << 64) - 1


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """Register this as an implementation to skip a key."""
    raise RuntimeError("fallthrough_kernel marks a key to be skipped; it is never called")


def qualified(namespace: str, name: str) -> str:
    """The name registrations are filed under: aten ops by their bare name."""
    return name if namespace in ("aten", "rushlight") else f"{namespace}::{name}"


def mark(name: str) -> None:
    """Tell the core which calls of this op must come to the dispatcher:
    those on devices that a registration concerns."""
    mask = EVERY_TYPE if private_use.state.is_used and name in PLACING else _concerned(
        {key for n, key in kernels if n == name})
    for op in forms.get(name) or ([ops[name]] if name in ops else []):
        for overload in op.overload_list:
            if overload.definition.custom:
                overload.definition.plain.clear()
                overload.definition.taught.clear()
                overload.forget_kernels()
            else:
                _C.forget_plans()      # bodies that call this op may be plans, which would not ask again
            # ops of `library` are all registrations
            overload.overridden = bool(mask) if overload.definition.custom else mask


# Ops that take the name of a device: one of their arguments, not a tensor, may say that others compute.
PLACING = frozenset((
    "to _to_copy zeros ones full empty empty_strided empty_permuted arange range linspace logspace eye scalar_tensor"
    " empty_like zeros_like ones_like full_like new_zeros new_ones new_empty new_full new_empty_strided tril_indices"
    " triu_indices rand randn randint randperm rand_like randn_like randint_like normal hann_window hamming_window"
    " blackman_window bartlett_window kaiser_window fftfreq rfftfreq").split())


def _mark_placing() -> None:
    for name in {*PLACING, *(n for n, _ in kernels)}:
        mark(name)


private_use.state.listeners.append(_mark_placing)


def _concerned(keys: set[Any]) -> int:
    """A bit for each type of device whose calls some of the keys may take."""
    mask = 0
    for key in keys:
        mask |= _types_of(key)
    return mask


def _types_of(key: Any) -> int:
    """Bits of the device types that a registration under `key` concerns: one backend's, all plugged-in ones',
    or all."""
    if isinstance(key, str):   # a plugged-in device's own name
        return _bits([key])
    for device, backend in BACKENDS.items():
        if key in (backend, AUTOGRAD_OF.get(backend)):
            return _bits([device])
    if key in (DispatchKey.PrivateUse1, DispatchKey.AutogradPrivateUse1):
        return EVERY_TYPE & ~_bits(list(BACKENDS))   # those registered later too
    return EVERY_TYPE   # a composite, or above all backends


def _bits(names: list[str]) -> int:
    types = _C.device_types()
    mask = 0
    for name in names:
        mask |= 1 << min(types.index(name), 63)      # the last bit is shared (csrc/scan.h)
    return mask


def register(name: str, key: Any, function: Callable, keyset: bool = False) -> None:
    """File an implementation."""
    kernels[name, key] = FALLTHROUGH if function is fallthrough_kernel else function
    if keyset:
        with_keyset.add((name, key))
    mark(name)


def register_private(overload: str, key: Any, function: Callable, keyset: bool = False) -> None:
    """File an implementation of one of ATen's overloads for PyTorch's device of others."""
    private[overload, key] = FALLTHROUGH if function is fallthrough_kernel else function
    if keyset:
        with_keyset.add((overload, key))


def unregister_private(overload: str, key: Any) -> None:
    """Remove such an implementation."""
    private.pop((overload, key), None)
    with_keyset.discard((overload, key))


def unregister(name: str, key: Any) -> None:
    """Remove an implementation; the op returns to the fast path with its last one."""
    kernels.pop((name, key), None)
    with_keyset.discard((name, key))
    mark(name)


def find(name: str, key: DispatchKey | str) -> Callable | None:
    """The implementation for a key; FALLTHROUGH where it must be skipped; None where nothing is registered."""
    return kernels.get((name, key))
