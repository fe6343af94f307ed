"""`torch.cuda` where there is a device: what the functions of this package do then.

Enters: PyTorch's arguments. Leaves: answers of the driver, of the core's allocator and of its streams. `rushlight.cuda`
asks here when `devices.cuda.find()` found a device, and refuses otherwise.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

from .. import _C, accelerator, devices
from ..devices.cuda import find, ipc, settings, solver
from ..devices.cuda.random import prepare as prepare_draws  # noqa: F401 - graphs call it
from ..loops.record import Record as _Record
from . import allocators, monitor
from .memory_view import memory_snapshot
from .queues import ExternalStream, Stream
from .units import CudaError, cudaStatus, current_device, index_of, known_unit, unit_of


def init() -> None:
    """CUDA starts when it is first used."""


_lazy_init = init


def set_device(device: Any) -> None:
    """Make a unit this thread's current one; a negative number changes nothing."""
    if not isinstance(device, int) or device >= 0:
        devices.set_unit(_C.device("cuda", index_of(device)))


def synchronize(device: Any = None) -> None:
    """Wait for all streams of a unit; then raise what checks on the device found."""
    _C.synchronize(unit_of(device))


# --- streams ----------------------------------------------------------------------------------------------------------


def current_stream(device: Any = None) -> Stream:
    """This thread's current stream on a unit."""
    unit = unit_of(device)
    return Stream(unit, stream_id=_C.current_stream(unit))


def default_stream(device: Any = None) -> Stream:
    """A unit's first queue."""
    return Stream(unit_of(device), stream_id=0)


def set_stream(stream: Stream | None) -> None:
    """Make a stream this thread's current one; None changes nothing."""
    if stream is not None:
        accelerator.set_stream(stream)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A queue that somebody else made, by the driver's handle."""
    return ExternalStream(data_ptr, device)


# --- what units are ---------------------------------------------------------------------------------------------------


class DeviceProperties(_Record):
    """What a unit is and how large it is."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_multi_processor: int
    max_threads_per_block: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    regs_per_multiprocessor: int
    L2_cache_size: int
    is_integrated: int
    is_multi_gpu_board: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int
    gcnArchName: str  # noqa: N815 - PyTorch's name


def get_device_properties(device: Any = None) -> DeviceProperties:
    """What a unit is."""
    unit, driver = known_unit(device).index, find().driver
    own = {"name": driver.name(unit), "total_memory": driver.total_memory(unit), "gcnArchName": driver.name(unit)}
    return DeviceProperties(
        *[own[field] if field in own else driver.attribute(unit, field) for field in DeviceProperties.fields]
    )


def get_device_name(device: Any = None) -> str:
    """What a unit is called."""
    return find().driver.name(known_unit(device).index)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The unit's major and minor number of instructions."""
    unit, driver = known_unit(device).index, find().driver
    return driver.attribute(unit, "major"), driver.attribute(unit, "minor")


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device computes in bfloat16."""
    return including_emulation or get_device_capability()[0] >= 8


def is_tf32_supported() -> bool:
    """Whether the current device computes in TF32."""
    return get_device_capability()[0] >= 8


def get_arch_list() -> list[str]:
    """Kernels are made for the unit at hand."""
    return ["sm_{}{}".format(*get_device_capability())]


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Copies from unit to unit go through the driver, so a unit never reads another's memory."""
    known_unit(device), known_unit(peer_device)
    return False


