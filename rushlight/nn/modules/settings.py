"""What layers share: sizes given as one number or several, the text of their settings, scales and shifts of norms.

Enters: a number or a sequence; attribute names. Leaves: tuples; "name=value" text; registered parameters.
Nothing here computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...op import find_op
from ..parameter import Parameter


def repeated(value: Any, count: int) -> tuple:
    """A tuple of `count` equal values, or the given sequence as a tuple."""
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,) * count


def settings(module: Any, *names: str) -> str:
    """"name=value" of attributes, separated by commas."""
    return ", ".join(f"{name}={getattr(module, name)}" for name in names)


def register_scale(module: Any, shape: tuple[int, ...], affine: bool, bias: bool, options: dict[str, Any]) -> None:
    """Register `weight` and `bias`, or their names without parameters."""
    for name, wanted in (("weight", affine), ("bias", affine and bias)):
        module.register_parameter(name, Parameter(find_op("empty")(shape, **options)) if wanted else None)
