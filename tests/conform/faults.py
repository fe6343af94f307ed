"""Chips with one fault each, of the kinds that real ones have; everything else is `SoundChip`'s.

Each names the area of the suite that must find it. `FAULTS` has them by name; those whose kernels compute something
else are in a file of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from rushlight import _C
from rushlight.loops import expr

from . import faulty_kernels  # noqa: F401 - enters its own
from .chips import STEP, Mark, Queue, SoundChip, rounded
from .fault import FAULTS, fault

__all__ = ["FAULTS"]


# Random numbers
# ---------------------------------------------------------------------------------------------------------------------


@fault("random")
class SeedsIgnored(SoundChip):
    """Numbers follow from how many were drawn before, not from the seed."""

    def next_state(self, generator: Any) -> int:
        offset = generator.get_offset()
        generator.set_offset(offset + 4)
        return 12345 + offset


@fault("random")
class SeedsCut(SoundChip):
    """Half of a seed is looked at."""

    def next_state(self, generator: Any) -> int:
        offset = generator.get_offset()
        generator.set_offset(offset + 4)
        return (generator.initial_seed() % (1 << 32) * 2654435761 + offset) % (1 << 32)


@fault("random")
class NumbersRepeat(SoundChip):
    """The generator does not move on: every draw has the same numbers."""

    def next_state(self, generator: Any) -> int:
        return generator.initial_seed()


@fault("random")
class StateOfItsOwn(SoundChip):
    """How far the generator was used is kept where nobody saves it."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.used: dict[int, int] = {}

    def next_state(self, generator: Any) -> int:
        seed = generator.initial_seed()
        if not generator.get_offset():      # seeded anew
            self.used[seed] = 0
            generator.set_offset(4)
        self.used[seed] += 1
        return (seed * 1_000_003 + self.used[seed]) % (1 << 32)


@fault("random")
class NormalsOfThreeUniforms(SoundChip):
    """Normal numbers are sums of three uniform ones: the variance is right, the tails are not."""

    def draw(self, source: Any, law: str, host: Any, reads: list[Any], numbers: list[Any]) -> None:
        if law != "normal":
            return super().draw(source, law, host, reads, numbers)
        total = host.clone().zero_()
        for _ in range(3):
            _C.sample(source, "uniform", (host,), -1.0, 1.0)
            total += host
        host.copy_(total * numbers[1] + numbers[0])


@fault("random")
class UniformReachesOne(SoundChip):
    """Uniform numbers are rounded to 12 bits, upwards as well."""

    def draw(self, source: Any, law: str, host: Any, reads: list[Any], numbers: list[Any]) -> None:
        super().draw(source, law, host, reads, numbers)
        if law == "uniform" and host.dtype.is_floating_point:
            host.copy_((host * 4096).round() / 4096)


@fault("random")
class EveryBlockTheSame(SoundChip):
    """Each block of 4096 numbers starts the generator again."""

    def draw(self, source: Any, law: str, host: Any, reads: list[Any], numbers: list[Any]) -> None:
        super().draw(source, law, host, reads, numbers)
        flat = host.reshape(-1)
        for first in range(4096, flat.numel(), 4096):
            part = flat[first : first + 4096]
            part.copy_(flat[: part.numel()])


@fault("random")
class DropoutKeepsTheOthers(SoundChip):
    """Ones of the probability 1 - p."""

    def draw(self, source: Any, law: str, host: Any, reads: list[Any], numbers: list[Any]) -> None:
        if law == "bernoulli" and numbers:
            numbers = [1 - numbers[0], *numbers[1:]]
        super().draw(source, law, host, reads, numbers)


# Memory
# ---------------------------------------------------------------------------------------------------------------------


@fault("memory")
class NeverFreed(SoundChip):
    """What is given back is not free again."""

    def free(self, address: int, nbytes: int, index: int) -> None:
        pass


@fault("memory")
class HalfFreed(SoundChip):
    """Of what is given back the last part is lost where the size was no power of two."""

    def free(self, address: int, nbytes: int, index: int) -> None:
        self.units[index].give(address & ((1 << 56) - 1), 1 << (rounded(nbytes).bit_length() - 1))


