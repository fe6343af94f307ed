"""What memory is held for, over time: parameters, gradients, activations, optimizer state, inputs, temporaries.

Enters: the events of a recording with shapes, memory and stacks, and what was known of parameters and optimizers when
it ended (`owners.py`). Leaves: `[times, sizes by category]`, every single change, or a page that draws them, from disk
and without a network. An allocation is told by where it was made and how long it lived: see `_Reader._category`.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from typing import NamedTuple

from .. import _C
from .activities import PYTHON_KINDS, Kind
from .event_source import EventSource
from .files import written
from .memory_page import page
from .owners import Owners
from .recording import Log


class Category(enum.Enum):
    """What memory is held for."""

    INPUT = 1
    TEMPORARY = 2
    ACTIVATION = 3
    GRADIENT = 4
    AUTOGRAD_DETAIL = 5
    PARAMETER = 6
    OPTIMIZER_STATE = 7


# In the order in which sizes stand in files, with the colours of a drawing. None: it is not known.
_CATEGORY_TO_COLORS: dict[Category | None, str] = {
    Category.PARAMETER: "darkgreen", Category.OPTIMIZER_STATE: "goldenrod", Category.INPUT: "black",
    Category.TEMPORARY: "mediumpurple", Category.ACTIVATION: "red", Category.GRADIENT: "mediumblue",
    Category.AUTOGRAD_DETAIL: "royalblue", None: "grey",
}
_CATEGORY_TO_INDEX = {category: index for index, category in enumerate(_CATEGORY_TO_COLORS)}


class Action(enum.Enum):
    """What happened to memory."""

    PREEXISTING = 1
    CREATE = 2
    INCREMENT_VERSION = 3
    DESTROY = 4


class Change(NamedTuple):
    """One thing that happened: when (wall clock, ns; -1: before the recording), what, where, how much and for what."""

    time: int
    action: Action
    device: tuple[int, int]          # kind, index
    num_bytes: int
    category: Category | None


class Allocation(NamedTuple):
    """Memory that was held: when (wall clock, ns; -1: since before the recording, until after it), for what, and the
    Python frames that asked for it, the innermost first."""

    address: int
    num_bytes: int
    device: tuple[int, int]          # kind, index
    begin: int
    end: int
    category: str
    stack: list[str]


class _Block:
    """An allocation: the row that made it, the row that gave it back, and its size."""

    __slots__ = ("address", "born", "device", "gone", "num_bytes", "user")

    def __init__(self, address: int, num_bytes: int, device: tuple[int, int], born: int) -> None:
        self.address, self.num_bytes, self.device, self.born = address, num_bytes, device, born
        self.gone = -1
        self.user = -1               # the row that first used it, of memory that was there before


class MemoryProfile:
    """The allocations of a recording, each with its category."""

    def __init__(self, source: EventSource) -> None:
        self._reader = _Reader(source.log, source.owners)
        self.timeline: tuple[Change, ...] = tuple(self._reader.changes())

    def allocations(self) -> list[Allocation]:
        """All of them, in the order in which they are first seen."""
        return [self._reader.allocation(block) for block in self._reader.blocks]


class _Reader:
    """Reads allocations from a log, and tells what each was for."""

    def __init__(self, log: Log, owners: Owners) -> None:
        self.log, self.owners = log, owners
        self.shift = log.base[1] - log.base[0]
        self.blocks: list[_Block] = []
        self.mutations: list[tuple[int, _Block]] = []
        self.is_optimizer = [name.startswith("Optimizer.step#") for name in log.names]
        self._read()

    def _read(self) -> None:
        """Follow addresses through time: who holds each, from when to when."""
        log = self.log
        live: dict[tuple[int, tuple[int, int]], _Block] = {}
        moments = [(log.begin[row], 1, row) for row in range(log.host_rows) if log.kind[row] == Kind.MEMORY]
        moments += [(log.begin[row], 0, row) for row in log.uses]
        for _, is_memory, row in sorted(moments):
            if is_memory:
                self._allocated(row, live)
            else:
                self._used(row, live)
        seen = {block.address for block in self.blocks}
        for address, size in self.owners.parameters():
            if address not in seen:
                self.blocks.append(_Block(address, size, (0, -1), -1))

    def _allocated(self, row: int, live: dict) -> None:
        log = self.log
        device, size = log.device_of_memory(row), log.value[row]
        at = (log.address[row], device)
        if size > 0:
            live[at] = _Block(log.address[row], size, device, row)
            self.blocks.append(live[at])
        elif size < 0:
            block = live.pop(at, None)
            if block is None:
                block = _Block(log.address[row], -size, device, -1)
                self.blocks.append(block)
            block.gone = row

    def _used(self, row: int, live: dict) -> None:
        """The tensors that an op was given: memory that was there before is first seen here."""
        log = self.log
        in_place = log.names[log.name[row]].endswith("_")
        for place, (address, num_bytes, device) in enumerate(log.uses[row]):
            block = live.get((address, device))
            if block is None:
                block = live[address, device] = _Block(address, num_bytes, device, -1)
                block.user = row
                self.blocks.append(block)
            if in_place and place == 0:
                self.mutations.append((row, block))

    def _ancestors(self, row: int) -> Iterator[int]:
        while row >= 0:
            yield row
            row = self.log.parent[row]

    def _node_around(self, row: int) -> int:
        """The outermost node of backward around a row, or -1."""
        found = -1
        for above in self._ancestors(row):
            if self.log.kind[above] == Kind.EVALUATE:
                found = above
        return found

    def _optimizer_around(self, row: int) -> int:
        return next((above for above in self._ancestors(row) if self.is_optimizer[self.log.name[above]]), -1)

    def _op_around(self, row: int) -> int:
        """The outermost op of the program around a row, or -1."""
        found = -1
        for above in self._ancestors(row):
            if self.log.kind[above] == Kind.OP:
                found = above
        return found

    def category(self, block: _Block) -> Category | None:
        """What a block was for.

        Parameters and optimizer state are known by their addresses. Of the rest: what lives and dies within one op is
        temporary; what backward makes is a gradient if it outlives backward, else a detail of it; what a step of an
        optimizer makes and leaves is its state; what an op makes of other tensors is an activation, and what one makes
        of none is an input, as is memory from before that an op of the program uses.
        """
        known = self.owners.category(block.address, block.num_bytes)
        if known is not None and (block.gone < 0 or block.born < 0):
            return Category[known]
        if block.born < 0:
            return self._older(block)
        log = self.log
        op = self._op_around(block.born)
        node = self._node_around(block.born)
        around = node if node >= 0 else op
        if around >= 0 and block.gone >= 0 and log.begin[block.gone] <= log.end[around] \
                and log.thread[block.gone] == log.thread[around]:
            return Category.TEMPORARY
        if node >= 0:
            return Category.GRADIENT if self._outlives_backward(block, node) else Category.AUTOGRAD_DETAIL
        optimizer = self._optimizer_around(block.born)
        if optimizer >= 0:
            outlives = block.gone < 0 or log.begin[block.gone] > log.end[optimizer]
            return Category.OPTIMIZER_STATE if outlives else Category.TEMPORARY
        if op < 0:
            return None
        return Category.ACTIVATION if self._has_tensors(op) else Category.INPUT

    def _older(self, block: _Block) -> Category | None:
        """Of memory that was there before: what an op of forward uses is an input, an optimizer's is a gradient."""
        if block.user < 0:
            return None
        if self._node_around(block.user) >= 0:
            return None
        return Category.GRADIENT if self._optimizer_around(block.user) >= 0 else Category.INPUT

    def _outlives_backward(self, block: _Block, node: int) -> bool:
        """Whether a block made at a node is still there when no node runs any more: the next row is no node's."""
        log = self.log
        if block.gone < 0:
            return True
        return self._node_around(block.gone) < 0 and log.begin[block.gone] > log.end[node] \
            and not self._in_backward(block.gone)

    def _in_backward(self, row: int) -> bool:
        """Whether nodes run before and after a moment without anything of the program between: still in backward."""
        log, at = self.log, row
        while at + 1 < log.host_rows and log.kind[at] == Kind.MEMORY:
            at += 1
        return log.kind[at] == Kind.EVALUATE and log.thread[at] == log.thread[row]

    def _has_tensors(self, op: int) -> bool:
        types = self.log.inputs_of(op)[1]
        return any(kind not in ("", "Scalar", "ScalarList") for kind in types)

    def _time(self, row: int) -> int:
        return -1 if row < 0 else self.log.begin[row] + self.shift

    def allocation(self, block: _Block) -> Allocation:
        """A block as it is shown to others."""
        category, log = self.category(block), self.log
        stack = [log.names[log.name[row]] for row in self._ancestors(block.born) if log.kind[row] in PYTHON_KINDS]
        return Allocation(block.address, block.num_bytes, block.device, self._time(block.born), self._time(block.gone),
                          "unknown" if category is None else category.name.lower(), stack)

    def changes(self) -> list[Change]:
        """All that happened, in the order of time."""
        found = []
        categories = {id(block): self.category(block) for block in self.blocks}
        for block in self.blocks:
            category = categories[id(block)]
            action = Action.PREEXISTING if block.born < 0 else Action.CREATE
            found.append(Change(self._time(block.born), action, block.device, block.num_bytes, category))
            if block.gone >= 0:
                found.append(Change(self._time(block.gone), Action.DESTROY, block.device, block.num_bytes, category))
        for row, block in self.mutations:
            found.append(Change(self._time(row), Action.INCREMENT_VERSION, block.device, block.num_bytes,
                                categories[id(block)]))
        return sorted(found, key=lambda change: (change.time, change.action.value))


