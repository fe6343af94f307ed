"""Hooks for `FullyShardedDataParallel.register_comm_hook`: the reduction it makes itself, and the same in half floats.

A hook gets its state and the gradient of a wrapper's parameters, all in one line; where they are spread, also the part
of this process, which it fills. It averages: divides, reduces, divides.
"""

from __future__ import annotations

from typing import Any

from .... import _C
from ... import collectives
from ...groups import get_world_size

__all__ = ["DefaultState", "LowPrecisionState", "allreduce_hook", "bf16_compress_hook", "fp16_compress_hook",
           "reduce_scatter_hook"]


class DefaultState:
    """The group, and what gradients are divided by before and after: together the number of processes."""

    def __init__(self, process_group: Any) -> None:
        if process_group is None:
            raise ValueError("DefaultState: process_group must be a process group, got None")
        self.process_group = process_group
        self.world_size = get_world_size(process_group)
        self.gradient_predivide_factor = self._get_gradient_predivide_factor(self.world_size)
        self.gradient_postdivide_factor = self.world_size / self.gradient_predivide_factor

    @staticmethod
    def _get_gradient_predivide_factor(world_size: int) -> float:
        factor = 1
        while world_size % factor == 0 and world_size / factor > factor:
            factor *= 2
        return float(factor)


class LowPrecisionState(DefaultState):
    """The same, with the type that gradients have again afterwards."""

    def __init__(self, process_group: Any, parameter_type: Any = _C.float32) -> None:
        super().__init__(process_group)
        self.parameter_type = parameter_type


def allreduce_hook(state: DefaultState, grad: Any) -> None:
    """The mean over processes that all have whole parameters, in place."""
    grad.div_(state.gradient_predivide_factor)
    collectives.all_reduce(grad, group=state.process_group)
    grad.div_(state.gradient_postdivide_factor)


def reduce_scatter_hook(state: DefaultState, grad: Any, output: Any) -> None:
    """This process's part of the mean."""
    grad.div_(state.gradient_predivide_factor)
    collectives.reduce_scatter_tensor(output, grad, group=state.process_group)
    output.div_(state.gradient_postdivide_factor)


def _compressed(dtype: Any, state: LowPrecisionState, grad: Any, output: Any) -> None:
    sent = grad.to(dtype)
    if output is None:
        allreduce_hook(state, sent)
        grad.copy_(sent.to(state.parameter_type))
        return
    part = output.new_empty(output.shape, dtype=dtype)
    reduce_scatter_hook(state, sent, part)
    output.copy_(part.to(state.parameter_type))


def fp16_compress_hook(state: LowPrecisionState, grad: Any, output: Any = None) -> None:
    """Gradients are sent as float16."""
    _compressed(_C.float16, state, grad, output)


def bf16_compress_hook(state: LowPrecisionState, grad: Any, output: Any = None) -> None:
    """Gradients are sent as bfloat16."""
    _compressed(_C.bfloat16, state, grad, output)
