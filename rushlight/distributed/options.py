"""The options of each collective, as back ends written in a program receive them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from .reduce_op import RedOpType

__all__ = [
    "AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BarrierOptions",
    "BroadcastOptions", "GatherOptions", "ReduceOptions", "ReduceScatterOptions", "ScatterOptions",
]

UNSET = timedelta(milliseconds=-1)     # the group's own timeout


class _Options:
    __slots__ = ("asyncOp", "timeout")

    def __init__(self) -> None:
        self.timeout = UNSET
        self.asyncOp = True

    def __repr__(self) -> str:
        names = (name for c in type(self).__mro__ for name in getattr(c, "__slots__", ()))
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in sorted(names))})"


class _Reducing(_Options):
    __slots__ = ("reduceOp", "sparseIndices")

    def __init__(self) -> None:
        super().__init__()
        self.reduceOp: Any = RedOpType.SUM
        self.sparseIndices = None


class _Rooted(_Options):
    __slots__ = ("rootRank", "rootTensor")

    def __init__(self) -> None:
        super().__init__()
        self.rootRank = 0
        self.rootTensor = 0


class AllreduceOptions(_Reducing):
    """For `allreduce`."""

    __slots__ = ()


class AllreduceCoalescedOptions(AllreduceOptions):
    """For `allreduce_coalesced`."""

    __slots__ = ()


class ReduceScatterOptions(_Reducing):
    """For `reduce_scatter`."""

    __slots__ = ()


class ReduceOptions(_Reducing):
    """For `reduce`."""

    __slots__ = ("rootRank", "rootTensor")

    def __init__(self) -> None:
        super().__init__()
        self.rootRank = 0
        self.rootTensor = 0


class BroadcastOptions(_Rooted):
    """For `broadcast`."""

    __slots__ = ()


class GatherOptions(_Rooted):
    """For `gather`."""

    __slots__ = ()


class ScatterOptions(_Rooted):
    """For `scatter`."""

    __slots__ = ()


class AllgatherOptions(_Options):
    """For `allgather`."""

    __slots__ = ()


class AllToAllOptions(_Options):
    """For `alltoall`."""

    __slots__ = ()


class BarrierOptions(_Options):
    """For `barrier`."""

    __slots__ = ("device", "device_ids")

    def __init__(self) -> None:
        super().__init__()
        self.device_ids: list[int] = []
        self.device: Any = None
