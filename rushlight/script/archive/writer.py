"""Writing an archive.

Enters: the object of a module (or a function, which gets a module around it), files to go along, inputs of a trace.
Leaves: the records that PyTorch writes, under the same names: `data/`, `data.pkl`, `code/`, `constants.pkl`, the lowest
version that holds the program, the order of bytes. A path gets its new content whole or keeps the old one.
Refuses: calls into Python, values and tensors that no archive can hold, before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...serialization import options
from ...serialization.archive import PyTorchFileWriter, archive_name_of
from ...serialization.sources import FileSink, is_path, replaced, stream_sink
from ...serialization.write import _host_view
from .. import types as t
from ..classes import ClassType, Object
from ..graph_functions import GraphFunction
from ..ir import Block
from ..schemas import Argument, overload_of
from ..text.class_writer import ProgramWriter
from .debug import written_origins
from .pickler import Pickler
from .upgraders import CHANGED_AT

LOWEST = 3
_WORTH_DEFLATING = 200           # bytes from which code is compressed


def module_around(function: Any) -> Object:
    """A module whose `forward` is a function, as functions are kept in archives."""
    made = ClassType("__torch__.PlaceholderModule", is_module=True, unit=function.unit)
    made.add_slot("training", t.BoolType())
    graph = function.graph.copy()
    first = graph.block.params.insert_output(0)
    first.type_ = made
    first.set_debug_name("self")
    schema = function.schema._replace(name="forward", arguments=(Argument("self", made), *function.schema.arguments),
                                      text="")
    made.methods["forward"] = GraphFunction(function.unit, f"{made.name_}.forward", graph, made, schema)
    return Object(made, [True])


class _Archive:
    """All records, made before the first is written."""

    def __init__(self, root: Object, extra: Mapping[str, Any], inputs: Any) -> None:
        self.records: list[tuple[str, Any, bool]] = []       # name, bytes, whether to deflate
        for name, held in extra.items():
            data = held.encode() if isinstance(held, str) else bytes(held)
            self.records.append((f"extra/{name}", data, len(data) > _WORTH_DEFLATING))
        constants: list[Any] = []
        self.program = ProgramWriter(constants)
        pickler = self._pickle("data", root, root.type, self.program)
        self.program.add(root.type, pickler.classes)
        for file in self.program.files():
            text, places = file.text.encode(), written_origins(file.ranges)
            self.records.append((file.path, text, len(text) > _WORTH_DEFLATING))
            self.records.append((f"{file.path}.debug_pkl", places, len(places) > _WORTH_DEFLATING))
        self._pickle("constants", tuple(constants), None, self.program)
        if inputs is not None:
            self._pickle("traced_inputs", inputs, None, None)
        self.version = version_of(self.program.functions)

    def _pickle(self, name: str, value: Any, type: t.Type | None, program: ProgramWriter | None) -> Pickler:
        pickler = Pickler(program.name_of, program.kind_of) if program is not None else Pickler()
        data = pickler.dumped(value, type)
        for number, storage in enumerate(pickler.storages):
            self.records.append((f"{name}/{number}", storage, False))
        self.records.append((f"{name}.pkl", data, False))
        return pickler

    def write(self, sink: Any, name: str) -> None:
        writer = PyTorchFileWriter(sink, name, options.save.storage_alignment, options.save.compute_crc32,
                                   says_order=True)
        for record, held, compress in self.records:
            data = held if isinstance(held, bytes) else _host_view(held)
            writer.write_record(record, data, compress=compress)
        writer.write_end_of_file(self.version)


def write_archive(held: Any, f: Any, extra: Mapping[str, Any] | None = None, inputs: Any = None) -> None:
    """Write the archive of a module's object or of a function to a path or a file object."""
    root = held if isinstance(held, Object) else module_around(held)
    archive = _Archive(root, extra or {}, inputs)
    if is_path(f):
        path = os.fspath(f)
        with replaced(path, options.save.fsync) as fd:
            sink = FileSink(fd)
            archive.write(sink, archive_name_of(path))
            sink.finish()
    else:
        archive.write(stream_sink(f), "archive")


def version_of(functions: list[Any]) -> int:
    """The lowest version under which all ops of some functions mean what they mean here."""
    return max([LOWEST, *(_version_in(function.graph.block) for function in functions)])


def _version_in(block: Block) -> int:
    found = LOWEST
    for node in block.all_nodes():
        if node.kind_ in CHANGED_AT:
            schema = overload_of(node.kind_, [value.type_ for value in node.inputs_])
            found = max(found, CHANGED_AT[node.kind_].get(schema.overload if schema else "", LOWEST))
        own = node.attributes.get("Subgraph") if node.kind_ == "prim::fork" else None
        if own is not None:
            found = max(found, _version_in(own.block))
    return found
