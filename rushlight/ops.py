"""Ops by namespace and name: `ops.aten.add`, and those that rushlight.library made, `ops.<namespace>.<name>`."""

from __future__ import annotations

from .aten.namespaces import namespace as _namespace

loaded_libraries: set[str] = set()


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    return _namespace(name)


def load_library(path: object) -> None:
    """Load a native extension of PyTorch. Such files are linked to PyTorch itself, so it is refused, as an OSError that
    extensions expect."""
    raise OSError(
        f"ops.load_library: {path} is a native extension built for PyTorch; Rushlight cannot load it. "
        "Its ops can be given in Python by rushlight.library."
    )
