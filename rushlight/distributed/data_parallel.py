"""`DistributedDataParallel`: one module in several processes, each with its share of the data, gradients averaged.

Enters: a module, the same in every process. Leaves: a module whose `backward` gives every process the mean of all
gradients. Refuses: arguments that mean devices it does not have, modules whose parameters differ between processes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .. import _C
from ..nn.modules.module import Module
from ..op import find_op
from ..utils._pytree import tree_leaves, tree_map
from .algorithms.join import Join, Joinable, JoinHook
from .collectives import all_gather_object, all_reduce, broadcast
from .group import ProcessGroup
from .groups import get_process_group_ranks, resolve
from .reduce_op import ReduceOp
from .reducer import FIRST_BUCKET, Reducer

_empty = find_op("empty")
DEFAULT_BUCKET_MB = 25
_NOT_YET = ("mixed_precision", "delay_all_reduce_named_params", "param_to_hook_all_reduce", "device_mesh")


class _Answers(JoinHook):
    """What a process without data does for a model: its buckets are zeros in the others' sums."""

    def __init__(self, model: DistributedDataParallel, by_all: bool) -> None:
        self.model, self.by_all = model, by_all
        model._divides_by_all = by_all

    def main_hook(self) -> None:
        self.model._answer_step()

    def post_hook(self, is_last_joiner: bool) -> None:
        self.model._take_final_state(is_last_joiner)


