"""`aten.<op>.<overload>(...)` for rules: a call of this very overload, shown under its name to whoever looks.

Enters: names and arguments. Leaves: results; without handlers in force, those of our op. Refuses: names ATen has not.
"""

from __future__ import annotations

from typing import Any

from ..aten.calls import aten_overload
from ..aten.overloads import AtenOverload


class _Packet:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, label: str) -> AtenOverload:
        found = aten_overload(self._name, label)
        if found is None:
            raise AttributeError(f"aten.{self._name} has no overload {label!r}")
        setattr(self, label, found)
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.default(*args, **kwargs)


class _Aten:
    def __getattr__(self, name: str) -> _Packet:
        found = _Packet(name)
        setattr(self, name, found)
        return found


aten = _Aten()
