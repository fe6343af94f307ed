"""Reading a package: its modules run apart from those of the process, under names that start with `<torch_package_N>`.

Enters: an archive. Leaves: modules, objects, text and bytes of it. A module is the archive's, or one of the list of
external modules; anything else is refused. Reading runs the code and the pickles in the archive:
only open what you trust.
"""

from __future__ import annotations

import builtins
import importlib
import io
import itertools
import linecache
import pickle
import zipfile
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .. import _C
from .._C import UntypedStorage
from ..serialization.names import find, is_ours
from ..tensors.storages import STORAGE_DTYPES, TypedStorage
from .importer import Importer, homes_name, without_mark
from .patterns import GlobGroup, GlobPattern
from .structure import Directory

_numbers = itertools.count()


class PackageImporter(Importer):
    """One opened package."""

    def __init__(self, file_or_buffer: Any, module_allowed: Callable[[str], bool] = lambda module_name: True) -> None:
        self._zip = zipfile.ZipFile(file_or_buffer)
        self.filename = str(file_or_buffer) if not hasattr(file_or_buffer, "read") else "<binary>"
        names = self._zip.namelist()
        self._root = names[0].partition("/")[0] + "/" if names else "archive/"
        self._files = {name[len(self._root) :] for name in names}
        self._mark = f"<torch_package_{next(_numbers)}>"
        self.modules: dict[str, ModuleType] = {}
        self._storages: dict[str, UntypedStorage] = {}
        self.extern_modules = (
            self._read(".data/extern_modules").decode().split() if ".data/extern_modules" in self._files else []
        )
        for name in self.extern_modules:
            if not module_allowed(name):
                raise ImportError(
                    f"PackageImporter: the package {self.filename!r} needs the module {name!r}, which module_allowed"
                    " refuses"
                )
        self.patched_builtins = {**vars(builtins), "__import__": self._import}

    def _read(self, path: str) -> bytes:
        return self._zip.read(self._root + path)

    def id(self) -> str:
        """What the names of this package's modules start with."""
        return self._mark

    def python_version(self) -> str | None:
        """The version of Python that wrote the package."""
        return self._read(".data/python_version").decode() if ".data/python_version" in self._files else None

    def file_structure(self, *, include: GlobPattern = "**", exclude: GlobPattern = ()) -> Directory:
        """The files of the package whose paths match."""
        tree, chosen = Directory(self.filename, True), GlobGroup(include, exclude=exclude, separator="/")
        for name in sorted(self._files):
            if chosen.matches(name):
                tree._add_file(name)
        return tree

    # --- modules ------------------------------------------------------------------------------------------------------

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """A module of the package, or an external one."""
        if name.startswith("."):
            name = importlib.util.resolve_name(name, package)
        name = without_mark(name)
        if name in self.modules:
            return self.modules[name]
        if self._is_external(name):
            return importlib.import_module(f"rushlight{name[5:]}" if is_ours(name) else name)
        parent = name.rpartition(".")[0]
        if parent and not self._is_external(parent):
            self.import_module(parent)
            if name in self.modules:
                return self.modules[name]
        return self._load(name)

    def _is_external(self, name: str) -> bool:
        """A module on the list, one below it, or a package some module on the list is in."""
        name = homes_name(name)
        return (
            any(
                name == known or name.startswith(f"{known}.") or known.startswith(f"{name}.")
                for known in self.extern_modules
            )
            and self._path_of(name) is None
        )

    def _path_of(self, name: str) -> str | None:
        base = name.replace(".", "/")
        return next((path for path in (f"{base}/__init__.py", f"{base}.py") if path in self._files), None)

    def _load(self, name: str) -> ModuleType:
        path, folder = self._path_of(name), name.replace(".", "/") + "/"
        is_package = path is None or path.endswith("__init__.py")
        if path is None and not any(file.startswith(folder) for file in self._files):
            raise ModuleNotFoundError(
                f"No module named {name!r} in the package {self.filename!r}, and it is not one of its external modules",
                name=name,
            )
        module = ModuleType(f"{self._mark}.{name}")
        module.__file__ = f"{self._mark}.{path or folder}"
        module.__package__ = module.__name__ if is_package else module.__name__.rpartition(".")[0]
        module.__loader__ = self
        vars(module)["__torch_package__"] = True
        vars(module)["__builtins__"] = self.patched_builtins
        if is_package:
            module.__path__ = [module.__file__]
        self.modules[name] = module
        parent, _, child = name.rpartition(".")
        if path is not None:
            source = self._read(path).decode()
            # for tracebacks and inspect
            linecache.cache[module.__file__] = (len(source), None, source.splitlines(keepends=True), module.__file__)
            try:
                exec(compile(source, module.__file__, "exec", dont_inherit=True), vars(module))
            except BaseException:
                del self.modules[name]
                raise
        if parent in self.modules:
            setattr(self.modules[parent], child, module)
        return module

    def _import(
        self, name: str, given: Any = None, local: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        """`__import__` as the package's modules see it."""
        if level:
            package = without_mark(given["__package__"]).split(".")
            base = package[: len(package) - level + 1]
            name = ".".join([*base, *([name] if name else [])])
        module = self.import_module(name)
        if not fromlist:
            return self.import_module(name.partition(".")[0]) if not level else module
        for part in fromlist:
            if part != "*" and not hasattr(module, part) and hasattr(module, "__path__"):
                try:
                    self.import_module(f"{name}.{part}")
                except ModuleNotFoundError:
                    continue
        return module

    def get_source(self, module_name: str) -> str:
        """The text of a module of the package."""
        path = self._path_of(without_mark(module_name))
        if path is None:
            raise ImportError(f"{module_name!r} has no source in the package {self.filename!r}")
        return self._read(path).decode()

    # --- data ---------------------------------------------------------------------------------------------------------

    def load_binary(self, package: str, resource: str) -> bytes:
        """Bytes of the package."""
        return self._read(f"{package.replace('.', '/')}/{resource}")

    def load_text(self, package: str, resource: str, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Text of the package."""
        return self.load_binary(package, resource).decode(encoding, errors)

    def load_pickle(self, package: str, resource: str, map_location: Any = None) -> Any:
        """An object of the package, with classes of the package."""
        return _Unpickler(self, io.BytesIO(self.load_binary(package, resource)), map_location).load()

    def _storage(self, number: str, device: str) -> UntypedStorage:
        if number not in self._storages:
            self._storages[number] = UntypedStorage.from_buffer(
                bytearray(self._read(f".data/{number}.storage")) or b"", dtype=_C.uint8
            )
        return self._storages[number]


class _Unpickler(pickle.Unpickler):
    def __init__(self, importer: PackageImporter, file: Any, map_location: Any) -> None:
        super().__init__(file)
        self.importer, self.map_location = importer, map_location

    def find_class(self, module: str, name: str) -> Any:
        if is_ours(module):
            return find(module, name)
        found: Any = self.importer.import_module(module) if module not in ("builtins", "__builtin__") else builtins
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def persistent_load(self, saved: tuple) -> Any:
        _, kind, number, device, _ = saved
        name = kind if isinstance(kind, str) else kind.__name__
        storage = self.importer._storage(str(number), device)
        if self.map_location is not None:
            storage = storage.to(device=self.map_location)
        return storage if name == "UntypedStorage" else TypedStorage(wrap_storage=storage, dtype=STORAGE_DTYPES[name])


def is_from_package(obj: Any) -> bool:
    """Whether a module, class or object comes from a package."""
    if isinstance(obj, ModuleType):
        return bool(vars(obj).get("__torch_package__"))
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__module__.startswith("<torch_package_")
