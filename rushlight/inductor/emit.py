"""Units as slots and steps of one plan.

Enters: units in order, the graph's inputs and outputs. Leaves: a `_C.Plan`. Memory between units is temporary: the core
makes it before the first step that names it and frees it after the last, so that the next one can have it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..codegen.schedule import schedule_rows
from ..codegen.schedule.forms.wishes import Wishes
from ..loops.inline import inline
from ..op.pack import lowered_steps, packed
from ..op.step import Step
from . import conv_epilogues, packing
from .compiled import PlanParts
from .drawing import drawn
from .join import group_lowered
from .packing import moved
from .python_steps import called, looking
from .read_graph import Node, by_code, is_value
from .rows import row_program
from .units import Unit
from .values import Buffer, Value

KERNELS: dict[tuple, Any] = {}
GIVEN = 1 << 20          # from here on slots are results of the prepared plan
MOVES = frozenset({"cat", "stack", "constant_pad_nd"})      # ops with plans of their own that only lay elements out


class Emitter:
    """Collects slots and steps."""

    def __init__(self, num_inputs: int, device: Any) -> None:
        self.num_inputs, self.device = num_inputs, device
        self.slots: list[tuple] = []
        self.steps: list[Step] = []
        self.calls: list[str] = []          # ops that run in Python
        self.labels: list[str] = []         # what each step belongs to
        self.packed: dict[tuple, tuple[int, int]] = {}      # right operands of products, packed: where
        # what is computed from static inputs alone, once for many calls
        self.prepared: Emitter | None = None
        self.units: list[tuple[Unit, int, int]] = []        # with their first step, and the first behind them
        self.grouping: Any = None                           # how they came to be
        self.given: list[int] = []                          # its results, which this plan takes: their slots there

    def slot(self, kind: str, dtype: Any, sizes: Any, strides: Any = None, source: int = -1, offset: int = 0) -> int:
        self.slots.append((kind, dtype, tuple(sizes), strides, source, offset))
        return self.num_inputs + len(self.slots) - 1

    # Static inputs
    # ------------------------------------------------------------------------------------------------------

    def preparing(self) -> Emitter:
        """The emitter of what is done once."""
        if self.prepared is None:
            self.prepared = Emitter(self.num_inputs, self.device)
        return self.prepared

    def take(self, slot: int) -> int:
        """A result of the prepared plan as an input of this one; numbered for good when all are known."""
        self.given.append(slot)
        return GIVEN + len(self.given) - 1

    def is_static(self, unit: Unit) -> bool:
        """Whether a unit reads static inputs only, and makes what can be kept."""
        moves = unit.form == "steps" and all(n.definition.name in MOVES for n in unit.nodes)
        if not moves and unit.form not in ("points", "rows", "fold"):
            return False
        inside = unit.produced
        if any(v.varies for n in unit.nodes for v in (*n.inputs, *n.results)):
            return False
        return all(v.buffer.is_static or v.buffer in inside for n in unit.nodes for v in n.inputs) and any(
            n.inputs for n in unit.nodes
        )

    def prepare(self, unit: Unit, read_outside: Callable[[Buffer], bool]) -> None:
        """The unit in the prepared plan: its results are inputs of this one."""
        outs = [v.buffer for n in unit.nodes for v in n.results if read_outside(v.buffer)]
        other = self.preparing()
        for b in outs:
            b.slot = other.slot("new", b.dtype, b.sizes, b.strides)
        read = {v.buffer for n in unit.nodes for v in n.inputs if v.buffer.slot is not None and v.buffer.slot >= GIVEN}
        slots = {b: b.slot for b in read}
        for b in read:                      # made by an earlier prepared unit: there it has a slot of its own
            b.slot = self.given[b.slot - GIVEN]
        other.emit(unit, read_outside)
        for b, slot in slots.items():
            b.slot = slot
        for b in outs:
            b.slot, b.is_static = self.take(b.slot), True

    def before(self, operand: Any) -> Any:
        """An operand of this plan as the prepared plan numbers it: an input, or one of its own results."""
        slot, start = packing.split(operand)
        own = self.given[slot - GIVEN] if slot >= GIVEN else slot
        return (own, start) if isinstance(operand, tuple) else own

    def is_temporary(self, slot: int) -> bool:
        """Whether a slot is memory between steps of this plan."""
        return self.num_inputs <= slot < GIVEN and self.slots[slot - self.num_inputs][0] == "temp"

    def sizes_of(self, slot: int) -> tuple:
        """The sizes of a slot of this plan."""
        return self.slots[slot - self.num_inputs][2] if self.is_temporary(slot) else ()

    def home(self, buffer: Buffer) -> int:
        """The slot of a buffer; a new one the first time."""
        if buffer.slot is None:
            buffer.slot = self.slot("new" if buffer.is_output else "temp", buffer.dtype, buffer.sizes, buffer.strides)
        return buffer.slot

    def place(self, value: Value) -> tuple[int, int]:
        return self.home(value.buffer), value.byte_offset

    def add(self, steps: Sequence[Step], places: Sequence[tuple[int, int]], on_error: Any = None) -> None:
        """Steps whose operands are numbered as `places`."""
        for step in steps:
            own = [moved(o, places) for o in step.operands]
            error = places[step.error][0] if step.error >= 0 else -1
            self.steps.append(step._replace(operands=own, error=error, on_error=on_error if error >= 0 else None))

    def unit(self, unit: Unit, read_outside: Callable[[Buffer], bool]) -> None:
        if self.is_static(unit) and not any(v.buffer.is_output for n in unit.nodes for v in n.results):
            self.prepare(unit, read_outside)
            return
        first = len(self.steps)
        self.emit(unit, read_outside)
        self.units.append((unit, first, len(self.steps)))
        self.labels += [f"{unit!r} {list(unit.nodes[-1].results[0].sizes)}"] * (len(self.steps) - len(self.labels))

    def emit(self, unit: Unit, read_outside: Callable[[Buffer], bool]) -> None:
        if unit.form == "points":
            self.points(unit, read_outside)
        elif unit.form == "rows" and (len(unit.nodes) > 1 or unit.nodes[0].form != "rows" or in_lines(unit.nodes[0])):
            self.rows(unit, read_outside)
        elif unit.form == "fold":
            self.lowered(unit.nodes[0].lowered, unit.nodes[0].inputs, [v.buffer for v in unit.nodes[0].results])
        elif unit.form == "product":
            self.product(unit, read_outside)
        elif unit.form == "convolution":
            self.convolution(unit, read_outside)
        elif unit.form == "call":
            self.call(unit.nodes[0])
        elif unit.form == "steps" or unit.form == "rows":
            self.plan(unit.nodes[0])

    def points(self, unit: Unit, read_outside: Callable[[Buffer], bool]) -> None:
        outs = [v.buffer for n in unit.nodes for v in n.results if read_outside(v.buffer)]
        if outs:
            lowered, inputs = group_lowered(unit.nodes, outs)
            self.lowered(lowered, inputs, outs)

    def rows(self, unit: Unit, read_outside: Callable[[Buffer], bool]) -> None:
        outs = [v.buffer for n in unit.nodes for v in n.results if read_outside(v.buffer)]
        if not outs:
            return
        program, inputs, distances, on_error = row_program(unit.nodes, unit.rows, outs)
        result = schedule_rows(program, unit.rows.count, unit.rows.cols, self.device.type, distances)
        slots = [("new", b.dtype, b.sizes, None, -1, 0) for b in outs]
        steps = packed(result, self.device, KERNELS, slots, [])
        places = [
            *map(self.place, inputs),
            *[(self.home(b), 0) for b in outs],
            *[(self.slot(*s), 0) for s in slots[len(outs) :]],
        ]
        self.add(steps, places, on_error)

    def lowered(self, lowered: Any, inputs: Sequence[Value], outs: Sequence[Buffer]) -> None:
        slots = [("new", by_code(code), lowered.shape, None, -1, 0) for code in lowered.outs]
        steps = lowered_steps(lowered, self.device, KERNELS, slots)
        places = [*map(self.place, inputs), *[(self.home(b), 0) for b in outs]]
        places += [(self.slot(*s), 0) for s in slots[len(outs) :]]
        self.add(steps, places, lowered.on_error)

    def product(self, unit: Unit, read_outside: Callable[[Buffer], bool]) -> None:
        """A product and what is computed of its sums (epilogues.py)."""
        first, *rest = unit.nodes
        outs = [v.buffer for n in rest for v in n.results if read_outside(v.buffer)]
        points, read = group_lowered(rest, outs)
        place = [v.buffer for v in read].index(first.results[0].buffer)
        operand = [k for k, r in enumerate(points.reads) if hasattr(r, "dims")][place]
        given = dict(zip([p.name for p, a in zip(first.definition.spec.params, first.args, strict=True) if is_value(a)],
                         first.inputs, strict=True))
        inputs = [given[m.name] for m in first.lowered.memories] + [v for k, v in enumerate(read) if k != place]
        slots = [("new", b.dtype, b.sizes, None, -1, 0) for b in outs]
        wishes = Wishes(packs_apart=inputs[1].buffer.is_static)
        steps = lowered_steps(inline(points, operand, first.lowered), self.device, KERNELS, slots, wishes)
        places = [*map(self.place, inputs), *[(self.home(b), 0) for b in outs]]
        temporaries = set(range(len(places), len(places) + len(slots) - len(outs)))
        places += [(self.slot(*s), 0) for s in slots[len(outs) :]]
        self.add(packing.unpacked(self, steps, places, [v.buffer for v in inputs], temporaries), places)

    def convolution(self, unit: Unit, read_outside: Callable[[Buffer], bool]) -> None:
        """A convolution and what its kernels compute of its results (conv_epilogues.py)."""
        first, *rest = unit.nodes
        finished = first.finished
        (out,) = [v for n in rest for v in n.results if read_outside(v.buffer)]
        steps, _ = finished.plan.parts
        places = [*map(self.place, first.inputs)]
        temporaries = set()
        for kind, dtype, sizes, strides, _source, _offset in finished.plan.outputs:
            if kind == "temp":
                temporaries.add(len(places))
            places.append((self.slot("temp", dtype, sizes, strides), 0) if kind == "temp" else self.place(out))
        steps = [conv_epilogues.placed(step, len(places), finished) for step in steps]
        places += map(self.place, finished.values)
        self.add(packing.unpacked(self, steps, places, [v.buffer for v in first.inputs], temporaries), places)

    def plan(self, node: Node) -> None:
        """The steps of an op's own plan."""
        steps, on_error = node.plan.parts
        places = [*map(self.place, node.inputs)]
        results = iter(node.results)
        for kind, dtype, sizes, strides, _source, _offset in node.plan.outputs:
            places.append(
                (self.slot("temp", dtype, sizes, strides), 0) if kind == "temp" else self.place(next(results))
            )
        result = iter(node.results)
        slots = [None if kind == "temp" else next(result) for kind, *_ in node.plan.outputs]
        geometries = [*node.inputs, *slots]
        temporaries = {
            len(node.inputs) + i for i, (kind, *_) in enumerate(node.plan.outputs) if kind == "temp"
        }
        own = packing.unpacked(self, steps, places, [v.buffer for v in node.inputs], temporaries)
        self.add([shown(step, geometries) for step in own], places, on_error)

    def call(self, node: Node) -> None:
        """A Python call between kernels, or the core's own way to draw random numbers there."""
        step = drawn(node, self.device)
        if step is not None:
            target, kernel, params = step
            self.steps.append(Step(kernel, [self.place(target)], params, 1, 1, -1))
            return
        self.calls.append(node.definition.name)
        results = [] if node.writes else node.results
        inputs, overload, args, single = node.inputs, node.overload, node.args, node.single
        begins = node.definition.begin if node.definition.begins else None
        run = called(overload, inputs, args, single, begins)
        places = [*[self.home(v.buffer) for v in inputs], *[self.home(v.buffer) for v in results]]
        self.steps.append(Step(run, places, [], 1, 1, -1))

    def outputs(self, values: Sequence[Value]) -> list[int]:
        """Slots of the graph's outputs, which come last, as the numbers of what the plan returns."""
        found = []
        for v in values:
            home = self.home(v.buffer)
            if v.is_whole:
                found.append(self.slot("arg", v.dtype, (), None, home) if v.buffer.is_input else home)
            else:
                found.append(self.slot("view", v.dtype, v.sizes, v.strides, home, v.offset))
        returned = [self.num_inputs + k for k, s in enumerate(self.slots) if s[0] != "temp"]
        return [returned.index(slot) for slot in found]

    def finish(self) -> PlanParts:
        """What the plan is made of: inputs, then what the prepared plan gives, then slots."""
        count, first = len(self.given), self.num_inputs

        def numbered(slot: int) -> int:
            return slot if slot < first else slot - GIVEN + first if slot >= GIVEN else slot + count

        if count:
            self.slots = [(*s[:4], numbered(s[4]), s[5]) for s in self.slots]
            self.steps = [
                s._replace(
                    operands=[(numbered(o[0]), o[1]) if isinstance(o, tuple) else numbered(o) for o in s.operands],
                    error=numbered(s.error),
                )
                for s in self.steps
            ]
        return PlanParts(first + count, tuple(self.slots), tuple(self.steps))


def in_lines(node: Node) -> bool:
    """Whether rows of a tensor of the node lie further apart than they are long."""
    return not all(v.is_contiguous for v in (*node.inputs, *node.results))


def shown(step: Step, geometries: Sequence[Value | None]) -> Step:
    """A step that calls Python is handed tensors: those that look at part of a buffer are made for it."""
    if not callable(step.kernel):
        return step
    looks = [geometries[o] if isinstance(o, int) and o >= 0 else None for o in step.operands]
    looks = [None if v is None or v.is_whole else v.settled() for v in looks]
    return step._replace(kernel=looking(step.kernel, looks))
