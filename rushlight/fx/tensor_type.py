"""Annotations of tensors by their dims: `TensorType((2, Dyn))`."""

from __future__ import annotations

from typing import Any

from .._C import Tensor


class TensorType:
    """A tensor of these dims; `Dyn` stands for any."""

    def __init__(self, dim: Any) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    @property
    def dims(self) -> Any:
        return self.__args__

    def __repr__(self) -> str:
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and list(self.__args__) == list(other.__args__)

    def __hash__(self) -> int:
        return hash(tuple(self.__args__))

    @staticmethod
    def __class_getitem__(*args: Any) -> TensorType:
        return TensorType(args[0] if len(args) == 1 and isinstance(args[0], tuple) else args)


class _DynType:
    """The type of what is not known."""

    def __init__(self) -> None:
        self.__name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__)

    def __hash__(self) -> int:
        return hash(_DynType)

    def __str__(self) -> str:
        return "Dyn"

    __repr__ = __str__


Dyn = _DynType()


def is_consistent(t1: Any, t2: Any) -> bool:
    """Whether two annotations can describe one value: equal up to what is not known."""
    if t1 == t2 or isinstance(t1, _DynType) or isinstance(t2, _DynType) or t1 is Tensor or t2 is Tensor:
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return len(t1.dims) == len(t2.dims) and all(is_consistent(a, b) for a, b in zip(t1.dims, t2.dims, strict=True))
    return False


def is_more_precise(t1: Any, t2: Any) -> bool:
    """Whether the first says at least as much as the second."""
    if t1 == t2 or isinstance(t2, _DynType):
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return len(t1.dims) == len(t2.dims) and all(
            is_more_precise(a, b) for a, b in zip(t1.dims, t2.dims, strict=True)
        )
    return False
