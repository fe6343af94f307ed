"""Frozen records whose fields are their annotations.

Enters: a class body of annotated fields, some with defaults. Leaves: a class with a constructor, equality, a hash and
a repr. `dataclasses` would do, but spends a millisecond per class at import, and nests are needed in every process.
"""

from __future__ import annotations

from typing import ClassVar, Self, dataclass_transform


@dataclass_transform(frozen_default=True)      # for type checkers: what the constructor takes
class Record:
    """Base of a frozen record; `fields` lists the names in order."""

    fields: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[dict[str, object]] = {}

    def __init_subclass__(cls) -> None:
        cls.fields = tuple(cls.__annotations__)
        cls.defaults = {name: getattr(cls, name) for name in cls.fields if hasattr(cls, name)}

    def __init__(self, *values: object, **named: object) -> None:
        fields, state = self.fields, self.__dict__
        if len(values) > len(fields):
            raise TypeError(f"{type(self).__name__}: takes {len(fields)} fields, got {len(values)} values")
        if len(values) < len(fields):
            state.update(self.defaults)
        state.update(zip(fields, values, strict=False))
        for name in named:
            if name not in fields or name in fields[: len(values)]:
                raise TypeError(f"{type(self).__name__}: unexpected or repeated field {name}")
        state.update(named)
        if len(state) < len(fields):
            missing = next(name for name in fields if name not in state)
            raise TypeError(f"{type(self).__name__}: field {missing} is missing")

    def but(self, **changes: object) -> Self:
        """The same record with some fields changed."""
        return type(self)(**{**self.__dict__, **changes})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable, cannot set {name}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__[name] for name in self.fields))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={self.__dict__[name]!r}' for name in self.fields)})"
