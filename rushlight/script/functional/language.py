"""Names that the bodies of this package use. They mean something to the compiler alone (see frontend/namespaces.py)."""

from __future__ import annotations

from typing import Any, NamedTuple


class Namespace:
    """`torch` and `F` of these bodies."""

    def __init__(self, name: str) -> None:
        self.name = name


torch: Any = Namespace("torch")      # every name is a builtin of the language
F: Any = Namespace("F")              # the functions of this package, and builtins where it has none


class Spread(NamedTuple):
    """The annotation of a list of known length that one number may stand for (elsewhere `BroadcastingList2[int]`)."""

    kind: type
    length: int


Ints1, Ints2, Ints3 = (Spread(int, n) for n in (1, 2, 3))
Floats2, Floats3 = (Spread(float, n) for n in (2, 3))
