"""Records of CUPTI, and launches timed by events, as rows of a recording.

Enters: columns of `_C.cuda_activity_stop` or rows of `_C.cuda_timing_stop`, and the recording during which they were
made. Leaves: (name, device, stream, begin, end, category, row of the launching op, args) with Kineto's names,
categories and args. The op of a call is the innermost one open on its thread when the call began; the op of a kernel is
that of the call with its correlation number. A call that the launch queue's thread made belongs to the thread and the
moment that asked for it; of a batch of launches, which is one call, the kernels come in the order they were asked for.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy

from ..devices.cuda import find
from .activities import Kind
from .device_events import WORK

KERNEL, COPY, COPY_BETWEEN, FILL, DRIVER, RUNTIME, OVERHEAD, WAIT = 10, 1, 22, 2, 4, 5, 17, 38
WAYS = {0: "Unknown", 1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD",
        9: "HtoH", 10: "PtoP"}
PLACES = {0: "Unknown", 1: "Pageable", 2: "Pinned", 3: "Device", 4: "Array", 5: "Managed", 6: "Device Static",
          7: "Managed Static"}
OVERHEADS = {1: "Driver Compiler", 1 << 16: "Buffer Flush", 2 << 16: "Instrumentation", 3 << 16: "Resource",
             4 << 16: "Runtime Triggered Module Loading", 5 << 16: "Lazy Function Loading",
             6 << 16: "Command Buffer Full", 7 << 16: "Activity Buffer Request", 8 << 16: "UVM Activity Init"}
WAITED = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
NONE = (1 << 32) - 1             # CUPTI's number of no stream and no event
# Rows in which a call may be made: not frames and memory, and not what lies below an op.
LAUNCHERS = (Kind.OP, Kind.INNER, Kind.EVALUATE, Kind.NODE, Kind.USER, Kind.REGION, Kind.COLLECTIVE, Kind.STEP)
LABELS = (Kind.USER, Kind.STEP)
HOST_WAYS = ("HtoD", "DtoH", "DtoD")                   # as device_table.h numbers them
BLOCKS_OF_UNIT = 32              # that a multiprocessor holds at most
REGISTERS_AT_ONCE = 256          # of a warp are given out together

Row = tuple[str, int, int, int, int, str, int, dict[str, Any]]


class Launchers:
    """Which row of a recording was the innermost at a moment on a thread; of some kinds of row alone."""

    def __init__(self, recording: dict[str, Any], kinds: Iterable[int] = LAUNCHERS) -> None:
        columns = {name: numpy.frombuffer(held, numpy.int64) for name, held in recording["columns"].items()}
        self.end = columns["end"]
        usable = numpy.isin(columns["kind"], list(kinds))
        self.up = columns["parent"].copy()
        while len(skipped := numpy.flatnonzero((self.up >= 0) & ~usable[self.up])):
            self.up[skipped] = self.up[self.up[skipped]]
        self.threads: dict[int, tuple[Any, Any]] = {}
        for number, (native, *_) in enumerate(recording["threads"]):
            rows = numpy.flatnonzero(usable & (columns["thread"] == number))
            self.threads[native] = rows, columns["begin"][rows]

    def at(self, threads: Any, moments: Any) -> Any:
        """Rows, or -1, for native numbers of threads and moments of theirs."""
        found = numpy.full(len(moments), -1, numpy.int64)
        for native in numpy.unique(threads):
            rows, begins = self.threads.get(int(native), ((), ()))
            if not len(rows):
                continue
            mine = numpy.flatnonzero(threads == native)
            place = numpy.searchsorted(begins, moments[mine], "right") - 1
            row = numpy.where(place >= 0, rows[numpy.maximum(place, 0)], -1)
            while len(over := numpy.flatnonzero((row >= 0) & (self.end[row] < moments[mine]))):
                row[over] = self.up[row[over]]
            found[mine] = row
        return found


class Calls(NamedTuple):
    """Who asked for each call and when; of calls that were batches, the jobs they made: (first, how many)."""

    threads: Any
    moments: Any
    batches: dict[int, tuple[int, int]]      # by correlation


def askers(columns: dict[str, Any], jobs: dict[str, Any]) -> Calls:
    """Calls as they were made, those of the launch queue's thread as they were asked for. `jobs` by their begin."""
    threads, moments, batches = columns["thread"].copy(), columns["begin"].copy(), {}
    if len(jobs["begin"]):
        last = numpy.searchsorted(jobs["begin"], moments, "right") - 1
        queued = (last >= 0) & (threads == jobs["worker"][last]) & (moments <= jobs["end"][last])
        for at in numpy.flatnonzero(queued):
            first = int(numpy.searchsorted(jobs["begin"], jobs["begin"][last[at]], "left"))
            threads[at], moments[at] = jobs["asker"][first], jobs["asked"][first]
            if last[at] > first:
                batches[int(columns["correlation"][at])] = first, int(last[at]) - first + 1
    return Calls(threads, moments, batches)


