"""`torch.classes`: classes that PyTorch writes in C++: those of packed weights are here. Extensions cannot add any.

Enters: a namespace and a name. Leaves: the class; RuntimeError, as PyTorch raises, for a class nobody registered;
libraries are remembered.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from .base import late

loaded_libraries: set[str] = set()
__path__: list[str] = []     # a package, as programs that import from it expect


class _ClassNamespace(ModuleType):
    """The classes of one namespace."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        space = self.__name__.rpartition(".")[2]
        late.provided("quantized ops")(space)
        found = late.provided("packed classes").get(f"__torch__.torch.classes.{space}.{name}")
        if found is not None:
            return found
        raise RuntimeError(f"classes: no class '{space}.{name}' is registered. Load the extension that defines it.")


def load_library(path: str) -> None:
    """Load a binary extension; see `ops.load_library`. The stable ABI registers ops, and no classes."""
    late.provided("load_library")(path)
    loaded_libraries.add(os.fspath(path))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    result = globals()[name] = _ClassNamespace(f"{__name__}.{name}")
    return result
