"""Overloads of ATen that are no ops here: reading an element, and checks of numbers.

Enters: what graphs give them. Leaves: a number, or nothing. `PLAIN` has them by name; `ops.aten.item.default` is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._C import Tensor
from ..base.assertions import _assert_scalar, _assert_tensor_metadata


class PlainOverload:
    """One overload under PyTorch's name for it: a function with that name."""

    namespace, _overloadname = "aten", "default"
    inplace = is_view = overridden = False

    def __init__(self, name: str, function: Callable, signature: str) -> None:
        self._opname, self.function, self.signature = name, function, f"aten::{name}{signature}"
        self._qualified_op_name = f"aten::{name}.default"
        self.__name__ = self.__qualname__ = f"{name}.default"
        self.__module__ = "torch._ops.aten"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def default(self) -> PlainOverload:
        return self

    def name(self) -> str:
        return f"aten::{self._opname}"

    def overloads(self) -> list[str]:
        return ["default"]

    def __str__(self) -> str:
        return f"aten.{self._opname}.default"

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self._opname}', overload='default')>"

    def __copy__(self) -> PlainOverload:
        return self

    def __deepcopy__(self, memo: Any) -> PlainOverload:
        return self


def _item(self: Tensor) -> Any:
    return self.item()


ITEM = PlainOverload("item", _item, "(Tensor self) -> Scalar")
ASSERT_SCALAR = PlainOverload("_assert_scalar", _assert_scalar, "(Scalar self, str assert_msg) -> ()")
ASSERT_TENSOR_METADATA = PlainOverload(
    "_assert_tensor_metadata", _assert_tensor_metadata,
    "(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? device=None, "
    "Layout? layout=None) -> ()",
)
PLAIN = {overload._opname: overload for overload in (ITEM, ASSERT_SCALAR, ASSERT_TENSOR_METADATA)}
