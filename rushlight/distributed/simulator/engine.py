"""A training step, event by event: what every pipeline rank computes and sends, and when.

Enters: a model, a layout, a cluster, a batch size. Leaves: a `Forecast`: seconds, a timeline, memory, and where time
goes. Refuses layouts that the cluster, the batch or the model cannot hold.

A rank has two lanes: one computes, one talks. Forward passes go in the schedule's order, backward passes too, and a
forward pass comes next while fewer micro-batches are under way than the schedule allows: a schedule is a limit, and
its bubbles are found, not assumed. Gradients of weights, where they are apart, fill the time a rank would wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .layout import Layout
from .machines import Cluster
from .stages import Stage, collective, stages_of
from .work import Model


class Span(NamedTuple):
    """Something that a lane does."""

    rank: int
    lane: str                  # "compute" or "network"
    name: str
    kind: str                  # forward, backward, weights, gather, reduce, step
    start: float
    end: float


@dataclass
class Forecast:
    """What is expected of a step. Memory is in bytes, of the rank that needs most."""

    model: Model
    layout: Layout
    cluster: Cluster
    batch: int
    seconds: float
    timeline: list[Span]
    memory: dict[str, float]
    exposed: float             # seconds in which a rank's compute lane waits for its own network lane
    idle: float                # seconds in which it waits for other stages; both of the slowest rank

    @property
    def fits(self) -> bool:
        return sum(self.memory.values()) <= self.cluster.chip.memory

    @property
    def utilization(self) -> float:
        """The model's arithmetic over what all chips could do in that time."""
        return self.model.flops * self.batch / (self.seconds * self.cluster.chip.flops * self.layout.ranks)

    def __str__(self) -> str:
        used, have = sum(self.memory.values()) / 1e9, self.cluster.chip.memory / 1e9
        return (
            f"{self.model.name} on {self.layout.ranks} x {self.cluster.chip.name} ({self.layout}): "
            f"{self.seconds * 1e3:.4g} ms a step of {self.batch}, {self.utilization:.0%} of the arithmetic used, "
            f"{used:.3g} of {have:.3g} GB{'' if self.fits else ': does not fit'}"
        )


def simulate(model: Model, layout: Layout, cluster: Cluster, batch: int, *, detail: bool = True) -> Forecast:
    """The step that trains `model` on `batch` samples, spread over the cluster's first ranks as `layout` says.

    Without `detail` the blocks of a stage count as one: less is overlapped, and it takes less time to find out.

    Example:
        >>> from rushlight.distributed.simulator import CLUSTERS, Layout, simulate, transformer
        >>> gpt = transformer(layers=48, width=8192, heads=64, length=4096, vocabulary=50304)
        >>> found = simulate(gpt, Layout(data=16, tensor=8, pipeline=8, micro_batches=32), CLUSTERS["h200"], 1024)
        >>> found.fits and found.layout.ranks == 1024
        True
    """
    parts = layout.data * layout.micro_batches
    if batch < 1 or batch % parts:
        raise ValueError(f"simulate: a batch of {batch} does not divide into {layout.data} data parallel ranks of "
                         f"{layout.micro_batches} micro-batches")
    if model.heads % layout.tensor:
        raise ValueError(f"simulate: {model.heads} heads do not divide among {layout.tensor} tensor parallel ranks")
    cluster = cluster.of(layout.ranks)
    stages = stages_of(model, layout, cluster, batch / parts)
    if not detail:
        stages = [stage.as_one() for stage in stages]
    run = _Run(layout, stages)
    run.all()
    held = {rank: sum(s.parameters for s in stages if s.rank == rank) for rank in range(layout.pipeline)}
    ends = []
    for rank in range(layout.pipeline):
        ends.append(_update(run, rank, model, layout, cluster, held[rank]))
    memory = max((memory_of(model, layout, held[r], run.ranks[r].most, stages) for r in held),
                 key=lambda m: sum(m.values()))
    last = max(range(layout.pipeline), key=lambda r: ends[r])
    waited = run.ranks[last]
    idle = ends[last] - waited.busy - waited.exposed
    return Forecast(model, layout, cluster, batch, max(ends), run.timeline, memory, waited.exposed, idle)


