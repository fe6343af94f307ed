"""What `fully_shard` can be told: types to compute and reduce in, where parts lie, who carries the collectives out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import _C

__all__ = ["AllGather", "CPUOffloadPolicy", "Comm", "MixedPrecisionPolicy", "OffloadPolicy", "ReduceScatter"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Types, each None for the parameters' own: whole parameters and computation (`param_dtype`), gradients while
    they are reduced (`reduce_dtype`), results of forward (`output_dtype`). `cast_forward_inputs` says whether floating
    inputs become `param_dtype`."""

    param_dtype: _C.dtype | None = None
    reduce_dtype: _C.dtype | None = None
    output_dtype: _C.dtype | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parts lie where the computation is."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parts of parameters, gradients and so the optimizer's state lie in host memory, pinned if asked."""

    pin_memory: bool = True


class Comm(ABC):
    """A collective that a program carries out itself."""

    @abstractmethod
    def allocate(self, size: Sequence[int], *, dtype: _C.dtype, device: _C.device) -> Any:
        """Memory for what is sent and received."""


class AllGather(Comm):
    """Makes whole parameters of parts."""

    @abstractmethod
    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False) -> Any:
        """All parts one behind the other; returns a Work if asynchronous."""


class ReduceScatter(Comm):
    """Makes parts of reduced gradients."""

    @abstractmethod
    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False) -> Any:
        """The reduction of this process's part; returns a Work if asynchronous."""
