"""The elements of `dense<...>`: from the characters between the angles to numbers, checked against the type.

Enters: text such as `[[1, 2], [3, 4]]` and the type of the constant. Leaves: a flat list of numbers, or one number for
all elements, or bytes. Refuses lists whose shape is not that of the type, numbers that the element type does not have,
and bytes of the wrong count; nothing is ever made larger than its text.
"""

from __future__ import annotations

import math
import re
from typing import Any

from .syntax import Bits, Dense
from .types import TensorType

_PIECE = re.compile(r"\s*([\[\](),]|[^\s\[\](),]+)")
_FLOAT = re.compile(r"-?\d+\.\d*(?:[eE][+-]?\d+)?\Z")
_INTEGER = re.compile(r"-?(?:\d{1,100}|0x[0-9a-fA-F]{1,100})\Z")
WIDTHS = {"i1": 8, "index": 64, "bf16": 16, "complex<f32>": 64, "complex<f64>": 128}


def width(element: str) -> int:
    """The bits of an element in memory."""
    found = WIDTHS.get(element)
    if found is None:
        digits = re.match(r"(?:ui|[if])(\d+)", element)
        assert digits is not None, f"no element type: {element}"
        found = int(digits.group(1))
    return found


class ElementError(ValueError):
    """What is wrong with a constant."""


def dense(text: str, kind: TensorType) -> Dense:
    """The constant that stands between the angles."""
    if any(n is None for n in kind.shape):
        raise ElementError(f"a constant needs sizes that do not vary, got {kind}")
    count = math.prod(n or 0 for n in kind.shape)
    body = text.strip()
    if not body:
        if count:
            raise ElementError(f"no elements for {kind}, which has {count}")
        return Dense(kind, [])
    if body.startswith('"'):
        return _from_bytes(body, kind, count)
    elements, shape = _nested(body, kind.element)
    if shape is None:
        return Dense(kind, elements, splat=True)
    if tuple(shape) != kind.shape:
        raise ElementError(f"the elements have the shape {shape}, their type is {kind}")
    return Dense(kind, elements)


def _from_bytes(text: str, kind: TensorType, count: int) -> Dense:
    if not text.startswith('"0x') or not text.endswith('"') or len(text) % 2:
        raise ElementError("bytes are written as \"0x...\", two digits for each")
    try:
        data = bytes.fromhex(text[3:-1])
    except ValueError:
        raise ElementError("bytes are written as \"0x...\", two digits for each") from None
    if kind.element == "i1" and len(data) == (count + 7) // 8 and len(data) != count:
        bits = [bool(data[i // 8] >> i % 8 & 1) for i in range(count)]
        return Dense(kind, bits)
    return Dense(kind, data, check_bytes(data, kind, count))


def check_bytes(data: bytes, kind: TensorType, count: int) -> bool:
    """Whether bytes are one element for all; an error if they are neither that nor all elements."""
    one = width(kind.element) // 8
    if len(data) == one and count != 1:
        return True
    if len(data) != one * count:
        raise ElementError(f"{len(data)} bytes for {kind}, which has {one * count}")
    return False


def _nested(text: str, element: str) -> tuple[list[Any], list[int] | None]:
    """The elements in order, and the shape of the lists; None where there is no list."""
    pieces = _PIECE.findall(text)
    if pieces[0] != "[":
        flat, after = _one(pieces, 0, element)
        if after != len(pieces):
            raise ElementError(f"something after the element: '{pieces[after]}'")
        return [flat], None
    flat_list: list[Any] = []
    sizes: dict[int, int] = {}      # by depth
    counts: list[int] = []          # of the lists that are open
    leaf, at, wants = None, 0, True
    while at < len(pieces):
        piece = pieces[at]
        if piece == "[":
            if not wants or len(counts) > 32:
                raise ElementError("lists that do not fit into each other")
            counts.append(0)
            at += 1
        elif piece == "]":
            if not counts or (wants and counts[-1]):
                raise ElementError("a list that ends where an element must follow")
            size = counts.pop()
            if sizes.setdefault(len(counts), size) != size:
                raise ElementError("lists of one level must have one length")
            if counts:
                counts[-1] += 1
            wants, at = False, at + 1
            if not counts:
                break
        elif piece == ",":
            if wants:
                raise ElementError("a comma where an element must follow")
            wants, at = True, at + 1
            continue
        else:
            if not wants or (leaf is not None and leaf != len(counts)):
                raise ElementError("elements and lists side by side")
            leaf = len(counts)
            value, at = _one(pieces, at, element)
            flat_list.append(value)
            counts[-1] += 1
            wants = False
    if counts or at != len(pieces):
        raise ElementError("lists that do not close where they should")
    shape = [sizes[d] for d in range(len(sizes))]
    if math.prod(shape) != len(flat_list):
        raise ElementError("elements and lists side by side")
    return flat_list, shape


def _one(pieces: list[str], at: int, element: str) -> tuple[Any, int]:
    """An element, and where the next piece stands."""
    if not element.startswith("complex"):
        return scalar(pieces[at], element), at + 1
    part = element[8:-1]
    if pieces[at] != "(":
        return scalar(pieces[at], part), at + 1
    if len(pieces) < at + 5 or pieces[at + 2] != "," or pieces[at + 4] != ")":
        raise ElementError("a complex number is written as (real, imaginary)")
    return (scalar(pieces[at + 1], part), scalar(pieces[at + 3], part)), at + 5


def scalar(text: str, element: str) -> Any:
    """One number; floating-point ones may be written as bits."""
    if element == "i1":
        if text in ("true", "false", "0", "1", "-1"):
            return text not in ("false", "0")
        raise ElementError(f"'{text}' is no truth value")
    if element.startswith(("i", "ui")):
        if not _INTEGER.match(text):
            raise ElementError(f"'{text}' is no whole number")
        value, bits = int(text, 16 if "0x" in text else 10), width(element)
        if not -(1 << bits - 1) <= value < 1 << bits or (value < 0 and element.startswith("u")):
            raise ElementError(f"{text} is no {element}")
        return value
    if _FLOAT.match(text):
        return float(text)
    if text.startswith("0x") and _INTEGER.match(text):
        bits = int(text, 16)
        if bits >> width(element):
            raise ElementError(f"{text} has more bits than {element}")
        return Bits(bits)
    raise ElementError(f"'{text}' is no floating-point number")
