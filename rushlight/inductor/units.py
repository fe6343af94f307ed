"""Units: which nodes share a kernel, and in which order they run.

Enters: nodes in the order of the graph. Leaves: `Unit`s in an order that computes everything before it is read.

    points   pointwise ops over one shape, in one loop: what is read outside of the group is stored, the rest stays in
             registers
    rows     the same and fused bodies (softmax, norms, cross entropy), folds of whole rows: one loop over rows
    fold     a reduction; pointwise ops that nobody else reads are computed where it reads them
    steps    an op with a plan of its own: products, convolutions, attention, moves
    product  a matrix product, and pointwise ops computed of its sums (epilogues.py)
    convolution  the same of a convolution
    call     an op run in Python

A node joins the unit of one of its producers if that makes no circle:
none of its other producers may come after that unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from ..loops.row_program import FULL, ROW
from . import settings
from .read_graph import Node
from .rows import Shape, joined_shape, shape_of_rows
from .values import Buffer, Value

MOST_READS = 24          # tensors a unit reads


class Unit:
    """Nodes that run together."""

    def __init__(self, number: int, node: Node) -> None:
        self.number, self.form, self.nodes = number, node.form, [node]
        self.before = 0         # units that must have run, near and far: one bit for each number
        self.rows: Shape | None = shape_of_rows(node)      # the rows it works on, where it does

    @property
    def produced(self) -> set[Buffer]:
        return {v.buffer for n in self.nodes for v in n.results}

    def __repr__(self) -> str:
        return f"{self.form}[{', '.join(n.definition.name for n in self.nodes)}]"


class Grouping:
    """Puts nodes into units, one after another."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.units: dict[int, Unit] = {}
        self.unit_of: dict[int, Unit] = {}            # by id of a node
        self.writer: dict[Buffer, Node] = {}          # who wrote a buffer last
        self.readers: dict[Buffer, list[Node]] = {}   # who read it since
        self.refused: list[tuple[Node, Unit, str]] = []    # who did not join whom, and why
        self.last_call: Unit | None = None            # Python calls keep their order: they may draw random numbers
        for k, node in enumerate(nodes):
            node.place = k
            self.place(node)

    def place(self, node: Node) -> None:
        """A unit for the node: that of a producer, or a new one."""
        needed = self.needed(node)
        chosen = None
        for u in sorted(needed, key=lambda u: -u.number):
            reason = self.why_not(node, u, needed)
            if reason is None:
                chosen = u
                break
            self.refused.append((node, u, reason))
        if chosen is None:
            chosen = self.units[len(self.units)] = Unit(len(self.units), node)
        else:
            self.join(chosen, node)
        self.unit_of[id(node)] = chosen
        if calls_python(node):
            self.last_call = chosen
        earlier = 0
        for u in needed:
            if u is not chosen:
                earlier |= u.before | 1 << u.number
        if earlier & ~chosen.before:
            chosen.before |= earlier
            for u in self.units.values() if len(chosen.nodes) > 1 else ():      # nothing comes after a new one
                if u.before >> chosen.number & 1:
                    u.before |= earlier
        for v in node.inputs:
            self.readers.setdefault(v.buffer, []).append(node)
        for buffer in (*[v.buffer for v in node.results], *node.writes):
            if buffer in node.writes or buffer not in self.writer:
                self.writer[buffer] = node
                self.readers[buffer] = []

    def join(self, unit: Unit, node: Node) -> None:
        """The node becomes part of the unit."""
        if unit.form != "points" or node.form != "points":
            unit.rows = joined_shape(unit.nodes, unit.rows, node)
            unit.form = "rows"
        unit.nodes.append(node)

    def needed(self, node: Node) -> list[Unit]:
        """Units that must not come after the node: those that write what it reads, and use what it writes."""
        found: dict[int, Unit] = {}
        if calls_python(node) and self.last_call is not None:
            found[self.last_call.number] = self.last_call
        for v in node.inputs:
            if v.buffer in self.writer:
                u = self.unit_of[id(self.writer[v.buffer])]
                found[u.number] = u
        for buffer in node.writes:
            for n in (*self.readers.get(buffer, ()), *([self.writer[buffer]] if buffer in self.writer else ())):
                u = self.unit_of[id(n)]
                found[u.number] = u
        return list(found.values())

    def why_not(self, node: Node, unit: Unit, needed: Sequence[Unit]) -> str | None:
        """Why the node may not share the unit's kernel; None where it may."""
        if not settings.fuse:
            return "the setting fuse is off"
        if len(unit.nodes) >= settings.most_fused:
            return f"the kernel has {len(unit.nodes)} ops already (most_fused)"
        if any(u.before >> unit.number & 1 for u in needed if u is not unit):
            return "it needs a result that is made after this kernel"
        reads = {v.buffer for n in (*unit.nodes, node) for v in n.inputs} - unit.produced
        return f"together they read {len(reads)} tensors" if len(reads) > MOST_READS else misfit(node, unit)


