"""Which datapipes a datapipe is made of.

Enters: the last datapipe of a pipeline. Leaves: nested dicts from a pipe's id to the pipe and the graph below it. Pipes
are found among attributes, and in lists, tuples, sets and dicts of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from .datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]

DataPipe = IterDataPipe | MapDataPipe
DataPipeGraph = dict[int, tuple[DataPipe, "DataPipeGraph"]]  # type: ignore[misc]


def _pipes_in(value: Any, only_datapipe: bool, seen: set[int]) -> Iterator[DataPipe]:
    """Pipes that `value` is or holds, each once, none of them looked into."""
    if isinstance(value, DataPipe):
        if id(value) not in seen:
            seen.add(id(value))
            yield value
        return
    if isinstance(value, dict):
        inner: Any = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        inner = value
    elif not only_datapipe and hasattr(value, "__dict__") and not isinstance(value, type):
        inner = list(vars(value).values())
    else:
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    for item in inner:
        yield from _pipes_in(item, only_datapipe, seen)


def _traverse(datapipe: Any, only_datapipe: bool, above: frozenset[int]) -> DataPipeGraph:
    if not isinstance(datapipe, DataPipe):
        raise RuntimeError(f"Expected `IterDataPipe` or `MapDataPipe`, but {type(datapipe)} is found")
    if id(datapipe) in above:
        return {}
    above = above | {id(datapipe)}
    below: DataPipeGraph = {}
    for found in _pipes_in(list(vars(datapipe).values()), only_datapipe, set(above)):
        below.update(_traverse(found, only_datapipe, above))
    return {id(datapipe): (datapipe, below)}


def traverse_dps(datapipe: DataPipe) -> DataPipeGraph:
    """The graph of pipes that `datapipe` ends."""
    return _traverse(datapipe, True, frozenset())


def traverse(datapipe: DataPipe, only_datapipe: bool | None = None) -> DataPipeGraph:
    """The older form, which without `only_datapipe` looks into attributes of other objects too."""
    text = "traverse is deprecated: use traverse_dps."
    if not only_datapipe:
        text += " That behaves as only_datapipe=True does."
    warnings.warn(text, FutureWarning, stacklevel=2)
    return _traverse(datapipe, bool(only_datapipe), frozenset())
