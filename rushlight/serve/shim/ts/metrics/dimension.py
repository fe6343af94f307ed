"""A name and a value by which a handler tells apart what it counts."""

from __future__ import annotations

from typing import Any


class Dimension:
    """One of them."""

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def __str__(self) -> str:
        return f"{self.name}:{self.value}"

    def to_dict(self) -> dict[str, Any]:
        return {"Name": self.name, "Value": self.value}
