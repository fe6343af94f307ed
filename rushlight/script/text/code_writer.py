"""Graphs as code: the Python-like text that `.code` shows and archives hold.

Enters: a function's graph and signature. Leaves: text that the compiler reads back as the same graph. An expression is
written where it is used if it is used once, right there and without a name of its own; long ones get a line.
Tensors and other things without a literal become `CONSTANTS.c0` and are collected.
"""

from __future__ import annotations

import enum
import keyword
import math
import re
from collections.abc import Callable
from typing import Any

from ... import _C
from .. import types as t
from ..classes import ClassType, InterfaceType, Object
from ..constants import constant_of
from ..ir import Block, Graph, Node, Value
from ..schemas import Schema, overload_of
from ..source import Range
from .values import quoted, shown_complex, shown_float

LONG = 40                # characters of an expression that stays inside another
LINE = 100
_NOT = object()
_TAKEN = frozenset((*keyword.kwlist, "torch", "ops", "inf", "nan", "infj", "nanj", "range", "self", "int", "float",
                    "bool", "CONSTANTS", "annotate", "print", "List", "Dict", "Tuple", "Optional", "Tensor",
                    "uninitialized",
                    "unchecked_cast", "fork", "_", "rpc_async", "Union", "Any", "device", "data"))
_CASTS = {"aten::Int": "int", "aten::Float": "float", "aten::Bool": "bool",
          "aten::ScalarImplicit": "annotate(number, {})", "aten::FloatImplicit": "annotate(float, {})",
          "aten::IntImplicit": "annotate(int, {})", "aten::ComplexImplicit": "annotate(complex, {})",
          "aten::sorted": "sorted", "aten::str": "str"}


class _Inlining:
    """Which nodes are written where their result is used."""

    def __init__(self) -> None:
        self.chosen: set[Node] = set()

    def scan(self, block: Block) -> None:
        self._node(block.return_node)
        for node in list(block.reversed_nodes()):
            self._node(node)

    def _node(self, node: Node) -> Node | None:
        if node in self.chosen:
            return node
        for block in node.blocks_:
            self.scan(block)
        point = _previous(node)
        for value in reversed(node.inputs_):
            point = self._value(point, value)
        return point

    def _value(self, point: Node | None, value: Value) -> Node | None:
        node = value.node_
        if node.kind_ != "prim::Constant" and node is point and can_inline(value):
            point = self._node(node)
            self.chosen.add(node)
        return point


def _previous(node: Node) -> Node | None:
    before = node.prev_
    while before is not None and before.kind_ == "prim::Constant":
        before = before.prev_
    return before


def is_word(name: str) -> bool:
    """Whether a name can be written behind a dot."""
    return name.isidentifier() and not keyword.iskeyword(name)


def can_inline(value: Value) -> bool:
    """Whether a value may be written in the place of its one use."""
    node = value.node_
    if len(node.outputs_) != 1 or len(value.uses_) != 1 or node.blocks_:
        return False
    user, offset = value.uses_[0]
    if value.has_name() and user.kind_ != "prim::Return":
        return False
    if user.kind_ == "prim::Loop" and offset >= 2:
        return False
    if node.kind_ in ("prim::isinstance", "prim::Param"):
        return False
    return user.kind_ not in ("prim::Enter", "prim::Exit") and node.kind_ not in ("prim::Enter", "prim::Exit",
                                                                                  "prim::CreateObject")


