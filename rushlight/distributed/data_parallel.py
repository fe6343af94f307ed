"""`DistributedDataParallel`: one module in several processes, each with its share of the data, gradients averaged.

Enters: a module, the same in every process. Leaves: a module whose `backward` gives every process the mean of all
gradients. Refuses: arguments that mean devices it does not have, modules whose parameters differ between processes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from .. import _C
from ..base import logs
from ..nn.modules.module import Module
from ..op import find_op
from ..utils._pytree import tree_leaves, tree_map
from .algorithms.ddp_comm_hooks.default_hooks import _compressed
from .algorithms.join import Join, Joinable, JoinHook
from .collectives import all_gather_object, all_reduce, broadcast
from .group import ProcessGroup
from .groups import get_process_group_ranks, resolve
from .reduce_op import ReduceOp
from .reducer import FIRST_BUCKET, Reducer

_empty = find_op("empty")
DEFAULT_BUCKET_MB = 25


@dataclass
class _MixedPrecision:
    """Types for `DistributedDataParallel(mixed_precision=...)`, each None for what parameters and buffers have: of
    parameters and inputs while a pass computes, of gradients while they are reduced, of buffers."""

    param_dtype: _C.dtype | None = None
    reduce_dtype: _C.dtype | None = None
    buffer_dtype: _C.dtype | None = None


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
        delay_all_reduce_named_params: (name, parameter) pairs that are reduced together in place of being in buckets,
            once `param_to_hook_all_reduce` has its gradient
        param_to_hook_all_reduce: the parameter whose gradient says that those are there
        mixed_precision: `_MixedPrecision`, types to compute and reduce in; parameters keep their own
        device_mesh: a mesh of one dimension, in place of process_group
        skip_all_reduce_unused_params: whether buckets of parameters that are unused, in all processes and for ever,
            are not reduced
        batched_grad_copy: whether the gradients of a bucket are copied into it by one call
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
    ) -> None:
        super().__init__()
        Joinable.__init__(self)
        if (delay_all_reduce_named_params is None) != (param_to_hook_all_reduce is None):
            raise ValueError(
                "DistributedDataParallel: delay_all_reduce_named_params and param_to_hook_all_reduce need each other"
            )
        delayed = list(delay_all_reduce_named_params or ())
        ignored = {*getattr(module, "_ddp_params_and_buffers_to_ignore", ()), *(name for name, _ in delayed)}
        named = [(n, p) for n, p in module.named_parameters() if p.requires_grad and n not in ignored]
        _check_module(module, [*named, *delayed], device_ids, output_device)
        self.module, self.dim, self.device_ids, self.output_device = module, dim, device_ids, output_device
        self.process_group = _group_of(process_group, device_mesh)
        self.device_mesh, self.mixed_precision = device_mesh, mixed_precision
        self.parameters_to_ignore = ignored
        if forward_sync_buffers is not None:
            broadcast_buffers = forward_sync_buffers
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.device = [*named, *delayed][0][1].device
        self.bucket_bytes_cap = int((bucket_cap_mb or DEFAULT_BUCKET_MB) * 1024 * 1024)
        _check_same(named, self.process_group)
        if init_sync:
            self._broadcast([t for n, t in module.state_dict(keep_vars=True).items() if n not in ignored])
        sizes = [int(mb * 1024 * 1024) for mb in bucket_cap_mb_list or ()]
        sizes = sizes or ([self.bucket_bytes_cap] if bucket_cap_mb else [FIRST_BUCKET, self.bucket_bytes_cap])
        self.reducer = Reducer(
            named, self.process_group, sizes, gradient_as_bucket_view, find_unused_parameters, static_graph,
            skip_all_reduce_unused_params, batched_grad_copy,
        )
        self._delayed: _Delayed | None = None
        if delayed:
            if init_sync:
                self._broadcast([p for _, p in delayed])
            self._delayed = _Delayed([p for _, p in delayed], param_to_hook_all_reduce, self.process_group)
        if mixed_precision is not None:
            self._use_types(mixed_precision)
        if (log := logs.messages("torch.nn.parallel.distributed")) is not None:
            log.info("%s: gradients of %d parameters are reduced in buckets of at most %s bytes",
                     type(module).__name__, len(named), sizes)

    def _use_types(self, types: _MixedPrecision) -> None:
        reduced_in = types.reduce_dtype or types.param_dtype
        if reduced_in is not None:
            self.register_comm_hook(self.process_group, partial(_compressed, dtype=reduced_in))
        if types.buffer_dtype is not None:
            for buffer in self._synced_buffers():
                if buffer.is_floating_point():
                    buffer.data = buffer.to(types.buffer_dtype)

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
        if self._delayed is not None and is_reduced:
            self._delayed.prepare()
        result = self._call(inputs, kwargs)
        if is_reduced:
            self.require_forward_param_sync = True
            self.reducer.prepare([t for t in tree_leaves(result) if isinstance(t, _C.Tensor)])
        else:
            self.reducer.is_armed = False
            self.require_forward_param_sync = False
        return result

    def _call(self, inputs: tuple, kwargs: dict[str, Any]) -> Any:
        dtype = self.mixed_precision.param_dtype if self.mixed_precision is not None else None
        if dtype is None:
            return self.module(*inputs, **kwargs)
        changed = _in_dtype(self.module, dtype, self.parameters_to_ignore)
        try:
            return self.module(*_cast(inputs, dtype), **_cast(kwargs, dtype))
        finally:
            for owner, name, p in changed:
                owner._parameters[name] = p

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

    def _where(self) -> Any:
        """Where the parameters are: what the group's back end reaches."""
        return self.reducer.named[0][1].device

    def _agree(self, has_data: bool) -> int:
        """Who has data: the last of them gives the buffers, their number may be the divisor."""
        flags = _empty(self.process_group.size(), dtype=_C.int64, device=self._where()).zero_()
        flags[self.process_group.rank()] = int(has_data)
        all_reduce(flags, group=self.process_group)
        with_data = [rank for rank, flag in enumerate(flags.tolist()) if flag]
        self._source = with_data[-1]        # as in PyTorch: the last rank that still has data
        self.reducer.divisor = self.process_group.size() if self._divides_by_all else len(with_data)
        return self._source

    def _answer_step(self) -> None:
        self._agree(False)
        if self.broadcast_buffers and self.training:
            self._broadcast(self._synced_buffers(), self._source)
        self.reducer.answer()

    def _take_final_state(self, is_last: bool) -> None:
        """All processes end with the state of one that came last."""
        mine = _empty(1, dtype=_C.int64, device=self._where()).fill_(self.process_group.rank() if is_last else -1)
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
        if self._delayed is not None or self.device_mesh is not None:
            raise RuntimeError("DistributedDataParallel: with delayed parameters or a device_mesh it cannot be copied")
        state = dict(self.__dict__)
        del state["process_group"], state["reducer"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = resolve(None)
        named = [(n, p) for n, p in self.module.named_parameters()
                 if p.requires_grad and n not in self.parameters_to_ignore]
        self.reducer = Reducer(
            named, self.process_group, [FIRST_BUCKET, self.bucket_bytes_cap], self.gradient_as_bucket_view,
            self.find_unused_parameters, self.static_graph,
        )


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


class _Delayed:
    """Parameters that are reduced together, once the gradient of another one says that theirs are there."""

    def __init__(self, params: list[Any], signal: Any, group: ProcessGroup) -> None:
        self.params, self.group = params, group
        first = params[0]
        self.buffer = _empty(sum(p.numel() for p in params), dtype=first.dtype, device=first.device).zero_()
        self.views = [v.view(p.shape) for v, p in zip(self.buffer.split([p.numel() for p in params]), params)]
        self.is_armed = False
        signal.register_hook(self._begin)

    def prepare(self) -> None:
        """Gradients of the next pass are to lie in the buffer."""
        self.is_armed = True
        for p, view in zip(self.params, self.views, strict=True):
            if p.grad is None:
                p.grad = view.zero_()

    def _begin(self, gradient: Any) -> Any:
        if self.is_armed:
            self.is_armed = False
            work = all_reduce(self.buffer.div_(self.group.size()), group=self.group, async_op=True)
            _C.queue_callback(work.wait)
        return gradient


def _group_of(process_group: Any, mesh: Any) -> ProcessGroup:
    if mesh is None:
        return resolve(process_group)
    if process_group is not None:
        raise RuntimeError("DistributedDataParallel: give process_group or device_mesh, not both")
    if mesh.ndim != 1:
        raise RuntimeError(f"DistributedDataParallel: device_mesh must have one dimension, got {mesh}")
    return mesh.get_group(0)


def _cast(values: Any, dtype: _C.dtype) -> Any:
    def change(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, _C.Tensor) and value.is_floating_point() else value

    return tree_map(change, values)


def _in_dtype(module: Module, dtype: _C.dtype, ignored: set[str]) -> list[tuple[Module, str, Any]]:
    """Let a module compute with its parameters in another type, which they get their gradients through; what was
    replaced."""
    results: dict[int, Any] = {}
    changed = []
    for path, owner in module.named_modules():
        for name, p in owner._parameters.items():
            full = f"{path}.{name}" if path else name
            if p is not None and p.is_floating_point() and full not in ignored:
                changed.append((owner, name, p))
                results.setdefault(id(p), p.to(dtype))
    for owner, name, p in changed:
        owner._parameters[name] = results[id(p)]
    return changed


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
