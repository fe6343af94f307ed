"""Names that arrive late: what a package offers, and what upper layers provide to lower ones, imported when first used.

Enters: the package's globals, and which of its files has each name. Leaves: `__getattr__` and `__dir__` for it, so that
`package.name`, `from package import name` and (with `__all__`) `import *` work as if everything had been imported at
the start. Refuses: names that nobody has, with Python's usual error.

    __getattr__, __dir__ = late.names(globals(), {"Function": "function", "gradgradcheck": "gradcheck"},
    files=("gradcheck",))

A lower layer that needs something from above asks for a role (`late.provided("Parameter")`) and knows nothing of who
plays it; `wiring.py`, above both, registers who does.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

_ROOT = __name__.partition(".")[0]
_providers: dict[str, tuple[str, str]] = {}      # role -> (file below the package, name in it)
_provided: dict[str, Any] = {}
_importing: dict[int, int] = {}      # thread -> how many imports it is in
PATIENCE = 2.0                       # seconds a fork waits for the imports of other threads


def import_module(name: str, package: str | None = None) -> Any:
    """importlib's, known to forks: a child would wait for ever for the lock of a module that a thread it does not have
    was importing."""
    me = threading.get_ident()
    _importing[me] = _importing.get(me, 0) + 1
    try:
        return importlib.import_module(name, package)
    finally:
        _importing[me] -= 1
        if not _importing[me]:
            del _importing[me]


def _wait_for_imports() -> None:
    """Before a fork: let other threads finish what they import."""
    me, end = threading.get_ident(), time.monotonic() + PATIENCE
    while any(thread != me for thread in tuple(_importing)) and time.monotonic() < end:
        time.sleep(0.0005)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_imports, after_in_child=_importing.clear)


def names(
    package: dict, sources: Mapping[str, str], files: Iterable[str] = (), rest: Sequence[str] = ()
) -> tuple[Callable, Callable]:
    """(`__getattr__`, `__dir__`) for a package: `sources` maps its late names to files, `files` are late themselves.

    `rest` are files asked in turn for what is in neither: those of names that hardly any program uses,
    listed in their `NAMES`.
    """
    where, files = package["__package__"], frozenset(files)

    def get(name: str) -> object:
        if name in sources:
            module = import_module(f".{sources[name]}", where)
            # All names of the file: one of them may be the file's own name, and the import just put the module there.
            package.update({known: getattr(module, known) for known, file in sources.items() if file == sources[name]})
            return package[name]
        if name in files:
            return import_module(f".{name}", where)
        for file in () if name.startswith("_") else rest:
            module = import_module(f".{file}", where)
            if name in module.NAMES:
                package[name] = getattr(module, name)
                return package[name]
        raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")

    def list_names() -> list[str]:
        return sorted(
            {*package, *sources, *files, *(name for file in rest for name in import_module(f".{file}", where).NAMES)}
        )

    return get, list_names


def by_name(names_of: Mapping[str, str]) -> dict[str, str]:
    """Name -> file, from file -> its names with spaces between them."""
    return {name: file for file, text in names_of.items() for name in text.split()}


def rest(module: str, source: str) -> Callable:
    """`__getattr__` for a module whose other names are those of `source`, except what Python asks every module for."""

    def get(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(source), name)

    return get


def provide(providers: Mapping[str, str]) -> None:
    """Say who plays which role: role -> `file:name`, the file below the package (itself: ""); without a name,
    the module."""
    for role, place in providers.items():
        file, _, name = place.partition(":")
        _providers[role] = (file, name)


def provided(role: str) -> Any:
    """What an upper layer registered for `role`, imported at its first use. Refuses roles that nobody plays."""
    if role not in _provided:
        if role not in _providers:
            raise LookupError(
                f"late: expected somebody to provide {role!r}, got nobody. Register it in {_ROOT}/wiring.py."
            )
        file, name = _providers[role]
        module = import_module(f"{_ROOT}.{file}".rstrip("."))
        _provided[role] = getattr(module, name) if name else module
    return _provided[role]


def is_loaded(role: str) -> bool:
    """Whether whoever plays `role` was imported already: if not, nothing of its making exists."""
    return role in _providers and f"{_ROOT}.{_providers[role][0]}" in sys.modules
