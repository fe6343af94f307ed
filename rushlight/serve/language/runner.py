"""Steps of a model, from lists of numbers to logits: as they come, or captured once and replayed.

Enters: a `Decoder`, its pages, and the tokens of a step. Leaves: logits, and where each row is largest. Steps are
filled up to one of a few sizes, so that what was prepared for a size serves again. On CUDA a step of a size whose
sequences all decode is captured into a graph and replayed from then on. Refuses: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import _C
from ...op import find_op
from ...tensors.interop import tensor
from .blocks import SCRATCH
from .model import Decoder, Step

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
APART = 128      # beyond those


def filled(count: int) -> int:
    """The size of a step with so many tokens."""
    for size in SIZES:
        if count <= size:
            return size
    return -(-count // APART) * APART


@dataclass
class Captured:
    """A graph, what it reads and what it writes."""

    graph: Any
    numbers: Any
    logits: Any
    likeliest: Any


class Runner:
    """Runs steps of one model over its own pages."""

    def __init__(self, decoder: Decoder, blocks: int, size: int, sequences: int, length: int, captures: bool) -> None:
        self.decoder, self.block = decoder, size
        self.pages = decoder.pages(blocks, size)
        zeros = find_op("zeros")
        self.table_rows = [[SCRATCH] * length for _ in range(sequences)]
        self.tables = zeros((sequences, length), dtype=_C.int64, device=decoder.device)
        self.changed: set[int] = set()
        # which experts a step goes through is decided as it runs
        self.captures = captures and decoder.device.type == "cuda" and decoder.config.mix is None
        self.captured: dict[int, Captured] = {}

    def place(self, row: int, blocks: Sequence[int], first: int = 0) -> None:
        """The blocks of a sequence, from its `first` on."""
        self.table_rows[row][first : first + len(blocks)] = blocks
        self.changed.add(row)

    def run(
        self, tokens: list[int], positions: list[int], rows: list[int], slots: list[int], wanted: list[int],
        spans: list[int],
    ) -> Any:
        """(logits, places of their maxima), of which the first len(wanted) rows count. `spans` are empty where the
        model does not ask for them."""
        for row in self.changed:
            self.tables[row].copy_(tensor(self.table_rows[row], dtype=_C.int64))
        self.changed.clear()
        decodes = len(wanted) == len(tokens)
        more = filled(len(tokens)) - len(tokens)
        columns = [tokens + [0] * more, positions + [-1] * more, rows + [0] * more, slots + [0] * more]
        columns += [spans + [0] * more] if spans else []
        size = len(columns[0])
        if decodes:
            wanted = list(range(size))
        else:
            wanted = wanted + [0] * (filled(len(wanted)) - len(wanted))
        numbers = tensor([number for column in (*columns, wanted) for number in column], dtype=_C.int64)
        if self.captures and decodes:
            return self.replayed(size, numbers)
        return self.computed(size, numbers.to(self.decoder.device))

    def computed(self, size: int, numbers: Any) -> tuple[Any, Any]:
        count = 5 if self.decoder.limit else 4
        tokens, positions, rows, slots, *spans = (numbers[n * size : (n + 1) * size] for n in range(count))
        step = Step(tokens, positions, rows, slots, self.tables, numbers[count * size :], *spans)
        logits = self.decoder.forward(step, self.pages)
        return logits, logits.argmax(-1)

    def replayed(self, size: int, numbers: Any) -> tuple[Any, Any]:
        """The step by its graph, which is captured when a size occurs for the first time."""
        found = self.captured.get(size)
        if found is None:
            from ...cuda import CUDAGraph, graph  # opens the driver, which few programs need

            held = numbers.to(self.decoder.device)
            self.computed(size, held)      # once as it is: what it needs is made, and kernels are loaded
            made = CUDAGraph()
            with graph(made):
                logits, likeliest = self.computed(size, held)
            found = self.captured[size] = Captured(made, held, logits, likeliest)
        found.numbers.copy_(numbers)
        found.graph.replay()
        return found.logits, found.likeliest
