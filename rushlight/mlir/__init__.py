"""MLIR: programs leave as text that other tools verify, compile and run, and StableHLO of anybody comes back.

Enters: models and exported programs, or StableHLO text. Leaves: modules of the `torch`, `linalg` or `stablehlo`
dialect, or something to call.
"""

from __future__ import annotations

import importlib
from typing import Any

from .errors import ParseError, UnsupportedOp

_LATE = {"export": ".exporting", "MlirModule": ".exporting", "load": ".loading", "LoadedModule": ".loading"}

__all__ = ["LoadedModule", "MlirModule", "ParseError", "UnsupportedOp", "export", "load"]


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATE[name], __package__), name)
