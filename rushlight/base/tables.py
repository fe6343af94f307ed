"""Tables that lie as text beside the module they belong to, and are read when first asked for.

Enters: a module's own `__file__`; its table has the same name, or the one given, and ends in `.txt`. Leaves: the rows
of the text, or a module's `__getattr__` that finds tables of floats in it. A row is a line and the indented lines below
it, which go on with it; a line that begins with `#` is a comment. Refuses: names that no row has, as modules do.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

Floats = tuple[float, ...]


def rows(module_file: str, name: str | None = None) -> list[str]:
    """The rows of the text beside a module, the parts of each joined by single spaces."""
    place = os.path.splitext(module_file)[0] if name is None else os.path.join(os.path.dirname(module_file), name)
    with open(place + ".txt", encoding="utf-8") as file:
        lines = [line.rstrip() for line in file if line.strip() and not line.startswith("#")]
    found: list[list[str]] = []
    for line in lines:
        if line[0] == " ":
            found[-1].append(line.lstrip())
        else:
            found.append([line])
    return [" ".join(parts) for parts in found]


def float_tables(module: str, module_file: str) -> Callable[[str], Floats | dict[str, Floats]]:
    """A `__getattr__` for a module of tables: a row `NAME: numbers` is a tuple of this name, rows `NAME label: numbers`
    are one dict from labels to tuples. Numbers are written as `repr` does, so none loses a bit."""

    @functools.cache
    def texts() -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for row in rows(module_file):
            head, _, numbers = row.partition(":")
            name, _, label = head.partition(" ")
            found.setdefault(name, {})[label] = numbers
        return found

    @functools.cache
    def table(name: str) -> Floats | dict[str, Floats]:
        if name not in texts():
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        entries = {label: tuple(map(float, numbers.split())) for label, numbers in texts()[name].items()}
        return entries.get("", entries)

    return table
