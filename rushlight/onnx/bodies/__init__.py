"""Ops that ONNX has nothing like, written with ops that it has: `BODIES`, from the names of definitions to functions.

A body gets the op's arguments in the order of its schema, as tensors, and calls ops on them while a graph is recorded;
`while_loop` and `scan` in it become nodes. Refuses what it has no way for with NotImplementedError.
"""

from __future__ import annotations

from . import factorizations, operators, running, spectra  # noqa: F401 - each adds to the table
from .table import BODIES

__all__ = ["BODIES"]
