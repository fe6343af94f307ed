"""Names that the bodies of this package use. They mean something to the compiler alone (see frontend/namespaces.py)."""

from __future__ import annotations

from typing import Any


class Namespace:
    """`torch` and `F` of these bodies."""

    def __init__(self, name: str) -> None:
        self.name = name


torch: Any = Namespace("torch")      # every name is a builtin of the language
F: Any = Namespace("F")              # the functions of this package, and builtins where it has none
