"""A recording, readable: columns as lists, what a device did as further rows, and the tree of events.

Enters: what `_extras.profile_stop` gives (csrc/profile.h says the columns), with `device` rows where a device was
watched. Leaves: `Log`, whose columns have one entry per row, and `Tree`, which rows are events, the parent of each, its
own time and memory. Rows, not objects: a million ops are averaged and written without a Python object for each.
"""

from __future__ import annotations

import ast
import functools
from typing import Any

from .activities import Kind
from .device_events import ON_HOST, WORK, DeviceEvent

COLUMNS = ("begin", "end", "name", "kind", "thread", "parent", "sequence", "forward_thread", "inputs", "overload",
           "value", "address", "total", "device_kind", "unit", "module")
_COLUMN_OF = {"device_kind": "device"}     # what the recorder calls a column whose name means something else here
NO_INPUTS: tuple[list, list, list, list] = ([], [], [], [])
STEP_PREFIX, STEP_KEY = "ProfilerStep#", "ProfilerStep*"
MEMORY_NAME = "[memory]"


class Log:
    """The rows of a recording: one list per column, those of a device behind the others."""

    begin: list[int]
    end: list[int]
    name: list[int]
    kind: list[int]
    thread: list[int]
    parent: list[int]
    sequence: list[int]
    forward_thread: list[int]
    inputs: list[int]
    overload: list[int]
    value: list[int]
    address: list[int]
    total: list[int]
    device_kind: list[int]
    unit: list[int]
    module: list[int]

    def __init__(self, recording: dict[str, Any], with_host: bool = True) -> None:
        """`with_host` false leaves out all but what a device did."""
        self.raw: dict[str, bytes] = recording["columns"]        # the host's rows as they were recorded
        for column in COLUMNS:
            given = recording["columns"].get(_COLUMN_OF.get(column, column)) if with_host else b""
            setattr(self, column, [-1] * len(self.begin) if given is None else memoryview(given).cast("q").tolist())
        self.names: list[str] = list(recording["names"])
        self._name_memory()
        self.input_records: list[tuple[list, list, list, list]] = recording["inputs"]
        self.threads: list[tuple[int, str, int]] = list(recording["threads"])
        self.base: tuple[int, int] = recording["base"]
        self.dropped: int = recording.get("dropped", 0)
        self._uses: bytes = recording.get("uses", b"") if with_host else b""
        self.host_rows = len(self.begin)          # rows from here on are a device's
        self.device: list[DeviceEvent] = [
            event if with_host else event._replace(row=-1) for event in recording.get("device", ())
        ]
        if self.device:
            self._add_device()

    def __len__(self) -> int:
        return len(self.begin)

    def _name_memory(self) -> None:
        """Memory has no name in a recording."""
        rows = [row for row, kind in enumerate(self.kind) if kind == Kind.MEMORY]
        for row in rows:
            self.name[row] = len(self.names)
        if rows:
            self.names.append(MEMORY_NAME)

    def _add_device(self) -> None:
        """Rows for what a device did: those of the host's calls under the op that made them."""
        numbers = {name: number for number, name in enumerate(self.names)}
        lanes = {native: number for number, (native, _, _) in enumerate(self.threads)}
        for event in self.device:
            host = event.category in ON_HOST
            self.begin.append(event.begin)
            self.end.append(event.end)
            self.name.append(numbers.setdefault(event.name, len(numbers)))
            self.kind.append(Kind.HOST_CALL if host else Kind.DEVICE)
            if host:
                lane = lanes.setdefault(event.stream, len(lanes))
                self.thread.append(self.thread[event.row] if event.row >= 0 else lane)
            else:
                self.thread.append(-1)
            self.parent.append(event.row if host else -1)
            for column, value in (("sequence", -1), ("forward_thread", 0), ("inputs", -1), ("overload", -1),
                                  ("value", 0), ("address", 0), ("total", 0), ("device_kind", -1),
                                  ("unit", -1), ("module", -1)):
                getattr(self, column).append(value)
        self.names = list(numbers)
        known = len(self.threads)
        self.threads += [(native, "", number + 1) for native, number in lanes.items() if number >= known]

    def device_event(self, row: int) -> DeviceEvent:
        """What the device did, of a row that is a device's."""
        return self.device[row - self.host_rows]

    def device_of_memory(self, row: int) -> tuple[int, int]:
        """(PyTorch's number of the kind of device, index) of memory; the CPU has no index."""
        return (0, -1) if self.device_kind[row] <= 0 else (1, self.unit[row])

    def inputs_of(self, row: int) -> tuple[list, list, list, list]:
        """(dims, types, strides, concrete values as text) of what a call was given; empty where none was recorded."""
        at = self.inputs[row]
        return NO_INPUTS if at < 0 else self.input_records[at]

    @functools.cached_property
    def uses(self) -> dict[int, list[tuple[int, int, tuple[int, int]]]]:
        """Row of an op -> (address, bytes, device) of the memory of each tensor it was given, where that was kept."""
        found: dict[int, list[tuple[int, int, tuple[int, int]]]] = {}
        flat = memoryview(self._uses).cast("q").tolist()
        for row, address, num_bytes, kind, unit in zip(*(flat[i::5] for i in range(5)), strict=True):
            found.setdefault(row, []).append((address, num_bytes, (0, -1) if kind <= 0 else (1, unit)))
        return found

    @functools.cached_property
    def identities(self) -> list[int]:
        """Row -> the number by which a trace knows it ("External id"); 0 for frames and memory, which have none."""
        unnumbered = range(Kind.MEMORY, Kind.MODULE + 1)
        found, last = [], 0
        for kind in self.kind[: self.host_rows]:
            if kind in unnumbered:
                found.append(0)
            else:
                last += 1
                found.append(last)
        return found + [0] * (len(self.kind) - self.host_rows)

    @functools.cached_property
    def key_names(self) -> list[str]:
        """Names by which events are grouped: all steps under one."""
        return [STEP_KEY if name.startswith(STEP_PREFIX) else name for name in self.names]

    @functools.cached_property
    def children_of_device(self) -> dict[int, list[int]]:
        """Row of an op -> the rows of what it launched on a device."""
        found: dict[int, list[int]] = {}
        for number, event in enumerate(self.device):
            if event.category in WORK and event.row >= 0:
                found.setdefault(event.row, []).append(self.host_rows + number)
        return found


