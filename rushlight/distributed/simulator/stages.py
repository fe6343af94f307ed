"""What one rank of every pipeline stage does with a micro-batch: seconds of its blocks, bytes it keeps and exchanges.

Enters: a model, a layout, a cluster and the size of the batch. Leaves: `Stage`s, which the engine strings together.
Ranks that differ only in the tensor, context or data dimension do the same at the same time, so one of them stands for
all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from . import costs
from .layout import Layout
from .machines import Cluster
from .work import Block, Model


class Piece(NamedTuple):
    """A block on a rank: seconds of one micro-batch, and of what the network does for it."""

    name: str
    forward: float
    backward: float            # both gradients, and the forward pass again where that is recomputed
    gather: float = 0.0        # of parameters that are sharded
    reduce: float = 0.0        # of gradients, after the last micro-batch or (sharded) after each


@dataclass(frozen=True)
class Stage:
    """Blocks that follow each other on one rank."""

    rank: int                  # pipeline rank
    pieces: tuple[Piece, ...]
    sending: float             # seconds until the next stage has a result
    kept: float                # bytes kept for the backward pass of one micro-batch
    parameters: float          # bytes, of one copy, on this rank

    def as_one(self) -> Stage:
        """All blocks as one."""
        sums = [sum(values) for values in zip(*(piece[1:] for piece in self.pieces), strict=True)]
        return replace(self, pieces=(Piece(f"{self.pieces[0].name} to {self.pieces[-1].name}", *sums),))


def stages_of(model: Model, layout: Layout, cluster: Cluster, samples: float) -> list[Stage]:
    """Virtual stages in order: stage `s` is on pipeline rank `s % pipeline`."""
    count = layout.pipeline * layout.chunks
    if count > len(model.blocks):
        raise ValueError(f"layout: {count} pipeline stages asked for, but {model.name} has {len(model.blocks)} blocks")
    results, parts = [], divided(model.blocks, count)
    for number, blocks in enumerate(parts):
        rank = number % layout.pipeline
        pieces = tuple(piece_of(block, model, layout, cluster, samples, rank) for block in blocks)
        passed = blocks[-1].passed * samples / layout.context / (layout.tensor if layout.tensor > 1 else 1)
        sending = 0.0
        if layout.pipeline > 1 and number + 1 < count:
            group = layout.group("pipeline")
            sending = cluster.link(group[rank], group[(rank + 1) % layout.pipeline]).time(passed) * cluster.sharing()
        kept = sum((b.passed if layout.recompute else b.kept) for b in blocks) * samples / layout.context
        own = sum(b.parameters for b in blocks) * model.parameter_bytes / layout.tensor
        results.append(Stage(rank, pieces, sending, kept / layout.tensor, own))
    return results


def piece_of(block: Block, model: Model, layout: Layout, cluster: Cluster, samples: float, rank: int) -> Piece:
    """Arithmetic and memory traffic one after the other; what ranks of a tensor group exchange waits for both."""
    chip, turns = cluster.chip, cluster.sharing()
    share = samples / (layout.tensor * layout.context)
    forward = turns * (block.flops * share / chip.flops + 2 * block.kept * share / chip.memory_bandwidth)
    if layout.context > 1:     # keys and values travel while others are being used
        link = cluster.spans(layout.group("context", rank))[-1][1]
        steps = layout.context - 1
        forward = max(forward, steps * link.time(block.attended * share / layout.context))
    passed = block.passed * samples / layout.context
    exchange = block.exchanges * collective("all_reduce", passed, "tensor", layout, cluster, rank)
    backward = 2 * forward + exchange + (forward + exchange if layout.recompute else 0.0)
    weight = block.parameters * model.parameter_bytes / layout.tensor
    gather = reduce = 0.0
    if layout.shard == "full":
        gather = collective("all_gather", weight, "data", layout, cluster, rank)
        reduce = collective("reduce_scatter", weight, "data", layout, cluster, rank)
    elif layout.shard == "optimizer":
        reduce = collective("reduce_scatter", weight, "data", layout, cluster, rank)
    else:
        reduce = collective("all_reduce", weight, "data", layout, cluster, rank)
    return Piece(block.name, forward + exchange, backward, gather, reduce)


def collective(name: str, size: float, dim: str, layout: Layout, cluster: Cluster, rank: int) -> float:
    """Seconds of a collective along a dimension; nothing if nobody else is in the group."""
    if getattr(layout, dim) == 1 or not size:
        return 0.0
    spans = cluster.spans(layout.group(dim, rank))
    return cluster.sharing() * costs.COLLECTIVES[name](size, spans, 1 / cluster.chip.memory_bandwidth)


def divided(blocks: Sequence[Block], count: int) -> list[tuple[Block, ...]]:
    """Neighbouring blocks in `count` parts whose largest does the least that is possible."""
    weights = [block.flops + block.parameters for block in blocks]
    low, high = max(weights), sum(weights)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if len(filled(weights, middle)) <= count else (middle, high)
    ends = filled(weights, high * (1 + 1e-9))
    while len(ends) < count:     # a part too few: halve the one with most blocks
        bounds = [0, *ends]
        widest = max(range(len(ends)), key=lambda k: bounds[k + 1] - bounds[k])
        ends.insert(widest, (bounds[widest] + bounds[widest + 1]) // 2)
    bounds = [0, *ends]
    return [tuple(blocks[bounds[k] : bounds[k + 1]]) for k in range(count)]


def filled(weights: Sequence[float], most: float) -> list[int]:
    """Where parts end that take blocks while they weigh no more than `most`."""
    ends, held = [], 0.0
    for k, weight in enumerate(weights):
        if held and held + weight > most:
            ends.append(k)
            held = 0.0
        held += weight
    return [*ends, len(weights)]
