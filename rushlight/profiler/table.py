"""A list of events as text: PyTorch's columns, in its order, widths and units.

Enters: events or averages, already sorted, and which columns the profiler was asked for. Leaves: the table. Columns
that no event has anything for are left out: shapes, overloads, frames, a device's time and memory, operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .activities import DeviceType
from .units import flops_unit, memory_text, share_text, time_text

GAP = "  "
WIDTH = 12
DEVICES = (DeviceType.CUDA, DeviceType.PrivateUse1, DeviceType.MTIA, DeviceType.XPU)


class Widths(NamedTuple):
    """How wide columns of text may get; None: as wide as what is in them."""

    name: int | None
    shapes: int | None
    source: int | None

    @staticmethod
    def fit(longest: int, limit: int | None) -> int:
        return longest + 4 if limit is None else min(longest + 4, limit)


class Column(NamedTuple):
    """One column: its heading, its width, where text stands in it, and what an event has there."""

    heading: str
    width: int
    side: str
    of: Callable[[Any], Any]


def shortened(name: str, limit: int | None) -> str:
    """A name that fits its column."""
    return name if limit is None or len(name) < limit - 3 else name[: limit - 3] + "..."


def end_of_path(path: str, width: int) -> str:
    """The end of a path too long for its column, which says more than its beginning."""
    if len(path) <= width:
        return path
    path = path[len(path) - width :]
    return "..." + path[3:] if len(path) > 3 else path


class _Totals(NamedTuple):
    cpu: float
    device: float


def _totals(events: Sequence[Any]) -> _Totals:
    cpu: float = 0
    device: float = 0
    for event in events:
        cpu += event.self_cpu_time_total
        if event.device_type == DeviceType.CPU:
            device += event.self_device_time_total if event.is_legacy else 0
        elif event.device_type in DEVICES and not event.is_user_annotation:
            device += event.self_device_time_total
    return _Totals(cpu, device)


def _shares(events: Sequence[Any], totals: _Totals) -> tuple[Callable, Callable, Callable]:
    """Shares of the total, which events keep: own and whole time of the CPU, own time of the device."""

    def own(event: Any) -> str:
        event.self_cpu_percent = share_text(event.self_cpu_time_total, totals.cpu)
        return event.self_cpu_percent

    def whole(event: Any) -> Any:
        event.total_cpu_percent = 0 if event.is_async else share_text(event.cpu_time_total, totals.cpu)
        return event.total_cpu_percent

    def device(event: Any) -> str:
        event.total_device_percent = share_text(event.self_device_time_total, totals.device)
        return event.total_device_percent

    return own, whole, device


def _times(attribute: str, unit: str | None) -> Callable[[Any], str]:
    return lambda event: time_text(getattr(event, attribute), unit)


def _columns(events: Sequence[Any], totals: _Totals, widths: Widths, with_memory: bool, with_flops: bool,
             unit: str | None) -> list[Column]:
    """All columns but the frames, which are several lines."""
    own, whole, own_device = _shares(events, totals)
    name_width = Widths.fit(max(len(event.key) for event in events), widths.name)
    columns = [Column("Name", name_width, ">", lambda event: shortened(event.key, widths.name))]
    if any(event.overload_name for event in events):
        columns.append(
            Column("Overload Name", name_width, ">", lambda event: shortened(event.overload_name, widths.name))
        )

    def add(heading: str, of: Callable[[Any], Any]) -> None:
        columns.append(Column(heading, WIDTH, ">", of))

    add("Self CPU %", own)
    add("Self CPU", _times("self_cpu_time_total", unit))
    add("CPU total %", whole)
    add("CPU total", _times("cpu_time_total", unit))
    add("CPU time avg", _times("cpu_time", unit))
    device = events[0].use_device
    if any(event.self_device_time_total > 0 for event in events):
        if not device:
            raise RuntimeError("table: events have times of a device, but no device was named (use_device is None)")
        add(f"Self {device.upper()}", _times("self_device_time_total", unit))
        add(f"Self {device.upper()} %", own_device)
        add(f"{device.upper()} total", _times("device_time_total", unit))
        add(f"{device.upper()} time avg", _times("device_time", unit))
    if with_memory:
        add("CPU Mem", lambda event: memory_text(event.cpu_memory_usage))
        add("Self CPU Mem", lambda event: memory_text(event.self_cpu_memory_usage))
        if device and any(event.self_device_memory_usage > 0 for event in events):
            add(f"{device.upper()} Mem", lambda event: memory_text(event.device_memory_usage))
            add(f"Self {device.upper()} Mem", lambda event: memory_text(event.self_device_memory_usage))
    add("# of Calls", lambda event: event.count)
    if any(event.node_id != -1 for event in events):
        add("Node ID", lambda event: event.node_id)
    if any(event.input_shapes for event in events):
        width = Widths.fit(max(len(str(event.input_shapes)) for event in events), widths.shapes)
        columns.append(Column("Input Shapes", width, ">", lambda event: str(event.input_shapes)[:width]))
    counted = [event.flops for event in events if event.flops and event.flops > 0] if with_flops else []
    if counted:
        factor, name = flops_unit(min(counted))
        add(f"Total {name}", lambda event: f"{event.flops * factor:8.3f}" if event.flops > 0 else "--")
    return columns


def text(events: Sequence[Any], row_limit: int, widths: Widths, header: str | None, with_memory: bool,
         with_flops: bool, top_level_only: bool, unit: str | None) -> str:
    """The table of `events`, at most `row_limit` of them; empty where there are none."""
    if not len(events):
        return ""
    totals = _totals(events)
    columns = _columns(events, totals, widths, with_memory, with_flops, unit)
    longest = max((len(entry) for event in events for entry in event.stack or ()), default=None)
    if longest is not None:
        source = Widths.fit(longest, widths.source)
        frames = Column("Source Location", source, "<", lambda event: "")
        # frames stand before the operations, as wide text does
        columns.insert(len(columns) - columns[-1].heading.endswith("FLOPs"), frames)
    line = "".join(f"{{: {column.side}{column.width}}}{GAP}" for column in columns)
    rule = "".join("-" * column.width + GAP for column in columns)
    wide = "=" * (len(rule) - len(GAP))
    lines = []
    if header is not None:
        lines += [wide, header]
    if top_level_only:
        lines += [wide, "This report only display top-level ops statistics"]
    lines += [rule, line.format(*(column.heading for column in columns)), rule]
    shown = 0
    for event in events:
        if shown == row_limit:
            break
        if top_level_only and event.cpu_parent is not None:
            continue
        shown += 1
        lines += _rows(event, columns, line, None if longest is None else source)
    lines += [rule, f"Self CPU time total: {time_text(totals.cpu, unit)}"]
    if any(column.heading.endswith("time avg") and column.heading != "CPU time avg" for column in columns):
        lines.append(f"Self {events[0].use_device.upper()} time total: {time_text(totals.device, unit)}")
    return "".join(entry + "\n" for entry in lines)


def _rows(event: Any, columns: list[Column], line: str, source: int | None) -> list[str]:
    """An event's line; with frames, one line for each and an empty one after them."""
    values = [column.of(event) for column in columns]
    if source is None:
        return [line.format(*values)]
    at = next(i for i, column in enumerate(columns) if column.heading == "Source Location")
    stack = list(event.stack or ())
    values[at] = end_of_path(stack[0], source) if stack else ""
    rows = [line.format(*values)]
    for entry in [*stack[1:], ""]:
        blank = [""] * len(columns)
        blank[at] = end_of_path(entry, source)
        rows.append(line.format(*blank))
    return rows
