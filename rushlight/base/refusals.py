"""The names that exist only to refuse: what PyTorch has and Rushlight has not built, by system,
with the reason each gives.

Enters: the one table, refusals.txt. Leaves: stand-ins for the modules that carry such names (`names_of`), the reason
of a name (`reason_of`, which `rushlight check` asks) and all of them (`listed`, from which the documentation is made).
A name leaves the table on the day it works; a test keeps the table and the tree together.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

from .absent import absent
from .tables import rows


class System(NamedTuple):
    """A part of PyTorch that is missing: why, and which names of which modules belong to it."""

    title: str
    reason: str
    names: dict[str, list[str]]


def _read() -> tuple[tuple[System, ...], tuple[System, ...]]:
    """The systems of stand-ins, and those of functions that stand in files of their own and only refuse."""
    stand_ins: list[System] = []
    functions: list[System] = []
    for row in rows(__file__):
        title, reason, words = row.split(" | ")
        names: dict[str, list[str]] = {}
        for word in words.split():
            if word.endswith(":"):
                members = names.setdefault(word[:-1], [])
            else:
                members.append(word)
        system = System(title.removesuffix(", functions"), reason, names)
        (functions if title.endswith(", functions") else stand_ins).append(system)
    return tuple(stand_ins), tuple(functions)


SYSTEMS, FUNCTIONS = _read()


@functools.cache
def _reasons(are_functions: bool = False) -> dict[str, dict[str, str]]:
    """Module -> name -> reason."""
    found: dict[str, dict[str, str]] = {}
    for system in FUNCTIONS if are_functions else SYSTEMS:
        for module, names in system.names.items():
            found.setdefault(module, {}).update(dict.fromkeys(names, system.reason))
    return found


@functools.cache
def stand_in(module: str, name: str) -> type:
    """The class that stands for `module.name`, one and the same wherever it is published.
    Refuses names without a row."""
    return absent(module, name, _reasons()[module][name])


def names_of(module: str) -> dict[str, type]:
    """The stand-ins of a module of PyTorch, by name."""
    return {name: stand_in(module, name) for name in _reasons()[module]}


def reason_of(name: str) -> str | None:
    """Why a dotted `torch` name, or the class it is an attribute of, refuses;
    None for names that are not in the table."""
    module, _, last = name.rpartition(".")
    while module:
        for table in (_reasons(), _reasons(are_functions=True)):
            if last in table.get(module, ()):
                return table[module][last]
        module, _, last = module.rpartition(".")
    return None


def listed() -> Iterator[tuple[str, str, str]]:
    """(system, reason, dotted name) of every row, system by system."""
    rows = [(system.title, system.reason, f"{module}.{name}")
            for system in (*SYSTEMS, *FUNCTIONS) for module, names in system.names.items() for name in names]
    titles = [*dict.fromkeys(title for title, _, _ in rows)]
    yield from sorted(rows, key=lambda row: titles.index(row[0]))
