"""Names that arrive late: what a package offers, imported when first used.

Enters: the package's globals, and which of its modules has each name. Leaves: `__getattr__` and `__dir__` for it, so
that `package.name`, `from package import name` and `import *` work as if everything had been imported at the start.
Refuses: names that nobody has, with Python's usual error.

    __getattr__, __dir__ = late.names(globals(), {"Function": "function", "gradcheck": "gradcheck"})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def names(package: dict, sources: Mapping[str, str], modules: Iterable[str] = ()) -> tuple[Callable, Callable]:
    """(`__getattr__`, `__dir__`) for a package: `sources` maps its late names to modules, `modules` are late themselves."""
    name_of_package = package["__name__"]
    known = frozenset(modules)

    def get(name: str) -> object:
        if name in sources:
            found = package[name] = getattr(import_module(f".{sources[name]}", name_of_package), name)
            return found
        if name in known:
            return import_module(f".{name}", name_of_package)
        raise AttributeError(f"module {name_of_package!r} has no attribute {name!r}")

    def list_names() -> list[str]:
        return sorted({*package, *sources, *known})

    return get, list_names
