"""Collectives between ranks of one machine, through a `Segment`. Every one is a short sequence of its steps.

Enters: flat contiguous tensors in host memory. Leaves: the same tensors, written. All ranks add in the order of ranks,
so that they get the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import _C
from .reduce_op import function_of, kind_of
from .segment import SLOT, Segment, mark_of

# Up to this many bytes, or between two ranks, each rank adds up everything itself: one step in place of two.
DIRECT = 1 << 14


def _bytes(flat: Any) -> Any:
    return flat.view(_C.uint8)


def pieces(total: int, most: int) -> Iterator[tuple[int, int]]:
    """(start, length) of the parts of `total` things taken `most` at a time; one empty part for nothing."""
    for start in range(0, max(total, 1), most):
        yield start, min(most, total - start)


class SharedTransport:
    """What a process group asks for, on shared memory."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.rank, self.size = segment.rank, segment.size
        self._typed: dict[tuple, list[list[Any]]] = {}

    def close(self) -> None:
        """Leave the group."""
        self.segment.close()

    def _slots_as(self, dtype: _C.dtype, count: int) -> list[list[Any]]:
        """Both turns' slots as tensors of so many elements; the last few kinds are kept."""
        key = dtype, count
        found = self._typed.get(key)
        if found is None:
            if len(self._typed) >= 16:
                self._typed.clear()
            found = [[s[: count * dtype.itemsize].view(dtype) for s in turn] for turn in self.segment._slots]
            self._typed[key] = found
        return found

    def _begin(self, name: str, flat: Any | None, *more: Any) -> int:
        what = f"{name} of {flat.numel()} elements of {flat.dtype}" if flat is not None else name
        self.segment.describe(what + "".join(f", {m}" for m in more))
        return mark_of(what, *more)

    def barrier(self, timeout: float) -> None:
        """Return when every rank is here."""
        self.segment.step(self._begin("barrier", None), timeout)

    def all_reduce(self, flat: Any, op: Any, timeout: float) -> None:
        """Every rank's tensor becomes the reduction of all."""
        combine = function_of(op, flat.dtype, "all_reduce")
        mark = self._begin("all_reduce", flat, kind_of(op).name)
        most = SLOT // flat.element_size()
        is_direct = self.size <= 2 or flat.nbytes <= DIRECT
        for start, length in pieces(flat.numel(), most):
            part = flat[start : start + length] if length != flat.numel() else flat
            if is_direct:
                self._reduce_all(part, combine, mark, timeout)
            else:
                self._reduce_by_shares(part, combine, mark, timeout)

    def _publish(self, mark: int, timeout: float, part: Any, source: int | None = None) -> list[Any]:
        """A step in which this rank publishes `part`; every rank's slot, typed as `part` is."""
        slots = self._slots_as(part.dtype, part.numel())
        turn = (self.segment.epoch + 1) & 1
        self.segment.step(mark, timeout, lambda _: slots[turn][self.rank].copy_(part), source)
        return slots[turn]

    def _reduce_all(self, part: Any, combine: Any, mark: int, timeout: float) -> None:
        slots = self._publish(mark, timeout, part)
        if self.size == 2:          # in either order the same
            combine(part, slots[1 - self.rank])
        else:
            _reduce_into(part, slots, combine)

    def _reduce_by_shares(self, part: Any, combine: Any, mark: int, timeout: float) -> None:
        """Each rank adds up its share of the elements and publishes that."""
        slots = self._publish(mark, timeout, part)
        bounds = [part.numel() * r // self.size for r in range(self.size + 1)]
        low, high = bounds[self.rank], bounds[self.rank + 1]
        turn = (self.segment.epoch + 1) & 1
        shares = self._slots_as(part.dtype, part.numel())[turn]

        def publish(_: Any) -> None:
            _reduce_into(shares[self.rank][low:high], [s[low:high] for s in slots], combine)

        self.segment.step(mark, timeout, publish)
        for r in range(self.size):
            part[bounds[r] : bounds[r + 1]].copy_(shares[r][bounds[r] : bounds[r + 1]])

    def reduce(self, flat: Any, root: int, op: Any, timeout: float) -> None:
        """The root's tensor becomes the reduction of all."""
        combine = function_of(op, flat.dtype, "reduce")
        mark = self._begin("reduce", flat, kind_of(op).name, f"to {root}")
        for start, length in pieces(flat.numel(), SLOT // flat.element_size()):
            part = flat[start : start + length]
            slots = self._publish(mark, timeout, part, None if self.rank == root else self.rank)
            if self.rank == root:
                _reduce_into(part, slots, combine)

    def broadcast(self, flat: Any, root: int, timeout: float) -> None:
        """Every rank's tensor becomes the root's."""
        mark = self._begin("broadcast", flat, f"from {root}")
        data = _bytes(flat)
        for start, length in pieces(data.numel(), SLOT):
            part = data[start : start + length]
            if self.rank == root:
                self.segment.step(mark, timeout, lambda slot, part=part: slot[: part.numel()].copy_(part), root)
            else:
                part.copy_(self.segment.step(mark, timeout, None, root)[root][:length])

    def all_gather(self, outputs: list[Any], flat: Any, timeout: float) -> None:
        """Every rank gets every rank's tensor."""
        mark = self._begin("all_gather", flat)
        data, places = _bytes(flat), [_bytes(o) for o in outputs]
        for start, length in pieces(data.numel(), SLOT):
            part = data[start : start + length]
            slots = self.segment.step(mark, timeout, lambda slot, part=part: slot[: part.numel()].copy_(part))
            for r in range(self.size):
                if r != self.rank:
                    places[r][start : start + length].copy_(slots[r][:length])
        if places[self.rank].data_ptr() != data.data_ptr():
            places[self.rank].copy_(data)

    def reduce_scatter(self, output: Any, inputs: list[Any], op: Any, timeout: float) -> None:
        """Rank r gets the reduction of all ranks' r-th tensors."""
        combine = function_of(op, output.dtype, "reduce_scatter")
        mark = self._begin("reduce_scatter", output, kind_of(op).name)
        most = SLOT // output.element_size() // self.size
        for start, length in pieces(output.numel(), most):

            def publish(slot: Any, start: int = start, length: int = length) -> None:
                typed = slot.view(output.dtype)
                for r, whole in enumerate(inputs):
                    typed[r * length : (r + 1) * length].copy_(whole[start : start + length])

            slots = self.segment.step(mark, timeout, publish)
            low = self.rank * length
            mine = [s.view(output.dtype)[low : low + length] for s in slots]
            _reduce_into(output[start : start + length], mine, combine)

    def all_to_all(self, outputs: list[Any], inputs: list[Any], timeout: float) -> None:
        """Rank r's s-th tensor goes to rank s as its r-th. Sizes may differ; what is sent must fit what is expected."""
        sent = [i.nbytes for i in inputs]
        expected = [o.nbytes for o in outputs]
        mark = self._begin("all_to_all", None)
        table = self._exchange_sizes(sent, mark, timeout)
        for r in range(self.size):
            if table[r][self.rank] != expected[r]:
                raise self.segment.fail(
                    f"rank {self.segment.global_ranks[r]} sends {table[r][self.rank]} bytes to rank "
                    f"{self.segment.global_ranks[self.rank]}, which expects {expected[r]}"
                )
        data, places = [_bytes(i) for i in inputs], [_bytes(o) for o in outputs]
        room = SLOT // self.size // 64 * 64
        for start, _ in pieces(max(max(row) for row in table), room):

            def publish(slot: Any, start: int = start) -> None:
                for r, whole in enumerate(data):
                    part = whole[start : start + room]
                    slot[r * room : r * room + part.numel()].copy_(part)

            slots = self.segment.step(mark, timeout, publish)
            for r in range(self.size):
                part = places[r][start : start + room]
                part.copy_(slots[r][self.rank * room : self.rank * room + part.numel()])

    def _exchange_sizes(self, sizes: list[int], mark: int, timeout: float) -> list[list[int]]:
        from ..tensors.interop import frombuffer

        row = frombuffer(bytearray(b"".join(s.to_bytes(8, "little") for s in sizes)), dtype=_C.int64)
        return [slot.tolist() for slot in self._publish(mark, timeout, row)]

    def gather(self, outputs: list[Any] | None, flat: Any, root: int, timeout: float) -> None:
        """The root gets every rank's tensor."""
        mark = self._begin("gather", flat, f"to {root}")
        data = _bytes(flat)
        places = [_bytes(o) for o in outputs] if outputs else []
        for start, length in pieces(data.numel(), SLOT):
            part = data[start : start + length]
            source = None if self.rank == root else self.rank
            slots = self.segment.step(mark, timeout, lambda slot, part=part: slot[: part.numel()].copy_(part), source)
            for place, slot in zip(places, slots):
                place[start : start + length].copy_(slot[:length])

    def scatter(self, output: Any, inputs: list[Any] | None, root: int, timeout: float) -> None:
        """Rank r gets the root's r-th tensor."""
        mark = self._begin("scatter", output, f"from {root}")
        place = _bytes(output)
        data = [_bytes(i) for i in inputs] if inputs else []
        room = SLOT // self.size // 64 * 64
        for start, length in pieces(place.numel(), room):

            def publish(slot: Any, start: int = start, length: int = length) -> None:
                for r, whole in enumerate(data):
                    slot[r * room : r * room + length].copy_(whole[start : start + length])

            slots = self.segment.step(mark, timeout, publish if self.rank == root else None, root)
            low = self.rank * room
            place[start : start + length].copy_(slots[root][low : low + length])


def _reduce_into(out: Any, parts: list[Any], combine: Any) -> None:
    """In the order of ranks: all get the same bits."""
    out.copy_(parts[0])
    for part in parts[1:]:
        combine(out, part)
