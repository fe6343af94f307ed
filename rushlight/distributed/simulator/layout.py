"""How a job is spread over ranks: which dimension is cut how often, and in which order pipeline stages work.

Enters: numbers. Leaves: a `Layout`, which knows every rank's groups. Neighbouring ranks differ in the tensor dimension,
then in context, data, and last in the pipeline stage: what talks most is nearest.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero_bubble")
SHARDS = ("none", "optimizer", "full")


@dataclass(frozen=True)
class Layout:
    """The product of the four degrees is the number of ranks.

    `shard`: what data parallel ranks divide among them: nothing, optimizer state (ZeRO), or parameters, gradients and
    state (FSDP). `chunks`: stages per rank of an interleaved pipeline. `recompute`: blocks keep only their input.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    micro_batches: int = 1     # per data parallel rank and step
    schedule: str = "1f1b"
    chunks: int = 1
    shard: str = "none"
    recompute: bool = False

    def __post_init__(self) -> None:
        for what in ("data", "tensor", "pipeline", "context", "micro_batches", "chunks"):
            if getattr(self, what) < 1:
                raise ValueError(f"layout: {what} must be at least 1, got {getattr(self, what)}")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"layout: expected a schedule among {', '.join(SCHEDULES)}, got {self.schedule!r}")
        if self.shard not in SHARDS:
            raise ValueError(f"layout: expected shard to be one of {', '.join(SHARDS)}, got {self.shard!r}")
        if self.chunks > 1 and self.schedule != "interleaved":
            raise ValueError(f"layout: {self.chunks} chunks need schedule='interleaved', got {self.schedule!r}")

    @property
    def ranks(self) -> int:
        return self.data * self.tensor * self.pipeline * self.context

    def group(self, dim: str, stage: int = 0) -> range:
        """The ranks that the first rank of a stage talks to along a dimension."""
        inside = {"tensor": 1, "context": self.tensor, "data": self.tensor * self.context}
        if dim == "pipeline":
            return range(0, self.ranks, self.ranks // self.pipeline)
        first = stage * (self.ranks // self.pipeline)
        count, step = getattr(self, dim), inside[dim]
        return range(first, first + count * step, step)

    def __str__(self) -> str:
        cut = [f"{what} {getattr(self, what)}" for what in ("tensor", "context", "data", "pipeline")]
        words = [w for w in cut if not w.endswith(" 1")] or ["one rank"]
        if self.pipeline > 1:
            words.append(self.schedule + (f" x{self.chunks}" if self.chunks > 1 else ""))
        if self.micro_batches > 1:
            words.append(f"{self.micro_batches} micro-batches")
        if self.shard != "none":
            words.append(f"shards {'state' if self.shard == 'optimizer' else 'all'}")
        return ", ".join(words + ["recomputed"] * self.recompute)
