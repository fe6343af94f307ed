"""How the cases run what is theirs to compile: as it is, or compiled.

Enters: a model or a function that a case hands to `prepared`. Leaves: the same thing, or while `compiled()` lasts a
compiled one, with every break of its graphs noted; so one case serves to compare Rushlight with PyTorch (see
compare.py) and compiled programs with uncompiled ones (see compiled.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

_programs: list[dict[str, Any]] | None = None      # what was prepared, while it is to be compiled


def prepared(program: Any, in_place: bool = True) -> Any:
    """A module, compiled in place (or wrapped, with in_place=False), or a function, compiled; or what was given."""
    if _programs is None:
        return program
    name = getattr(program, "__qualname__", type(program).__qualname__).rpartition(".")[2]
    note = {"name": name.replace("<lambda>", "function"), "breaks": {}, "graphs": 0}
    _programs.append(note)
    if not isinstance(program, torch.nn.Module):
        return noted(torch.compile(program), note)
    if not in_place:
        note["is_open"] = True      # who calls it is not known here: all breaks that nobody else had are its own
        return torch.compile(program)
    program.compile()
    program.__dict__["_compiled_call_impl"] = noted(program._compiled_call_impl, note)
    return program


def noted(function: Callable, note: dict[str, Any]) -> Callable:
    """`function`, with what it compiled and where graphs broke written into `note`."""
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        take(None)
        try:
            return function(*args, **kwargs)
        finally:
            take(note)

    return call


def take(note: dict[str, Any] | None) -> None:
    """Move what was counted into `note`, or into the open program where there is one."""
    counters = torch._dynamo.utils.counters
    note = note or next((program for program in _programs or () if program.get("is_open")), None)
    if note is not None:
        note["breaks"].update(counters["graph_break"])
        note["breaks"].update(counters["checks_failed"])      # frames that ran as they are
        note["graphs"] += counters["stats"]["unique_graphs"]
    counters.clear()


@contextlib.contextmanager
def compiled() -> Iterator[list[dict[str, Any]]]:
    """What is prepared from here on is compiled. Gives the list of it, complete at the end."""
    global _programs
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    _programs = programs = []
    try:
        yield programs
        take(None)
    finally:
        _programs = None
