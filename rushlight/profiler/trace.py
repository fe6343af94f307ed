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
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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
FLUSH = 4096                     # lines to a piece


def base_time_ns() -> int:
    """The moment that times of a trace count from."""
    return int(time.time()) // TRIMESTER * TRIMESTER * 1_000_000_000


def write(source: EventSource, path: str, metadata: dict[str, str], trace_id: str) -> None:
    """Write the trace to `path`, whole or not at all; compressed where it ends in `.gz`."""
    with written(path) as file:
        for piece in _pieces(source, path, metadata, trace_id):
            file.write(piece.encode("utf-8", "surrogateescape"))


def _pieces(source: EventSource, path: str, metadata: dict[str, str], trace_id: str) -> Iterator[str]:
    base = base_time_ns()
    device = late.import_module(".cupti", __package__).describe() if source.log.device else {}
    head = {"schemaVersion": "1", "deviceProperties": "[]", **{key: json.dumps(value) for key, value in device.items()},
            "trace_id": json.dumps(trace_id), **metadata, "host_name": json.dumps(socket.gethostname()),
            "displayTimeUnit": '"ms"', "baseTimeNanoseconds": str(base)}
    yield "{\n" + "".join(f"{json.dumps(key)}: {_valid(value)},\n" for key, value in head.items())
    yield '"traceEvents": [\n'
    writer = _Writer(source, base)
    yield writer.names()
    yield from writer.events()
    yield writer.end()
    yield f'],\n"traceName": {json.dumps(os.fspath(path))}\n}}\n'


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
        self.heads: dict[tuple[int, int, int, int], tuple[str, str]] = {}
        self.index = 0

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

    def events(self) -> Iterator[str]:
        """All events: calls, labels and frames first, then memory, then what a device did."""
        log = self.log
        for first in range(0, log.host_rows, FLUSH):
            yield self._calls(first, min(first + FLUSH, log.host_rows))
        memory_rows = [row for row in range(log.host_rows) if log.kind[row] == Kind.MEMORY]
        for at in range(0, len(memory_rows), FLUSH):
            yield "".join(map(self._memory_line, memory_rows[at : at + FLUSH]))
        for at in range(0, len(log.device), FLUSH):
            yield "".join(map(self._device_line, log.device[at : at + FLUSH]))

    def _calls(self, first: int, last: int) -> str:
        """The lines of calls, labels and frames among some rows, each with that of its arrow."""
        log, heads, links, shift = self.log, self.heads, self.source.links, self.shift
        identities, index = self.source.tree.identities, self.index
        with_stacks = self.source.verbose_stacks
        lines: list[str] = []
        columns = (log.name, log.kind, log.inputs, log.thread, log.sequence, log.begin, log.end, log.module)
        rows = zip(range(first, last), *(column[first:last] for column in columns), strict=True)
        for row, name, kind, inputs, thread, sequence, begin, end, module in rows:
            if Kind.MEMORY <= kind <= Kind.MODULE:
                if kind == Kind.MEMORY:
                    continue
                self.index = index
                lines.append(self._frame_line(row))
                index += 1
                continue
            head = heads.get((name, kind, thread, inputs))
            if head is None:
                head = heads[name, kind, thread, inputs] = self._head(row)
            before, after = head
            if sequence >= 0:
                after = f',"Sequence number":{sequence},"Fwd thread id":{log.forward_thread[row]}{after}'
            if with_stacks:
                after = self._stack(row) + after
            if module >= 0:
                after = f',"Module Hierarchy":{json.dumps(log.names[module])}{after}'
            lines.append(
                f'{before}{(begin + shift) / 1000:.3f},"dur":{(end - begin) / 1000:.3f},'
                f'"args":{{"External id":{identities[row]},"Record function id":0{after}{index}}}}},\n'
            )
            index += 1
            if row in links:
                lines.append(self._arrow(row, links[row]))
        self.index = index
        return "".join(lines)

    def _head(self, row: int) -> tuple[str, str]:
        """What all calls of an op on a thread with the same arguments share: before their times, and after."""
        log, kind = self.log, self.log.kind[row]
        args = ""
        if log.inputs[row] >= 0:
            dims, types, strides, concrete = log.inputs_of(row)
            shown = {"Concrete Inputs": list(concrete), "Input type": list(types), "Input Strides": list(strides),
                     "Input Dims": list(dims)}
            args = "".join(f',"{key}":{json.dumps(value)}' for key, value in shown.items())
        name = json.dumps(log.names[log.name[row]])
        native = log.threads[log.thread[row]][0]
        return (f'{{"ph":"X","cat":"{CATEGORIES[kind]}","name":{name},"pid":{self.pid},"tid":{native},"ts":',
                args + ',"Ev Idx":')

    def _stack(self, row: int) -> str:
        stack = self.source._row_stack(row)
        return f',"Call stack":{json.dumps("".join(entry + ";" for entry in stack))}' if stack else ""

    def _frame_line(self, row: int) -> str:
        log = self.log
        number, around = self.source.python_ids
        key = (log.name[row], log.kind[row], log.thread[row], -1)
        head = self.heads.get(key)
        if head is None:
            name = log.names[log.name[row]]
            native = log.threads[log.thread[row]][0]
            module = f',"Python module id":{frames.module_number(name)}' if log.kind[row] == Kind.MODULE else ""
            head = self.heads[key] = (
                f'{{"ph":"X","cat":"python_function","name":{json.dumps(name)},"pid":{self.pid},"tid":{native},"ts":',
                module + ',"Ev Idx":',
            )
        begin, above = log.begin[row], around[row]
        return (f'{head[0]}{(begin + self.shift) / 1000:.3f},"dur":{(log.end[row] - begin) / 1000:.3f},"args":'
                f'{{"Python parent id":{"null" if above < 0 else above},"Python id":{number[row]}{head[1]}'
                f'{self.index}}}}},\n')

    def _arrow(self, row: int, link: tuple[int, bool]) -> str:
        number, starts = link
        ending = '"ph":"s"' if starts else '"ph":"f","bp":"e"'
        native = self.log.threads[self.log.thread[row]][0]
        return (f'{{{ending},"id":{number},"pid":{self.pid},"tid":{native},"ts":{self._time(self.log.begin[row])},'
                '"cat":"fwdbwd","name":"fwdbwd"},\n')

    def _memory_line(self, row: int) -> str:
        log = self.log
        kind, unit = log.device_of_memory(row)
        native = log.threads[log.thread[row]][0]
        self.index += 1
        return (f'{{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":{self.pid},"tid":{native},'
                f'"ts":{self._time(log.begin[row])},"args":{{"Total Reserved":0,"Total Allocated":{log.total[row]},'
                f'"Bytes":{log.value[row]},"Device Id":{unit},"Device Type":{kind},"Addr":{log.address[row]},'
                f'"Ev Idx":{self.index - 1}}}}},\n')

    def _device_line(self, event: DeviceEvent) -> str:
        """What a device did, or the call that asked for it; an arrow joins the two."""
        host = event.category in ON_HOST
        pid, lane = (self.pid, event.stream) if host else (event.device, event.stream)
        launched_by = self.source.tree.identities[event.row] if event.row >= 0 else 0
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
