"""PyTorch's device of others (PrivateUse1): the one name it gives away, and what a back end in Python hangs on it.

Enters: a new name for `privateuseone`, a hook and a guard of a back end's own. Leaves: tensors on that device, which
have sizes, a type and no memory of ours: what they hold is the back end's, and kernels it registered compute with it.
Refuses: a second name, and names of devices that exist. Devices of our own (`register`) are another road, and any
number of them stand beside this one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..base import late

PLAIN_NAME = "privateuseone"
PRIVATE = 1 << 13                  # the core's mask: kKeyPrivate of csrc/types.h


class PrivateUse:
    """What this process knows of the device."""

    name = PLAIN_NAME
    is_used = False                # whether a back end announced itself: until then nobody asks for it
    hook: PrivateUse1Hooks | None = None
    guard: DeviceGuard | None = None
    listeners: list[Callable[[], None]] = []      # called when a back end announces itself


state: PrivateUse = PrivateUse()
modules: dict[str, Any] = {}       # what `_register_device_module` was given, by type of device


def is_private(device: Any) -> bool:
    """Whether a device, or a name of one, is PyTorch's device of others."""
    if isinstance(device, str):
        kind = device.partition(":")[0]
        return kind in (state.name, PLAIN_NAME)
    return isinstance(device, _C.device) and device.type == state.name


def use() -> None:
    """A back end announces itself: from now on calls on the device go to its kernels."""
    if not state.is_used:
        state.is_used = True
        for listener in state.listeners:
            listener()


def rename(name: str) -> None:
    """Call the device `name` from now on. Once a process; the same name again changes nothing."""
    if not isinstance(name, str):
        raise TypeError(f"rename_privateuse1_backend: expected a name (str), got {type(name).__name__}")
    if state.name != PLAIN_NAME and name != state.name:
        raise RuntimeError(
            f"rename_privateuse1_backend({name!r}): a name has already been set for this process. Current backend:"
            f" {state.name}"
        )
    if name == state.name:
        return
    if name in _C.device_types() or not name:
        raise RuntimeError(
            f"Cannot register privateuse1 backend with in-tree device name: {name!r} is a device here or in PyTorch."
        )
    _C.rename_device(PLAIN_NAME, name)
    state.name = name
    use()


class PrivateUse1Hooks:
    """What PyTorch asks of a back end; derive from it, and hand an instance to the register function."""

    def is_built(self) -> bool:
        raise NotImplementedError("PrivateUse1Hooks.is_built: the back end's class must say it")

    def is_available(self) -> bool:
        raise NotImplementedError("PrivateUse1Hooks.is_available: the back end's class must say it")

    def has_primary_context(self, device_index: int) -> bool:
        raise NotImplementedError("PrivateUse1Hooks.has_primary_context: the back end's class must say it")


class DeviceGuard:
    """Which type of device the units of a back end are of."""

    def type_(self) -> Any:
        raise RuntimeError("DeviceGuard.type_: the back end's class must say it")


def register_python_privateuseone_hook(hook: PrivateUse1Hooks) -> bool:
    """Take a back end's hook; False where there is one already."""
    if not isinstance(hook, PrivateUse1Hooks):
        raise TypeError(f"register_python_privateuseone_hook: expected PrivateUse1Hooks, got {type(hook).__name__}")
    taken = state.hook is None
    state.hook = state.hook or hook
    _C.set_unit_type(state.name)       # a bare number is a unit of the accelerator
    use()
    return taken


def register_python_privateuseone_device_guard(guard: DeviceGuard) -> bool:
    """Take a back end's guard; False where there is one already."""
    if not isinstance(guard, DeviceGuard):
        raise TypeError(f"register_python_privateuseone_device_guard: expected DeviceGuard, got {type(guard).__name__}")
    taken = state.guard is None
    state.guard = state.guard or guard
    use()
    return taken


def create_empty_tensor(shape: Sequence[int], dtype: _C.dtype, /) -> Tensor:
    """A tensor on the device with sizes, contiguous strides and a type, and without memory. `x.__class__ = Mine` makes
    it one of a class of the back end's, which keeps in it what it likes."""
    if not isinstance(shape, Sequence) or isinstance(shape, str) or not isinstance(dtype, _C.dtype):
        raise TypeError(
            "create_empty_tensor: incompatible function arguments; expected sizes and a dtype, got"
            f" {type(shape).__name__} and {type(dtype).__name__}"
        )
    use()
    return _empty(tuple([int(n) for n in shape]), None, dtype)


def _empty(sizes: tuple[int, ...], strides: tuple[int, ...] | None, dtype: _C.dtype, offset: int = 0) -> Tensor:
    made = _C.make_wrapper(Tensor, sizes, strides, dtype, _C.device(state.name, 0), offset)
    made._keys |= PRIVATE
    return made


def register_module(device_type: str, module: Any) -> None:
    """Make `torch.<device_type>` a module of the caller's. Refuses types of device that have one."""
    kind = _C.device(device_type).type
    package = late.provided("package")
    if kind in modules or hasattr(package, kind):
        known = modules.get(kind) or getattr(package, kind)
        raise RuntimeError(f"The runtime module of '{kind}' has already been registered with '{known}'")
    modules[kind] = module
    setattr(package, kind, module)
    for name in {package.__name__, _C.get_display_module()}:
        sys.modules[f"{name}.{kind}"] = module
    if is_private(kind):
        use()