@fault("memory")
class NeighboursOverlap(SoundChip):
    """Large pieces are 512 bytes shorter than they should be, so that the next one begins in them."""

    def allocate(self, nbytes: int, index: int) -> int:
        unit = self.units[index]
        return unit.take(rounded(nbytes) - (STEP if nbytes > 1 << 20 else 0)) | unit.tag


@fault("memory")
class HandedOutTwice(SoundChip):
    """What was freed is remembered by its size, and given to all who ask for that."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.freed: dict[tuple[int, int], int] = {}

    def allocate(self, nbytes: int, index: int) -> int:
        found = self.freed.get((index, nbytes))
        return super().allocate(nbytes, index) if found is None else found

    def free(self, address: int, nbytes: int, index: int) -> None:
        if self.freed.setdefault((index, nbytes), address) != address:
            super().free(address, nbytes, index)


@fault("memory")
class LaunchesLeak(SoundChip):
    """Constants of a launch are put into memory of the unit, and stay there."""

    def launch(
        self, handle: Any, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int,
        stream: int,
    ) -> None:
        if any(isinstance(p, bytes) for p in pointers):
            self.units[index].take(STEP)
        super().launch(handle, pointers, params, begin, end, index, stream)


@fault("memory")
class FullIsAKeyError(SoundChip):
    """That there is no memory is said in a class that nobody takes for that."""

    def allocate(self, nbytes: int, index: int) -> int:
        try:
            return super().allocate(nbytes, index)
        except MemoryError as error:
            raise KeyError(str(error)) from None


@fault("memory")
class FullForEver(SoundChip):
    """After memory ran out once there is none."""

    is_full = False

    def allocate(self, nbytes: int, index: int) -> int:
        if self.is_full:
            raise MemoryError("still full")
        try:
            return super().allocate(nbytes, index)
        except MemoryError:
            self.is_full = nbytes > 1 << 30
            raise


@fault("memory")
class FullIsNotSaid(SoundChip):
    """More than there is gets the first address."""

    def allocate(self, nbytes: int, index: int) -> int:
        try:
            return super().allocate(nbytes, index)
        except MemoryError:
            return self.units[index].tag | 1 << 20


# Copies
# ---------------------------------------------------------------------------------------------------------------------


@fault("copies")
class LongCopiesCut(SoundChip):
    """A copy to the device moves 64 KiB at most: what its first window holds."""

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        super().copy_from_host(target, source, min(nbytes, 1 << 16), index, stream)


@fault("copies")
class CopiesWithinCut(SoundChip):
    """A copy within the device moves 1 MiB at most."""

    def copy_within(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        super().copy_within(target, source, min(nbytes, 1 << 20), index, stream)


@fault("copies")
class CopiesOfWholeWords(SoundChip):
    """Copies to the host move whole words of four bytes."""

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        super().copy_to_host(target, source, nbytes & ~3, index, stream)


@fault("copies")
class CopiesFromWholeWords(SoundChip):
    """Copies to the host begin at a multiple of four bytes of the device."""

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        super().copy_to_host(target, source & ~3, nbytes, index, stream)


@fault("copies")
class CopiesJumpTheQueue(SoundChip):
    """A copy to the host is done at once, whatever is queued before it."""

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        self.move(target, self.place(source, index), nbytes)


@fault("copies")
class CopiesToTheWrongUnit(SoundChip):
    """A copy between units is written to the unit it came from."""

    def copy_between(self, target: int, source: int, nbytes: int, index: int, source_index: int, stream: int) -> None:
        wrong = (target & ((1 << 56) - 1)) + self.units[source_index].base
        self.later(index, stream, lambda: self.move(wrong, self.place(source, source_index), nbytes))


@fault("copies")
class StridedCopiesAreDense(SoundChip):
    """Copies with strides read what lies side by side."""

    def run(self, handle: Any, places: list[int], params: list[int], begin: int, end: int) -> None:
        if handle.nest.point and handle.nest.name in ("copy_", "copy", "clone"):
            params[1] = expr.BITS[handle.nest.operands[0].code] // 8
        super().run(handle, places, params, begin, end)


# Streams
# ---------------------------------------------------------------------------------------------------------------------


@fault("streams")
class WaitsIgnored(SoundChip):
    """A stream that should wait for an event goes on."""

    def wait(self, event: Mark, index: int, stream: int) -> None:
        pass


@fault("streams")
class WaitsForTheLastOnly(SoundChip):
    """A stream that waits for one more event waits for no other any more."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.waited: dict[tuple[int, int], Mark] = {}

    def wait(self, event: Mark, index: int, stream: int) -> None:
        self.waited[index, stream] = event

    def launch(
        self, handle: Any, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int,
        stream: int,
    ) -> None:
        self.before(index, stream)
        super().launch(handle, pointers, params, begin, end, index, stream)

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        self.before(index, stream)
        super().copy_to_host(target, source, nbytes, index, stream)

    def before(self, index: int, stream: int) -> None:
        """What was waited for last is waited for."""
        event = self.waited.pop((index, stream), None)
        if event is not None:
            super().wait(event, index, stream)


