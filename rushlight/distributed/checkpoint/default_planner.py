"""`torch.distributed.checkpoint.default_planner`: nested state is flattened, what several ranks have is written by one
of them, and what is read may lie differently from what was written."""

from __future__ import annotations

import dataclasses
import io
import math
import warnings
from typing import Any

from ... import _C
from ...base.shape import Size
from ...serialization import load, save
from ._nested_dict import FLATTEN_MAPPING, flatten_state_dict
from ._traverse import set_element
from .metadata import BytesStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorStorageMetadata
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .planner_helpers import (
    _create_read_items,
    _create_write_items,
    _init_state_dict,
    find_state_dict_object,
    intersection,
    narrowed,
)

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner", "create_default_global_load_plan",
           "create_default_global_save_plan", "create_default_local_load_plan",
           "create_default_local_save_plan"]


class DefaultSavePlanner(SavePlanner):
    """Flattens; writes what several ranks have once, spread by size (or all on the lowest rank that has it). With
    `enable_plan_caching` plans that have not changed since the last save are not exchanged again."""

    _cache: dict[str, dict[str, Any]] = {}     # noqa: RUF012 - plans of the last save, by class

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        if dedup_replicated_tensors is not None:
            warnings.warn("dedup_replicated_tensors has no effect: what several ranks have is always written once",
                          stacklevel=2)
        self.flatten_state_dict = flatten_state_dict
        # A part whose tensor is itself sharded is not made here: there is nothing to flatten.
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings: FLATTEN_MAPPING = {}
        self._enable_plan_caching = enable_plan_caching
        self._cached_plans_key = type(self).__name__

    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.is_coordinator = is_coordinator

    @property
    def _last(self) -> dict[str, Any]:
        return DefaultSavePlanner._cache.setdefault(self._cached_plans_key, {})

    def create_local_plan(self) -> SavePlan:
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        if self.flatten_state_dict:
            plan = dataclasses.replace(plan, planner_data=self.mappings)
        self.plan = plan
        if self._enable_plan_caching:
            if self._last.get("local") == plan:
                return SavePlan([], usable=False)
            self._pending = plan
        return plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        sent = all_plans
        if self._enable_plan_caching:
            before = self._last.get("all", all_plans)
            all_plans = [new if new.usable else old for new, old in zip(all_plans, before, strict=True)]
            self._last["all"] = all_plans
        global_plan = without_duplicates(all_plans, self.dedup_save_to_lowest_rank)
        global_plan, metadata = create_default_global_save_plan(global_plan)
        if self.flatten_state_dict:
            paths: FLATTEN_MAPPING = {}
            for plan in reversed(global_plan):
                paths.update(plan.planner_data)
            metadata = dataclasses.replace(metadata, planner_data=paths)
        _check_global_plan(metadata, len(global_plan))
        self.global_plan, self.metadata = global_plan, metadata
        if self._enable_plan_caching:
            before, self._last["global"] = self._last.get("global"), global_plan
            if before is not None and not any(plan.usable for plan in sent):
                return [SavePlan([], usable=False)] * len(global_plan), metadata
        return global_plan, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        if self._enable_plan_caching:
            if new_plan.usable:
                self._last["final"] = new_plan
            else:
                new_plan = self._last["final"]
            if hasattr(self, "_pending"):
                self._last["local"] = self._pending
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Any:
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """What is to be written: subclasses may give another."""
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """It as a tensor or bytes: subclasses may change it on the way."""
        if write_item.type == WriteItemType.BYTE_IO:
            data = io.BytesIO()
            save(object, data)
            return data
        return object


