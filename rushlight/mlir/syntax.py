"""What MLIR text says, as records: operations, their values, regions and attributes.

Enters: what the parser found. Leaves: trees of `Operation`s for the verifier and the loader, with questions about
attributes answered in plain Python. Refuses attributes that are missing or of the wrong kind, at the place of the
operation.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from .errors import ParseError, UnsupportedText
from .lexer import Lexer
from .types import TensorType


@dataclasses.dataclass(frozen=True)
class TupleType:
    """Several types as one."""

    items: tuple[Any, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.items))}>"


@dataclasses.dataclass(frozen=True)
class FunctionType:
    """Types of arguments and results."""

    arguments: tuple[Any, ...]
    results: tuple[Any, ...]

    def __str__(self) -> str:
        results = ", ".join(map(str, self.results))
        return f"({', '.join(map(str, self.arguments))}) -> " + (results if len(self.results) == 1 else f"({results})")


@dataclasses.dataclass(frozen=True)
class ScalarType:
    """A type that is no tensor: what attributes have, like i64."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True)
class Number:
    """A number with the type that is written after it, if one is."""

    value: int | float
    type: Any = None


class Array(list[Any]):
    """The elements of `array<i64: 1, 2>`, and the name of their type."""

    element = ""


class Bits(int):
    """A floating-point number as its bits."""


@dataclasses.dataclass(frozen=True)
class Symbol:
    """A name of a function."""

    name: str


@dataclasses.dataclass(frozen=True)
class Keyword:
    """One of a dialect's enumerated values: `#stablehlo<comparison_direction LT>`."""

    kind: str
    value: str


@dataclasses.dataclass(frozen=True)
class Struct:
    """A dialect's record: `#stablehlo.gather<offset_dims = [1]>`."""

    name: str
    fields: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Opaque:
    """An attribute that nobody here reads, as it is written."""

    text: str


@dataclasses.dataclass(frozen=True)
class Dense:
    """A constant: its type, and its elements as numbers, as bytes or under the name of a resource."""

    type: TensorType
    elements: list[Any] | bytes | str
    splat: bool = False


@dataclasses.dataclass(eq=False)
class Value:
    """What an operation or a block defines."""

    name: str
    type: Any


@dataclasses.dataclass(eq=False)
class Block:
    arguments: list[Value]
    operations: list[Operation]


@dataclasses.dataclass(eq=False)
class Operation:
    """One operation. `blocks` has one block for each region, or None for an empty region."""

    name: str
    operands: list[Value]
    results: list[Value]
    attributes: dict[str, Any]
    blocks: list[Block]
    lexer: Lexer
    at: int
    location: Any = None

    # --- errors -------------------------------------------------------------------------------------------------------

    def error(self, message: str) -> ParseError:
        return self.lexer.error(f"{self.name}: {message}", self.at)

    def refusal(self, message: str) -> UnsupportedText:
        return self.lexer.refusal(f"{self.name}: {message}", self.at)

    # --- types --------------------------------------------------------------------------------------------------------

    @property
    def types(self) -> list[Any]:
        """The types of the operands."""
        return [v.type for v in self.operands]

    @property
    def type(self) -> Any:
        """The type of the only result."""
        return self.results[0].type

    # --- attributes ---------------------------------------------------------------------------------------------------

    def integer(self, name: str, default: int | None = None, bits: int = 64) -> int:
        found = self._attribute(name, default)
        if isinstance(found, Number) and isinstance(found.value, int):
            if found.type not in (None, ScalarType(f"i{bits}")):
                raise self.error(f"the attribute '{name}' must be of type i{bits}, got {found.type}")
            return found.value
        if type(found) is int:
            return found
        raise self.error(f"the attribute '{name}' must be a whole number")

    def truth(self, name: str, default: bool | None = None) -> bool:
        found = self._attribute(name, default)
        if type(found) is bool:
            return found
        raise self.error(f"the attribute '{name}' must be true or false")

    def text(self, name: str, default: str | None = None) -> str:
        found = self._attribute(name, default)
        if type(found) is str:
            return found
        raise self.error(f"the attribute '{name}' must be a string")

    def symbol(self, name: str) -> str:
        found = self._attribute(name, None)
        if isinstance(found, Symbol):
            return found.name
        raise self.error(f"the attribute '{name}' must be a symbol like @main")

    def keyword(self, name: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        """One of the enumerated values that the op knows."""
        found = self._attribute(name, default)
        value = found.value if isinstance(found, Keyword) else found
        if value not in allowed:
            raise self.error(f"the attribute '{name}' must be one of {', '.join(allowed)}")
        return value

    def struct(self, name: str, kind: str) -> dict[str, Any]:
        found = self._attribute(name, None)
        if isinstance(found, Struct) and found.name == kind:
            return found.fields
        raise self.error(f"the attribute '{name}' must be #stablehlo.{kind}<...>")

    def integers(self, name: str, default: list[int] | None = None) -> list[int]:
        """A list of whole numbers or truth values, however it is written."""
        return [int(v) for v in self._elements(name, default, 1)]

    def pairs(self, name: str, default: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """A matrix of two columns, as paddings are."""
        found = self.attributes.get(name)
        if found is None:
            return default
        if isinstance(found, Dense) and (len(found.type.shape) != 2 or found.type.shape[1] != 2):
            raise self.error(f"the attribute '{name}' must be a matrix of two columns")
        flat = self._elements(name, None, 2)
        return [(int(flat[i]), int(flat[i + 1])) for i in range(0, len(flat), 2)]

    def _elements(self, name: str, default: Any, rank: int) -> list[Any]:
        found = self._attribute(name, default)
        if isinstance(found, Dense):
            if len(found.type.shape) != rank or not found.type.element.startswith("i"):
                raise self.error(f"the attribute '{name}' must be a list of whole numbers")
            found = self._spread(found, name)
        if isinstance(found, Array) and found.element not in ("i64", "i1"):
            raise self.error(f"the attribute '{name}' must have elements of i64, got {found.element}")
        if isinstance(found, list):
            plain = [v.value if isinstance(v, Number) else v for v in found]
            if rank == 1 and all(isinstance(v, int) for v in plain):
                return plain
            if rank == 2 and isinstance(found, list) and all(isinstance(v, int) for v in plain):
                return plain
        raise self.error(f"the attribute '{name}' must be a list of whole numbers")

    def _spread(self, dense: Dense, name: str) -> list[Any]:
        count = 1
        for n in dense.type.shape:
            count *= n or 0
        if isinstance(dense.elements, bytes):
            width = max(1, int(dense.type.element[1:] or 8) // 8)
            data = dense.elements
            found = [int.from_bytes(data[i:i + width], "little", signed=True) for i in range(0, len(data), width)]
        elif isinstance(dense.elements, str):
            raise self.error(f"the attribute '{name}' must not be a resource")
        else:
            found = list(dense.elements)
        if dense.splat:
            if count > 1024:
                raise self.error(f"the attribute '{name}' has {count} elements")
            found = found * count
        return found

    def _attribute(self, name: str, default: Any) -> Any:
        found = self.attributes.get(name)
        if found is None:
            if default is None:
                raise self.error(f"the attribute '{name}' is missing")
            return default
        return found


@dataclasses.dataclass(eq=False)
class Module:
    """All functions of a text, by name, and its resources."""

    functions: dict[str, Operation]
    resources: dict[str, bytes]
    lexer: Lexer
