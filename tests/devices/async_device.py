"""A device that does its work later: two units, each stream a thread with a queue of its own, nothing done on return.

Its addresses carry the unit's number in their upper bits, so that memory of the host or of the other unit is noticed.
Before each job a worker rests a moment, so that whatever relies on an order nobody asked for goes wrong.
"""

from __future__ import annotations

import ctypes
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import codegen
from rushlight.devices import Device

UNITS = 2
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def tag(unit: int) -> int:
    return (unit + 5) << 56


class Queue:
    """One stream: jobs are done in order, by one thread."""

    def __init__(self, device: AsyncDevice) -> None:
        self.device = device
        self.jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self) -> None:
        while True:
            job = self.jobs.get()
            time.sleep(self.device.rest)
            try:
                job()
            except BaseException as error:
                self.device.errors.append(error)


class Mark:
    """An event."""

    def __init__(self) -> None:
        self.reached, self.at = threading.Event(), 0.0

    def reach(self) -> None:
        self.at = time.perf_counter()
        self.reached.set()


class AsyncDevice(Device):
    """Host memory behind tagged addresses, and workers."""

    streams = True

    def __init__(self, name: str = "asyncdev", rest: float = 0.0002) -> None:
        self.name, self.rest = name, rest
        self.buffers: dict[int, Any] = {}
        self.queues: dict[tuple[int, int], Queue] = {}
        self.errors: list[BaseException] = []
        self.waits = 0

    def device_count(self) -> int:
        return UNITS

    def memory_info(self, index: int) -> tuple[int, int]:
        return 1 << 30, 1 << 31

    # Memory
    # --------------------------------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, index: int) -> int:
        buffer = (ctypes.c_char * (nbytes + 64))()
        address = (ctypes.addressof(buffer) + 63) // 64 * 64
        self.buffers[address] = buffer
        return address | tag(index)

    def free(self, address: int, nbytes: int, index: int) -> None:
        del self.buffers[self.place(address, index)]

    def place(self, address: int, index: int) -> int:
        """The host's address of this unit's memory; that of nobody else."""
        assert address >> 56 == tag(index) >> 56, f"unit {index} was given address {address:#x}"
        return address & ((1 << 56) - 1)

    def copy_from_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        assert source >> 56 == 0
        self.later(index, stream, lambda: ctypes.memmove(self.place(target, index), source, nbytes))

    def copy_to_host(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        assert target >> 56 == 0
        self.later(index, stream, lambda: ctypes.memmove(target, self.place(source, index), nbytes))

    def copy_within(self, target: int, source: int, nbytes: int, index: int, stream: int) -> None:
        self.later(index, stream, lambda: ctypes.memmove(self.place(target, index), self.place(source, index), nbytes))

    def copy_between(self, target: int, source: int, nbytes: int, index: int, source_index: int, stream: int) -> None:
        self.later(
            index, stream, lambda: ctypes.memmove(self.place(target, index), self.place(source, source_index), nbytes)
        )

    # Kernels
    # -------------------------------------------------------------------------------------------------------------

    def load(self, nest: Any) -> Any:
        return KERNEL(codegen.compile(nest).address)

    def launch(
        self,
        handle: Any,
        pointers: Sequence[int | bytes],
        params: Sequence[int],
        begin: int,
        end: int,
        index: int,
        stream: int,
    ) -> None:
        constants = [
            ctypes.create_string_buffer(p, max(16, len(p))) if isinstance(p, bytes) else None for p in pointers
        ]
        places = [
            ctypes.addressof(c) if c is not None else self.place(p, index) if p else 0
            for p, c in zip(pointers, constants, strict=True)
        ]

        def run() -> None:
            handle(
                (ctypes.c_void_p * len(places))(*places), (ctypes.c_int64 * max(1, len(params)))(*params), begin, end
            )
            del constants[:]   # they live until here

        self.later(index, stream, run)

    # Streams
    # -------------------------------------------------------------------------------------------------------------

    def later(self, index: int, stream: int, job: Callable[[], Any]) -> None:
        self.queue(index, stream).jobs.put(job)

    def queue(self, index: int, stream: int) -> Queue:
        found = self.queues.get((index, stream))
        if found is None:
            found = self.queues[index, stream] = Queue(self)
        return found

    def new_stream(self, index: int, priority: int) -> int:
        return 1 + len([unit for unit, number in self.queues if unit == index and number]) + 100 * len(self.queues)

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

    def synchronize(self, index: int, stream: int = 0) -> None:
        self.waits += 1
        self.record(index, stream).reached.wait()
        if self.errors:
            raise self.errors.pop()
