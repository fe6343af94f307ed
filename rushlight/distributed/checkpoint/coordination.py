"""Steps that all ranks take together: each does its part, the coordinator joins the parts, and a rank that fails fails
on all of them, by name."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

from .. import collectives, groups
from .api import CheckpointException

__all__: list[str] = []


class _Failed:
    """A rank's error on its way to the others."""

    def __init__(self, error: BaseException) -> None:
        lines = traceback.format_list(traceback.extract_tb(error.__traceback__))
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:        # one that cannot travel: its words can
            error = RuntimeError(f"{type(error).__name__}: {error}")
        self.pair = (error, lines)


def _attempt(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except CheckpointException:
        raise
    except Exception as error:
        return _Failed(error)


class Ranks:
    """Those that save or load together; alone if `use_dist` is False."""

    def __init__(self, group: Any, use_dist: bool, coordinator_rank: int = 0) -> None:
        self.group = group
        self.use_dist = use_dist
        self.rank = groups.get_rank(group) if use_dist else 0
        self.size = groups.get_world_size(group) if use_dist else 1
        self.is_coordinator = not use_dist or self.rank == coordinator_rank
        self._source = coordinator_rank
        if use_dist and group is not None:
            self._source = groups.get_global_rank(group, coordinator_rank)

    def _gather(self, item: Any) -> list[Any] | None:
        if not self.use_dist:
            return [item]
        items: list[Any] | None = [None] * self.size if self.is_coordinator else None
        collectives.gather_object(item, items, self._source, self.group)
        return items

    def _joined(self, step: str, parts: list[Any], join: Callable[[list[Any]], Any]) -> Any:
        failures = {rank: part.pair for rank, part in enumerate(parts) if isinstance(part, _Failed)}
        if failures:
            return CheckpointException(step, failures)
        result = _attempt(join, parts)
        return CheckpointException(step, {self.rank: result.pair}) if isinstance(result, _Failed) else result

    def plan(self, step: str, part: Callable[[], Any], join: Callable[[list[Any]], list[Any]]) -> Any:
        """Each rank's own item of the list that the coordinator makes of all parts."""
        parts = self._gather(_attempt(part))
        joined = self._joined(step, parts, join) if parts is not None else None
        if isinstance(joined, CheckpointException):
            joined = [joined] * self.size
        if self.use_dist:
            received: list[Any] = [None]
            collectives.scatter_object_list(received, joined, self._source, self.group)
            result = received[0]
        else:
            result = joined[0]      # type: ignore[index]
        if isinstance(result, CheckpointException):
            raise result
        return result

    def perform(self, step: str, part: Callable[[], Any], join: Callable[[list[Any]], Any]) -> Any:
        """What the coordinator makes of all parts, on every rank."""
        parts = self._gather(_attempt(part))
        result = self._joined(step, parts, join) if parts is not None else None
        if self.use_dist:
            received = [result]
            collectives.broadcast_object_list(received, self._source, self.group)
            result = received[0]
        if isinstance(result, CheckpointException):
            raise result
        return result

    def barrier(self) -> None:
        """Wait for all."""
        if self.use_dist:
            collectives.barrier(self.group)
