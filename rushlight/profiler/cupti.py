"""What CUDA units do during a recording: NVIDIA's CUPTI where it is installed, the driver's own events where it is not.

Enters: `DeviceRecorder()` when a profiler that watches CUDA starts, a recording when it stops. Leaves: rows of the
recording (device_events.add_device_events): kernels, copies, fills, the calls that started them, each
joined with the op in which that call was made. CUPTI reads the recording's own clock, so nothing is calibrated, and a
call belongs to the innermost op open on its thread at that moment, so ops are not told anything while they run.
Without CUPTI there is a warning, and launches have times by events that the driver marks around them: longer than the
kernels are, without their grids, and marked in their `args`. Refuses: nothing; a unit's error is its program's to see.
"""

from __future__ import annotations

import contextlib
import functools
import re
import warnings
from typing import Any

from .. import _C
from ..base import environment
from ..devices.cuda import find, libraries
from . import device_rows
from .device_events import add_device_events

NAMES = ("libcupti.so.13", "libcupti.so.12")
KERNELS, COPIES, COPIES_BETWEEN, FILLS, DRIVER, RUNTIME, OVERHEAD, WAITS = 10, 1, 22, 2, 4, 5, 17, 38
ALWAYS = (KERNELS, COPIES, COPIES_BETWEEN, FILLS, DRIVER, RUNTIME, OVERHEAD)
# Of the driver's calls: those that start work, wait, or take memory. Of the runtime's: all but questions.
DRIVER_CALLS = re.compile(
    r"cu(Launch|GraphLaunch|Memcpy|Memset|Stream(Synchronize|WaitEvent)|Event(Synchronize|Record)|CtxSynchronize"
    r"|Mem(Alloc|Free|Create|Map|Unmap)|ModuleLoad|LibraryLoad|GraphInstantiate|GraphUpload)"
)
RUNTIME_QUESTIONS = re.compile(
    r"cuda(Get|SetDevice|PeekAtLastError|Event(Create|Destroy|Query)|StreamGet|StreamIsCapturing|DeviceGet|Func(Get|Set)"
    r"|Occupancy|PointerGet|ThreadExchange)"
)
MARK = "driver events"           # in the args of what CUPTI did not measure


def is_there() -> bool:
    """Whether there is a CUDA device to watch."""
    return find() is not None


@functools.cache
def version() -> int:
    """CUPTI's version, such as 130001; it is opened. OSError or RuntimeError say why it cannot be."""
    named = environment.get("RUSHLIGHT_CUPTI_LIBRARY")
    reasons: list[str] = []
    for path in [named] if named else libraries.places(NAMES):
        try:
            return _C.cuda_activity_open(path)
        except (OSError, RuntimeError) as error:
            reasons.append(str(error))
    raise OSError("; ".join(reasons) or "it is not installed")


@functools.cache
def calls_left_out() -> tuple[list[int], list[int]]:
    """Numbers of the driver's calls and of the runtime's that nobody asks about."""
    driver, runtime = _C.cuda_activity_calls()
    return (
        [number for number, name in enumerate(driver) if name and not DRIVER_CALLS.match(name)],
        [number for number, name in enumerate(runtime) if name and RUNTIME_QUESTIONS.match(name)],
    )


def settle() -> None:
    """Return when units have done what was queued. What went wrong there is not told here."""
    device = find()
    if device is None:
        return
    for unit in range(device.device_count()):
        if _C.unit_snapshot(_C.device("cuda", unit)):      # others have no context, and get none for this
            with contextlib.suppress(RuntimeError):
                _C.cuda_enter(unit)
                device.driver.call("cuCtxSynchronize")


class DeviceRecorder:
    """Watches CUDA units from when it is made until `stop`. `waits`: whether waiting for units is an event, too."""

    def __init__(self, waits: bool = False) -> None:
        self.by_cupti = True
        settle()
        try:
            version()
            _C.cuda_activity_start((*ALWAYS, WAITS) if waits else ALWAYS, *calls_left_out())
        except (OSError, RuntimeError) as error:
            self.by_cupti = False
            warnings.warn(
                f"profiler: CUPTI does not serve here ({error}), so times of CUDA kernels are taken by the driver's"
                " events, which adds to them. `pip install nvidia-cuda-cupti` brings it.",
                stacklevel=4,
            )
            device = find()
            assert device is not None, "who watches CUDA has asked whether it is there"
            _C.cuda_timing_start(device.driver.table, _C.current_unit("cuda"))

    def stop(self, recording: dict[str, Any]) -> None:
        """Put what was seen into `recording`."""
        settle()
        if self.by_cupti:
            found = _C.cuda_activity_stop()
            if found["dropped"]:
                warnings.warn(f"profiler: CUPTI had no room for {found['dropped']} records", stacklevel=2)
            add_device_events(recording, device_rows.from_records(found, recording))
        else:
            add_device_events(recording, device_rows.from_timed(_C.cuda_timing_stop(), recording, MARK))


def describe() -> dict[str, Any]:
    """What a trace's head says of CUDA: versions, and the units."""
    device = find()
    if device is None:
        return {}
    found: dict[str, Any] = {"cuda_driver_version": device.driver.version()}
    with contextlib.suppress(OSError, RuntimeError):
        found["cupti_version"] = version()
    return {**found, "deviceProperties": [device_rows.properties(unit) for unit in range(device.device_count())]}
