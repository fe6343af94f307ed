"""Schemas read off functions: what the annotations of a Python function say about an op.

Enters: functions with annotations. Leaves: schemas as text. Refuses: annotations that no schema can express.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .. import _C
from .._C import Tensor

_ANNOTATIONS: dict[Any, str] = {
    Tensor: "Tensor", int: "int", float: "float", bool: "bool", str: "str", complex: "Scalar", _C.dtype: "dtype",
    _C.device: "device", int | float | bool: "Scalar",
}


def _annotation_text(note: Any) -> str:
    if note in _ANNOTATIONS:
        return _ANNOTATIONS[note]
    origin, inside = typing.get_origin(note), typing.get_args(note)
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in inside if a is not type(None)]
        if len(rest) < len(inside) and len(rest) == 1:
            return _annotation_text(rest[0]) + "?"
        if set(rest) <= {int, float, bool}:
            return "Scalar" + ("?" if len(rest) < len(inside) else "")
    if origin in (list, Sequence, typing.Sequence, Iterable, tuple):
        return _annotation_text(inside[0]) + "[]"
    raise ValueError(
        f"infer_schema: unsupported type annotation {note!r}. Use Tensor, int, float, bool, str, dtype, device,"
        " Optional or Sequence of them, or pass schema=."
    )


def infer_schema(
    prototype_function: Callable,
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Sequence[Any] = (),
) -> str:
    """The schema a function's annotations describe: "(Tensor x, int n=2) -> Tensor"."""
    notes = typing.get_type_hints(prototype_function)
    if mutates_args == "unknown":
        raise ValueError("infer_schema: mutates_args='unknown' is not supported; name the arguments the op writes")
    written = set((mutates_args,) if isinstance(mutates_args, str) else mutates_args)
    parts, keyword_only = [], False
    for name, p in inspect.signature(prototype_function).parameters.items():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise ValueError(f"infer_schema: *args and **kwargs cannot be part of a schema (parameter {name})")
        if name not in notes:
            raise ValueError(f"infer_schema: parameter {name} must have a type annotation")
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            parts.append("*")
        kind = _annotation_text(notes[name])
        if name in written:
            if not kind.startswith("Tensor"):
                raise ValueError(f"infer_schema: {name} is in mutates_args but is not a Tensor")
            kind = kind.replace("Tensor", f"Tensor(a{len(parts)}!)", 1)
        parts.append(
            f"{kind} {name}" if p.default is p.empty else f"{kind} {name}={p.default!r}".replace("rushlight.", "")
        )
    unknown = written - set(inspect.signature(prototype_function).parameters)
    if unknown:
        raise ValueError(f"infer_schema: mutates_args names {sorted(unknown)}, which are not parameters")
    note = notes.get("return", inspect.Parameter.empty)
    if note is inspect.Parameter.empty and "return" not in notes:
        raise ValueError("infer_schema: the function must have a return annotation")
    if note in (None, type(None)):
        result = "()"
    elif typing.get_origin(note) is tuple:
        result = "(" + ", ".join(_annotation_text(a) for a in typing.get_args(note)) + ")"
    else:
        result = _annotation_text(note)
    return f"{op_name or ''}({', '.join(parts)}) -> {result}"
