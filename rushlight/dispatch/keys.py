"""Dispatch keys in priority order, and sets of them.

Enters: tensors, modes and registrations. Leaves: the order in which handlers of one call are asked. The first eight
levels are bits of the core's mask (csrc/types.h); autograd and the backends are always there and need no bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any

from .. import _C
from ..devices import private_use
from ..devices.private_use import PRIVATE as PRIVATE

# The core's mask (enum Key in csrc/types.h).
SUBCLASS, MODE, FUNCTORCH, FUNCTIONALIZE, AUTOCAST, TRACER, ATEN, SHOW = (1 << i for i in range(8))
FUNCTION = 1 << 11
QUANTIZED = 1 << 12


class DispatchKey(IntEnum):
    """Levels a call passes through, from the outermost in. Backends of registered devices come after PrivateUse1."""

    Undefined = 0
    PreDispatch = 1
    PythonMode = 2                # __torch_function__ modes and subclasses
    FuncTorchDynamicLayer = 3
    Functionalize = 4
    Autocast = 5
    Tracer = 6
    ADInplaceOrView = 7
    Autograd = 8
    AutogradCPU = 9
    AutogradCUDA = 10
    AutogradMeta = 11
    AutogradPrivateUse1 = 12
    Python = 13                   # __torch_dispatch__ modes and subclasses
    BackendSelect = 14
    CompositeImplicitAutograd = 15
    CompositeExplicitAutograd = 16
    CPU = 17
    CUDA = 18
    Meta = 19
    Lazy = 20
    QuantizedCPU = 21
    PrivateUse1 = 22
    # Of one device type, asked beside Autocast.
    AutocastPrivateUse1 = 23
    AutocastCPU = 24
    AutocastCUDA = 25
    AutocastXPU = 26


BACKENDS = {"cpu": DispatchKey.CPU, "cuda": DispatchKey.CUDA, "meta": DispatchKey.Meta, "lazy": DispatchKey.Lazy}
AUTOGRAD_OF = {
    DispatchKey.CPU: DispatchKey.AutogradCPU, DispatchKey.CUDA: DispatchKey.AutogradCUDA,
    DispatchKey.Meta: DispatchKey.AutogradMeta, DispatchKey.PrivateUse1: DispatchKey.AutogradPrivateUse1,
}
AUTOCAST_OF = {"cpu": DispatchKey.AutocastCPU, "cuda": DispatchKey.AutocastCUDA, "xpu": DispatchKey.AutocastXPU}


def parse_key(key: str | DispatchKey) -> DispatchKey | str:
    """A key from its name; a registered device's name (any case) stands for its own backend."""
    if isinstance(key, DispatchKey):
        return key
    if key in DispatchKey.__members__:
        return DispatchKey[key]
    if key.lower() in BACKENDS:
        return BACKENDS[key.lower()]
    if private_use.is_private(key):
        private_use.use()
        return DispatchKey.PrivateUse1
    try:
        _C.device(key.lower())
    except RuntimeError:
        known = ", ".join(DispatchKey.__members__)
        raise RuntimeError(f"unknown dispatch key {key!r}. Expected a device type or one of {known}") from None
    return key.lower()   # out-of-tree devices are keys by name: any number of them at once


def _name_private_use() -> None:
    BACKENDS[private_use.state.name] = DispatchKey.PrivateUse1


private_use.state.listeners.append(_name_private_use)


def backend_of(device: Any) -> DispatchKey | str:
    """The backend key of a device."""
    return BACKENDS.get(device.type, device.type)


class DispatchKeySet:
    """The keys of a call, iterated from the outermost in."""

    def __init__(self, keys: Iterable[DispatchKey | str] | DispatchKey) -> None:
        self.keys = [keys] if isinstance(keys, DispatchKey) else list(keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet([*self.keys, *(key for key in other.keys if key not in self.keys)])

    def __iter__(self) -> Iterator[DispatchKey | str]:
        return iter(self.keys)

    def __contains__(self, key: DispatchKey | str) -> bool:
        return key in self.keys

    has = __contains__

    def highestPriorityTypeId(self) -> DispatchKey | str:  # noqa: N802 - PyTorch's name
        return self.keys[0] if self.keys else DispatchKey.Undefined

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(k if isinstance(k, str) else k.name for k in self.keys)})"
