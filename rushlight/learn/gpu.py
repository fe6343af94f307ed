"""A GPU made of Python: kernels run thread by thread, always in the same order, and every mistake is found.

Enters: a kernel, the sizes of its grid and blocks, and Memories. Leaves: what the kernel wrote, and how often it
read. Refuses, with a `GpuFault` that names the thread: places outside of a Memory, reads of shared memory that nobody
wrote, two threads at one place between two barriers where one of them writes, and barriers that only some threads of
a block reach.

A kernel is a function of a `Thread` and of what was given to `launch`; `yield` is the barrier of its block.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple


class GpuFault(RuntimeError):
    """What a kernel must not do."""


class Place(NamedTuple):
    """A pair of numbers, of a thread, a block, or their counts."""

    x: int
    y: int = 0


class Access(NamedTuple):
    """Who touched an element, between which barriers, and how: "reads", "writes" or "adds to"."""

    block: Place
    thread: Place
    phase: int
    how: str


class Clock:
    """Which thread runs now, between which barriers of its block."""

    def __init__(self) -> None:
        self.block, self.thread, self.phase = Place(0), Place(0), 0


class Memory:
    """Numbers of a shape, under a name; who touches them is noted. None is a number that nobody wrote."""

    def __init__(
        self, name: str, values: Sequence[Any], shape: tuple[int, ...] = (), clock: Clock | None = None
    ) -> None:
        self.name, self.values, self.shape = name, list(values), shape or (len(values),)
        self.clock = clock or Clock()
        self.reads = self.writes = 0
        self.touched: dict[int, set[Access]] = {}

    def begin(self, clock: Clock) -> None:
        """Forget who touched what: a new launch."""
        self.clock, self.touched = clock, {}

    def __getitem__(self, index: Any) -> Any:
        at = self.place(index, "reads")
        self.reads += 1
        if self.values[at] is None:
            raise GpuFault(f"not written: {self.who()} reads {self.name}[{at}], which nobody wrote")
        return self.values[at]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.values[self.place(index, "writes")] = value
        self.writes += 1

    def add(self, index: Any, value: Any) -> None:
        """An atomic addition: others may add to the same place at the same time."""
        self.values[self.place(index, "adds to")] += value

    def who(self) -> str:
        return f"thread {tuple(self.clock.thread)} of block {tuple(self.clock.block)}"

    def place(self, index: Any, how: str) -> int:
        """The number of an element, once it is known that it may be touched."""
        numbers = index if isinstance(index, tuple) else (index,)
        fits = len(numbers) == len(self.shape) and all(isinstance(number, int) for number in numbers)
        if not fits or not all(0 <= number < size for number, size in zip(numbers, self.shape)):
            shown = ", ".join(map(str, numbers))
            raise GpuFault(f"out of bounds: {self.who()} {how} {self.name}[{shown}], whose shape is {self.shape}")
        at = 0
        for number, size in zip(numbers, self.shape):
            at = at * size + number
        access = Access(self.clock.block, self.clock.thread, self.clock.phase, how)
        touched = self.touched.setdefault(at, set())
        for other in touched:
            if races(access, other):
                raise GpuFault(
                    f"race: {self.who()} {how} {self.name}[{', '.join(map(str, numbers))}], which thread"
                    f" {tuple(other.thread)} of block {tuple(other.block)} {other.how} with no barrier between"
                )
        touched.add(access)
        return at


def races(one: Access, other: Access) -> bool:
    """Whether the order of two accesses is left to chance, and matters."""
    if one.how == other.how and one.how != "writes":
        return False
    return one.block != other.block or (one.thread != other.thread and one.phase == other.phase)


class Thread:
    """What a thread knows: its place, its block's, how many there are, and the memory of its block."""

    def __init__(
        self, thread: Place, block: Place, block_dim: Place, grid_dim: Place, shared: Callable[..., Memory]
    ) -> None:
        self.thread, self.block, self.block_dim, self.grid_dim, self.shared = thread, block, block_dim, grid_dim, shared

    def atomic_add(self, memory: Memory, index: Any, value: Any) -> None:
        """Add to a place that other threads add to as well."""
        memory.add(index, value)


def launch(
    kernel: Callable[..., Any], grid: tuple[int, ...], block: tuple[int, ...], *arguments: Any
) -> dict[str, tuple[int, ...]]:
    """Run a kernel in a grid of blocks of threads, (x,) or (x, y) each; the shapes of its shared memories."""
    clock = Clock()
    for one in arguments:
        if isinstance(one, Memory):
            one.begin(clock)
    counts = [Place(*size) if len(size) > 1 else Place(size[0], 1) for size in (grid, block)]
    shared: dict[str, tuple[int, ...]] = {}
    for at in places(counts[0]):
        shared.update(run_block(kernel, at, counts[0], counts[1], clock, arguments))
    return shared


def places(count: Place) -> list[Place]:
    return [Place(x, y) for y in range(count.y) for x in range(count.x)]


def run_block(
    kernel: Callable[..., Any], block: Place, grid_dim: Place, block_dim: Place, clock: Clock, arguments: Sequence[Any]
) -> dict[str, tuple[int, ...]]:
    """All threads of a block, from barrier to barrier; the shapes of its shared memories."""
    memories: dict[str, Memory] = {}

    def shared(name: str, *shape: int) -> Memory:
        if name not in memories:
            count = 1
            for size in shape:
                count *= size
            memories[name] = Memory(name, [None] * count, tuple(shape), clock)
        return memories[name]

    clock.block, clock.phase = block, 0
    waiting: dict[Place, Generator[Any, Any, Any]] = {}
    for at in places(block_dim):
        clock.thread = at
        body = kernel(Thread(at, block, block_dim, grid_dim, shared), *arguments)
        if isinstance(body, Generator):
            waiting[at] = body
    everyone = len(waiting)
    while waiting:
        ended = []
        for at, body in waiting.items():
            clock.thread = at
            try:
                next(body)
            except StopIteration:
                ended.append(at)
        if ended and len(ended) < len(waiting):
            stays = next(at for at in waiting if at not in ended)
            raise GpuFault(
                f"barrier: thread {tuple(stays)} of block {tuple(block)} waits at one that {len(ended)} of {everyone}"
                " threads never reach"
            )
        for at in ended:
            del waiting[at]
        clock.phase += 1
    return {name: one.shape for name, one in memories.items()}
