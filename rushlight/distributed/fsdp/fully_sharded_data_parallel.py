"""`FullyShardedDataParallel`: a wrapper whose module's parameters are spread over processes as one line of elements.

Enters: a module, the same in every process. Leaves: a module whose parameters are this process's part between passes.
Refuses: parameters of several types in one wrapper, state dict settings that do not belong together.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from ... import _C
from ...autograd.grad_mode import no_grad
from ...nn.modules.module import Module
from ...op import find_op
from ..collectives import all_reduce, broadcast
from ..groups import default_group, get_process_group_ranks, new_group, new_subgroups, resolve
from ..reduce_op import ReduceOp
from . import _optim_state
from ._flat_unit import FlatParameter, FlatUnit
from ._passes import Passes, passes_of
from ._wrapper_state import WrapperState, cleaned
from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from .wrap import chosen_modules

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FlatParameter", "FullOptimStateDictConfig", "FullStateDictConfig",
    "FullyShardedDataParallel", "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision",
    "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig",
    "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType",
]
WRAPPED = "_fsdp_wrapped_module"
_stack, _vector_norm = find_op("stack"), find_op("linalg_vector_norm")
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_KEEPS_WHOLE = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2, ShardingStrategy.NO_SHARD)


class OptimStateKeyType(enum.Enum):
    """How an optimizer's state names parameters."""

    PARAM_NAME = enum.auto()
    PARAM_ID = enum.auto()


