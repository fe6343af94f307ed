"""`torch.distributed.pipelining.schedules`: a step of a pipeline, by an order of computations (`orders.py`).

Every rank carries out its own list, in order: it waits for what an action needs, computes, and sends on. Which schedule
it is decides only which list.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from typing import Any

from ... import _C
from ..._C import Tensor
from ...autograd.grad_mode import no_grad
from ...base import logs
from . import orders
from .microbatch import merge_chunks, split_args_kwargs_into_chunks, split_tensor
from .orders import Action, Kind, Order
from .stage import _PipelineStageBase, as_tuple
from .wire import Wire

__all__ = ["PipelineScheduleMulti", "PipelineScheduleSingle", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe",
           "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble",
           "get_schedule_class"]

_Action, _ComputationType = Action, Kind      # PyTorch's names


class _PipelineSchedule:
    """Stages of this rank, a number of microbatches, a loss; and an order."""

    _style = "loop"      # how stages lie on ranks

    def __init__(
        self,
        stages: list[_PipelineStageBase],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None,
        args_chunk_spec: Any,
        kwargs_chunk_spec: Any,
        output_merge_spec: Any,
        scale_grads: bool,
    ) -> None:
        if not stages:
            raise ValueError(f"{type(self).__name__} needs a stage")
        if n_microbatches < 1:
            raise ValueError(f"{type(self).__name__}: n_microbatches must be at least 1, got {n_microbatches}")
        first = stages[0]
        self._stages = stages
        self._num_stages, self.pp_group_size, self.rank = first.num_stages, first.group_size, first.group_rank
        self._n_microbatches, self._loss_fn, self.scale_grads = n_microbatches, loss_fn, scale_grads
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec = output_merge_spec
        self._has_backward = loss_fn is not None
        self.stage_index_to_group_rank = orders.stage_ranks(self.pp_group_size, self._num_stages, self._style)
        own = sorted(s for s, rank in self.stage_index_to_group_rank.items() if rank == self.rank)
        if sorted(stage.stage_index for stage in stages) != own:
            raise ValueError(
                f"{type(self).__name__}: rank {self.rank} must have the stages {own}, got "
                f"{sorted(stage.stage_index for stage in stages)}"
            )
        for stage in stages:
            stage.stage_index_to_group_rank = self.stage_index_to_group_rank
        self._use(self._order(self.pp_group_size, len(stages), n_microbatches))

    def _order(self, num_ranks: int, local: int, parts: int) -> Order:
        """The lists of all ranks."""
        raise NotImplementedError(f"{type(self).__name__} does not say in which order to compute")

    def _use(self, order: Order) -> None:
        has_backward = any(a.computation_type is not Kind.FORWARD for actions in order.values() for a in actions)
        orders.check(order, self.stage_index_to_group_rank, self._num_stages, self._n_microbatches, has_backward)
        self.pipeline_order: Order = order

    # --- a step -------------------------------------------------------------------------------------------------------

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """One batch through the pipeline, forward and back. The rank of the first stage gives the batch (`args`), that
        of the last one its `target`, and gets the `losses` of the microbatches and the output; `kwargs` are the stages'
        own on each rank."""
        if self._has_backward and not _C.is_grad_enabled():
            raise RuntimeError("step() computes gradients and cannot be called under no_grad(): call eval() instead")
        if (log := logs.messages("torch.distributed.pipelining", logs.DEBUG)) is not None:
            log.debug("%s: a step of %d microbatches", type(self).__name__, self._n_microbatches)
        return self._run(args, kwargs, target, losses, return_outputs, loss_kwargs, self._has_backward)

    def eval(
        self, *args: Any, target: Any = None, losses: list | None = None, return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None, **kwargs: Any,
    ) -> Any:
        """One batch through the pipeline, forward only."""
        with no_grad():
            return self._run(args, kwargs, target, losses, return_outputs, loss_kwargs, False)

    def _split(self, args: tuple, kwargs: dict, target: Any) -> tuple[list, list, Any]:
        count = self._n_microbatches
        if args or kwargs:
            arg_parts, kwarg_parts = split_args_kwargs_into_chunks(
                args, kwargs, count, self._args_chunk_spec, self._kwargs_chunk_spec
            )
            if len(arg_parts) != count:
                raise ValueError(f"a batch of {len(arg_parts)} cannot be split into {count} microbatches")
        else:
            arg_parts, kwarg_parts = [()] * count, [{}] * count
        if isinstance(target, Tensor):
            target = split_tensor(target, 0, count)
        elif target is not None and (not isinstance(target, (list, tuple)) or len(target) != count):
            raise TypeError(f"target must be a tensor, or a list of one per microbatch ({count}), got {target!r}")
        return arg_parts, kwarg_parts, target

    def _run(
        self, args: tuple, kwargs: dict, target: Any, losses: list | None, return_outputs: bool,
        loss_kwargs: dict[str, Any] | None, has_backward: bool,
    ) -> Any:
        if losses is not None and not isinstance(losses, list):
            raise TypeError(f"losses must be a list, got {type(losses).__name__}")
        order = self.pipeline_order
        if not has_backward:
            order = orders.forward_only(self.stage_index_to_group_rank, self._n_microbatches)
        for stage in self._stages:
            stage.has_backward = has_backward
            stage.clear_runtime_states()
        step = _Step(self, order, *self._split(args, kwargs, target), loss_kwargs or {}, return_outputs)
        step.run()
        last = next((stage for stage in self._stages if stage.is_last), None)
        if losses is not None and last is not None:
            losses[:] = [step.losses[part] for part in sorted(step.losses)]
        if last is None or not return_outputs:
            return None
        result = merge_chunks(last.output_chunks, self._output_merge_spec)
        last.output_chunks.clear()
        return result

    # --- orders in files ----------------------------------------------------------------------------------------------

    def _dump_csv(self, filename: str | os.PathLike) -> None:
        """Write the order: a line per rank."""
        with open(filename, "w", newline="") as file:
            csv.writer(file).writerows([[str(a) for a in self.pipeline_order[r]] for r in sorted(self.pipeline_order)])

    def _load_csv(self, filename: str | os.PathLike, format: str = "compute_only") -> None:
        """Follow the order in a file."""
        if format != "compute_only":
            raise NotImplementedError(f"_load_csv: format must be 'compute_only', got {format!r}: messages follow "
                                      "from the computations")
        with open(filename, newline="") as file:
            rows = list(csv.reader(file))
        self._use({r: [a for text in row if (a := Action.from_str(text))] for r, row in enumerate(rows)})


class _Step:
    """One batch on its way."""

    def __init__(
        self, schedule: _PipelineSchedule, order: Order, args: list, kwargs: list, targets: Any, loss_kwargs: dict,
        keeps_outputs: bool,
    ) -> None:
        self.schedule, self.order = schedule, order
        self.args, self.kwargs, self.targets, self.loss_kwargs = args, kwargs, targets, loss_kwargs
        self.keeps_outputs = keeps_outputs
        self.stages = {stage.stage_index: stage for stage in schedule._stages}
        self.ranks, self.count = schedule.stage_index_to_group_rank, schedule._num_stages
        self.losses: dict[int, Any] = {}
        first = schedule._stages[0]
        expected = orders.messages(order, self.ranks, self.count, schedule.rank)
        is_host = str(first.device).startswith("cpu") or first.device is None
        self.wire = Wire(first.group, None if is_host else first.device, expected)

    def run(self) -> None:
        actions = self.order.get(self.schedule.rank, [])
        last_of: dict[int, int] = {}
        for at, action in enumerate(actions):
            if action.computation_type is not Kind.FORWARD:
                last_of[action.stage_index] = at
        for at, action in enumerate(actions):
            stage = self.stages[action.stage_index]
            if action.computation_type is Kind.FORWARD:
                self._forward(stage, action.microbatch_index)
                continue
            is_last = last_of[action.stage_index] == at
            stage.prepare_gradient_sync(is_last)
            if action.computation_type is Kind.BACKWARD_WEIGHT:
                stage.backward_weight_one_chunk(action.microbatch_index, is_last)
            else:
                self._backward(stage, action.microbatch_index, action.computation_type is Kind.FULL_BACKWARD, is_last)
        self.wire.finish()
        if last_of:
            for stage in self.stages.values():
                if self.schedule.scale_grads:
                    stage.scale_grads(self.schedule._n_microbatches)
                stage.reduce_gradients()

    def _forward(self, stage: _PipelineStageBase, part: int) -> None:
        args = self.args[part] if stage.is_first else tuple(self.wire.receive(("F", stage.stage_index - 1, part)))
        output = stage.forward_one_chunk(part, args, self.kwargs[part], self.keeps_outputs)
        if not stage.is_last:
            self._send("F", stage.stage_index, stage.stage_index + 1, part, list(as_tuple(output)))
        elif self.schedule._loss_fn is not None and (self.targets is not None or stage.has_backward):
            if self.targets is None:
                raise ValueError("step: the rank of the last stage must give a target for the loss")
            self.losses[part] = self.schedule._loss_fn(output, self.targets[part], **self.loss_kwargs)

    def _backward(self, stage: _PipelineStageBase, part: int, is_full: bool, is_last: bool) -> None:
        number = stage.stage_index
        grads = None if stage.is_last else self.wire.receive(("B", number + 1, part))
        found = stage.backward_one_chunk(part, self.losses.get(part), is_full, is_last, grads)
        if not stage.is_first:
            self._send("B", number, number - 1, part, found)

    def _send(self, kind: str, source: int, to: int, part: int, tensors: list[Any]) -> None:
        if self.ranks[to] == self.schedule.rank:
            self.wire.deliver((kind, source, part), tensors)
        else:
            self.wire.send(self.ranks[to], (kind, source, part), tensors)


class PipelineScheduleSingle(_PipelineSchedule):
    """One stage per rank."""

    def __init__(
        self,
        stage: _PipelineStageBase,
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        super().__init__([stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                         scale_grads)
        self._stage = stage


class _ScheduleForwardOnly(PipelineScheduleSingle):
    """Forward only: for inference."""

    def __init__(self, stage: _PipelineStageBase, n_microbatches: int, loss_fn: Any = None, **options: Any) -> None:
        if loss_fn is not None:
            raise RuntimeError("a schedule that goes forward only has no use for loss_fn")
        super().__init__(stage, n_microbatches, None, **options)

    def _order(self, num_ranks: int, local: int, parts: int) -> Order:
        return orders.forward_only(self.stage_index_to_group_rank, parts)


class ScheduleGPipe(PipelineScheduleSingle):
    """All microbatches forward, then all back."""

    def _order(self, num_ranks: int, local: int, parts: int) -> Order:
        return orders.gpipe(num_ranks, parts)


class Schedule1F1B(PipelineScheduleSingle):
    """One forward and one back in turn: a stage holds no more microbatches than stages follow it."""

    def _order(self, num_ranks: int, local: int, parts: int) -> Order:
        if parts < num_ranks:
            raise ValueError(f"Schedule1F1B: n_microbatches ({parts}) must be at least the number of stages "
                             f"({num_ranks})")
        return orders.one_forward_one_backward(num_ranks, parts)


class PipelineScheduleMulti(_PipelineSchedule):
    """Several stages per rank.

    `use_full_backward` is no longer a choice, here as in PyTorch: the schedule's name says whether gradients of weights
    come apart."""

    def __init__(
        self,
        stages: list[_PipelineStageBase],
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        use_full_backward: bool | None = None,
        scale_grads: bool = True,
        backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False,
    ) -> None:
        if use_full_backward is not None:
            raise ValueError("use_full_backward was removed: choose a schedule that does, or does not, split backward")
        if not backward_requires_autograd:
            raise NotImplementedError("backward_requires_autograd=False is not supported: stages go back by autograd")
        # `defer_pp_recv` would receive as late as possible; here messages are taken when they come, and a stage waits
        # for the one it needs, so there is nothing to put off.
        self.defer_pp_recv = defer_pp_recv
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec,
                         scale_grads)


_PipelineScheduleRuntime = PipelineScheduleMulti


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All microbatches through a rank's first stage, then through its next; and back."""

    def _order(self, num_ranks: int, local: int, parts: int) -> Order:
        return orders.looped_bfs(num_ranks, local, parts)


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """One forward and one back in turn, over several stages per rank."""

    def _order(self, num_ranks: int, local: int, parts: int) -> Order:
        return orders.interleaved(num_ranks, local, parts, zero_bubble=False)


