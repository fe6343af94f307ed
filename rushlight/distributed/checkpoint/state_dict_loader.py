"""`torch.distributed.checkpoint.state_dict_loader`: `load` fills what a program has with what a checkpoint holds."""

from __future__ import annotations

import inspect
import os
import warnings
from typing import Any

from .coordination import Ranks
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .metadata import Metadata
from .planner import LoadPlanner
from .state_dict_saver import is_alone, storage_for
from .stateful import Stateful
from .storage import StorageReader

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fill the state in place: tensors where they are, each rank its own part, whatever parts they were saved in; what
    is no tensor is replaced; objects with `load_state_dict` get theirs."""
    no_dist = is_alone(no_dist, "load")
    reader = storage_for(storage_reader, checkpoint_id, reader=True)
    keys = sorted(state_dict)
    states = {
        key: state_dict[key].state_dict() if isinstance(state_dict[key], Stateful) else state_dict[key] for key in keys
    }
    _load_state_dict(states, reader, process_group, 0, no_dist, planner)
    for key in keys:
        if isinstance(state_dict[key], Stateful):
            state_dict[key].load_state_dict(states[key])
        else:
            state_dict[key] = states[key]


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """`load` by its old name."""
    warnings.warn("load_state_dict is deprecated: use load", FutureWarning, stacklevel=2)
    storage_reader.reset()
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


def _read_metadata(reader: StorageReader, rank: int) -> tuple[Metadata, bool]:
    """The checkpoint's table, or this rank's own; whether it is everybody's."""
    try:
        return reader.read_metadata(), True
    except FileNotFoundError as error:
        if "kwargs" not in inspect.signature(reader.read_metadata).parameters:
            raise
        try:
            return reader.read_metadata(rank=rank), False
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{getattr(reader, 'checkpoint_id', reader)}: there is no checkpoint here, or it was never finished "
                f"({error})"
            ) from None


def _load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    ranks = Ranks(process_group, not no_dist, coordinator_rank)
    planner = planner or DefaultLoadPlanner()

    def local_step() -> Any:
        metadata, is_common = _read_metadata(storage_reader, ranks.rank)
        planner.set_up_planner(state_dict, metadata, ranks.is_coordinator)
        if "kwargs" in inspect.signature(storage_reader.set_up_storage_reader).parameters:
            storage_reader.set_up_storage_reader(
                metadata, ranks.is_coordinator, rank=ranks.rank, use_collectives=is_common
            )
        else:
            storage_reader.set_up_storage_reader(metadata, ranks.is_coordinator)
        return storage_reader.prepare_local_plan(planner.create_local_plan())

    def global_step(plans: list[Any]) -> list[Any]:
        return storage_reader.prepare_global_plan(planner.create_global_plan(plans))

    plan = ranks.plan("plan", local_step, global_step)
    ranks.perform(
        "read", lambda: storage_reader.read_data(planner.finish_plan(plan), planner).wait(), lambda results: None
    )


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None,
    *,
    checkpoint_id: str | os.PathLike | None = None,
    storage_reader: StorageReader | None = None,
    process_group: Any = None,
) -> dict[str, Any]:
    """The whole state of a checkpoint, or what lies under the names given."""
    no_dist = is_alone(False, "load")
    reader = storage_for(storage_reader, checkpoint_id, reader=True)
    wanted = {keys} if isinstance(keys, str) else keys
    state: dict[str, Any] = {}
    _load_state_dict(state, reader, process_group, 0, no_dist, _EmptyStateDictLoadPlanner(wanted))
    return state
