"""Which of a list of events lie within which, by their times: for events that were made by hand or read from a file.

Enters: a list of events without relatives. Leaves: the same list, each event with its parent and children; an event
alone within another of its name is left out, and nodes of backward have the stacks of their forward calls.
Events that start on one thread and end on another have no part in this.
"""

from __future__ import annotations

from typing import Any

from .activities import DeviceType, RecordScope


def build_tree(events: list[Any]) -> None:
    """Give all events their relatives. Refuses (AssertionError) events that have some already."""
    lanes: dict[tuple, list[Any]] = {}
    for event in events:
        if not event.is_async and event.device_type == DeviceType.CPU:
            lanes.setdefault((event.thread, event.node_id), []).append(event)
    for lane in lanes.values():
        lane.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
        open_events: list[Any] = []
        for event in lane:
            start, end = event.time_range.start, event.time_range.end
            while open_events and (start >= open_events[-1].time_range.end or end > open_events[-1].time_range.end):
                open_events.pop()
            if open_events:
                if event.cpu_parent is not None:
                    raise AssertionError(f"{event.key} has an event around it already")
                open_events[-1].append_cpu_child(event)
                event.set_cpu_parent(open_events[-1])
            open_events.append(event)
    _leave_out_repeated(events)
    _lend_stacks(events)


def _leave_out_repeated(events: list[Any]) -> None:
    left_out = set()
    for event in sorted(events, key=lambda event: (event.time_range.start, -event.time_range.end)):
        parent = event.cpu_parent
        if parent is not None and parent.name == event.name and len(parent.cpu_children) == 1:
            parent.cpu_children, parent.kernels = event.cpu_children, event.kernels
            for child in event.cpu_children:
                child.cpu_parent = parent
            left_out.add(id(event))
    if left_out:
        events[:] = [event for event in events if id(event) not in left_out]


def _node_around(event: Any) -> Any:
    while event is not None and event.scope != RecordScope.BACKWARD_FUNCTION.value:
        event = event.cpu_parent
    return event


def _lend_stacks(events: list[Any]) -> None:
    """A node of backward runs in the engine: where it comes from is where its forward call stood."""
    nodes = [(event, _node_around(event)) for event in events]
    forward: dict[tuple, list[str]] = {}
    for event, node in nodes:
        if node is None and event.stack is not None:
            forward.setdefault((event.sequence_nr, event.thread), event.stack)
    for event, node in nodes:
        if node is not None:
            if node.fwd_thread is None:
                raise AssertionError(f"{node.name}: a node of backward must say on which thread its call was")
            event.stack = forward.get((node.sequence_nr, node.fwd_thread), [])
