"""torch_xla.core.xla_model: devices, steps, and collectives of a world of one.

Enters: tensors, optimizers, closures. Leaves: what torch_xla's functions of these names give on one unit. Refuses:
groups and places beyond that unit.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ... import _C
from ...lazy.closures import add_step_closure as add_step_closure
from ...lazy.debug import compiled_texts
from ...lazy.step import sync_multi, to_cpu, wait_device_ops as wait_device_ops
from ...random import initial_seed
from ...serialization import save as _save
from ...utils._pytree import tree_map
from .. import client, runtime
from ..stepping import manual_seed, real_devices, sync
from ..unit import NAME, units

REDUCE_SUM, REDUCE_MUL, REDUCE_AND, REDUCE_OR, REDUCE_MIN, REDUCE_MAX = "sum", "mul", "and", "or", "min", "max"
_REDUCTIONS = (REDUCE_SUM, REDUCE_MUL, REDUCE_AND, REDUCE_OR, REDUCE_MIN, REDUCE_MAX)

# --- devices ----------------------------------------------------------------------------------------------------------


def xla_device(n: int | None = None, devkind: str | None = None) -> Any:
    """The unit `n`, the first one unless told."""
    return runtime.xla_device(n, devkind)


def get_xla_supported_devices(devkind: str | None = None, max_devices: int | None = None) -> list[str] | None:
    """Names of the units of a kind; None where there are none."""
    if devkind not in (None, runtime.KIND):
        return None
    return [str(d) for d in units()][:max_devices]


def xla_device_hw(device: Any) -> str:
    """The kind of hardware behind a unit."""
    _checked("xla_device_hw", device)
    return runtime.device_type()


def xla_real_devices(devices: Iterable[Any] | None = None) -> list[str]:
    """What units are, in XLA's words."""
    if devices is None:
        return real_devices()
    return [f"{runtime.KIND}:{_checked('xla_real_devices', d).index or 0}" for d in devices]


def parse_xla_device(device: str) -> tuple[str, int] | None:
    """The kind and number in a name like `CPU:0`; None where it is no such name."""
    found = re.fullmatch(r"([A-Z]+):(\d+)", device)
    return (found[1], int(found[2])) if found else None


def is_xla_tensor(tensor: Any) -> bool:
    """Whether a tensor is on this device."""
    return isinstance(tensor, _C.Tensor) and tensor.device.type == NAME


def _checked(what: str, device: Any) -> Any:
    found = _C.device(device)
    if found.type != NAME or (found.index or 0) >= len(units()):
        raise RuntimeError(f"{what}: expected one of {[str(d) for d in units()]}, got {str(found)!r}")
    return found