def launching_rows(columns: dict[str, Any], jobs: dict[str, Any], launchers: Launchers) -> Any:
    """The row of the op to which each record belongs, or -1."""
    is_call = numpy.isin(columns["kind"], (DRIVER, RUNTIME))
    found = numpy.full(len(is_call), -1, numpy.int64)
    calls = askers({name: column[is_call] for name, column in columns.items()}, jobs)
    asked_in = launchers.at(calls.threads, calls.moments)
    rows = dict(zip(columns["correlation"][is_call].tolist(), asked_in.tolist()))
    found[is_call] = numpy.where(calls.threads == columns["thread"][is_call], asked_in, -1)     # on another: beside it
    for at in numpy.flatnonzero(~is_call & (columns["kind"] != OVERHEAD)):
        found[at] = rows.get(int(columns["correlation"][at]), -1)
    for correlation, (first, count) in calls.batches.items():
        kernels = numpy.flatnonzero((columns["correlation"] == correlation) & (columns["kind"] == KERNEL))
        if len(kernels) == count:
            kernels = kernels[numpy.argsort(columns["begin"][kernels], kind="stable")]
            asked = slice(first, first + count)
            found[kernels] = launchers.at(jobs["asker"][asked], jobs["asked"][asked])
    return found


def from_records(found: dict[str, Any], recording: dict[str, Any]) -> list[Row]:
    """Rows of CUPTI's records, and one for each label within which something was launched."""
    columns, jobs = (
        {name: numpy.frombuffer(held, numpy.int64) for name, held in found[part].items()}
        for part in ("columns", "jobs")
    )
    launched = launching_rows(columns, jobs, Launchers(recording)).tolist()
    listed = {name: column.tolist() for name, column in columns.items()}
    units = dict(zip(listed["context"], listed["device"])) | {
        context: unit for context, unit, kind in zip(listed["context"], listed["device"], listed["kind"])
        if kind in (KERNEL, COPY, FILL)
    }
    rows = []
    for at, kind in enumerate(listed["kind"]):
        record = {name: column[at] for name, column in listed.items()}
        if kind == WAIT:
            record["device"] = units[record["context"]]
        rows.append(MADE[kind](record, found["names"], launched[at]))
    return rows + label_rows(rows, recording)


def label_rows(rows: Iterable[Row], recording: dict[str, Any]) -> list[Row]:
    """For each label, unit and stream: from the first thing that was started within the label to the last one's end."""
    columns = {name: memoryview(recording["columns"][name]).cast("q") for name in ("kind", "parent", "name")}
    spans: dict[tuple[int, int, int], tuple[int, int]] = {}
    for _, unit, stream, begin, end, category, row, _ in rows:
        if category not in WORK:
            continue
        while row >= 0 and columns["kind"][row] not in LABELS:
            row = columns["parent"][row]
        if row >= 0:
            first, last = spans.get((row, unit, stream), (begin, end))
            spans[row, unit, stream] = min(first, begin), max(last, end)
    names = recording["names"]
    return [
        (names[columns["name"][row]], unit, stream, begin, end, "gpu_user_annotation", row, {})
        for (row, unit, stream), (begin, end) in spans.items()
    ]


