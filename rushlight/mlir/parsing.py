"""MLIR text as a `Module`: functions of operations, in generic and in pretty form.

Enters: text. Leaves: records of `syntax`, in which every operand is the value that it names. Refuses, with line and
column, what is no MLIR: values that nothing defines or two things do, types that are not those of the values, functions
that are missing or defined twice, operations that no dialect known here has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .attributes import AttributeParser
from .pretty import DIALECTS, FORMS
from .syntax import Block, FunctionType, Module, Operation, Value

MODULE_SCOPED = ("func.func", "builtin.module")


def parse(text: str) -> Module:
    """The module that a text describes."""
    if not isinstance(text, str):
        raise TypeError(f"mlir.load: expected the text of a module as str, got {type(text).__name__}")
    return Parser(text).module()


class Parser(AttributeParser):
    """Reads operations. Each scope maps names to the values that one operation or argument defines."""

    def __init__(self, source: str) -> None:
        self.scopes: list[dict[str, list[Value]]] = [{}]
        super().__init__(source)

    # --- modules ------------------------------------------------------------------------------------------------------

    def module(self) -> Module:
        """The whole text."""
        found: list[Operation] = []
        resources: dict[str, bytes] = {}
        while self.kind != "end":
            if self.kind == "attribute":
                self.alias(self.attribute_aliases, self.attribute_or_location)
            elif self.kind == "type":
                self.alias(self.type_aliases, self.type)
            elif self.here("{-#"):
                resources.update(self.metadata())
            else:
                found.append(self.operation())
        for name, at in self.location_uses:
            if name not in self.attribute_aliases:
                raise self.error(f"the location #{name} is not defined", at)
        return self.gathered(found, resources)

    def gathered(self, found: list[Operation], resources: dict[str, bytes]) -> Module:
        functions: dict[str, Operation] = {}
        operations = list(found)
        while operations:
            op = operations.pop(0)
            if op.name == "builtin.module":
                operations[:0] = [o for block in op.blocks for o in block.operations]
            elif op.name == "func.func":
                name = op.text("sym_name")
                if name in functions:
                    raise op.error(f"a function @{name} is defined twice")
                functions[name] = op
            elif op.name.startswith(("sdy.", "ml_program.")):
                continue      # meshes and the like: nothing that computes
            else:
                raise op.error("belongs into a function")
        if not functions:
            raise self.error("a module without functions", 0)
        return Module(functions, resources, self)

    def alias(self, table: dict[str, Any], read: Any) -> None:
        at, name = self.at, self.advance()[1:]
        if name in table:
            raise self.error(f"the alias {self.source[at]}{name} is defined twice", at)
        self.expect("=")
        table[name] = read()

    def attribute_or_location(self) -> Any:
        if not self.here("loc"):
            return self.attribute()
        return self.trailing_location()

    def metadata(self) -> dict[str, bytes]:
        """`{-# dialect_resources: {builtin: {name: "0x..."}} #-}`: of each blob the bytes after its alignment."""
        found: dict[str, bytes] = {}
        self.expect("{-#")
        for _ in self.separated("#-}"):
            section = self.expect_kind("name", "the name of a section")
            self.expect(":")
            self.expect("{")
            for _ in self.separated("}"):
                self.key()
                self.expect(":")
                self.expect("{")
                for _ in self.separated("}"):
                    name = self.key()
                    self.expect(":")
                    at, blob = self.at, self.value_of_resource()
                    if section == "dialect_resources" and blob is not None:
                        found[name] = self.blob(blob, at)
        return found

    def key(self) -> str:
        return self.string() if self.kind == "string" else self.expect_kind("name", "a name")

    def value_of_resource(self) -> str | None:
        if self.kind == "string":
            return self.string()
        self.attribute()
        return None

    def blob(self, text: str, at: int) -> bytes:
        try:
            data = bytes.fromhex(text[2:]) if text.startswith("0x") else b""
        except ValueError:
            data = b""
        if len(data) < 4:
            raise self.error("a resource is \"0x...\": its alignment in four bytes, and then its content", at)
        return data[4:]

    # --- scopes -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def scope(self, isolated: bool) -> Iterator[None]:
        kept = self.scopes
        self.scopes = [{}] if isolated else [*kept, {}]
        yield
        self.scopes = kept

    def define(self, name: str, values: list[Value], at: int) -> None:
        if any(name in scope for scope in self.scopes):
            raise self.error(f"the value {name} is defined twice", at)
        self.scopes[-1][name] = values

    def use(self) -> tuple[Value, int]:
        """The value that is named here, and where."""
        at, text = self.at, self.expect_kind("value", "a value like %0")
        name, _, number = text.partition("#")
        for scope in reversed(self.scopes):
            if name in scope:
                values, index = scope[name], int(number[:9] or 0)
                if index >= len(values):
                    raise self.error(f"{name} has {len(values)} results, not {text}", at)
                return values[index], at
        raise self.error(f"the value {name} is not defined", at)

    def uses(self) -> list[tuple[Value, int]]:
        """Values with commas between them; none where none stands."""
        found = []
        if self.kind == "value":
            found.append(self.use())
            while self.take(","):
                found.append(self.use())
        return found

    def typed(self, used: list[tuple[Value, int]], types: tuple[Any, ...] | list[Any], at: int) -> list[Value]:
        """Values, once the types written for them are known."""
        if len(types) != len(used):
            raise self.error(f"{len(used)} operands, but {len(types)} types", at)
        for (value, where), kind in zip(used, types, strict=True):
            if value.type != kind:
                raise self.error(f"the value {value.name} has the type {value.type}, not {kind}", where)
        return [value for value, _ in used]

    # --- operations ---------------------------------------------------------------------------------------------------

    def operation(self) -> Operation:
        """One operation, with the names of its results."""
        names: list[tuple[str, int, int]] = []
        if self.kind == "value":
            while True:
                at, name, count = self.at, self.advance(), 1
                if "#" in name:
                    raise self.error(f"{name} is no name for a result", at)
                if self.take(":"):
                    count = self.integer()
                names.append((name, count, at))
                if not self.take(","):
                    break
            self.expect("=")
        at = self.at
        with self.nested():
            op = self.generic() if self.kind == "string" else self.pretty()
        op.location = self.trailing_location() or op.location
        if names and sum(count for _, count, _ in names) != len(op.results):
            raise self.error(f"{op.name} has {len(op.results)} results", names[0][2])
        begin = 0
        for name, count, where in names:
            values = op.results[begin:begin + count]
            begin += count
            if not values:
                raise self.error(f"{name} names no result", where)
            for value in values:
                value.name = name
            self.define(name, values, where)
        op.at = at
        return op

    def made(self, name: str, operands: list[Value], results: tuple[Any, ...] | list[Any], attributes: dict[str, Any],
             blocks: list[Block], at: int) -> Operation:
        return Operation(name, operands, [Value("", t) for t in results], attributes, blocks, self, at)

    def generic(self) -> Operation:
        """`"name"(operands) <{attributes}> ({regions}) {attributes} : type`."""
        at, name = self.at, self.string()
        if not name.startswith(DIALECTS):
            raise self.error(f"the operation '{name}' is not known", at)
        self.expect("(")
        used = [self.use() for _ in self.separated(")")]
        attributes: dict[str, Any] = {}
        if self.here("<"):
            self.advance()
            attributes = self.dictionary()
            self.expect(">")
        blocks: list[Block] = []
        if self.here("("):
            self.advance()
            blocks = [self.region(name in MODULE_SCOPED) for _ in self.separated(")")]
        if self.here("{"):
            attributes = {**self.dictionary(), **attributes}
        self.expect(":")
        where, kind = self.at, self.type()
        if not isinstance(kind, FunctionType):
            raise self.error(f"expected a type like (tensor<f32>) -> tensor<f32>, got {kind}", where)
        operands = self.typed(used, kind.arguments, where)
        if name == "func.func":
            self.complete_function(attributes, blocks, at)
        return self.made(name, operands, kind.results, attributes, blocks, at)

    def complete_function(self, attributes: dict[str, Any], blocks: list[Block], at: int) -> None:
        """Check what the generic form of a function says twice."""
        kind = attributes.get("function_type")
        if not isinstance(kind, FunctionType):
            raise self.error("func.func: the attribute 'function_type' must be the type of a function", at)
        if blocks and tuple([v.type for v in blocks[0].arguments]) != kind.arguments:
            raise self.error("func.func: the arguments of the body are not those of the function's type", at)

    def pretty(self) -> Operation:
        """An operation in the form of its dialect."""
        at = self.at
        if self.kind != "name":
            self.fail("an operation")
        word = self.text
        name = {"return": "func.return", "call": "func.call", "module": "builtin.module"}.get(word, word)
        if name not in FORMS:
            if name.startswith("chlo."):
                raise self.refusal(f"operations of CHLO are not supported, got '{word}'", at)
            if name.startswith(DIALECTS) and "." in name:
                raise self.error(f"the operation '{word}' has no short form, or is not known", at)
            raise self.error(f"the operation '{word}' is not known", at)
        self.advance()
        return FORMS[name](self, name, at)

    # --- regions ------------------------------------------------------------------------------------------------------

    def region(self, isolated: bool = False) -> Block:
        """`{ ^block(arguments): operations }`."""
        with self.scope(isolated):
            at = self.expect("{")
            arguments: list[Value] = []
            if self.kind == "label":
                self.advance()
                if self.take("("):
                    arguments = self.arguments()
                self.expect(":")
            return self.block(arguments, at)

    def block(self, arguments: list[Value], at: int) -> Block:
        """Operations up to the closing brace."""
        operations: list[Operation] = []
        while not self.here("}"):
            if self.kind == "end":
                self.fail("'}'")
            if self.kind == "label":
                raise self.refusal("regions of several blocks are not supported")
            if self.kind == "attribute" or self.kind == "type":
                raise self.error("aliases are defined outside of all operations")
            operations.append(self.operation())
        self.expect("}")
        return Block(arguments, operations)

    def arguments(self) -> list[Value]:
        """`%a: type, ...)` with locations and attributes, up to the parenthesis."""
        found = []
        for _ in self.separated(")"):
            found.append(self.argument())
        return found

    def argument(self) -> Value:
        at, name = self.at, self.expect_kind("value", "the name of an argument")
        if "#" in name:
            raise self.error(f"{name} is no name for an argument", at)
        self.expect(":")
        value = Value(name, self.type())
        if self.here("{"):
            self.dictionary()
        self.trailing_location()
        self.define(name, [value], at)
        return value


