"""The types of ONNX: what its numbers stand for, how many bits an element takes in a file, which dtype carries it here.

Enters: numbers of element types (TensorProto.DataType). Leaves: `Element`s, and `Kind`s, what is known of a value.
Integers under 8 bits are carried by 8, and float4 by float32, since no arithmetic is done in them; strings by NumPy's
arrays of objects. Refuses: numbers that stand for nothing.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from .. import _C


@dataclasses.dataclass(frozen=True)
class Element:
    """A type of elements."""

    number: int
    name: str
    dtype: Any                # of the tensors that carry it; None: strings
    bits: int                 # of one element in a file
    numpy: str = ""           # its name in NumPy, or in ml_dtypes, where that is another

    @property
    def is_packed(self) -> bool:
        """Whether several elements share a byte."""
        return 0 < self.bits < 8


_ELEMENTS = [
    Element(1, "FLOAT", _C.float32, 32), Element(2, "UINT8", _C.uint8, 8), Element(3, "INT8", _C.int8, 8),
    Element(4, "UINT16", _C.uint16, 16), Element(5, "INT16", _C.int16, 16), Element(6, "INT32", _C.int32, 32),
    Element(7, "INT64", _C.int64, 64), Element(8, "STRING", None, 0), Element(9, "BOOL", _C.bool, 8),
    Element(10, "FLOAT16", _C.float16, 16), Element(11, "DOUBLE", _C.float64, 64), Element(12, "UINT32", _C.uint32, 32),
    Element(13, "UINT64", _C.uint64, 64), Element(14, "COMPLEX64", _C.complex64, 64),
    Element(15, "COMPLEX128", _C.complex128, 128), Element(16, "BFLOAT16", _C.bfloat16, 16, "bfloat16"),
    Element(17, "FLOAT8E4M3FN", _C.float8_e4m3fn, 8, "float8_e4m3fn"),
    Element(18, "FLOAT8E4M3FNUZ", _C.float8_e4m3fnuz, 8, "float8_e4m3fnuz"),
    Element(19, "FLOAT8E5M2", _C.float8_e5m2, 8, "float8_e5m2"),
    Element(20, "FLOAT8E5M2FNUZ", _C.float8_e5m2fnuz, 8, "float8_e5m2fnuz"),
    Element(21, "UINT4", _C.uint8, 4, "uint4"), Element(22, "INT4", _C.int8, 4, "int4"),
    Element(23, "FLOAT4E2M1", _C.float32, 4, "float4_e2m1fn"),
    Element(24, "FLOAT8E8M0", _C.float8_e8m0fnu, 8, "float8_e8m0fnu"),
    Element(25, "UINT2", _C.uint8, 2, "uint2"), Element(26, "INT2", _C.int8, 2, "int2"),
]
ELEMENTS = {e.number: e for e in _ELEMENTS}
BY_NAME = {e.name: e for e in _ELEMENTS}
STRING, INT64 = 8, 7
NUMBER_OF = {e.dtype: e.number for e in reversed(_ELEMENTS) if not e.is_packed and e.dtype is not None}


def element(number: int, where: str = "") -> Element:
    """The element type of a number."""
    if number not in ELEMENTS:
        raise ValueError(f"onnx: {where or 'a tensor'} has elements of type {number}, and 1 to 26 are types known here")
    return ELEMENTS[number]


@dataclasses.dataclass(frozen=True)
class Kind:
    """What is known of a value: a tensor of elements and sizes, or a sequence or an optional of another kind."""

    form: str                                              # tensor, sequence, optional, map, sparse
    number: int = 0                                        # of the elements; 0: not known
    shape: tuple[int | str | None, ...] | None = None
    inner: Kind | None = None

    def __str__(self) -> str:
        if self.form in ("tensor", "sparse"):
            name = ELEMENTS[self.number].name.lower() if self.number in ELEMENTS else "any type"
            if self.shape is None:
                return f"{name} of any rank"
            return f"{name}[{', '.join('?' if n is None else str(n) for n in self.shape)}]"
        return f"{self.form} of {self.inner if self.inner is not None else 'anything'}"
