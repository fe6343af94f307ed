"""Arguments of a call as its schema names them."""

from __future__ import annotations

from typing import Any


def bound_arguments(overload: Any, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Every parameter of the schema, defaults filled in."""
    return tuple(
        args[i] if i < len(args) else kwargs.get(p.name, p.default)
        for i, p in enumerate(overload.definition.spec.params)
    )
