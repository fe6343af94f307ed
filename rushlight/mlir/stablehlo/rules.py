"""All rules by name: importing this fills the table."""

from __future__ import annotations

from . import (  # noqa: F401 - they fill the table
    attention,
    convolutions,
    creation,
    ordering,
    products,
    resampling,
    shapes,
    transforms,
)
from .table import RULES

__all__ = ["RULES"]
