"""PyTorch's `utils` namespace: checkpointing and hook handles. Submodules load when first used."""

import importlib as _importlib

_SUBMODULES = frozenset(("_python_dispatch", "_pytree", "checkpoint", "data", "hooks", "serialization"))


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return _importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
