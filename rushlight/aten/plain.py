"""Overloads of ATen that are no ops here: reading an element, checks of numbers, questions that tensors answer by a
method, and ops of vendors' libraries that are only there to be compared with.

Enters: what graphs give them. Leaves: a number, a tensor's part, or nothing. `PLAIN` has them by name;
`ops.aten.item.default` is one. Refuses: calls of what needs a device that is not here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._C import Tensor
from ..base.assertions import _assert_scalar, _assert_tensor_metadata
from ..op import ops


class PlainOverload:
    """One overload under PyTorch's name for it: a function with that name."""

    _overloadname = "default"
    inplace = is_view = overridden = False

    def __init__(self, name: str, function: Callable, signature: str, namespace: str = "aten") -> None:
        self._opname, self.function, self.signature = name, function, f"{namespace}::{name}{signature}"
        self.namespace = namespace
        self._qualified_op_name = f"{namespace}::{name}.default"
        self.__name__ = self.__qualname__ = f"{name}.default"
        self.__module__ = f"torch._ops.{namespace}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def default(self) -> PlainOverload:
        return self

    def name(self) -> str:
        return f"{self.namespace}::{self._opname}"

    def overloads(self) -> list[str]:
        return ["default"]

    def __str__(self) -> str:
        return f"{self.namespace}.{self._opname}.default"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='default')>"

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


def _method(name: str, signature: str) -> PlainOverload:
    """What a tensor answers by the method of this name."""
    return PlainOverload(name, lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs), signature)


def _elsewhere(name: str) -> PlainOverload:
    """An op of a library that only other devices have."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"aten::{name}: it runs on devices of which there is none here")

    return PlainOverload(name, refuse, "(...) -> Tensor")


METHODS = (
    _method("is_pinned", "(Tensor self, Device? device=None) -> bool"),
    _method("_nnz", "(Tensor self) -> int"),
    _method("values", "(Tensor(a) self) -> Tensor(a)"),
    _method("crow_indices", "(Tensor(a) self) -> Tensor(a)"),
    _method("col_indices", "(Tensor(a) self) -> Tensor(a)"),
    _method("transpose_", "(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)"),
)
def _zeros(size: Any, **options: Any) -> Tensor:
    """Zeros; in memory like all others here."""
    return ops["zeros"](size, **{name: given for name, given in options.items() if given is not None})


EFFICIENT_ZEROS = PlainOverload(
    "_efficientzerotensor", _zeros,
    "(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
    "Tensor",
)
# ops of `prims`
CONVERT = PlainOverload("convert_element_type", lambda a, dtype: a.to(dtype), "(Tensor a, ScalarType dtype) -> Tensor",
                        "prims")
PRIMS = {CONVERT._opname: CONVERT}
ELSEWHERE = tuple(map(_elsewhere, ("cudnn_batch_norm", "miopen_batch_norm", "_mkldnn_transpose")))
PLAIN = {o._opname: o for o in (ITEM, ASSERT_SCALAR, ASSERT_TENSOR_METADATA, EFFICIENT_ZEROS, *METHODS, *ELSEWHERE)}
