"""`torch.cuda`: the driver is looked for when one of these is first asked, never at import.

Where there is a device, on_device.py has what they do. Where there is none, questions are answered as PyTorch built for
the CPU alone answers them (no devices, no memory in use, seeds accepted); what needs a device raises AssertionError as
PyTorch does, since programs catch that to fall back to the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from .. import _C
from ..base import late
from ..devices import registered, set_unit
from ..tensors.legacy_types import cuda_types
from ..tensors.storages import cuda_storages
from .graphs import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables
from .green_contexts import GreenContext
from .no_device import _needs_device, _no_device, _real, found
from .pools import CUDAPluggableAllocator, MemPool, use_mem_pool
from .queues import Event, ExternalStream, Stream
from .units import CudaError, cudaStatus

AcceleratorError = _C.AcceleratorError
OutOfMemoryError = _C.OutOfMemoryError
has_half = True
SLEEP = """extern "C" __global__ void sleep(int cycles) {
  for (long long since = clock64(); clock64() - since < cycles;) {}
}"""
has_magma = False


class DeferredCudaCallError(Exception):
    """A call put off until CUDA is initialised failed then."""


def is_available() -> bool:
    """Whether a CUDA device can be used."""
    return found() is not None


def device_count() -> int:
    """How many CUDA devices there are."""
    device = found()
    return 0 if device is None else device.device_count()


def is_initialized() -> bool:
    """Whether the CUDA runtime was started."""
    return "cuda" in registered()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device computes in bfloat16."""
    return _real().is_bf16_supported(including_emulation) if found() is not None else False


def is_tf32_supported() -> bool:
    """Whether the current device computes in TF32."""
    return _real().is_tf32_supported() if found() is not None else False


def get_arch_list() -> list[str]:
    """The architectures kernels were built for."""
    return _real().get_arch_list() if found() is not None else []


def get_gencode_flags() -> str:
    """The compiler's flags for those architectures."""
    return ""


def manual_seed(seed: int) -> None:
    """Seed the current device's generator."""
    if found() is not None:
        _real().manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator."""
    if found() is not None:
        _real().manual_seed_all(seed)


def seed() -> None:
    """Seed the current device's generator by chance."""
    if found() is not None:
        _real().seed()


def seed_all() -> None:
    """Seed every device's generator by chance."""
    if found() is not None:
        _real().seed_all()


def get_rng_state_all() -> list[Any]:
    """The states of every device's generator."""
    return _real().get_rng_state_all() if found() is not None else []


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Restore every device's generator."""
    states = list(new_states)
    if states:
        _real().set_rng_state_all(states) if found() is not None else _no_device("set_rng_state_all")


def empty_cache() -> None:
    """Give cached device memory back."""
    if found() is not None:
        _real().empty_cache()


def _memory_view() -> Any:
    from . import memory_view  # few programs look at memory

    return memory_view


