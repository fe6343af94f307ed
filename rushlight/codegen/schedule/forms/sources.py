"""What a body reads, as the sources it is given, and the run-time parameters that these take.

Enters: a Lowered. Leaves: sources in the order of its reads; names and values of parameters: numbers by their bits, and
for bodies with places of their own (`Bound`) sizes and strides where a kernel's code does not know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....loops.expr import cast
from ....loops.lowered import GENERAL, SINGLE, Elements, Given, Lowered, Memory, number_value
from .launch import number_bits, number_names


def given_bits(lowered: Lowered) -> list[int]:
    return [bits for r in lowered.reads if not isinstance(r, Memory) for bits in number_bits(r.value)]


def given_names(lowered: Lowered) -> list[str]:
    return [name for r in lowered.reads if not isinstance(r, Memory) for name in number_names(r.name, r.value)]


def sources_of(lowered: Lowered, placed: Sequence[Any]) -> list[Any]:
    """All sources in the order of the reads, from those of the tensors."""
    left = iter(placed)
    return [
        next(left) if isinstance(r, Memory) else Given(cast(number_value(r.name, r.value), r.code))
        for r in lowered.reads
    ]


class Bound:
    """The reads of a body with places of its own: its sources, and the parameters they need."""

    def __init__(self, lowered: Lowered) -> None:
        self.sources: list[Any] = []
        self.params: list[str] = []
        self.values: list[int] = []
        self.codes: list[str] = []
        key = []
        for r in lowered.reads:
            if isinstance(r, Memory):
                kinds = r.classes()
                self.sources.append(Elements(len(self.codes), r.name, r.code, kinds, r.dims))
                self.codes.append(r.code)
                add_geometry(r.name, r.sizes, r.strides, kinds, self.params, self.values)
                key.append((r.code, kinds))
            else:
                self.sources.append(Given(cast(number_value(r.name, r.value), r.code)))
                self.params += number_names(r.name, r.value)
                self.values += number_bits(r.value)
                key.append(type(r.value))
        self.key = tuple(key)


def add_geometry(
    name: str, sizes: Sequence[int], strides: Sequence[int], kinds: Sequence[int], params: list[str], values: list[int]
) -> None:
    """Add the sizes and strides that are run-time parameters."""
    for d, kind in enumerate(kinds):
        if kind != SINGLE:
            params.append(f"{name}.n{d}")
            values.append(sizes[d])
        if kind == GENERAL:
            params.append(f"{name}.s{d}")
            values.append(strides[d])