# --- one record ------------------------------------------------------------------------------------------------------


def _of_unit(record: dict[str, int], more: dict[str, Any]) -> dict[str, Any]:
    graph = {"graph id": record["graph"], "graph node id": record["node"]} if record["graph"] else {}
    return {"device": record["device"], "context": record["context"], "stream": record["stream"],
            "correlation": record["correlation"], **more, **graph}


def _row(name: str, category: str, record: dict[str, int], row: int, args: dict[str, Any]) -> Row:
    return name, record["device"], record["stream"], record["begin"], record["end"], category, row, args


def kernel_row(record: dict[str, int], names: list[str], row: int) -> Row:
    """A kernel's run, with what its launch was like."""
    grid = [record["grid_x"], record["grid_y"], record["grid_z"]]
    block = [record["block_x"], record["block_y"], record["block_z"]]
    shape = launch_shape(record["device"], *grid, *block, record["registers"], record["shared"])
    args = {"queued": 0, **_of_unit(record, {
        "registers per thread": record["registers"], "shared memory": record["shared"], **shape, "grid": grid,
        "block": block, "est. achieved occupancy %": occupancy(record["device"], record["registers"],
                                                               record["shared"], *block, shape["blocks per SM"])})}
    return _row(names[record["name"]], "kernel", record, row, args)


def _moved(record: dict[str, int]) -> dict[str, Any]:
    took = record["end"] - record["begin"]
    return {"bytes": record["bytes"], "memory bandwidth (GB/s)": record["bytes"] / took if took else 0.0}


def copy_row(record: dict[str, int], names: list[str], row: int) -> Row:
    """A copy, from one kind of memory to another."""
    more = _moved(record)
    if record["kind"] == COPY_BETWEEN:
        more.update(fromDevice=record["detail"] >> 32, inDevice=record["device"], toDevice=record["detail"] & NONE)
    places = f"{PLACES.get(record['from'], 'Unknown')} -> {PLACES.get(record['to'], 'Unknown')}"
    name = f"Memcpy {WAYS.get(record['way'], 'Unknown')} ({places})"
    return _row(name, "gpu_memcpy", record, row, _of_unit(record, more))


def fill_row(record: dict[str, int], names: list[str], row: int) -> Row:
    """A fill of memory with one value."""
    name = f"Memset ({PLACES.get(record['to'], 'Unknown')})"
    return _row(name, "gpu_memset", record, row, _of_unit(record, _moved(record)))


def call_row(record: dict[str, int], names: list[str], row: int) -> Row:
    """A call of the driver or the runtime, on the thread that made it."""
    name, category = names[record["name"]], "cuda_driver"
    if record["kind"] == RUNTIME:      # its names end in the version that brought them, such as _v7000
        name, category = re.sub(r"(_ptsz|_ptds)?_v\d{4,}$", "", name), "cuda_runtime"
    args = {"cbid": record["detail"], "correlation": record["correlation"]}
    return name, -1, record["thread"], record["begin"], record["end"], category, row, args


def wait_row(record: dict[str, int], names: list[str], row: int) -> Row:
    """A stretch in which somebody waited for a unit."""
    args = {"correlation": record["correlation"]}
    if record["detail"] != NONE:
        args["wait_on_cuda_event_id"] = record["detail"]
    stream = -1 if record["stream"] == NONE else record["stream"]
    name = WAITED.get(record["way"], "Sync")
    return name, record["device"], stream, record["begin"], record["end"], "cuda_sync", row, args


def overhead_row(record: dict[str, int], names: list[str], row: int) -> Row:
    """Time that the driver or CUPTI took for itself."""
    name = OVERHEADS.get(record["way"], "Unknown")
    return name, -1, record["thread"], record["begin"], record["end"], "overhead", -1, {}