class FullyShardedDataParallel(WrapperState, Module):
    """A module whose parameters, gradients and optimizer state are spread over processes.

    Arguments:
        module: what to wrap; the same in every process, unless sync_module_states
        process_group: over which processes; (within a machine, over machines) for hybrid strategies
        sharding_strategy: what is spread; everything by default
        cpu_offload: whether parts lie in host memory
        auto_wrap_policy: which modules inside are wrapped by themselves
        backward_prefetch: when the next module's parameters are begun in backward; None for when they are needed
        mixed_precision: types to compute and reduce in
        ignored_modules: modules that are left alone, with all below
        param_init_fn: gives values to a module on the meta device; by default its reset_parameters()
        device_id: where the module is brought first
        sync_module_states: whether parameters and buffers become those of rank 0
        forward_prefetch: whether the parameters that came next in the first pass are begun ahead
        limit_all_gathers: how far work of accelerators may run ahead; at most one unit is begun ahead in any case
        use_orig_params: whether parameters keep their names, each with its piece of the part
        ignored_states: modules or parameters that are left alone
        device_mesh: a mesh in place of process_group; of two dimensions for hybrid strategies
    """

    def __init__(
        self, module: Module, process_group: Any = None, sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None, auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None, ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None, device_id: Any = None, sync_module_states: bool = False,
        forward_prefetch: bool = False, limit_all_gathers: bool = True, use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None, device_mesh: Any = None,
    ) -> None:
        super().__init__()
        if not isinstance(module, Module):
            raise TypeError(f"FullyShardedDataParallel: module must be an nn.Module, got {type(module).__name__}")
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        groups = _groups_of(process_group, device_mesh, strategy)
        if device_id is not None:
            module.to(device_id if not isinstance(device_id, int) else _C.device("cuda", device_id))
        skipped_modules, skipped_params = _ignored(ignored_modules, ignored_states)
        self.process_group, self.sharding_strategy = groups[0] or groups[1], strategy
        self.mixed_precision = mixed_precision or MixedPrecision()
        self.cpu_offload = cpu_offload or CPUOffload()
        self.backward_prefetch, self.forward_prefetch = backward_prefetch, forward_prefetch
        self.limit_all_gathers, self._use_orig_params = limit_all_gathers, use_orig_params
        self._device_mesh = device_mesh
        if auto_wrap_policy is not None:
            arguments = dict(
                process_group=process_group, sharding_strategy=sharding_strategy, cpu_offload=cpu_offload,
                backward_prefetch=backward_prefetch, mixed_precision=mixed_precision, param_init_fn=param_init_fn,
                sync_module_states=sync_module_states, forward_prefetch=forward_prefetch,
                limit_all_gathers=limit_all_gathers, use_orig_params=use_orig_params, device_mesh=device_mesh,
                ignored_states=[*skipped_modules] or [*skipped_params],
            )
            if process_group is None and device_mesh is None and strategy in _HYBRID:
                arguments["process_group"] = groups
            module = _wrap_inside(module, auto_wrap_policy, skipped_modules, arguments, self.mixed_precision)
        self._fsdp_wrapped_module = module
        _give_values(module, param_init_fn)
        self._make_unit(module, groups, skipped_modules, skipped_params, sync_module_states)
        self._state_settings = None
        self._register_state_hooks()

    def _make_unit(self, module: Module, groups: tuple[Any, Any], skipped: set[Module], params: set[int],
                   syncs: bool) -> None:
        owners, names, found = _own_parameters(module, skipped, params)
        if syncs:
            buffers = [b for m in _own_modules(module, skipped) for b in m._buffers.values() if b is not None]
            for tensor in [*found, *buffers]:
                broadcast(tensor.detach(), group=self.process_group, group_src=0)
        self._cast_buffers(module, skipped)
        unit = None
        if found:
            _check_alike(found, names, self._use_orig_params)
            device = found[0].device
            home = _C.device("cpu") if self.cpu_offload.offload_params else device
            unit = FlatUnit(owners, names, found, *groups, device, home, self._use_orig_params, module)
            unit.use_types(self.mixed_precision.param_dtype, self.mixed_precision.reduce_dtype)
            unit.keeps_low_precision = self.mixed_precision.keep_low_precision_grads
            unit.frees_after_forward = self.sharding_strategy not in _KEEPS_WHOLE
        passes = Passes([self], unit, self.mixed_precision, None)
        passes.prefetches_in_order = self.forward_prefetch
        passes.prefetches_after = self.backward_prefetch is BackwardPrefetch.BACKWARD_POST
        if self.backward_prefetch is None:
            passes.next_backward = []
        self._fsdp_passes = passes

    def _cast_buffers(self, module: Module, skipped: set[Module]) -> None:
        self._buffer_types: list[tuple[Module, str, Any]] = []
        dtype = self.mixed_precision.buffer_dtype
        if dtype is None:
            return
        for m in _own_modules(module, skipped):
            for name, b in m._buffers.items():
                if b is not None and b.is_floating_point() and b.dtype != dtype:
                    self._buffer_types.append((m, name, b.dtype))
                    m._buffers[name] = b.to(dtype)

    # --- the module inside

    @property
    def module(self) -> Any:
        """What is wrapped."""
        return self._fsdp_wrapped_module

    @property
    def _unit(self) -> FlatUnit | None:
        return self._fsdp_passes.unit

    @property
    def _has_params(self) -> bool:
        return self._unit is not None

    @property
    def _flat_param(self) -> Any:
        unit = self._unit
        return None if unit is None or unit.keeps_names else unit.parts[0]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == WRAPPED:
                raise
            return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self._fsdp_wrapped_module[key]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own; parameters are whole around it."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    def check_is_root(self) -> bool:
        """Whether no wrapper is around this one."""
        self._fsdp_passes.join_root()
        return self._fsdp_passes.is_root

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[Any]:
        """All wrappers in a module; with `root_only` those that are in no other one."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        if not root_only:
            return found
        inner = {id(m) for f in found for m in f._fsdp_wrapped_module.modules()}
        return [f for f in found if id(f) not in inner]

    def _units(self) -> list[FlatUnit]:
        return [f._unit for f in self.fsdp_modules(self) if f._unit is not None]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Names and parameters; those of the module alone while parameters are whole."""
        is_summoned = self.__dict__.get("_is_summoned", False)
        for name, p in super().named_parameters(*args, **kwargs):
            yield (cleaned(name) if is_summoned else name), p

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Names and buffers; those of the module alone while parameters are whole."""
        is_summoned = self.__dict__.get("_is_summoned", False)
        for name, b in super().named_buffers(*args, **kwargs):
            yield (cleaned(name) if is_summoned else name), b

    def apply(self, fn: Callable[[Module], None]) -> FullyShardedDataParallel:
        """Call a function with every module inside, while parameters are whole; what it changes stays."""
        with self.summon_full_params(self, writeback=True):
            return super().apply(fn)

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        for unit in self._units():
            unit.free()
        result = super()._apply(*args, **kwargs)
        for unit in self._units():
            unit.refresh()
        return result

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False,
        offload_to_cpu: bool = False, with_grads: bool = False,
    ) -> Generator[None, None, None]:
        """Inside, parameters (and gradients) are whole; changes of parameters stay, with `writeback`."""
        if writeback and rank0_only:
            raise NotImplementedError("summon_full_params: with rank0_only there is nothing to write back from")
        if offload_to_cpu and any(p.device.type != "cpu" for p in module.parameters()):
            raise NotImplementedError("summon_full_params: offload_to_cpu is not written yet for accelerators")
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        wrappers = wrappers if recurse else [w for w in wrappers if w is module]
        # Those that are whole already, such as inside another such context, are not this one's to free.
        units = [w._unit for w in wrappers if w._unit is not None and not w._unit.is_whole]
        with no_grad():
            for unit in units:
                unit.gather()
                if with_grads:
                    _show_gradients(unit)
        renamed = [w for w in wrappers if not w.__dict__.get("_is_summoned", False)]
        for w in renamed:
            w.__dict__["_is_summoned"] = True
        try:
            yield
        finally:
            for w in renamed:
                w.__dict__["_is_summoned"] = False
            with no_grad():
                for unit in units:
                    if writeback:
                        unit.write_back()
                    if with_grads:
                        _take_gradients(unit, writeback)
                    unit.free()

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of passes inside are added up in this process, as whole ones."""
        units = self._units()
        for unit in units:
            unit.is_synced = False
        try:
            yield
        finally:
            for unit in units:
                unit.is_synced = True

    def register_comm_hook(self, state: Any, hook: Callable) -> None:
        """Let a function reduce gradients of this wrapper (the outermost) and all within: `hook(state, gradient, part)`
        fills this process's part of all processes' mean; where nothing is spread, `hook(state, gradient)` puts it into
        the gradient. See `algorithms._comm_hooks`."""
        if not callable(hook):
            raise ValueError(f"register_comm_hook: the hook must be a function, got {hook!r}")
        if not self.check_is_root():
            raise AssertionError("register_comm_hook: call it on the outermost wrapper")
        units = self._units()
        if any(unit.size > 1 and unit.replicas is not None for unit in units):
            raise AssertionError("register_comm_hook: hybrid strategies, which reduce twice, take no hook")
        if any(unit.comm_hook is not None for unit in units):
            raise AssertionError("register_comm_hook: there is a hook already")
        for unit in units:
            unit.comm_hook = state, hook

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale gradients so that their norm, over all processes, is at most `max_norm`; the norm before."""
        self._fsdp_passes.join_root()
        if not self._fsdp_passes.is_root:
            raise RuntimeError("clip_grad_norm_: call it on the root, the module whose forward the program calls")
        norm_type = float(norm_type)
        units = self._units()
        spread = [p for u in units if u.size > 1 for p in u.parts if p.grad is not None]
        mine = {id(p) for u in units if u.size > 1 for p in u.parts}
        rest = [p for p in self.parameters() if id(p) not in mine and p.grad is not None]
        group = next((u.group for u in units if u.size > 1), None)
        total = _norm(spread, norm_type, self._device())
        if norm_type == float("inf"):
            if group is not None:
                all_reduce(total, ReduceOp.MAX, group)
            total = total.maximum(_norm(rest, norm_type, self._device()))
        else:
            total = total**norm_type
            if group is not None:
                all_reduce(total, group=group)
            total = (total + _norm(rest, norm_type, self._device()) ** norm_type) ** (1 / norm_type)
        scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for p in [*spread, *rest]:
            p.grad.mul_(scale.to(p.grad.device, p.grad.dtype))
        return total

    def _device(self) -> Any:
        return next(iter(self.parameters())).device

    # --- optimizers

    optim_state_dict = staticmethod(_optim_state.optim_state_dict)
    optim_state_dict_to_load = staticmethod(_optim_state.optim_state_dict_to_load)
    full_optim_state_dict = staticmethod(_optim_state.full_optim_state_dict)
    sharded_optim_state_dict = staticmethod(_optim_state.sharded_optim_state_dict)
    shard_full_optim_state_dict = staticmethod(_optim_state.shard_full_optim_state_dict)
    scatter_full_optim_state_dict = staticmethod(_optim_state.scatter_full_optim_state_dict)
    flatten_sharded_optim_state_dict = staticmethod(_optim_state.flatten_sharded_optim_state_dict)

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict[str, Any], optim_state_key_type: OptimStateKeyType, model: Module,
        optim_input: Any = None, optim: Any = None,
    ) -> dict[str, Any]:
        """An optimizer's state with names of parameters as keys, or their numbers."""
        to_names = optim_state_key_type is OptimStateKeyType.PARAM_NAME
        return _optim_state.rekeyed(optim_state_dict, to_names, model, optim_input, optim)


