"""Schemas: the one-line signature an op is written with.

Enters: text such as `add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor`.
Leaves: a `Schema` of `Param`s whose types are the core's numbers, so binding needs no text.
Refuses: types it does not know, with the text that holds them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ..loops.record import Record

# The core's ParamType numbers (csrc/call.h), by the spelling used in schemas.
TYPES = {
    "Tensor": 0, "Tensor?": 1, "Tensor[]": 2, "Tensor|Scalar": 3, "Scalar": 4, "Scalar?": 5, "int": 6, "int?": 7,
    "int[]": 8, "int[]?": 9, "float": 10, "float?": 11, "bool": 12, "bool?": 13, "str": 14, "str?": 15, "dtype?": 16,
    "dtype": 16, "device?": 17, "device": 17, "any": 18, "layout?": 18, "memory_format?": 18, "Generator?": 18,
    "float[]": 18, "float[]?": 18, "Scalar[]": 18, "bool[]": 18, "str[]": 18, "Tensor|Scalar?": 19, "Tensor?[]": 20,
    "Tensor[]?": 18, "SymInt": 6, "SymInt[]": 8,
    # as PyTorch spells them in schemas of users' ops
    "SymInt?": 7, "ScalarType": 16, "ScalarType?": 16, "Device": 17, "Device?": 17, "Layout": 18, "Layout?": 18,
    "MemoryFormat": 18, "MemoryFormat?": 18,
}
TENSOR_TYPES = frozenset(("Tensor", "Tensor?", "Tensor[]", "Tensor?[]", "Tensor|Scalar", "Tensor|Scalar?"))
# Integers that say how large or where, not which way: plans for many shapes read them when they run.
VARYING = frozenset(
    (
        "size",
        "sizes",
        "shape",
        "start",
        "end",
        "length",
        "index",
        "storage_offset",
        "stride",
        "split_size",
        "offset",
        "pad",
    )
)
OPERAND_TYPES = frozenset(("Tensor", "Tensor?", "Tensor|Scalar", "Tensor|Scalar?", "Scalar", "Scalar?"))

_REQUIRED = object()


class Param(Record):
    """One parameter: what it is called, what it accepts, what it defaults to."""

    name: str
    type: str
    keyword_only: bool
    default: Any = _REQUIRED
    mutated: bool = False

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED

    @property
    def is_tensor(self) -> bool:
        return self.type in TENSOR_TYPES

    @property
    def varies(self) -> bool:
        """Whether calls that differ in this argument may share a plan."""
        return self.name in VARYING and 4 <= TYPES[self.type] <= 9

    def __str__(self) -> str:
        return f"{self.type} {self.name}" if self.required else f"{self.type} {self.name}={self.default}"


class Schema(Record):
    """A parsed signature."""

    text: str
    name: str
    overload: str
    params: tuple[Param, ...]
    returns: tuple[str, ...]
    return_names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    def index(self, name: str) -> int:
        """Position of the parameter called `name`; ValueError if there is none."""
        for i, p in enumerate(self.params):
            if p.name == name:
                return i
        raise ValueError(f"{self.name}: no parameter called {name!r} in {self.text}")


def _default(text: str) -> Any:
    """A default as written: a number, a quoted or bare word, or a list of those (as a tuple)."""
    known = {"None": None, "True": True, "False": False}
    if text in known:
        return known[text]
    if text[0] in "([":
        return tuple(_default(part) for part in _split(text[1:-1]))
    if text[0] in "'\"":
        return text[1:-1]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _type(text: str, schema: str) -> tuple[str, bool]:
    mutated = "!" in text
    start = text.find("(")
    if start >= 0:  # alias annotation: Tensor(a), Tensor(a!)
        text = text[:start] + text[text.index(")") + 1 :]
    bracket = text.find("[")
    if bracket >= 0 and text[bracket + 1] != "]":  # int[1]: the length is a hint
        text = text[: bracket + 1] + text[text.index("]") :]
    if text not in TYPES:
        raise ValueError(f"unknown type {text!r} in schema {schema!r}")
    return text, mutated


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


@cache
def parse(text: str) -> Schema:
    """Parse one schema."""
    open_at = text.index("(")
    arrow = text.rindex("->")
    close_at = text.rindex(")", 0, arrow)
    name, _, overload = text[:open_at].strip().partition(".")
    params, keyword_only = [], False
    for part in _split(text[open_at + 1 : close_at]):
        if part == "*":
            keyword_only = True
            continue
        head, _, default = part.partition("=")
        kind, _, label = head.strip().rpartition(" ")
        kind, mutated = _type(kind, text)
        params.append(Param(label, kind, keyword_only, _default(default.strip()) if default else _REQUIRED, mutated))
    result = text[arrow + 2 :].strip()
    returns = _split(result[1:-1]) if result.startswith("(") else [result]
    kinds = tuple(_type(r.split(" ")[0], text)[0] for r in returns) if result != "()" else ()
    labels = tuple(r.split(" ")[1] for r in returns if " " in r)
    return Schema(text, name, overload, tuple(params), kinds, labels)
