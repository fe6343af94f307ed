"""Programs of `.pt2` files, in a worker.

Enters: a descriptor of the file's bytes, which all workers of a model map, and tensors as bytes. Leaves: what the
program takes and gives, and its results as bytes. Refuses: files that are damaged or hold no program; weights are never
copied, a program that writes to its buffers writes to pages of its own.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import sys
import zipfile
import zlib
from typing import Any

import rushlight as rl
from rushlight.export import archive
from rushlight.export.graph_signature import ConstantArgument, InputKind, OutputKind
from rushlight.export.passes import move_to_device_pass
from rushlight.utils import _pytree as pytree

from .datatypes import NAMES, NUMBERS
from .refusals import LoadError, Refusal

WARM = (2, 1)         # sizes that are run before a model is ready; 1 has a plan of its own
_ALIGNED = 64


class MappedArchive:
    """The records of a zip file whose members are stored as they are, over memory."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, 0, access=mmap.ACCESS_COPY)
        self._view = memoryview(self._memory)
        with os.fdopen(os.dup(fd), "rb") as file, zipfile.ZipFile(file) as listing:
            members = [m for m in listing.infolist() if not m.is_dir()]
        root = members[0].filename.partition("/")[0] + "/" if members else ""
        self._members = {m.filename.removeprefix(root): m for m in members}

    def get_all_records(self) -> list[str]:
        return list(self._members)

    def has_record(self, name: str) -> bool:
        return name in self._members

    def get_record(self, name: str) -> Any:
        """A record: bytes, or the mapped memory where tensors lie."""
        member = self._members.get(name)
        if member is None:
            raise ValueError(f"load: the archive has no record {name}")
        if member.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"load: {name} is compressed, which .pt2 files are not")
        head = self._view[member.header_offset : member.header_offset + 30]
        lengths = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        start = member.header_offset + 30 + lengths
        found = self._view[start : start + member.file_size]
        if len(head) < 30 or len(found) != member.file_size or zlib.crc32(found) != member.CRC:
            raise ValueError(f"load: {name} is damaged")
        is_tensor = name.startswith(("data/weights/", "data/constants/")) and not name.endswith(".json")
        return found if is_tensor and start % 16 == 0 else bytes(found)


