"""Element types, layouts and memory formats as PyTorch's C++ names and numbers them, for recordings and traces."""

from __future__ import annotations

from typing import Any

# Name of a dtype here -> (name in C++, number).
SCALAR_TYPES: dict[str, tuple[str, int]] = {
    "uint8": ("unsigned char", 0), "int8": ("signed char", 1), "int16": ("short int", 2), "int32": ("int", 3),
    "int64": ("long int", 4), "float16": ("c10::Half", 5), "float32": ("float", 6), "float64": ("double", 7),
    "complex32": ("c10::complex<c10::Half>", 8), "complex64": ("c10::complex<float>", 9),
    "complex128": ("c10::complex<double>", 10), "bool": ("bool", 11), "qint8": ("c10::qint8", 12),
    "quint8": ("c10::quint8", 13), "qint32": ("c10::qint32", 14), "bfloat16": ("c10::BFloat16", 15),
    "float8_e5m2": ("c10::Float8_e5m2", 23), "float8_e4m3fn": ("c10::Float8_e4m3fn", 24),
    "float8_e5m2fnuz": ("c10::Float8_e5m2fnuz", 25), "float8_e4m3fnuz": ("c10::Float8_e4m3fnuz", 26),
    "uint16": ("short unsigned int", 27), "uint32": ("unsigned int", 28), "uint64": ("long unsigned int", 29),
    "float8_e8m0fnu": ("c10::Float8_e8m0fnu", 44), "float4_e2m1fn_x2": ("c10::Float4_e2m1fn_x2", 45),
}
OTHERS = {"contiguous_format": 0, "preserve_format": 1, "channels_last": 2, "channels_last_3d": 3, "strided": 0,
          "sparse_coo": 1, "sparse_csr": 2, "sparse_csc": 6, "sparse_bsr": 7, "sparse_bsc": 8}


def _name(value: Any) -> str:
    return str(value).rpartition(".")[2]


def cpp_name(dtype: Any) -> str:
    """The name of an element type in C++; its own where it has none."""
    return SCALAR_TYPES.get(_name(dtype), (_name(dtype), -1))[0]


def number_of(value: Any) -> int | None:
    """The number of a dtype, a layout or a memory format; None for anything else."""
    name = _name(value)
    return SCALAR_TYPES[name][1] if name in SCALAR_TYPES else OTHERS.get(name)
