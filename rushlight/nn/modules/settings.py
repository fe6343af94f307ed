"""What layers share: sizes given as one number or several, and the text of their settings.

Enters: a number or a sequence; attribute names. Leaves: tuples; "name=value" text. Nothing here computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def repeated(value: Any, count: int) -> tuple:
    """A tuple of `count` equal values, or the given sequence as a tuple."""
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,) * count


def spread(count: int) -> Callable[[Any], tuple]:
    """`repeated` for one count."""
    return lambda value: repeated(value, count)


_single, _pair, _triple, _quadruple = (spread(n) for n in (1, 2, 3, 4))


def settings(module: Any, *names: str) -> str:
    """"name=value" of attributes, separated by commas."""
    return ", ".join(f"{name}={getattr(module, name)}" for name in names)
