"""`fully_shard`: a module whose parameters, gradients and optimizer state are spread over processes.

Enters: a module, the same in every process (or on the meta device), innermost modules first. Leaves: the module itself,
now also an `FSDPModule`, with DTensors as parameters; between uses each process has its part. Refuses: numbers as
parameters, dimensions that cannot be cut evenly, parameters of several types in one call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from ... import _C
from ...base import logs
from ...nn.modules.container import ModuleDict, ModuleList
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from ..device_mesh import DeviceMesh, init_device_mesh
from ..groups import default_group, get_backend, get_world_size, init_process_group, is_initialized
from ..tensor import DTensor, Shard
from ._dim_unit import DimUnit
from ._passes import Passes, passes_of
from ._unit import Owner, Unit
from .policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method", "share_comm_ctx"]
_classes: dict[type, type] = {}


class UnshardHandle:
    """Parameters that are being gathered."""

    def __init__(self, unit: Unit | None = None) -> None:
        self._unit = unit

    def wait(self) -> None:
        """Return when the module has whole parameters."""
        if self._unit is not None:
            self._unit.gather()
            self._unit = None


class FSDPModule:
    """What a module can do besides, once it is sharded."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A module made from a sharded one's class (slices of containers) is a plain one."""
        original = cls.__mro__[2] if issubclass(cls, Module) else cls
        result = original.__new__(original)
        if issubclass(original, Module):
            result.__init__(*args, **kwargs)
        return result

    def _get_fsdp_state(self) -> Passes:
        found = passes_of(self)     # type: ignore[arg-type]
        assert found is not None, "a class of this kind is made by fully_shard only"
        return found

    def _units(self, recurse: bool = False) -> list[Unit]:
        return [p.unit for p in self._all_passes(recurse) if p.unit is not None]

    def _all_passes(self, recurse: bool) -> list[Passes]:
        modules = self.modules() if recurse else [self]     # type: ignore[attr-defined]
        found = [passes_of(m) for m in modules]
        return list(dict.fromkeys(p for p in found if p is not None))

    def reshard(self) -> None:
        """Free this module's whole parameters (not those of modules that are sharded by themselves)."""
        for unit in self._units():
            unit.free()

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Make this module's parameters whole; with `async_op` they are when the handle's `wait` returns."""
        state = self._get_fsdp_state()
        if state.unit is None:
            return UnshardHandle() if async_op else None
        if not async_op:
            state.unit.gather()
            return None
        state.unit.begin_gather()
        return UnshardHandle(state.unit)

    def reset_iter_state(self) -> None:
        """After an exception in forward or backward: forget the pass, its gradients included. For the root."""
        self._get_fsdp_state().reset()

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Whether the next backward pass waits for gradients; otherwise a later one, or the next forward, does."""
        state = self._get_fsdp_state()
        state.join_root()
        state._shared().is_last_backward = is_last_backward

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward passes reduce gradients; without it they are added up in this process, as whole ones."""
        for unit in self._units(recurse):
            unit.is_synced = unit.is_reduced_over_replicas = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether gradients are reduced over copies, too (meshes of two dimensions)."""
        for unit in self._units(recurse):
            unit.is_reduced_over_replicas = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether whole parameters are freed after forward; the root's, too."""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(
                f"set_reshard_after_forward: expected a bool, got {type(reshard_after_forward).__name__}"
            )
        for passes in self._all_passes(recurse):
            passes.frees_root = reshard_after_forward
            if passes.unit is not None:
                passes.unit.frees_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Whether whole parameters are freed after backward."""
        for unit in self._units(recurse):
            unit.frees_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Which modules' parameters begin to be gathered before this one's forward."""
        self._get_fsdp_state().next_forward = _all_sharded(modules)

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Which modules' parameters begin to be gathered before this one's backward; the one before, if not set."""
        self._get_fsdp_state().next_backward = _all_sharded(modules)

    def set_custom_all_gather(self, comm: Any) -> None:
        """Who gathers this module's parameters."""
        for unit in self._units():
            unit.custom_gather = comm

    def set_custom_reduce_scatter(self, comm: Any) -> None:
        """Who reduces this module's gradients."""
        for unit in self._units():
            unit.custom_reduce = comm

    def set_all_reduce_hook(self, hook: Callable[[Any], None], *, stream: Any = None) -> None:
        """A function that gets the reduced part of all gradients of this module, and may change it."""
        if stream is not None:
            raise NotImplementedError("set_all_reduce_hook: stream is for accelerators, and not written yet")
        for unit in self._units():
            unit.reduced_hook = hook

    def set_post_optim_event(self, event: Any) -> None:
        """Wait for an event of an accelerator before parameters are gathered."""
        event.synchronize()

    def set_gradient_divide_factor(self, factor: float) -> None:
        """What sums of gradients are divided by, in place of the number of processes."""
        for unit in self._units():
            unit.divisor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Only sums are sent, which is so here in any case: division comes before or after."""
        for unit in self._units():
            unit.uses_sums_only = enable

    def set_reduce_scatter_unused_params(self, reduce_scatter_unused_params: bool, *, recurse: bool = True) -> None:
        """Whether parameters without a gradient in this process count as zeros, since others may have one."""
        for unit in self._units(recurse):
            unit.reduces_unused = reduce_scatter_unused_params

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers: int, *, recurse: bool = True) -> None:
        """How many units' gradients may be on their way at once."""
        if isinstance(max_input_buffers, bool) or not isinstance(max_input_buffers, int):
            raise TypeError(f"max_input_buffers must be an int, got {type(max_input_buffers).__name__}")
        if max_input_buffers < 1:
            raise ValueError(f"max_input_buffers must be positive, got {max_input_buffers}")
        for passes in self._all_passes(recurse):
            passes.max_in_flight = max_input_buffers

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Whether backward needs this module's parameters whole (an embedding's does not)."""
        for unit in self._units():
            unit.gathers_in_backward = unshard_in_backward

    def _set_unshard_async_op(self, async_op: bool) -> None:
        """Gathering is in the background wherever it is begun ahead."""

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        for unit in self._units():
            unit.free()
        result = super()._apply(*args, **kwargs)        # type: ignore[misc]
        for unit in self._units():
            unit.refresh()
        return result


def _all_sharded(modules: Iterable[Any]) -> list[Passes]:
    found = []
    for module in modules:
        passes = passes_of(module)
        if passes is None:
            raise ValueError(f"expected modules that are sharded, got a {type(module).__name__} that is not")
        found.append(passes)
    return found


def fully_shard(
    module: Any, *, mesh: DeviceMesh | None = None, reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Parameter], Any] | None = None, mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None, ignored_params: set[Parameter] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Spread a module's parameters over processes; those of modules inside that were sharded before stay theirs.

    Arguments:
        module: the module, or a list of modules that run one after another and share one collective
        mesh: processes over which parameters are cut; with two dimensions, copies along the first
        reshard_after_forward: whether whole parameters are freed between forward and backward; None means that
            they are, except for the root
        shard_placement_fn: which dimension of a parameter is cut: `Shard(dim)`, or None for the first
        mp_policy: types to compute and reduce in
        offload_policy: `CPUOffloadPolicy()` keeps parts in host memory
        ignored_params: parameters that are left alone

    Example:
        >>> for block in model.blocks: fully_shard(block)     # doctest: +SKIP
        >>> fully_shard(model)                                # doctest: +SKIP
    """
    if dp_mesh_dims is not None:
        raise NotImplementedError("fully_shard: dp_mesh_dims is not written yet; give a mesh of its own dimensions")
    modules = [module] if isinstance(module, Module) else list(module)
    _check_modules(modules)
    mp_policy, offload_policy = mp_policy or MixedPrecisionPolicy(), offload_policy or OffloadPolicy()
    mesh = mesh if mesh is not None else _world_mesh()
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard: mesh must have one dimension, or two with copies, got {mesh}")
    frees = _checked_reshard(reshard_after_forward, mesh)
    unit = _unit_of(modules, mesh, shard_placement_fn, mp_policy, offload_policy, ignored_params or set())
    if unit is not None:
        unit.frees_after_forward = frees
    passes = Passes(modules, unit, mp_policy, reshard_after_forward)
    if (log := logs.messages("torch.distributed.fsdp")) is not None:
        log.info("fully_shard: %s over %s, parameters are %s after forward", [type(m).__name__ for m in modules], mesh,
                 "freed" if frees else "kept")
    for m in modules:
        m._fsdp_passes = passes
        m.register_state_dict_pre_hook(_show_parts)
        m.register_load_state_dict_pre_hook(_show_parts)
        cls = type(m)
        if cls not in _classes:
            _classes[cls] = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {"__module__": cls.__module__})
        m.__class__ = _classes[cls]
    return module


