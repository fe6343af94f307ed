"""What a recording holds, as rows that tests can read."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight import _extras

SHAPES, MEMORY, STACK, MODULES, THREADS, KERNELS = 1, 2, 4, 8, 16, 32
OP, INNER, EVALUATE, NODE, USER, KERNEL, COMPILE, MEM = range(8)
REGION, COLLECTIVE, STEP = 11, 12, 13


class Row(NamedTuple):
    """One event."""

    name: str
    kind: int
    begin: int
    end: int
    parent: int
    sequence: int
    thread: int
    inputs: Any
    value: int
    address: int
    total: int
    forward_thread: int


def rows(recording: dict[str, Any]) -> list[Row]:
    """The events of a recording, in its order."""
    columns = {name: array("q", data) for name, data in recording["columns"].items()}
    names, inputs = recording["names"], recording["inputs"]
    return [
        Row("" if c["kind"] == MEM else names[c["name"]], c["kind"], c["begin"], c["end"], c["parent"], c["sequence"],
            c["thread"], inputs[c["inputs"]] if c["inputs"] >= 0 else None, c["value"], c["address"], c["total"],
            c["forward_thread"])
        for c in (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    ]


def record(call: Callable[[], Any], flags: int = 0) -> list[Row]:
    """The events of a call; what it raises is raised when the recording is over."""
    _extras.profile_start(flags)
    try:
        call()
    finally:
        recording = _extras.profile_stop()
    return rows(recording)


def top(events: list[Row], kinds: tuple[int, ...] = (OP, INNER, EVALUATE)) -> list[Row]:
    """Events that are in no other."""
    return [e for e in events if e.parent < 0 and e.kind in kinds]
