"""THE definitions, by kind. Importing this package registers every op; nothing else lists their names."""

import importlib
import pkgutil

from ..dispatch.namespaces import namespace as _namespace

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def __getattr__(name: str) -> object:
    """`ops.<namespace>`: ops by qualified name, `ops.aten.add` and those of rushlight.library."""
    if name.startswith("__"):
        raise AttributeError(name)
    return _namespace(name)