class _Named(t.Type):
    """A type under the name that it is written by."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def annotation_str(self) -> str:
        return self.text

    def _key(self) -> tuple[Any, ...]:
        return (self.text,)


def is_named(type: t.Type) -> bool:
    """Whether a type has code of its own: classes, interfaces, enums, named tuples."""
    if isinstance(type, t.TupleType):
        return bool(type.name) and type.name != "NamedTuple"
    return isinstance(type, (ClassType, InterfaceType, t.EnumType))


def _can_infer(element: t.Type) -> bool:
    """Whether the type of a container follows from what it is made of."""
    return not isinstance(element, (t.UnionType, t.NumberType, t.AnyType, InterfaceType))


class CodeWriter:
    """Writes functions, one after another. `needs` hears of every class and function that the text names, `renamed`
    may give them other names."""

    def __init__(self, constants: list[Any] | None = None, needs: Callable[[Any], None] | None = None,
                 renamed: Callable[[Any], str] | None = None) -> None:
        self.constants: list[Any] = [] if constants is None else constants
        self.needs, self.renamed = needs, renamed
        self.lines: list[str] = []
        self.ranges: list[Range | None] = []     # of each line
        self.range: Range | None = None
        self.numbers: dict[str, int] = {}        # the next number behind a name; functions of a file share them
        self.texts: dict[Value, str] = {}
        self.pending: dict[Value, str] = {}      # expressions that wait for the place of their use
        self.names: set[str] = set()
        self.inlined: set[Node] = set()
        self.depth = 0

    # --- names
    def fresh(self, candidate: str) -> str:
        name = re.sub(r"[^A-Za-z0-9_]", "_", candidate)
        if name[:1].isdigit():
            name = "_" + name
        found = name
        while found in self.names or found in _TAKEN:
            number = self.numbers.get(name, 0)
            self.numbers[name] = number + 1
            found = f"{name}{number}"
        self.names.add(found)
        return found

    def name_for(self, value: Value) -> str:
        if not value.has_name():
            return self.fresh("_")
        base, dot, last = value.name.rpartition(".")
        return self.fresh(base if dot and last.isdigit() and base else value.name)

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)
        self.ranges.append(self.range)

    # --- types
    def kind(self, type: t.Type) -> str:
        """A type as the text names it."""
        self.need(type)
        if self.renamed is None:
            return type.annotation_str
        return t.map_types(type, self._renamed).annotation_str

    def _renamed(self, type: t.Type) -> t.Type:
        return _Named(self.renamed(type)) if is_named(type) else type  # type: ignore[misc]

    def need(self, type: t.Type) -> None:
        """Say that a type, and all in it, must be written too."""
        if self.needs is not None:
            if is_named(type):
                self.needs(type)
            for part in type.contained():
                self.need(part)

    def function_name(self, function: Any) -> str:
        if self.needs is not None:
            self.needs(function)
        return function.qualified_name if self.renamed is None else self.renamed(function)

    # --- functions
    def function(self, name: str, graph: Graph, schema: Schema, *, bare_self: bool = False) -> str:
        """`def name(...) -> ...:` and its body; `bare_self` leaves out the type of a method's object."""
        chooser = _Inlining()
        chooser.scan(graph.block)
        self.inlined, self.names, self.range = chooser.chosen, set(), None
        parts: list[str] = []
        for value, argument in zip(graph.inputs(), schema.arguments, strict=True):
            is_self = not parts and argument.name == "self" and isinstance(argument.type, ClassType)
            self.texts[value] = "self" if is_self else (
                self.name_for(value) if value.has_name() else self.fresh(argument.name))
            default = f"={self.literal(argument.default)}" if argument.has_default else ""
            is_bare = bare_self and not parts
            parts.append(self.texts[value] if is_bare else
                         f"{self.texts[value]}: {self.kind(argument.type)}{default}")
        head = ",\n    ".join(parts)
        self.line(f"def {name}({head}) -> {self.kind(schema.returns[0].type)}:")
        self.body(graph)
        return "\n".join(self.lines) + "\n"

    def body(self, graph: Graph) -> None:
        self.depth += 1
        self.long_constants(graph.block, set())
        self.block(graph.block)
        self.result(graph)
        self.depth -= 1

    def long_constants(self, block: Block, seen: set[Value]) -> None:
        """Constants too long to stand inside an expression get lines at the head of the function."""
        for node in (*block.nodes(), block.return_node):
            for value in node.inputs_:
                if value.node_.kind_ == "prim::Constant" and value not in seen:
                    seen.add(value)
                    text = self.constant(value)
                    if self.is_long(text):
                        self.range = value.node_.range
                        self.assign([value], text)
            for inner in node.blocks_:
                self.long_constants(inner, seen)

    def is_long(self, text: str) -> bool:
        return len(text) + 2 * self.depth >= LONG

    def result(self, graph: Graph) -> None:
        values = graph.outputs()
        self.split(values)
        self.line(f"return {', '.join(map(self.use, values))}")

    def block(self, block: Block) -> None:
        for node in block.nodes():
            if node in self.inlined:
                self.split(node.inputs_)
                self.pending[node.outputs_[0]] = self.expression(node)
            elif node.kind_ != "prim::Constant":
                self.range = node.range
                self.node(node)

    # --- nodes
    def node(self, node: Node) -> None:
        emit: Callable[[Node], None] | None = {
            "prim::If": self._if, "prim::Loop": self._loop, "prim::ListUnpack": self._unpack,
            "prim::TupleUnpack": self._unpack, "prim::Uninitialized": self._blank, "prim::unchecked_cast": self._cast,
            "prim::RaiseException": self._raise, "prim::Print": self._print, "prim::isinstance": self._isinstance,
            "prim::SetAttr": self._set_attribute, "prim::fork": self._fork, "prim::Enter": self._enter,
            "prim::Exit": self._exit,
        }.get(node.kind_)
        if emit is not None:
            emit(node)
            return
        self.split(node.inputs_)
        text = self.expression(node)
        self.assign(node.outputs_, text)

    def assign(self, outputs: list[Value], text: str) -> None:
        if not outputs:
            self.line(text)
            return
        for output in outputs:
            self.texts[output] = self.name_for(output)
        self.line(f"{', '.join(self.texts[output] for output in outputs)} = {text}")

    def split(self, values: list[Value]) -> None:
        """Give long expressions among some values lines of their own, and all that wait before them: they run first."""
        long = [value for value in values if value in self.pending and self.is_long(self.pending[value])]
        if not long:
            return
        order = list(self.pending)
        for value in order[: max(map(order.index, long)) + 1]:
            text = self.pending.pop(value)
            self.texts[value] = self.name_for(value)
            self.line(f"{self.texts[value]} = {text}")

    def use(self, value: Value) -> str:
        """A value where it is read."""
        if value in self.texts:
            return self.texts[value]
        if value.node_.kind_ == "prim::Constant":
            return self.constant(value)
        text = self.texts[value] = self.pending.pop(value)
        return text

    # --- control flow
    def _if(self, node: Node) -> None:
        self.split([node.inputs_[0]])
        condition = self.use(node.inputs_[0])
        names = [self.name_for(output) for output in node.outputs_]
        for output, name in zip(node.outputs_, names, strict=True):
            self.texts[output] = name
        only = node.outputs_[0].type_ if len(names) == 1 else None
        kind = f" : {self.kind(only)}" if isinstance(only, t.UnionType) else ""
        for word, block, is_first in ((f"if {condition}:", node.blocks_[0], True), ("else:", node.blocks_[1], False)):
            self.line(word)
            self.depth += 1
            start = len(self.lines)
            self.block(block)
            self.split(block.return_node.inputs_)
            self.targets(names, block.return_node.inputs_, kind if is_first else "")
            if len(self.lines) == start:
                self.line("pass")
            self.depth -= 1

    def targets(self, names: list[str], values: list[Value], kind: str = "") -> None:
        """`a, b = x, y`; a single one may say its type."""
        if names:
            self.line(f"{', '.join(names)}{kind} = {', '.join(map(self.use, values))}")

    def _loop(self, node: Node) -> None:
        body = node.blocks_[0]
        is_for = constant_of(body.return_node.inputs_[0], None) is True and constant_of(node.inputs_[1], None) is True
        self.split(node.inputs_)
        count, begin = self.use(node.inputs_[0]), node.inputs_[2:]
        carried, outputs = body.params.outputs_[1:], node.outputs_
        names = []
        for output, given in zip(outputs, begin, strict=True):
            base = self.name_for(output)
            self.texts[output] = base
            names.append(base)
            kind = f": {self.kind(output.type_)}" if isinstance(output.type_, t.UnionType) else ""
            self.line(f"{base}{kind} = {self.use(given)}")
        for parameter, name in zip(carried, names, strict=True):
            self.texts[parameter] = name
        if is_for:
            index = self.name_for(body.params.outputs_[0])
            self.texts[body.params.outputs_[0]] = index
            self.line(f"for {index} in range({count}):")
        else:
            flag = self.fresh("_")
            self.line(f"{flag} = {self.use(node.inputs_[1])}")
            self.line(f"while {flag}:")
            names = [flag, *names]
        self.depth += 1
        start = len(self.lines)
        self.block(body)
        results = body.return_node.inputs_[1 if is_for else 0 :]
        self.split(results)
        if results:
            self.targets(names, results)
        if len(self.lines) == start:
            self.line("pass")
        self.depth -= 1

    # --- the language's own
    def _unpack(self, node: Node) -> None:
        self.split(node.inputs_)
        text = self.use(node.inputs_[0])
        for output in node.outputs_:
            self.texts[output] = self.name_for(output)
        self.line(f"{', '.join(self.texts[output] for output in node.outputs_)}, = {text}")

    def _blank(self, node: Node) -> None:
        self.assign(node.outputs_, f"uninitialized({self.kind(node.outputs_[0].type_)})")

    def _cast(self, node: Node) -> None:
        made = self.kind(node.outputs_[0].type_)
        self.assign(node.outputs_, f"unchecked_cast({made}, {self.use(node.inputs_[0])})")

    def _isinstance(self, node: Node) -> None:
        types = [self.kind(kind) for kind in node.attributes["types"]]
        inner = types[0] if len(types) == 1 else f"({', '.join(types)})"
        self.assign(node.outputs_, f"isinstance({self.use(node.inputs_[0])}, {inner})")

    def _raise(self, node: Node) -> None:
        given = node.inputs_ if constant_of(node.inputs_[1], _NOT) is not None else node.inputs_[:1]
        self.split(given)
        self.line(f"ops.prim.RaiseException({', '.join(map(self.use, given))})")

    def _enter(self, node: Node) -> None:
        self.split(node.inputs_)
        made = node.outputs_[0]
        name = f" as {self.name_for(made)}" if made.uses_ else ""
        if name:
            self.texts[made] = name[4:]
        self.line(f"with {self.use(node.inputs_[0])}{name}:")
        self.depth += 1

    def _exit(self, node: Node) -> None:
        self.depth -= 1

    def _set_attribute(self, node: Node) -> None:
        self.split(node.inputs_)
        held, value = map(self.use, node.inputs_)
        self.line(f"{held}.{node.attributes['name']} = {value}")

    def _fork(self, node: Node) -> None:
        """A function without parameters that reads what is around it."""
        self.split(node.inputs_)
        own = node.attributes["Subgraph"]
        name = self.fresh("__forked_function")
        for inside, value in zip(own.inputs(), node.inputs_, strict=True):
            self.texts[inside] = self.use(value)
        self.line(f"def {name}():")
        chooser = _Inlining()
        chooser.scan(own.block)
        before, self.inlined = self.inlined, chooser.chosen
        self.body(own)
        self.inlined = before
        self.assign(node.outputs_, f"fork({name})")

    def _print(self, node: Node) -> None:
        self.split(node.inputs_)
        self.line(f"print({', '.join(map(self.use, node.inputs_))})")

    # --- expressions
    def expression(self, node: Node) -> str:
        given = [self.use(value) for value in node.inputs_]
        kind = node.kind_
        if kind == "prim::TupleConstruct":
            made = node.outputs_[0].type_
            head = self.kind(made) if is_named(made) else ""
            return f"{head}({given[0]},)" if len(given) == 1 else f"{head}({', '.join(given)})"
        if kind == "prim::ListConstruct":
            return self._list(node, given)
        if kind == "prim::DictConstruct":
            pairs = ", ".join(f"{key}: {value}" for key, value in zip(given[::2], given[1::2], strict=True))
            made = node.outputs_[0].type_
            plain = pairs and all(map(_can_infer, made.contained()))
            return f"{{{pairs}}}" if plain else f"annotate({self.kind(made)}, {{{pairs}}})"
        if kind == "prim::TupleIndex":
            return f"({given[0]})[{given[1]}]"
        if kind == "aten::__getitem__" and isinstance(node.inputs_[0].type_, (t.ListType, t.DictType, t.StringType)):
            return f"{given[0]}[{given[1]}]" if given[0].isidentifier() else f"({given[0]})[{given[1]}]"
        if kind == "prim::CallFunction":
            return f"{given[0]}({', '.join(given[1:])}, )" if given[1:] else f"{given[0]}()"
        if kind == "prim::GetAttr":
            name = node.attributes["name"]
            return f"{given[0]}.{name}" if is_word(name) else f"getattr({given[0]}, {quoted(name)})"
        if kind == "prim::PythonOp":
            return f"^{node.attributes['name']}()({', '.join(given)})"
        if kind == "prim::CallMethod":
            rest = f"{', '.join(given[1:])}, " if given[1:] else ""
            return f"({given[0]}).{node.attributes['name']}({rest})"
        if kind == "prim::CreateObject":
            return f"{self.kind(node.outputs_[0].type_)}.__new__({self.kind(node.outputs_[0].type_)})"
        if kind in ("prim::EnumName", "prim::EnumValue"):
            return f"({given[0]}).{kind[10:].lower()}"
        if kind == "prim::tolist":
            return f"annotate({node.outputs_[0].type_.annotation_str}, {given[0]}.tolist())"
        if kind == "prim::unchecked_cast":
            return f"unchecked_cast({self.kind(node.outputs_[0].type_)}, {given[0]})"
        if kind in _CASTS:
            form = _CASTS[kind]
            return form.format(given[0]) if "{}" in form else f"{form}({', '.join(given)})"
        return self._builtin(node, given)

    def _list(self, node: Node, given: list[str]) -> str:
        made = node.outputs_[0].type_
        element = made.element if isinstance(made, t.ListType) else t.TENSOR
        text = f"[{', '.join(given)}]"
        if not given or not _can_infer(element):
            return f"annotate({self.kind(made)}, {text})"
        return text

    def _builtin(self, node: Node, given: list[str]) -> str:
        space, _, name = node.kind_.partition("::")
        schema = overload_of(node.kind_, [value.type_ for value in node.inputs_])
        head = f"torch.{name}" if space == "aten" else f"ops.{space}.{name}"
        if node.kind_ in ("aten::grad", "aten::backward"):
            head = f"torch.autograd.{name}"
        if schema is None or schema.is_vararg:
            return f"{head}({', '.join(given)})"
        needed = self._needed(node, schema)
        parts = [f"{argument.name}={text}" if argument.kwarg_only else text
                 for argument, text in zip(schema.arguments[:needed], given, strict=False)]
        return f"{head}({', '.join(parts)})"

    def _needed(self, node: Node, schema: Schema) -> int:
        """How many values must be written: defaults at the end are left out."""
        count = len(schema.arguments)
        while count and schema.arguments[count - 1].has_default and self._is_default(
                node.inputs_[count - 1], schema.arguments[count - 1].default):
            count -= 1
        return count

    def _is_default(self, value: Value, default: Any) -> bool:
        held = constant_of(value, _NOT)
        return held is default or (type(held) is type(default) and held == default)

    # --- constants
    def constant(self, value: Value) -> str:
        node = value.node_
        if node.pyobj is not None:
            return self.function_name(node.pyobj)
        held = constant_of(value, _NOT)
        if isinstance(value.type_, t.DeviceObjType):
            return f'torch.device("{held}")'
        return self.literal(held, value.type_)

    def place_of(self, held: Any) -> int:
        """The place of a value in the table of constants; equal tensors share one."""
        for at, known in enumerate(self.constants):
            if known is held or (isinstance(held, _C.Tensor) and isinstance(known, _C.Tensor) and _alike(known, held)):
                return at
        self.constants.append(held)
        return len(self.constants) - 1

    def literal(self, held: Any, type: t.Type | None = None) -> str:
        """A Python value as code writes it."""
        if isinstance(held, float):
            text = shown_float(held)
            if math.isnan(held) or math.isinf(held):
                return text
            return text if any(c in text for c in ".en") else text + "."
        if isinstance(held, complex):
            return shown_complex(held)
        if isinstance(held, str) and held.isascii():
            return quoted(held)
        if isinstance(held, enum.Enum) and type is not None:
            return f"{self.kind(type)}.{held.name}"
        if isinstance(held, (_C.Tensor, Object, str)):
            return f"CONSTANTS.c{self.place_of(held)}"
        if isinstance(held, tuple):
            parts = [self.literal(item) for item in held]
            return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
        if isinstance(held, list):
            text = f"[{', '.join(self.literal(item) for item in held)}]"
            return text if held else f"annotate({self.kind(type)}, [])" if type else "[]"
        if isinstance(held, dict):
            return f"{{{', '.join(f'{self.literal(k)}: {self.literal(v)}' for k, v in held.items())}}}"
        return str(held)


def _alike(first: Any, second: Any) -> bool:
    return (first.dtype is second.dtype and first.device == second.device and first.shape == second.shape
            and bool(first.equal(second)))
