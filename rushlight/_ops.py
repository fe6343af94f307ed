"""`torch._ops`: the classes of ops under PyTorch's names, to ask `isinstance` of.

An overload is the core's own object or, where PyTorch's schema is not ours, `aten.overloads.AtenOverload`; both are
`OpOverload` here.
"""

from __future__ import annotations

from typing import Any

from . import _C, ops
from ._higher_order_ops.core import HigherOrderOp as HigherOrderOperator
from .aten.namespaces import OpNamespace as _OpNamespace, OpOverloadPacket
from .aten.overloads import AtenOverload
from .aten.plain import PlainOverload

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket", "_OpNamespace", "ops"]


class _OfOverloads(type):
    """What instances of `OpOverload` are."""

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, (_C.Overload, AtenOverload, PlainOverload))

    def __subclasscheck__(cls, kind: type) -> bool:
        return kind is cls or issubclass(kind, (_C.Overload, AtenOverload, PlainOverload))


class OpOverload(metaclass=_OfOverloads):
    """One overload of an op: `ops.aten.add.Tensor`. Refuses to be made: ops are defined with `library`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> OpOverload:
        raise TypeError("OpOverload: overloads come from `ops.<namespace>.<name>`; define ops with `library`")