def _show_parts(module: Any, *args: Any) -> None:
    """A state dict is one of parts."""
    passes = passes_of(module)
    if passes is not None and passes.unit is not None:
        passes.unit.free()


def _check_modules(modules: list[Any]) -> None:
    if not modules:
        raise ValueError("fully_shard: the list of modules is empty")
    for m in modules:
        if not isinstance(m, Module):
            raise TypeError(f"fully_shard: expected a module or a list of modules, got {type(m).__name__}")
        if isinstance(m, (ModuleList, ModuleDict)) and type(m).forward is Module.forward:
            raise ValueError(
                f"fully_shard: {type(m).__name__} has no forward of its own, so that nothing would tell when its "
                f"parameters are needed. Shard the modules in it"
            )
        if passes_of(m) is not None:
            raise AssertionError(f"fully_shard: this {type(m).__name__} is sharded already")


def _world_mesh() -> DeviceMesh:
    if not is_initialized():
        init_process_group()
    device = "cuda" if get_backend(default_group()) == "nccl" else "cpu"
    return init_device_mesh(device, (get_world_size(),))


def _checked_reshard(value: bool | int | None, mesh: DeviceMesh) -> bool:
    if value is None or isinstance(value, bool):
        return value is not False
    size = mesh.size(mesh.ndim - 1)
    if not isinstance(value, int) or value < 1 or size % value:
        raise ValueError(
            f"fully_shard: reshard_after_forward must be a bool or divide the {size} processes of the mesh, got {value}"
        )
    if value in (1, size):
        return value == size        # parts over one process are whole parameters
    raise NotImplementedError(
        f"fully_shard: reshard_after_forward={value} (parts over fewer processes between forward and backward) is not "
        f"written yet; True frees more, False sends less"
    )


