"""MemoryTracker: how much memory of an accelerator is taken after each op of a module's forward and backward.

Enters: a module to watch. Leaves: megabytes allocated, active and reserved by op, a summary, files, pictures (with
matplotlib). Refuses: devices whose module does not count memory.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from ...accelerator import get_device_module
from ...dispatch.modes import TorchDispatchMode
from ...nn import Module

BYTES_PER_MB = 1024 * 1024.0
_KINDS = ("memories_allocated", "memories_active", "memories_reserved")


class MemoryProfileDispatchMode(TorchDispatchMode):
    """Notes the memory after each op."""

    def __init__(self, memory_tracker: MemoryTracker) -> None:
        super().__init__()
        self.memory_tracker = memory_tracker

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if str(func) != "aten.detach.default":
            tracker, name = self.memory_tracker, str(func).partition(".")[2]
            tracker._record_memory_stats(f"{tracker._cur_module_name}.{name}_{tracker._operator_names[name]}")
            tracker._operator_names[name] += 1
        return result


class MemoryTracker:
    """`start_monitor(module)`, the work, `stop()`; then `summary()` and `show_traces()`."""

    def __init__(self) -> None:
        self._hooks: list[Any] = []
        self._operator_names: Counter[str] = Counter()
        self.memories_allocated: dict[int, tuple[str, float]] = {}
        self.memories_active: dict[int, tuple[str, float]] = {}
        self.memories_reserved: dict[int, tuple[str, float]] = {}
        self._markers: dict[str, int] = {}
        self._cur_module_name = ""
        self._op_index = self._num_alloc_retries = 0
        self._device_module = get_device_module()
        self.profile_mode: MemoryProfileDispatchMode | None = None

    def start_monitor(self, root_module: Module) -> None:
        """Watch a module until `stop`. Refuses where memory is not counted, or one is watched."""
        if not hasattr(self._device_module, "memory_allocated"):
            raise AttributeError(
                f"MemoryTracker: {self._device_module.__name__} does not count memory; an accelerator is needed."
                " MemTracker follows tensors on any device."
            )
        if self.profile_mode is not None:
            raise AssertionError("MemoryTracker: a module is watched already. Call stop first.")
        self._clear_state()
        for name, module in root_module.named_modules():
            is_root = module is root_module
            self._hooks += [
                module.register_forward_pre_hook(self._before_forward(name, is_root)),
                module.register_forward_hook(self._after_forward(is_root)),
            ]
        self._device_module.empty_cache()
        self.profile_mode = MemoryProfileDispatchMode(self)
        self.profile_mode.__enter__()

    def stop(self) -> None:
        """End what `start_monitor` began. Refuses where nothing is watched."""
        if self.profile_mode is None:
            raise AssertionError("MemoryTracker: nothing is watched. Call start_monitor first.")
        self._num_alloc_retries = self._device_module.memory_stats().get("num_alloc_retries", 0)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self.profile_mode.__exit__(None, None, None)
        self.profile_mode = None

    def summary(self, top: int = 20) -> None:
        """Print the ops after which most more memory was allocated than before."""
        rows = [self.memories_allocated[i] for i in range(self._op_index)]
        grown = {name: now - before for (_, before), (name, now) in pairwise(rows)}
        line = "-" * 48
        print(line, f"The number of alloc retries are: {self._num_alloc_retries}",
              f"Top {top} ops that generates memory are:", sep="\n")
        for name, change in sorted(grown.items(), key=lambda each: each[1], reverse=True)[:top]:
            print(f"{name}: {change}MB")
        print(line)

    def show_traces(self, path: str = "") -> None:
        """Draw the three kinds of memory over the calls of ops, together and apart; of a file, if one is named."""
        import matplotlib.pyplot as plt  # noqa: PLC0415 - a package of its own, needed here only

        if path:
            self.load(path)
        lines = {kind.partition("_")[2] + "_memory": [v for _, v in getattr(self, kind).values()] for kind in _KINDS}
        for names in (list(lines), *([name] for name in lines)):
            plt.figure()
            shown = [v for name in names for v in lines[name]]
            for name in names:
                plt.plot(range(len(lines[name])), lines[name], label=name)
            plt.xlabel("# Operator Calls")
            plt.ylabel("Memory (MB)")
            plt.legend()
            for name, at in self._markers.items():
                colour = "r" if name == "fw_bw_boundary" else "k-"
                plt.plot([at, at], [min(shown) * 0.999, max(shown) * 1.001], colour, lw=2, label=name)

    def save_stats(self, path: str) -> None:
        """Write what was noted to a file."""
        stats = {kind: getattr(self, kind) for kind in _KINDS}
        with open(path, "wb") as f:
            pickle.dump({**stats, "markers": self._markers, "num_alloc_retries": self._num_alloc_retries}, f)

    def load(self, path: str) -> None:
        """Read what `save_stats` wrote: a pickle, so only files that are trusted."""
        with open(path, "rb") as f:
            stats = pickle.load(f)
        for kind in _KINDS:
            setattr(self, kind, stats[kind])
        self._markers, self._num_alloc_retries = stats["markers"], stats["num_alloc_retries"]
        self._op_index = len(self.memories_allocated)

    def _before_forward(self, name: str, is_root: bool) -> Callable:
        def before(module: Module, inputs: Any) -> None:
            self._cur_module_name = f"{name}.forward"
            if is_root:
                self._add_marker("fw_start")

        return before

    def _after_forward(self, is_root: bool) -> Callable:
        def after(module: Module, inputs: Any, outputs: Any) -> None:
            if is_root:
                self._add_marker("fw_bw_boundary")

        return after

    def _record_memory_stats(self, fn_name: str) -> None:
        device = self._device_module
        now = (device.memory_allocated(), device.memory_stats().get("active_bytes.all.current", 0),
               device.memory_reserved())
        for kind, value in zip(_KINDS, now, strict=True):
            getattr(self, kind)[self._op_index] = (fn_name, value / BYTES_PER_MB)
        self._op_index += 1

    def _add_marker(self, marker_name: str) -> None:
        self._markers[marker_name] = len(self.memories_allocated)

    def _clear_state(self) -> None:
        for known in (self._operator_names, self._markers, *(getattr(self, kind) for kind in _KINDS)):
            known.clear()
        self._cur_module_name = ""
        self._op_index = self._num_alloc_retries = 0
