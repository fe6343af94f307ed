"""How a chip with a fault is entered, and how the kernels of one are changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from rushlight.loops.expr import Value, rewrite
from rushlight.loops.nest import Check, For, Nest, Statement, Store, map_values, values_of
from rushlight.loops.record import Record

from .chips import SoundChip

FAULTS: dict[str, type[SoundChip]] = {}
Rule = Callable[[Value], Value | None]


def fault(area: str) -> Callable[[type[SoundChip]], type[SoundChip]]:
    """Enter a chip under its class's name, with the area that must find what is wrong with it."""

    def made(chip: type[SoundChip]) -> type[SoundChip]:
        chip.name = "".join("_" + c.lower() if c.isupper() else c for c in chip.__name__).lstrip("_")
        chip.area = area   # type: ignore[attr-defined]
        FAULTS[chip.name] = chip
        return chip

    return made


def with_values(nest: Nest, rule: Rule) -> Nest:
    """A nest in which every scalar expression went through `rule`."""
    values = values_of(nest)
    return map_values(nest, dict(zip(values, rewrite(values, rule), strict=True)))   # type: ignore[return-value]


def with_statements(item: Any, change: Callable[[Statement], Statement]) -> Any:
    """A nest (or a part of one) in which every statement went through `change`, inner ones first."""
    if isinstance(item, tuple):
        return tuple(with_statements(part, change) for part in item)
    if not isinstance(item, Record):
        return item
    made = type(item)(*[with_statements(getattr(item, field), change) for field in item.fields])
    return change(made) if isinstance(made, (For, Store, Check)) else made   # type: ignore[arg-type]


def statements(item: Any) -> list[Any]:
    """All statements of a nest's loop."""
    if isinstance(item, tuple):
        return [s for part in item for s in statements(part)]
    if not isinstance(item, Record):
        return []
    return [item, *itertools.chain(*(statements(getattr(item, field)) for field in item.fields))]
