"""The options of each collective, as back ends written in a program receive them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from .reduce_op import RedOpType

__all__ = [
    "AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BarrierOptions",
    "BroadcastOptions", "GatherOptions", "ReduceOptions", "ReduceScatterOptions", "ScatterOptions",
]

UNSET = timedelta(milliseconds=-1)     # the group's own timeout


@dataclass(slots=True, kw_only=True, eq=False)
class _Options:
    timeout: timedelta = UNSET
    asyncOp: bool = True


@dataclass(slots=True, kw_only=True, eq=False)
class _Reducing(_Options):
    reduceOp: Any = RedOpType.SUM
    sparseIndices: Any = None


@dataclass(slots=True, kw_only=True, eq=False)
class _Rooted(_Options):
    rootRank: int = 0
    rootTensor: int = 0


class AllreduceOptions(_Reducing):
    """For `allreduce`."""

    __slots__ = ()


class AllreduceCoalescedOptions(AllreduceOptions):
    """For `allreduce_coalesced`."""

    __slots__ = ()


class ReduceScatterOptions(_Reducing):
    """For `reduce_scatter`."""

    __slots__ = ()


@dataclass(slots=True, kw_only=True, eq=False)
class ReduceOptions(_Reducing):
    """For `reduce`."""

    rootRank: int = 0
    rootTensor: int = 0


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


@dataclass(slots=True, kw_only=True, eq=False)
class BarrierOptions(_Options):
    """For `barrier`."""

    device_ids: list[int] = field(default_factory=list)
    device: Any = None
