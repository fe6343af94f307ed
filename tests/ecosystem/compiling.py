"""How the cases run what is theirs to compile: as it is, or compiled.

Enters: a model or a function that a case hands to `prepared`. Leaves: the same thing, or while `compiled()` lasts a
compiled one; so one case serves to compare Rushlight with PyTorch (see compare.py) and compiled programs with
uncompiled ones (see compiled.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

_state = {"compiles": False, "prepared": 0}


def prepared(program: Any, in_place: bool = True) -> Any:
    """A module, compiled in place (or wrapped, with in_place=False), or a function, compiled; or what was given."""
    if not _state["compiles"]:
        return program
    _state["prepared"] += 1
    if isinstance(program, torch.nn.Module) and in_place:
        program.compile()
        return program
    return torch.compile(program)


@contextlib.contextmanager
def compiled() -> Iterator[Callable[[], int]]:
    """What is prepared from here on is compiled. Gives a function that says how many programs that were."""
    torch.compiler.reset()
    _state.update(compiles=True, prepared=0)
    try:
        yield lambda: _state["prepared"]
    finally:
        _state["compiles"] = False