MADE = {KERNEL: kernel_row, COPY: copy_row, COPY_BETWEEN: copy_row, FILL: fill_row, DRIVER: call_row, RUNTIME: call_row,
        WAIT: wait_row, OVERHEAD: overhead_row}


# --- what a unit is ---------------------------------------------------------------------------------------------------


@functools.cache
def properties(unit: int) -> dict[str, Any]:
    """A unit as the head of a trace has it."""
    device = find()
    assert device is not None, "a unit did something"
    driver = device.driver
    ask = functools.partial(driver.attribute, unit)
    return {
        "id": unit, "name": driver.name(unit), "totalGlobalMem": driver.total_memory(unit),
        "computeMajor": ask("major"), "computeMinor": ask("minor"), "maxThreadsPerBlock": ask("max_threads_per_block"),
        "maxThreadsPerMultiprocessor": ask("max_threads_per_multi_processor"), "regsPerBlock": ask("regs_per_block"),
        "warpSize": ask("warp_size"), "sharedMemPerBlock": ask("shared_memory_per_block"),
        "numSms": ask("multi_processor_count"), "regsPerMultiprocessor": ask("regs_per_multiprocessor"),
        "sharedMemPerBlockOptin": ask("shared_memory_per_block_optin"),
        "sharedMemPerMultiprocessor": ask("shared_memory_per_multiprocessor"),
    }


@functools.lru_cache(4096)
def launch_shape(unit: int, x: int, y: int, z: int, *block_and_rest: int) -> dict[str, float]:
    """Blocks and warps for each multiprocessor of a launch."""
    known = properties(unit)
    blocks = x * y * z / known["numSms"]
    threads = block_and_rest[0] * block_and_rest[1] * block_and_rest[2]
    return {"blocks per SM": round(blocks, 6), "warps per SM": round(blocks * threads / known["warpSize"], 6)}


@functools.lru_cache(4096)
def occupancy(unit: int, registers: int, shared: int, x: int, y: int, z: int, blocks: float) -> int:
    """Percent of the threads a multiprocessor can hold that a launch can have there, by its registers and memory."""
    known = properties(unit)
    threads, warp = x * y * z, known["warpSize"]
    if not threads:
        return 0
    warps = -(-threads // warp)
    most = [BLOCKS_OF_UNIT, known["maxThreadsPerMultiprocessor"] // (warps * warp), blocks]
    if registers:
        of_warp = -(-registers * warp // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
        most.append(known["regsPerMultiprocessor"] // of_warp // warps)
    if shared:
        most.append(known["sharedMemPerMultiprocessor"] // shared)
    return int(0.5 + 100 * min(most) * threads / known["maxThreadsPerMultiprocessor"])


# --- without CUPTI ----------------------------------------------------------------------------------------------------


def from_timed(timed: list[tuple[Any, ...]], recording: dict[str, Any], mark: str) -> list[Row]:
    """Rows of launches and copies that events of the driver timed; `mark` in their args says so."""
    threads, moments = (numpy.array([one[k] for one in timed], numpy.int64) for k in (8, 6))
    launched = Launchers(recording).at(threads, moments).tolist()
    rows: list[Row] = []
    for number, ((name, way, unit, stream, begin, end, called, returned, thread, nbytes), row) in enumerate(
        zip(timed, launched), 1
    ):
        args = {"device": unit, "stream": stream, "correlation": number, "measured by": mark}
        call, category = "launch", "kernel"
        if way >= 0:
            name, call, category = f"Memcpy {HOST_WAYS[way]}", "copy", "gpu_memcpy"
            args["bytes"] = nbytes
        rows.append((name, unit, stream, begin, end, category, row, args))
        rows.append((call, -1, thread, called, returned, "cuda_driver", row, {"correlation": number}))
    return rows + label_rows(rows, recording)
