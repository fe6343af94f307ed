"""What a job runs on: chips, and the links between them, level by level.

Enters: measured or published constants. Leaves: a `Cluster`, which says how fast a rank computes and over which links a
group of ranks talks. Refuses constants that are no positive numbers, and ranks that the cluster does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

GIB = float(1 << 30)


@dataclass(frozen=True)
class Chip:
    """One rank's processor: sustained speeds (what programs see, not what the vendor prints) and memory."""

    flops: float               # multiplications and additions per second in the layers' matrix products
    memory_bandwidth: float    # bytes per second
    memory: float              # bytes
    name: str = "chip"

    def __post_init__(self) -> None:
        require_positive(self.name, flops=self.flops, memory_bandwidth=self.memory_bandwidth, memory=self.memory)


@dataclass(frozen=True)
class Link:
    """What one rank sees of a level of the network: seconds before the first byte, then bytes per second."""

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        require_positive("link", latency=self.latency, bandwidth=self.bandwidth)

    def time(self, size: float) -> float:
        """Seconds that a message of `size` bytes takes."""
        return self.latency + size / self.bandwidth


@dataclass(frozen=True)
class Level:
    """So many units of the level below, joined by links: chips to a machine, machines to a rack, racks to a hall."""

    name: str
    size: int
    link: Link

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"level {self.name!r}: expected at least one unit, got {self.size}")


@dataclass(frozen=True)
class Cluster:
    """Chips and the levels that join them, the nearest first.

    `processors`: where ranks are processes that share that many processors (as on a machine without accelerators), more
    ranks than that take turns.
    """

    chip: Chip
    levels: tuple[Level, ...]
    processors: int | None = None

    @property
    def ranks(self) -> int:
        """How many chips there are."""
        count = 1
        for level in self.levels:
            count *= level.size
        return count

    def of(self, ranks: int) -> Cluster:
        """The first `ranks` chips; the outermost level grows or shrinks to hold them."""
        if ranks < 1:
            raise ValueError(f"cluster: expected at least one rank, got {ranks}")
        levels, left = [], ranks
        for level in self.levels[:-1]:
            size = min(level.size, left)
            if left % size:
                raise ValueError(f"cluster: {ranks} ranks do not fill units of {level.size} ({level.name})")
            levels.append(replace(level, size=size))
            left //= size
        levels.append(replace(self.levels[-1], size=left))
        return replace(self, levels=tuple(levels))

    def sharing(self) -> float:
        """How many ranks take turns on one processor."""
        return max(1.0, self.ranks / self.processors) if self.processors else 1.0

    def spans(self, members: Sequence[int]) -> list[tuple[int, Link]]:
        """A group's size at every level it crosses, with that level's link; groups are as regular as meshes make
        them."""
        if not members:
            raise ValueError("cluster: a group has at least one rank")
        if max(members) >= self.ranks or min(members) < 0:
            raise ValueError(f"cluster: ranks {min(members)} to {max(members)} asked for, there are {self.ranks}")
        found, places = [], {rank: rank for rank in members}
        for level in self.levels:
            inside: dict[int, set[int]] = {}
            for place in set(places.values()):
                inside.setdefault(place // level.size, set()).add(place)
            most = max(len(units) for units in inside.values())
            if most > 1:
                found.append((most, level.link))
            places = {rank: place // level.size for rank, place in places.items()}
        return found

    def link(self, first: int, second: int) -> Link:
        """The link between two ranks: that of the level at which they meet."""
        spans = self.spans((first, second))
        return spans[-1][1] if spans else self.levels[0].link


def require_positive(what: str, **values: float) -> None:
    for name, value in values.items():
        if not value > 0 or value == float("inf"):
            raise ValueError(f"{what}: {name} must be a positive number, got {value}")


# Sustained figures: matrix products of a transformer's size in bfloat16, links as collectives see them.
H200 = Chip(flops=650e12, memory_bandwidth=4.2e12, memory=141e9, name="H200")
A100 = Chip(flops=230e12, memory_bandwidth=1.6e12, memory=80e9, name="A100")
CLUSTERS = {
    "h200": Cluster(H200, (Level("machine", 8, Link(6e-6, 360e9)), Level("network", 128, Link(14e-6, 45e9)))),
    "a100": Cluster(A100, (Level("machine", 8, Link(7e-6, 230e9)), Level("network", 128, Link(16e-6, 22e9)))),
}
