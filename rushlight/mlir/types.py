"""Types and attributes of MLIR, as text.

Enters: dtypes, shapes (None or a symbol where a size varies), numbers and tensors. Leaves: what stands for them in a
module. Refuses: dtypes that MLIR has no element type for, by name.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from .. import _C
from .errors import UnsupportedOp

ELEMENTS = {
    "b1": "i1", **{f"i{n}": f"i{n}" for n in (8, 16, 32, 64)}, **{f"u{n}": f"ui{n}" for n in (8, 16, 32, 64)},
    "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64", "c64": "complex<f32>", "c128": "complex<f64>",
    "f8e4m3fn": "f8E4M3FN", "f8e5m2": "f8E5M2", "f8e4m3fnuz": "f8E4M3FNUZ", "f8e5m2fnuz": "f8E5M2FNUZ",
    "f8e8m0fnu": "f8E8M0FNU",
}
"""Element types, by the codes of dtypes. Unsigned integers are `ui8` here; dialects without signs write `i8`."""

CODES = {element: code for code, element in ELEMENTS.items()}
_SPECIAL = {      # infinity, minus infinity, and not a number, as bits
    "f16": (0x7C00, 0xFC00, 0x7E00), "bf16": (0x7F80, 0xFF80, 0x7FC0), "f32": (0x7F800000, 0xFF800000, 0x7FC00000),
    "f64": (0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000), "f8E5M2": (0x7C, 0xFC, 0x7E),
    "f8E4M3FN": (0x7F, 0xFF, 0x7F), "f8E4M3FNUZ": (0x80, 0x80, 0x80), "f8E5M2FNUZ": (0x80, 0x80, 0x80),
    "f8E8M0FNU": (0xFF, 0xFF, 0xFF),
}
_PART = {"complex<f32>": "f32", "complex<f64>": "f64"}
LONG = 16      # elements that are written one by one; more are written as bytes


@dataclasses.dataclass(frozen=True)
class TensorType:
    """A ranked tensor; None is a size that varies."""

    shape: tuple[int | None, ...]
    element: str

    def __str__(self) -> str:
        return "tensor<" + "".join("?x" if n is None else f"{n}x" for n in self.shape) + self.element + ">"


def element_of(dtype: Any) -> str:
    """The element type of a dtype."""
    found = ELEMENTS.get(dtype.code)
    if found is None:
        raise UnsupportedOp(f"mlir: tensors of {dtype} have no element type in MLIR")
    return found


def tensor_type(dtype: Any, shape: Iterable[Any]) -> TensorType:
    """The type of tensors; sizes that are no plain numbers vary."""
    return TensorType(tuple([n if type(n) is int else None for n in shape]), element_of(dtype))


# --- attributes -------------------------------------------------------------------------------------------------------


def integer(value: int, bits: int = 64) -> str:
    """An integer attribute."""
    return f"{int(value)} : i{bits}"


def truth(value: bool) -> str:
    """A boolean attribute."""
    return "true" if value else "false"


def string(text: str) -> str:
    """A string attribute, or part of a location."""
    kept = {'"': '\\"', "\\": "\\\\"}
    raw = text.encode("utf-8", "backslashreplace")
    return '"' + "".join(kept.get(chr(c)) or (chr(c) if 32 <= c < 127 else f"\\{c:02X}") for c in raw) + '"'


def integers(values: Sequence[int]) -> str:
    """An array of 64-bit integers: dimensions, strides."""
    return f"array<i64: {', '.join(str(int(v)) for v in values)}>" if len(values) else "array<i64>"


def truths(values: Sequence[bool]) -> str:
    """An array of booleans."""
    return f"array<i1: {', '.join(truth(v) for v in values)}>" if len(values) else "array<i1>"


def table(rows: Sequence[Sequence[int]]) -> str:
    """A matrix of 64-bit integers, as paddings are."""
    columns = len(rows[0]) if rows else 2
    return f"dense<{_nested([list(r) for r in rows])}> : tensor<{len(rows)}x{columns}xi64>" if rows else (
        f"dense<> : tensor<0x{columns}xi64>")


def _nested(value: Any) -> str:
    return "[" + ", ".join(_nested(v) for v in value) + "]" if isinstance(value, list) else str(value)


# --- constants --------------------------------------------------------------------------------------------------------


def number(value: Any, element: str) -> str:
    """One element of a constant."""
    if element in _PART:
        value = complex(value)
        return f"({number(value.real, _PART[element])}, {number(value.imag, _PART[element])})"
    if element == "i1":
        return truth(bool(value))
    if element not in _SPECIAL:
        return str(int(value))
    value = float(value)
    if not math.isfinite(value):
        bits = _SPECIAL[element][2 if value != value else 0 if value > 0 else 1]
        return f"0x{bits:0{_digits(element)}X}"
    text = repr(value)
    if "e" in text and "." not in text:      # MLIR wants a point
        text = text.replace("e", ".0e")
    return text


def _digits(element: str) -> int:
    return {"f64": 16, "f32": 8, "f16": 4, "bf16": 4}.get(element, 2)


def splat(value: Any, kind: TensorType) -> str:
    """A constant whose elements are all the same."""
    return f"dense<{number(value, kind.element)}> : {kind}"


def dense(values: Sequence[Any], kind: TensorType) -> str:
    """A constant from its elements in order."""
    if not values:
        return f"dense<> : {kind}"
    if len(set(map(repr, values))) == 1:
        return splat(values[0], kind)
    parts: list[str] = [number(v, kind.element) for v in values]
    for n in reversed(kind.shape):
        assert n is not None, "constants have sizes"
        parts = [f"[{', '.join(parts[i:i + n])}]" for i in range(0, len(parts), n)]
    return f"dense<{parts[0]}> : {kind}"


def tensor_constant(t: Any, kind: TensorType) -> str:
    """A constant from a tensor: few elements one by one, many as their bytes."""
    if t.numel() <= LONG or kind.element == "i1":
        return dense(t.detach().reshape(-1).tolist(), kind)
    return f'dense<"0x{content(t).hex().upper()}"> : {kind}'


def content(t: Any) -> bytes:
    """The elements of a tensor in order, as they lie in memory."""
    plain = t.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return plain.view(_C.uint8).numpy().tobytes() if plain.numel() else b""


def blob(data: bytes, alignment: int) -> str:
    """A resource of a file: its alignment and bytes, as hexadecimal digits."""
    return f'"0x{(struct.pack("<I", alignment) + data).hex().upper()}"'