class MemoryProfileTimeline:
    """The changes of a profile, added up by time and category."""

    def __init__(self, memory_profile: MemoryProfile) -> None:
        self.timeline = memory_profile.timeline

    def _of(self, device_str: str) -> list[Change]:
        device = _C.device(device_str)
        wanted = (0, -1) if device.type == "cpu" else (1, device.index or 0)
        return [change for change in self.timeline if change.device == wanted]

    def _coalesce_timeline(self, device_str: str) -> tuple[list[int], list[list[int]]]:
        """(times in microseconds, per time a 0 and the bytes of each category)."""
        times: list[int] = []
        sizes: list[list[int]] = []
        for change in self._of(device_str):
            time = change.time if change.time < 0 else change.time // 1000
            if not times:
                sizes.append([0] * (len(_CATEGORY_TO_INDEX) + 1))
                times.append(time)
            elif time != times[-1]:
                sizes.append(list(sizes[-1]))
                times.append(time)
            place = _CATEGORY_TO_INDEX[change.category] + 1
            if change.action in (Action.PREEXISTING, Action.CREATE):
                sizes[-1][place] += change.num_bytes
            elif change.action is Action.DESTROY:
                sizes[-1][place] -= change.num_bytes
        first = next((time for time in times if time >= 0), -1)
        return [first if time < 0 else time for time in times], sizes

    def export_memory_timeline(self, path: str, device_str: str) -> None:
        """Write `[times, sizes]`; compressed where the path ends in `.gz`."""
        with written(path) as file:
            file.write(json.dumps(self._coalesce_timeline(device_str)).encode())

    def export_memory_timeline_raw(self, path: str, device_str: str) -> None:
        """Write `[time, action, bytes, category]` of every change; one in place is given back and taken again."""
        rows = []
        for change in self._of(device_str):
            place, action = _CATEGORY_TO_INDEX[change.category], change.action.value
            if change.action in (Action.DESTROY, Action.INCREMENT_VERSION):
                rows.append((change.time, action, -change.num_bytes, place))
            if change.action is not Action.DESTROY:
                rows.append((change.time, action, change.num_bytes, place))
        with written(path) as file:
            file.write(json.dumps(rows).encode())

    def export_memory_timeline_html(self, path: str, device_str: str, figsize: tuple[float, float] = (20, 12),
                                    title: str | None = None) -> None:
        """Write a page that draws memory by category over time."""
        times, sizes = self._coalesce_timeline(device_str)
        layers = [("Unknown" if category is None else category.name, colour)
                  for category, colour in _CATEGORY_TO_COLORS.items()]
        with written(path) as file:
            file.write(page(times, sizes, layers, title or f"Memory of {device_str}", figsize).encode())
