"""`torch.distributed.checkpoint.hf_storage`: checkpoints as safetensors files, as model hubs keep them.

One rank writes whole tensors, or (`save_distributed`) every rank its parts, which the file says the places of; they can
be made whole afterwards. Files and places are those of PyTorch, each reads the other's. A file is put in place when it
is complete. Only tensors can be kept so.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ...base.shape import Size
from ...futures import Future
from ...serialization.tensor_files import TensorFile
from ._consolidate_hf_safetensors import (
    INDEX,
    OFFSETS,
    SHARDING,
    consolidate_safetensors_files,
    file_name,
    files_in,
    offsets_in,
    write_index,
    write_whole,
)
from .filesystem import FileSystemReader, FileSystemWriter, SerializationFormat, _host_tensor, finished
from .metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .storage import WriteResult

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]
PARTS = "sharded"      # the folder of parts, where whole tensors are made of them


@dataclass
class _HFStorageInfo:
    """Which file a tensor (or a part of one) is in, and what it is there."""

    relative_path: str
    shape: Any
    dtype: Any


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes safetensors files.

    `fqn_to_index_mapping` says which file (from 1 on) a tensor goes to; without it there is one. With
    `save_distributed` every rank writes its parts, and with `enable_consolidation` these go to `path/sharded` and whole
    tensors to `path`, by `thread_count_consolidation` threads of the first rank."""

    _format = SerializationFormat.SAFETENSORS

    def __init__(
        self, path: str, fqn_to_index_mapping: Mapping[str, int] | None = None, thread_count: int = 1,
        save_distributed: bool = False, enable_consolidation: bool = False, thread_count_consolidation: int = 1,
    ) -> None:
        super().__init__(path, thread_count=thread_count, serialization_format=SerializationFormat.SAFETENSORS)
        if enable_consolidation and not save_distributed:
            raise ValueError("HuggingFaceStorageWriter: enable_consolidation makes parts whole, which are written only "
                             "with save_distributed=True")
        self.fqn_to_index_mapping, self.save_distributed = fqn_to_index_mapping, save_distributed
        self.enable_consolidation, self.thread_count_consolidation = enable_consolidation, thread_count_consolidation
        self.consolidated_output_path: str | None = None
        if enable_consolidation:
            self.consolidated_output_path = str(self.path)
            self.path = self.fs.concat_path(self.path, PARTS)

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        super().reset(checkpoint_id)
        if checkpoint_id and self.enable_consolidation:
            self.consolidated_output_path = str(self.path)
            self.path = self.fs.concat_path(self.path, PARTS)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self.fs.mkdir(self.path)
        for item in plan.items:
            if item.type == WriteItemType.BYTE_IO:
                raise ValueError(
                    f"HuggingFaceStorageWriter: safetensors files hold tensors only, and {item.index.fqn} is none"
                )
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        writers = sum(bool(plan.items) for plan in plans)
        if writers > 1 and not self.save_distributed:
            raise ValueError(
                f"HuggingFaceStorageWriter: {writers} ranks have something to write, which needs save_distributed=True"
            )
        return [
            dataclasses.replace(plan, storage_data={"shard_index": rank if self.save_distributed else None})
            for rank, plan in enumerate(plans, 1)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        buckets: dict[int, list[WriteItem]] = {}
        for item in plan.items:
            buckets.setdefault(self._index(item.index.fqn), []).append(item)
        count = max(self.fqn_to_index_mapping.values()) if self.fqn_to_index_mapping else 1
        results: list[WriteResult] = []
        for index, items in buckets.items():
            name = file_name(index, count, plan.storage_data["shard_index"])
            results += self._write_tensors(name, items, planner)
        return finished(results)

    def _index(self, fqn: str) -> int:
        if self.fqn_to_index_mapping is None:
            return 1
        if fqn not in self.fqn_to_index_mapping:
            raise ValueError(f"fqn_to_index_mapping: it does not say where {fqn} belongs")
        return self.fqn_to_index_mapping[fqn]

    def _write_tensors(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        tensors, places, results = {}, {}, []
        for item in items:
            fqn = item.index.fqn
            if fqn in tensors:
                raise ValueError(f"HuggingFaceStorageWriter: a rank has more than one part of {fqn}")
            data = planner.resolve_data(item)
            tensors[fqn] = _host_tensor(data)
            places[fqn] = {OFFSETS: list(item.tensor_data.chunk.offsets)}
            size = data.numel() * data.itemsize
            results.append(WriteResult(item.index, size, _HFStorageInfo(name, Size(data.shape), data.dtype)))
        metadata = {"format": "pt", "DCP_VERSION": "1.0", SHARDING: json.dumps(places)}
        write_whole(os.path.join(self.path, name), tensors, metadata)
        return results

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        if self.enable_consolidation:
            consolidate_safetensors_files(
                str(self.path), self.consolidated_output_path, self.fqn_to_index_mapping,
                self.thread_count_consolidation,
            )
        elif not self.save_distributed:      # of parts there is no saying which file a tensor is in
            written = [result for part in results for result in part]
            places = {result.index.fqn: result.storage_data.relative_path for result in written}
            write_index(self.path, places, sum(result.size_in_bytes for result in written))

    @property
    def metadata_path(self) -> str:
        """The index."""
        return INDEX


class HuggingFaceStorageReader(FileSystemReader):
    """Reads a folder of safetensors files, whole ones or parts; `thread_count` is how many read at once."""

    def __init__(self, path: str, thread_count: int = 1) -> None:
        super().__init__(path)
        if thread_count < 1:
            raise ValueError(f"HuggingFaceStorageReader: thread_count must be at least 1, got {thread_count}")
        self.thread_count = thread_count

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        tensors: dict[str, TensorStorageMetadata] = {}
        places: dict[MetadataIndex, _HFStorageInfo] = {}
        for path in files_in(self.path):
            with TensorFile(path) as file:
                offsets = offsets_in(file)
                for name in file.header:
                    shape, dtype = file.layout(name)
                    chunk = ChunkStorageMetadata(Size(offsets[name]), Size(shape))
                    ends = [o + n for o, n in zip(offsets[name], shape, strict=True)]
                    known = tensors.get(name)
                    if known is None:
                        tensors[name] = TensorStorageMetadata(TensorProperties(dtype=dtype), Size(ends), [chunk])
                    else:
                        known.chunks.append(chunk)
                        known.size = Size(max(pair) for pair in zip(known.size, ends, strict=True))
                    index = MetadataIndex(name, Size(offsets[name]))
                    places[index] = _HFStorageInfo(os.path.basename(path), Size(shape), dtype)
        if not tensors:
            raise FileNotFoundError(f"{self.path}: there are no safetensors files with tensors in them")
        about = StorageMeta(load_id=self.load_id)
        return Metadata(state_dict_metadata=tensors, storage_data=places, storage_meta=about)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        by_file: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                raise ValueError(f"{item.storage_index.fqn}: safetensors files hold tensors only")
            by_file.setdefault(self._info(item).relative_path, []).append(item)

        def one(pair: tuple[str, list[ReadItem]]) -> None:
            with TensorFile(os.path.join(self.path, pair[0])) as file:
                for item in pair[1]:
                    self._fill(item, file.read(item.storage_index.fqn), planner)

        if self.thread_count == 1:
            for pair in by_file.items():
                one(pair)
        else:
            with ThreadPoolExecutor(self.thread_count) as threads:
                list(threads.map(one, by_file.items()))
        return finished(None)
