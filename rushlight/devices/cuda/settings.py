"""Settings of the caching allocator: `PYTORCH_ALLOC_CONF`, or by its older name `PYTORCH_CUDA_ALLOC_CONF`.

Enters: a text such as `expandable_segments:True,roundup_power2_divisions:[256:1,512:2,>:4]`. Leaves: the core's
allocators of device and pinned memory, told. Refuses: names and values that PyTorch refuses, with ValueError. Options
that say how PyTorch's own allocator locks or polls are read, and one that would change something here says that it does
not (`NO_EFFECT`).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

from ... import _C
from ...base import environment
from ...base.tracebacks import users_level
from .driver import Driver

VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
MEGABYTE = 1 << 20
UNLIMITED = (1 << 64) - 1
POWERS = 16               # of two, from a megabyte on, that have divisions of their own
TOKENS = re.compile(r"[^\s,:\[\]]+|[,:\[\]]")
# What the driver's calls are made under here is no lock, and errors of unpinning end nothing.
ALREADY = ("release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "pinned_free_catch_all")
NO_EFFECT = {
    "pinned_use_background_threads": "marks of pinned memory are looked at when memory is next asked for",
    "graph_capture_record_stream_reuse": "memory that another stream used waits for the end of a capture",
}


def tokens(text: str) -> list[tuple[str, Any]]:
    """(name, value) pairs: values are texts, or lists of the texts within brackets."""
    found, rest, pairs = TOKENS.findall(text), 0, []
    while rest < len(found):
        if rest + 2 >= len(found) or found[rest + 1] != ":":
            raise ValueError(f"{text!r}: expected name:value after {''.join(found[:rest])!r}")
        name, value = found[rest], found[rest + 2]
        rest += 3
        if value == "[":
            if "]" not in found[rest:]:
                raise ValueError(f"{text!r}: the list of {name} has no end")
            end = found.index("]", rest)
            value, rest = found[rest:end], end + 1
        pairs.append((name, value))
        if rest < len(found) and found[rest] != ",":
            raise ValueError(f"{text!r}: expected a comma after {name}, got {found[rest]!r}")
        rest += 1
    return pairs


def truth(name: str, value: object) -> bool:
    """True or False, as PyTorch spells them."""
    if value not in ("True", "False"):
        raise ValueError(f"{name}: expected True or False, got {value!r}")
    return value == "True"


def whole(name: str, value: object, least: int = 0) -> int:
    """A whole number."""
    if not isinstance(value, str) or not value.isdigit() or int(value) < least:
        raise ValueError(f"{name}: expected a whole number of at least {least}, got {value!r}")
    return int(value)


def share(name: str, value: Any) -> float:
    """A number between 0 and 1."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 < number < 1 and not (name == "per_process_memory_fraction" and number in (0.0, 1.0)):
        raise ValueError(f"{name}: expected a number between 0 and 1, got {value!r}")
    return number


def divisions(name: str, value: object) -> list[int]:
    """How many steps there are between two powers of two, by the power: one number for all, or [megabytes:steps, ...,
    >:steps]."""
    if not isinstance(value, list):
        return [power_of_two(name, value)] * POWERS
    steps, last = [1] * POWERS, -1
    entries = "".join(value).split(",")
    for entry in entries:
        size, _, count = entry.partition(":")
        number = power_of_two(name, count)
        if size == ">":
            steps[last + 1 :] = [number] * (POWERS - last - 1)
            continue
        at = min(power_of_two(name, size).bit_length() - 1, POWERS - 1)
        steps[last + 1 : at + 1] = [number] * (at - last)
        last = at
    return steps


def power_of_two(name: str, value: object) -> int:
    number = whole(name, value)
    if number and number & (number - 1):
        raise ValueError(f"{name}: expected a power of two, got {value}")
    return number


class MemoryPlan:
    """What device memory is cached by, in bytes: `MemorySettings` of csrc/device.h."""

    def __init__(self) -> None:
        self.most_cut, self.most_spare, self.middle_segment = UNLIMITED, 20 * MEGABYTE, 20 * MEGABYTE
        self.divisions: list[int] = []
        self.collect_at = 0.0
        self.expands = self.asks_first = False

    def apply(self) -> None:
        """Tell the core."""
        _C.set_memory_settings(
            self.most_cut, self.most_spare, self.middle_segment, self.divisions, self.collect_at, self.expands
        )
        _C.cuda_ask_first(self.asks_first)


