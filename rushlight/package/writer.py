"""Writing a package: objects, the modules that define what they hold, text and bytes, in one zip archive.

Enters: objects and rules for modules. Leaves: `archive/` with sources, pickles, storages and the list of external
modules. Refuses to close while a module that is needed has no rule, is denied, or has no Python source.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import pickle
import platform
import sys
import zipfile
from collections.abc import Sequence
from enum import Enum
from typing import Any

from .. import _C
from .._C import UntypedStorage
from ..base import homes
from ..tensors.storages import TypedStorage, legacy_class
from .importer import Importer, OrderedImporter, homes_name, sys_importer
from .patterns import GlobGroup, GlobPattern


class PackagingErrorReason(Enum):
    """Why a module cannot be in a package."""

    IS_EXTENSION_MODULE = "it is not written in Python and cannot be copied. Make it external or mock it."
    NO_DUNDER_FILE = "it has no file, so that its source is not known."
    SOURCE_FILE_NOT_FOUND = "its source file was not found."
    DEPENDENCY_RESOLUTION_FAILED = "what it imports could not be found out."
    NO_ACTION = "no rule matches it. Say intern, extern, mock or deny for its name."
    DENIED = "a rule denies it."
    MOCKED_BUT_STILL_USED = "it is mocked, but an object that is saved needs it."

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__}.{self.name}>"


class PackagingError(Exception):
    """A package could not be written; says which modules are at fault, and why."""

    def __init__(self, dependency_graph: dict[str, PackagingErrorReason], debug: bool = False) -> None:
        self.broken = dependency_graph
        super().__init__(
            "\n".join(
                [
                    "the package cannot be written:",
                    *(f"  {name}: {why.value}" for name, why in sorted(dependency_graph.items())),
                ]
            )
        )


class EmptyMatchError(Exception):
    """A rule with `allow_empty=False` matched no module."""


class _Rule:
    def __init__(self, action: str, include: GlobPattern, exclude: GlobPattern, allow_empty: bool) -> None:
        self.action, self.group, self.allow_empty, self.was_used = (
            action,
            GlobGroup(include, exclude=exclude),
            allow_empty,
            False,
        )


class PackageExporter:
    """Writes one package; used in a `with`, at whose end the archive is completed."""

    def __init__(self, f: Any, importer: Importer | Sequence[Importer] = sys_importer, debug: bool = False) -> None:
        self._zip = zipfile.ZipFile(f, "w", zipfile.ZIP_STORED)
        self.importer = importer if isinstance(importer, Importer) else OrderedImporter(*importer)
        self.debug = debug
        self._rules: list[_Rule] = []
        self._needed: dict[str, str | None] = {}      # module -> who needs it
        self._actions: dict[str, str] = {}
        self._broken: dict[str, PackagingErrorReason] = {}
        self._sources: dict[str, tuple[str, bool]] = {}
        self._storages: dict[int, tuple[int, UntypedStorage]] = {}
        self._edges: dict[str, set[str]] = {}
        self._is_closed = False

    # --- rules --------------------------------------------------------------------------------------------------------

    def intern(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True) -> None:
        """Copy the modules of these names into the package."""
        self._rules.append(_Rule("intern", include, exclude, allow_empty))

    def extern(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True) -> None:
        """Import the modules of these names where the package is read."""
        self._rules.append(_Rule("extern", include, exclude, allow_empty))

    def mock(self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True) -> None:
        """Put stand-ins for the modules of these names, which refuse to be used."""
        self._rules.append(_Rule("mock", include, exclude, allow_empty))

    def deny(self, include: GlobPattern, *, exclude: GlobPattern = ()) -> None:
        """Refuse to write a package that needs modules of these names."""
        self._rules.append(_Rule("deny", include, exclude, True))

    def _action(self, module: str) -> str | None:
        root = module.partition(".")[0]
        if root in sys.stdlib_module_names or homes.is_ours(module) or root == "torch":
            return "extern"
        for rule in self._rules:
            if rule.group.matches(module):
                rule.was_used = True
                return rule.action
        return None

    # --- modules ------------------------------------------------------------------------------------------------------

    def add_dependency(self, module_name: str, dependencies: bool = True, *, needed_by: str | None = None) -> None:
        """Need a module: what becomes of it is decided by the first rule that matches its name."""
        if needed_by is not None:
            self._edges.setdefault(needed_by, set()).add(module_name)
        if module_name in self._needed:
            return
        self._needed[module_name] = needed_by
        action = self._action(module_name)
        if action is None or action == "deny":
            self._broken[module_name] = (
                PackagingErrorReason.NO_ACTION if action is None else PackagingErrorReason.DENIED
            )
            return
        self._actions[module_name] = action
        if action == "intern":
            self._intern(module_name, dependencies)

    def save_module(self, module_name: str, dependencies: bool = True) -> None:
        """Copy a module into the package, and need what it imports."""
        if not isinstance(module_name, str):
            raise TypeError(
                f"save_module: expected the name of a module, got {type(module_name).__name__}. Pass module.__name__."
            )
        self._needed.setdefault(module_name, None)
        self._actions[module_name] = "intern"
        self._intern(module_name, dependencies)

    def _intern(self, module_name: str, dependencies: bool) -> None:
        module = self.importer.import_module(module_name)
        file = getattr(module, "__file__", None)
        loader = getattr(module, "__loader__", None)
        source = loader.get_source(module_name) if hasattr(loader, "get_source") else None
        if source is None:
            self._broken[module_name] = (
                PackagingErrorReason.NO_DUNDER_FILE if file is None else PackagingErrorReason.IS_EXTENSION_MODULE
            )
            return
        self._put_source(module_name, source, hasattr(module, "__path__"), dependencies)

    def save_source_file(self, module_name: str, file_or_directory: str, dependencies: bool = True) -> None:
        """Copy a file, or a folder of them, into the package under a module's name."""
        from pathlib import Path

        path = Path(file_or_directory)
        if not path.is_dir():
            self.save_source_string(module_name, path.read_text(), path.name == "__init__.py", dependencies)
            return
        for file in sorted(path.rglob("*.py")):
            parts = file.relative_to(path).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join([module_name, *(parts[:-1] if is_package else parts)])
            self.save_source_string(name, file.read_text(), is_package, dependencies)

    def save_source_string(
        self, module_name: str, src: str, is_package: bool = False, dependencies: bool = True
    ) -> None:
        """Put source text into the package as a module."""
        self._needed.setdefault(module_name, None)
        self._actions[module_name] = "intern"
        self._put_source(module_name, src, is_package, dependencies)

    def _put_source(self, module_name: str, source: str, is_package: bool, dependencies: bool) -> None:
        self._sources[module_name] = source, is_package
        parent = module_name.rpartition(".")[0]
        if (
            parent
            and parent not in self._sources
            and self._action(parent) == "intern"
            and importlib.util.find_spec(parent.partition(".")[0])
        ):
            self.add_dependency(parent, dependencies, needed_by=module_name)
        if dependencies:
            for needed in _imports(module_name, source, is_package):
                if needed != module_name:
                    self.add_dependency(self._module_of(needed), needed_by=module_name)

    def _module_of(self, name: str) -> str:
        """The module that `from a import b` needs: `a.b` where that is one, else `a`."""
        parent = name.rpartition(".")[0]
        if not parent or name in self._sources:
            return name
        if self._action(parent) != "intern" and parent not in self._sources:
            return parent
        try:
            self.importer.import_module(name)
        except ImportError:
            return parent
        return name

    # --- data ---------------------------------------------------------------------------------------------------------

    def save_text(self, package: str, resource: str, text: str) -> None:
        """Put text into the package."""
        self.save_binary(package, resource, text.encode("utf-8"))

    def save_binary(self, package: str, resource: str, binary: bytes) -> None:
        """Put bytes into the package."""
        self._zip.writestr(f"archive/{package.replace('.', '/')}/{resource}", binary)

    def save_pickle(
        self, package: str, resource: str, obj: Any, dependencies: bool = True, pickle_protocol: int = 3
    ) -> None:
        """Pickle an object, and need the modules that define what it holds."""
        file = io.BytesIO()
        pickler = _Pickler(self, file, pickle_protocol)
        pickler.dump(obj)
        if dependencies:
            for module in sorted(pickler.modules):
                self.add_dependency(module, needed_by=f"<{package}.{resource}>")
                if self._actions.get(module) == "mock":
                    self._broken[module] = PackagingErrorReason.MOCKED_BUT_STILL_USED
        self.save_binary(package, resource, file.getvalue())

    def _storage(self, storage: UntypedStorage) -> int:
        return self._storages.setdefault(storage._cdata, (len(self._storages), storage))[0]

    # --- answers ------------------------------------------------------------------------------------------------------

    def _with_action(self, action: str) -> list[str]:
        return [name for name, chosen in self._actions.items() if chosen == action]

    def interned_modules(self) -> list[str]:
        """The modules copied into the package."""
        return self._with_action("intern")

    def externed_modules(self) -> list[str]:
        """The modules to be imported by the reader."""
        return self._with_action("extern")

    def mocked_modules(self) -> list[str]:
        """The modules replaced by stand-ins."""
        return self._with_action("mock")

    def denied_modules(self) -> list[str]:
        """The modules needed but denied."""
        return [name for name, why in self._broken.items() if why is PackagingErrorReason.DENIED]

    def get_rdeps(self, module_name: str) -> list[str]:
        """Who needs a module."""
        return [name for name, needed in self._edges.items() if module_name in needed]

    def all_paths(self, src: str, dst: str) -> str:
        """The ways from one module to another it needs, as a graph in the language dot."""
        reached = {dst}
        while more := {name for name, needed in self._edges.items() if needed & reached} - reached:
            reached |= more
        lines = (
            [f'"{a}" -> "{b}";' for a in sorted(reached) for b in sorted(self._edges.get(a, set()) & reached)]
            if src in reached
            else []
        )
        return "\n".join(["digraph G {", *lines, "}"])

    def dependency_graph_string(self) -> str:
        """What needs what, as a graph in the language dot."""
        lines = [f'"{a}" -> "{b}";' for a, needed in sorted(self._edges.items()) for b in sorted(needed)]
        return "\n".join(["digraph G {", *lines, "}"])

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Complete the archive."""
        if self._broken:
            raise PackagingError(self._broken, self.debug)
        for rule in self._rules:
            if not rule.allow_empty and not rule.was_used:
                raise EmptyMatchError(f"{rule.action} with {rule.group} matched no module, and allow_empty is False")
        for name, (source, is_package) in self._sources.items():
            self._zip.writestr(f"archive/{name.replace('.', '/')}{'/__init__' if is_package else ''}.py", source)
        for name in self.mocked_modules():
            self._zip.writestr(f"archive/{name.replace('.', '/')}.py", _MOCK)
        for number, storage in self._storages.values():
            self._zip.writestr(f"archive/.data/{number}.storage", storage.cpu().tobytes())
        self._zip.writestr(
            "archive/.data/extern_modules", "".join(f"{homes_name(name)}\n" for name in self.externed_modules())
        )
        self._zip.writestr("archive/.data/python_version", platform.python_version())
        self._zip.writestr("archive/.data/version", "6\n")
        self._zip.writestr("archive/byteorder", sys.byteorder)
        self._zip.close()
        self._is_closed = True

    def __enter__(self) -> PackageExporter:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._zip.close()


_MOCK = '''"""A stand-in for a module that was mocked when this package was written."""


class MockedObject:
    """Something of a mocked module: it can be named and refuses to be used."""

    def __init__(self, name):
        self.__dict__["_name"] = name

    def __getattr__(self, name):
        why = "was mocked when this package was written, and cannot be used"
        raise NotImplementedError(f"{self._name} {why} (asked for {name!r})")

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"{self._name} was mocked when this package was written, and cannot be called")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return MockedObject(f"{__name__}.{name}")
'''


class _Pickler(pickle._Pickler):  # type: ignore[name-defined,misc] - the Python one asks a method for globals
    """Pickles tensors by storages of the archive, and notes the modules that globals come from."""

    def __init__(self, exporter: PackageExporter, file: Any, protocol: int) -> None:
        super().__init__(file, protocol=min(protocol, 3))
        self.exporter, self.modules = exporter, set()

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, (UntypedStorage, TypedStorage)):
            return None
        untyped, dtype = (obj, _C.uint8) if isinstance(obj, UntypedStorage) else (obj.untyped(), obj.dtype)
        kind = legacy_class(obj.pickle_storage_type()) if isinstance(obj, TypedStorage) else UntypedStorage
        return "storage", kind, self.exporter._storage(untyped), str(untyped.device), untyped.nbytes() // dtype.itemsize

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module, name = self.exporter.importer.get_name(obj, name)
        self.modules.add(module)
        self.write(b"c" + f"{homes_name(module)}\n{name}\n".encode())
        self.memoize(obj)

    def save_type(self, obj: type) -> None:
        if obj in (type(None), type(NotImplemented), type(...)):
            super().save_type(obj)
        else:
            self.save_global(obj)

    dispatch = pickle._Pickler.dispatch.copy()  # type: ignore[attr-defined]
    dispatch.update({type(len): save_global, type(lambda: None): save_global, type: save_type})


def _imports(module: str, source: str, is_package: bool) -> list[str]:
    """The modules (and names taken from them) that source text imports."""
    found: dict[str, None] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(dict.fromkeys(item.name for item in node.names))
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".")
            parent = parts[: len(parts) - node.level + is_package] if node.level else []
            base = ".".join([*parent, *([node.module] if node.module else [])])
            found.update(dict.fromkeys(base if item.name == "*" else f"{base}.{item.name}" for item in node.names))
    return list(found)
