"""The import hook behind `compat.install`: `torch.x.y` is the module object `rushlight.x.y`.

Enters: the import system's questions about `torch` and its submodules, those of `runpy`, `inspect` and `pkgutil` about
their source, and `importlib.metadata`'s about the distribution `torch`. Leaves: Rushlight's own module objects, under
both names. A submodule Rushlight lacks is not found (libraries look before they use optional parts of PyTorch), even
when PyTorch itself is installed: the two must not mix in one process. The finder and the loader have the methods Python
asks for and no base class: importing `importlib.abc` takes longer than the rest of a program's start.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from types import CodeType, ModuleType
from typing import Any

SERVED = "torch"
SERVER = "rushlight"
# Packages whose `__dict__` libraries walk: their late names are brought in when a program imports them.
WALKED = ("rushlight.optim", "rushlight.optim.lr_scheduler")
XLA = "torch_xla"
# By top-level names: PyTorch's distribution has the first two.
SERVERS = {SERVED: SERVER, "functorch": f"{SERVER}.functorch", XLA: f"{SERVER}.xla"}
LIBRARIES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
WITH_NATIVE_CODE = ("torchaudio", "torchvision")      # see neighbours.py


def serves(module: ModuleType) -> bool:
    """Whether a module found under `torch` is Rushlight's."""
    return getattr(getattr(module, "__spec__", None), "name", "").partition(".")[0] == SERVER


def is_meant() -> bool:
    """Whether `torch_xla` is there for whoever asks: where jaxlib is, for programs, and for those who say so with
    PJRT_DEVICE. Libraries look for it to decide where to train, and a program that never names it stays on the CPU."""
    if importlib.util.find_spec("jaxlib") is None:
        return False
    if XLA in sys.modules or os.environ.get("PJRT_DEVICE"):
        return True
    frame = sys._getframe(2)
    while frame is not None and is_machinery(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is None or not any(part in frame.f_code.co_filename for part in LIBRARIES)


def is_machinery(file: str) -> bool:
    """Whether a file is of the import system."""
    return file.startswith("<frozen") or f"{os.sep}importlib{os.sep}" in file


class TorchLoader:
    """Hands out the module Rushlight already has, leaving its own name and spec as they are."""

    def __init__(self, found: importlib.machinery.ModuleSpec) -> None:
        self.found, self.server_name = found, found.name

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.server_name)
        # The import system writes `spec` over the module's own before it calls exec_module.
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.own_spec
        if self.server_name in WALKED:
            for name in dir(module):
                getattr(module, name)

    def is_package(self, name: str) -> bool:
        return self.found.submodule_search_locations is not None

    def get_code(self, name: str) -> CodeType | None:
        """The module's code, for `python -m torch.x`; None where there is none, as of the core."""
        return self._asked("get_code")

    def get_source(self, name: str) -> str | None:
        return self._asked("get_source")

    def get_filename(self, name: str) -> str:
        if self.found.origin is None:
            raise ImportError(f"{name} has no file", name=name)
        return self.found.origin

    def get_data(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def get_resource_reader(self, name: str) -> Any:
        return self._asked("get_resource_reader")

    def _asked(self, question: str) -> Any:
        """What the module's own loader answers; it knows it by its own name."""
        answer = getattr(self.found.loader, question, None)
        return None if answer is None else answer(self.server_name)


class TorchFinder:
    """Answers for `torch` before any other finder does."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        root, _, rest = fullname.partition(".")
        if root in WITH_NATIVE_CODE:
            from . import neighbours  # few programs have them

            return neighbours.find(fullname, path, self) if fullname in neighbours.ADJUSTED else None
        if root not in (SERVED, "functorch", XLA) or (root == XLA and not is_meant()):
            return None
        server = SERVERS[root]
        server_name = f"{server}.{rest}" if rest else server
        found = importlib.util.find_spec(server_name)
        if found is None:
            return None
        spec = importlib.machinery.ModuleSpec(
            fullname,
            TorchLoader(found),
            origin=found.origin,
            is_package=found.submodule_search_locations is not None,
        )
        if found.submodule_search_locations is not None:
            spec.submodule_search_locations = list(found.submodule_search_locations)
        return spec

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """What `importlib.metadata` asks every finder."""
        from .distribution import TorchDistribution  # whoever asks has imported `importlib.metadata`, a large module

        name = getattr(context, "name", None)
        return iter([TorchDistribution()]) if name is None or name.lower() == SERVED else iter(())

    def alias(self, fullname: str) -> None:
        """Put a served module under its `torch` name at once."""
        sys.modules[fullname] = importlib.import_module(SERVER + fullname[len(SERVED):])
