"""Where packages find modules: this process, an archive, or several places in order.

Enters: names of modules, objects to be named. Leaves: modules, and the (module, name) by which a place knows an object.
Refuses objects that a place does not have under their name, or has another object under.
"""

from __future__ import annotations

import importlib
import pickle
from abc import ABC, abstractmethod
from types import ModuleType
from typing import Any

from ..base import homes


class ObjNotFoundError(Exception):
    """A place has nothing under an object's name."""


class ObjMismatchError(Exception):
    """A place has another object under an object's name."""


class Importer(ABC):
    """A place modules come from."""

    modules: dict[str, ModuleType]

    @abstractmethod
    def import_module(self, module_name: str) -> ModuleType:
        """The module of a name."""

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        """(module, name) under which this place has `obj`."""
        if name is None:
            name = getattr(obj, "__qualname__", None) or obj.__name__
        module_name = self.whichmodule(obj, name)
        try:
            found: Any = self.import_module(module_name)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as missing:
            raise ObjNotFoundError(f"{obj!r} was not found as {module_name}.{name}") from missing
        if found is not obj:
            raise ObjMismatchError(f"{module_name}.{name} is {found!r} here, not the object to be saved: {obj!r}")
        return module_name, name

    def whichmodule(self, obj: Any, name: str) -> str:
        """The module an object says it is from, without the mark of an archive."""
        return without_mark(getattr(obj, "__module__", None) or pickle.whichmodule(obj, name))


class _SysImporter(Importer):
    """This process."""

    def import_module(self, module_name: str) -> ModuleType:
        return importlib.import_module(module_name)

    def whichmodule(self, obj: Any, name: str) -> str:
        return pickle.whichmodule(obj, name)


sys_importer = _SysImporter()


class OrderedImporter(Importer):
    """Several places: the first that has a module gives it."""

    def __init__(self, *args: Importer) -> None:
        self._importers = list(args)

    def import_module(self, module_name: str) -> ModuleType:
        last: ModuleNotFoundError | None = None
        for importer in self._importers:
            if not isinstance(importer, Importer):
                raise TypeError(f"OrderedImporter: expected importers, got {importer!r}")
            try:
                return importer.import_module(module_name)
            except ModuleNotFoundError as missing:
                last = missing
        raise last or ModuleNotFoundError(module_name)

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        failures: list[Exception] = []
        for importer in self._importers:
            try:
                return importer.get_name(obj, name)
            except (ObjNotFoundError, ObjMismatchError) as failure:
                failures.append(failure)
        raise failures[-1] if failures else ObjNotFoundError(f"{obj!r}: there is no importer to ask")


def without_mark(name: str) -> str:
    """A module's name without `<torch_package_3>.` before it."""
    return name.partition(".")[2] if name.startswith("<torch_package_") else name


def homes_name(module: str) -> str:
    """A module by the name files use: PyTorch's."""
    return "torch" + module[len(homes.PACKAGE) :] if module.partition(".")[0] == homes.PACKAGE else module
