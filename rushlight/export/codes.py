"""Numbers that `.pt2` files have for dtypes, layouts and memory formats, and the functions on numbers they may call."""

from __future__ import annotations

import math
import operator
from typing import Any

from .. import _C
from ..base import assertions
from ..base.shape import channels_last, channels_last_3d, contiguous_format, layout, preserve_format, strided

DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn",
    30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}
FORMATS = {1: contiguous_format, 2: channels_last, 3: channels_last_3d, 4: preserve_format}
STRIDED = 7

# What graphs compute sizes with: the name in files, and the function.
NUMBERS: dict[str, Any] = {
    **{f"_operator.{n}": getattr(operator, n) for n in (
        "add", "sub", "mul", "floordiv", "mod", "pow", "neg", "truediv", "eq", "ne", "lt", "le", "gt", "ge", "and_",
        "or_", "lshift", "rshift", "getitem", "abs")},
    **{f"math.{n}": getattr(math, n) for n in ("floor", "ceil", "trunc", "sqrt")},
    "builtins.round": round, "builtins.max": max, "builtins.min": min,
    **{f"torch.{n}": getattr(assertions, n) for n in (
        "sym_max", "sym_min", "sym_not", "sym_float", "sym_int", "sym_ite", "sym_sqrt")},
}
NAMES = {id(function): name for name, function in NUMBERS.items()}


def dtype_of(code: Any) -> Any:
    """The dtype of a number in a file."""
    found = getattr(_C, DTYPES.get(code, ""), None)
    if found is None:
        raise ValueError(f"load: dtype {code!r} is not known here")
    return found


def code_of(dtype: Any) -> int:
    """The number of a dtype."""
    name = str(dtype).rpartition(".")[2]
    return next(code for code, n in DTYPES.items() if n == name)


def format_code(value: Any) -> int:
    """The number of a memory format."""
    return next(code for code, f in FORMATS.items() if f is value)


def layout_of(code: Any) -> layout:
    """The layout of a number in a file; strided is the only one."""
    if code != STRIDED:
        raise ValueError(f"load: tensors of layout {code!r} are not supported, only strided ones")
    return strided