def _update(run: _Run, rank: int, model: Model, layout: Layout, cluster: Cluster, held: float) -> float:
    """The optimizer's step: it reads and writes parameters, gradients and state once; then, if only state is sharded,
    parameters are gathered. The end of the rank's step."""
    lane = run.ranks[rank]
    start = max(lane.computes, lane.talks)
    lane.exposed += max(0.0, lane.talks - lane.computes)
    count = held / model.parameter_bytes / (layout.data if layout.shard != "none" else 1)
    moved = count * (2 * model.state_bytes + 3 * model.parameter_bytes)
    seconds = cluster.sharing() * moved / cluster.chip.memory_bandwidth
    run.timeline.append(Span(rank, "compute", "optimizer", "step", start, start + seconds))
    lane.busy += seconds
    end = start + seconds
    if layout.shard == "optimizer":
        gathered = collective("all_gather", held, "data", layout, cluster, rank)
        run.timeline.append(Span(rank, "network", "parameters", "gather", end, end + gathered))
        lane.exposed += gathered
        end += gathered
    return end


def memory_of(model: Model, layout: Layout, held: float, kept: float, stages: list[Stage]) -> dict[str, float]:
    """Bytes of one rank. Where all is sharded, the largest block is whole twice: in use, and on its way."""
    divided = layout.data if layout.shard == "full" else 1
    whole = 0.0
    if layout.shard == "full":
        whole = 4 * max(s.parameters / len(s.pieces) for s in stages)
    state = held / model.parameter_bytes * model.state_bytes / (layout.data if layout.shard != "none" else 1)
    return {"parameters": held / divided, "gradients": held / divided, "gathered": whole, "state": state,
            "activations": kept}


@dataclass
class _Rank:
    """A pipeline rank while the step goes on: when its lanes are free, and what it has still to do, in order."""

    forwards: list[tuple[int, int]]          # (stage, micro-batch)
    backwards: list[tuple[int, int]]
    limit: float                             # micro-batches under way
    computes: float = 0.0
    talks: float = 0.0
    busy: float = 0.0
    exposed: float = 0.0
    held: float = 0.0
    most: float = 0.0
    done: dict[str, int] = field(default_factory=lambda: {"forward": 0, "backward": 0, "weights": 0})
    later: list[tuple[int, int]] = field(default_factory=list)     # gradients of weights that were put off


