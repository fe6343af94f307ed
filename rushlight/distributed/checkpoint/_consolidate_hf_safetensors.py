"""Files of parts, one per rank, made whole: safetensors files as model hubs keep them, with their index.

Enters: a folder of files of which each says where in the whole its tensors lie (`saved_offsets`). Leaves: a folder of
files of whole tensors and `model.safetensors.index.json`. A file is put in place when it is complete, the index last.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ... import _C
from ...serialization.tensor_files import TensorFile, save_file
from .. import collectives
from ..groups import get_rank, get_world_size

__all__ = ["consolidate_safetensors_files", "consolidate_safetensors_files_on_every_rank"]
SUFFIX, INDEX = ".safetensors", "model.safetensors.index.json"
SHARDING, OFFSETS = "DCP_SHARDING_INFO", "saved_offsets"


def file_name(index: int, count: int, shard: int | None = None) -> str:
    """What the file of an index is called, as hubs and PyTorch call it."""
    own = "" if shard is None else f"shard-{shard:05}-"
    return f"{own}model-{index:05}-of-{count:05}{SUFFIX}"


def files_in(folder: Any) -> list[str]:
    """The safetensors files of a folder."""
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(SUFFIX))


def offsets_in(file: TensorFile) -> dict[str, list[int]]:
    """Where each tensor of a file begins in the whole."""
    try:
        said = json.loads(file.metadata[SHARDING]) if SHARDING in file.metadata else {}
        return {
            name: [int(n) for n in said[name][OFFSETS]] if name in said else [0] * len(file.layout(name)[0])
            for name in file.header
        }
    except (ValueError, TypeError, KeyError) as error:
        raise RuntimeError(f"{file.file.name}: what it says of parts makes no sense ({error})") from None


def write_whole(path: str, tensors: dict[str, Any], metadata: dict[str, str]) -> int:
    """Write a file, put in place when it is complete; its bytes of tensors."""
    with open(f"{path}.tmp", "wb") as stream:
        save_file(tensors, stream, metadata)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(f"{path}.tmp", path)
    return sum(t.numel() * t.itemsize for t in tensors.values())


def write_index(folder: Any, places: Mapping[str, str], size: int) -> None:
    """Which tensor is in which file."""
    path = os.path.join(folder, INDEX)
    with open(f"{path}.tmp", "w") as stream:
        json.dump({"metadata": {"total_size": size}, "weight_map": dict(places)}, stream, indent=2)
    os.replace(f"{path}.tmp", path)


def _whole(files: list[str], names: set[str]) -> dict[str, Any]:
    """Tensors from everyone's parts."""
    parts: dict[str, list[tuple[str, list[int], tuple[int, ...], Any]]] = {}
    for path in files:
        with TensorFile(path) as file:
            offsets = offsets_in(file)
            for name in file.header.keys() & names:
                parts.setdefault(name, []).append((path, offsets[name], *file.layout(name)))
    results = {}
    for name in sorted(parts):
        sizes = [max(ends) for ends in zip(*[[o + n for o, n in zip(at, shape, strict=True)]
                                             for _, at, shape, _ in parts[name]], strict=True)]
        whole = _C.empty(tuple(sizes), None, parts[name][0][3], None)
        for path, at, shape, _ in parts[name]:
            target = whole
            for dim, (start, length) in enumerate(zip(at, shape, strict=True)):
                target = target.narrow(dim, start, length)
            with TensorFile(path) as file:
                target.copy_(file.read(name))
        results[name] = whole
    return results


def _planned(input_dir: str, mapping: Mapping[str, int] | None) -> dict[int, set[str]]:
    """The tensors of each file that is to be written."""
    found: set[str] = set()
    for path in files_in(input_dir):
        with TensorFile(path) as file:
            found |= file.header.keys()
    if mapping is None:
        return {1: found}
    if missing := found - mapping.keys():
        raise ValueError(f"fqn_to_index_mapping: it does not say where {', '.join(sorted(missing)[:5])} belong")
    planned: dict[int, set[str]] = {index: set() for index in mapping.values()}
    for name in found:
        planned[mapping[name]].add(name)
    return planned


def _write(input_dir: str, output_dir: str, planned: dict[int, set[str]], own: list[int], threads: int) -> int:
    os.makedirs(output_dir, exist_ok=True)
    files, count = files_in(input_dir), max(planned)

    def one(index: int) -> int:
        whole = _whole(files, planned[index])
        return write_whole(os.path.join(output_dir, file_name(index, count)), whole, {"format": "pt"})

    if threads <= 1:
        return sum(map(one, own))
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(one, own))


def _places(planned: dict[int, set[str]]) -> dict[str, str]:
    count = max(planned)
    return {name: file_name(index, count) for index, names in planned.items() for name in sorted(names)}


def consolidate_safetensors_files(
    input_dir: str, output_dir: str, fqn_to_index_mapping: Mapping[str, int] | None = None, num_threads: int = 1
) -> None:
    """Whole tensors of the parts in `input_dir`, in files of `output_dir`: file 1, or as the mapping says."""
    planned = _planned(input_dir, fqn_to_index_mapping)
    size = _write(input_dir, output_dir, planned, sorted(planned), num_threads)
    write_index(output_dir, _places(planned), size)


def consolidate_safetensors_files_on_every_rank(
    input_dir: str, output_dir: str, fqn_to_index_mapping: Mapping[str, int], num_threads: int = 1,
    process_group: Any = None,
) -> None:
    """The same by all ranks of a group: each writes some of the files, the first one the index."""
    planned = _planned(input_dir, fqn_to_index_mapping)
    rank, ranks = get_rank(process_group), get_world_size(process_group)
    size = _write(input_dir, output_dir, planned, sorted(planned)[rank::ranks], num_threads)
    sizes: list[Any] = [0] * ranks
    collectives.all_gather_object(sizes, size, process_group)
    if rank == 0:
        write_index(output_dir, _places(planned), sum(sizes))
    collectives.barrier(process_group)
