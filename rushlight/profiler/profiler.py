"""`torch.profiler.profile`: recordings by steps of a program, handed to it when they are ready.

Enters: what to watch and write down, a schedule, and what to do with a recording. Leaves: events, averages, tables,
traces, stacks and the memory timeline of the last cycle (of all cycles with `acc_events`). Refuses: activities it does
not know, no activity at all, and every question before something was recorded, with PyTorch's types of error.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ..autograd.labels import record_function
from ..base import late
from . import session
from ._memory_profiler import MemoryProfile, MemoryProfileTimeline
from .activities import ProfilerActivity, _ExperimentalConfig
from .event_source import EventList
from .execution_trace import ExecutionTraceObserver as ExecutionTraceObserver, _ITraceObserver
from .schedules import ProfilerAction, record_always, schedule as schedule
from .steps import KinetoStepTracker
from .watchers import is_available

PROFILER_STEP_NAME = "ProfilerStep"
Activities = Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]]
_warned: set[str] = set()


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=3)


def supported_activities() -> set[ProfilerActivity]:
    """What can be watched on this machine."""
    return {ProfilerActivity.CPU} | ({ProfilerActivity.CUDA} if is_available("cuda") else set())


def _parsed(activities: Activities) -> tuple[set[ProfilerActivity], dict[ProfilerActivity, set[str]]]:
    """The activities, and for those that are not wanted whole, which parts are."""
    found: set[ProfilerActivity] = set()
    filters: dict[ProfilerActivity, set[str]] = {}
    for item in activities:
        if isinstance(item, dict):
            parts: dict[ProfilerActivity, set[str] | None] = {key: set(names) for key, names in item.items()}
        elif isinstance(item, ProfilerActivity):
            parts = {item: None}
        else:
            raise TypeError(f"Expected ProfilerActivity or dict, got {type(item)} ({item!r})")
        for activity, names in parts.items():
            if activity in found:
                raise ValueError(f"Activity {activity} specified more than once")
            found.add(activity)
            if names is not None:
                filters[activity] = names
    return found, filters


def _with_cuda(use_cuda: bool, activities: Activities) -> Activities:
    """The activities with CUDA, where this machine has it, or without."""
    others = [item for item in activities if item is not ProfilerActivity.CUDA]
    return [*others, ProfilerActivity.CUDA] if use_cuda and is_available("cuda") else others


class _KinetoProfile:
    """A profiler without steps: `start` and `stop`, then questions."""

    def __init__(
        self,
        *,
        activities: Activities | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        execution_trace_observer: _ITraceObserver | None = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities, self.activity_filters = (
            (supported_activities(), {}) if activities is None else _parsed(activities)
        )
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules = with_flops, with_modules
        if experimental_config is not None:
            experimental_config.check_built()
            experimental_config = session.without_trace_only(experimental_config, with_stack)
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.profiler: session.profile | None = None
        self.has_cudagraphs = False
        self.mem_tl: MemoryProfileTimeline | None = None
        devices = [name for name in ("CUDA", "XPU", "MTIA", "HPU") if ProfilerActivity[name] in self.activities]
        self.use_device = devices[0].lower() if devices else (
            "privateuseone" if ProfilerActivity.PrivateUse1 in self.activities else None
        )
        self.preset_metadata: dict[str, str] = {}
        self._trace_metadata: dict[str, str] = {}

    def start(self) -> None:
        """Record from now on."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """Record no more."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Make ready what a recording needs."""
        if self.profiler is not None:
            self.profiler.abandon()
        if self.profiler is not None and not self.acc_events:
            _warn_once("profile: a new cycle begins, and the events of the one before are dropped. Pass acc_events=True"
                       " to keep those of all cycles.")
        if self.profiler is None or not self.acc_events:
            self.profiler = session.profile(
                use_cpu=ProfilerActivity.CPU in self.activities, use_device=self.use_device,
                record_shapes=self.record_shapes, with_flops=self.with_flops, profile_memory=self.profile_memory,
                with_stack=self.with_stack, with_modules=self.with_modules, use_kineto=True,
                experimental_config=self.experimental_config, acc_events=self.acc_events,
                custom_trace_id_callback=self.custom_trace_id_callback,
                post_processing_timeout_s=self.post_processing_timeout_s, activity_filters=self.activity_filters,
            )
        self.profiler._prepare_trace()

    def start_trace(self) -> None:
        """Record from now on, what was made ready."""
        if self.execution_trace_observer:
            self.execution_trace_observer.start()
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before starting trace")
        self.profiler._start_trace()
        for option in ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops"):
            if getattr(self, option):
                self.add_metadata_json(option, "1")
        distributed = self._get_distributed_info()
        if distributed:
            self.add_metadata_json("distributedInfo", json.dumps(distributed, default=_plain_number))
        for key, value in self.preset_metadata.items():
            self.add_metadata_json(key, value)

    def stop_trace(self) -> None:
        """Record no more; what was recorded can be asked for."""
        if self.execution_trace_observer:
            self.execution_trace_observer.stop()
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before stopping trace")
        self.profiler.__exit__(None, None, None)

    def _recorded(self, what: str) -> session.profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {what}")
        return self.profiler

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Write the trace of the last cycle: JSON, compressed where `path` ends in `.gz`; whole or not at all."""
        self._recorded("exporting chrome trace").export_chrome_trace(path, self._trace_metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks with what they weigh, for flame graphs; needs `with_stack`."""
        self._recorded("exporting stacks").export_stacks(path, metric)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Pause, or go on with, the recording of these activities."""
        if self.profiler is not None:
            self.profiler.toggle_collection_dynamic(enable, activities)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False) -> EventList:
        """Events of one name added up; further apart by shapes, by the innermost frames or by overload if asked."""
        return self._recorded("getting key averages").key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def events(self) -> EventList:
        """All events of the last cycle."""
        return self._recorded("accessing events").function_events

    def add_metadata(self, key: str, value: str) -> None:
        """A text that the trace will hold under `key`."""
        if not isinstance(value, str):
            raise AttributeError(f"add_metadata: the value of {key!r} must be a str, got {value!r}")
        self.add_metadata_json(key, json.dumps(value))

    def add_metadata_json(self, key: str, value: str) -> None:
        """JSON that the trace will hold under `key`."""
        self._trace_metadata[key] = value

    def preset_metadata_json(self, key: str, value: str) -> None:
        """JSON that every trace begun from now on will hold under `key`."""
        self.preset_metadata[key] = value

    def _get_distributed_info(self) -> dict[str, Any] | None:
        # A program that has groups of processes has imported this; importing it here would be in the recording.
        dist = sys.modules.get(f"{__package__.partition('.')[0]}.distributed")
        if dist is None or not dist.is_available() or not dist.is_initialized():
            return None
        backend = dist.get_backend()
        groups = dist.distributed_c10d
        found = {"backend": backend, "rank": dist.get_rank(), "world_size": dist.get_world_size(),
                 "pg_count": dist.get_pg_count(), "pg_config": groups._get_all_pg_configs()}
        if backend == "nccl":
            version = late.import_module("..cuda.nccl", __package__).version()
            found["nccl_version"] = ".".join(str(part) for part in version)
        return found

    def _memory_profile(self) -> MemoryProfile:
        missing = [f"{name}=True" for name in ("record_shapes", "profile_memory", "with_stack")
                   if not getattr(self, name)]
        if missing:
            raise ValueError(f"{', '.join(missing)} required for memory profiling.")
        if self.profiler is None or self.profiler._source is None:
            raise AssertionError("Profiler must be initialized before exporting the memory timeline")
        return MemoryProfile(self.profiler._source)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write what memory was held for, over time: a page (`.html`), `[times, sizes]` (`.json`, `.json.gz`) or every
        single change (`.raw.json.gz`). Needs `record_shapes`, `profile_memory` and `with_stack` (ValueError)."""
        warnings.warn("export_memory_timeline is deprecated in PyTorch's API. On a GPU, cuda.memory's histories and "
                      "snapshots (_record_memory_history, _dump_snapshot) say more.", FutureWarning, stacklevel=2)
        if device is None:
            device = "cuda:0" if is_available("cuda") else "cpu"
        self.mem_tl = MemoryProfileTimeline(self._memory_profile())
        if path.endswith(".html"):
            self.mem_tl.export_memory_timeline_html(path, device)
        elif path.endswith("raw.json.gz"):
            self.mem_tl.export_memory_timeline_raw(path, device)
        else:
            self.mem_tl.export_memory_timeline(path, device)