class _Run:
    """The simulation: at any time, the rank that can start first does."""

    def __init__(self, layout: Layout, stages: list[Stage]) -> None:
        self.layout, self.stages = layout, stages
        self.timeline: list[Span] = []
        self.arrived: dict[tuple[str, int, int], float] = {}
        for batch in range(layout.micro_batches):
            self.arrived["forward", 0, batch] = 0.0
        self.ranks = [self.prepared(rank) for rank in range(layout.pipeline)]

    def prepared(self, rank: int) -> _Rank:
        """Orders of passes. Interleaved: as many micro-batches as there are ranks go through a chunk, then through the
        next; backwards, chunks the other way round."""
        layout = self.layout
        own = [number for number, stage in enumerate(self.stages) if stage.rank == rank]
        passes = [(stage, batch) for stage in own for batch in range(layout.micro_batches)]
        group = layout.pipeline if layout.chunks > 1 else 1
        forwards = sorted(passes, key=lambda p: (p[1] // group, p[0], p[1]))
        backwards = sorted(passes, key=lambda p: (p[1] // group, -p[0], p[1]))
        return _Rank(forwards, backwards, self.limit(rank))

    def limit(self, rank: int) -> float:
        """How many forward passes may lie between a rank's first and its first backward pass."""
        layout = self.layout
        if layout.schedule == "gpipe":
            return float("inf")
        behind = layout.pipeline - rank - 1
        return 2 * behind + (layout.chunks - 1) * layout.pipeline + 1 if layout.chunks > 1 else behind + 1

    def all(self) -> None:
        """Everything, in the order of time."""
        left = sum(len(rank.forwards) + len(rank.backwards) for rank in self.ranks)
        if self.layout.schedule == "zero_bubble":
            left += left // 2
        nothing = (float("inf"), 0, "", 0, 0)
        choices = [self.choice(number) or nothing for number in range(len(self.ranks))]
        for _ in range(left):
            number = min(range(len(choices)), key=choices.__getitem__)
            _, _, kind, stage, batch = choices[number]
            # Only this rank, and the one that gets what it makes, may choose otherwise afterwards.
            for changed in {number, self.execute(number, kind, stage, batch)}:
                choices[changed] = self.choice(changed) or nothing

    def choice(self, number: int) -> tuple[float, int, str, int, int] | None:
        """What a rank does next, and when it can: (start, preference, kind, stage, micro-batch)."""
        rank = self.ranks[number]
        done, found = rank.done, []
        forward_left = done["forward"] < len(rank.forwards)
        if forward_left and done["forward"] - done["backward"] < rank.limit:
            # What waits for the gradients of weights is kept as long as they are: they come first if there is too much.
            if not self.splits or done["forward"] - done["weights"] < rank.limit:
                self.consider(found, rank, "forward", rank.forwards[done["forward"]])
        elif done["backward"] < len(rank.backwards):
            self.consider(found, rank, "backward", rank.backwards[done["backward"]])
        if rank.later:
            found.append((rank.computes, 1, "weights", *rank.later[0]))
        return min(found) if found else None

    @property
    def splits(self) -> bool:
        return self.layout.schedule == "zero_bubble"

    def consider(self, found: list, rank: _Rank, kind: str, what: tuple[int, int]) -> None:
        arrived = self.arrived.get((kind, *what))
        if arrived is not None:
            found.append((max(rank.computes, arrived), 0, kind, *what))

    def execute(self, number: int, kind: str, stage: int, batch: int) -> int:
        """One pass over the blocks of a stage, and what it makes possible: the rank for which."""
        rank, here, told = self.ranks[number], self.stages[stage], number
        start = max(rank.computes, self.arrived.get((kind, stage, batch), 0.0))
        end = self.blocks(rank, number, here, kind, batch, start)
        rank.computes = end
        rank.done[kind] += 1
        if kind == "forward":
            rank.held += here.kept
            rank.most = max(rank.most, rank.held)
            following = ("forward", stage + 1) if stage + 1 < len(self.stages) else ("backward", stage)
            self.arrived[following[0], following[1], batch] = end + here.sending
            told = self.stages[following[1]].rank
        elif kind == "backward" and stage:
            self.arrived["backward", stage - 1, batch] = end + self.stages[stage - 1].sending
            told = self.stages[stage - 1].rank
        if kind == "weights":
            rank.later.pop(0)
        elif kind == "backward" and self.splits:
            rank.later.append((stage, batch))
        if kind == ("weights" if self.splits else "backward"):
            rank.held -= here.kept
        return told

    def blocks(self, rank: _Rank, number: int, here: Stage, kind: str, batch: int, start: float) -> float:
        """Blocks one after the other; parameters of the next are gathered while one computes, and gradients are reduced
        as they come. The end of the last."""
        now, asked = start, start
        final = batch == self.layout.micro_batches - 1 or self.layout.shard == "full"
        for piece in here.pieces if kind == "forward" else reversed(here.pieces):
            if piece.gather and kind != "weights":
                talks = max(rank.talks, asked)
                rank.talks = talks + piece.gather
                self.note(number, "network", piece.name, "gather", talks, rank.talks)
                rank.exposed += max(0.0, rank.talks - now)
                now = max(now, rank.talks)
            asked = now
            seconds = piece.forward if kind == "forward" else piece.backward / (2 if self.splits else 1)
            self.note(number, "compute", f"{piece.name} {batch}", kind, now, now + seconds)
            rank.busy += seconds
            now += seconds
            if piece.reduce and final and kind == ("weights" if self.splits else "backward"):
                talks = max(rank.talks, now)
                rank.talks = talks + piece.reduce
                self.note(number, "network", piece.name, "reduce", talks, rank.talks)
        return now

    def note(self, rank: int, lane: str, name: str, kind: str, start: float, end: float) -> None:
        if end > start:
            self.timeline.append(Span(rank, lane, name, kind, start, end))
