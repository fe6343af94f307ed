"""Every layout that is worth a look, forecast and sorted.

Enters: a model, a cluster, a batch size. Leaves: forecasts, the quickest that fits first. Refuses a job for which no
layout fits, with the one that came nearest.
"""

from __future__ import annotations

from collections.abc import Iterator

from .engine import Forecast, simulate
from .layout import Layout
from .machines import Cluster
from .work import Model


def plan(model: Model, cluster: Cluster, batch: int, *, ranks: int | None = None, most: int = 10) -> list[Forecast]:
    """The best layouts of `batch` samples on `ranks` chips (all of the cluster's)."""
    ranks = ranks or cluster.ranks
    found: list[Forecast] = []
    for layout in layouts(model, cluster.of(ranks), batch, ranks):
        # Computing the forward pass twice is for what does not fit otherwise.
        if not (layout.recompute and found[-1].fits):
            found.append(simulate(model, layout, cluster, batch, detail=layout.shard == "full"))
    if not found:
        raise ValueError(f"plan: a batch of {batch} and the {len(model.blocks)} blocks of {model.name} cannot be "
                         f"spread over {ranks} ranks; try a batch that is a multiple of them")
    fitting = sorted((f for f in found if f.fits), key=lambda f: f.seconds)
    if not fitting:
        nearest = min(found, key=lambda f: sum(f.memory.values()))
        raise ValueError(f"plan: nothing fits; nearest is {nearest}")
    chosen = [simulate(model, f.layout, cluster, batch) for f in fitting[: 2 * most]]
    return sorted(chosen, key=lambda f: f.seconds)[:most]


def layouts(model: Model, cluster: Cluster, batch: int, ranks: int) -> Iterator[Layout]:
    """Tensor parallelism inside a machine only; as many pipeline stages as blocks allow; data parallelism for the
    rest."""
    nearest = cluster.levels[0].size
    for tensor in divisors(min(nearest, ranks)):
        if model.heads % tensor or (tensor > 1 and not any(block.exchanges for block in model.blocks)):
            continue
        for pipeline in divisors(ranks // tensor):
            data = ranks // tensor // pipeline
            if pipeline > len(model.blocks) or batch % data:
                continue
            for micro in divisors(batch // data):
                if micro <= 16 if pipeline == 1 else pipeline <= micro <= 16 * pipeline:
                    yield from variants(tensor, pipeline, data, micro, len(model.blocks))


def variants(tensor: int, pipeline: int, data: int, micro: int, blocks: int) -> Iterator[Layout]:
    """Schedules and shardings of one division."""
    schedules: list[tuple[str, int]] = [("1f1b", 1)]
    if pipeline > 1:
        schedules.append(("zero_bubble", 1))
        schedules += [("interleaved", c) for c in (2, 4) if c * pipeline <= blocks and micro % pipeline == 0]
    shards = ["none"] if data == 1 else ["optimizer"] if pipeline > 1 else ["none", "optimizer", "full"]
    for schedule, chunks in schedules:
        for shard in shards:
            for recompute in (False, True):
                yield Layout(data, tensor, pipeline, 1, micro, schedule, chunks, shard, recompute)


def divisors(number: int) -> list[int]:
    return [k for k in range(1, number + 1) if number % k == 0]
