"""Ops by namespace and name: `ops.aten.add`, and those that rushlight.library made, `ops.<namespace>.<name>`."""

from __future__ import annotations

import os

from .aten.namespaces import namespace as _namespace
from .base import late as _late

loaded_libraries: set[str] = set()


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    return _namespace(name)


def load_library(path: str | os.PathLike[str]) -> None:
    """Load a library of operators that was compiled against our headers, or built for PyTorch's stable C ABI, and
    register its ops (docs/extensions.md). OSError, as extensions expect, for one that cannot be loaded: it then leaves
    nothing behind."""
    place = os.fspath(path)
    if not _late.provided("own library")(place):
        _late.provided("load_library")(path)
    loaded_libraries.add(place)
