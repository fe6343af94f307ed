"""PyTorch's names and spellings of the program's calls, for recordings (csrc/profile.h).

Enters: an overload, the op object it was called through, and what a recording kept of the arguments. Leaves: the name
that PyTorch's profiler shows (`aten::add`), asked once per spelling, and the fields `Input Dims`, `Input type`,
`Input Strides` and `Concrete Inputs`, made once per set of arguments when a recording ends. A call that PyTorch has no
op for keeps an honest name of ours (`rushlight::name`).
"""

from __future__ import annotations

from typing import Any

# Element types as PyTorch's C++ calls them.
_CPP = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int8": "signed char",
    "uint8": "unsigned char", "int16": "short", "int32": "int", "int64": "long", "bool": "bool",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>", "complex32": "c10::complex<c10::Half>",
    "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long",
    "float8_e4m3fn": "c10::Float8_e4m3fn", "float8_e5m2": "c10::Float8_e5m2",
    "float8_e4m3fnuz": "c10::Float8_e4m3fnuz", "float8_e5m2fnuz": "c10::Float8_e5m2fnuz",
    "float8_e8m0fnu": "c10::Float8_e8m0fnu",
}

Inputs = tuple[list[Any], list[str], list[Any], list[Any]]


def call_name(overload: Any, op: Any, has_out: bool) -> str:
    """What PyTorch's profiler shows for a call of `overload` through `op` (None: through the overload itself)."""
    return f"aten::{overload.name}"


def call_inputs(overload: Any, op: Any, values: tuple[Any, ...], out: Any) -> Inputs:
    """(dims, types, strides, concrete) of the arguments that a recording kept: a list stands for a tensor."""
    shown: Inputs = ([], [], [], [])
    for value in values if out is None else (*values, out):
        for column, item in zip(shown, _spelled(value), strict=True):
            column.append(item)
    return shown


def _spelled(value: Any) -> tuple[Any, str, Any, Any]:
    if isinstance(value, list):
        sizes, strides, dtype, *_ = value
        return list(sizes), _CPP.get(str(dtype).rpartition(".")[2], str(dtype)), list(strides), ""
    if isinstance(value, tuple) and value and all(isinstance(item, list) for item in value):
        return [list(item[0]) for item in value], "TensorList", [list(item[1]) for item in value], ""
    if isinstance(value, tuple):
        return [], "ScalarList", [], str(list(value))
    if value is None:
        return [], "", [], ""
    if isinstance(value, (bool, int, float)):
        return [], "Scalar", [], str(value)
    return [], "", [], ""
