"""What is being captured into a graph, and the random numbers drawn meanwhile.

Enters: a capture's begin and end, from `rushlight.cuda`. Leaves: `Drawn`, of each generator that was drawn from: the
memory in which captured kernels find its seed and counter, and how far one run of the graph moves it. While a graph is
captured its generators move as they would if it ran, so that states can be kept and restored inside it; afterwards they
are where they were, since nothing ran.
"""

from __future__ import annotations

from typing import Any

from ... import _C

MOST = 16      # generators that a graph draws from


class Drawn:
    """A generator that a graph draws from."""

    def __init__(self, generator: _C.Generator, memory: _C.Tensor) -> None:
        """`memory`: for seed and counter, as the graph's kernels read them."""
        self.generator, self.memory, self.is_used = generator, memory, False
        self.seed, self.start = generator.initial_seed(), generator.get_offset()
        self.moved = 0                   # by one run of the graph

    def take(self, count: int) -> int:
        """How far behind the graph's start a draw begins, which moves the generator by `count`."""
        generator, now = self.generator, self.generator.get_offset()
        if generator.initial_seed() != self.seed:
            raise RuntimeError(
                "cuda.graph: the generator got another seed while the graph was captured, which no replay would repeat."
                " Seed it before the capture, or between replays."
            )
        if now < self.start:
            raise RuntimeError(
                "cuda.graph: the generator was set to a state from before the capture, which replays would have to"
                f" know (offset {now}, the capture began at {self.start}). Restore states that were taken inside."
            )
        self.is_used = True
        generator.set_offset(now + count)
        return now - self.start

    def end(self) -> None:
        """The capture is over: the generator is back where it was."""
        if self.generator.initial_seed() == self.seed:
            self.moved = max(self.generator.get_offset() - self.start, 0)
        self.generator.manual_seed(self.seed).set_offset(self.start)

    def next_run(self) -> tuple[int, int]:
        """Seed and offset for the next run, which moves the generator."""
        offset = self.generator.get_offset()
        self.generator.set_offset(offset + self.moved)
        return self.generator.initial_seed(), offset


def memory_for(device: _C.device) -> _C.Tensor:
    """Memory for the generators of a capture that is to begin. The capture's own would not do: what was captured before
    a draw may have used it, and would again, after seed and counter were written there."""
    return _C.empty((MOST, 2), (2, 1), _C.int64, device)


class Captures:
    """The capture that is running, if any; `rushlight.cuda` says so."""

    def __init__(self) -> None:
        self.drawn: list[Drawn] | None = None
        self.memory: Any = None

    def is_capturing(self) -> bool:
        return self.drawn is not None

    def begin(self, device: _C.device, memory: _C.Tensor) -> None:
        """`memory`: what `memory_for` gave, before the capture."""
        self.drawn, self.memory = [], memory
        self.of(_C.device_generator(device))

    def of(self, generator: _C.Generator) -> Drawn:
        """What is known of a generator in the capture that is running."""
        assert self.drawn is not None, "nothing is captured"
        found = next((d for d in self.drawn if d.generator is generator), None)
        if found is None:
            if len(self.drawn) == MOST:
                raise RuntimeError(f"cuda.graph: work that draws from more than {MOST} generators cannot be captured")
            found = Drawn(generator, self.memory[len(self.drawn)])
            self.drawn.append(found)
        return found

    def end(self) -> list[Drawn]:
        """The generators that the captured work draws from."""
        drawn, self.drawn, self.memory = self.drawn, None, None
        assert drawn is not None, "nothing is captured"
        for one in drawn:
            one.end()
        return [one for one in drawn if one.is_used]


captures = Captures()