# --- memory -----------------------------------------------------------------------------------------------------------


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes free and bytes in all on a unit."""
    return find().memory_info(unit_of(device).index)


def memory_stats(device: Any = None) -> dict[str, Any]:
    """What the caching allocator holds."""
    unit = unit_of(device)
    stats, least = devices.memory_stats(unit), settings.current.plan.most_cut
    segments = _C.unit_snapshot(unit)
    used = [size for *_, blocks, _, _ in segments for _, size, state, _ in blocks if state != "inactive"]
    large = {"oversize_allocations": sum(size >= least for size in used),
             "oversize_segments": sum(total >= least for _, total, *_ in segments)}
    for name, count in large.items():      # counted when asked
        stats.update({f"{name}.{part}": count for part in ("current", "peak", "allocated")})
        stats[f"{name}.freed"] = 0
    stats["max_split_size"] = -1 if least == settings.UNLIMITED else least
    return stats


def counted(device: Any, name: str) -> tuple[int, int, int, int]:
    """What the core counted of one kind: now, at the peak, taken and given back since the beginning."""
    return _C.unit_stats(unit_of(device))[0][name]


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The same, nested."""
    return nested(memory_stats(device))


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """Counters by the parts of their names."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        at, (*outer, last) = nested, name.split(".")
        for part in outer:
            at = at.setdefault(part, {})
        at[last] = value
    return nested


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors use."""
    return counted(device, "allocated_bytes.all")[0]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors used."""
    return counted(device, "allocated_bytes.all")[1]


def memory_reserved(device: Any = None) -> int:
    """Bytes held from the device."""
    return counted(device, "reserved_bytes.all")[0]


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes held from the device."""
    return counted(device, "reserved_bytes.all")[1]


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Peaks start anew from what is in use now."""
    devices.reset_peak_memory_stats(unit_of(device))


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def empty_cache() -> None:
    """Give memory that no tensor uses back to the driver."""
    for index in range(find().device_count()):
        devices.empty_cache(_C.device("cuda", index))


def ipc_collect() -> None:
    """Let go of what other processes have let go of."""
    ipc.collect()


def get_allocator_backend() -> str:
    """Which allocator serves."""
    return "pluggable" if allocators.chosen else settings.current.backend


def change_current_allocator(allocator: Any) -> None:
    """All memory comes from an allocator's functions from here on; only before any was taken."""
    allocators.choose(allocator, memory_is_taken())


def memory_is_taken() -> bool:
    """Whether any unit was ever asked for memory."""
    units = [_C.device("cuda", index) for index in range(find().device_count())]
    return any(any(_C.unit_stats(unit)[0]["allocation.all"]) for unit in units)


def caching_allocator_enable(value: bool = True) -> None:
    """Without caching, every tensor's memory is asked of the driver and given back to it at once."""
    allocators.enable_caching(bool(value))


@contextlib.contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """No caching within the block."""
    before = allocators.caching[0]
    caching_allocator_enable(False)
    try:
        yield
    finally:
        caching_allocator_enable(before)


def set_allocator_settings(text: str) -> None:
    """Follow settings as `PYTORCH_ALLOC_CONF` has them."""
    settings.change(text, find().driver)


SUMMARY = (      # a row's title, and the statistic it shows
    ("Allocated memory", "allocated_bytes"), ("Active memory", "active_bytes"),
    ("Requested memory", "requested_bytes"), ("GPU reserved memory", "reserved_bytes"),
    ("Non-releasable memory", "inactive_split_bytes"), ("Allocations", "allocation"), ("Active allocs", "active"),
    ("GPU reserved segments", "segment"), ("Non-releasable allocs", "inactive_split"),
)
FIGURES = ("current", "peak", "allocated", "freed")


def in_units(name: str, number: int) -> str:
    """A figure as people read it: bytes by the largest unit that leaves four digits, counts as they are."""
    if not name.endswith("_bytes"):
        return f"{number:,}"
    for unit in ("B", "KiB", "MiB"):
        if abs(number) < 10_000:
            return f"{number} {unit}"
        number = round(number / 1024)
    return f"{number} GiB"


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """What the caching allocator holds, as a table; `abbreviated` leaves the large and the small blocks out."""
    unit = unit_of(device)
    stats = memory_stats(unit)
    parts = [("", "all"), *([] if abbreviated else [("      from large pool", "large_pool"),
                                                    ("      from small pool", "small_pool")])]
    lines = [f"memory of {unit}: out of memory {stats.get('num_ooms', 0)} times, cache emptied for an allocation"
             f" {stats.get('num_alloc_retries', 0)} times",
             f"| {'Metric':<23} | {'Cur Usage':>12} | {'Peak Usage':>12} | {'Tot Alloc':>12} | {'Tot Freed':>12} |"]
    rule = "|" + "-" * (len(lines[-1]) - 2) + "|"
    lines += [rule]
    for title, name in SUMMARY:
        for label, part in parts:
            figures = [in_units(name, stats.get(f"{name}.{part}.{which}", 0)) for which in FIGURES]
            lines.append(f"| {label or title:<23} | " + " | ".join([f"{text:>12}" for text in figures]) + " |")
    return "\n".join([*lines, rule])