def _unit_of(
    modules: list[Module], mesh: DeviceMesh, placement: Callable[[Parameter], Any] | None, mp_policy: Any,
    offload: OffloadPolicy, ignored: set[Parameter],
) -> DimUnit | None:
    left = {id(p) for p in ignored}
    owners: dict[int, list[Owner]] = {}
    params: dict[int, Any] = {}
    for top in modules:
        for inner in _own_modules(top):
            for name, p in inner._parameters.items():
                if p is not None and id(p) not in left:
                    owners.setdefault(id(p), []).append((inner, name))
                    params[id(p)] = p
    if not params:
        return None
    listed = list(params.values())
    size = mesh.size(mesh.ndim - 1)
    dims = [_dim_of(p, placement, size) for p in listed]
    dtypes = sorted({str(p.dtype) for p in listed})
    if len(dtypes) > 1:
        raise ValueError(f"fully_shard: parameters of one call must have one dtype, got {', '.join(dtypes)}")
    device = _C.device(mesh.device_type)
    home = _C.device("cpu") if isinstance(offload, CPUOffloadPolicy) else device
    dtype = mp_policy.param_dtype if mp_policy.param_dtype != listed[0].dtype else None
    reduce_dtype = mp_policy.reduce_dtype
    return DimUnit([owners[i] for i in params], listed, dims, mesh, device, home, dtype, reduce_dtype)


def _own_modules(top: Module) -> Iterable[Module]:
    """A module and those inside that are not sharded by themselves."""
    seen: set[int] = set()
    stack = [top]
    while stack:
        module = stack.pop()
        if id(module) in seen or (module is not top and passes_of(module) is not None):
            continue
        seen.add(id(module))
        yield module
        stack.extend(m for m in reversed(list(module._modules.values())) if m is not None)


def _dim_of(p: Any, placement: Callable[[Parameter], Any] | None, size: int) -> int:
    if not p.dim():
        raise ValueError("fully_shard: a parameter of no dimensions cannot be cut. Give it the shape (1,)")
    chosen = placement(p) if placement is not None else None
    if chosen is None:
        return 0
    if not isinstance(chosen, Shard):
        raise ValueError(f"fully_shard: shard_placement_fn must give a Shard or None, got {chosen!r}")
    dim = chosen.dim + p.dim() if chosen.dim < 0 else chosen.dim
    if not 0 <= dim < p.dim():
        raise ValueError(f"fully_shard: shard_placement_fn gave {chosen} for a parameter of shape {tuple(p.shape)}")
    local = p._local_tensor.shape if isinstance(p, DTensor) else p.shape
    if dim and local[dim] % size:
        raise NotImplementedError(
            f"fully_shard: only the first dimension can be cut unevenly, got dimension {dim} of {tuple(local)} for "
            f"{size} processes"
        )
    return dim


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Let another method of a sharded module be used as `forward` is: parameters are whole while it runs."""
    passes = passes_of(module)
    if passes is None:
        return
    if not hasattr(module, method_name):
        raise ValueError(f"register_fsdp_forward_method: {type(module).__name__} has no method {method_name!r}")
    original = getattr(module, method_name)

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = passes.before_forward(module, args, kwargs)
        return passes.after_forward(module, original(*args, **kwargs))

    setattr(module, method_name, method)


def share_comm_ctx(modules: list[Any]) -> None:
    """Modules that are roots of their own (stages of a pipeline) limit together what is on its way."""
    found = _all_sharded(modules)
    if not found:
        return
    found[0].join_root()
    for passes in found[1:]:
        passes.join_root()
        passes._shared().in_flight = found[0]._shared().in_flight
