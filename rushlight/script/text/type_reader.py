"""Types as graphs and schemas write them: `int[]`, `Tensor?`, `Float(2, 3, strides=[3, 1])`, `Tensor(a!)`, `int[2]?`.

Enters: words. Leaves: a type, and the marks a schema may put on it (alias set, write, a list's fixed length).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...base.dtype import ALL
from .. import types as t
from .lexer import Tokens

_SIMPLE: dict[str, t.Type] = {
    "int": t.IntType(), "float": t.FloatType(), "complex": t.ComplexType(), "bool": t.BoolType(),
    "str": t.StringType(), "NoneType": t.NoneType(), "None": t.NoneType(), "Any": t.AnyType(),
    "Scalar": t.NumberType(), "number": t.NumberType(), "Device": t.DeviceObjType(), "Stream": t.StreamObjType(),
    "Generator": t.GeneratorType(), "Storage": t.StorageType(), "PyObject": t.PyObjectType(),
    "SymInt": t.SymIntType(), "SymBool": t.BoolType(), "AnyEnumType": t.AnyEnumType(),
    "AnyClassType": t.AnyClassType(), "list": t.AnyListType(),
    "tuple": t.AnyTupleType(), "AnyListType": t.AnyListType(), "AnyTupleType": t.AnyTupleType(),
    "ScalarType": t.IntType(), "Layout": t.IntType(), "MemoryFormat": t.IntType(), "QScheme": t.IntType(),
    "Dimname": t.StringType(), "ConstQuantizerPtr": t.IntType(), "DeviceIndex": t.IntType(),
}
_AROUND: dict[str, type] = {"Future": t.FutureType, "Await": t.AwaitType, "RRef": t.RRefType}
_DTYPES = {word: name for name, word in t.SCALAR_NAMES.items()}


class Alias(NamedTuple):
    """`(a!)`, `(a -> *)`: whose memory a value of a schema is, and whether it is written."""

    sets: tuple[str, ...]
    is_write: bool
    after: tuple[str, ...] = ()


class Marked(NamedTuple):
    """A type of a schema with its marks."""

    type: t.Type
    alias: Alias | None = None
    length: int | None = None        # of `int[2]`: one number may stand for the list


class TypeReader:
    """Reads types from words; `named` answers for `__torch__.` names."""

    def __init__(self, words: Tokens, named: Callable[[str], t.Type | None] | None = None) -> None:
        self.words, self.named = words, named

    def read(self) -> t.Type:
        return self.read_marked().type

    def read_marked(self) -> Marked:
        """One type, its alias marks and what follows: `?`, `[]`, `[2]`."""
        words = self.words
        found, alias = self._core()
        if alias is None and words.is_("(") and self._is_alias():
            alias = self._alias()
        length: int | None = None
        while True:
            if words.is_("[") and (words.ahead().text == "]" or words.ahead(2).text == "]"):
                words.take()
                length = int(words.take().text) if words.now.kind == "number" else None
                words.expect("]")
                found = t.ListType(found)
                if words.is_("("):
                    alias = self._alias()
            elif words.take_if("?"):
                found = t.optional_of(found)
            else:
                return Marked(found, alias, length)

    def _core(self) -> tuple[t.Type, Alias | None]:
        words = self.words
        if words.take_if("("):
            parts = self._row(")")
            return t.TupleType(parts), None
        start = words.now
        name = words.expect_kind("ident").text
        if name == "__torch__":
            while words.take_if("."):
                name += "." + words.expect_kind("ident").text
            found = self.named(name) if self.named else None
            if found is None:
                words.refuse(f"unknown class '{name}'", start.start, words.words[words.at - 1].end)
            return found, None  # type: ignore[return-value]
        if name in ("Dict", "Union", "Tuple", "List", "Optional", "NamedTuple") or name in _AROUND:
            return self._generic(name), None
        if name == "Tensor" or name in _DTYPES or (name.endswith("Tensor") and name[:-6] in _DTYPES):
            return self._tensor(name)
        if name == "Enum":
            words.expect("<")
            found = self.read()
            words.expect(">")
            return found, None
        if name in _SIMPLE:
            return _SIMPLE[name], self._alias() if words.is_("(") else None
        if len(name) == 1 or name in ("tVal", "t1", "t2", "tKey"):
            return t.VarType(name), self._alias() if words.is_("(") else None
        words.refuse(f"unknown type specifier '{name}'", start.start, start.end)
        raise AssertionError

    def _row(self, end: str) -> list[t.Type]:
        parts: list[t.Type] = []
        while not self.words.take_if(end):
            if parts:
                self.words.expect(",")
                if self.words.take_if(end):
                    break
            parts.append(self.read())
            if self.words.now.kind == "ident":       # the name of a result in a schema
                self.words.take()
        return parts

    def _generic(self, name: str) -> t.Type:
        words = self.words
        end = "]" if words.is_("[") else ")"
        words.expect("[" if end == "]" else "(")
        if name == "NamedTuple":
            return self._named_tuple()
        if name == "Tuple" and words.is_("(") and words.ahead().text == ")":
            words.take(), words.take(), words.expect(end)
            return t.TupleType(())
        parts = self._row(end)
        made: dict[str, Callable[[], t.Type]] = {
            "Dict": lambda: t.DictType(*parts), "Union": lambda: t.union_of(parts), "Tuple": lambda: t.TupleType(parts),
            "List": lambda: t.ListType(*parts), "Optional": lambda: t.optional_of(*parts),
        }
        return made[name]() if name in made else _AROUND[name](*parts)

    def _named_tuple(self) -> t.Type:
        fields, parts = [], []
        while not self.words.take_if(")"):
            if fields:
                self.words.expect(",")
            fields.append(self.words.expect_kind("ident").text)
            self.words.expect(":")
            parts.append(self.read())
        return t.TupleType(parts, "NamedTuple", tuple(fields))

    # --- tensors
    def _tensor(self, name: str) -> tuple[t.Type, Alias | None]:
        words = self.words
        word = name[:-6] if name.endswith("Tensor") and name != "Tensor" else name
        known = None if word == "Tensor" else ALL[_DTYPES[word]]
        if not words.is_("("):
            return (t.TENSOR if known is None else t.TensorType(known)), None
        if self._is_alias():
            return t.TENSOR, self._alias()
        return self._shaped(known), None

    def _is_alias(self) -> bool:
        after, next_ = self.words.ahead(), self.words.ahead(2)
        if after.text == "*":                        # (*) may be both: a wildcard set has no comma
            return next_.text == "!" or (next_.text == ")" and self.words.ahead(3).kind == "ident")
        return after.kind == "ident" and next_.text in ("!", ")", "->", "|")

    def _alias(self) -> Alias:
        words = self.words
        words.expect("(")
        sets = self._sets()
        is_write = words.take_if("!")
        after = self._sets() if words.take_if("->") else ()
        words.expect(")")
        return Alias(sets, is_write, after)

    def _sets(self) -> tuple[str, ...]:
        names = [self.words.take().text]
        while self.words.take_if("|"):
            names.append(self.words.take().text)
        return tuple(names)

    def _shaped(self, dtype: Any) -> t.TensorType:
        words = self.words
        words.expect("(")
        sizes: list[int | None] = []
        strides = device = requires_grad = None
        has_sizes = True
        while not words.take_if(")"):
            if words.take_if(","):
                continue
            if words.take_if("*"):
                sizes.append(None)
            elif words.now.kind == "number":
                sizes.append(int(words.take().text))
            else:
                name = words.expect_kind("ident").text
                words.expect("=")
                if name == "strides":
                    strides = tuple(self._numbers())
                elif name == "requires_grad":
                    requires_grad = bool(int(words.expect_kind("number").text))
                elif name == "device":
                    device = self._device()
                else:
                    words.refuse(f"unexpected word '{name}' in a tensor's type")
        if dtype is None and not sizes:
            has_sizes = False
        return t.TensorType(dtype, tuple(sizes) if has_sizes else None, strides, device, requires_grad)

    def _numbers(self) -> list[int]:
        self.words.expect("[")
        found: list[int] = []
        while not self.words.take_if("]"):
            self.words.take_if(",")
            found.append(int(self.words.expect_kind("number").text))
        return found

    def _device(self) -> Any:
        from ..._C import device

        name = self.words.expect_kind("ident").text
        if self.words.take_if(":"):
            name += ":" + self.words.expect_kind("number").text
        return device(name)
