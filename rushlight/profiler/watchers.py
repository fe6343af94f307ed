"""Who watches a device while the host is recorded.

Enters: the name of a device and the profiler's options. Leaves: a watcher, or None for the host alone; when it stops,
what the device did is in the recording, without the stretches during which it was told to look away, and without the
activities that were not asked for.
"""

from __future__ import annotations

from typing import Any

from .. import _extras
from ..base import late
from .activities import ProfilerActivity, _ExperimentalConfig

# An event's category in traces -> the name of the activity that a program asks for.
ACTIVITY = {
    "kernel": "CONCURRENT_KERNEL", "gpu_memcpy": "GPU_MEMCPY", "gpu_memset": "GPU_MEMSET",
    "cuda_runtime": "CUDA_RUNTIME", "cuda_driver": "CUDA_DRIVER", "cuda_sync": "CUDA_SYNC", "overhead": "OVERHEAD",
    "gpu_user_annotation": "GPU_USER_ANNOTATION",
}


def is_available(device: str) -> bool:
    """Whether this machine has such a device."""
    if device not in ("cuda", "xpu"):
        return False
    return bool(late.import_module(f"..{device}", __package__).is_available())


class Watcher:
    """Watches the CUDA devices of this machine from now on."""

    def __init__(self, config: _ExperimentalConfig, wanted: set[str] | None) -> None:
        self._recorder = late.import_module(".cupti", __package__).DeviceRecorder(waits=config.enable_cuda_sync_events)
        self._wanted = wanted
        self._away: list[tuple[int, int]] = []       # stretches without collection
        self._since: int | None = None               # when collection was last paused, while it is

    def synchronize(self) -> None:
        """Wait for all that the program asked of the device."""
        late.import_module("..cuda", __package__).synchronize()

    def toggle(self, enabled: bool) -> None:
        """Look away, or look again."""
        now = _extras.profile_now()
        if not enabled and self._since is None:
            self._since = now
        elif enabled and self._since is not None:
            self._away.append((self._since, now))
            self._since = None

    def stop(self, recording: dict[str, Any]) -> None:
        """Put what the device did into the recording."""
        self.toggle(True)
        self._recorder.stop(recording)
        recording["device"] = [
            event for event in recording.get("device", ())
            if (self._wanted is None or ACTIVITY[event.category] in self._wanted)
            and not any(start <= event.begin < end for start, end in self._away)
        ]


def device_watcher(
    device: str | None, config: _ExperimentalConfig, filters: dict[ProfilerActivity, set[str]]
) -> Watcher | None:
    """The watcher of `device`, already at work; `filters` says which of its activities are wanted (all, if absent)."""
    return Watcher(config, filters.get(ProfilerActivity.CUDA)) if device == "cuda" else None
