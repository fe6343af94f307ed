"""Types, attributes and locations of MLIR text.

Enters: text at a place where one of them stands. Leaves: records of `syntax`. Refuses types that tensors here do not
have (quantized ones and those of four bits by name, unranked ones), sizes whose product has no place in memory, and
aliases that nothing defines.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .constants import ElementError, dense, scalar, width
from .lexer import Lexer
from .syntax import Array, Dense, FunctionType, Keyword, Number, Opaque, ScalarType, Struct, Symbol, TupleType
from .types import CODES, TensorType

ALIKE = {"si8": "i8", "si16": "i16", "si32": "i32", "si64": "i64", "index": "i64"}
_REFUSED_ELEMENT = re.compile(r"(?:[us]?i\d+|f\d+\w*|bf16|tf32)\Z")
_DIMENSIONS = re.compile(r"\s*((?:(?:\d{1,40}|\?)\s*x\s*)*)")
_NEGATIVE_FLOAT = re.compile(r"-\s*\d+\.")
_FORMAT = re.compile(r"e(\d+)m(\d+)\Z")
_OPENING, _CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}, (")", "]", "}", ">")
TOKEN = ScalarType("!stablehlo.token")


class AttributeParser(Lexer):
    """Reads types, attributes and locations; aliases are kept by name."""

    def __init__(self, source: str) -> None:
        self.type_aliases: dict[str, Any] = {}
        self.attribute_aliases: dict[str, Any] = {}
        self.location_uses: list[tuple[str, int]] = []
        super().__init__(source)

    # --- types --------------------------------------------------------------------------------------------------------

    def type(self) -> Any:
        """Any type."""
        at = self.at
        if self.kind == "type":
            return self.named_type()
        if self.here("("):
            return self.function_type()
        if self.kind != "name":
            self.fail("a type")
        word = self.text
        if word == "tensor":
            self.advance()
            return self.tensor()
        if word == "tuple":
            self.advance()
            self.expect("<")
            with self.nested():
                return TupleType(tuple([self.type() for _ in self.separated(">")]))
        if word in ("none", "index") or _REFUSED_ELEMENT.match(word):
            self.advance()
            return ScalarType(word)
        if word == "complex":
            return ScalarType(self.element())
        raise self.error(f"'{word}' is no type that is known here", at)

    def named_type(self) -> Any:
        at, name = self.at, self.advance()[1:]
        if name in self.type_aliases:
            return self.type_aliases[name]
        if name in ("stablehlo.token", "mhlo.token"):
            return TOKEN
        if "." in name or self.here("<"):
            raise self.refusal(f"values of type !{name} are not supported", at)
        raise self.error(f"the type alias !{name} is not defined", at)

    def function_type(self) -> FunctionType:
        """`(types) -> types`."""
        self.expect("(")
        with self.nested():
            arguments = tuple([self.type() for _ in self.separated(")")])
            self.expect("->")
            return FunctionType(arguments, self.result_types())

    def result_types(self) -> tuple[Any, ...]:
        """One type, or several in parentheses."""
        if not self.here("("):
            return (self.type(),)
        self.advance()
        return tuple([self.type() for _ in self.separated(")")])

    def tensor(self) -> TensorType:
        """What follows the word `tensor`."""
        at = self.at
        if not self.here("<"):
            self.fail("'<'")
        found = _DIMENSIONS.match(self.source, self.end)
        assert found is not None
        self.jump(found.end())
        if self.here("*"):
            raise self.refusal("tensors without a rank are not supported", at)
        dimensions = [part.strip() for part in found.group(1).split("x")[:-1]]
        shape = tuple([None if d == "?" else int(d) for d in dimensions])
        kind = TensorType(shape, self.element())
        total = width(kind.element)
        for n in shape:
            total *= 1 if n is None or n == 0 else n
        if total >= 1 << 66 or any(n is not None and n >= 1 << 62 for n in shape) or len(shape) > 64:
            raise self.error("a tensor larger than any memory", at)
        if self.take(","):      # bounds of sizes that vary are promises that nothing here relies on
            with self.nested():
                self.attribute()
        self.expect(">")
        return kind

    def element(self) -> str:
        """The type of elements."""
        at = self.at
        if self.kind == "type":
            if self.text.startswith("!quant."):
                raise self.refusal(f"quantized types are not supported, got {self.text}")
            found = self.named_type()
            if not isinstance(found, ScalarType):
                raise self.error(f"tensors have no elements of type {found}", at)
            name = found.name
        elif self.here("complex"):
            self.advance()
            self.expect("<")
            name = f"complex<{self.element()}>"
            self.expect(">")
        else:
            name = self.expect_kind("name", "the type of elements")
        name = ALIKE.get(name, name)
        if name in CODES:
            return name
        if _REFUSED_ELEMENT.match(name):
            raise self.refusal(f"tensors of {name} are not supported", at)
        raise self.error(f"'{name}' is no type of elements", at)

    # --- attributes ---------------------------------------------------------------------------------------------------

    def attribute(self) -> Any:
        """Any attribute."""
        with self.nested():
            if self.kind == "string":
                text = self.string()
                if self.take(":"):
                    self.type()
                return text
            if self.kind == "symbol":
                name = self.symbol()
                while self.take("::"):
                    name = self.symbol()
                return Symbol(name)
            if self.kind == "attribute":
                return self.named_attribute()
            if self.kind in ("int", "hex", "float") or self.here("-"):
                return self.number()
            if self.take("["):
                return [self.attribute() for _ in self.separated("]")]
            if self.here("{"):
                return self.dictionary()
            return self.worded_attribute()

    def worded_attribute(self) -> Any:
        word = self.text
        if self.kind == "name" and word in self.WORDED:
            self.advance()
            return self.WORDED[word](self)
        if self.kind == "name" and word in ("affine_map", "affine_set", "sparse", "strided", "distinct"):
            at = self.at
            self.advance()
            return Opaque(self.balanced(at))
        if self.kind in ("name", "type") or self.here("("):
            return self.type()
        self.fail("an attribute")

    def number(self) -> Number:
        """A number, and its type if one follows."""
        if self.kind == "float" or _NEGATIVE_FLOAT.match(self.source, self.at):
            negative = self.take("-")
            value: int | float = float(self.expect_kind("float", "a number"))
            value = -value if negative else value
        else:
            value = self.integer()
        at = self.at
        kind = self.type() if self.take(":") else None
        if isinstance(kind, ScalarType) and kind.name.startswith(("f", "bf")) and isinstance(value, int) and (
                "0x" not in self.source[at - 40:at]):
            raise self.error(f"a number of type {kind} is written with a point", at)
        return Number(value, kind)

    def dictionary(self) -> dict[str, Any]:
        """`{name = attribute, ...}`."""
        self.expect("{")
        return self.entries("}")

    def entries(self, closing: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in self.separated(closing):
            at = self.at
            name = self.string() if self.kind == "string" else self.expect_kind("name", "the name of an attribute")
            if name in found:
                raise self.error(f"the attribute '{name}' is given twice", at)
            found[name] = self.attribute() if self.take("=") else True
        return found

    def dense(self) -> Dense:
        """What follows the word `dense`."""
        at = self.at
        if not self.here("<"):
            self.fail("'<'")
        begin = self.end
        closing = self.source.find(">", begin)
        if closing < 0:
            raise self.error("a constant that does not end", at)
        self.jump(closing)
        self.expect(">")
        self.expect(":")
        kind = self.typed_tensor()
        try:
            return dense(self.source[begin:closing], kind)
        except ElementError as error:
            raise self.error(str(error), at) from None

    def resource(self) -> Dense:
        """What follows the word `dense_resource`."""
        self.expect("<")
        at = self.at
        name = self.string() if self.kind == "string" else self.expect_kind("name", "the name of a resource")
        self.expect(">")
        self.expect(":")
        kind = self.typed_tensor()
        if any(n is None for n in kind.shape):
            raise self.error(f"a constant needs sizes that do not vary, got {kind}", at)
        return Dense(kind, name)

    def typed_tensor(self) -> TensorType:
        at, kind = self.at, self.type()
        if not isinstance(kind, TensorType):
            raise self.error(f"a constant is a tensor, got {kind}", at)
        return kind

    def array(self) -> list[Any]:
        """What follows the word `array`: numbers of one type."""
        self.expect("<")
        at = self.at
        kind = self.type()
        if not isinstance(kind, ScalarType):
            raise self.error(f"an array has elements of a plain type, got {kind}", at)
        found = Array()
        found.element = kind.name
        if self.take(">"):
            return found
        self.expect(":")
        for _ in self.separated(">"):
            begin = self.at
            self.take("-")
            self.advance()
            try:
                found.append(scalar(self.source[begin:self.at].strip(), kind.name))
            except (ElementError, AssertionError) as error:
                raise self.error(str(error), begin) from None
        return found

    def named_attribute(self) -> Any:
        """`#alias`, or an attribute of a dialect."""
        at, name = self.at, self.advance()[1:]
        if name in self.attribute_aliases and not self.here("<"):
            return self.attribute_aliases[name]
        if name == "stablehlo" and self.take("<"):
            kind = self.expect_kind("name", "the name of an attribute")
            if self.here("<"):      # #stablehlo<gather<...>> is another way to write #stablehlo.gather<...>
                found = self.dialect_attribute(kind, at)
                self.expect(">")
                return found
            value = self.expect_kind("name", "a value")
            self.expect(">")
            return Keyword(kind, value)
        if name.startswith("stablehlo.") and self.here("<"):
            return self.dialect_attribute(name[10:], at)
        if "." in name or self.here("<"):
            return Opaque(self.balanced(at))
        raise self.error(f"the alias #{name} is not defined", at)

    def dialect_attribute(self, kind: str, at: int) -> Any:
        if kind == "conv":
            self.expect("<")
            found = self.convolution_dimensions()
            self.expect(">")
            return found
        if kind in ("gather", "scatter", "dot"):
            self.expect("<")
            return Struct(kind, self.entries(">"))
        if kind.endswith(("_mode", "_type", "_direction", "_algorithm", "_distribution")) or kind in (
                "precision", "transpose"):
            self.expect("<")
            value = self.expect_kind("name", "a value")
            self.expect(">")
            return Keyword(kind, value)
        return Opaque(self.balanced(at))

    def convolution_dimensions(self) -> Struct:
        """`[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""
        at = self.at
        found = re.compile(r"\s*\[([\w\s,?]*)\]\s*x\s*\[([\w\s,?]*)\]\s*->\s*\[([\w\s,?]*)\]").match(self.source, at)
        if found is None:
            raise self.error("expected dimensions like [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]")
        self.jump(found.end())
        fields: dict[str, Any] = {}
        letters = (("input", "b", "batch", "f", "feature"), ("kernel", "o", "output_feature", "i", "input_feature"),
                   ("output", "b", "batch", "f", "feature"))
        for text, (side, first, first_name, second, second_name) in zip(found.groups(), letters, strict=True):
            entries = [e.strip() for e in text.split(",")]
            spatial = sorted([e for e in entries if e.isdigit()], key=int)
            if (sorted(entries) != sorted([first, second, *spatial])
                    or spatial != [str(i) for i in range(len(spatial))]):
                raise self.error(f"the dimensions of the {side} must be {first}, {second} and 0, 1, ... each once, got"
                                 f" [{text}]", at)
            fields[f"{side}_{first_name}"] = entries.index(first)
            fields[f"{side}_{second_name}"] = entries.index(second)
            fields[f"{side}_spatial"] = [entries.index(e) for e in spatial]
        return Struct("conv", fields)

    def balanced(self, begin: int) -> str:
        """Skip an attribute that nobody reads, in brackets or none; its text."""
        if not self.here("<"):
            return self.source[begin:self.at].strip()
        wanted: list[str] = []
        while True:
            if self.kind == "sign" and self.text in _OPENING:
                wanted.append(_OPENING[self.text])
            elif self.kind == "sign" and self.text in _CLOSING:
                if self.text != wanted[-1]:
                    self.fail(f"'{wanted[-1]}'")
                wanted.pop()
            elif self.kind == "end":
                self.fail(f"'{wanted[-1]}'")
            end = self.end
            self.advance()
            if not wanted:
                return self.source[begin:end]

    def exponent_and_mantissa(self) -> tuple[int, int]:
        """`e5m10`."""
        found = _FORMAT.match(self.text) if self.kind == "name" else None
        if found is None:
            self.fail("a format like e5m10")
        self.advance()
        return int(found.group(1)[:9]), int(found.group(2)[:9])

    # --- locations ----------------------------------------------------------------------------------------------------

    def trailing_location(self) -> Any:
        """`loc(...)`, where one stands."""
        if not self.here("loc"):
            return None
        self.advance()
        self.expect("(")
        found = self.location()
        self.expect(")")
        return found

    def location(self) -> Any:
        """What is in the parentheses of `loc`: (file, line, column), the name of an alias, or None."""
        with self.nested():
            if self.kind == "attribute":
                self.location_uses.append((self.text[1:], self.at))
                return self.advance()[1:]
            if self.kind == "string":
                return self.named_location()
            if self.take("callsite"):
                self.expect("(")
                callee = self.location()
                self.expect("at")
                self.location()
                self.expect(")")
                return callee
            if self.take("fused"):
                if self.take("<"):
                    self.attribute()
                    self.expect(">")
                self.expect("[")
                found = [self.location() for _ in self.separated("]")]
                return next((f for f in found if f is not None), None)
            if self.take("unknown"):
                return None
            self.fail("a location")

    def named_location(self) -> Any:
        name = self.string()
        if self.take("("):
            child = self.location()
            self.expect(")")
            return child
        if not self.take(":"):
            return None
        line = self.integer()
        column = self.integer() if self.take(":") else 1
        if self.take("to"):      # the end of a range: nobody asks for it
            if self.kind == "int":
                self.integer()
            self.expect(":")
            self.integer()
        return name, line, column

    WORDED: dict[str, Callable[[AttributeParser], Any]] = {}


AttributeParser.WORDED = {
    "true": lambda p: _untyped(p, True), "false": lambda p: _untyped(p, False), "unit": lambda p: True,
    "dense": AttributeParser.dense, "dense_resource": AttributeParser.resource, "array": AttributeParser.array,
    "loc": lambda p: (p.expect("("), p.location(), p.expect(")"))[1],
}


def _untyped(parser: AttributeParser, value: bool) -> bool:
    if parser.take(":"):
        parser.type()
    return value
