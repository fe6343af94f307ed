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
from ..devices import memory
from ..dispatch import DispatchKey, DispatchKeySet  # noqa: F401
from ..dispatch.modes import (  # noqa: F401
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    disable_torch_dispatch as _DisableTorchDispatch,  # noqa: N812 - PyTorch's name
)
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
    return "privateuseone"


def _get_accelerator(check: bool = False) -> Any:
    """The accelerator of this machine; the CPU where there is none, as in PyTorch."""
    return _C.device("cpu")


def _are_functorch_transforms_active() -> bool:
    return bool(levels.state.stack)


def _cuda_isInBadFork() -> bool:  # noqa: N802 - PyTorch's name
    return False


_cuda_attach_out_of_memory_observer = memory.attach_out_of_memory_observer


def _cuda_clearCublasWorkspaces() -> None:  # noqa: N802 - PyTorch's name
    """There are none."""


@contextlib.contextmanager
def _ExcludeDispatchKeyGuard(keys: DispatchKeySet) -> Iterator[None]:  # noqa: N802 - PyTorch's name
    raise NotImplementedError(
        f"_ExcludeDispatchKeyGuard: dispatch keys cannot be excluded by hand here (asked for {keys})"
    )
    yield


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