def _groups_of(process_group: Any, mesh: Any, strategy: ShardingStrategy) -> tuple[Any, Any]:
    """(over which parts are spread, over which there are copies)."""
    if process_group is not None and mesh is not None:
        raise ValueError("FullyShardedDataParallel: give process_group or device_mesh, not both")
    if strategy in _HYBRID:
        if mesh is not None:
            if mesh.ndim != 2:
                raise ValueError(
                    f"FullyShardedDataParallel: {strategy.name} needs a mesh of two dimensions, got {mesh}"
                )
            return mesh.get_group(1), mesh.get_group(0)
        if process_group is None:
            return _machine_groups()
        if not isinstance(process_group, tuple) or len(process_group) != 2:
            raise ValueError(
                f"FullyShardedDataParallel: {strategy.name} takes two groups (within a machine, over machines), got "
                f"{type(process_group).__name__}"
            )
        return process_group
    if mesh is not None and mesh.ndim != 1:
        raise ValueError(f"FullyShardedDataParallel: {strategy.name} needs a mesh of one dimension, got {mesh}")
    group = mesh.get_group(0) if mesh is not None else resolve(process_group)
    return (None, group) if strategy is ShardingStrategy.NO_SHARD else (group, None)


def _machine_groups() -> tuple[Any, Any]:
    inside, all_of_them = new_subgroups()
    ranks = [get_process_group_ranks(g) for g in all_of_them] if all_of_them else [list(range(default_group().size()))]
    across = None
    for same_place in zip(*ranks):
        result = new_group(list(same_place))
        if default_group().rank() in same_place:
            across = result
    return inside, across


