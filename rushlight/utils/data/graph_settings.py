"""Settings made throughout a graph of datapipes: seeds, shuffling, sharding."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

from ..._C import Generator
from .datapipes.iter.sharding import SHARDING_PRIORITIES
from .graph import DataPipe, DataPipeGraph, traverse_dps
from .sampler import draw_seed

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings", "get_all_graph_pipes"]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[DataPipe]:
    """Every pipe of a graph once, from its end on."""
    found: dict[int, DataPipe] = {}

    def visit(level: DataPipeGraph) -> None:
        for number, (pipe, below) in level.items():
            if number not in found:
                found[number] = pipe
                visit(below)

    visit(graph)
    return list(found.values())


def _has_methods(pipe: Any, *names: str) -> bool:
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def apply_sharding(
    datapipe: DataPipe, num_of_instances: int, instance_id: int, sharding_group: Any = SHARDING_PRIORITIES.DEFAULT
) -> DataPipe:
    """Tell each sharding pipe which part is this process's. Two of them on one path would lose data,
    and are an error."""

    def visit(graph: DataPipeGraph, above: Any) -> None:
        for pipe, below in graph.values():
            applied = above
            if _has_methods(pipe, "apply_sharding"):
                if above is not None:
                    raise RuntimeError(
                        "Sharding twice in one pipeline loses elements. "
                        f"It was applied to {above}, and now to {pipe}"
                    )
                takes_group = len(inspect.signature(pipe.apply_sharding).parameters) >= 3
                pipe.apply_sharding(
                    num_of_instances, instance_id, **({"sharding_group": sharding_group} if takes_group else {})
                )
                applied = pipe
            visit(below, applied)

    visit(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe: DataPipe, shuffle: bool | None = None) -> DataPipe:
    """Turn all shufflers on or off; one is added, with a warning, where shuffling is wanted and there is none."""
    if shuffle is None:
        return datapipe
    shufflers = [
        pipe for pipe in get_all_graph_pipes(traverse_dps(datapipe)) if _has_methods(pipe, "set_shuffle", "set_seed")
    ]
    if not shufflers and shuffle:
        warnings.warn(
            "shuffle=True: the datapipe has no Shuffler, so one is added at its end. "
            "It shuffles within a buffer of the default size.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def apply_shuffle_seed(datapipe: DataPipe, rng: Generator) -> DataPipe:
    """The old name of `apply_random_seed`."""
    warnings.warn(
        "apply_shuffle_seed is deprecated: "
        "use apply_random_seed.",
        FutureWarning,
        stacklevel=2,
    )
    return apply_random_seed(datapipe, rng)


def apply_random_seed(datapipe: DataPipe, rng: Generator) -> DataPipe:
    """Give each pipe that has `set_seed` a seed drawn from `rng`."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if _has_methods(pipe, "set_seed"):
            pipe.set_seed(draw_seed(rng))
    return datapipe
