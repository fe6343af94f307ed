"""Back ends outside the tree, PyTorch's way: one name to give away (PrivateUse1), and methods made for it.

Enters: a name, and what a back end in Python has: a module, a hook, a guard. Leaves: `Tensor.<name>()`,
`Tensor.is_<name>` and their like on modules, packed sequences and storages. Refuses: a second name, and methods that
are there already. Devices of our own (`rushlight.devices.register`) need none of this, and stand beside it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from ..base import late
from ..devices import private_use
from ..dispatch.overrides import handle_torch_function, has_torch_function_unary
from ..tensors.storages import TypedStorage, UntypedStorage

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]

_privateuse1_backend_name = private_use.PLAIN_NAME


def rename_privateuse1_backend(backend_name: str) -> None:
    """Call PyTorch's device of others `backend_name`. Once a process; the same name again changes nothing."""
    global _privateuse1_backend_name
    private_use.rename(backend_name)
    _privateuse1_backend_name = backend_name
    late.provided("renamed activities")(backend_name.upper())


def _check_register_once(owner: Any, name: str) -> None:
    if hasattr(owner, name):
        raise RuntimeError(f"The custom device module of {owner} has already been registered with {name}")


def _add(owner: Any, name: str, value: Any) -> None:
    _check_register_once(owner, name)
    setattr(owner, name, value)


def _normalization_device(custom_backend_name: str, device: Any = None) -> int:
    """The unit that is meant: by its number, a device, or None for the current one of the back end's module."""

    def current() -> int:
        module = private_use.modules.get(custom_backend_name)
        return module.current_device() if hasattr(module, "current_device") else 0

    if device is None:
        return current()
    if isinstance(device, int):
        return device
    place = _C.device(device)
    if place.type != custom_backend_name:
        raise RuntimeError(f"Invalid device, must be {custom_backend_name} device, got {place}")
    return current() if place.index is None else place.index


def _for_tensors(name: str) -> None:
    def is_there(self: Tensor) -> bool:
        if has_torch_function_unary(self):
            return handle_torch_function(there.__get__, (self,), self)
        return self.device.type == name

    def move(self: Tensor, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Tensor:
        if has_torch_function_unary(self):
            return handle_torch_function(move, (self,), self, device=device, non_blocking=non_blocking, **kwargs)
        place = _C.device(name, _normalization_device(name, device))
        return self.to(device=place, non_blocking=non_blocking, **kwargs)

    there = property(is_there)
    is_there.__name__, move.__name__ = f"is_{name}", name
    move.__doc__ = f"The tensor on a {name} device: the current one unless told."
    _add(Tensor, f"is_{name}", there)
    _add(Tensor, name, move)


def _for_modules(name: str) -> None:
    if not hasattr(Tensor, name):
        raise RuntimeError(
            f"Module.{name}() moves parameters by Tensor.{name}(), which torch.Tensor does not have. Pass"
            " for_tensor=True."
        )

    def move(self: Any, device: Any = None) -> Any:
        return self._apply(lambda t: getattr(t, name)(device))

    move.__name__, move.__doc__ = name, f"All parameters and buffers on a {name} device."
    _add(late.provided("module hooks").Module, name, move)


def _for_packed_sequences(name: str) -> None:
    if not hasattr(Tensor, name) or not hasattr(Tensor, f"is_{name}"):
        raise RuntimeError(
            f"PackedSequence.{name}() moves its data by Tensor.{name}(), which torch.Tensor does not have. Pass"
            " for_tensor=True."
        )
    packed = late.provided("PackedSequence")

    def move(self: Any, *args: Any, **kwargs: Any) -> Any:
        probe = self.data.new_empty((0,)).cpu().to(*args, **kwargs) if args or kwargs else None
        return self.to(*args, **kwargs) if probe is not None and probe.device.type == name else self.to(
            *args, **{**kwargs, "device": name})

    _add(packed, f"is_{name}", property(lambda self: self.data.device.type == name))
    move.__name__ = name
    _add(packed, name, move)


def _for_storages(name: str, unsupported: Sequence[_C.dtype] | None) -> None:
    def move(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        unit = _normalization_device(name, device)
        if self.device.type == name and self.get_device() == unit:
            return self
        made = UntypedStorage(self.size(), device=_C.device(name, unit))
        return made.copy_(self, non_blocking)

    def move_typed(self: Any, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        _warn_of_types()
        if unsupported and self.dtype in unsupported:
            raise RuntimeError(
                f"Cannot create {name} storage as {self.dtype} dtype is not supported by this backend")
        return self._new_wrapped_storage(getattr(self._untyped_storage, name)(device, non_blocking, **kwargs))

    move.__name__ = move_typed.__name__ = name
    _add(UntypedStorage, f"is_{name}", property(lambda self: self.device.type == name))
    _add(UntypedStorage, name, move)
    _add(TypedStorage, f"is_{name}", property(lambda self: self._untyped_storage.device.type == name))
    _add(TypedStorage, name, move_typed)


def _warn_of_types() -> None:
    warnings.warn("TypedStorage is deprecated: use UntypedStorage.", UserWarning, stacklevel=3)


def generate_methods_for_privateuse1_backend(for_tensor: bool = True, for_module: bool = True,
                                             for_packed_sequence: bool = True, for_storage: bool = False,
                                             unsupported_dtype: Sequence[_C.dtype] | None = None) -> None:
    """Make `<name>()` and `is_<name>` for tensors, modules, packed sequences and storages, those that are asked for.
    `unsupported_dtype`: types that typed storages refuse to bring to the device."""
    name = private_use.state.name
    private_use.use()
    if for_tensor:
        _for_tensors(name)
    if for_module:
        _for_modules(name)
    if for_storage:
        _for_storages(name, unsupported_dtype)
    if for_packed_sequence:
        _for_packed_sequences(name)


def _get_custom_mod_func(func_name: str) -> Any:
    """A function of the module that was registered for the device."""
    if not isinstance(func_name, str):
        raise AssertionError(f"func_name must be a str, got {type(func_name)}")
    name = private_use.state.name
    found = getattr(private_use.modules.get(name), func_name, None)
    if found is None:
        raise RuntimeError(
            f"torch.{name}.{func_name} is not there. The backend must register a custom backend module that has it:"
            f" torch._register_device_module({name!r}, module)."
        )
    return found


# --- back ends in Python ----------------------------------------------------------------------------------------------


class _DummyBackendModule:
    """One unit that is always there."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """It draws no numbers."""

    def device_count(self) -> int:
        return 1


class _DummyPrivateUse1Hook(private_use.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return True

    def has_primary_context(self, dev_id: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


class _DummyDeviceGuard(private_use.DeviceGuard):
    def type_(self) -> Any:
        return late.provided("profiler core").DeviceType.PrivateUse1


def _setup_privateuseone_for_python_backend(rename: str | None = None, backend_module: Any = None, hook: Any = None,
                                            device_guard: Any = None) -> None:
    """Everything a back end in Python announces itself with, in one call; what is not given is a plain one. Kernels
    are registered with `library` afterwards."""
    if rename is not None:
        rename_privateuse1_backend(rename)
    generate_methods_for_privateuse1_backend()
    private_use.register_module(private_use.state.name if rename is None else rename,
                                _DummyBackendModule() if backend_module is None else backend_module)
    private_use.register_python_privateuseone_hook(_DummyPrivateUse1Hook() if hook is None else hook)
    private_use.register_python_privateuseone_device_guard(
        _DummyDeviceGuard() if device_guard is None else device_guard)