def _ignored(modules: Iterable[Module] | None, states: Iterable[Any] | None) -> tuple[set[Module], set[int]]:
    if modules is not None and states is not None:
        raise ValueError("FullyShardedDataParallel: ignored_states does what ignored_modules does; give one of them")
    given = list(modules or states or ())
    tops = [m for m in given if isinstance(m, Module)]
    params = {id(p) for p in given if isinstance(p, _C.Tensor)}
    if tops and params:
        raise ValueError("FullyShardedDataParallel: ignored_states must be modules or parameters, not both")
    return {inner for top in tops for inner in top.modules()}, params


def _wrap_inside(module: Module, policy: Any, skipped: set[Module], arguments: dict[str, Any], types: Any) -> Module:
    skipped = {*skipped, *(m for m in module.modules() if passes_of(m) is not None)}
    chosen = chosen_modules(module, policy, skipped, arguments)
    own_types = types._module_classes_to_ignore if types.param_dtype is not None else ()
    for m in module.modules():
        if own_types and isinstance(m, tuple(own_types)) and m is not module and m not in skipped:
            chosen = {m: {**arguments, "mixed_precision": None}, **chosen}
            _keep_types(m, types.param_dtype)
    for m, options in chosen.items():
        wrapper = FullyShardedDataParallel(m, **options)
        for parent in list(module.modules()):
            for name, child in parent._modules.items():
                if child is m and parent is not wrapper:
                    parent._modules[name] = wrapper
    return module


