"""Numbers that may be known only when a plan runs: what is computed of them without asking how they compare.

Enters: integers, or what stands for them while a rule is written down (op/extents.py). Leaves: the same. Schedulers and
planners use these where `max` and `min` would tie a plan to the sizes that compare as today's do.
"""

from __future__ import annotations

from typing import Any


def larger(a: Any, b: Any) -> Any:
    """The larger of two numbers, without a condition."""
    return _extreme("max", a, b)


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two numbers, without a condition."""
    return _extreme("min", a, b)


def _extreme(name: str, a: Any, b: Any) -> Any:
    for x in (a, b):
        if type(x) is not int and hasattr(x, "trace"):
            return x.trace.compute(name, a, b)
    return max(a, b) if name == "max" else min(a, b)
