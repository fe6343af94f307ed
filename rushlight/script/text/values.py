"""Constants as text: how graphs and code print numbers, strings, tensors and containers of them.

Floats print with all digits that tell them apart, whole ones with a point behind (`1.`), as C++ streams do.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any

from ..._C import Tensor
from ..._jit_internal import _qualified_name

WHOLE = 1e10                # whole floats below print as digits and a point
SHOWN_ELEMENTS = 10         # tensors of more print as a word
_ESCAPES = {"\\": "\\\\", "'": "\\'", '"': '\\"', "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r",
            "\t": "\\t", "\v": "\\v"}


def quoted(text: str) -> str:
    """A string between quotes; bytes outside of ASCII in octal."""
    out = []
    for byte in text.encode():
        character = chr(byte)
        if character in _ESCAPES:
            out.append(_ESCAPES[character])
        else:
            out.append(character if 32 <= byte < 127 else f"\\{byte:03o}")
    return f'"{"".join(out)}"'


def shown_float(value: float) -> str:
    """A float as graphs print it."""
    if math.isnan(value) or math.isinf(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value == int(value) and abs(value) < WHOLE:
        return f"{'-' if math.copysign(1, value) < 0 and value == 0 else ''}{int(value)}."
    return f"{value:.17g}"


def shown_complex(value: complex) -> str:
    sign = "" if math.copysign(1, value.imag) < 0 else "+"
    return f"{shown_float(value.real)}{sign}{shown_float(value.imag)}j"


def shown(value: Any, string: Callable[[str], str] = quoted) -> str:
    """A constant as an attribute prints it."""
    if isinstance(value, enum.Enum):
        return f"{_qualified_name(type(value))}.{value.name}"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return shown_float(value)
    if isinstance(value, complex):
        return shown_complex(value)
    if isinstance(value, str):
        return string(value)
    if isinstance(value, Tensor):
        return shown_tensor(value)
    if isinstance(value, list):
        if value and all(isinstance(item, Tensor) for item in value):
            return "[<Tensors>]"
        return f"[{', '.join(shown(item, string) for item in value)}]"
    if isinstance(value, tuple):
        inner = ", ".join(shown(item, string) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{shown(k, string)}: {shown(v, string)}' for k, v in value.items())}}}"
    if type(value).__name__ == "device":
        return f'"{value}"'
    return str(value)


def shown_tensor(tensor: Tensor) -> str:
    """A tensor: the element of one, the rows of a small one, else a word."""
    if tensor.numel() == 1 and tensor.ndim <= 1:
        item = tensor.item()
        if isinstance(item, bool):
            item = int(item)
        return f"{{{_element(item)}}}"
    if tensor.numel() > SHOWN_ELEMENTS or tensor.ndim > 2:
        return "<Tensor>"
    kind = type_name(tensor)
    sizes = ",".join(map(str, tensor.shape))
    if not tensor.numel():
        return f"[ {kind}{{{sizes}}} ]"
    rows = tensor.tolist() if tensor.ndim == 2 else [[item] for item in tensor.tolist()]
    if tensor.is_complex():
        return " ".join(" ".join(f" {item}" for item in row) for row in rows) + f" [ {kind}{{{sizes}}} ]"
    head, width, show = _format([abs(float(item)) for row in rows for item in row])
    lines = [" ".join(show(float(item)).rjust(width) for item in row) for row in rows]
    return head + " ".join(lines) + f" [ {kind}{{{sizes}}} ]"


def _format(sizes: list[float]) -> tuple[str, int, Callable[[float], str]]:
    """How C++ streams write the elements of a tensor, by the digits that they need: a common factor, the width of an
    element, and its text."""
    finite = [size for size in sizes if math.isfinite(size)]
    low, high = (math.floor(math.log10(size)) + 1 if size else 1 for size in (min(finite, default=0.0),
                                                                             max(finite, default=0.0)))
    if all(size.is_integer() for size in finite) and len(finite) == len(sizes):
        return ("", 11, lambda item: f"{item:.4e}") if high > 9 else ("", high + 1, lambda item: f"{item:.0f}")
    if high - low > 4:
        return "", 11, lambda item: f"{item:.4e}"
    if high > 5 or high < 0:
        scale = 10.0 ** (high - 1)
        return f"{scale:g} * ", 7, lambda item: f"{item / scale:.4f}"
    return "", 7 if high == 0 else high + 6, lambda item: f"{item:.4f}"


def _element(item: Any) -> str:
    return f"{item:.6g}" if isinstance(item, float) else str(item)


def type_name(tensor: Tensor) -> str:
    """What C++ calls the tensor's kind: `CPUFloatType`."""
    from ..types import SCALAR_NAMES

    return f"{tensor.device.type.upper()}{SCALAR_NAMES[str(tensor.dtype).partition('.')[2]]}Type"