@fault("streams")
class EventsReachedEarly(SoundChip):
    """An event is reached when it is recorded, not when what was queued before it is done."""

    def record(self, index: int, stream: int) -> Mark:
        mark = Mark()
        mark.reach()
        return mark


@fault("streams")
class QueriesSayYes(SoundChip):
    """Every event is said to be reached."""

    def query(self, event: Mark) -> bool:
        return True


@fault("streams")
class FinishDoesNotWait(SoundChip):
    """Waiting for an event returns at once."""

    def finish(self, event: Mark) -> None:
        pass


@fault("streams")
class NegativeTimes(SoundChip):
    """Times run from the end to the start."""

    def elapsed(self, start: Mark, end: Mark) -> float:
        return super().elapsed(end, start)


@fault("streams")
class TimesInSeconds(SoundChip):
    """Times are told in seconds."""

    def elapsed(self, start: Mark, end: Mark) -> float:
        return super().elapsed(start, end) / 1e3


@fault("streams")
class SynchronizeDoesNotWait(SoundChip):
    """Waiting for a stream waits for copies, but not for kernels that are queued last."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.computes: set[tuple[int, int]] = set()

    def launch(
        self, handle: Any, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int,
        stream: int,
    ) -> None:
        super().launch(handle, pointers, params, begin, end, index, stream)
        self.computes.add((index, stream))

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        self.computes.discard((index, stream))
        super().copy_from_host(target, source, nbytes, index, stream)

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        self.computes.discard((index, stream))
        super().copy_to_host(target, source, nbytes, index, stream)

    def synchronize(self, index: int, stream: int = 0) -> None:   # type: ignore[override]   # it has streams
        if (index, stream) not in self.computes:
            super().synchronize(index, stream)


class TwoWorkers(Queue):
    """Two threads take jobs."""

    def __init__(self, chip: SoundChip) -> None:
        super().__init__(chip)
        threading.Thread(target=self.work, daemon=True).start()


@fault("streams")
class SideStreamsOutOfOrder(SoundChip):
    """Two engines work on the jobs of a stream."""

    def queue(self, index: int, stream: int) -> Queue:
        if (index, stream) not in self.queues:
            self.queues[index, stream] = TwoWorkers(self) if stream else Queue(self)
        return self.queues[index, stream]


# Files
# ---------------------------------------------------------------------------------------------------------------------


@fault("serialization")
class FilesFromWholeWords(SoundChip):
    """Memory of the host is read from a multiple of four bytes on, which parts of mapped files need not begin at."""

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        super().copy_from_host(target, source & ~3, nbytes, index, stream)


@fault("serialization")
class LongReadsCut(SoundChip):
    """A copy to the host moves 1 MiB at most, so that files have zeros behind that."""

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        super().copy_to_host(target, source, min(nbytes, 1 << 20), index, stream)
