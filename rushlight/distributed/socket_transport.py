"""Collectives between machines, over a `Mailbox`: rings where bytes count, direct messages where waiting does.

Enters: flat contiguous tensors in host memory. Leaves: the same tensors, written. An element is added up by one rank
alone, or by all in the order of ranks, so that all get the same bits.
"""

from __future__ import annotations

from typing import Any

from .. import _C
from ..op import find_op
from .mailbox import Mailbox
from .reduce_op import function_of
from .work import Lane, Work

_empty = find_op("empty")
SMALL = 1 << 14      # up to this many bytes everybody sends everything to everybody


class SocketTransport:
    """What a process group asks for, on sockets."""

    def __init__(self, mailbox: Mailbox, rank: int, size: int) -> None:
        self.mailbox, self.rank, self.size = mailbox, rank, size
        self._calls = 0
        self._lanes: dict[int, Lane] = {}

    def close(self) -> None:
        """The mailbox belongs to the group; threads that send end here."""
        for lane in self._lanes.values():
            lane.close()

    def _tag(self) -> int:
        """A tag of its own for every collective: negative, so that no message of a program is taken for it."""
        self._calls += 1
        return -self._calls

    def _send(self, part: Any, to: int, tag: int, timeout: float) -> Work:
        """Send while this rank goes on to receive: two ranks that send to each other must not wait for one another."""
        lane = self._lanes.get(to)
        if lane is None:
            lane = self._lanes[to] = Lane(f"send-{to}")
        return lane.run(lambda: self.mailbox.send(part, to, tag, timeout), [], in_background=part.nbytes > SMALL)

    def _swap(self, out: Any, to: int, into: Any, source: int, tag: int, timeout: float) -> None:
        sending = self._send(out, to, tag, timeout)
        self.mailbox.receive(into, source, tag, timeout)
        sending.wait()

    def barrier(self, timeout: float) -> None:
        """Round k hears from the rank 2^k before, which has heard from 2^k ranks by then."""
        tag, nothing, distance = self._tag(), _empty(0, dtype=_C.uint8), 1
        while distance < self.size:
            to, source = (self.rank + distance) % self.size, (self.rank - distance) % self.size
            self._swap(nothing, to, nothing, source, tag, timeout)
            distance *= 2

    def all_reduce(self, flat: Any, op: Any, timeout: float) -> None:
        """Every rank's tensor becomes the reduction of all."""
        combine = function_of(op, flat.dtype, "all_reduce")
        if flat.nbytes <= SMALL:
            return self._reduce_everywhere(flat, combine, timeout)
        tag, n = self._tag(), self.size
        bounds = [flat.numel() * r // n for r in range(n + 1)]
        parts = [flat[bounds[r] : bounds[r + 1]] for r in range(n)]
        room = flat.new_empty(max(p.numel() for p in parts))
        to, source = (self.rank + 1) % n, (self.rank - 1) % n
        for k in range(n - 1):       # once around: part r is complete at rank r - 1
            out, into = parts[(self.rank - k) % n], parts[(self.rank - k - 1) % n]
            came = room[: into.numel()]
            self._swap(out, to, came, source, tag, timeout)
            combine(into, came)
        for k in range(n - 1):       # and around again, to everybody
            self._swap(parts[(self.rank + 1 - k) % n], to, parts[(self.rank - k) % n], source, tag, timeout)

    def _reduce_everywhere(self, flat: Any, combine: Any, timeout: float) -> None:
        parts = [flat.clone() if r == self.rank else flat.new_empty(flat.numel()) for r in range(self.size)]
        self._to_all([flat] * self.size, parts, timeout)
        flat.copy_(parts[0])
        for part in parts[1:]:
            combine(flat, part)

    def _to_all(self, out: list[Any], into: list[Any], timeout: float) -> None:
        tag = self._tag()
        sending = [
            self._send(out[to], to, tag, timeout)
            for to in ((self.rank + k) % self.size for k in range(1, self.size))
        ]
        for k in range(1, self.size):
            source = (self.rank - k) % self.size
            self.mailbox.receive(into[source], source, tag, timeout)
        for work in sending:
            work.wait()

    def reduce(self, flat: Any, root: int, op: Any, timeout: float) -> None:
        """The root's tensor becomes the reduction of all."""
        combine = function_of(op, flat.dtype, "reduce")
        if self.rank != root:
            return self.gather(None, flat, root, timeout)
        parts = [flat.clone() if r == root else flat.new_empty(flat.numel()) for r in range(self.size)]
        self.gather(parts, flat, root, timeout)
        flat.copy_(parts[0])
        for part in parts[1:]:
            combine(flat, part)

    def broadcast(self, flat: Any, root: int, timeout: float) -> None:
        """Down a binomial tree: who has the bytes passes them on, to twice as many each round."""
        tag, place, distance = self._tag(), (self.rank - root) % self.size, 1
        while distance < self.size:
            if place < distance and place + distance < self.size:
                self.mailbox.send(flat, (self.rank + distance) % self.size, tag, timeout)
            elif distance <= place < 2 * distance:
                self.mailbox.receive(flat, (self.rank - distance) % self.size, tag, timeout)
            distance *= 2

    def all_gather(self, outputs: list[Any], flat: Any, timeout: float) -> None:
        """Every rank gets every rank's tensor."""
        if outputs[self.rank].data_ptr() != flat.data_ptr():
            outputs[self.rank].copy_(flat)
        tag, n = self._tag(), self.size
        to, source = (self.rank + 1) % n, (self.rank - 1) % n
        for k in range(n - 1):
            self._swap(outputs[(self.rank - k) % n], to, outputs[(self.rank - k - 1) % n], source, tag, timeout)

    def reduce_scatter(self, output: Any, inputs: list[Any], op: Any, timeout: float) -> None:
        """Rank r gets the reduction of all ranks' r-th tensors."""
        combine, tag = function_of(op, output.dtype, "reduce_scatter"), self._tag()
        mine = inputs[self.rank].clone()
        room = output.new_empty(output.numel())
        for k in range(1, self.size):
            to, source = (self.rank + k) % self.size, (self.rank - k) % self.size
            self._swap(inputs[to], to, room, source, tag, timeout)
            combine(mine, room)
        output.copy_(mine)

    def all_to_all(self, outputs: list[Any], inputs: list[Any], timeout: float) -> None:
        """Rank r's s-th tensor goes to rank s as its r-th."""
        outputs[self.rank].copy_(inputs[self.rank])
        self._to_all(inputs, outputs, timeout)

    def gather(self, outputs: list[Any] | None, flat: Any, root: int, timeout: float) -> None:
        """The root gets every rank's tensor."""
        tag = self._tag()
        if self.rank != root or outputs is None:
            return self.mailbox.send(flat, root, tag, timeout)
        for r, place in enumerate(outputs):
            if r != root:
                self.mailbox.receive(place, r, tag, timeout)
            elif place.data_ptr() != flat.data_ptr():
                place.copy_(flat)

    def scatter(self, output: Any, inputs: list[Any] | None, root: int, timeout: float) -> None:
        """Rank r gets the root's r-th tensor."""
        tag = self._tag()
        if self.rank != root or inputs is None:
            self.mailbox.receive(output, root, tag, timeout)
            return
        output.copy_(inputs[root])
        for r, part in enumerate(inputs):
            if r != root:
                self.mailbox.send(part, r, tag, timeout)
