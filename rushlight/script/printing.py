"""Values of a running script as it prints them: `print`, `str`, `format`, `%`.

Enters: values. Leaves: text: floats with a point and 17 digits, words without quotes, tensors in columns with their
kind and sizes below. Refuses: format specifiers that the language does not have.
"""

from __future__ import annotations

import enum
import itertools
import math
from typing import Any

from .. import _C
from .types import SCALAR_NAMES

_LINE = 80


def printed(value: Any) -> str:
    """One value."""
    if isinstance(value, enum.Enum):
        return f"Enum<{type(value).__name__}.{value.name}>"
    if isinstance(value, (bool, str, int)) or value is None:
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, complex):
        sign = "" if value.imag < 0 or math.copysign(1.0, value.imag) < 0 else "+"
        return f"{_float(value.real)}{sign}{_float(value.imag)}j"
    if isinstance(value, _C.Tensor):
        return _tensor(value)
    if isinstance(value, list):
        return f"[{', '.join(map(printed, value))}]"
    if isinstance(value, tuple):
        return f"({printed(value[0])},)" if len(value) == 1 else f"({', '.join(map(printed, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{printed(k)}: {printed(v)}' for k, v in value.items())}}}"
    return str(value)


def _float(value: float) -> str:
    if math.isfinite(value) and abs(value) < 2**63 and value.is_integer():
        return f"-{0}." if value == 0 and math.copysign(1.0, value) < 0 else f"{int(value)}."
    return f"{value:.17g}"


def show(*values: Any) -> None:
    """`print`."""
    print(" ".join(map(printed, values)))


def formatted(text: str, *values: Any) -> str:
    """`'{}'.format(...)`: plain braces, each for the next value."""
    first, *rest = text.split("{}")
    if len(rest) > len(values):
        raise RuntimeError(f"Too few arguments for format string: {text}")
    return first + "".join(printed(value) + part for value, part in zip(values, rest, strict=False))


def percent_formatted(text: str, *values: Any) -> str:
    """`'%s %d' % ...`: plain specifiers, without widths."""
    given = list(values[0]) if len(values) == 1 and isinstance(values[0], tuple) else list(values)
    out, rest, used = "", text, 0
    while (at := rest.find("%")) >= 0:
        out, key, rest = out + rest[:at], rest[at + 1 : at + 2], rest[at + 2 :]
        if not key:
            raise RuntimeError(f"Incomplete format specifier in {text!r}")
        if key == "%":
            out += "%"
            continue
        if used >= len(given):
            raise RuntimeError(f"Too few arguments for format string: {text}")
        out += _specified(key, given[used])
        used += 1
    if used < len(given):
        raise RuntimeError(f"Too many arguments for format string: {text}")
    return out + rest


def _specified(key: str, value: Any) -> str:
    if key == "s":
        return printed(value)
    if key in "dieEfF":
        if not isinstance(value, (int, float)):
            raise RuntimeError(f"%{key} formats a number, got {type(value).__name__}")
        return str(int(value)) if key in "di" else f"{float(value):{key}}"
    if key == "c" and isinstance(value, (int, str)) and (isinstance(value, int) or len(value) == 1):
        return chr(value) if isinstance(value, int) else value
    if key == "c":
        raise RuntimeError(f"%c formats an int or one character, got {value!r:.80}")
    raise RuntimeError(f"The specifier %{key} is not supported in TorchScript format strings")


# --- tensors ----------------------------------------------------------------------------------------------------------


def _tensor(value: Any) -> str:
    kind = SCALAR_NAMES.get(str(value.dtype).rpartition(".")[2], str(value.dtype))
    place = str(value.device).partition(":")[0].upper()
    sizes = ",".join(map(str, value.shape))
    return f"{_body(value.detach())}[ {place}{kind}Type{{{sizes}}} ]"


def _body(value: Any) -> str:
    if value.dim() == 0:
        return f"{_element(value.item(), '')}\n"
    if value.numel() == 0:
        return ""
    if value.dim() == 1:
        scale, width, form = _form(value.tolist())
        head = f"{scale:g} *\n" if scale != 1 else ""
        return head + "".join(f"{_element(item, form, scale):>{width}}\n" for item in value.tolist())
    if value.dim() == 2:
        return _matrix(value, 0)
    parts = []
    for place in itertools.product(*map(range, value.shape[:-2])):
        parts.append(f"({','.join(str(i + 1) for i in place)},.,.) = \n{_matrix(value[place], 1)}")
    return "\n".join(parts)


def _element(item: Any, form: str, scale: float = 1.0) -> str:
    if isinstance(item, (bool, complex)):
        return printed(item) if isinstance(item, complex) else str(int(item))
    if form:
        return f"{item / scale if scale != 1 else item:{form}}"
    return f"{item:.6g}" if isinstance(item, float) else str(item)


def _form(items: list[Any]) -> tuple[float, int, str]:
    """How the numbers of a tensor are written: what they are divided by, how wide, in which form."""
    if any(isinstance(item, complex) for item in items):
        return 1, max(len(printed(item)) for item in items), ""
    finite = [abs(float(item)) for item in items if math.isfinite(item)]
    low, high = (_digits(min(finite)), _digits(max(finite))) if finite else (1, 1)
    if all(not math.isfinite(item) or float(item).is_integer() for item in items):
        return (1, 11, ".4e") if high > 9 else (1, high + 1, "g" if isinstance(items[0], float) else "")
    if high - low > 4:
        return 1, 12 if abs(high) > 99 or abs(low) > 99 else 11, ".4e"
    if high > 5 or high < 0:
        return 10.0 ** (high - 1), 7, ".4f"
    return 1, 7 if high == 0 else high + 6, ".4f"


def _digits(value: float) -> int:
    return math.floor(math.log10(value)) + 1 if value else 1


def _matrix(value: Any, indent: int) -> str:
    scale, width, form = _form(value.flatten().tolist())
    most = (_LINE - indent) // (width + 1)
    rows, columns, lead = value.tolist(), value.shape[1], " " * indent
    out = ""
    for first in range(0, columns, most):
        last = min(first + most, columns)
        if most < columns:
            out += ("\n" if first else "") + f"Columns {first + 1} to {last}"
        out += lead + (f"{scale:g} *\n{lead}" if scale != 1 else "")
        out += lead.join(" ".join(f"{_element(item, form, scale):>{width}}" for item in row[first:last]) + "\n"
                         for row in rows)
    return out
