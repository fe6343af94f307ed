"""`torch.autograd.variable`: tensors under the name they had before tensors could require gradients."""

from __future__ import annotations

import warnings
from typing import Any

from .. import _C


class VariableMeta(type):
    """Every tensor is a Variable."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _C.Tensor)


class Variable(metaclass=VariableMeta):
    """`Variable(data, requires_grad=False)`: a tensor over the memory of `data`, outside its graph. Deprecated: tensors
    record operations themselves.

    >>> x = Variable(torch.ones(2), requires_grad=True)
    >>> x.is_leaf, isinstance(x, torch.Tensor)
    (True, True)
    """

    def __new__(cls, data: Any = None, requires_grad: bool | None = None, volatile: bool | None = None) -> Any:
        """The tensor; there are no objects of this class itself."""
        if data is None:
            data = _C.empty([0], None, _C.get_default_dtype(), _C.device("cpu"))
        if not isinstance(data, _C.Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if volatile:
            warnings.warn("Variable: `volatile` does nothing any more. Use `with torch.no_grad():`.", stacklevel=2)
        result = data.detach()
        return result.requires_grad_() if requires_grad else result


__all__ = ["Variable", "VariableMeta"]
