"""Modules for oneDNN: not here, and says so when used."""

from __future__ import annotations

from typing import Any


def to_mkldnn(module: Any, dtype: Any = None) -> Any:
    """Refused: there is no oneDNN; the module runs as it is."""
    raise NotImplementedError("utils.mkldnn.to_mkldnn: oneDNN is not available. Use the module as it is.")
