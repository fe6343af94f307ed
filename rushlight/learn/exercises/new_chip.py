"""Exercises of the chapter on a new chip: memory, fallback, streams, mapping ops."""

from types import ModuleType
from typing import Any

from ..exercise import Exercise, chapter


def allocated(answer: ModuleType, total: Any, steps: Any) -> Any:
    """What a heap answers to a list of requests, and what is free in the end."""
    heap = answer.Heap(total)
    held, said = [], []
    for step in steps:
        if step >= 0:
            held.append((heap.take(step), step))
            said.append(held[-1][0])
        else:
            heap.give(*held.pop(-step - 1))
    return said, heap.free()


CHAPTER = chapter(
    "new_chip",
    "A back end for a new chip",
    "为新芯片写后端",
    Exercise(
        title="Round up to the chip's alignment",
        title_zh="按芯片对齐取整",
        text="""Memory of a chip comes in multiples of `align` bytes, and never less than one such unit. Return how
        many bytes a request of `size` bytes takes.""",
        solution='''
        def rounded(size, align):
            """The bytes that a request takes."""
            return max(-(-size // align), 1) * align
        ''',
        hint="`-(-a // b)` divides and rounds up.",
        cases=lambda: [(0, 64), (1, 64), (64, 64), (65, 64), (1000, 512), (7, 1)],
    ),
    Exercise(
        title="A first-fit heap",
        title_zh="首次适配的堆",
        text="""Write a class `Heap(total)` that hands out ranges of a chip's memory. `take(size)` returns the lowest
        offset where `size` bytes are free, or None if there is none (sizes are positive). `give(offset, size)` frees
        a range again. `free()` returns the free ranges as a list of (offset, size), ascending, neighbours joined.
        None given back is ignored.""",
        solution='''
        class Heap:
            """Free ranges of one piece of memory."""

            def __init__(self, total):
                """All of it is free."""
                self.ranges = [(0, total)]

            def take(self, size):
                """The lowest offset with so much room, or None."""
                for k, (offset, room) in enumerate(self.ranges):
                    if size <= room:
                        self.ranges[k : k + 1] = [(offset + size, room - size)] if room > size else []
                        return offset
                return None

            def give(self, offset, size):
                """Free a range."""
                if offset is None:
                    return
                joined = []
                for start, room in sorted([*self.ranges, (offset, size)]):
                    if joined and sum(joined[-1]) == start:
                        joined[-1] = (joined[-1][0], joined[-1][1] + room)
                    else:
                        joined.append((start, room))
                self.ranges = joined

            def free(self):
                """The free ranges, ascending."""
                return list(self.ranges)
        ''',
        hint="Keep a sorted list of free ranges. After freeing, go through it once and join what touches.",
        cases=lambda: [
            (8, []),
            (8, [3]),
            (8, [8]),
            (8, [9]),
            (8, [3, 4, 2]),
            (8, [3, -1]),
            (9, [3, 3, 3, -1, -1]),
            (9, [3, 3, 3, -1, -2]),
            (9, [3, 3, 3, -2, 2, 2]),
            (9, [3, 3, 3, -2, -1, 6]),
            (9, [2, 3, 9, -3, 4]),
            (10, [4, 2, 4, -1, -2, 3, -1, 4]),
        ],
        probe=allocated,
        asks="[what take returns, the free ranges] of Heap({0}) after {1} (sizes to take; -k gives back the k-th held)",
    ),
    Exercise(
        title="Where each op runs",
        title_zh="每个运算在哪里跑",
        text="""A chip supports some ops; the others run on the host. The input is on the chip and the result must be
        there too. Values are copied when an op runs at the other place than the op before. Given the ops of a chain
        and the set that the chip supports, return (how many ops run on the host, how many copies are made).""",
        solution='''
        def fallbacks(ops, supported):
            """(ops on the host, copies between the two)."""
            places = [True, *(op in supported for op in ops), True]
            copies = sum(a != b for a, b in zip(places, places[1:]))
            return places.count(False), copies
        ''',
        hint="Write down a place per op, with the chip before and after them, and count the changes.",
        cases=lambda: [
            ([], set()),
            (["a"], {"a"}),
            (["a"], set()),
            (["a", "b"], {"a"}),
            (["a", "b", "c"], {"a", "c"}),
            (["b", "b", "a", "b"], {"a"}),
            (["a", "a"], set()),
        ],
    ),
    Exercise(
        title="When two streams end",
        title_zh="两条流何时结束",
        text="""Work is put onto streams in order: ("run", stream, milliseconds), ("record", stream, event), which
        notes the time at which the stream gets there, and ("wait", stream, event), after which the stream goes on no
        earlier than that time; waiting for an event that was never recorded does nothing. All streams start at 0.
        Return the time when all is done.""",
        solution='''
        def finish(work):
            """When the last stream is done, in milliseconds."""
            at = {}
            events = {}
            for kind, stream, what in work:
                now = at.get(stream, 0)
                if kind == "run":
                    at[stream] = now + what
                elif kind == "record":
                    events[what] = now
                else:
                    at[stream] = max(now, events.get(what, 0))
            return max(at.values(), default=0)
        ''',
        hint="One clock per stream. A wait moves a clock forward to the event's time, never back.",
        cases=lambda: [
            ([],),
            ([("run", 0, 5)],),
            ([("run", 0, 5), ("run", 1, 3)],),
            ([("run", 0, 5), ("run", 0, 3)],),
            ([("wait", 1, "e")],),
            ([("run", 0, 5), ("record", 0, "e"), ("wait", 1, "e"), ("run", 1, 3)],),
            ([("run", 0, 2), ("record", 0, "e"), ("run", 0, 9), ("wait", 1, "e"), ("run", 1, 3)],),
            ([("run", 1, 7), ("run", 0, 2), ("record", 0, "e"), ("wait", 1, "e"), ("run", 1, 1)],),
            ([("record", 0, "e"), ("run", 0, 4), ("wait", 1, "f"), ("wait", 1, "e"), ("run", 1, 1)],),
        ],
    ),
)