class DefaultLoadPlanner(LoadPlanner):
    """Fills the tensors of a nested state in place, and replaces what is no tensor.

    `allow_partial_load` leaves out what the checkpoint does not have; otherwise that is an error."""

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.original_state_dict: dict[str, Any] = {}
        self.mappings: FLATTEN_MAPPING = {}

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        _init_state_dict(state_dict)
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.metadata = metadata
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> LoadPlan:
        if self.metadata is None:
            raise AssertionError("set_up_planner was given no metadata: there is nothing to load from")
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, new_plan: LoadPlan) -> LoadPlan:
        return new_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        name = read_item.dest_index.fqn
        loaded = load(value, map_location="cpu", weights_only=True)
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], loaded)
        else:
            self.state_dict[name] = loaded

    def resolve_tensor(self, read_item: ReadItem) -> Any:
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Any) -> None:
        pass

    def lookup_tensor(self, index: MetadataIndex) -> Any:
        """What is to be filled: subclasses may give another."""
        return find_state_dict_object(self.state_dict, index)

    def transform_tensor(self, read_item: ReadItem, tensor: Any) -> Any:
        """The box of it that an item fills."""
        return narrowed(tensor, read_item.dest_offsets, read_item.lengths)


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Makes the whole state from what the checkpoint says it holds (or from the entries named)."""

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _is_wanted(self, key: str, metadata: Metadata) -> bool:
        if self.keys is None or key in self.keys:
            return True
        path = (metadata.planner_data or {}).get(key, ())
        return any(".".join(map(str, path[:end])) in self.keys for end in range(1, len(path)))

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        if state_dict or metadata is None:
            raise AssertionError("expected an empty state dict to fill, and metadata to fill it from")
        for key, saved in metadata.state_dict_metadata.items():
            if not self._is_wanted(key, metadata):
                continue
            value: Any = saved
            if isinstance(saved, TensorStorageMetadata):
                value = _C.empty(tuple(saved.size), None, saved.properties.dtype, None)
            path = (metadata.planner_data or {}).get(key)
            if path is not None:
                set_element(state_dict, path, value)
            else:
                state_dict[key] = value
        super().set_up_planner(state_dict, metadata, is_coordinator)


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """Everything that this rank has."""
    return SavePlan([item for fqn, value in state_dict.items() for item in _create_write_items(fqn, value)])


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """The plans, and the table of all their entries."""
    table: dict[str, Any] = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name, data = item.index.fqn, item.tensor_data
            if item.type != WriteItemType.SHARD and name in table:
                raise AssertionError(f"{name} is to be written twice")
            if data is None:
                table[name] = BytesStorageMetadata()
            else:
                entry = table.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
                if rewrite_index_hints:
                    item = dataclasses.replace(item, index=MetadataIndex(name, item.index.offset, len(entry.chunks)))
                entry.chunks.append(data.chunk)
            items.append(item)
        plans.append(dataclasses.replace(plan, items=items))
    return plans, Metadata(table)


def create_default_local_load_plan(state_dict: dict[str, Any], metadata: Metadata, strict: bool = True) -> LoadPlan:
    """Everything that this rank needs. Shapes must be those that were saved."""
    items = []
    for fqn, value in state_dict.items():
        saved = metadata.state_dict_metadata.get(fqn)
        if saved is None:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {fqn}.")
            continue
        shape = getattr(value, "shape", None)
        if isinstance(saved, TensorStorageMetadata) and shape is not None and Size(shape) != saved.size:
            raise ValueError(f"{fqn}: Size mismatch between saved {saved.size} and current: {Size(shape)}")
        items += _create_read_items(fqn, saved, value)
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """As each rank wishes."""
    return all_plans


def without_duplicates(all_plans: list[SavePlan], to_lowest_rank: bool = False) -> list[SavePlan]:
    """Plans in which each item is one rank's: of those that have it, the one with the least to write so far."""
    owners: dict[MetadataIndex, list[int]] = {}
    items: dict[MetadataIndex, WriteItem] = {}
    for rank, plan in enumerate(all_plans):
        for item in plan.items:
            ranks = owners.setdefault(item.index, [])
            if rank not in ranks:
                ranks.append(rank)
            items[item.index] = item
    load_of = [0] * len(all_plans)
    chosen: dict[MetadataIndex, int] = {}
    for index, ranks in owners.items():
        rank = min(ranks) if to_lowest_rank else min(ranks, key=load_of.__getitem__)
        load_of[rank] += items[index].tensor_storage_size() or 1
        chosen[index] = rank
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if chosen[item.index] == rank])
        for rank, plan in enumerate(all_plans)
    ]


def _check_global_plan(metadata: Metadata, ranks: int) -> None:
    """Boxes must lie within their tensors and apart, and together fill them."""
    errors = []
    for name, entry in metadata.state_dict_metadata.items():
        if isinstance(entry, BytesStorageMetadata) or not entry.size:
            continue
        ends = [[a + n for a, n in zip(box.offsets, box.sizes, strict=True)] for box in entry.chunks]
        if any(end > size for row in ends for end, size in zip(row, entry.size, strict=True)):
            errors.append(f"{name}: a part lies outside of {tuple(entry.size)}: {entry.chunks}")
        ordered = sorted(entry.chunks, key=lambda box: tuple(box.offsets))
        for at, box in enumerate(ordered):
            for other in ordered[at + 1 :]:
                if other.offsets[0] >= box.offsets[0] + box.sizes[0]:
                    break
                if intersection(box, other):
                    errors.append(f"{name}: two parts overlap: {box} and {other}")
        volume = sum(math.prod(box.sizes) for box in entry.chunks)
        if ranks > 1 and volume != math.prod(entry.size):
            errors.append(f"{name}: the parts have {volume} elements, the tensor {math.prod(entry.size)}")
    if errors:
        raise ValueError("the ranks' parts do not make up the tensors: " + "; ".join(errors)[:500])
