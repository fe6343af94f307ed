"""The writer of MLIR, the same for all dialects: operations as objects, and a module of them as text.

Enters: values, operations, blocks and functions. Leaves: text that any MLIR tool of the dialect reads: operations in
generic form, or in the form that `pretty` has for their name. Refuses nothing: whoever builds operations answers for
what they say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import types

ALIGNMENT = 64      # of resources


class Value:
    """What an operation gives, or a block is given. `dtype` and `shape` are what the program knows of it."""

    __slots__ = ("dtype", "shape", "type")

    def __init__(self, kind: Any, dtype: Any = None, shape: Sequence[Any] = ()) -> None:
        self.type, self.dtype, self.shape = kind, dtype, tuple(shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<value of {self.type}>"


@dataclasses.dataclass
class Operation:
    """One operation. Attributes are text (`types`)."""

    name: str
    operands: list[Value]
    results: list[Value]
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    regions: Sequence[Block] = ()
    location: tuple[str, int] | None = None


@dataclasses.dataclass
class Block:
    """Arguments and operations; the last one hands results out."""

    arguments: list[Value]
    operations: list[Operation] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Function:
    """A function of a module. `notes`: attributes of arguments, by their number."""

    name: str
    block: Block
    results: list[Any]
    notes: Mapping[int, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    result_notes: Mapping[int, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    names: Sequence[str] = ()      # of arguments, where they have any


Names = Callable[[Value], str]
Pretty = Mapping[str, Callable[[Operation, Names], str | None]]


@dataclasses.dataclass
class Module:
    """Functions, and the bytes of constants that stand behind them."""

    functions: list[Function]
    resources: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    pretty: Pretty = dataclasses.field(default_factory=dict)
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    name: str = ""

    def text(self, locations: bool = True) -> str:
        """The module as MLIR text."""
        return _Writer(self, locations).module()


class _Writer:
    """One module on its way to text."""

    def __init__(self, module: Module, locations: bool) -> None:
        self.of, self.shows = module, locations
        self.names: dict[Value, str] = {}
        self.count = 0
        self.places: dict[tuple[str, int], str] = {}

    def module(self) -> str:
        head = f"module @{self.of.name}" if self.of.name else "module"
        if self.of.attributes:
            head += f" attributes {braces(self.of.attributes)}"
        lines = [f"{head} {{"]
        for function in self.of.functions:
            lines += self.function(function)
        lines.append("}")
        for (file, line), alias in self.places.items():
            lines.append(f"{alias} = loc({types.string(file)}:{line}:0)")
        if self.of.resources:
            lines += self.resources()
        return "\n".join(lines) + "\n"

    def resources(self) -> Iterator[str]:
        yield "{-#"
        yield "  dialect_resources: {"
        yield "    builtin: {"
        blobs = [f"      {name}: {types.blob(data, ALIGNMENT)}" for name, data in self.of.resources.items()]
        yield ",\n".join(blobs)
        yield "    }"
        yield "  }"
        yield "#-}"

    def function(self, f: Function) -> Iterator[str]:
        self.names, self.count = {}, 0
        arguments = []
        for i, argument in enumerate(f.block.arguments):
            self.names[argument] = f"%{f.names[i]}" if f.names else f"%arg{i}"
            notes = f" {braces(f.notes[i])}" if f.notes.get(i) else ""
            arguments.append(f"{self.names[argument]}: {argument.type}{notes}")
        results = [str(t) + (f" {braces(f.result_notes[i])}" if f.result_notes.get(i) else "")
                   for i, t in enumerate(f.results)]
        head = f"  func.func @{f.name}({', '.join(arguments)})"
        if results:
            head += " -> " + (results[0] if len(results) == 1 and not f.result_notes else f"({', '.join(results)})")
        if f.attributes:
            head += f" attributes {braces(f.attributes)}"
        yield f"{head} {{"
        yield from self.body(f.block, "    ")
        yield "  }"

    def body(self, block: Block, indent: str) -> Iterator[str]:
        for operation in block.operations:
            yield from self.operation(operation, indent)

    def operation(self, o: Operation, indent: str) -> Iterator[str]:
        end = self.place(o.location)
        head = indent + self.defined(o)
        shown = self.of.pretty.get(o.name)
        text = shown(o, self.name_of) if shown is not None and not o.regions else None
        if text is not None:
            yield f"{head}{text}{end}"
            return
        operands = ", ".join(self.name_of(v) for v in o.operands)
        attributes = f" {braces(o.attributes)}" if o.attributes else ""
        kinds = f" : {signature(o)}"
        if not o.regions:
            yield f'{head}"{o.name}"({operands}){attributes}{kinds}{end}'
            return
        yield f'{head}"{o.name}"({operands}) ({{'
        for i, region in enumerate(o.regions):
            if i:
                yield f"{indent}}}, {{"
            if region.arguments:
                for v in region.arguments:
                    self.names[v] = self.fresh()
                listed = ", ".join(f"{self.names[v]}: {v.type}" for v in region.arguments)
                yield f"{indent}^bb0({listed}):"
            yield from self.body(region, indent + "  ")
        yield f"{indent}}}){attributes}{kinds}{end}"

    def defined(self, o: Operation) -> str:
        """The names of its results, and `=`."""
        if not o.results:
            return ""
        name = self.fresh()
        if len(o.results) == 1:
            self.names[o.results[0]] = name
            return f"{name} = "
        for i, v in enumerate(o.results):
            self.names[v] = f"{name}#{i}"
        return f"{name}:{len(o.results)} = "

    def fresh(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def name_of(self, v: Value) -> str:
        return self.names[v]

    def place(self, location: tuple[str, int] | None) -> str:
        if location is None or not self.shows:
            return ""
        alias = self.places.setdefault(location, f"#loc{len(self.places) + 1}")
        return f" loc({alias})"


def signature(o: Operation) -> str:
    """Types of operands and results."""
    given = ", ".join(str(v.type) for v in o.operands)
    made = [str(v.type) for v in o.results]
    return f"({given}) -> {made[0] if len(made) == 1 else '(' + ', '.join(made) + ')'}"


def braces(attributes: Mapping[str, str]) -> str:
    """Attributes by their names; those without a value are there, which says all."""
    return "{" + ", ".join(f"{k} = {v}" if v else k for k, v in attributes.items()) + "}"


# --- forms that several dialects have ---------------------------------------------------------------------------------


def returned(o: Operation, name: Names) -> str:
    """`return %0 : type`."""
    if not o.operands:
        return "return"
    return f"return {', '.join(map(name, o.operands))} : {', '.join(str(v.type) for v in o.operands)}"


def elementwise(o: Operation, name: Names) -> str | None:
    """`op %0, %1 : type`, where all have one type."""
    kind = str(o.results[0].type)
    if o.attributes or any(str(v.type) != kind for v in o.operands):
        return None
    return f"{o.name} {', '.join(map(name, o.operands))} : {kind}"
