"""THE definitions, by kind: one op, one class, and nothing else lists their names.

Modules here are families of ops, imported when one of their ops is first wanted; `op/registry.py` says how it is known
which one that is.
"""

import importlib

from ..dispatch.namespaces import namespace as _namespace
from ..op.registry import is_family as _is_family, open_families as _open_families

_open_families(__name__, __path__[0])


def __getattr__(name: str) -> object:
    """A family, or `ops.<namespace>`: ops by qualified name, `ops.aten.add` and those of rushlight.library."""
    if name.startswith("__"):
        raise AttributeError(name)
    if _is_family(f"{__name__}.{name}"):
        return importlib.import_module(f"{__name__}.{name}")
    return _namespace(name)


loaded_libraries: set[str] = set()


def load_library(path: object) -> None:
    """Load a native extension of PyTorch. Such files are linked to PyTorch itself, so it is refused, as an OSError that extensions expect."""
    raise OSError(f"ops.load_library: {path} is a native extension built for PyTorch; Rushlight cannot load it. Its ops can be given in Python by rushlight.library.")
