"""Arguments of calls in the words of PyTorch's traces.

Enters: (type in PyTorch's signature, what a recording kept) of each argument; a list stands for a tensor: its sizes,
strides, dtype, device and class. Leaves: the four fields of an event: `Input Dims`, `Input type`, `Input Strides`,
`Concrete Inputs`.
"""

from __future__ import annotations

import math
from typing import Any

from .. import _C

Inputs = tuple[list[Any], list[str], list[Any], list[Any]]

# Element types as PyTorch's C++ calls them.
_CPP = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int8": "signed char",
    "uint8": "unsigned char", "int16": "short int", "int32": "int", "int64": "long int", "bool": "bool",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>", "complex32": "c10::complex<c10::Half>",
    "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long",
    "float8_e4m3fn": "c10::Float8_e4m3fn", "float8_e5m2": "c10::Float8_e5m2",
    "float8_e4m3fnuz": "c10::Float8_e4m3fnuz", "float8_e5m2fnuz": "c10::Float8_e5m2fnuz",
    "float8_e8m0fnu": "c10::Float8_e8m0fnu",
}
# PyTorch's numbers of dtypes, which stand for them in signatures.
_NUMBERS = {name: i for i, name in enumerate(
    ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64",
     "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16"))}
_FORMATS = {"contiguous_format": 0, "preserve_format": 1, "channels_last": 2, "channels_last_3d": 3}
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
_TENSORS = {bool: "bool", int: "long int", float: "double", complex: "c10::complex<double>"}


def spelled(arguments: list[tuple[str, Any]], out: Any) -> Inputs:
    """The four fields; `out` is what was given as out=."""
    shown: Inputs = ([], [], [], [])
    outs = [] if out is None else list(out) if isinstance(out, tuple) else [out]
    for kind, value in [*arguments, *(("Tensor", o) for o in outs)]:
        for column, item in zip(shown, _fields(kind, value), strict=True):
            column.append(item)
    return shown


def _fields(kind: str, value: Any) -> tuple[Any, str, Any, str]:
    if isinstance(value, list):
        sizes, strides, dtype, *_ = value
        return list(sizes), _CPP.get(dtype.name, dtype.name), list(strides), ""
    if isinstance(value, tuple):
        if value and all(isinstance(item, list) for item in value) and not kind.startswith("Tensor?"):
            return [list(item[0]) for item in value], "TensorList", [list(item[1]) for item in value], ""
        return _list(kind, value)
    if isinstance(value, (bool, int, float, complex)) and kind.startswith("Tensor"):
        return [], _TENSORS[type(value)], [], ""
    if isinstance(value, (bool, int, float)) and "[" in kind and "[]" not in kind:
        return _list(kind, (value,) * int(kind.partition("[")[2].partition("]")[0]))
    text = _number(kind, value)
    return [], "Scalar" if text else "", [], text


def _list(kind: str, value: tuple[Any, ...]) -> tuple[Any, str, Any, str]:
    texts = [_number("float" if kind.startswith("float") else "", item) for item in value]
    if kind.startswith("Tensor") or not all(texts):
        return [], "", [], ""
    return [], "ScalarList", [], "[" + ", ".join(texts) + "]"


def _number(kind: str, value: Any) -> str:
    """A number, or what stands for one in PyTorch's signatures, as its C++ prints it; empty for anything else."""
    if isinstance(value, _C.dtype):
        return str(_NUMBERS.get(value.name, ""))
    if isinstance(value, str):
        return str(_REDUCTIONS.get(value, "")) if kind == "int" else ""
    if type(value).__name__ == "memory_format":
        return str(_FORMATS.get(str(value).rpartition(".")[2], ""))
    if type(value).__name__ == "layout":
        return "0" if str(value).endswith("strided") else ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return _float(float(value)) if kind.startswith("float") else str(value)
    return _float(value) if isinstance(value, float) else ""


def _float(value: float) -> str:
    if math.isinf(value) or math.isnan(value):
        return str(value)
    text = f"{value:.17g}"
    return text if "." in text or "e" in text else text + "."
