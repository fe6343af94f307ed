"""`import torch._C._profiler`: the core's modules that are Python here, found by the import system.

Enters: the name by which the package is imported. Leaves: entries of `sys.modules` that look each name up in the core
when it is asked for. Nothing else is imported.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .. import _C

NAMES = ("_profiler", "_autograd", "_nn", "_functorch")


class CoreModule(ModuleType):
    """A module of the core, by name."""

    def __init__(self, package: str, name: str) -> None:
        super().__init__(f"{package}._C.{name}")
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(getattr(_C, self._name), name)


def register(package: str) -> None:
    """Let them be imported from `package`."""
    for name in NAMES:
        sys.modules.setdefault(f"{package}._C.{name}", CoreModule(package, name))
