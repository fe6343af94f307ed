"""THE definitions, by kind: one op, one class, and nothing else lists their names.

Enters: nothing; definitions are data. Leaves: classes that the registry turns into ops. Refuses: in each op's `meta`,
arguments it has no meaning for.

Modules here are families of ops, imported when one of their ops is first wanted; `op/registry.py` says how it is known
which one that is. `rushlight.ops` is another thing: ops by namespace, as PyTorch has them.
"""

from __future__ import annotations

import importlib

from ..op.registry import is_family as _is_family, open_families as _open_families

_open_families(__name__, __path__[0])


def __getattr__(name: str) -> object:
    """A family that was not wanted so far."""
    if name.startswith("__") or not _is_family(f"{__name__}.{name}"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
