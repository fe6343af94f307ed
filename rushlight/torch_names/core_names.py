"""Names that PyTorch programs take from `torch._C` and that are Python here.
`rushlight._C` looks them up in this module.

Enters: a name asked of `_C` that the native core does not define. Leaves: the counterpart: questions with a plain
answer (no tracing, no fuser), classes for annotations, and the functions of `torch._C._nn`.
Anything else is an AttributeError.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from .. import _C
from ..base import late
from ..base.refusals import names_of
from ..devices import memory, private_use
from ..dispatch import DispatchKey, DispatchKeySet, table
from ..dispatch.keys import AUTOCAST, AUTOGRAD_OF, backend_of
from ..dispatch.modes import (  # noqa: F401
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    disable_torch_dispatch as _DisableTorchDispatch,  # noqa: N812 - PyTorch's name
)
from ..op import ops
from ..quantized.packed import ScriptObject  # noqa: F401
from ..rules import levels
from .rare import Tag  # noqa: F401
from .unbuilt import SCRIPT_NAMES

_TensorMeta = _C.TensorMeta
_TensorBase = _C.Tensor
TensorBase = _C.Tensor


def _log_api_usage_once(event: str) -> None:
    """Nothing is counted or sent."""


def _log_api_usage_metadata(event: str, metadata: dict[str, str]) -> None:
    """Nothing is counted or sent."""


def _get_tracing_state() -> Any:
    """What writes down the calls of this thread; None where nothing is traced."""
    return late.provided("tracing state").recorder


def _get_default_device() -> str:
    return str(_default_device())


def _default_device() -> Any:
    from ..devices import default_device

    return default_device()


def _get_privateuse1_backend_name() -> str:
    return private_use.state.name


_rename_privateuse1_backend = private_use.rename


def _get_accelerator(check: bool = False) -> Any:
    """The accelerator of this machine; the CPU where there is none, as in PyTorch."""
    return _C.device(private_use.state.name if private_use.state.hook is not None else "cpu")


class _Acc(ModuleType):
    """`torch._C._acc`: what a back end in Python announces itself with."""

    PrivateUse1Hooks = private_use.PrivateUse1Hooks
    DeviceGuard = private_use.DeviceGuard
    create_empty_tensor = staticmethod(private_use.create_empty_tensor)
    register_python_privateuseone_hook = staticmethod(private_use.register_python_privateuseone_hook)
    register_python_privateuseone_device_guard = staticmethod(private_use.register_python_privateuseone_device_guard)


_acc = _Acc("rushlight._C._acc")


def _dispatch_key_parse(name: str) -> DispatchKey:
    """A dispatch key by its name."""
    if name in DispatchKey.__members__:
        return DispatchKey[name]
    raise RuntimeError(f"could not parse dispatch key: {name}")


def _dispatch_key_name(key: DispatchKey) -> str:
    return key.name


def _dispatch_key_for_device(device_type: str) -> str:
    """The name of the key whose kernels compute on a type of device."""
    key = backend_of(_C.device(device_type))
    return key if isinstance(key, str) else key.name


def _dispatch_keys(tensor: Any) -> DispatchKeySet:
    """The keys that a call with this tensor passes through."""
    backend = backend_of(tensor.device)
    above = [DispatchKey.ADInplaceOrView, AUTOGRAD_OF.get(backend, DispatchKey.AutogradPrivateUse1)]
    if backend is DispatchKey.PrivateUse1:
        above.append(DispatchKey.AutocastPrivateUse1)
    return DispatchKeySet([backend, *above])


def _dispatch_has_kernel_for_dispatch_key(name: str, key: str | DispatchKey) -> bool:
    """Whether an implementation of an op (`aten::add.Tensor`) is registered under a key."""
    parsed = key if isinstance(key, DispatchKey) else _dispatch_key_parse(key)
    space, _, op = name.partition("::")
    op, _, label = op.partition(".")
    if parsed in table.PRIVATE_KEYS and space == "aten":
        return (f"{op}.{label or 'default'}", parsed) in table.private
    is_own = space == "aten" and parsed in (DispatchKey.CPU, DispatchKey.Meta) and op in ops
    return is_own or table.find(table.qualified(space, op), parsed) is not None


@contextlib.contextmanager
def _AutoDispatchBelowAutograd() -> Iterator[None]:  # noqa: N802 - PyTorch's name
    """A region whose calls are not recorded, nor seen by kernels registered for autograd."""
    with late.provided("below autograd")():
        yield


def _are_functorch_transforms_active() -> bool:
    return bool(levels.state.stack)


def _cuda_isInBadFork() -> bool:  # noqa: N802 - PyTorch's name
    return False


_cuda_attach_out_of_memory_observer = memory.attach_out_of_memory_observer


def _cuda_clearCublasWorkspaces() -> None:  # noqa: N802 - PyTorch's name
    """There are none."""


@contextlib.contextmanager
def _ExcludeDispatchKeyGuard(keys: DispatchKeySet) -> Iterator[None]:  # noqa: N802 - PyTorch's name
    casts = (DispatchKey.Autocast, DispatchKey.AutocastPrivateUse1, DispatchKey.AutocastCPU, DispatchKey.AutocastCUDA,
             DispatchKey.AutocastXPU)
    graphs = (DispatchKey.Autograd, DispatchKey.AutogradPrivateUse1)
    if not all(key in (*casts, *graphs) for key in keys):
        raise NotImplementedError(
            f"_ExcludeDispatchKeyGuard: keys of autocast and autograd can be excluded by hand, asked for {keys}")
    with contextlib.ExitStack() as regions:
        if any(key in graphs for key in keys):
            regions.enter_context(late.provided("below autograd")())
        outside = _C.get_thread_keys()
        if any(key in casts for key in keys):
            _C.set_thread_keys(outside[0], outside[1] | AUTOCAST)
        try:
            yield
        finally:
            _C.set_thread_keys(*outside)


def _jit_setting(*values: Any) -> bool:
    """A switch of TorchScript's fusers, none of which exist: it is off before and after."""
    return False


