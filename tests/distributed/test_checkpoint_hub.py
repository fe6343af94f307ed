"""Checkpoints as safetensors files: whole or in parts, read in other parts, and by the safetensors package."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

import rushlight as torch
from rushlight.distributed import checkpoint as dcp
from rushlight.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter

from .processes import all_of, results_of, run


def _state() -> dict[str, Any]:
    return {
        "a.weight": torch.arange(12.0).view(4, 3), "a.bias": torch.tensor([1, 2], dtype=torch.bfloat16),
        "b": torch.arange(5), "c": torch.tensor(3.5, dtype=torch.float64), "empty": torch.zeros(0, 2),
    }


def test_one_process_writes_and_reads(tmp_path: Any) -> None:
    state = _state()
    mapping = {"a.weight": 1, "a.bias": 2, "b": 1, "c": 2, "empty": 2}
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(str(tmp_path), mapping), no_dist=True)
    assert sorted(os.listdir(tmp_path)) == [
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json",
    ]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["weight_map"]["c"] == "model-00002-of-00002.safetensors"
    assert index["metadata"]["total_size"] == 12 * 4 + 2 * 2 + 5 * 8 + 8
    for threads in (1, 2):
        found = {k: torch.zeros_like(v) for k, v in state.items()}
        reader = HuggingFaceStorageReader(str(tmp_path), thread_count=threads)
        dcp.load(found, storage_reader=reader, no_dist=True)
        for name, value in state.items():
            assert found[name].dtype is value.dtype and found[name].equal(value)
    safetensors = pytest.importorskip("safetensors")
    with safetensors.safe_open(str(tmp_path / "model-00001-of-00002.safetensors"), framework="np") as file:
        assert file.get_tensor("a.weight").tolist() == state["a.weight"].tolist()


def test_says_what_it_cannot_keep(tmp_path: Any) -> None:
    writer = HuggingFaceStorageWriter(str(tmp_path))
    with pytest.raises(dcp.CheckpointException, match="hold tensors only, and step is none"):
        dcp.save({"step": object()}, storage_writer=writer, no_dist=True)
    with pytest.raises(dcp.CheckpointException, match="does not say where b belongs"):
        dcp.save({"b": torch.ones(1)}, storage_writer=HuggingFaceStorageWriter(str(tmp_path), {"a": 1}), no_dist=True)
    with pytest.raises(ValueError, match="save_distributed=True"):
        HuggingFaceStorageWriter(str(tmp_path), enable_consolidation=True)
    with pytest.raises(dcp.CheckpointException, match="no safetensors files"):
        dcp.load({"b": torch.ones(1)}, storage_reader=HuggingFaceStorageReader(str(tmp_path)), no_dist=True)


def _parts(rank: int, ranks: int) -> None:
    import tempfile

    from rushlight import distributed as dist
    from rushlight.distributed.tensor import Replicate, Shard, distribute_tensor

    folders: list[Any] = [tempfile.mkdtemp() if rank == 0 else None for _ in range(2)]
    dist.broadcast_object_list(folders)
    mesh = dist.init_device_mesh("cpu", (ranks,))
    whole = torch.arange(15.0).view(5, 3)
    copy = distribute_tensor(whole * 2, mesh, [Replicate()])
    state = {"cut": distribute_tensor(whole, mesh, [Shard(0)]), "copy": copy}
    dcp.save(state, storage_writer=HuggingFaceStorageWriter(folders[0], save_distributed=True))
    assert "shard-00001-model-00001-of-00001.safetensors" in os.listdir(folders[0])
    other = {"cut": distribute_tensor(torch.zeros(5, 3), mesh, [Shard(1)])}
    dcp.load(other, storage_reader=HuggingFaceStorageReader(folders[0]))
    assert other["cut"].full_tensor().equal(whole)

    writer = HuggingFaceStorageWriter(
        folders[1], {"cut": 1, "copy": 2}, save_distributed=True, enable_consolidation=True
    )
    dcp.save(state, storage_writer=writer)
    dist.barrier()
    assert torch.load(os.path.join(folders[1], "model-00001-of-00002.safetensors"))["cut"].equal(whole)
    assert torch.load(os.path.join(folders[1], "model-00002-of-00002.safetensors"))["copy"].equal(whole * 2)
    try:
        dcp.save(state, storage_writer=HuggingFaceStorageWriter(folders[0]))
    except dcp.CheckpointException as error:
        assert "2 ranks have something to write" in str(error)
    else:
        raise AssertionError("two ranks, one file")


def test_ranks_write_parts() -> None:
    results_of(run(2, all_of, [_parts]))
