"""`torch.distributed.checkpoint.format_utils`: checkpoints of several processes as single files, and back.

    python -m rushlight.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from ... import _C
from ..._C import Tensor
from ...futures import Future
from ...serialization import load, save
from .. import collectives, groups
from ._nested_dict import flatten_state_dict
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader, FileSystemWriter, finished
from .metadata import Metadata, TensorProperties, TensorStorageMetadata
from .planner import LoadItemType, LoadPlan, LoadPlanner
from .planner_helpers import _create_chunk_list, narrowed
from .state_dict_loader import _load_state_dict
from .state_dict_saver import _save_state_dict
from .storage import StorageReader

__all__ = ["BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp"]


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file that `save` wrote, on the coordinator alone, and sends each tensor to all. Tensors only."""

    def __init__(self, checkpoint_id: str | os.PathLike | None = None, coordinator_rank: int = 0) -> None:
        self.checkpoint_id = checkpoint_id
        self.coordinator_rank = coordinator_rank

    def read_metadata(self) -> Metadata:     # type: ignore[override]
        return Metadata({})

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool) -> None:    # type: ignore[override]
        self.is_coordinator = is_coordinator
        if is_coordinator and groups.get_rank() != self.coordinator_rank:
            raise AssertionError(f"rank {groups.get_rank()} coordinates, and coordinator_rank={self.coordinator_rank}")
        if self.checkpoint_id is None:
            raise AssertionError("BroadcastingTorchSaveReader was not told which file (checkpoint_id)")

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return global_plan

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        state: dict[str, Any] = {}
        if self.is_coordinator:
            state = load(self.checkpoint_id, map_location="cpu", weights_only=True)
            if planner.flatten_state_dict:      # type: ignore[attr-defined]
                state, _ = flatten_state_dict(state)
        for item in plan.items:
            name = item.storage_index.fqn
            if item.type == LoadItemType.BYTE_IO:
                raise RuntimeError(f"{name} is no tensor, and {type(self).__name__} reads tensors only")
            if self.is_coordinator:
                whole = state[name].contiguous()
            else:
                entry = planner.metadata.state_dict_metadata[name]      # type: ignore[attr-defined]
                whole = _C.empty(tuple(entry.size), None, entry.properties.dtype, None)
            collectives.broadcast(whole, self.coordinator_rank)
            target = planner.resolve_tensor(item).detach()
            target.copy_(narrowed(whole, item.storage_offsets, item.lengths))
            planner.commit_tensor(item, target)
        return finished(None)

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        self.checkpoint_id = checkpoint_id or self.checkpoint_id

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        return os.path.isfile(checkpoint_id)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Takes what is to be filled for what the checkpoint holds: for files without metadata. Tensors only."""

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        super().set_up_planner(state_dict, metadata, is_coordinator)
        table: dict[str, Any] = {}
        for name, tensor in self.state_dict.items():
            if not isinstance(tensor, Tensor):
                raise RuntimeError(f"{name} is no tensor, and {type(self).__name__} loads tensors only")
            # The file has the tensor whole: one box, wherever this rank's part of it lies.
            whole = _create_chunk_list(_C.empty((), None, tensor.dtype, "meta").expand(tuple(tensor.shape)))
            table[name] = TensorStorageMetadata(TensorProperties(dtype=tensor.dtype), tensor.size(), whole)
        self.metadata = Metadata(table)


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike, torch_save_path: str | os.PathLike) -> None:
    """Make a checkpoint's folder one file. It must fit into this process's memory."""
    state: dict[str, Any] = {}
    _load_state_dict(
        state, FileSystemReader(dcp_checkpoint_dir), planner=_EmptyStateDictLoadPlanner(), no_dist=True
    )
    save(state, torch_save_path)


def torch_save_to_dcp(torch_save_path: str | os.PathLike, dcp_checkpoint_dir: str | os.PathLike) -> None:
    """Make a file that `save` wrote a checkpoint's folder."""
    state = load(torch_save_path, map_location="cpu", weights_only=True)
    _save_state_dict(state, FileSystemWriter(dcp_checkpoint_dir), no_dist=True)


def _main() -> None:
    parser = argparse.ArgumentParser(description="Convert checkpoints.")
    parser.add_argument("mode", choices=["torch_to_dcp", "dcp_to_torch"])
    parser.add_argument("src")
    parser.add_argument("dst")
    args = parser.parse_args()
    if not os.path.exists(args.src):
        parser.error(f"there is nothing at {args.src}")
    (torch_save_to_dcp if args.mode == "torch_to_dcp" else dcp_to_torch_save)(args.src, args.dst)


if __name__ == "__main__":
    _main()