_JIT_SETTINGS = (
    "_jit_set_profiling_executor _jit_set_profiling_mode _jit_set_texpr_fuser_enabled _jit_set_nvfuser_enabled"
    " _jit_set_nvfuser_guard_mode _jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu _jit_can_fuse_on_cpu"
    " _jit_can_fuse_on_gpu _jit_set_bailout_depth"
)
globals().update(dict.fromkeys(_JIT_SETTINGS.split(), _jit_setting))
globals().update(names_of("torch._C"))


class _Nn(ModuleType):
    """`torch._C._nn`: the functions of nn.functional that PyTorch keeps in its core."""

    def __getattr__(self, name: str) -> Any:
        from ..nn import functional
        from ..nn.modules import module

        if name.startswith("__"):
            raise AttributeError(name)
        return module._parse_to if name == "_parse_to" else getattr(functional, name)


_nn = _Nn("rushlight._C._nn")


class _Functorch(ModuleType):
    """`torch._C._functorch`: questions about function transforms."""

    @staticmethod
    def is_batchedtensor(tensor: Any) -> bool:
        return any(level.kind == "vmap" for level in levels.state.stack) and not levels.is_readable(tensor)

    @staticmethod
    def is_functorch_wrapped_tensor(tensor: Any) -> bool:
        return bool(levels.state.stack) and not levels.is_readable(tensor)

    @staticmethod
    def peek_interpreter_stack() -> Any:
        return levels.state.stack[-1] if levels.state.stack else None


_functorch = _Functorch("rushlight._C._functorch")


class _ProfilerView(ModuleType):
    """`torch._C._profiler` and `torch._C._autograd`: what they have of the profiler."""

    def __init__(self, name: str, table: str) -> None:
        super().__init__(name)
        self._table = table

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            found = getattr(late.provided("profiler core"), self._table)
            if name in found:
                return found[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


_profiler = _ProfilerView("rushlight._C._profiler", "PROFILER")
_autograd = _ProfilerView("rushlight._C._autograd", "AUTOGRAD")


_cpu = ModuleType("rushlight._C._cpu")      # PyTorch 2.13's holds no names either: `rushlight.cpu` has them


def __getattr__(name: str) -> Any:
    """Graphs, types and passes of scripts, made when they are first asked for."""
    if name in SCRIPT_NAMES or name.startswith(("_jit_", "_create_function", "_freeze", "_GeneratorType")):
        for role in ("script core", "jit core"):
            found = late.provided(role).NAMES
            if name in found:
                return found[name]
    raise AttributeError(f"module 'rushlight._C' has no attribute {name!r}")

