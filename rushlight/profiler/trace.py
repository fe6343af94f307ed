"""The recording as a file that Perfetto, TensorBoard and chrome://tracing read: Kineto's fields and categories.

Enters: the events of a recording and what the program wrote down about it. Leaves: JSON text, one event a line.
Times are microseconds after `baseTimeNanoseconds`, a moment of the wall clock that all traces of some three months
share. What is the same for all calls of an op with the same arguments is formatted once.
"""

from __future__ import annotations

import json
import os
import socket
import time
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import _extras
from ..base import late
from . import frames
from .activities import CATEGORIES, Kind
from .device_events import ON_HOST, DeviceEvent
from .files import written

if TYPE_CHECKING:
    from .event_source import EventSource

TRIMESTER = 7889238              # seconds: Kineto's traces count from a multiple of it
SPANS_LAST = 0x20000000          # sorts the row of spans behind those of processes
DEVICES_AFTER = 5000000          # sorts devices behind the host
# The columns that lines are made of (csrc/extras/profile_trace.cpp), before the numbers of events and frames.
TRACED = ("begin", "end", "name", "kind", "thread", "sequence", "forward_thread", "inputs", "value", "address", "total",
          "device", "unit", "module")
FLUSH = 16384                    # lines to a piece


def base_time_ns() -> int:
    """The moment that times of a trace count from."""
    return int(time.time()) // TRIMESTER * TRIMESTER * 1_000_000_000


def write(source: EventSource, path: str, metadata: dict[str, str], trace_id: str) -> None:
    """Write the trace to `path`, whole or not at all; compressed where it ends in `.gz`."""
    with written(path) as file:
        for piece in _pieces(source, path, metadata, trace_id):
            file.write(piece)


def _pieces(source: EventSource, path: str, metadata: dict[str, str], trace_id: str) -> Iterator[bytes]:
    base = base_time_ns()
    device = late.import_module(".cupti", __package__).describe() if source.log.device else {}
    head = {"schemaVersion": "1", "deviceProperties": "[]", **{key: json.dumps(value) for key, value in device.items()},
            "trace_id": json.dumps(trace_id), **metadata, "host_name": json.dumps(socket.gethostname()),
            "displayTimeUnit": '"ms"', "baseTimeNanoseconds": str(base)}
    first = "{\n" + "".join(f"{json.dumps(key)}: {_valid(value)},\n" for key, value in head.items())
    writer = _Writer(source, base)
    yield (first + '"traceEvents": [\n' + writer.names()).encode()
    yield from writer.events()
    yield f'{writer.end()}],\n"traceName": {json.dumps(os.fspath(path))}\n}}\n'.encode()


def _valid(text: str) -> str:
    """What a program gave as JSON, if it is; else as a string, so that the file can be read."""
    try:
        json.loads(text)
        return text
    except ValueError:
        return json.dumps(text)