class AllocatorSettings:
    """What the allocators are told; a text changes what it names, and leaves the rest as it was."""

    def __init__(self) -> None:
        self.text = ""
        self.plan = MemoryPlan()
        self.backend, self.fraction = "native", 1.0
        self.registers, self.threads, self.most_rounded, self.most_cached = False, 1, UNLIMITED, UNLIMITED
        self.readers: dict[str, Callable[[str, Any], None]] = {
            "backend": self.read_backend, "max_split_size_mb": self.read_split, "max_non_split_rounding_mb": self.spare,
            "large_segment_size_mb": self.read_segment, "garbage_collection_threshold": self.read_threshold,
            "roundup_power2_divisions": self.read_divisions, "expandable_segments": self.read_expandable,
            "per_process_memory_fraction": self.read_fraction, "throw_on_cudamalloc_oom": self.read_early,
            "pinned_use_cuda_host_register": self.read_register, "pinned_use_hip_host_register": self.read_register,
            "pinned_num_register_threads": self.read_threads, "pinned_reserve_segment_size_mb": self.read_reserved,
            "pinned_max_round_threshold_mb": self.read_rounded, "pinned_max_cached_size_mb": self.read_cached,
        }

    def read(self, text: str) -> None:
        """Take the options of a text over; ValueError for those there are none of."""
        for name, value in tokens(text):
            if name in self.readers:
                self.readers[name](name, value)
            elif name in ALREADY:
                truth(name, value)
            elif name in NO_EFFECT:
                if truth(name, value):
                    warn(f"{name}:True has no effect in Rushlight: {NO_EFFECT[name]}.")
            else:
                known = ", ".join(sorted([*self.readers, *ALREADY, *NO_EFFECT]))
                raise ValueError(f"the allocator has no option {name!r}; those it has: {known}")
        self.text = text

    def read_backend(self, name: str, value: object) -> None:
        if value not in ("native", "cudaMallocAsync"):
            raise ValueError(f"{name}: expected native or cudaMallocAsync, got {value!r}")
        self.backend = value

    def read_split(self, name: str, value: object) -> None:
        self.plan.most_cut = min(whole(name, value, 20) * MEGABYTE, UNLIMITED)

    def spare(self, name: str, value: object) -> None:
        self.plan.most_spare = whole(name, value, 20) * MEGABYTE

    def read_segment(self, name: str, value: object) -> None:
        self.plan.middle_segment = whole(name, value, 21) * MEGABYTE

    def read_threshold(self, name: str, value: object) -> None:
        self.plan.collect_at = share(name, value)

    def read_divisions(self, name: str, value: object) -> None:
        self.plan.divisions = divisions(name, value)

    def read_expandable(self, name: str, value: object) -> None:
        self.plan.expands = truth(name, value)

    def read_fraction(self, name: str, value: object) -> None:
        self.fraction = share(name, value)

    def read_early(self, name: str, value: object) -> None:
        self.plan.asks_first = truth(name, value)

    def read_register(self, name: str, value: object) -> None:
        self.registers = truth(name, value)

    def read_threads(self, name: str, value: object) -> None:
        number = power_of_two(name, value)
        if not 1 <= number <= 128:
            raise ValueError(f"{name}: expected a power of two from 1 to 128, got {value}")
        self.threads = number

    def read_reserved(self, name: str, value: object) -> None:
        if whole(name, value):
            warn(f"{name}:{value} has no effect in Rushlight: pinned memory is taken from the driver by the block.")

    def read_rounded(self, name: str, value: object) -> None:
        self.most_rounded = whole(name, value) * MEGABYTE

    def read_cached(self, name: str, value: object) -> None:
        self.most_cached = whole(name, value) * MEGABYTE

    def apply(self, driver: Driver) -> None:
        """Tell the core. Refuses what the driver does not have."""
        if self.plan.expands and not _C.cuda_expands():
            warn("expandable_segments:True has no effect: this driver has no memory that is mapped (cuMemMap).")
            self.plan.expands = False
        for unit in range(driver.units):
            total = driver.total_memory(unit)
            limit = int(self.fraction * total) if self.fraction < 1 else UNLIMITED
            _C.limit_unit(_C.device("cuda", unit), limit, total)
        self.plan.apply()
        _C.cuda_pinned_settings(self.registers, self.threads, self.most_rounded, self.most_cached)

    def source(self) -> tuple[int, int] | tuple[()]:
        """The functions that memory comes from, for `set_memory_source`; none: it is cached."""
        return _C.cuda_memory_source(True) if self.backend == "cudaMallocAsync" else ()

    def shown(self) -> dict[str, Any]:
        """As PyTorch's snapshots have them."""
        plan = self.plan
        return {
            "PYTORCH_CUDA_ALLOC_CONF": self.text, "PYTORCH_ALLOC_CONF": self.text,
            "max_split_size": -1 if plan.most_cut == UNLIMITED else plan.most_cut,
            "garbage_collection_threshold": plan.collect_at, "expandable_segments": plan.expands,
            "pinned_num_register_threads": self.threads, "release_lock_on_malloc": True,
            "pinned_use_host_register": self.registers, "last_allocator_settings": self.text,
            "graph_capture_record_stream_reuse": False,
            "roundup_power2_divisions": {str(1 << power): steps for power, steps in enumerate(plan.divisions)},
        }


def warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=users_level())


current = AllocatorSettings()


def read_environment(driver: Driver) -> None:
    """What the environment says, when a device is found."""
    text = next((given for given in (environment.get(name) for name in VARIABLES) if given), "")
    if text:
        change(text, driver)


def change(text: str, driver: Driver) -> None:
    """Follow a text from here on."""
    before = current.backend
    current.read(text)
    current.apply(driver)
    if current.backend != before:
        _C.set_memory_source(*current.source())


__all__ = ["AllocatorSettings", "change", "current", "read_environment"]
