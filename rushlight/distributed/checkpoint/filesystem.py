"""`torch.distributed.checkpoint.filesystem`: checkpoints as folders, in PyTorch's format.

A folder holds files of tensors, each tensor as `save` writes it, and `.metadata`, which says what lies where. That file
is written last and put in place in one step: a checkpoint is whole or not there. One that is written over an older one
goes to files of other names, and the old files are removed when the new metadata is in place: whatever ends the
writing, the older checkpoint stays whole.
"""

from __future__ import annotations

import dataclasses
import io
import os
import re
import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from ...futures import Future
from ...serialization import load, save
from . import metadata_file
from .metadata import Metadata, StorageMeta, _Record
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .planner_helpers import narrowed
from .staging import BlockingAsyncStager
from .storage import StorageReader, StorageWriter, WriteResult

__all__ = ["FileSystem", "FileSystemBase", "FileSystemReader", "FileSystemWriter", "SerializationFormat"]

_METADATA = ".metadata"
_SUFFIX = ".distcp"
_VERSION = "1.0.0"
_OURS = re.compile(r"__(\d+)_(?:[0-9a-f]{8}_)?\d+\.distcp")


@dataclass
class _StorageInfo(_Record):
    """Which bytes of which file."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Sequence[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if value is not None}


@dataclass
class _StoragePrefix(_Record):
    """How the names of a rank's files begin."""

    prefix: str