# --- random numbers ---------------------------------------------------------------------------------------------------


def _generator(device: Any = None) -> Any:
    """The default generator of a unit."""
    return _C.device_generator(unit_of(None if isinstance(device, str) and device == "cuda" else device))


def default_generators() -> tuple[Any, ...]:
    """Those of all units."""
    return tuple([_generator(index) for index in range(find().device_count())])


def manual_seed(seed: int) -> None:
    """Restart the current unit's generator."""
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Restart every unit's generator."""
    _C.seed_device_generators(int(seed))


def seed() -> None:
    """Restart the current unit's generator by chance."""
    _generator().seed()


def seed_all() -> None:
    """Restart every unit's generator from one number drawn by chance."""
    _C.seed_device_generators(_generator(0).seed())


def initial_seed() -> int:
    """What the current unit's generator was started from."""
    return _generator().initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """A unit's generator's state."""
    return _generator(device).get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Continue a unit's generator from a state."""
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[Any]:
    """The states of all units' generators."""
    return [get_rng_state(index) for index in range(find().device_count())]


def set_rng_state_all(new_states: Any) -> None:
    """Continue them."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


# --- the rest of PyTorch's names --------------------------------------------------------------------------------------


def current_blas_handle() -> int:
    """Handles belong to the core's threads: none is given out."""
    raise RuntimeError("cuda.current_blas_handle: products are the core's, whose handle nobody else can use")


def current_solver_handle() -> int:
    """cuSOLVER's handle of this thread, on the current stream."""
    library = solver.find()
    if library is None:
        raise RuntimeError("cuda.current_solver_handle: cuSOLVER is not installed: pip install nvidia-cusolver")
    return library.handles(unit_of(None))[0].value


class CudaRuntime:
    """The few functions of CUDA's runtime that programs ask `cudart()` for, by the driver; each answers 0 or raises."""

    cudaError = cudaStatus      # noqa: N815 - PyTorch's name

    def cudaProfilerStart(self) -> int:     # noqa: N802 - CUDA's names, here and below
        """Profilers start to record."""
        return find().driver.call("cuProfilerStart") or 0

    def cudaProfilerStop(self) -> int:    # noqa: N802
        """They stop."""
        return find().driver.call("cuProfilerStop") or 0

    def cudaMemGetInfo(self, device: int) -> tuple[int, int]:    # noqa: N802
        """Bytes free and bytes in all."""
        return mem_get_info(device)

    def cudaGetErrorString(self, error: int) -> str:    # noqa: N802
        """What an answer means."""
        return find().driver.text(int(error))

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:    # noqa: N802
        """Pin memory of the host's."""
        _C.cuda_enter(current_device())
        driver = find().driver
        driver.call("cuMemHostRegister_v2", ctypes.c_void_p(address), ctypes.c_size_t(size), flags)
        return 0

    def cudaHostUnregister(self, address: int) -> int:    # noqa: N802
        """Let it go."""
        find().driver.call("cuMemHostUnregister", ctypes.c_void_p(address))
        return 0

    def cudaStreamCreate(self, address: int) -> int:    # noqa: N802
        """A queue, whose handle is written to an address."""
        _C.cuda_enter(current_device())
        find().driver.call("cuStreamCreate", ctypes.c_void_p(address), 0)
        return 0

    def cudaStreamDestroy(self, stream: int) -> int:    # noqa: N802
        """The end of one."""
        find().driver.call("cuStreamDestroy_v2", ctypes.c_void_p(stream))
        return 0


def cudart() -> CudaRuntime:
    """What stands in for CUDA's runtime library."""
    return CudaRuntime()


def check_error(res: int) -> None:
    """Raise for an answer of the driver that is no success."""
    if int(res) != 0:
        raise CudaError(int(res))


