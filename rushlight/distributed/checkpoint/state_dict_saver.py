"""`torch.distributed.checkpoint.state_dict_saver`: `save`, and `async_save`, which lets training go on meanwhile."""

from __future__ import annotations

import inspect
import os
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any

from .. import groups
from .coordination import Ranks
from .default_planner import DefaultSavePlanner
from .filesystem import FileSystem, FileSystemReader, FileSystemWriter
from .metadata import Metadata
from .planner import SavePlanner
from .staging import AsyncStager, DefaultStager, StagingOptions
from .stateful import Stateful
from .storage import StorageReader, StorageWriter

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(Enum):
    """Who writes: a thread, or a process of its own."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """When the state may change again, and when it is written."""

    staging_completion: Future
    upload_completion: Future


def is_alone(no_dist: bool, doing: str) -> bool:
    """Whether one process acts for itself; says so if that was not asked for."""
    if not no_dist and not groups.is_initialized():
        warnings.warn(f"{doing}: there is no process group, so this process does it alone", stacklevel=3)
    return no_dist or not groups.is_initialized()


def storage_for(storage: Any, checkpoint_id: str | os.PathLike | None, reader: bool) -> Any:
    """The storage given, at the place given; or one that fits the place."""
    if storage is not None:
        storage.reset(checkpoint_id)
        return storage
    if not checkpoint_id:
        raise RuntimeError("give a checkpoint_id (where it is), or a storage that knows where")
    if not FileSystem.validate_checkpoint_id(checkpoint_id):
        raise RuntimeError(
            f"checkpoint_id={checkpoint_id!r} is no folder that can be reached here: give a "
            f"{'StorageReader' if reader else 'StorageWriter'} for such a place"
        )
    result: StorageReader | StorageWriter = (FileSystemReader if reader else FileSystemWriter)(checkpoint_id)
    result.reset(checkpoint_id)
    return result


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write what all ranks have as one checkpoint. Tensors, parts of tensors (DTensor) and anything that `save` takes,
    nested in dicts and lists; objects with `state_dict` are asked for it.

    With `use_collectives=False` each rank writes a checkpoint of its own into the folder, without asking the others."""
    no_dist = is_alone(no_dist, "save")
    writer = storage_for(storage_writer, checkpoint_id, reader=False)
    return _save_state_dict(_states(state_dict), writer, process_group, 0, no_dist, planner, use_collectives)


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """`save` by its old name."""
    warnings.warn("save_state_dict is deprecated: use save", FutureWarning, stacklevel=2)
    storage_writer.reset()
    return _save_state_dict(state_dict, storage_writer, process_group, coordinator_rank, no_dist, planner)


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: AsyncStager | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future | AsyncSaveResponse:
    """Copy the state, and write it while the program goes on. The future has `save`'s result, or raises its error.

    The ranks exchange plans while it writes: give it a `process_group` of its own if they use the default one for
    anything else meanwhile."""
    if async_checkpointer_type is not AsyncCheckpointerType.THREAD:
        raise NotImplementedError("async_save: async_checkpointer_type must be THREAD; a process is not supported")
    if groups.is_initialized() and not no_dist:
        kinds = {str(device) for device in getattr(groups.resolve(process_group), "_device_types", ["cpu"])}
        if "cpu" not in kinds:
            raise AssertionError("async_save: the group must have a back end for the CPU, as in 'cpu:gloo,cuda:nccl'")
    stager = async_stager or (storage_writer if isinstance(storage_writer, AsyncStager) else None)
    is_own = stager is None
    if stager is None:
        stager = DefaultStager(StagingOptions(False, False, False, False))
    staged = stager.stage(_states(state_dict))

    def write() -> Metadata:
        state = staged.result() if isinstance(staged, Future) else staged
        return save(
            state, checkpoint_id=checkpoint_id, storage_writer=storage_writer, planner=planner,
            process_group=process_group, no_dist=no_dist, use_collectives=use_collectives,
        )

    thread = ThreadPoolExecutor(1, "async_save")
    upload = thread.submit(write)
    thread.shutdown(wait=False)
    if is_own:
        upload.add_done_callback(lambda _: stager.close())
    if not isinstance(staged, Future):
        if stager.should_synchronize_after_execute:
            stager.synchronize_staging()
        return upload
    staging: Future = Future()
    staged.add_done_callback(
        lambda f: staging.set_exception(f.exception()) if f.exception() else staging.set_result(None)
    )
    return AsyncSaveResponse(staging, upload)


def _states(state_dict: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()
    }


def _save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
    use_collectives: bool = True,
) -> Metadata:
    ranks = Ranks(process_group, not no_dist, coordinator_rank)
    planner = planner or DefaultSavePlanner()
    table: Metadata | None = None

    def local_step() -> Any:
        planner.set_up_planner(state_dict, storage_writer.storage_meta(), ranks.is_coordinator)
        if "kwargs" in inspect.signature(storage_writer.set_up_storage_writer).parameters:
            storage_writer.set_up_storage_writer(ranks.is_coordinator, rank=ranks.rank, use_collectives=use_collectives)
        else:
            storage_writer.set_up_storage_writer(ranks.is_coordinator)
        return storage_writer.prepare_local_plan(planner.create_local_plan())

    def global_step(plans: list[Any]) -> list[Any]:
        nonlocal table
        plans, table = planner.create_global_plan(plans)
        return storage_writer.prepare_global_plan(plans)

    def write_data() -> Any:
        return storage_writer.write_data(planner.finish_plan(plan), planner).wait()

    def finish(results: list[Any]) -> Metadata:
        assert table is not None, "plans are made before data are written"
        storage_writer.finish(table, results)
        return table

    if not use_collectives:
        plan = global_step([local_step()])[0]
        saved = finish([write_data()])
        ranks.barrier()
        return saved
    plan = ranks.plan("plan", local_step, global_step)
    return ranks.perform("write", write_data, finish)