class SerializationFormat(Enum):
    """How tensors lie in a file."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


def finished(value: Any) -> Future:
    """A future that has its value."""
    future = Future()
    future.set_result(value)
    return future


# --- file systems -----------------------------------------------------------------------------------------------------


class FileSystemBase(ABC):
    """What a writer and a reader ask of the place where files are: subclass it for a place of another kind."""

    @abstractmethod
    def create_stream(self, path: str | os.PathLike, mode: str) -> AbstractContextManager[Any]:
        """A file, open within a `with`."""

    @abstractmethod
    def concat_path(self, path: str | os.PathLike, suffix: str) -> str | os.PathLike:
        """A file in a folder."""

    @abstractmethod
    def rename(self, path: str | os.PathLike, new_path: str | os.PathLike) -> None:
        """Give a file another name, in the place of what has it."""

    @abstractmethod
    def init_path(self, path: str | os.PathLike) -> str | os.PathLike:
        """A path as this file system has it."""

    @abstractmethod
    def mkdir(self, path: str | os.PathLike) -> None:
        """Make a folder, if it is not there."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        """Whether a checkpoint could be there."""

    @abstractmethod
    def exists(self, path: str | os.PathLike) -> bool:
        """Whether there is such a file or folder."""

    @abstractmethod
    def rm_file(self, path: str | os.PathLike) -> None:
        """Remove a file."""


class FileSystem(FileSystemBase):
    """The machine's own."""

    @contextmanager
    def create_stream(self, path: str | os.PathLike, mode: str) -> Iterator[Any]:
        with open(path, mode) as stream:
            yield stream

    def concat_path(self, path: str | os.PathLike, suffix: str) -> Path:
        return Path(path) / suffix

    def init_path(self, path: str | os.PathLike) -> Path:
        return Path(path)

    def rename(self, path: str | os.PathLike, new_path: str | os.PathLike) -> None:
        os.replace(path, new_path)

    def mkdir(self, path: str | os.PathLike) -> None:
        os.makedirs(path, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        if isinstance(checkpoint_id, Path):
            return True
        if "://" in str(checkpoint_id):
            return False
        return any(folder.exists() and os.access(folder, os.W_OK) for folder in Path(checkpoint_id).absolute().parents)

    def exists(self, path: str | os.PathLike) -> bool:
        return os.path.exists(path)

    def rm_file(self, path: str | os.PathLike) -> None:
        os.unlink(path)

    def ls(self, path: str | os.PathLike) -> list[str]:
        """What is in a folder."""
        return [str(entry) for entry in Path(path).iterdir()]


def _sync(stream: Any) -> None:
    """See to it that a file is on the disk."""
    stream.flush()
    try:
        os.fsync(stream.fileno())
    except (AttributeError, io.UnsupportedOperation):
        os.sync()


def _sync_folder(path: str | os.PathLike) -> None:
    with suppress(OSError):
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


# --- writing ----------------------------------------------------------------------------------------------------------


def _host_tensor(tensor: Any) -> Any:
    """The tensor in host memory, and of the storage no more than it needs."""
    tensor = tensor.detach().cpu()
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()


def _spread(items: list[WriteItem], bins: int) -> list[list[WriteItem]]:
    """Items in as many lists, of about the same size."""
    lists: list[list[WriteItem]] = [[] for _ in range(bins)]
    sizes = [0] * bins
    for item in sorted(items, key=lambda i: -(i.tensor_storage_size() or 0)):
        least = sizes.index(min(sizes))
        lists[least].append(item)
        sizes[least] += item.tensor_storage_size() or 1
    return lists


class _FileSystemWriter(StorageWriter):
    """Writes folders. See `FileSystemWriter`."""

    _format = SerializationFormat.TORCH_SAVE

    def __init__(
        self,
        path: str | os.PathLike,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        overwrite: bool = True,
        _extensions: Sequence[Any] | None = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:
        super().__init__()
        if _extensions:
            raise NotImplementedError("FileSystemWriter: _extensions (streams changed on the way) are not supported")
        if serialization_format is not self._format:
            raise NotImplementedError("FileSystemWriter: serialization_format must be TORCH_SAVE; safetensors files "
                                      "are written by HuggingFaceStorageWriter")
        if thread_count < 1:
            raise ValueError(f"FileSystemWriter: thread_count must be at least 1, got {thread_count}")
        self.fs: FileSystemBase = FileSystem()
        self.path = self.fs.init_path(path)
        self.single_file_per_rank = single_file_per_rank
        self.sync_files = sync_files
        self.thread_count = thread_count
        self.per_thread_copy_ahead = per_thread_copy_ahead
        self.overwrite = overwrite
        self.serialization_format = serialization_format
        self.save_id = str(uuid.uuid4())
        self.rank: int | None = None
        self.use_collectives = True

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.rank = kwargs.get("rank")
        self.use_collectives = kwargs.get("use_collectives", True)

    def _metadata_path(self) -> str | os.PathLike:
        """Of the whole, or of this rank if it saves by itself."""
        own = "" if self.use_collectives or self.rank is None else f"__{self.rank}"
        return self.fs.concat_path(self.path, own + _METADATA)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self.fs.mkdir(self.path)
        if self.fs.exists(self._metadata_path()):
            if not self.overwrite:
                raise RuntimeError(f"Checkpoint already exists in {self.path}, and overwrite=False")
            warnings.warn(f"{self.path}: a checkpoint is there and will be replaced; overwrite=False refuses instead",
                          stacklevel=2)
        if not self.use_collectives and self.rank is not None:
            plan = dataclasses.replace(plan, storage_data=_StoragePrefix(self._prefix(self.rank)))
        return plan

    def _prefix(self, rank: int) -> str:
        """Files of a checkpoint that is there keep their names to themselves."""
        is_over_another = self.fs.exists(self._metadata_path())
        return f"__{rank}_{self.save_id[:8]}_" if is_over_another else f"__{rank}_"

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [
            plan if plan.storage_data is not None
            else dataclasses.replace(plan, storage_data=_StoragePrefix(self._prefix(rank)))
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        if self.single_file_per_rank:
            buckets = _spread(plan.items, self.thread_count) if self.thread_count > 1 else [plan.items]
        else:
            buckets = [[item] for item in plan.items]
        named = [(f"{plan.storage_data.prefix}{number}{_SUFFIX}", items) for number, items in enumerate(buckets)]
        if self.thread_count == 1:
            return finished([result for name, items in named for result in self._write_file(name, items, planner)])
        with ThreadPoolExecutor(self.thread_count) as threads:
            parts = threads.map(lambda pair: self._write_file(*pair, planner), named)
            return finished([result for part in parts for result in part])

    def _write_file(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        results = []
        with self.fs.create_stream(self.fs.concat_path(self.path, name), "wb") as stream:
            for item in sorted(items, key=lambda i: i.type != WriteItemType.BYTE_IO):
                start = stream.tell()
                data = planner.resolve_data(item)
                if item.type == WriteItemType.BYTE_IO:
                    stream.write(data.getbuffer())
                else:
                    save(_host_tensor(data), stream)
                length = stream.tell() - start
                results.append(WriteResult(item.index, length, _StorageInfo(name, start, length)))
            if self.sync_files:
                _sync(stream)
        return results

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.version = _VERSION
        metadata.storage_data = {result.index: result.storage_data for part in results for result in part}
        metadata.storage_meta = self.storage_meta()
        place = self._metadata_path()
        apart = self.fs.concat_path(self.path, f"{os.path.basename(os.fspath(place))}.tmp")
        with self.fs.create_stream(apart, "wb") as stream:
            stream.write(metadata_file.written(metadata))
            if self.sync_files:
                _sync(stream)
        self.fs.rename(apart, place)
        if self.sync_files:
            _sync_folder(self.path)
        self._remove_others({info.relative_path for info in metadata.storage_data.values()})

    def _remove_others(self, kept: set[str]) -> None:
        """Remove what older checkpoints, or ones that were never finished, left here."""
        if not isinstance(self.fs, FileSystem):
            return
        own = None if self.use_collectives else str(self.rank)
        for path in self.fs.ls(self.path):
            name = os.path.basename(path)
            match = _OURS.fullmatch(name)
            if match and name not in kept and own in (None, match.group(1)):
                with suppress(OSError):
                    self.fs.rm_file(path)

    def storage_meta(self) -> StorageMeta | None:
        return StorageMeta(checkpoint_id=str(self.checkpoint_id), save_id=self.save_id)

    @property
    def checkpoint_id(self) -> str | os.PathLike:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        return FileSystem.validate_checkpoint_id(checkpoint_id)


class FileSystemWriter(_FileSystemWriter, BlockingAsyncStager):
    """Writes a folder: a file per rank (or per thread of each, or per item), then the metadata.

    `sync_files` waits until they are on the disk; `overwrite` replaces a checkpoint that is there. For `async_save` it
    copies the state first."""

    def __init__(
        self,
        path: str | os.PathLike,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Sequence[Any] | None = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:
        _FileSystemWriter.__init__(
            self, path, single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead, overwrite, _extensions,
            serialization_format,
        )
        BlockingAsyncStager.__init__(self, cache_staged_state_dict)


# --- reading ----------------------------------------------------------------------------------------------------------


class FileSystemReader(StorageReader):
    """Reads a folder that `FileSystemWriter`, here or in PyTorch, wrote. Nothing in it is run."""

    def __init__(self, path: str | os.PathLike, _extension_registry: Any = None) -> None:
        super().__init__()
        if _extension_registry is not None:
            raise NotImplementedError("FileSystemReader: _extension_registry (streams changed on the way) is not "
                                      "supported")
        self.fs: FileSystemBase = FileSystem()
        self.path = self.fs.init_path(path)
        self.storage_data: dict[Any, _StorageInfo] = {}
        self.load_id = str(uuid.uuid4())
        self.rank: int | None = None
        self.use_collectives = True

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        self.storage_data = {}
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        rank = kwargs.get("rank")
        path = self.fs.concat_path(self.path, _METADATA if rank is None else f"__{rank}{_METADATA}")
        with self.fs.create_stream(path, "rb") as stream:
            found = metadata_file.read(stream.read(), path, (_StorageInfo, _StoragePrefix))
        # Older files were written before this field was there.
        found.storage_meta = found.__dict__.get("storage_meta") or StorageMeta()
        found.storage_meta.load_id = self.load_id
        return found

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.rank = kwargs.get("rank")
        self.use_collectives = kwargs.get("use_collectives", True)
        if metadata.storage_data is None:
            raise AssertionError(f"{self.path}: the metadata does not say where the data lie")
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        by_file: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            by_file.setdefault(self._info(item).relative_path, []).append(item)
        for name, items in by_file.items():
            _check_inside(name, self.path)
            with self.fs.create_stream(self.fs.concat_path(self.path, name), "rb") as stream:
                # Boxes of one saved tensor that are needed one after another are cut from one reading.
                items.sort(key=lambda i: self._info(i).offset)
                last, tensor = None, None
                for item in items:
                    info = self._info(item)
                    if item.type == LoadItemType.BYTE_IO:
                        planner.load_bytes(item, self._slice(stream, info))
                        continue
                    if info != last:
                        last, tensor = info, load(self._slice(stream, info), map_location="cpu", weights_only=True)
                    self._fill(item, tensor, planner)
        return finished(None)

    def _info(self, item: ReadItem) -> _StorageInfo:
        info = self.storage_data.get(item.storage_index)
        if info is None:
            raise KeyError(f"{self.path}: the metadata does not say where {item.storage_index} lies")
        if info.__dict__.get("transform_descriptors"):
            raise NotImplementedError(
                f"{self.path}: {item.storage_index.fqn} went through {info.transform_descriptors} when it was written, "
                "which is not supported here"
            )
        return info

    def _slice(self, stream: Any, info: _StorageInfo) -> io.BytesIO:
        stream.seek(info.offset)
        data = stream.read(info.length)
        if len(data) != info.length:
            raise EOFError(
                f"{self.path}: {info.relative_path} ends at {info.offset + len(data)}, and {info.length} bytes from "
                f"{info.offset} on are needed: the file is damaged or was cut short"
            )
        return io.BytesIO(data)

    def _fill(self, item: ReadItem, tensor: Any, planner: LoadPlanner) -> None:
        source = narrowed(tensor, item.storage_offsets, item.lengths)
        target = planner.resolve_tensor(item).detach()
        if target.shape != source.shape:
            raise AssertionError(
                f"{item.storage_index.fqn}: the planner gave a tensor of shape {tuple(target.shape)} for a box of "
                f"shape {tuple(source.shape)}"
            )
        target.copy_(source)
        planner.commit_tensor(item, target)

    @property
    def checkpoint_id(self) -> str | os.PathLike:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        return FileSystem.validate_checkpoint_id(checkpoint_id)


def _check_inside(name: str, folder: Any) -> None:
    """A file's name comes from the metadata: it may not lead out of the checkpoint."""
    if not isinstance(name, str) or os.path.isabs(name) or ".." in Path(name).parts:
        raise ValueError(f"{folder}: the metadata names the file {name!r}, which is not in the checkpoint's folder")
