"""`torch.distributed.checkpoint.planner_helpers`: items for tensors, parts of tensors, and everything else.

A tensor is saved in boxes, one per rank that has a part of it, and needed in boxes. What a needed box takes of a saved
one is their intersection: that is all of resharding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import _C
from ..._C import Tensor
from ...base.shape import Size
from ..tensor import DTensor
from ..tensor._utils import compute_local_shape_and_global_offset
from .metadata import (
    STORAGE_TYPES,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadItemType, ReadItem, TensorWriteData, WriteItem, WriteItemType

__all__ = ["create_read_items_for_chunk_list"]


def local_box(tensor: Any) -> ChunkStorageMetadata:
    """The box of the whole that this rank's part of a tensor is."""
    if isinstance(tensor, DTensor):
        if any(placement.is_partial() for placement in tensor.placements):
            raise ValueError(
                f"a DTensor with placements {tensor.placements} holds terms of a sum, not parts: redistribute it first"
            )
        sizes, offsets = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
        return ChunkStorageMetadata(Size(offsets), Size(sizes))
    return ChunkStorageMetadata(Size([0] * tensor.dim()), Size(tensor.shape))


def _is_elsewhere(value: Any) -> bool:
    """A tensor of a mesh that this rank is not in."""
    return isinstance(value, DTensor) and value.device_mesh.get_coordinate() is None


def _create_write_items(fqn: str, value: Any) -> list[WriteItem]:
    """What to write for one entry."""
    if _is_elsewhere(value):
        return []
    if hasattr(value, "__create_write_items__"):
        return value.__create_write_items__(fqn, value)
    if not isinstance(value, Tensor):
        return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)]
    box = local_box(value)
    is_part = isinstance(value, DTensor)
    properties = TensorProperties.create_from_tensor(value.to_local() if is_part else value)
    data = TensorWriteData(box, properties, Size(value.shape))
    kind = WriteItemType.SHARD if is_part else WriteItemType.TENSOR
    return [WriteItem(MetadataIndex(fqn, box.offsets), kind, tensor_data=data)]


def _create_chunk_list(value: Any) -> list[ChunkStorageMetadata]:
    """The boxes that this rank needs of a tensor."""
    if hasattr(value, "__create_chunk_list__"):
        return value.__create_chunk_list__()
    if not isinstance(value, Tensor):
        raise ValueError(f"expected a tensor, got {type(value).__name__}")
    return [local_box(value)]


def _create_read_items(fqn: str, saved: STORAGE_TYPES, value: Any) -> list[ReadItem]:
    """What to read for one entry."""
    if isinstance(saved, BytesStorageMetadata):
        index, zero = MetadataIndex(fqn), Size((0,))
        return [ReadItem(LoadItemType.BYTE_IO, index, zero, index, zero, zero)]
    if _is_elsewhere(value):
        return []
    try:
        boxes = _create_chunk_list(value)
    except ValueError as error:
        raise ValueError(f"{fqn}: the checkpoint has a tensor of shape {tuple(saved.size)}, and here {error}") from None
    return create_read_items_for_chunk_list(fqn, saved, boxes)


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: list[ChunkStorageMetadata]
) -> list[ReadItem]:
    """What of the saved boxes fills the needed ones."""
    items = []
    for needed_at, needed in enumerate(local_chunks):
        for saved_at, saved in enumerate(checkpoint_md.chunks):
            common = intersection(saved, needed)
            if common is None:
                continue
            items.append(
                ReadItem(
                    LoadItemType.TENSOR,
                    MetadataIndex(fqn, needed.offsets, needed_at),
                    _relative(common, needed),
                    MetadataIndex(fqn, saved.offsets, saved_at),
                    _relative(common, saved),
                    common.sizes,
                )
            )
    return items


def intersection(one: ChunkStorageMetadata, other: ChunkStorageMetadata) -> ChunkStorageMetadata | None:
    """What two boxes have in common; None if nothing. Boxes without dimensions have their one element in common."""
    starts = [max(a, b) for a, b in zip(one.offsets, other.offsets, strict=True)]
    ends = [
        min(a + m, b + n)
        for a, m, b, n in zip(one.offsets, one.sizes, other.offsets, other.sizes, strict=True)
    ]
    if any(start >= end for start, end in zip(starts, ends, strict=True)):
        return None
    return ChunkStorageMetadata(Size(starts), Size([end - start for start, end in zip(starts, ends, strict=True)]))


def _relative(box: ChunkStorageMetadata, to: ChunkStorageMetadata) -> Size:
    return Size([a - b for a, b in zip(box.offsets, to.offsets, strict=True)])


def narrowed(tensor: Any, offsets: Sequence[int], lengths: Sequence[int]) -> Any:
    """The box of a tensor, as a view."""
    for dim, (offset, length) in enumerate(zip(offsets, lengths, strict=True)):
        if offset or length != tensor.shape[dim]:
            tensor = tensor.narrow(dim, offset, length)
    return tensor


def find_tensor_shard(tensor: Any, index: MetadataIndex) -> Any:
    """This rank's part of a tensor that an index names."""
    if hasattr(tensor, "__get_tensor_shard__"):
        return tensor.__get_tensor_shard__(index)
    if isinstance(tensor, DTensor):
        local = tensor.to_local()
        return local.wait() if hasattr(local, "wait") else local
    if index.offset is not None and any(index.offset):
        raise ValueError(f"{index.fqn}: a whole tensor has no part that begins at {tuple(index.offset)}")
    return tensor


def find_state_dict_object(state_dict: dict[str, Any], index: MetadataIndex) -> Any:
    """What an index names: a tensor, a part of one, or any object."""
    if index.fqn not in state_dict:
        raise ValueError(f"there is no entry {index.fqn!r} in the state dict")
    value = state_dict[index.fqn]
    if isinstance(value, Tensor):
        return find_tensor_shard(value, index)
    if index.offset is not None:
        raise ValueError(f"{index.fqn}: {type(value).__name__} has no part that begins at {tuple(index.offset)}")
    return value


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Nested dicts (in place), lists and tuples with the function applied to every tensor."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        for key, inner in value.items():
            value[key] = mapped(inner, function)
        return value
    if type(value) in (list, tuple):
        return type(value)(mapped(inner, function) for inner in value)
    return value


def _init_state_dict(state_dict: dict[str, Any]) -> None:
    """Give tensors without memory (on the meta device) some, in place."""

    def with_memory(tensor: Any) -> Any:
        if tensor.device.type != "meta":
            return tensor
        if isinstance(tensor, DTensor):
            device = tensor.device_mesh.device_type
            local = _C.empty(tuple(tensor.to_local().shape), None, tensor.dtype, device)
            return DTensor.from_local(local, tensor.device_mesh, tensor.placements, shape=tensor.size(),
                                      stride=tensor.stride())
        return _C.empty(tuple(tensor.shape), None, tensor.dtype, "cpu")

    mapped(state_dict, with_memory)
