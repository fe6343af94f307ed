"""Programs as modules of the torch dialect, with `main` as their entry.

Enters: an exported program. Leaves: the same without writes (`prepared`), and a `Module` of that. Refuses: results that
are no tensors.
"""

from __future__ import annotations

from typing import Any

from ...export.decompositions import decomposed, default_table
from ..building import Builder
from ..printing import Module
from ..sized import module_of_walk
from .dialect import Torch


def prepared(program: Any) -> Any:
    """The program without writes, in core ATen ops."""
    return decomposed(program, default_table())


def module_of_program(program: Any, weights: str) -> Module:
    """The module of a program without writes."""
    return module_of_walk(program, Torch(Builder(), weights == "inline"))


__all__ = ["module_of_program", "prepared"]
