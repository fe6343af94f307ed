"""Dataclasses among arguments and results: containers whose fields are leaves."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..utils import _pytree as pytree


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Let arguments and results be instances of a dataclass. With a name for it, programs with it can be saved."""
    if not dataclasses.is_dataclass(cls):
        raise AssertionError(f"register_dataclass: expected a dataclass, got {cls!r}")
    names = [f.name for f in dataclasses.fields(cls) if f.init]

    def flatten(value: Any) -> tuple[list[Any], Any]:
        present = [n for n in names if getattr(value, n) is not None]
        absent = [n for n in names if getattr(value, n) is None]
        return [getattr(value, n) for n in present], (cls, present, absent)

    def unflatten(values: Any, context: Any) -> Any:
        kind, present, absent = context
        return kind(**dict(zip(present, values, strict=True)), **dict.fromkeys(absent))

    def flatten_with_keys(value: Any) -> tuple[list[Any], Any]:
        leaves, context = flatten(value)
        return [(pytree.GetAttrKey(n), v) for n, v in zip(context[1], leaves, strict=True)], context

    options: dict[str, Any] = {}
    if serialized_type_name is not None:
        options = {
            "serialized_type_name": serialized_type_name,
            "to_dumpable_context": lambda context: [serialized_type_name, context[1], context[2]],
            "from_dumpable_context": lambda said: (cls, said[1], said[2]),
        }
    pytree.register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys, **options)