def _snapshots(name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(_memory_view(), name)(*args, **kwargs) if found() is not None else _no_device(name)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"See memory_view.{name}. Needs a CUDA device."
    return call


_snapshot, _dump_snapshot, _record_memory_history, _save_segment_usage, _save_memory_usage, memory_page = (
    _snapshots(name)
    for name in ("_snapshot", "_dump_snapshot", "_record_memory_history", "_save_segment_usage", "_save_memory_usage",
                 "memory_page")
)


def _compile_kernel(*args: Any, **kwargs: Any) -> Any:
    """A kernel of a text in CUDA C: see text_kernels.compile_kernel. Needs a CUDA device."""
    if found() is None:
        _no_device("_compile_kernel")
    from .text_kernels import compile_kernel  # few programs bring kernels

    return compile_kernel(*args, **kwargs)


def _sleep(cycles: int) -> None:
    """Keep the current stream busy for so many cycles of the clock. Needs a CUDA device."""
    kernel = _compile_kernel(SLEEP, "sleep")
    kernel(args=[int(cycles)])


def _set_allocator_settings(env: str) -> None:
    """Follow settings as `PYTORCH_ALLOC_CONF` has them."""
    _real().set_allocator_settings(env) if found() is not None else _no_device("_set_allocator_settings")


def ipc_collect() -> None:
    """Let go of device memory that was sent to other processes and that they have let go of."""
    if is_initialized():
        _real().ipc_collect()


def host_memory_stats() -> dict[str, Any]:
    """Counters of the allocator of pinned host memory."""
    return _real().host_memory_stats() if found() is not None else {}


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """The same, nested."""
    return _real().nested(host_memory_stats()) if found() is not None else {}


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Counters of the device allocator."""
    return _real().memory_stats(device) if found() is not None else {}


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The same, nested."""
    return _real().memory_stats_as_nested_dict(device) if found() is not None else {}


def memory_allocated(device: Any = None) -> int:
    """Bytes of device memory in use."""
    return _real().memory_allocated(device) if found() is not None else 0


def _no_memory(name: str) -> Any:
    def count(device: Any = None) -> int:
        return getattr(_real(), name)(device) if found() is not None else 0

    count.__name__ = count.__qualname__ = name
    count.__doc__ = "Bytes of device memory: 0 where there is no device."
    return count


globals().update(
    {
        name: _no_memory(name)
        for name in (
            "max_memory_allocated",
            "memory_reserved",
            "max_memory_reserved",
            "memory_cached",
            "max_memory_cached",
        )
    }
)


class device:
    """Makes a CUDA device the current one within a `with`; a negative index or None leaves everything as it is."""

    def __init__(self, device: Any) -> None:
        self.index = _device_index(device)

    def __enter__(self) -> None:
        if self.index < 0:
            return
        if found() is None:
            _no_device("device")
        self.outside = _C.current_unit("cuda")
        set_unit(_C.device("cuda", self.index))

    def __exit__(self, *error: object) -> Literal[False]:
        if self.index >= 0:
            set_unit(_C.device("cuda", self.outside))
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
        if stream is not None and found() is None:
            _no_device("stream")
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *error: object) -> Literal[False]:
        if self.stream is not None:
            self.stream.__exit__(*error)
        return False


def stream(stream: Any) -> StreamContext:
    """Makes a stream the current one within a `with`."""
    return StreamContext(stream)


_DEVICE_FUNCTIONS = (
    "init _lazy_init current_device set_device synchronize current_stream default_stream set_stream get_device_name"
    " get_device_capability get_device_properties get_rng_state set_rng_state initial_seed mem_get_info memory_summary"
    " memory_snapshot reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached"
    " reset_accumulated_memory_stats set_per_process_memory_fraction list_gpu_processes utilization temperature"
    " power_draw clock_rate memory_usage can_device_access_peer current_blas_handle cudart caching_allocator_alloc"
    " caching_allocator_delete get_allocator_backend get_sync_debug_mode"
    " set_sync_debug_mode caching_allocator_disabled caching_allocator_enable change_current_allocator check_error"
    " current_solver_handle device_memory_used get_per_process_memory_fraction get_stream_from_external"
    " reset_accumulated_host_memory_stats reset_peak_host_memory_stats"
)
globals().update({name: _needs_device(name, __name__) for name in _DEVICE_FUNCTIONS.split()})


def _is_in_bad_fork() -> bool:
    return _C.cuda_is_forked()


globals().update(cuda_types(__name__))
globals().update(cuda_storages(__name__))
_late_name, __dir__ = late.names(
    globals(),
    {},
    (
        "_memory_viz",
        "amp",
        "comm",
        "gds",
        "graphs",
        "green_contexts",
        "jiterator",
        "memory",
        "nccl",
        "nvtx",
        "profiler",
        "random",
        "sparse",
        "streams",
        "tunable",
    ),
)


def __getattr__(name: str) -> Any:
    """Submodules when they are first asked for; generators, which belong to devices, every time."""
    if name == "default_generators":
        return _real().default_generators() if found() is not None else ()
    return _late_name(name)
