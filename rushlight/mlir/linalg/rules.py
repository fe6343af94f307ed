"""Ops with a rule of their own in the linalg dialect: those that no definition states as loops.

Enters: the walk, what tracing saw of the results, the arguments as stand-ins, and as values. Leaves: the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

RULES: dict[str, Callable[..., Any]] = {}
