"""What C++ writes and reads: archives that TorchScript reads, pickles, and modules of scripts.

Enters: calls from rushlight/cxx/runtime (archive.cpp, script.cpp): names, values, bytes. Leaves: objects of scripts,
the bytes of files. Refuses: names that are taken, names that an archive has not, and what `jit` and `load` refuse.
"""

from __future__ import annotations

import io
from typing import Any

from ..script.archive.writer import write_archive
from ..script.classes import ClassType, Object
from ..script.modules.building import slot_value
from ..script.modules.inference import inferred
from ..script.unit import PYTHON
from ..serialization import load as load_values, save as save_values
from ._classes import CompilationUnit
from ._handles import ModuleHandle
from ._recursive import face_of
from ._serialization import load, save

Source = str | bytes


def make_module(name: str) -> Object:
    """A module with nothing in it."""
    made = ClassType(PYTHON.take_name(name), is_module=True, unit=PYTHON)
    made.is_compiled = True
    return Object(made)


def put(held: Object, name: str, value: Any, kind: str) -> None:
    """Add an attribute, a parameter, a buffer or a module; the class is this object's alone."""
    value = getattr(value, "__script_object__", value)
    type = value.type if isinstance(value, Object) else inferred(value)
    held.type.add_slot(name, type, is_parameter=kind == "parameter", is_buffer=kind == "buffer")
    held.set(name, value if isinstance(value, Object) else slot_value(name, value, type))


def find(held: Object, name: str) -> tuple[Any] | None:
    """An attribute as the only part of a tuple; None where there is none."""
    return (held.get(name),) if held.has(name) else None


def names(held: Object) -> list[str]:
    """What an archive holds."""
    return [slot.name for slot in held.type.slots]


def archive_bytes(held: Object) -> bytes:
    """The file of an archive."""
    file = io.BytesIO()
    write_archive(held, file)
    return file.getvalue()


def write_file(held: Object, path: str) -> None:
    """The same as a file, which gets its new content whole or keeps the old one."""
    write_archive(held, path)


def read_archive(source: Source, device: Any) -> Object:
    """The object in a file (a path or its bytes)."""
    return load_script(source, device, None).__script_object__


def load_script(source: Source, device: Any, extra: dict[str, Any] | None) -> Any:
    """`jit.load`, of a path or of the file's bytes; `extra` is filled with text."""
    made = load(io.BytesIO(source) if isinstance(source, bytes) else source, device, extra)
    for name, found in (extra or {}).items():
        extra[name] = found.decode() if isinstance(found, bytes) else found
    return made


def script_bytes(module: Any, extra: dict[str, Any]) -> bytes:
    """`jit.save` into memory."""
    file = io.BytesIO()
    save(module, file, extra)
    return file.getvalue()


def new_script(name: str) -> Any:
    """A module of scripts with nothing in it, to which C++ adds methods and attributes."""
    made = make_module(name if "." in name else f"__torch__.{name}")
    put(made, "training", True, "attribute")
    return face_of(made)


def compile_text(source: str) -> CompilationUnit:
    """Functions of a text, which sees the names that scripts have and no module's."""
    return CompilationUnit(source)


def define_text(owner: Any, source: str) -> None:
    """Functions added to a unit, or methods to a module of scripts."""
    owner.define(source)


def register(module: Any, name: str, value: Any, kind: str) -> None:
    """register_parameter and its like, of a module of scripts."""
    put(module.__script_object__, name, value, kind)


def members(module: Any, kind: str, recurse: bool) -> list[tuple[str, Any]]:
    """The names and values of parameters, buffers, modules or attributes."""
    if kind == "children":
        return list(module.named_children())
    if kind == "modules":
        return list(module.named_modules())
    if kind == "parameters":
        return list(module.named_parameters(recurse=recurse))
    if kind == "buffers":
        return list(module.named_buffers(recurse=recurse))
    found = []
    for prefix, inner in module.named_modules() if recurse else [("", module)]:
        handle: ModuleHandle = inner._c
        dot = f"{prefix}." if prefix else ""
        found += [(dot + slot.name, getattr(inner, slot.name)) for slot in handle._type().slots]
    return found


def method_names(module: Any) -> list[str]:
    """The compiled methods of a module of scripts."""
    return module._c._method_names()


def pickled(value: Any) -> bytes:
    """The file of a value, as Python's `save` writes it."""
    file = io.BytesIO()
    save_values(value, file)
    return file.getvalue()


def unpickled(content: bytes) -> Any:
    """The value of a file, tensors and plain containers only."""
    return load_values(io.BytesIO(content), weights_only=True)
