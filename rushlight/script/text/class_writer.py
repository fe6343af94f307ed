"""Classes and functions as the files of an archive hold them.

Enters: classes, interfaces, enums, named tuples, functions. Leaves: for each part of the names before the last
(`__torch__.torch.nn.modules.linear`) one text, with where its lines come from. What a text names is written too, in the
order in which it is met. Refuses: calls into Python, which no file can hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .. import types as t
from ..classes import ClassType, InterfaceType
from ..constants import type_of
from ..source import Range
from .code_writer import CodeWriter, is_named, is_word
from .values import quoted


class Written(NamedTuple):
    """One file."""

    path: str
    text: str
    ranges: list[tuple[int, Range | None]]       # where, in bytes, lines begin and what they come from


class ProgramWriter:
    """All files of a program. `constants` is the table that its code refers to."""

    def __init__(self, constants: list[Any]) -> None:
        self.constants = constants
        self._waiting: dict[Any, None] = {}
        self._written: set[Any] = set()
        self._names: dict[Any, str] = {}
        self._taken: set[str] = set()
        self._mangled = 0
        self._files: dict[str, CodeWriter] = {}
        self.functions: list[Any] = []           # all that were written

    def add(self, root: Any, first: Iterable[Any] = ()) -> None:
        """Write a class or function and all that it needs; before it, the classes of the objects that are kept."""
        for held in first:
            self._write(held)
        waiting = self._waiting
        waiting.setdefault(root)
        at = 0
        while at < len(waiting):                 # what is written may need more
            for held in list(waiting)[at:]:
                self._write(held)
                at += 1

    def name_of(self, held: Any) -> str:
        """The name that a class or function is written by: its own, or, where another has that, one like it."""
        if held not in self._names:
            own = name = _own_name(held)
            while name in self._taken:
                head, _, last = own.rpartition(".")
                name = f"{head}.___torch_mangle_{self._mangled}.{last}"
                self._mangled += 1
            self._taken.add(name)
            self._names[held] = name
        return self._names[held]

    def kind_of(self, type: t.Type) -> str:
        """A type as the files name it."""
        return CodeWriter([], None, self.name_of).kind(type)

    def files(self) -> Iterator[Written]:
        for prefix, writer in self._files.items():
            at, ranges = 0, []
            for line, place in zip(writer.lines, writer.ranges, strict=True):
                ranges.append((at, place))
                at += len(line.encode()) + 1
            yield Written(f"code/{prefix.replace('.', '/')}.py", "\n".join(writer.lines) + "\n", ranges)

    def _write(self, held: Any) -> None:
        if held in self._written:
            return
        self._written.add(held)
        prefix, _, name = self.name_of(held).rpartition(".")
        if prefix not in self._files:
            self._files[prefix] = CodeWriter(self.constants, lambda need: self._waiting.setdefault(need), self.name_of)
        writer = self._files[prefix]
        writer.range = None
        if isinstance(held, ClassType):
            self._class(writer, name, held)
        elif isinstance(held, InterfaceType):
            _interface(writer, name, held)
        elif isinstance(held, t.EnumType):
            _enum(writer, name, held)
        elif isinstance(held, t.TupleType):
            _named_tuple(writer, name, held)
        else:
            self._function(writer, name, held)

    def _function(self, writer: CodeWriter, name: str, function: Any) -> None:
        self.functions.append(function)
        writer.function(name, function.graph, function.schema)

    def _class(self, writer: CodeWriter, name: str, held: ClassType) -> None:
        writer.line(f"class {name}{'(Module)' if held.is_module() else ''}:")
        writer.depth += 1
        if held.is_module():
            lists = {"__parameters__": [s.name for s in held.slots if s.is_parameter],
                     "__buffers__": [s.name for s in held.slots if s.is_buffer]}
            hooks = {"__forward_pre_hooks__": [hook.name for hook in held.pre_hooks],
                     "__forward_hooks__": [hook.name for hook in held.hooks]}
            for key, names in (*lists.items(), *((k, v) for k, v in hooks.items() if v)):
                writer.line(f"{key} = [{''.join(f'{quoted(one)}, ' for one in names)}]")
        for at, slot in enumerate(held.slots):
            _attribute(writer, slot.name, writer.kind(slot.type), at == 0)
        for key, value in held.constants.items():
            kind = type_of(value)
            shown = writer.kind(t.plain(kind)) if kind is not None else "Any"
            writer.line(f"{key} : Final[{shown}] = {writer.literal(value, kind)}")
        for function in _methods(held):
            self._function(writer, function.name, function)
        writer.depth -= 1


def _methods(held: ClassType) -> list[Any]:
    """Methods, then the hooks that are none, each once."""
    found = dict(held.methods)
    for hook in (*held.hooks, *held.pre_hooks):
        found.setdefault(hook.name, hook)
    return list(found.values())


def _own_name(held: Any) -> str:
    if isinstance(held, t.Type):
        return held.annotation_str
    return held.qualified_name


def _attribute(writer: CodeWriter, name: str, kind: str, is_first: bool) -> None:
    if is_word(name):
        writer.line(f"{name} : {kind}")
        return
    if is_first:
        writer.line("__annotations__ = []")
    writer.line(f"__annotations__[{quoted(name)}] = {kind}")


def _interface(writer: CodeWriter, name: str, held: InterfaceType) -> None:
    writer.line(f"class {name}({'ModuleInterface' if held.is_module() else 'Interface'}):")
    writer.depth += 1
    for method, schema in held.methods.items():
        rest = "".join(f", {a.name}: {writer.kind(a.type)}" for a in schema.arguments if a.name != "self")
        writer.line(f"def {method}(self{rest}) -> {writer.kind(schema.return_type())}:")
        writer.line("  pass")
    writer.depth -= 1


def _enum(writer: CodeWriter, name: str, held: t.EnumType) -> None:
    writer.line(f"class {name}(Enum):")
    writer.depth += 1
    for key, value in held.values:
        writer.line(f"{key} = {writer.literal(value)}")
    writer.depth -= 1


def _named_tuple(writer: CodeWriter, name: str, held: t.TupleType) -> None:
    writer.line(f"class {name}(NamedTuple):")
    writer.depth += 1
    for field, part in zip(held.fields, held.elements_, strict=True):
        writer.line(f"{field} : {writer.kind(part)}")
    writer.depth -= 1


__all__ = ["ProgramWriter", "Written", "is_named"]
