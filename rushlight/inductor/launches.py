"""Fewer launches on plugged-in devices: steps of a plan that need not wait for each other share one.

Enters: an `Emitter` with the steps of a graph on a device whose launches are calls (not the CPU, nor CUDA, which
replays graphs). Leaves: the same with fewer steps. Steps that touch nothing that others write become parts of one
kernel, which an item each computes (loops/together.py); a chain of steps whose work is no more than what a launch costs
becomes one item. Steps move to the first place where what they need is there, and no call of Python passes another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..codegen.stored.cache import source_of_handle
from ..devices import handlers
from ..loops.nest import Nest
from ..loops.together import BLOCKS, ITEMS, SERIAL, Part, can_join, is_flat, names, scales, together, work_of, written
from ..op.extents import Extent
from ..op.pack import as_step, compile_for
from ..op.step import Step
from . import settings
from .emit import KERNELS, Emitter
from .packing import split
from .values import hints

MOST_SERIAL = 1 << 13      # innermost statements that one item runs in about the time of a launch
MOST_WORK = 1 << 22        # of a step that shares a launch: larger ones take longer than launching them
MOST_ALONE = 1 << 12       # of one iteration, where others run beside it
MOST_OPERANDS, MOST_PARTS = 32, 12
MOST_ARGUMENTS = 120       # operands and parameters: OpenCL promises room for 1024 bytes of them
ELSEWHERE = ("cpu", "meta", "cuda")


def share(emitter: Emitter) -> None:
    """Let the steps of a graph share launches."""
    if emitter.device.type in ELSEWHERE or not settings.fuse or settings.debug_folder or len(emitter.steps) < 2:
        return
    way = ITEMS if handlers[emitter.device.type].scheduler == "gpu" else BLOCKS
    groups: list[_Group] = []
    touched = _Touched(emitter)
    for step, label in zip(emitter.steps, emitter.labels, strict=True):
        one = _Member(step, label, way)
        first, inside = touched.needed(one)
        home = next((g for g in groups[first:] if g.takes(one, g.number in inside, way)), None)
        if home is None:
            home = _Group(len(groups))
            groups.append(home)
        home.add(one, home.number in inside)
        touched.note(one, home.number)
    emitter.steps = [g.step(emitter.device, way) for g in groups]
    emitter.labels = [", ".join(dict.fromkeys(m.label for m in g.members)) for g in groups]


class _Member:
    """A step, and what it does."""

    def __init__(self, step: Step, label: str, way: str) -> None:
        self.step, self.label = step, label
        self.is_call = not isinstance(step.kernel, tuple)
        source = None if self.is_call else source_of_handle(step.kernel[1])
        # A launch along more dims than its kernel's nest has says so in further parameters: the device's own matter.
        is_whole = isinstance(source, Nest) and len(source.params) == len(step.params)
        self.nest = source if is_whole and can_join(source) else None
        slots = [split(o)[0] for o in step.operands]
        places = written(source) if isinstance(source, Nest) else range(len(slots))
        self.writes = {slots[k] for k in places if k < len(slots) and slots[k] >= 0}
        self.reads = {s for k, s in enumerate(slots) if s >= 0 and (self.is_call or k not in places)} | (
            self.writes if source is not None else set())
        self.varies = any(isinstance(n, Extent) for n in (*step.params, step.extent))
        self.work = self.alone = MOST_WORK + 1
        if self.nest is not None:
            params = dict(zip(self.nest.params, hints(step.params), strict=True))
            (count,) = hints([step.extent])
            self.work = work_of(self.nest, params, count)
            self.alone = self.work // max(1, count * (params["n0"] if is_flat(self.nest, way) else 1))
            if self.work > MOST_WORK or (way == ITEMS and self.alone > MOST_ALONE):
                self.nest = None


class _Touched:
    """Which groups read and wrote the memory of a plan last."""

    def __init__(self, emitter: Emitter) -> None:
        self.first = emitter.num_inputs
        self.slots = emitter.slots
        self.writer: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}
        self.last_call = -1

    def base(self, slot: int) -> int:
        """The slot whose memory a slot shows."""
        while self.first <= slot < self.first + len(self.slots) and self.slots[slot - self.first][0] in ("view", "arg"):
            slot = self.slots[slot - self.first][4]
        return slot

    def needed(self, one: _Member) -> tuple[int, set[int]]:
        """The first group that a step may be in, and those that it must not run beside."""
        found = {self.last_call} if one.is_call else set()
        for slot in map(self.base, one.reads | one.writes):
            found.add(self.writer.get(slot, -1))
        for slot in map(self.base, one.writes):
            found.update(self.readers.get(slot, ()))
        return max(0, *found, 0), found

    def note(self, one: _Member, group: int) -> None:
        if one.is_call:
            self.last_call = max(self.last_call, group)
        for slot in map(self.base, one.reads):
            self.readers.setdefault(slot, []).append(group)
        for slot in map(self.base, one.writes):
            self.writer[slot] = max(group, self.writer.get(slot, -1))


class _Group:
    """Steps that share a launch."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.members: list[_Member] = []
        self.operands: dict[Any, int] = {}      # of the kernel: what they are
        self.is_serial = False

    def takes(self, one: _Member, waits: bool, way: str) -> bool:
        """Whether a step may be part of this; `waits`: it needs what is computed here."""
        members = self.members
        if one.nest is None or members[0].nest is None or len(members) >= MOST_PARTS:
            return False
        if one.step.error >= 0 and any(m.step.error >= 0 for m in members):
            return False
        operands, varies = len({*self.operands, *_places(one)}), any(m.varies for m in (*members, one))
        numbers = sum([2 + len(m.step.params) for m in (*members, one)]) if varies else 0
        if operands > MOST_OPERANDS or operands + numbers > MOST_ARGUMENTS:
            return False
        if not (waits or self.is_serial):
            return True
        return not varies and one.work + sum([m.work for m in members]) <= MOST_SERIAL and self.is_same_memory(one)

    def is_same_memory(self, one: _Member) -> bool:
        """Whether what is written in a chain of steps is one operand to all of them: kernels take operands for
        different memory."""
        changed = {s for m in (*self.members, one) for s in m.writes}
        found: dict[int, set[tuple]] = {}
        for m in (*self.members, one):
            for place in _places(m):
                if place[0] in changed:
                    found.setdefault(place[0], set()).add(place[1:])
        return all(len(places) == 1 for places in found.values())

    def add(self, one: _Member, waits: bool) -> None:
        self.members.append(one)
        self.is_serial = self.is_serial or (waits and len(self.members) > 1)
        if one.nest is not None:
            for place in _places(one):
                self.operands.setdefault(place, len(self.operands))

    def step(self, device: Any, way: str) -> Step:
        """The launch."""
        first = self.members[0].step
        if len(self.members) == 1:
            return first
        way = SERIAL if self.is_serial else way
        constants, parts, total = bytearray(), [], 0
        operands: list[Any] = []
        codes: list[str] = []
        given: dict[str, Any] = {}
        for k, m in enumerate(self.members):
            for operand, place in zip(m.step.operands, _places(m), strict=True):
                if self.operands[place] == len(operands):
                    slot, start = split(operand)      # constants of a step lie behind those of the steps before it
                    operands.append(operand if slot >= 0 else (slot, len(constants) + start))
                    codes.append(place[2])
            constants += m.step.constants
            constants += bytes(-len(constants) % 8)
            parts.append(Part(m.nest, tuple([self.operands[place] for place in _places(m)])))
            count, block, items = _items(m, way)
            own = [p if d == 1 else p // d for p, d in zip(m.step.params, scales(m.nest), strict=True)]
            given.update(zip(names(k, m.nest), [count, block, *own], strict=True))
            total = total + items
        varies = any(m.varies for m in self.members)
        kernel = _kernel(device, parts, codes, way, {} if varies else given)
        failing = next((m.step for m in self.members if m.step.error >= 0), first)
        return Step(kernel, operands, list(given.values()) if varies else [], 1 if way == SERIAL else total, 1,
                    failing.error, bytes(constants), failing.on_error)


def _items(member: _Member, way: str) -> tuple[Any, Any, Any]:
    """Of a part, how many iterations it has, how many of them make an item, and how many items these are."""
    extent, grain = member.step.extent, member.step.grain
    if way == SERIAL:
        return extent, 1, 0
    if way == BLOCKS:
        grain = grain if isinstance(grain, Extent) or grain > 0 else 1
        return extent, grain, (extent + grain - 1) // grain
    count = extent * member.step.params[0] if is_flat(member.nest, way) else extent
    return count, 1, count


def _key(start: Any) -> Any:
    return ("register", start.register) if isinstance(start, Extent) else start


def _places(member: _Member) -> list[tuple]:
    """What a step's operands are: equal ones are one operand of a kernel that it shares."""
    found: list[tuple] = []
    for operand, own in zip(member.step.operands, member.nest.operands, strict=True):
        slot, start = split(operand)
        found.append((slot, _key(start), own.code) if slot >= 0 else (slot, start, own.code, member.step.constants))
    return found


def _kernel(device: Any, parts: Sequence[Part], codes: Sequence[str], way: str, known: dict[str, int]) -> Any:
    """The kernel of parts. Numbers that do not vary are part of it."""
    key = ("together", tuple([(p.nest.digest(), p.operands) for p in parts]), way, tuple(known.items()), device.type)
    if key not in KERNELS:
        name = "_".join(dict.fromkeys(p.nest.name.strip("_") for p in parts))[:60]
        KERNELS[key] = as_step(compile_for(device, together(name, parts, codes, way, known)))
    return KERNELS[key]


__all__ = ["share"]
