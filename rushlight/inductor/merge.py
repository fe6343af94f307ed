"""Units that become one: those that meet in a node, and those that read the same.

Enters: a `Grouping` with every node placed. Leaves: fewer units in it. A node joins the unit of one producer, so that

    a * b + 3 * c          the products are units of their own, and the sum is in one of them
    x.sin(), x.cos()       read x twice

Merging is right where no third unit has to run between the two; it is done where one reads what the other makes, or
both read the same and could run at the same time, or one can wait for the other that reads all it reads (so that
nothing it reads lives longer for it).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..loops.expr import var
from ..loops.lowered import Given, Lowered
from ..loops.row_program import FULL, ROW
from . import settings
from .read_graph import Node
from .rows import Shape, joined_shape
from .units import MOST_READS, Grouping, Unit, looked_up, numbers_in, shape_of
from .values import Buffer

MERGED = ("points", "fold", "rows")
CALL = 30                # instructions of a function such as exp or tanh
HEAVIEST = 90            # instructions of a kernel from which on one more saves no time, and takes long to compile
WAITING = 240            # the same on devices that compute while they wait for memory


def merge(grouping: Grouping, device: Any) -> None:
    """Merge what may be and pays."""
    if settings.fuse:
        Merger(grouping, HEAVIEST if device.type == "cpu" else WAITING).run()


class Merger:
    """Looks for pairs, in the order of units."""

    def __init__(self, grouping: Grouping, heaviest: int) -> None:
        self.grouping, self.units, self.heaviest = grouping, grouping.units, heaviest
        self.order = {id(node): k for k, node in enumerate(grouping.nodes)}
        self.readers: dict[Buffer, set[int]] = {}
        self.makers: dict[Buffer, int] = {}
        for u in self.units.values():
            for n in u.nodes:
                for v in n.inputs:
                    self.readers.setdefault(v.buffer, set()).add(u.number)
                for v in n.results:
                    self.makers.setdefault(v.buffer, u.number)
        self.after = dict.fromkeys(self.units, 0)      # what `before` says, the other way round
        for number, u in self.units.items():
            for k in numbers_in(u.before):
                self.after[k] |= 1 << number

    def run(self) -> None:
        for number in list(self.units):
            again = number in self.units and self.units[number].form in MERGED
            while again:
                found = [self.merged(self.units[number], other) for other in list(self.related(number))]
                again = True in found

    def related(self, number: int) -> Iterator[int]:
        """Units whose results this one reads, and those that read what it reads."""
        unit = self.units[number]
        inside = unit.produced
        for b in dict.fromkeys(v.buffer for n in unit.nodes for v in n.inputs if v.buffer not in inside):
            if b in self.makers:
                yield self.makers[b]
            yield from sorted(self.readers.get(b, ()))

    def merged(self, unit: Unit, other: int) -> bool:
        """Whether the other unit is part of this one now."""
        if other not in self.units or other == unit.number:
            return False
        second = self.units[other]
        if second.form not in MERGED or len(unit.nodes) + len(second.nodes) > settings.most_fused:
            return False
        own, their = unit.before & ~(1 << other), second.before & ~(1 << unit.number)
        is_needed = own != unit.before or their != second.before
        if not is_needed and own != their and not (waits(unit, second) or waits(second, unit)):
            return False
        if self.is_between(unit, second) or self.is_between(second, unit):
            return False
        costs = weight(unit), weight(second)
        if min(costs) >= CALL and sum(costs) > self.heaviest:
            return False
        rows = common(unit, second)
        if rows is False:
            return False
        self.join(unit, second, rows)
        return True

    def is_between(self, first: Unit, last: Unit) -> bool:
        """Whether a third unit must run after the first and before the last."""
        return self.after[first.number] & last.before != 0      # both go near and far

    def join(self, unit: Unit, second: Unit, rows: Shape | None) -> None:
        """All of the second unit into the first."""
        unit.nodes = sorted([*unit.nodes, *second.nodes], key=lambda n: self.order[id(n)])
        unit.form, unit.rows = ("points", None) if rows is None else ("rows", rows)
        own = 1 << unit.number
        others = ~(own | 1 << second.number)
        unit.before = (unit.before | second.before) & others
        after = self.after[unit.number] = (self.after[unit.number] | self.after.pop(second.number)) & others
        del self.units[second.number]
        for k in numbers_in(after):
            u = self.units[k]
            u.before = u.before & others | unit.before | own
        for k in numbers_in(unit.before):
            self.after[k] = self.after[k] & others | after | own
        for n in second.nodes:
            self.grouping.unit_of[id(n)] = unit
            for v in n.inputs:
                self.readers[v.buffer].discard(second.number)
                self.readers[v.buffer].add(unit.number)
            for v in n.results:
                if self.makers.get(v.buffer) == second.number:
                    self.makers[v.buffer] = unit.number


def waits(early: Unit, late: Unit) -> bool:
    """Whether a unit can as well run when a later one does: a loop over points that reads nothing else, as what a
    backward computes again does."""
    if early.form != "points" or late.form != "points" or early.before == late.before \
            or early.before & ~late.before:
        return False
    inside = early.produced
    own, their = ({v.buffer for n in u.nodes for v in n.inputs} - inside for u in (early, late))
    return own <= their


def weight(unit: Unit) -> int:
    """About how many instructions the unit takes for an element."""
    return sum([instructions(n) for n in unit.nodes])


def instructions(node: Node) -> int:
    """About how many instructions a node takes for an element."""
    if node.cost is None:
        node.cost = CALL if node.lowered is None else counted(node.lowered)      # without: a fused body
    return node.cost


def counted(lowered: Lowered) -> int:
    """The same of a loop's body."""
    given = [Given(var(f"x{k}", r.code)) for k, r in enumerate(lowered.reads)]
    found, stack = {}, list(lowered.body((var("i"),) * len(lowered.ranges), given))
    while stack:
        value = stack.pop()
        if value not in found:
            found[value] = CALL if value.op == "call" else value.op not in ("var", "const")
            stack += value.args
    return sum(found.values())


def common(unit: Unit, second: Unit) -> Any:
    """The rows of both together, None for one loop over points, False where they share no loop."""
    nodes = (*unit.nodes, *second.nodes)
    inside = unit.produced | second.produced
    if len({v.buffer for n in nodes for v in n.inputs} - inside) > MOST_READS:
        return False
    if any(v.buffer in inside and not v.is_whole for n in nodes for v in n.inputs):
        return False
    if unit.form == second.form == "points":
        return None if shape_of(unit.nodes[0]) == shape_of(second.nodes[0]) else False
    if any(v.buffer in inside for n in nodes for v in looked_up(n)):
        return False
    rows = unit.rows or second.rows
    for n in nodes:
        rows = joined_shape(nodes, rows, n)
        if rows is None:
            return False
    if not all(rows.kind(v) in (FULL, ROW) for n in nodes for v in n.inputs if v.buffer in inside):
        return False
    return rows
