"""Where the torch dialect has an op that torch-mlir cannot lower, or lowers to something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

AVOIDED = frozenset("as_strided as_strided_copy bincount".split())
RULES: dict[str, Callable[..., Any]] = {}