def _plain_number(value: Any) -> Any:
    """NumPy's numbers and arrays as JSON holds them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a trace cannot hold a {type(value).__name__}")


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[_KinetoProfile], None]:
    """What to do with a recording: write its trace into `dir_name`, where TensorBoard looks for it.

    Files are called `worker.time.pt.trace.json`; the worker is this machine and process unless it is named.
    """

    def handle(prof: _KinetoProfile) -> None:
        nonlocal worker_name
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker_name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker_name}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        prof.export_chrome_trace(os.path.join(dir_name, name), use_python_export=use_python_export)

    return handle


class profile(_KinetoProfile):  # noqa: N801 - PyTorch's name
    """A profiler of a program that works in steps.

    `schedule` says for the number of a step what to do in it (without one, everything within the `with` is recorded);
    `step()` ends a step; `on_trace_ready(profiler)` is called at the end of each cycle. Other arguments are those of
    the recording: shapes, memory, stacks, operations, modules.
    """

    def __init__(
        self,
        *,
        activities: Activities | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        execution_trace_observer: _ITraceObserver | None = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        if use_cuda is not None:
            warnings.warn("profile: use_cuda is deprecated; put CUDA into activities", FutureWarning, stacklevel=2)
            activities = _with_cuda(use_cuda, supported_activities() if activities is None else activities)
        if activities is not None:
            activities = list(activities)
            if not any(isinstance(item, (ProfilerActivity, dict)) for item in activities):
                raise AssertionError(f"No valid profiler activities found in {activities!r}")
        super().__init__(
            activities=activities, record_shapes=record_shapes, profile_memory=profile_memory, with_stack=with_stack,
            with_flops=with_flops, with_modules=with_modules, experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer
            or ExecutionTraceObserver.build_execution_trace_obs_from_env(),
            acc_events=acc_events, custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        self.schedule = schedule or record_always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.step_rec_fn: record_function | None = None
        self.current_action = self._asked(0)
        self.action_map = self._transitions()
        KinetoStepTracker.init_step_count(PROFILER_STEP_NAME)

    def _asked(self, step: int) -> ProfilerAction:
        """What the schedule wants of a step."""
        action = self.schedule(step)
        if action == ProfilerAction.DEVICE_STOPPED:
            raise ValueError(f"profile: the schedule answered DEVICE_STOPPED for step {step}; only the profiler itself "
                             "may say that")
        return action

    def _transitions(self) -> dict[tuple[ProfilerAction, ProfilerAction | None], list[Callable[[], Any]]]:
        """What to do between two steps, by what was done in the one and is to be done in the other (None: the end)."""
        none, warmup, record, save = (ProfilerAction(number) for number in range(4))
        prepare, start, stop, ready = self.prepare_trace, self.start_trace, self.stop_trace, self._trace_ready

        def wrong(before: str, after: str) -> Callable[[], None]:
            return functools.partial(warnings.warn, f"Incorrect schedule: {before} followed by {after}")

        return {
            (none, none): [], (none, warmup): [prepare], (none, record): [prepare, start],
            (none, save): [prepare, start],
            (warmup, none): [wrong("WARMUP", "NONE"), start, stop], (warmup, warmup): [], (warmup, record): [start],
            (warmup, save): [start], (warmup, None): [start, stop],
            (record, none): [wrong("RECORD", "NONE"), stop], (record, warmup): [wrong("RECORD", "WARMUP"), stop],
            (record, record): [], (record, save): [], (record, None): [stop, ready],
            (save, none): [stop, ready], (save, warmup): [stop, ready, prepare],
            (save, record): [stop, ready, prepare, start], (save, save): [stop, ready, prepare, start],
            (save, None): [stop, ready],
        }

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.stop()
        KinetoStepTracker.erase_step_count(PROFILER_STEP_NAME)
        if self.execution_trace_observer:
            self.execution_trace_observer.cleanup()

    def start(self) -> None:
        """Begin with the first step."""
        self._transit_action(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """End with the step that runs; a recording that has begun is handed over."""
        self._end_step()
        self._transit_action(self.current_action, None)

    def step(self) -> None:
        """The next step begins."""
        self._end_step()
        before = self.current_action
        action = self._asked(self.step_num + 1)
        self.step_num += 1
        self.current_action = action
        self._transit_action(before, action)
        self._begin_step()

    def _begin_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = record_function(f"{PROFILER_STEP_NAME}#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_step(self) -> None:
        label, self.step_rec_fn = self.step_rec_fn, None
        if label is not None:
            label.__exit__(None, None, None)

    def set_custom_trace_id_callback(self, callback: Callable[[], str] | None) -> None:
        """Who names the traces of cycles that begin from now on."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The name of the current trace."""
        return None if self.profiler is None else self.profiler.trace_id

    def _trace_ready(self) -> None:
        if self.on_trace_ready:
            self.on_trace_ready(self)

    def _transit_action(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        for act in self.action_map.get((before, after), ()):
            act()

    def _stats(self) -> session.ProfilerStats | None:
        return None if self.profiler is None else self.profiler._stats
