"""A sound chip: two units with memory of their own, a queue with a thread for each stream, the host's kernels.

Its units are stretches of memory that nobody else has; an address names the unit in its upper bits and a place in that
memory in its lower ones, so that an address of the host or of the other unit is noticed. Nothing is done on return.
`faults.py` has chips that are this one but for one thing.
"""

from __future__ import annotations

import bisect
import ctypes
import mmap
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import rushlight as rl
from rushlight import _C, codegen
from rushlight.devices import Device
from rushlight.loops.nest import Nest

UNITS = 2
MEMORY = 192 << 20
STEP = 512                  # what sizes of memory are rounded to
FIRST = 1 << 20             # address 0 is nobody's
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
Job = Callable[[], Any]


class Unit:
    """The memory of one unit: which stretches of it are free, in order."""

    def __init__(self, number: int) -> None:
        self.tag = (number + 5) << 56
        self.memory = mmap.mmap(-1, MEMORY)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.free: list[tuple[int, int]] = [(FIRST, MEMORY - FIRST)]      # place and size
        self.lock = threading.Lock()

    def take(self, size: int) -> int:
        """The place of the first free stretch of that size."""
        with self.lock:
            for at, (place, room) in enumerate(self.free):
                if room >= size:
                    self.free[at : at + 1] = [(place + size, room - size)] if room > size else []
                    return place
        raise MemoryError(f"{size} bytes asked for, {self.left()} left")

    def give(self, place: int, size: int) -> None:
        """A stretch is free again, and joined with free neighbours."""
        with self.lock:
            at = bisect.bisect(self.free, (place, size))
            if at < len(self.free) and place + size == self.free[at][0]:
                size += self.free.pop(at)[1]
            if at and sum(self.free[at - 1]) == place:
                place, size = self.free[at - 1][0], size + self.free.pop(at - 1)[1]
                at -= 1
            self.free.insert(at, (place, size))

    def left(self) -> int:
        """How many bytes are free."""
        return sum(size for _, size in self.free)

    def place(self, address: int) -> int:
        """The host's address of this unit's memory; of nobody else's."""
        assert address >> 56 == self.tag >> 56, f"{address:#x} is no address of this unit"
        return self.base + (address & ((1 << 56) - 1))


class Queue:
    """One stream: its jobs are done in order, by one thread."""

    def __init__(self, chip: SoundChip) -> None:
        self.chip = chip
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        while True:
            job = self.jobs.get()
            try:
                job()
            except BaseException as error:
                self.chip.errors.append(error)
            del job      # it holds what it uses


class Mark:
    """An event."""

    def __init__(self) -> None:
        self.reached, self.at = threading.Event(), 0.0

    def reach(self) -> None:
        self.at = time.perf_counter()
        self.reached.set()


