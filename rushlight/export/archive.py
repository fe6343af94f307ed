"""`.pt2` files: a zip archive with a program's graph as JSON and its tensors as plain bytes.

Enters: an ExportedProgram and where to write it; or a file. Leaves: the file; or the program. Files of PyTorch 2.13
load here, and ours there, as far as both have the ops. Nothing in a file is run. Refuses: archives that are cut off,
damaged, foreign, or whose records do not fit their description.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from typing import Any

from .. import _C
from .._C import Tensor
from ..nn import Parameter
from ..serialization import _open_zipfile_reader, _open_zipfile_writer, load as load_file, save as save_file
from ..tensors.interop import frombuffer
from . import codes
from .exported_program import ExportedProgram
from .reading import read
from .writing import OPSET, tensor_entry, written

_WEIGHTS, _CONSTANTS = "data/weights/", "data/constants/"


def save(ep: ExportedProgram, f: Any, *, extra_files: dict[str, Any] | None = None,
         opset_version: dict[str, int] | None = None, pickle_protocol: int = 2) -> None:
    """Write a program to a file (a path, or something to write to). `extra_files` go with it, by name."""
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"save: expected an ExportedProgram, got {type(ep).__name__}")
    if opset_version is not None and opset_version != OPSET:
        raise NotImplementedError(f"save: opset_version is {OPSET}, got {opset_version}")
    extra = {f"extra/{name}": held for name, held in (extra_files or {}).items()}
    write_archive(f, ep, extra, pickle_protocol)


def write_archive(f: Any, ep: ExportedProgram, more: Mapping[str, Any], pickle_protocol: int = 2) -> None:
    """A program and further records."""
    text = json.dumps(written(ep), allow_nan=False).encode()
    with _open_zipfile_writer(f) as writer:
        writer.write_record("archive_format", b"pt2")
        writer.write_record("archive_version", b"0")
        writer.write_record("byteorder", b"little")
        writer.write_record(".data/version", b"6\n")
        writer.write_record("models/model.json", text)
        hidden = set(ep.graph_signature.non_persistent_buffers)
        _write_tensors(writer, _WEIGHTS, "weight_", "model_weights_config.json", ep.state_dict)
        held = {n: t for n, t in ep.constants.items() if isinstance(t, Tensor)}
        _write_tensors(writer, _CONSTANTS, "tensor_", "model_constants_config.json", held)
        assert hidden <= set(held), "buffers that are not persistent are among the constants"
        if ep.example_inputs is not None:
            stream = io.BytesIO()
            save_file(ep.example_inputs, stream, pickle_protocol=pickle_protocol)
            writer.write_record("data/sample_inputs/model.pt", stream.getvalue())
        for name, content in more.items():
            writer.write_record(name, content.encode() if isinstance(content, str) else content)


def _write_tensors(writer: Any, folder: str, prefix: str, listing: str, tensors: Mapping[str, Tensor]) -> None:
    config, records = {}, {}
    for name, t in tensors.items():
        key = id(t)
        if key not in records:
            records[key] = f"{prefix}{len(records)}"
            writer.write_record(folder + records[key], _bytes_of(t))
        config[name] = tensor_entry(_dense(t), records[key])
    writer.write_record(folder + listing, json.dumps({"config": config}).encode())


def _dense(t: Tensor) -> Tensor:
    """The tensor with its elements one behind the other: what is stored."""
    result = t.detach().cpu().contiguous().resolve_conj().resolve_neg()
    return Parameter(result, t.requires_grad) if isinstance(t, Parameter) else result


def _bytes_of(t: Tensor) -> bytes:
    result = t.detach().cpu().contiguous().clone()
    return bytes(result.untyped_storage()) if result.numel() else b""


# --- loading ----------------------------------------------------------------------------------------------------------


def load(f: Any, *, extra_files: dict[str, Any] | None = None,
         expected_opset_version: dict[str, int] | None = None) -> ExportedProgram:
    """The program in a file (a path, or something to read from). `extra_files` is filled by its names."""
    if isinstance(f, (str, os.PathLike)) and not os.path.exists(f):
        raise FileNotFoundError(f"load: there is no file {os.fspath(f)!r}")
    try:
        with _open_zipfile_reader(f) as reader:
            return _loaded(reader, extra_files, expected_opset_version)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"load: the file is damaged: {error}") from error


def _loaded(reader: Any, extra_files: dict[str, Any] | None, expected: dict[str, int] | None) -> ExportedProgram:
    records = reader.get_all_records()
    models = [r for r in records if r.startswith("models/") and r.endswith(".json")]
    if not models:
        raise ValueError(
            "load: this is no .pt2 file: it holds no models/*.json. "
            "Checkpoints (.pt, .pth) are read by torch.load, TorchScript by torch.jit.load."
        )
    if len(models) > 1:
        raise ValueError(f"load: the file holds several programs ({models}), and one can be loaded")
    said = json.loads(reader.get_record(models[0]))
    if not isinstance(said, dict) or "graph_module" not in said or "schema_version" not in said:
        raise ValueError(f"load: {models[0]} is no exported program")
    if expected is not None and said.get("opset_version") != expected:
        raise ValueError(f"load: expected opset version {expected}, the file has {said.get('opset_version')}")
    name = models[0].removeprefix("models/").removesuffix(".json")
    state = _read_tensors(reader, _WEIGHTS, f"{name}_weights_config.json")
    constants = _read_tensors(reader, _CONSTANTS, f"{name}_constants_config.json")
    examples = _read_examples(reader, f"data/sample_inputs/{name}.pt")
    for wanted in list(extra_files or {}):
        if reader.has_record(f"extra/{wanted}"):
            extra_files[wanted] = reader.get_record(f"extra/{wanted}").decode()  # type: ignore[index]
    return read(said, state, constants, examples)


def _read_examples(reader: Any, record: str) -> tuple | None:
    """Example arguments, read without running anything; None where there are none, or other things are among them."""
    if not reader.has_record(record):
        return None
    try:
        found = load_file(io.BytesIO(reader.get_record(record)), weights_only=True)
    except Exception:  # noqa: BLE001 - whatever is wrong with examples, the program does not need them
        return None
    return found if isinstance(found, tuple) else None


def _read_tensors(reader: Any, folder: str, listing: str) -> dict[str, Tensor]:
    if not reader.has_record(folder + listing):
        return {}
    config = json.loads(reader.get_record(folder + listing)).get("config", {})
    storages: dict[str, bytes] = {}
    found: dict[str, Tensor] = {}
    for name, entry in config.items():
        try:
            found[name] = _tensor(reader, folder, entry, storages, found)
        except (KeyError, TypeError) as error:
            raise ValueError(f"load: the description of {name} is damaged ({error!r})") from error
    return found


def _tensor(reader: Any, folder: str, entry: Mapping[str, Any], storages: dict[str, Any],
            found: Mapping[str, Tensor]) -> Tensor:
    """One tensor from its record."""
    if entry.get("use_pickle"):
        raise ValueError(f"load: {entry['path_name']} is stored as a pickle, which is not read")
    path, meta = entry["path_name"], entry["tensor_meta"]
    if "/" in path:
        raise ValueError(f"load: {path!r} is no record of tensors")
    codes.layout_of(meta["layout"])
    dtype = codes.dtype_of(meta["dtype"])
    sizes, strides = [int(n["as_int"]) for n in meta["sizes"]], [int(n["as_int"]) for n in meta["strides"]]
    offset = int(meta["storage_offset"]["as_int"])
    if path not in storages:
        data = reader.get_record(folder + path)
        storages[path] = _storage(data)
    storage = storages[path]
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) if 0 not in sizes else -1
    if any(n < 0 for n in (*sizes, *strides, offset)) or (last + 1) * dtype.itemsize > storage.nbytes():
        raise ValueError(f"load: {path} has {storage.nbytes()} bytes, too few for a tensor of sizes {sizes}")
    t = _C.empty((0,), None, dtype, _C.device("cpu"))
    t.set_(storage, offset, sizes, strides)
    return Parameter(t, bool(meta["requires_grad"])) if entry["is_param"] else t


def _storage(data: bytes | memoryview) -> Any:
    """Bytes as memory of a tensor; memory that can be written to (a mapped file) is taken as it is."""
    if isinstance(data, memoryview) and len(data):
        return frombuffer(data, dtype=_C.uint8).untyped_storage()
    result = _C.empty((len(data),), None, _C.uint8, _C.device("cpu"))
    memoryview(result.numpy())[:] = data
    return result.untyped_storage()