def numbers_in(bits: int) -> list[int]:
    """The numbers whose bits are set."""
    return [k for k, bit in enumerate(bin(bits)[:1:-1]) if bit == "1"]


def natural_order(units: Iterable[Unit]) -> list[Unit]:
    """Every unit after those it needs; among those that may run, the one that the graph has first. What a backward
    computes again stands in the graph where it is used, so it is in memory from there on only."""
    by_number = {u.number: u for u in units}
    # A unit runs when its last node may: the first ones of units that were merged stood far from each other.
    last = {number: max(n.place for n in u.nodes) for number, u in by_number.items()}
    waiting: dict[int, list[int]] = {}      # by one of the units that each waits for: the next is looked for after it
    for number, u in by_number.items():
        if u.before:
            waiting.setdefault(u.before.bit_length() - 1, []).append(number)
    ready = [(last[k], k) for k, u in by_number.items() if not u.before]
    heapify(ready)
    found, missing = [], sum(1 << number for number in by_number)
    while ready:
        number = heappop(ready)[1]
        found.append(by_number[number])
        missing ^= 1 << number
        for k in waiting.pop(number, ()):
            rest = by_number[k].before & missing
            if rest:
                waiting.setdefault(rest.bit_length() - 1, []).append(k)
            else:
                heappush(ready, (last[k], k))
    assert len(found) == len(by_number), "units need each other in a circle"
    return found


def misfit(node: Node, unit: Unit) -> str | None:
    """Why the node's loop is not the unit's; None where it is."""
    inside = unit.produced
    if any(v.buffer in inside and not v.is_whole for v in node.inputs):
        return "it reads a view of what the kernel makes, which must be in memory first"
    if unit.form == "points" and node.form == "points":
        return None if shape_of(node) == shape_of(unit.nodes[0]) else "its result has another shape or layout"
    if unit.form not in ("points", "fold", "rows") or node.form not in ("points", "fold", "rows"):
        own = node.definition.name if node.form in ("steps", "call") else repr(unit)
        return f"{own} runs kernels of its own"
    if any(v.buffer in inside for v in looked_up(node)):
        return "indices are checked where they are read, so they lie in memory"
    rows = joined_shape(unit.nodes, unit.rows, node)
    if rows is None:
        return "they work on no rows that they have in common"
    if not all(rows.kind(v) in (FULL, ROW) for v in node.inputs if v.buffer in inside):
        return "what is one number per column exists only when all rows are done"
    return None


def calls_python(node: Node) -> bool:
    """Whether Python runs when the node does, and does something that must keep its place among such calls."""
    if node.definition.ends:
        return False
    return node.form == "call" or (node.plan is not None and node.plan.calls_python)


def looked_up(node: Node) -> list[Value]:
    """The values that a fused body takes for column numbers."""
    if node.form != "rows" or node.definition.index_operand is None:
        return []
    return [
        a
        for p, a in zip(node.definition.spec.params, node.args, strict=True)
        if p.name == node.definition.index_operand
    ]


def shape_of(node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides of what a node makes."""
    return node.results[0].sizes, node.results[0].strides


def summary(units: Sequence[Unit]) -> str:
    """The units as text, for RUSHLIGHT_SHOW=graph."""
    return "\n".join(f"{u.number:4} {u!r}" for u in units)
