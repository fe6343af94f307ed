"""Programs as modules of linalg on tensors, with `main` as their entry.

Enters: an exported program. Leaves: the same without writes (`prepared`), and a `Module` of that. Refuses: results that
are neither tensors nor numbers.
"""

from __future__ import annotations

from typing import Any

from ...export.decompositions import decomposed
from ..building import Builder
from ..printing import Module
from ..sized import module_of_walk
from .dialect import Linalg


def prepared(program: Any) -> Any:
    """The program without writes; calls stay as they are."""
    for _ in range(4):      # bodies may write to tensors that they made: of those, passes over the result make values
        program = decomposed(program, rule_of=lambda target: None, keeps=lambda overload: not overload.inplace)
        if not any(getattr(node.target, "inplace", False) for node in program.graph.nodes):
            break
    return program


def module_of_program(program: Any, weights: str) -> Module:
    """The module of a program without writes."""
    return module_of_walk(program, Linalg(Builder(), weights == "inline"))


__all__ = ["module_of_program", "prepared"]
