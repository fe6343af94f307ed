"""What runs while collectives are under way: they begin early, and are waited for late.

Enters: units, each with those that must have run before it. Leaves: an order in which a unit that begins something
comes as soon as what it reads is there, what that needs comes first, and a unit that waits comes when nothing else is
left to do. The order is the same in every process that compiles the same graph. Results under way take memory: when
they are many, the oldest is waited for first.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from .units import Unit, natural_order, numbers_in
from .values import hints

MOST_BYTES = 1 << 30      # under way at once


def begins(unit: Unit) -> bool:
    """Whether a unit begins something that another waits for."""
    return unit.nodes[0].definition.begins


def ends(unit: Unit) -> bool:
    """Whether a unit waits."""
    return unit.nodes[0].definition.ends


def overlapped(units: Sequence[Unit]) -> list[Unit]:
    """The units in order."""
    order = natural_order(units)
    if not any(begins(u) for u in order):
        return order
    rank = {u.number: place for place, u in enumerate(order)}
    by_number = {u.number: u for u in order}
    urgency = dict.fromkeys(rank, len(order))      # the first beginning that waits for a unit
    for u in reversed([u for u in order if begins(u)]):
        for number in (u.number, *numbers_in(u.before)):
            urgency[number] = rank[u.number]
    missing = {u.number: u.before.bit_count() for u in order}
    later: dict[int, list[int]] = {u.number: [] for u in order}
    for u in order:
        for number in numbers_in(u.before):
            later[number].append(u.number)
    work: list[tuple[bool, int, int, int]] = []      # (is no beginning, urgency, place, number)
    waits: list[tuple[int, int]] = []                # (place, number)
    found: list[Unit] = []
    bytes_under_way: dict[int, int] = {}             # by the buffer that is filled

    def ready(number: int) -> None:
        u = by_number[number]
        if ends(u):
            heapq.heappush(waits, (rank[number], number))
        else:
            heapq.heappush(work, (not begins(u), urgency[number], rank[number], number))

    for number, count in missing.items():
        if not count:
            ready(number)
    while work or waits:
        is_full = waits and work and not work[0][0] and sum(bytes_under_way.values()) > MOST_BYTES
        number = heapq.heappop(work)[-1] if work and not is_full else heapq.heappop(waits)[-1]
        u = by_number[number]
        found.append(u)
        value = u.nodes[0].results[0] if begins(u) or ends(u) else None
        if begins(u):
            bytes_under_way[id(value.buffer)] = math.prod(hints(value.sizes)) * value.dtype.itemsize
        elif ends(u):
            bytes_under_way.pop(id(value.buffer), None)
        for after in later[number]:
            missing[after] -= 1
            if not missing[after]:
                ready(after)
    return found
