"""Maximum flow through a network, and the cut of least capacity that stops it (Dinic's algorithm, without recursion).

Enters: edges with capacities between any hashable names. Leaves: the amount, and which names are on the source's side.
`INFINITE` edges are never cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

INFINITE = 1 << 60


class Network:
    """A directed network. Edges come in pairs: number 2k leads forth, 2k + 1 back."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.edges_of: list[list[int]] = []
        self.target: list[int] = []
        self.room: list[int] = []

    def number(self, name: Hashable) -> int:
        if name not in self.numbers:
            self.numbers[name] = len(self.edges_of)
            self.edges_of.append([])
        return self.numbers[name]

    def add(self, start: Hashable, end: Hashable, capacity: int) -> None:
        """An edge."""
        a, b = self.number(start), self.number(end)
        for here, there, room in ((a, b, capacity), (b, a, 0)):
            self.edges_of[here].append(len(self.target))
            self.target.append(there)
            self.room.append(room)

    def min_cut(self, source: Hashable, sink: Hashable) -> tuple[int, set[Hashable]]:
        """(capacity of the least cut, the names on the source's side of it). Of several cuts as small it is the one
        next to the sink."""
        s, t = self.number(source), self.number(sink)
        total = 0
        while True:
            level = self._levels(s)
            if level[t] < 0:
                before = self._before(t)
                return total, {name for name, n in self.numbers.items() if not before[n]}
            total += self._saturate(s, t, level)
            if total >= INFINITE:
                return total, set()

    def _levels(self, s: int) -> list[int]:
        level = [-1] * len(self.edges_of)
        level[s] = 0
        waiting = deque((s,))
        while waiting:
            here = waiting.popleft()
            for e in self.edges_of[here]:
                if self.room[e] and level[self.target[e]] < 0:
                    level[self.target[e]] = level[here] + 1
                    waiting.append(self.target[e])
        return level

    def _before(self, t: int) -> list[bool]:
        """What the sink could still be reached from."""
        found = [False] * len(self.edges_of)
        found[t] = True
        waiting = deque((t,))
        while waiting:
            here = waiting.popleft()
            for e in self.edges_of[here]:      # e leads back along its twin
                if self.room[e ^ 1] and not found[self.target[e]]:
                    found[self.target[e]] = True
                    waiting.append(self.target[e])
        return found

    def _saturate(self, s: int, t: int, level: list[int]) -> int:
        """Fill shortest paths until none is left."""
        position = [0] * len(self.edges_of)
        path: list[int] = []
        total, here = 0, s
        while True:
            if here == t:
                amount = min(self.room[e] for e in path)
                total += amount
                for e in path:
                    self.room[e] -= amount
                    self.room[e ^ 1] += amount
                full = next(i for i, e in enumerate(path) if not self.room[e])
                here = self.target[path[full] ^ 1]
                del path[full:]
                continue
            edges = self.edges_of[here]
            while position[here] < len(edges):
                e = edges[position[here]]
                if self.room[e] and level[self.target[e]] == level[here] + 1:
                    break
                position[here] += 1
            if position[here] < len(edges):
                path.append(e)
                here = self.target[e]
            elif not path:
                return total
            else:     # a dead end: back, and not this way again
                e = path.pop()
                here = self.target[e ^ 1]
                position[here] += 1