class SoundChip(Device):
    """What all chips of these tests are made of; each method is a place where one can go wrong."""

    name = "sound"
    streams = True

    def __init__(self, name: str | None = None) -> None:
        self.name = name or type(self).name   # type: ignore[misc]   # instances have names of their own
        self.units = [Unit(number) for number in range(UNITS)]
        self.queues: dict[tuple[int, int], Queue] = {}
        self.errors: list[BaseException] = []
        self.launches = 0

    def device_count(self) -> int:
        return UNITS

    def memory_info(self, index: int) -> tuple[int, int]:
        return self.units[index].left(), MEMORY - FIRST

    # Memory
    # -----------------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, index: int) -> int:
        unit = self.units[index]
        return unit.take(rounded(nbytes)) | unit.tag

    def free(self, address: int, nbytes: int, index: int) -> None:
        self.units[index].give(address & ((1 << 56) - 1), rounded(nbytes))

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        assert source >> 56 == 0, f"{source:#x} is no address of the host"
        self.later(index, stream, lambda: self.move(self.place(target, index), source, nbytes))

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        assert target >> 56 == 0, f"{target:#x} is no address of the host"
        self.later(index, stream, lambda: self.move(target, self.place(source, index), nbytes))

    def copy_within(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        self.later(index, stream, lambda: self.move(self.place(target, index), self.place(source, index), nbytes))

    def copy_between(self, target: int, source: int, nbytes: int, index: int, source_index: int, stream: int) -> None:
        self.later(
            index, stream, lambda: self.move(self.place(target, index), self.place(source, source_index), nbytes)
        )

    def move(self, target: int, source: int, nbytes: int) -> None:
        """Bytes from one place to another, both of the host."""
        ctypes.memmove(target, source, nbytes)

    def place(self, address: int, index: int) -> int:
        """Where an address of a unit really is."""
        return self.units[index].place(address)

    # Kernels
    # -----------------------------------------------------------------------------------------------------------------

    def load(self, nest: Nest) -> Any:
        kernel = KERNEL(codegen.compile(self.written(nest)).address)
        kernel.nest = nest
        return kernel

    def written(self, nest: Nest) -> Nest:
        """What is compiled for a nest."""
        return nest

    def launch(
        self, handle: Any, pointers: Sequence[int | bytes], params: Sequence[int], begin: int, end: int, index: int,
        stream: int,
    ) -> None:
        self.launches += 1
        constants = [
            ctypes.create_string_buffer(p, max(16, len(p))) if isinstance(p, bytes) else None for p in pointers
        ]
        places = [
            ctypes.addressof(c) if c is not None else self.place(p, index) if p else 0   # type: ignore[arg-type]
            for p, c in zip(pointers, constants, strict=True)
        ]

        def run() -> None:
            self.run(handle, places, list(params), begin, end)
            del constants[:]      # they live until here

        self.later(index, stream, run)

    def run(self, handle: Any, places: list[int], params: list[int], begin: int, end: int) -> None:
        """One kernel, on the thread of its stream."""
        handle((ctypes.c_void_p * len(places))(*places), (ctypes.c_int64 * max(1, len(params)))(*params), begin, end)

    # Streams
    # -----------------------------------------------------------------------------------------------------------------

    def later(self, index: int, stream: int, job: Job) -> None:
        self.queue(index, stream).jobs.put(job)

    def queue(self, index: int, stream: int) -> Queue:
        found = self.queues.get((index, stream))
        if found is None:
            found = self.queues[index, stream] = Queue(self)
        return found

    def new_stream(self, index: int, priority: int) -> int:
        number = 1 + len(self.queues)
        self.queue(index, number)
        return number

    def record(self, index: int, stream: int) -> Mark:
        mark = Mark()
        self.later(index, stream, mark.reach)
        return mark

    def wait(self, event: Mark, index: int, stream: int) -> None:
        self.later(index, stream, event.reached.wait)

    def finish(self, event: Mark) -> None:
        event.reached.wait()

    def query(self, event: Mark) -> bool:
        return event.reached.is_set()

    def elapsed(self, start: Mark, end: Mark) -> float:
        start.reached.wait()
        end.reached.wait()
        return (end.at - start.at) * 1e3

    def synchronize(self, index: int, stream: int = 0) -> None:   # type: ignore[override]   # it has streams
        mark = Mark()
        self.later(index, stream, mark.reach)
        mark.reached.wait()
        if self.errors:
            raise self.errors.pop()

    # Random numbers, of a generator of the chip's own: a seed and how far it was used
    # -----------------------------------------------------------------------------------------------------------------

    def implementation(self, op: str) -> Callable | None:
        if op not in ("random_uniform", "random_normal", "random_bernoulli", "random_exponential"):
            return None
        law = op.removeprefix("random_")

        def fill(out: Any, generator: Any, *rest: Any) -> None:
            reads = [part.cpu() for part in rest if isinstance(part, rl.Tensor)]
            numbers = [part for part in rest if not isinstance(part, rl.Tensor)]
            host = rl.empty(out.shape, dtype=out.dtype, device="cpu")
            state = self.next_state(generator if generator is not None else _C.device_generator(out.device))
            self.draw(_C.Generator().manual_seed(state), law, host, reads, numbers)
            out.copy_(host)

        return fill

    def next_state(self, generator: Any) -> int:
        """What the next numbers follow from; the generator moves on."""
        offset = generator.get_offset()
        generator.set_offset(offset + 4)
        mixed = (generator.initial_seed() * 0x9E3779B97F4A7C15 + offset * 0xD1342543DE82EF95) % (1 << 64)
        return mixed ^ mixed >> 32      # the host's generator looks at 32 bits

    def draw(self, source: Any, law: str, host: Any, reads: list[Any], numbers: list[Any]) -> None:
        """Fill a tensor of the host."""
        _C.sample(source, law, (host, *reads), *numbers)


def rounded(nbytes: int) -> int:
    """A size in whole steps."""
    return max(STEP, -(-nbytes // STEP) * STEP)
