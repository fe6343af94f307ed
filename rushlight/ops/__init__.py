"""THE definitions, by kind. Importing this package registers every op; nothing else lists their names."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
