"""Which side of a branch is the rare one: the side that raises, or warns.

Enters: the instructions of a code object and the place of a conditional jump. Leaves: the truth for which the program
goes on as it usually does; None where the code says nothing about it. This is a guess about programs, never a fact
about values: whoever acts on it looks at the value too (checks.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .instructions import Instruction, falls_through

_RAISES = frozenset(("RAISE_VARARGS", "RERAISE"))
_NAMES = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "LOAD_DEREF"))
_WARNS = re.compile(r"(^|_)warn(ing|ings)?(_|$)")      # warnings.warn, logger.warning_once, rank_zero_warn
_FARTHEST = 600      # instructions that are looked at, at most


class Branches:
    """The branches of one code object."""

    def __init__(self, instructions: Sequence[Instruction], place: Mapping[int, int]) -> None:
        self.instructions, self.place = instructions, place
        self.found: dict[tuple[int, bool], bool | None] = {}

    def usual(self, at: int, is_sure: bool) -> bool | None:
        """The truth for which the jump at `at` goes the usual way. With `is_sure` the other side has to end in an
        exception or a warning whatever else is true; otherwise it is enough that it can, before the ways meet."""
        key = at, is_sure
        if key not in self.found:
            self.found[key] = self._usual(at, is_sure)
        return self.found[key]

    def _usual(self, at: int, is_sure: bool) -> bool | None:
        one = self.instructions[at]
        if one.target is None or not one.name.startswith("POP_JUMP") or not one.name.endswith(("_TRUE", "_FALSE")):
            return None
        jumps_if = one.name.endswith("_TRUE")
        target, behind = self.place[id(one.target)], at + 1
        if target <= at:
            return None      # a loop goes round
        rare_if_jumped, rare_if_not = self.is_rare(target), self.is_rare(behind)
        if rare_if_jumped != rare_if_not:
            return rare_if_not is jumps_if
        if is_sure or rare_if_jumped:
            return None
        if self.may_be_rare(behind, target):
            return jumps_if
        if self.may_be_rare(target, self.last_of_chain(behind, target)):
            return not jumps_if
        return None

    def is_repeated(self, at: int) -> bool:
        """Whether the jump at a place is part of a loop that goes on for as long as something holds."""
        for i, one in enumerate(self.instructions):
            start = len(self.instructions) if one.target is None else self.place[id(one.target)]
            is_for = start < i and self.instructions[start].name == "FOR_ITER"
            # what `while` asks first stands before the loop, and again at its end
            if self.leaves(at, start) if is_for and start <= at <= i else not is_for and start - 1 <= at <= i:
                return True
        return False

    def leaves(self, at: int, start: int) -> bool:
        """Whether one way of the jump at `at` never comes back to the start of its loop."""
        for way in self.ways(at):
            todo, seen = [way], {way}
            while todo and start not in seen:
                fresh = [w for w in self.ways(todo.pop()) if w not in seen]
                seen.update(fresh)
                todo += fresh
            if start not in seen:
                return True
        return False

    def ways(self, i: int) -> list[int]:
        """Where the program may be behind an instruction; handlers of exceptions are not followed."""
        one = self.instructions[i]
        found = [i + 1] if falls_through(one) and i + 1 < len(self.instructions) else []
        return found if one.target is None else [*found, self.place[id(one.target)]]

    def settled(self, i: int) -> int:
        """The place that jumps without a condition lead to."""
        while self.instructions[i].name == "JUMP_FORWARD":
            i = self.ways(i)[0]
        return i

    def is_event(self, i: int) -> bool:
        one = self.instructions[i]
        return one.name in _RAISES or (one.name in _NAMES and _WARNS.search(one.argval) is not None)

    def is_rare(self, start: int) -> bool:
        """Whether every way on from here comes to an exception or a warning."""
        todo, seen = [start], {start}
        while todo:
            i = todo.pop()
            if self.is_event(i):
                continue
            ways = self.ways(i)
            if not ways or len(seen) > _FARTHEST:
                return False
            for way in ways:
                if way <= i:      # around a loop, for how long nobody knows
                    return False
                if way not in seen:
                    seen.add(way)
                    todo.append(way)
        return True

    def may_be_rare(self, start: int, end: int) -> bool:
        """Whether some way from here comes to an exception or a warning before `end`, which all others come to."""
        todo, seen, found, end = [start], {start}, False, self.settled(end)
        while todo:
            i = self.settled(todo.pop())
            if i == end:
                continue
            if i > end or len(seen) > _FARTHEST:
                return False
            if self.instructions[i].name in _RAISES:
                found = True
                continue
            found = found or self.is_event(i)
            ways = self.ways(i)
            if not ways:
                return False
            fresh = [way for way in ways if way not in seen]
            seen.update(fresh)
            todo += fresh
        return found

    def last_of_chain(self, start: int, body: int) -> int:
        """`if a or b or c: body`: from the way past `a`, the place behind the body."""
        i = start
        for _ in range(_FARTHEST):
            ways = self.ways(i)
            if len(ways) == 2 and body in ways:
                i = ways[0] if ways[1] == body else ways[1]
                if i > body:
                    return i
            elif len(ways) != 1:
                break
            else:
                i = ways[0]
        return start