def get_memory_info(device: Any = None) -> dict[str, int]:
    """Bytes in buffers of XLA's now, and the bytes that this machine has."""
    _checked("get_memory_info", device or xla_device())
    return {
        "bytes_used": sum(b.on_device_size_in_bytes() for b in client.load().client.live_arrays()),
        "bytes_limit": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


# --- steps ------------------------------------------------------------------------------------------------------------


def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """End the step: what was written down runs."""
    sync(wait, reset_scope)


def optimizer_step(
    optimizer: Any, barrier: bool = False, optimizer_args: dict[str, Any] | None = None, groups: Any = None,
    pin_layout: bool = True,
) -> Any:
    """`optimizer.step(**optimizer_args)`, behind gradients that all units agree about; `barrier` ends the step."""
    _one_group("optimizer_step", groups)
    loss = optimizer.step(**(optimizer_args or {}))
    if barrier:
        mark_step()
    return loss


def reduce_gradients(optimizer: Any, groups: Any = None, pin_layout: bool = True) -> None:
    """Sum gradients over all units: they are, with one."""
    _one_group("reduce_gradients", groups)


def unlazy(tensors: Sequence[Any]) -> None:
    """Compute tensors; the rest stays written down."""
    sync_multi(tensors)


def send_cpu_data_to_device(datas: Sequence[Any], device: Any, input_sharding: Any = None) -> list[Any]:
    """Data, its tensors on the device."""
    if input_sharding is not None:
        raise NotImplementedError("send_cpu_data_to_device: sharding over units (SPMD) is not here; pass None")
    return [tree_map(lambda t: t.to(device) if isinstance(t, _C.Tensor) else t, data) for data in datas]


def save(data: Any, file_or_path: Any, master_only: bool = True, global_master: bool = False) -> None:
    """`rushlight.save` of the data on the host, computed in one graph."""
    _save(to_cpu(data), file_or_path)


def get_stablehlo(tensors: Sequence[Any]) -> str:
    """What tensors come from, as StableHLO."""
    return "\n".join(compiled_texts(tensors))


def get_stablehlo_bytecode(tensors: Sequence[Any]) -> bytes:
    """The same as a portable artifact."""
    from ..portable import artifact_of  # noqa: PLC0415 - few programs ask

    return artifact_of(get_stablehlo(tensors))


# --- a world of one ---------------------------------------------------------------------------------------------------


def get_ordinal() -> int:
    """Which unit of all this thread works for."""
    return runtime.global_ordinal()


def get_local_ordinal() -> int:
    """Which unit of this machine's."""
    return runtime.local_ordinal()


def xrt_world_size() -> int:
    """How many units take part."""
    return runtime.world_size()


def is_master_ordinal(local: bool = True) -> bool:
    """Whether this is the first unit."""
    return get_ordinal() == 0


def master_print(*args: Any, fd: Any = None, local: bool = False, flush: bool = False) -> None:
    """Print, on the first unit alone."""
    print(*args, file=fd or sys.stdout, flush=flush)


def do_on_ordinals(target: Callable, data: Any = (), ordinals: Sequence[int] = (0,)) -> Any:
    """Call a function with data on the host, on the units that are named."""
    if get_ordinal() in ordinals:
        return target(*to_cpu(data))
    return None


def rendezvous(tag: str, payload: bytes = b"", replicas: Sequence[int] = ()) -> list[bytes]:
    """Everybody's payloads, when all have come."""
    _one_group("rendezvous", [list(replicas)] if replicas else None)
    return [payload]


def mesh_reduce(tag: str, data: Any, reduce_fn: Callable) -> Any:
    """`reduce_fn` of everybody's data, on the host."""
    return reduce_fn([to_cpu(data)])


def all_reduce(
    reduce_type: str, inputs: Any, scale: float = 1.0, groups: Any = None, cctx: Any = None, pin_layout: bool = True
) -> Any:
    """Tensors of all units joined, times `scale`. A list is changed in place."""
    _one_group("all_reduce", groups)
    if reduce_type not in _REDUCTIONS:
        raise ValueError(f"all_reduce: expected one of {', '.join(_REDUCTIONS)}, got {reduce_type!r}")
    if isinstance(inputs, _C.Tensor):
        return inputs * scale if scale != 1.0 else inputs.clone()
    for t in inputs:
        if scale != 1.0:
            t.mul_(scale)
    return inputs


def all_gather(
    value: Any, dim: int = 0, groups: Any = None, output: Any = None, pin_layout: bool = True, channel_id: Any = None,
    use_global_device_ids: Any = None,
) -> Any:
    """Tensors of all units, one behind the other."""
    _one_group("all_gather", groups)
    return _given(value, output)


def reduce_scatter(
    reduce_type: str, input: Any, scale: float, scatter_dim: int, shard_count: int, groups: Any = None,
    output: Any = None, pin_layout: bool = True, channel_id: Any = None, use_global_device_ids: Any = None,
) -> Any:
    """Tensors of all units joined, of which this unit has its part."""
    _one_group("reduce_scatter", groups)
    if shard_count != 1:
        raise ValueError(f"reduce_scatter: expected 1 part for 1 unit, got {shard_count}")
    return _given(all_reduce(reduce_type, input, scale), output)


def all_to_all(
    value: Any, split_dimension: int, concat_dimension: int, split_count: int, groups: Any = None,
    pin_layout: bool = True,
) -> Any:
    """Parts from all units."""
    _one_group("all_to_all", groups)
    if split_count != 1:
        raise ValueError(f"all_to_all: expected 1 part for 1 unit, got {split_count}")
    return value.clone()


def collective_permute(value: Any, pairs: Sequence[Sequence[int]]) -> Any:
    """Tensors from unit to unit; zeros where none comes."""
    if any(p != 0 for pair in pairs for p in pair):
        raise ValueError(f"collective_permute: the one unit is 0, got {list(pairs)}")
    return value.clone() if pairs else value * 0


def collective_broadcast(
    tensors: Sequence[Any], root_ordinal: int = 0, groups: Any = None, pin_layout: bool = True
) -> None:
    """Tensors as the unit `root_ordinal` has them."""
    _one_group("collective_broadcast", groups)
    if root_ordinal != 0:
        raise ValueError(f"collective_broadcast: the one unit is 0, got {root_ordinal}")


def _given(value: Any, output: Any) -> Any:
    return value.clone() if output is None else output.copy_(value)


def _one_group(what: str, groups: Any) -> None:
    if groups and [list(g) for g in groups] != [[0]]:
        raise ValueError(f"{what}: there is one unit, so the groups can be [[0]] alone, got {groups}")


# --- random numbers ---------------------------------------------------------------------------------------------------


def set_rng_state(seed: int, device: Any = None) -> None:
    """Restart the random numbers from a seed."""
    manual_seed(seed, device)


def get_rng_state(device: Any = None) -> int:
    """The seed that the random numbers began with."""
    return initial_seed()
