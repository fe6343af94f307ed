"""Events of one key added up, column by column: `key_averages` without an object per event.

Enters: the rows of a recording and what keeps groups apart. Leaves: one `FunctionEventAvg` per group, in the order in
which the groups first appear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .activities import LABEL_KINDS, SCOPES, DeviceType, Kind
from .events import FunctionEventAvg

if TYPE_CHECKING:
    from .event_source import EventSource


def _groups(source: EventSource, by_shape: bool, by_stack: int, by_overload: bool) -> dict[Any, list[int]]:
    """Key -> its rows, in their order."""
    log, rows = source.log, source.tree.rows
    name, kind = log.name, log.kind
    keys: list[Any] = list(range(len(log.names)))
    steps = [number for number, key in enumerate(log.key_names) if key != log.names[number]]
    for number in steps:
        keys[number] = steps[0]
    groups: dict[Any, list[int]] = {}
    # Labels, and what a device does, stand apart from calls of the same name.
    apart = [(2 if k == Kind.DEVICE else 1 if k in LABEL_KINDS else 0) * len(keys) for k in range(len(SCOPES))]
    plain = not (by_shape or by_stack or by_overload)
    for row in rows:
        key = keys[name[row]] + apart[kind[row]]
        if not plain:
            key = (key, str(log.inputs_of(row)[0]) if by_shape else "",
                   log.overload[row] if by_overload and source.overload_names else -1,
                   tuple(source._row_stack(row)[:by_stack]) if by_stack else ())
        group = groups.get(key)
        if group is None:
            groups[key] = [row]
        else:
            group.append(row)
    return groups


def _sum(column: list[int] | None, rows: list[int]) -> int:
    return 0 if column is None else sum(map(column.__getitem__, rows))


def averaged(source: EventSource, by_shape: bool, by_stack: int, by_overload: bool) -> list[FunctionEventAvg]:
    """One average per group."""
    log, tree = source.log, source.tree
    begin, end, own_time = log.begin, log.end, tree.own_time
    device_time, own_device_time = (tree.device_time, tree.own_device_time) if log.device else ({}, {})
    result = []
    for group in _groups(source, by_shape, by_stack, by_overload).values():
        first = group[0]
        kind = log.kind[first]
        whole = sum(map(end.__getitem__, group)) - sum(map(begin.__getitem__, group))
        on_device = kind == Kind.DEVICE
        overload = log.overload[first]
        result.append(FunctionEventAvg.of_totals(source, first, {
            "key": log.key_names[log.name[first]], "count": len(group), "node_id": -1, "is_async": False,
            "is_remote": False, "use_device": source.use_device,
            "cpu_time_total": 0 if on_device else whole / 1000,
            "self_cpu_time_total": 0 if on_device else sum(map(own_time.__getitem__, group)) / 1000,
            "device_time_total": (whole if on_device else sum(device_time.get(row, 0) for row in group)) / 1000
            if source.use_device and log.device else 0,
            "self_device_time_total":
                (whole if on_device else sum(own_device_time.get(row, 0) for row in group)) / 1000
                if source.use_device and log.device else 0,
            "input_shapes": source.event(first).input_shapes if by_shape else "",
            "overload_name":
                log.names[overload] if by_overload and source.overload_names and overload >= 0 else "",
            "stack": source._row_stack(first)[:by_stack] if by_stack > 0 else [],
            "scope": SCOPES[kind],
            "cpu_memory_usage": _sum(tree.memory, group), "device_memory_usage": _sum(tree.device_memory, group),
            "self_cpu_memory_usage": _sum(tree.own_memory, group),
            "self_device_memory_usage": _sum(tree.own_device_memory, group),
            "device_type": DeviceType.CUDA if on_device else DeviceType.CPU, "is_legacy": False,
            "flops": sum(map(source.flops, group)) if source.with_flops else 0,
            "is_user_annotation": kind in LABEL_KINDS
            or (on_device and log.device_event(first).category == "gpu_user_annotation"),
        }))
    return result