class DistributedDataParallel(Module, Joinable):
    """A module whose gradients are averaged over processes.

    Arguments:
        module: what to train; in every process the same parameters, in the same order
        device_ids: None, or the one accelerator that the module is on
        output_device: where outputs are; only with device_ids
        dim: the batch dimension
        broadcast_buffers: whether buffers become those of rank 0 before each forward pass
        init_sync: whether parameters and buffers become those of rank 0 now
        process_group: which processes; all by default
        bucket_cap_mb: how much is reduced at once
        find_unused_parameters: whether some parameters may get no gradient
        gradient_as_bucket_view: whether gradients lie in the buckets themselves, which saves their memory
        static_graph: whether every pass uses the same parameters; allows re-entrant checkpointing
        bucket_cap_mb_list: the same per bucket
        forward_sync_buffers: another name of broadcast_buffers

    Example:
        >>> model = rl.nn.parallel.DistributedDataParallel(rl.nn.Linear(4, 2))  # doctest: +SKIP
    """

    __module__ = "rushlight.nn.parallel.distributed"     # where programs find it

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool | None = None, init_sync: bool = True, process_group: Any = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False, check_reduction: bool = False,
        gradient_as_bucket_view: bool = False, static_graph: bool = False,
        delay_all_reduce_named_params: Any = None, param_to_hook_all_reduce: Any = None, mixed_precision: Any = None,
        device_mesh: Any = None, skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None, batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        Joinable.__init__(self)
        given = (mixed_precision, delay_all_reduce_named_params, param_to_hook_all_reduce, device_mesh)
        for name, value in zip(_NOT_YET, given, strict=True):
            if value is not None:
                raise NotImplementedError(f"DistributedDataParallel: {name} is not written yet")
        if skip_all_reduce_unused_params:
            raise NotImplementedError("DistributedDataParallel: skip_all_reduce_unused_params is not written yet")
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(n, p) for n, p in module.named_parameters() if p.requires_grad and n not in ignored]
        _check_module(module, named, device_ids, output_device)
        self.module, self.dim, self.device_ids, self.output_device = module, dim, device_ids, output_device
        self.process_group = resolve(process_group)
        self.parameters_to_ignore = ignored
        if forward_sync_buffers is not None:
            broadcast_buffers = forward_sync_buffers
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.device = named[0][1].device
        self.bucket_bytes_cap = int((bucket_cap_mb or DEFAULT_BUCKET_MB) * 1024 * 1024)
        _check_same(named, self.process_group)
        if init_sync:
            self._broadcast([t for n, t in module.state_dict(keep_vars=True).items() if n not in ignored])
        sizes = [int(mb * 1024 * 1024) for mb in bucket_cap_mb_list or ()]
        sizes = sizes or ([self.bucket_bytes_cap] if bucket_cap_mb else [FIRST_BUCKET, self.bucket_bytes_cap])
        self.reducer = Reducer(
            named, self.process_group, sizes, gradient_as_bucket_view, find_unused_parameters, static_graph
        )

    def _broadcast(self, tensors: list[Any], source: int = 0) -> None:
        for tensor in tensors:
            if isinstance(tensor, _C.Tensor):
                broadcast(tensor.detach(), group=self.process_group, group_src=source)

    def _synced_buffers(self) -> list[Any]:
        return [b for n, b in self.module.named_buffers() if n not in self.parameters_to_ignore]

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's own, between bringing buffers up to date and making ready for the backward pass."""
        is_reduced = _C.is_grad_enabled() and self.require_backward_grad_sync
        if is_reduced and self._join_config.enable:
            self._count_those_with_data()
        if self.require_forward_param_sync and self.broadcast_buffers and self.training:
            self._broadcast(self._synced_buffers(), self._source)
        if self.device_ids:
            inputs, kwargs = _to_device(self.device_ids[0], inputs, kwargs)
        result = self.module(*inputs, **kwargs)
        if is_reduced:
            self.require_forward_param_sync = True
            self.reducer.prepare([t for t in tree_leaves(result) if isinstance(t, _C.Tensor)])
        else:
            self.reducer.is_armed = False
            self.require_forward_param_sync = False
        return result

    # --- uneven inputs: every step of a process with data begins with a count, and those without answer the rest

    _source = 0                 # whose buffers count
    _divides_by_all = True

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:
        """Inside, processes may have different numbers of batches.

        Gradients are divided by the number of processes, or else of those that still have data."""
        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without data does."""
        return _Answers(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        return self.device

    @property
    def join_process_group(self) -> Any:
        return self.process_group

    def _count_those_with_data(self) -> None:
        work = Join.notify_join_context(self)
        if work is not None:
            work.wait()
        self._agree(True)

    def _agree(self, has_data: bool) -> int:
        """Who has data: the first of them gives the buffers, their number may be the divisor."""
        flags = _empty(self.process_group.size(), dtype=_C.int64).zero_()
        flags[self.process_group.rank()] = int(has_data)
        all_reduce(flags, group=self.process_group)
        with_data = [rank for rank, flag in enumerate(flags.tolist()) if flag]
        self._source = with_data[0]
        self.reducer.divisor = self.process_group.size() if self._divides_by_all else len(with_data)
        return self._source

    def _answer_step(self) -> None:
        self._agree(False)
        if self.broadcast_buffers and self.training:
            self._broadcast(self._synced_buffers(), self._source)
        self.reducer.answer()

    def _take_final_state(self, is_last: bool) -> None:
        """All processes end with the state of one that came last."""
        mine = _empty(1, dtype=_C.int64).fill_(self.process_group.rank() if is_last else -1)
        all_reduce(mine, ReduceOp.MAX, self.process_group)
        self._broadcast(list(self.module.state_dict(keep_vars=True).values()), int(mine))
        self._source, self.reducer.divisor = 0, self.process_group.size()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of passes inside are added up in this process; the first pass afterwards reduces them."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Let a function reduce the buckets: `hook(state, bucket)` returns a Future of the reduced buffer."""
        if not callable(hook):
            raise TypeError(f"register_comm_hook: hook must be a function, got {type(hook).__name__}")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook: a hook was registered before; there can be one")
        self.reducer.hook = state, hook

    def train(self, mode: bool = True) -> DistributedDataParallel:
        """Set the training mode of the module."""
        super().train(mode)
        return self

    def _set_static_graph(self) -> None:
        self.static_graph = self.reducer.is_static = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, params_and_buffers_to_ignore: Any) -> None:
        module._ddp_params_and_buffers_to_ignore = list(params_and_buffers_to_ignore)     # type: ignore[assignment]

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        buckets = self.reducer.buckets
        return {
            "world_size": self.process_group.size(),
            "rank": self.process_group.rank(),
            "module_name": type(self.module).__name__,
            "bucket_sizes": ", ".join(str(b.buffer.nbytes) for b in buckets),
            "num_parameter_tensors": len(self.reducer.named),
        }

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        del state["process_group"], state["reducer"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = resolve(None)
        named = [(n, p) for n, p in self.module.named_parameters()
                 if p.requires_grad and n not in self.parameters_to_ignore]  # fmt: skip
        self.reducer = Reducer(
            named, self.process_group, [FIRST_BUCKET, self.bucket_bytes_cap], self.gradient_as_bucket_view,
            self.find_unused_parameters, self.static_graph,
        )  # fmt: skip


def _check_module(module: Module, named: list[tuple[str, Any]], device_ids: Any, output_device: Any) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"DistributedDataParallel: module must be an nn.Module, got {type(module).__name__}")
    if not named:
        raise RuntimeError("DistributedDataParallel is for modules with a parameter that requires a gradient")
    kinds = {p.device.type for _, p in named}
    if len(kinds) > 1:
        raise ValueError(f"DistributedDataParallel: parameters must be on one kind of device, got {sorted(kinds)}")
    if device_ids and len(device_ids) > 1:
        raise ValueError(f"DistributedDataParallel: device_ids names one device per process, got {list(device_ids)}")
    if (device_ids or output_device is not None) and kinds == {"cpu"}:
        raise ValueError(
            f"DistributedDataParallel: the module is on the CPU, so that device_ids and output_device must be None, "
            f"got {device_ids} and {output_device}"
        )


def _check_same(named: list[tuple[str, Any]], group: ProcessGroup) -> None:
    """All processes must have the same parameters: the first difference is named."""
    mine = [(name, tuple(p.shape), str(p.dtype)) for name, p in named]
    all_of_them: list[Any] = [None] * group.size()
    all_gather_object(all_of_them, mine, group=group)
    ranks = get_process_group_ranks(group)
    for place, theirs in enumerate(all_of_them):
        if theirs == all_of_them[0]:
            continue
        if len(theirs) != len(all_of_them[0]):
            raise RuntimeError(
                f"DistributedDataParallel: rank {ranks[0]} has {len(all_of_them[0])} parameters, rank {ranks[place]} "
                f"has {len(theirs)}"
            )
        a, b = next((a, b) for a, b in zip(all_of_them[0], theirs) if a != b)
        raise RuntimeError(
            f"DistributedDataParallel: rank {ranks[0]} has the parameter {a[0]} of shape {a[1]} and {a[2]} where rank "
            f"{ranks[place]} has {b[0]} of shape {b[1]} and {b[2]}"
        )


def _to_device(device: Any, inputs: tuple, kwargs: dict) -> tuple[tuple, dict]:
    def move(value: Any) -> Any:
        return value.to(device) if isinstance(value, _C.Tensor) else value

    return tree_map(move, inputs), tree_map(move, kwargs)