def concrete_value(text: str) -> Any:
    """An argument that is no tensor, from its text in a recording; None where there was none or it is no constant."""
    if not text:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


class Tree:
    """Which rows of a log are events, and how they lie within each other.

    `rows` are the events in the order of their beginning; `up[row]` is the event around one, or -1. An event that is
    the only one within another of the same name is left out, what it holds going to that other. Memory outside of all
    events stays as events of its own.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.up = list(log.parent)
        self.gone: dict[int, int] = {}        # left out -> the event that stands for it
        memory_rows = [row for row, kind in enumerate(log.kind) if kind == Kind.MEMORY]
        self.own_time = self._walk(memory_rows)
        on_host = [row for row in memory_rows if log.device_kind[row] <= 0]
        self.memory, self.own_memory = self._add_memory(on_host)
        self.device_memory, self.own_device_memory = (
            self._add_memory([row for row in memory_rows if log.device_kind[row] > 0])
            if len(on_host) < len(memory_rows) else (None, None)
        )
        self.rows = self._order()

    def _walk(self, memory_rows: list[int]) -> list[int]:
        """Each event's own time, while those alone within another of their name are left out."""
        log, up, gone = self.log, self.up, self.gone
        name, kind, begin, end = log.name, log.kind, log.begin, log.end
        count = len(log)
        children = [0] * (count + 1)               # the last stands for no parent
        for above in up:
            children[above] += 1
        for row in memory_rows:
            children[up[row]] -= 1
        own_time = [stop - start for start, stop in zip(begin, end, strict=True)]
        spent = [0] * count
        memory = int(Kind.MEMORY)
        for row, above in enumerate(up):
            if above < 0 or kind[row] == memory:
                continue
            if above in gone:
                above = up[row] = gone[above]
            if name[row] == name[above] and children[above] == 1:
                gone[row] = above
                children[above] = children[row]
            else:
                spent[above] += own_time[row]
        return [whole - inner for whole, inner in zip(own_time, spent, strict=True)]

    def _add_memory(self, memory_rows: list[int]) -> tuple[list[int] | None, list[int] | None]:
        """Bytes per event, with and without what its children took; None where nothing was recorded."""
        if not memory_rows:
            return None, None
        log, gone = self.log, self.gone
        memory = [0] * len(log)
        for row in memory_rows:
            memory[log.parent[row] if log.parent[row] >= 0 else row] += log.value[row]
        own = list(memory)
        for row in range(len(memory) - 1, -1, -1):
            above = log.parent[row]
            if above >= 0 and memory[row] and log.kind[row] != Kind.MEMORY:
                memory[above] += memory[row]
        for row, above in gone.items():
            own[above] += own[row]
        return memory, own

    def _order(self) -> list[int]:
        log, gone = self.log, self.gone
        kind, parent, begin, end = log.kind, log.parent, log.begin, log.end
        rows = [row for row in range(len(log)) if kind[row] != Kind.MEMORY or parent[row] < 0]
        if gone:
            rows = [row for row in rows if row not in gone]
        if len(log.threads) > 1 or log.device:
            rows.sort(key=lambda row: (begin[row], -end[row]))
        return rows

    @functools.cached_property
    def children(self) -> dict[int, list[int]]:
        """Event -> the events directly within it."""
        found: dict[int, list[int]] = {}
        for row in self.rows:
            if self.up[row] >= 0:
                found.setdefault(self.up[row], []).append(row)
        return found

    @functools.cached_property
    def device_time(self) -> dict[int, int]:
        """Event -> nanoseconds of a device for it and all within; only events that have any."""
        spent: dict[int, int] = {}
        log = self.log
        for row, launched in log.children_of_device.items():
            time = sum(log.end[one] - log.begin[one] for one in launched)
            at = self.gone.get(row, row)
            while at >= 0:
                spent[at] = spent.get(at, 0) + time
                at = self.up[at]
        return spent

    @functools.cached_property
    def own_device_time(self) -> dict[int, int]:
        """Event -> nanoseconds of a device for what it launched itself."""
        spent: dict[int, int] = {}
        log = self.log
        for row, launched in log.children_of_device.items():
            at = self.gone.get(row, row)
            spent[at] = spent.get(at, 0) + sum(log.end[one] - log.begin[one] for one in launched)
        return spent