_fractions: dict[int, float] = {}


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Hold at most this share of a unit's memory; beyond, OutOfMemoryError is raised."""
    if not isinstance(fraction, float):
        raise TypeError(f"set_per_process_memory_fraction: expected a float, got {type(fraction).__name__}")
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"set_per_process_memory_fraction: expected a fraction from 0 to 1, got {fraction}")
    unit = unit_of(device)
    _fractions[unit.index] = fraction
    _C.limit_unit(unit, int(fraction * find().driver.total_memory(unit.index)) if fraction < 1 else (1 << 64) - 1)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The share that may be used."""
    return _fractions.get(unit_of(device).index, 1.0)


def device_memory_used(device: Any = None) -> int:
    """Bytes in use on a unit, by anybody."""
    free, total = mem_get_info(device)
    return total - free


_sync_mode = [0]
SYNC_MODES = {"default": 0, "warn": 1, "error": 2}


def get_sync_debug_mode() -> int:
    """0 (waiting for the device is fine), 1 (a warning) or 2 (an error)."""
    return _sync_mode[0]


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Whether copies to the host that make it wait are fine (0), warned of (1) or refused (2)."""
    mode = SYNC_MODES.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(f"set_sync_debug_mode: expected default, warn, error, 0, 1 or 2, got {debug_mode!r}")
    _sync_mode[0] = mode
    _C.set_sync_mode(mode)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Counters of all that was ever taken and freed start anew."""
    _C.unit_stats(unit_of(device), 2)


# --- pinned host memory -----------------------------------------------------------------------------------------------


def host_memory_stats() -> dict[str, Any]:
    """What is pinned, in PyTorch's words."""
    found = _C.cuda_pinned_stats(False)
    return {
        "allocated_bytes.current": found["allocated"], "allocated_bytes.peak": found["peak_allocated"],
        "reserved_bytes.current": found["held"], "reserved_bytes.peak": found["peak_held"],
        "allocations.current": found["allocations"] - found["frees"], "allocations.allocated": found["allocations"],
        "allocations.freed": found["frees"], "segments.current": found["segments"],
    }


def reset_peak_host_memory_stats() -> None:
    """Peaks start anew from what is pinned now."""
    _C.cuda_pinned_stats(True)


reset_accumulated_host_memory_stats = reset_peak_host_memory_stats


# --- units as others see them -----------------------------------------------------------------------------------------


def utilization(device: Any = None) -> int:
    """Percent of the last moment in which kernels ran."""
    return monitor.utilization(unit_of(device).index)[0]


def memory_usage(device: Any = None) -> int:
    """Percent of the last moment in which memory was read or written."""
    return monitor.utilization(unit_of(device).index)[1]


def temperature(device: Any = None) -> int:
    """Degrees Celsius."""
    return monitor.temperature(unit_of(device).index)


def power_draw(device: Any = None) -> int:
    """Milliwatts."""
    return monitor.power_draw(unit_of(device).index)


def clock_rate(device: Any = None) -> int:
    """MHz of the multiprocessors."""
    return monitor.clock_rate(unit_of(device).index)


def list_gpu_processes(device: Any = None) -> str:
    """Who computes on a unit, a line each."""
    unit = unit_of(device)
    found = monitor.processes(unit.index)
    lines = [f"process {pid:>10d} uses {size / 2**20:>12.3f} MB GPU memory" for pid, size in found]
    return "\n".join([f"GPU:{unit.index}", *(lines or ["no processes are running"])])


_raw: dict[int, Any] = {}


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """The address of `size` bytes, which stay taken until they are deleted."""
    unit = unit_of(device)
    if stream is not None and not isinstance(stream, Stream):
        raise TypeError(f"caching_allocator_alloc: expected a cuda.Stream, got {type(stream).__name__}")
    with stream if stream is not None else current_stream(unit):
        taken = _C.empty((max(int(size), 1),), None, _C.uint8, unit)
    _raw[taken.data_ptr()] = taken
    return taken.data_ptr()


def caching_allocator_delete(mem_ptr: int) -> None:
    """Give back what `caching_allocator_alloc` gave."""
    if _raw.pop(mem_ptr, None) is None:
        raise RuntimeError(f"caching_allocator_delete: {mem_ptr:#x} was not given by caching_allocator_alloc")


__all__ = ["current_device", "memory_snapshot"]
