"""How elements of several ranks become one: `ReduceOp`, and what each does to tensors."""

from __future__ import annotations

import enum
from typing import Any

from .. import _C


class RedOpType(enum.Enum):
    """The ways to reduce, by PyTorch's names."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class _Names(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, RedOpType) or type.__instancecheck__(cls, instance)


class ReduceOp(metaclass=_Names):
    """A way to reduce: `ReduceOp.SUM`, `AVG`, `PRODUCT`, `MIN`, `MAX`, `BAND`, `BOR`, `BXOR`, and PREMUL_SUM with its
    factor. Members stand for themselves: `ReduceOp(ReduceOp.SUM) == ReduceOp.SUM`."""

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = RedOpType

    def __init__(self, op: RedOpType, factor: Any = None) -> None:
        if not isinstance(op, RedOpType):
            raise TypeError(f"ReduceOp: expected one of {[o.name for o in RedOpType]}, got {op!r}")
        self.op, self.factor = op, factor

    def __eq__(self, other: Any) -> bool:
        return self.op is (other if isinstance(other, RedOpType) else getattr(other, "op", None))

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return f"<RedOpType.{self.op.name}: {self.op.value}>"


def kind_of(op: Any) -> RedOpType:
    """Which way a user's `op` is."""
    kind = op if isinstance(op, RedOpType) else getattr(op, "op", None)
    if not isinstance(kind, RedOpType):
        raise TypeError(f"op must be a ReduceOp, got {op!r}")
    return kind


def supports_complex(reduceOp: Any) -> bool:   # noqa: N803
    """Whether a way to reduce means something for complex numbers."""
    return kind_of(reduceOp) in (RedOpType.SUM, RedOpType.AVG, RedOpType.PREMUL_SUM, RedOpType.PRODUCT)


_IN_PLACE = {
    RedOpType.SUM: "add_", RedOpType.AVG: "add_", RedOpType.PREMUL_SUM: "add_", RedOpType.PRODUCT: "mul_",
    RedOpType.BAND: "bitwise_and_", RedOpType.BOR: "bitwise_or_", RedOpType.BXOR: "bitwise_xor_",
}


def clamp_max_(a: Any, b: Any) -> Any:
    """The smaller of two elements; NaN where one is."""
    return a.clamp_(max=b)


def clamp_min_(a: Any, b: Any) -> Any:
    """The larger of two elements; NaN where one is."""
    return a.clamp_(min=b)


def function_of(op: Any, dtype: _C.dtype, backend: str) -> Any:
    """`combine(a, b)` writes a and b, reduced, to a. Refuses what has no meaning for the dtype."""
    kind = kind_of(op)
    if dtype.is_complex and not supports_complex(op):
        raise RuntimeError(f"{backend}: ReduceOp.{kind.name} has no meaning for {dtype}, whose numbers are not ordered")
    if kind in (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR) and (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{backend}: ReduceOp.{kind.name} is for integers and bool, got {dtype}")
    if dtype == _C.bool and kind in (RedOpType.SUM, RedOpType.MAX):
        kind = RedOpType.BOR
    elif dtype == _C.bool and kind in (RedOpType.PRODUCT, RedOpType.MIN):
        kind = RedOpType.BAND
    if kind in (RedOpType.MIN, RedOpType.MAX):
        return clamp_max_ if kind is RedOpType.MIN else clamp_min_
    return getattr(_C.Tensor, _IN_PLACE[kind])


def before(op: Any, flat: Any) -> Any:
    """What a rank brings to the reduction."""
    return flat.mul_(op.factor) if kind_of(op) is RedOpType.PREMUL_SUM else flat


def after(op: Any, flat: Any, size: int) -> None:
    """What is left to do with the sum."""
    if kind_of(op) is RedOpType.AVG:
        flat.div_(size) if flat.dtype.is_floating_point or flat.dtype.is_complex else flat.floor_divide_(size)


class _reduce_op:   # noqa: N801
    """The former way to name reductions, kept for programs that use it: `reduce_op.SUM`."""

    SUM, PRODUCT, MIN, MAX = RedOpType.SUM, RedOpType.PRODUCT, RedOpType.MIN, RedOpType.MAX


reduce_op = _reduce_op()
