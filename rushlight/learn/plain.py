"""Values as plain data: what travels from the child that runs an answer to the process that judges it.

Enters: any value. Leaves: data that JSON holds, of bounded size, and one line that shows it; tensors and arrays
travel as kind, shape and elements. Refuses: nothing; what is neither data nor a tensor travels as the name of its
type, which equals nothing.
"""

from __future__ import annotations

import inspect
import math
import re
import reprlib
from collections.abc import Collection
from typing import Any

MOST_ELEMENTS = 50_000
MOST_DEPTH = 30
SHOWN = 160
BRIEF = reprlib.Repr()        # never looks at all of a large list
BRIEF.maxlevel, BRIEF.maxlist, BRIEF.maxtuple, BRIEF.maxset, BRIEF.maxdict = 8, 40, 40, 40, 40
BRIEF.maxstring, BRIEF.maxother, BRIEF.maxlong = 600, 4000, 60
ENDLESS = 1 << 4096      # longer integers are no answer to anything, and slow to write down


def plain(value: Any) -> Any:
    """`value` as JSON can hold it."""
    return _plain(value, 0, [MOST_ELEMENTS])


def _plain(value: Any, depth: int, left: list[int]) -> Any:
    """The same inside of `depth` lists, with room for so many elements."""
    left[0] -= 1
    if depth > MOST_DEPTH or left[0] < 0:
        return {"too": "large"}
    if value is None or isinstance(value, bool | float):
        return value if value is None or isinstance(value, bool) else float(value)
    if isinstance(value, int):
        return int(value) if abs(value) < ENDLESS else {"too": "large"}
    if isinstance(value, str):
        return str(value[:MOST_ELEMENTS])
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, list | tuple):
        return _row(value, depth, left)
    if isinstance(value, dict):
        return {"pairs": _row(value.items(), depth, left)}
    if isinstance(value, set | frozenset):
        return {"set": sorted(_row(value, depth, left), key=repr)}
    if all(hasattr(value, name) for name in ("tolist", "shape", "dtype")):
        shape = [int(size) for size in value.shape]
        if math.prod(shape) > left[0]:
            return {"too": "large"}
        name = str(value.dtype).rpartition(".")[2]
        kind = next((word for word in ("bool", "int", "complex") if word in name), "float")
        tensor = {"tensor": [kind, shape, _plain(value.tolist(), depth + 1, left)]}
        is_number = any(base.__name__ == "generic" and base.__module__ == "numpy" for base in type(value).__mro__)
        return {**tensor, "number": tensor["tensor"][2]} if is_number else tensor
    return {"object": type(value).__name__}


def _row(values: Collection[Any], depth: int, left: list[int]) -> list[Any]:
    return [{"too": "large"}] if len(values) > left[0] else [_plain(value, depth + 1, left) for value in values]


def same(expected: Any, got: Any, tolerance: float) -> bool:
    """Whether two plain values are equal, floats within a relative and absolute tolerance. NumPy's numbers are equal to
    numbers and to tensors of one element."""
    if isinstance(got, dict) and "number" in got:
        got = {"tensor": got["tensor"]} if isinstance(expected, dict) else got["number"]
    if isinstance(expected, bool) or isinstance(got, bool) or expected is None or got is None:
        return expected is got
    if isinstance(expected, int) and isinstance(got, int):
        return expected == got
    if isinstance(expected, int | float) and isinstance(got, int | float):
        return _near(expected, got, tolerance)
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(same(a, b, tolerance) for a, b in zip(expected, got))
    if isinstance(expected, dict) and isinstance(got, dict):
        if expected.keys() != got.keys() or expected.keys() & {"object", "too"}:
            return False
        if "pairs" in expected:
            return same(sorted(expected["pairs"], key=repr), sorted(got["pairs"], key=repr), tolerance)
        return all(same(expected[name], got[name], tolerance) for name in expected)
    return type(expected) is type(got) and expected == got


def _near(expected: float, got: float, tolerance: float) -> bool:
    try:
        a, b = float(expected), float(got)
    except OverflowError:
        return expected == got
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or (math.isfinite(b) and abs(a - b) <= tolerance * max(1.0, abs(a)))


def difference(expected: Any, got: Any, tolerance: float, place: str = "") -> str:
    """Where two plain values first differ, and how; empty where that cannot be told in a few words."""
    both = (expected, got)
    if all(isinstance(value, dict) and "tensor" in value for value in both):
        (kind, shape, elements), (other_kind, other_shape, other) = (value["tensor"] for value in both)
        if shape != other_shape:
            return f"has shape {tuple(other_shape)} instead of {tuple(shape)}"
        if kind != other_kind:
            return f"has elements of kind {other_kind} instead of {kind}"
        return difference(elements, other, tolerance, place)
    if all(isinstance(value, list) for value in both):
        if len(expected) != len(got):
            return f"has {len(got)} values instead of {len(expected)}{' in ' + place if place else ''}"
        for number, (a, b) in enumerate(zip(expected, got)):
            if not same(a, b, tolerance):
                return difference(a, b, tolerance, f"{place}[{number}]")
    if place and not any(isinstance(value, list | dict) for value in both):
        return f"has {got!r:.40} instead of {expected!r:.40} at {place}"
    return ""


def show(value: Any) -> str:
    """One line that shows a value, cut in its middle where it is long."""
    if inspect.isgenerator(value):
        return "a generator, since its function says yield"
    if inspect.iscoroutine(value):
        value.close()       # nobody waits for it
        return "a coroutine, since its function is async"
    try:
        text = " ".join(BRIEF.repr(value).split()).replace("rushlight.", "").replace("torch.", "")
        text = re.sub(r" at 0x[0-9a-f]+", "", text)
    except BaseException as wrong:     # a repr of the answer's own
        text = f"a {type(value).__name__} whose repr raised {type(wrong).__name__}"
    return text if len(text) <= SHOWN else f"{text[: SHOWN // 2]} … {text[-SHOWN // 2 :]}"
