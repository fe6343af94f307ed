"""Parameters: leaf tensors that want gradients. A subclass the core keeps on its fast path."""

from __future__ import annotations

from typing import Any

from .. import _C
from .._C import Tensor


class Parameter(Tensor):
    """A tensor that is learned: requires grad unless told otherwise, and is printed as a parameter."""

    __torch_function__ = _C._disabled_torch_function_impl
    _prints_as_tensor = True

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = _C.empty((0,), None, _C.get_default_dtype(), None)
        made = _C.shallow_copy(data.detach(), True, cls)
        made.requires_grad_(requires_grad)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: int) -> tuple:
        return _rebuild_parameter, (type(self), self.detach(), self.requires_grad)


def _rebuild_parameter(cls: type, data: Tensor, requires_grad: bool) -> Parameter:
    return cls(data, requires_grad)


class Buffer(Tensor):
    """A tensor that belongs to a module's state but is not learned."""

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = _C.empty((0,), None, _C.get_default_dtype(), None)
        made = _C.shallow_copy(data.detach(), True, cls)
        made.persistent = persistent
        return made
