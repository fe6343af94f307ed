"""Seconds a collective takes: latency, bandwidth and arithmetic, level by level (alpha, beta, gamma).

Enters: bytes, and a group's size and link at every level it crosses. Leaves: seconds. At every level the cheaper of a
ring (fewest bytes) and of halving or a tree (fewest messages) is taken, as libraries do.

Sizes are those of the whole: what every rank has before a reduction, and after a gathering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log2

from .machines import Link

Spans = Sequence[tuple[int, Link]]
Cost = Callable[..., float]


def reduce_scatter(size: float, spans: Spans, arithmetic: float = 0.0) -> float:
    """Inside out: what is left after a level is that level's share. `arithmetic`: seconds to add up one byte."""
    total = 0.0
    for count, link in spans:
        total += scattered(size, count, link) + (count - 1) / count * size * arithmetic
        size /= count
    return total


def all_gather(size: float, spans: Spans, arithmetic: float = 0.0) -> float:
    """As the scattering, the other way, and with nothing to add up."""
    return reduce_scatter(size, spans)


def all_reduce(size: float, spans: Spans, arithmetic: float = 0.0) -> float:
    """A scattering and a gathering; or up and down a tree, where messages are so short that their number counts."""
    rings = reduce_scatter(size, spans, arithmetic) + all_gather(size, spans)
    tree = sum(2 * ceil(log2(count)) * (link.time(size) + size * arithmetic / 2) for count, link in spans)
    return min(rings, tree)


def broadcast(size: float, spans: Spans, arithmetic: float = 0.0) -> float:
    """Down a tree; or in pieces, of which every rank passes on its own."""
    tree = sum(ceil(log2(count)) * link.time(size) for count, link in spans)
    return min(tree, 2 * reduce_scatter(size, spans))


def all_to_all(size: float, spans: Spans, arithmetic: float = 0.0) -> float:
    """Every rank has another piece for every other: what leaves a unit goes over the slower links."""
    members = 1
    for count, _ in spans:
        members *= count
    total, inside = 0.0, 1
    for count, link in spans:
        partners = inside * (count - 1)
        total += partners * link.latency + size * partners / members / link.bandwidth
        inside *= count
    return total


def scattered(size: float, count: int, link: Link) -> float:
    """One level: the bytes are the same for a ring and for halving, the number of messages is not."""
    messages = ceil(log2(count)) if count & (count - 1) == 0 else min(count - 1, ceil(log2(count)) + 1)
    return messages * link.latency + (count - 1) / count * size / link.bandwidth


COLLECTIVES: dict[str, Cost] = {
    "all_reduce": all_reduce,
    "all_gather": all_gather,
    "reduce_scatter": reduce_scatter,
    "broadcast": broadcast,
    "all_to_all": all_to_all,
}
