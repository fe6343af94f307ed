"""From the rows of a recording to events, lists of events and averages.

Enters: a `Log` and what was asked of the profiler. Leaves: `EventList`s whose events read the recording when asked, and
averages added up from the columns without one object per event. `EventList` itself works on any events, those that a
program made by hand too.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import time
from collections import defaultdict
from typing import Any

from . import frames, table
from .activities import CATEGORIES, LABEL_KINDS, PYTHON_KINDS, SCOPES, DeviceType, Kind
from .events import FunctionEvent, FunctionEventAvg, Interval, Kernel, metadata_of
from .files import written
from .flops import flops_of
from .links import backward_links, outermost_calls
from .owners import Owners
from .recording import Log, Tree, concrete_value

log_messages = logging.getLogger("torch.autograd.profiler")
STACK_METRICS = ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]


def device_attribute(name: str) -> str:
    """The attribute that holds what PyTorch calls by the name of some device: `cuda_time` is `device_time`."""
    return name.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")


class EventList(list):
    """Events in the order in which they began, or averages of them, that know how to show themselves."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """What a list takes, and by name `use_device`, `profile_memory` and `with_flops`: what the tables show."""
        self._use_device: str | None = kwargs.pop("use_device", None)
        self._profile_memory: bool = kwargs.pop("profile_memory", False)
        self._with_flops: bool = kwargs.pop("with_flops", False)
        super().__init__(*args, **kwargs)
        self._tree_built = False
        self._source: EventSource | None = None

    def __str__(self) -> str:
        return self.table()

    def _build_tree(self) -> None:
        """Find which events lie within which, by their times, and give them to each other."""
        from .nesting import build_tree

        build_tree(self)
        self._tree_built = True

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the CPU of all events."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as a table, the greatest `sort_by` first; `row_limit` -1 shows all.

        `top_level_events_only` leaves out what lies within others, `time_unit` (`s`, `ms`, `us`) is used throughout.
        Refuses: a `sort_by` that events do not have (AttributeError).
        """
        events = self
        if sort_by is not None:
            key = device_attribute(sort_by)
            ordered = sorted(self, key=lambda event: getattr(event, key), reverse=True)
            events = EventList(ordered, use_device=self._use_device, profile_memory=self._profile_memory,
                               with_flops=self._with_flops)
        widths = table.Widths(max_name_column_width, max_shapes_column_width, max_src_column_width)
        return table.text(events, row_limit, widths, header, self._profile_memory, self._with_flops,
                          top_level_events_only, time_unit)

    def export_chrome_trace(self, path: str) -> None:
        """The events as a plain list that trace viewers read. `profiler.profile` writes a fuller one."""
        device = self._use_device or "cuda"
        lines, arrow = [], 0
        for event in self:
            if event.trace_name is None:
                continue
            thread = f" node_id:{event.node_id}, thread_id:{event.thread} " if event.is_remote else event.thread
            common = {"name": event.trace_name, "ts": event.time_range.start, "tid": thread, "pid": "CPU functions"}
            lines.append(json.dumps({**common, "ph": "X", "dur": event.time_range.elapsed_us(), "args": {}}))
            for _ in event.kernels:
                lines.append(json.dumps({**common, "ph": "s", "id": arrow, "cat": f"cpu_to_{device}", "args": {}}))
                arrow += 1
        with written(path) as file:
            file.write(("[" + ", ".join(lines) + "]").encode())

    def supported_export_stacks_metrics(self) -> list[str]:
        """What the stacks of a file can be weighed by."""
        return list(STACK_METRICS)

    def export_stacks(self, path: str, metric: str) -> None:
        """One line per event with a stack, outermost first, with its `metric`: what flame graph programs read."""
        if metric not in STACK_METRICS:
            raise ValueError(f"metric should be one of: {STACK_METRICS}, got {metric!r}")
        attribute, lines = device_attribute(metric), []
        for event in self:
            stack = event.stack or (self._source.stack_of(event) if self._source is not None else [])
            weight = int(getattr(event, attribute)) if stack else 0
            if weight > 0:
                lines.append(frames.collapsed(stack, weight))
        with written(path) as file:
            file.write("".join(lines).encode())

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Events of one name added up; further apart by shapes, by the innermost frames or by overload if asked."""
        if not self._tree_built:
            raise AssertionError("key_averages: expected the tree of events to have been built")
        if self._source is not None and len(self) == len(self._source.tree.rows):
            return self._source.averages(group_by_input_shapes, group_by_stack_n, group_by_overload_name)
        groups: dict[tuple, FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for event in self:
            key = (event.key, event.node_id, event.device_type, event.is_legacy, event.is_user_annotation,
                   event.overload_name if group_by_overload_name else None,
                   str(event.input_shapes) if group_by_input_shapes else None,
                   tuple(event.stack[:group_by_stack_n]) if group_by_stack_n > 0 else None)
            groups[key].add(event)
        averages = EventList(groups.values(), use_device=self._use_device, profile_memory=self._profile_memory,
                             with_flops=self._with_flops)
        for event in averages:
            event.stack = (event.stack or [])[:group_by_stack_n]
            if not group_by_input_shapes:
                event.input_shapes = ""
            if not group_by_overload_name:
                event.overload_name = ""
        return averages

    def total_average(self) -> FunctionEventAvg:
        """All events added up, whatever they are."""
        total = FunctionEventAvg()
        for event in self:
            total.key = None
            total += event
        total.key = "Total"
        return total


class EventSource:
    """The events of one recording."""

    def __init__(
        self,
        log: Log,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
        verbose_stacks: bool = False,
        overload_names: bool = False,
        owners: Owners | None = None,
    ) -> None:
        self.log, self.use_device = log, use_device
        self.profile_memory, self.with_flops = profile_memory, with_flops
        self.verbose_stacks, self.overload_names = verbose_stacks, overload_names
        self.owners = owners or Owners()
        self._flops: dict[tuple[int, int], int] = {}
        self._shells: dict[int, FunctionEvent] = {}
        self._tree: Tree | None = None
        self._links: dict[int, tuple[int, bool]] | None = None
        self._python: tuple[dict[int, int], dict[int, int]] | None = None
        self._stacks: frames.Stacks | None = None

    @property
    def tree(self) -> Tree:
        if self._tree is None:
            self._tree = Tree(self.log)
        return self._tree

    def event(self, row: int) -> FunctionEvent:
        """The event of a row: always the same object."""
        found = self._shells.get(row)
        if found is None:
            found = self._shells[row] = FunctionEvent.of_row(self, row)
        return found

    def children_of(self, row: int) -> list[FunctionEvent]:
        return [self.event(child) for child in self.tree.children.get(row, ())]

    def parent_of(self, row: int) -> FunctionEvent | None:
        above = self.tree.up[row]
        return self.event(above) if above >= 0 else None

    def stack_of(self, event: FunctionEvent) -> list[str]:
        """The frames around an event, innermost first, whether or not events were to hold them."""
        if event._source is not self:
            return []
        if self._stacks is None:
            self._stacks = frames.Stacks(self.log)
        return self._stacks.of(event._row)

    def _row_stack(self, row: int) -> list[str]:
        """The frames that an event shows: within a node of backward, those of the call that recorded the node."""
        if not self.verbose_stacks:
            return []
        node, log = row, self.log
        while node >= 0 and log.kind[node] != Kind.NODE:
            node = log.parent[node]
        if node >= 0:
            call = self._calls_by_sequence.get((log.forward_thread[node], log.sequence[node]))
            return [] if call is None else self.stack_of(self.event(call))
        return self.stack_of(self.event(row))

    @functools.cached_property
    def _calls_by_sequence(self) -> dict[tuple[int, int], int]:
        return outermost_calls(self.log)

    def flops(self, row: int) -> int:
        """The operations of a call; those of a product within an op are that op's, if it is counted itself."""
        log = self.log
        if not self.with_flops or log.inputs[row] < 0 or log.kind[row] > Kind.INNER:
            return 0
        key = (log.name[row], log.inputs[row])
        found = self._flops.get(key)
        if found is None:
            found = self._flops[key] = flops_of(log.names[log.name[row]], log.inputs_of(row))
        above = log.parent[row] if found and log.kind[row] == Kind.INNER else -1
        while above >= 0:
            if self.flops(above):
                return 0
            above = log.parent[above]
        return found

    def events(self, timeout_s: float | None = None) -> EventList:
        """All events, in the order of their beginning; those that `timeout_s` allows for."""
        end = None if timeout_s is None else time.perf_counter() + timeout_s
        found = EventList(use_device=self.use_device, profile_memory=self.profile_memory, with_flops=self.with_flops)
        found._source, found._tree_built = self, True
        if end is not None and time.perf_counter() >= end:
            rows = []
        else:
            rows = self.tree.rows
        for at in range(0, len(rows), 4096):
            found += [self.event(row) for row in rows[at : at + 4096]]
            if end is not None and time.perf_counter() >= end:
                break
        if end is not None and len(found) < max(len(rows), 1):
            log_messages.warning("the profiler's events were not all made within %.3f seconds: %d of them are here",
                                 timeout_s, len(found))
        return found

    def attributes_of(self, row: int) -> dict[str, Any]:
        """What a `FunctionEvent` of the row holds, but for its relatives."""
        log, kind = self.log, self.log.kind[row]
        name, base = log.names[log.name[row]], log.base[0]
        dims, types, strides, concrete = log.inputs_of(row)
        native, _, thread = log.threads[log.thread[row]] if log.thread[row] >= 0 else (0, "", 0)
        identity = self.log.identities[row]
        is_python = kind in PYTHON_KINDS
        flow, starts = self.links.get(row, (0, False))
        python_id, python_parent = self.python_ids
        device = self._device_attributes(row) if row >= log.host_rows else {}
        memory_only = kind == Kind.MEMORY
        return {
            "id": identity, "node_id": -1, "name": log.key_names[log.name[row]],
            "overload_name": log.names[log.overload[row]] if self.overload_names and log.overload[row] >= 0 else "",
            "trace_name": None if memory_only else name,
            "time_range": Interval((log.begin[row] - base) / 1000, (log.end[row] - base) / 1000),
            "thread": thread, "fwd_thread": thread if memory_only else log.forward_thread[row],
            "kernels": self._kernels(row), "count": 1,
            "input_shapes": [[] if entry and isinstance(entry[0], (list, tuple)) else list(entry) for entry in dims],
            "concrete_inputs": [concrete_value(text) for text in concrete], "kwinputs": {},
            "stack": self._row_stack(row), "scope": SCOPES[kind], "use_device": self.use_device,
            "cpu_memory_usage": self.tree.memory[row] if self.tree.memory else 0,
            "device_memory_usage": self.tree.device_memory[row] if self.tree.device_memory else 0, "is_async": False,
            "is_remote": False, "sequence_nr": log.sequence[row], "device_type": DeviceType.CPU,
            "device_index": os.getpid(), "device_resource_id": native, "is_legacy": False,
            "flops": self.flops(row), "is_user_annotation": kind in LABEL_KINDS, "is_python_function": is_python,
            "activity_type": CATEGORIES[kind], "self_cpu_percent": -1, "total_cpu_percent": -1,
            "total_device_percent": -1, "_metadata_json": "", "flow_id": flow, "flow_type": 1 if flow else 0,
            "flow_start": starts, "external_id": identity, "linked_correlation_id": 0, "event_metadata": None,
            "structured_input_shapes": list(dims), "structured_input_strides": list(strides),
            "input_dtypes": list(types), "python_id": python_id.get(row, -1),
            "python_parent_id": python_parent.get(row, -1),
            "python_module_id": frames.module_number(name) if kind == Kind.MODULE else -1, **device,
        }

    def _device_attributes(self, row: int) -> dict[str, Any]:
        """What differs for a row of a device, or of a call of its runtime."""
        event = self.log.device_event(row)
        launched_by = self.log.identities[event.row] if event.row >= 0 else 0
        common = {"activity_type": event.category, "linked_correlation_id": launched_by,
                  "id": int(event.args.get("correlation", 0)),
                  "event_metadata": metadata_of({key: json.dumps(value) for key, value in event.args.items()})}
        if self.log.kind[row] == Kind.HOST_CALL:
            return common
        return {**common, "device_type": DeviceType.CUDA, "device_index": event.device, "thread": event.stream,
                "device_resource_id": event.stream, "is_user_annotation": event.category == "gpu_user_annotation"}

    def _kernels(self, row: int) -> list[Kernel]:
        log = self.log
        return [Kernel(log.names[log.name[one]], log.device_event(one).device, (log.end[one] - log.begin[one]) / 1000)
                for one in log.children_of_device.get(row, ())] if log.device else []

    @property
    def links(self) -> dict[int, tuple[int, bool]]:
        """Row -> (number of its arrow, whether it begins there): from forward calls to their nodes of backward."""
        if self._links is None:
            self._links = backward_links(self.log)
        return self._links

    @property
    def python_ids(self) -> tuple[dict[int, int], dict[int, int]]:
        """Row of a frame -> its number, and that of the frame around it."""
        if self._python is None:
            self._python = frames.numbered_frames(self.log)
        return self._python

    def averages(self, by_shape: bool = False, by_stack: int = 0, by_overload: bool = False) -> EventList:
        """`key_averages` of all events, added up from the columns."""
        from .averages import averaged

        found = EventList(averaged(self, by_shape, by_stack, by_overload), use_device=self.use_device,
                          profile_memory=self.profile_memory, with_flops=self.with_flops)
        return found