def _keep_types(module: Module, dtype: Any) -> None:
    """A module that computes in its own type between others that do in another."""

    def up(_: Module, args: tuple) -> tuple:
        return tuple(a.float() if isinstance(a, _C.Tensor) and a.is_floating_point() else a for a in args)

    def down(_: Module, args: tuple, output: Any) -> Any:
        return output.to(dtype) if isinstance(output, _C.Tensor) and output.is_floating_point() else output

    module.register_forward_pre_hook(up)
    module.register_forward_hook(down)


def _own_modules(top: Module, skipped: set[Module]) -> list[Module]:
    """A module and those inside that no other wrapper has."""
    found, stack = [], [top]
    while stack:
        module = stack.pop()
        if module in skipped or passes_of(module) is not None or module in found:
            continue
        found.append(module)
        stack.extend(m for m in reversed(list(module._modules.values())) if m is not None)
    return found


def _own_parameters(top: Module, skipped: set[Module], params: set[int]) -> tuple[list, list[str], list[Any]]:
    paths = {id(m): name for name, m in top.named_modules()}
    owners: dict[int, list] = {}
    names: dict[int, str] = {}
    found: dict[int, Any] = {}
    for module in _own_modules(top, skipped):
        for name, p in module._parameters.items():
            if p is None or id(p) in params:
                continue
            owners.setdefault(id(p), []).append((module, name))
            names.setdefault(id(p), cleaned(f"{paths[id(module)]}.{name}".lstrip(".")))
            found[id(p)] = p
    return [owners[i] for i in found], [names[i] for i in found], list(found.values())


def _check_alike(params: list[Any], names: list[str], keeps_names: bool) -> None:
    dtypes = sorted({str(p.dtype) for p in params})
    if len(dtypes) > 1:
        raise ValueError(f"FullyShardedDataParallel: parameters of one wrapper must have one dtype, got {dtypes}")
    if not keeps_names and len({p.requires_grad for p in params}) > 1:
        frozen = [n for n, p in zip(names, params) if not p.requires_grad]
        raise ValueError(
            f"FullyShardedDataParallel: {', '.join(frozen[:4])} need no gradient and others do. Give "
            f"use_orig_params=True, or wrap them by themselves"
        )


def _give_values(module: Module, function: Callable[[Module], None] | None) -> None:
    """Values for parameters on the meta device."""
    for m in module.modules():
        own = [*m._parameters.values(), *m._buffers.values()]
        if passes_of(m) is not None or not any(t is not None and t.is_meta for t in own):
            continue
        if function is not None:
            function(m)
        elif hasattr(m, "reset_parameters"):
            m.to_empty(device="cpu", recurse=False)
            m.reset_parameters()
        else:
            raise RuntimeError(
                f"FullyShardedDataParallel: {type(m).__name__} is on the meta device and has no reset_parameters(). "
                f"Give param_init_fn"
            )


def _norm(params: list[Any], norm_type: float, device: Any) -> Any:
    norms = [_vector_norm(p.grad.detach().float(), norm_type) for p in params if p.grad.numel()]
    return _vector_norm(_stack(norms), norm_type) if norms else _C.empty((), None, _C.float32, device).zero_()


def _show_gradients(unit: FlatUnit) -> None:
    flat = unit._buffer.new_zeros(unit.length)
    for i, part in enumerate(unit.parts):
        if part.grad is not None:
            flat[unit.piece(i) if unit.keeps_names else slice(None)].copy_(part.grad)
    for p, gradient in zip(unit.whole, unit.gathered(flat)):
        p.grad = gradient.to(p.dtype)


def _take_gradients(unit: FlatUnit, keeps: bool) -> None:
    if keeps:
        packed = unit.pack([p.grad for p in unit.whole], unit._buffer.dtype)
        own = packed[unit.rank * unit.length : (unit.rank + 1) * unit.length]
        for i, part in enumerate(unit.parts):
            part.grad = own[unit.piece(i)].clone() if unit.keeps_names else own.clone()
    for p in unit.whole:
        p.grad = None