class ScheduleInterleavedZeroBubble(PipelineScheduleMulti):
    """As `ScheduleInterleaved1F1B`, with the gradients of weights where ranks would wait."""

    def _order(self, num_ranks: int, local: int, parts: int) -> Order:
        return orders.interleaved(num_ranks, local, parts, zero_bubble=True)


class _VSchedule(PipelineScheduleMulti):
    _style = "v"

    def _check_two(self, local: int) -> None:
        if local != 2:
            raise ValueError(f"{type(self).__name__} needs exactly 2 stages per rank, got {local}")


class ScheduleZBVZeroBubble(_VSchedule):
    """Two stages per rank, laid out as a V, with the gradients of weights where ranks would wait."""

    def _order(self, num_ranks: int, local: int, parts: int) -> Order:
        self._check_two(local)
        return orders.zero_bubble_v(num_ranks, parts)


class ScheduleDualPipeV(_VSchedule):
    """Two stages per rank, laid out as a V, forward and backward of the two in pairs."""

    def _order(self, num_ranks: int, local: int, parts: int) -> Order:
        self._check_two(local)
        return orders.dual_pipe_v(num_ranks, parts)


_BY_NAME = {
    "1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B, "GPipe": ScheduleGPipe,
    "LoopedBFS": ScheduleLoopedBFS, "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
    "PipelineScheduleSingle": PipelineScheduleSingle, "PipelineScheduleMulti": PipelineScheduleMulti,
    "ZBVZeroBubble": ScheduleZBVZeroBubble, "DualPipeV": ScheduleDualPipeV,
}


def get_schedule_class(schedule_name: str) -> type[_PipelineSchedule]:
    """A schedule by its name, in small or large letters."""
    for name, schedule in _BY_NAME.items():
        if name.lower() == schedule_name.lower():
            return schedule
    raise ValueError(f"there is no schedule {schedule_name!r}; there are {', '.join(_BY_NAME)}")
