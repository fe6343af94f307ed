"""`torch.cuda` on a build without CUDA devices: questions are answered honestly, use is refused.

What PyTorch built for the CPU alone answers is answered the same way (no devices, no memory in use, seeds accepted); what
needs a device raises AssertionError as PyTorch does, since programs catch that to fall back to the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from .. import _C
from ..base import late
from ..base.refusals import names_of
from ..storage import cuda_storages
from ..tensors.legacy_types import cuda_types
from .no_device import _needs_device, _no_device

OutOfMemoryError = _C.OutOfMemoryError
default_generators: tuple[Any, ...] = ()
has_half = True
has_magma = False


class CudaError(RuntimeError):
    """An error of the CUDA runtime."""


class DeferredCudaCallError(Exception):
    """A call put off until CUDA is initialised failed then."""


class AcceleratorError(RuntimeError):
    """A device reported an error."""


def is_available() -> bool:
    """Whether a CUDA device can be used."""
    return False


def device_count() -> int:
    """How many CUDA devices there are."""
    return 0


def is_initialized() -> bool:
    """Whether the CUDA runtime was started."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device computes in bfloat16."""
    return False


def is_tf32_supported() -> bool:
    """Whether the current device computes in TF32."""
    return False


def is_current_stream_capturing() -> bool:
    """Whether work is being captured into a graph."""
    return False


def get_arch_list() -> list[str]:
    """The architectures kernels were built for."""
    return []


def get_gencode_flags() -> str:
    """The compiler's flags for those architectures."""
    return ""


def manual_seed(seed: int) -> None:
    """Seed the current device's generator (there is none)."""


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator (there are none)."""


def seed() -> None:
    """Seed the current device's generator by chance (there is none)."""


def seed_all() -> None:
    """Seed every device's generator by chance (there are none)."""


def get_rng_state_all() -> list[Any]:
    """The states of every device's generator."""
    return []


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Restore every device's generator."""
    if list(new_states):
        _no_device("set_rng_state_all")


def empty_cache() -> None:
    """Give cached device memory back (there is none)."""


def ipc_collect() -> None:
    """Collect device memory shared with other processes (there is none)."""


def host_memory_stats() -> dict[str, Any]:
    """Counters of the allocator of pinned host memory."""
    return {}


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """The same, nested."""
    return {}


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Counters of the device allocator."""
    return {}


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The same, nested."""
    return {}


def memory_allocated(device: Any = None) -> int:
    """Bytes of device memory in use."""
    return 0


def _no_memory(name: str) -> Any:
    def count(device: Any = None) -> int:
        return 0

    count.__name__ = count.__qualname__ = name
    count.__doc__ = "Bytes of device memory: there are none."
    return count


globals().update({name: _no_memory(name) for name in ("max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached", "max_memory_cached")})


class device:
    """Makes a CUDA device the current one within a `with`; a negative index or None leaves everything as it is."""

    def __init__(self, device: Any) -> None:
        self.index = _device_index(device)

    def __enter__(self) -> None:
        if self.index >= 0:
            _no_device("device")

    def __exit__(self, *error: object) -> Literal[False]:
        return False


class device_of(device):
    """Makes the device of a tensor the current one."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if getattr(obj, "is_cuda", False) else None)


def _device_index(given: Any) -> int:
    if given is None:
        return -1
    if isinstance(given, int):
        return given
    chosen = _C.device(given) if isinstance(given, str) else given
    return 0 if chosen.index is None else chosen.index


class StreamContext:
    """Makes a stream the current one within a `with`; None is no stream."""

    def __init__(self, stream: Any) -> None:
        if stream is not None:
            _no_device("stream")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> Literal[False]:
        return False


def stream(stream: Any) -> StreamContext:
    """Makes a stream the current one within a `with`."""
    return StreamContext(stream)


_DEVICE_FUNCTIONS = (
    "init _lazy_init current_device set_device synchronize current_stream default_stream set_stream get_device_name get_device_capability "
    "get_device_properties get_rng_state set_rng_state initial_seed mem_get_info memory_summary memory_snapshot reset_peak_memory_stats "
    "reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats set_per_process_memory_fraction list_gpu_processes "
    "utilization temperature power_draw clock_rate memory_usage can_device_access_peer current_blas_handle cudart caching_allocator_alloc "
    "caching_allocator_delete get_allocator_backend graph_pool_handle make_graphed_callables get_sync_debug_mode set_sync_debug_mode "
    "caching_allocator_disabled caching_allocator_enable change_current_allocator check_error current_solver_handle device_memory_used "
    "get_per_process_memory_fraction get_stream_from_external reset_accumulated_host_memory_stats reset_peak_host_memory_stats"
)
globals().update({name: _needs_device(name, __name__) for name in _DEVICE_FUNCTIONS.split()})
globals().update(names_of("torch.cuda"))


def _is_in_bad_fork() -> bool:
    return False


class cudaStatus:  # noqa: N801 - PyTorch's name
    """Answers of the CUDA runtime."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


globals().update(cuda_types(__name__))
globals().update(cuda_storages(__name__))
__getattr__, __dir__ = late.names(globals(), {}, ("amp", "comm", "gds", "graphs", "green_contexts", "jiterator", "memory", "nccl", "nvtx", "profiler", "random", "sparse", "streams", "tunable"))