class _Writer:
    """Formats the rows of one recording."""

    def __init__(self, source: EventSource, base: int) -> None:
        self.source, self.log, self.pid = source, source.log, os.getpid()
        # from the recording's clock to microseconds after the base, on the wall clock
        self.shift = self.log.base[1] - self.log.base[0] - base
        self.heads: dict[tuple[int, int, int, int], tuple[bytes, bytes]] = {}

    def _time(self, monotonic_ns: int) -> str:
        return f"{(monotonic_ns + self.shift) / 1000:.3f}"

    def _meta(self, what: str, at: str, pid: Any, tid: Any, /, **args: Any) -> str:
        return (f'{{"ph":"M","name":"{what}","ts":{at},"pid":{json.dumps(pid)},"tid":{json.dumps(tid)},'
                f'"args":{json.dumps(args)}}},\n')

    def names(self) -> str:
        """Processes, threads and streams by name, in the order in which a viewer is to show them."""
        at = self._time(self.log.base[0])
        lines = [self._meta("process_name", at, self.pid, 0, name="python"),
                 self._meta("process_labels", at, self.pid, 0, labels="CPU"),
                 self._meta("process_sort_index", at, self.pid, 0, sort_index=self.pid)]
        for native, name, _ in self.log.threads:
            shown = name if isinstance(name, str) and name else "python"
            lines += [self._meta("thread_name", at, self.pid, native, name=f"thread {native} ({shown})"),
                      self._meta("thread_sort_index", at, self.pid, native, sort_index=native)]
        streams = sorted({(e.device, e.stream) for e in self.log.device if e.category not in ON_HOST})
        for device in sorted({device for device, _ in streams}):
            lines += [self._meta("process_name", at, device, 0, name="python"),
                      self._meta("process_labels", at, device, 0, labels=f"GPU {device}"),
                      self._meta("process_sort_index", at, device, 0, sort_index=DEVICES_AFTER + device)]
        for device, stream in streams:
            lines += [self._meta("thread_name", at, device, stream, name=f"stream {stream} "),
                      self._meta("thread_sort_index", at, device, stream, sort_index=stream)]
        return "".join(lines)

    def events(self) -> Iterator[bytes]:
        """All events: the host's by row, then arrows, then what a device did."""
        log, source = self.log, self.source
        numbers, around = source.python_ids
        identities = array("q", log.identities)
        for row, number in numbers.items():
            identities[row] = number
        parents = array("q", [around.get(row, -1) for row in range(log.host_rows)]) if numbers else identities
        columns = (*(log.raw[name] for name in TRACED), identities, parents)
        paths = [json.dumps(name).encode() for name in log.names] if max(log.module, default=-1) >= 0 else []
        for first in range(0, log.host_rows, FLUSH):
            last = min(first + FLUSH, log.host_rows)
            stacks = self._stacks(first, last) if source.verbose_stacks else None
            yield _extras.trace_lines(columns, first, last, self.shift, self.heads, self._head, paths, stacks)
        yield "".join(self._arrow(row, link) for row, link in source.links.items()).encode()
        for at in range(0, len(log.device), FLUSH):
            yield "".join(map(self._device_line, log.device[at : at + FLUSH])).encode()

    def _head(self, row: int) -> tuple[bytes, bytes]:
        """What lines of one name, kind, thread and arguments share: before their times, and after what is their own."""
        log, kind = self.log, self.log.kind[row]
        name, native, after = log.names[log.name[row]], log.threads[log.thread[row]][0], ""
        before = f'{{"ph":"X","cat":"{CATEGORIES[kind]}","name":{json.dumps(name)},'
        if kind == Kind.MEMORY:
            before = '{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]",'
        elif kind == Kind.MODULE:
            after = f',"Python module id":{frames.module_number(name)}'
        elif log.inputs[row] >= 0:
            dims, types, strides, concrete = log.inputs_of(row)
            shown = {"Concrete Inputs": list(concrete), "Input type": list(types), "Input Strides": list(strides),
                     "Input Dims": list(dims)}
            after = "".join(f',"{key}":{json.dumps(value)}' for key, value in shown.items())
        return f'{before}"pid":{self.pid},"tid":{native},"ts":'.encode(), after.encode()

    def _stacks(self, first: int, last: int) -> dict[int, bytes]:
        """Row -> its call stack, of calls and labels."""
        found = {}
        for row in range(first, last):
            stack = self.source._row_stack(row) if not Kind.MEMORY <= self.log.kind[row] <= Kind.MODULE else []
            if stack:
                found[row] = f',"Call stack":{json.dumps("".join(entry + ";" for entry in stack))}'.encode()
        return found

    def _arrow(self, row: int, link: tuple[int, bool]) -> str:
        number, starts = link
        ending = '"ph":"s"' if starts else '"ph":"f","bp":"e"'
        native = self.log.threads[self.log.thread[row]][0]
        return (f'{{{ending},"id":{number},"pid":{self.pid},"tid":{native},"ts":{self._time(self.log.begin[row])},'
                '"cat":"fwdbwd","name":"fwdbwd"},\n')

    def _device_line(self, event: DeviceEvent) -> str:
        """What a device did, or the call that asked for it; an arrow joins the two."""
        host = event.category in ON_HOST
        pid, lane = (self.pid, event.stream) if host else (event.device, event.stream)
        launched_by = self.log.identities[event.row] if event.row >= 0 else 0
        args = {**({"External id": launched_by} if launched_by else {}), **event.args}
        at, length = self._time(event.begin), (event.end - event.begin) / 1000
        line = (f'{{"ph":"X","cat":"{event.category}","name":{json.dumps(event.name)},"pid":{pid},"tid":{lane},'
                f'"ts":{at},"dur":{length:.3f},"args":{json.dumps(args)}}},\n')
        number = event.args.get("correlation")
        if not number or event.category in ("overhead", "cuda_sync", "gpu_user_annotation"):
            return line
        if host and number not in self._answered:
            return line
        ending = '"ph":"s"' if host else '"ph":"f","bp":"e"'
        return line + (f'{{{ending},"id":{number},"pid":{pid},"tid":{lane},"ts":{at},"cat":"ac2g","name":"ac2g"}},\n')

    @property
    def _answered(self) -> set[int | None]:
        """Correlations of calls that started something on a device."""
        if not hasattr(self, "_correlations"):
            self._correlations = {event.args.get("correlation") for event in self.log.device
                                  if event.category not in ON_HOST}
        return self._correlations

    def end(self) -> str:
        """The span of the whole recording, and the moment after it."""
        start = self._time(self.log.base[0])
        last = max(max(self.log.end, default=0), self.log.base[0])
        length = (last - self.log.base[0]) / 1000
        return (f'{{"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"PyTorch Profiler",'
                f'"ts":{start},"dur":{length:.3f},"args":{{"Op count":0}}}},\n'
                + self._meta("process_sort_index", start, "Spans", 0, sort_index=SPANS_LAST)
                + f'{{"ph":"i","s":"g","name":"Iteration Start: PyTorch Profiler","pid":"Traces",'
                f'"tid":"Trace PyTorch Profiler","ts":{start}}},\n'
                f'{{"ph":"i","s":"g","name":"Record Window End","pid":"","tid":"","ts":{self._time(last + 1000)}}}\n')