class Program:
    """A program that runs, compiled where it can be."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        try:
            self.exported = archive._loaded(MappedArchive(wanted["fd"]), None, None)
        except (ValueError, RuntimeError, zipfile.BadZipFile, UnicodeDecodeError, RecursionError) as error:
            raise LoadError(str(error).partition("\n")[0] or type(error).__name__) from error
        self._device = wanted.get("device", "cpu")
        if self._device != "cpu":
            self.exported = move_to_device_pass(self.exported, self._device)
        self._names = {n.name: n for n in self.exported.graph.nodes}
        self._specs = [s for s in self.exported.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
        self._inputs = [s.arg.name for s in self._specs if not isinstance(s.arg, ConstantArgument)]
        self._structure = self.exported.call_spec.in_spec
        args = pytree.tree_unflatten(list(range(len(self._specs))), self._structure)
        self._is_flat = args == (tuple(range(len(self._inputs))), {})      # tensors come as positions, as they are
        self._plain = self.exported.module(check_guards=False)
        self._call = rl.compile(self._plain)
        self.description = self._described()

    # --- what it takes and gives --------------------------------------------------------------------------------------

    def _sizes(self, value: Any) -> tuple[list[int], list[str | None]]:
        """Sizes, -1 where one is free, and the names of those that are."""
        sizes, names = [], []
        for size in value.shape:
            is_free = not isinstance(size, int)
            sizes.append(-1 if is_free else size)
            names.append(str(size) if is_free else None)
        return sizes, names

    def _described_value(self, name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, rl.Tensor):          # a number that the program takes as one
            kind = "BOOL" if isinstance(value, (bool, rl.SymBool)) else (
                "FP64" if isinstance(value, (float, rl.SymFloat)) else "INT64")
            return {"name": name, "datatype": kind, "shape": [1], "symbols": [None], "is_number": True}
        dtype = str(value.dtype).rpartition(".")[2]
        if dtype not in NAMES:
            raise LoadError(f"{name} is of {dtype}, a type that no protocol here carries")
        sizes, names = self._sizes(value)
        return {"name": name, "datatype": NAMES[dtype], "shape": sizes, "symbols": names}

    def _output_names(self) -> list[str]:
        """Keys where the program gives a dict, else the names that its graph has; each once."""
        named = [s.arg.name for s in self.exported.graph_signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
        structure = self.exported.call_spec.out_spec
        held = pytree.tree_unflatten(list(range(len(named))), structure)
        if isinstance(held, dict) and all(isinstance(v, int) for v in held.values()):
            for key, at in held.items():
                named[at] = str(key)
        seen: dict[str, int] = {}
        for at, name in enumerate(named):
            seen[name] = seen.get(name, -1) + 1
            named[at] = f"{name}_{seen[name]}" if seen[name] else name
        return named

    def _described(self) -> dict[str, Any]:
        inputs = [self._described_value(n, self._names[n].meta.get("val")) for n in self._inputs]
        specs = [s for s in self.exported.graph_signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
        outputs = []
        for name, spec in zip(self._output_names(), specs, strict=True):
            value = spec.arg.value if isinstance(spec.arg, ConstantArgument) else self._names[spec.arg.name].meta["val"]
            outputs.append(self._described_value(name, value))
        ranges = {str(k): [v.lower if isinstance(v.lower, int) else 0, v.upper if isinstance(v.upper, int) else None]
                  for k, v in self.exported.range_constraints.items()}
        ranges = {name: [low, None if high is None or high >= 2**62 else high] for name, (low, high) in ranges.items()}
        firsts = {(e["symbols"] or [None])[0] for e in (*inputs, *outputs) if not e.get("is_number")}
        has_numbers = any(e.get("is_number") for e in (*inputs, *outputs))
        batch = next(iter(firsts)) if len(firsts) == 1 and inputs and not has_numbers else None
        return {"inputs": inputs, "outputs": outputs, "ranges": ranges, "batch": batch}

    # --- running ------------------------------------------------------------------------------------------------------

    def warm(self) -> None:
        """Run once for the sizes that plans differ by; falls back to the graph as it is where that does not compile."""
        for size in WARM:
            given = [self._example(entry, size) for entry in self.description["inputs"]]
            try:
                self._results(given)
            except Exception as error:  # noqa: BLE001 - zeros may not be what a program takes, or compiling not possible
                if self._call is self._plain:
                    continue
                print(f"rushlight serve: runs uncompiled: {str(error).partition(chr(10))[0]}", file=sys.stderr)
                self._call = self._plain
            if self.description["batch"] is None and all(-1 not in e["shape"] for e in self.description["inputs"]):
                return

    def _example(self, entry: dict[str, Any], size: int) -> Any:
        if entry.get("is_number"):
            return {"BOOL": False, "INT64": 1, "FP64": 1.0}[entry["datatype"]]
        shape = []
        for at, name in zip(entry["shape"], entry["symbols"], strict=True):
            low, high = self.description["ranges"].get(name, [0, None])
            shape.append(at if at >= 0 else max(low, size if high is None else min(size, high)))
        result = self._placed(rl.zeros(shape, dtype=getattr(rl, NUMBERS[entry["datatype"]][2])))
        for dim, (at, length) in enumerate(zip(entry["shape"], shape, strict=True)):
            if at < 0 and length > 1:
                rl._dynamo.maybe_mark_dynamic(result, dim)
        return result

    def _placed(self, value: Any) -> Any:
        """A tensor where the program runs; numbers lie nowhere."""
        return value.to(self._device) if self._device != "cpu" and isinstance(value, rl.Tensor) else value

    def _results(self, given: list[Any]) -> list[Any]:
        args, kwargs = (given, {}) if self._is_flat else self._arguments(given)
        with rl.no_grad():
            result = self._call(*args, **kwargs)
        return [result] if isinstance(result, rl.Tensor) else pytree.tree_leaves(result)

    def _arguments(self, given: list[Any]) -> Any:
        """Inputs where the program takes them, beside what it always takes."""
        waiting = iter(given)
        leaves = [s.arg.value if isinstance(s.arg, ConstantArgument) else next(waiting) for s in self._specs]
        return pytree.tree_unflatten(leaves, self._structure)

    def answer(self, said: dict[str, Any], buffers: list[memoryview]) -> tuple[dict[str, Any], list[bytes]]:
        """Sizes and bytes of the results for inputs that come in the order of the description."""
        given = [self._placed(_tensor(entry, shape, data))
                 for entry, shape, data in zip(self.description["inputs"], said["shapes"], buffers, strict=True)]
        try:
            results = self._results(given)
        except Exception as error:
            first = str(error).partition("\n")[0]
            raise Refusal(400, f"the program refused these inputs: {first or type(error).__name__}") from error
        found = [_bytes(entry, value) for entry, value in zip(self.description["outputs"], results, strict=True)]
        return {"shapes": [shape for shape, _ in found]}, [data for _, data in found]


def _tensor(entry: dict[str, Any], shape: list[int], data: memoryview) -> Any:
    dtype = getattr(rl, NUMBERS[entry["datatype"]][2])
    if not math.prod(shape):
        return rl.empty(shape, dtype=dtype)
    t = rl.frombuffer(data, dtype=dtype)
    if t.data_ptr() % _ALIGNED:      # results must not depend on where in a message a tensor lay
        t = t.clone()
    return t[0].item() if entry.get("is_number") else t.view(shape)


def _bytes(entry: dict[str, Any], value: Any) -> tuple[list[int], bytes]:
    if not isinstance(value, rl.Tensor):
        value = rl.tensor([value], dtype=getattr(rl, NUMBERS[entry["datatype"]][2]))
    t = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    shape = list(t.shape)
    return shape, ctypes.string_at(t.data_ptr(), t.nbytes) if t.numel() else b""
