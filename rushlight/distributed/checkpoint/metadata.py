"""`torch.distributed.checkpoint.metadata`: what a checkpoint holds and where, as records.

These are the records of PyTorch's `.metadata` file: names and fields are part of the format.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from ... import _C
from ...base.promotion import default_dtype
from ...base.shape import Size, channels_last, contiguous_format, layout, memory_format, preserve_format, strided

__all__ = ["BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta",
           "TensorProperties", "TensorStorageMetadata"]


class _Record:
    """A record that a file may fill: with its own fields and no others."""

    def __setstate__(self, state: Any) -> None:
        known = {f.name for f in fields(self)}      # type: ignore[arg-type]
        if not isinstance(state, dict) or not known.issuperset(state):
            raise ValueError(f"{type(self).__name__}: expected fields out of {sorted(known)}, got {state!r}")
        self.__dict__.update(state)


@dataclass
class ChunkStorageMetadata(_Record):
    """A box of a tensor: where it begins and how long it is in each dimension."""

    offsets: Size
    sizes: Size


class _MEM_FORMAT_ENCODING(Enum):      # noqa: N801 - a name in files
    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = {
    _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT: contiguous_format,
    _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST: channels_last,
    _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT: preserve_format,
}


@dataclass
class TensorProperties:
    """What a tensor is apart from its data. Only the dtype matters when one is read."""

    dtype: _C.dtype = field(default_factory=default_dtype)
    layout: layout = strided
    requires_grad: bool = False
    memory_format: memory_format = contiguous_format
    pin_memory: bool = False

    def __getstate__(self) -> tuple:
        code = next(c for c, f in _FORMATS.items() if f is self.memory_format)
        return self.dtype, self.layout, self.requires_grad, code, self.pin_memory

    def __setstate__(self, state: tuple) -> None:
        self.dtype, self.layout, self.requires_grad, code, self.pin_memory = state
        self.memory_format = _FORMATS[code]

    @staticmethod
    def create_from_tensor(tensor: Any) -> TensorProperties:
        """Those of a tensor."""
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad, contiguous_format,
                                tensor.is_pinned())


@dataclass
class TensorStorageMetadata(_Record):
    """A tensor: its whole size, and the boxes it was saved in."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata(_Record):
    """Anything that is no tensor."""


STORAGE_TYPES = TensorStorageMetadata | BytesStorageMetadata
STATE_DICT_TYPE = dict[str, Any]


@dataclass
class StorageMeta(_Record):
    """Where a checkpoint lies, and which saving or loading it was."""

    checkpoint_id: str | os.PathLike | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata(_Record):
    """A whole checkpoint: its entries, how nested names were flattened, and where each box lies."""

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True, init=False)
class MetadataIndex(_Record):
    """Names an entry, or the box of it that begins at `offset`. `index` only says where to look first."""

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None) -> None:
        self.__dict__.update(fqn=fqn, offset=None if offset is None else Size(offset), index=index)
