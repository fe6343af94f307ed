"""The step: what was written down becomes a graph, runs, and tensors have values again.

Enters: a recording. Leaves: values in the storages that somebody still has. Equal recordings compile once.
"""

from __future__ import annotations

import itertools
import struct
import threading
from collections.abc import Sequence
from typing import Any

from .. import _C
from ..autograd.grad_mode import no_grad
from ..base import late
from ..devices.base import require
from ..utils._pytree import tree_flatten, tree_unflatten
from . import metrics
from .cache import Cache, caches
from .engines import engine_of
from .graph import Program
from .tape import read

_compiling = threading.RLock()      # a trace takes what another thread's holds for its own


def mark_step(device: str = "lazy", wait: bool = False) -> None:
    """Run what this thread wrote down for a device. `wait`: until it is done."""
    metrics.count("MarkStep")
    name = _C.device(device or "lazy").type
    require(name)
    run(name, _C.recording(name))
    if wait:
        engine_of(name).wait()
    from .closures import run_step_closures  # noqa: PLC0415 - most programs have none

    run_step_closures()


def run(device: str, recording: Any) -> None:
    """All of a recording: every storage that somebody has gets its value."""
    if not recording.calls:
        recording.finish((), [])
        return
    words, homes, alive, objects, values = recording.state()
    wanted = [n for n, lives in enumerate(alive) if lives]
    raise_broken(values)
    program, compiled, given = compiled_for(device, (words, homes, alive), objects, values, wanted, ends=True)
    try:
        results = _executed(device, program, compiled, given)
    except (RuntimeError, IndexError, ValueError) as error:
        recording.finish(program.outputs, rescued(device, program, given, error))
        raise
    metrics.count("SyncedTensorsWithIR", len(program.outputs))
    metrics.count_all(device, program.counts)
    recording.finish(program.outputs, results)


def value_of(tensor: Any) -> Any:
    """What a tensor's storage holds; only what it needs is computed, the rest stays written down."""
    value = _C.stored_value(tensor)
    if value is not None:
        raise_broken([value])
        return value
    at = _C.recorded_at(tensor)
    if at is None:
        count = tensor.untyped_storage().nbytes() // tensor.element_size()
        return engine_of(tensor.device.type).from_host(_C.empty((count,), None, tensor.dtype, None).zero_())
    recording, number = at
    metrics.tell("look", f"{recording.calls} calls are written down, and a tensor of them is looked at")
    words, homes, _, objects, values = recording.state()
    device = tensor.device.type
    program, results = _computed(device, (words, homes, number), objects, values, [number])
    value = results[0] if program.outputs else values[number]
    _C.set_stored_value(tensor, value)
    return value


def compiled_for(
    device: str, key: tuple, objects: list[Any], values: list[Any], wanted: list[int], ends: bool = False
) -> tuple:
    """(program, what the engine made of it, its arguments), found by `key` or made. `ends`: nothing stays written down,
    so that nobody needs what storages held before."""
    engine, cache = engine_of(device), caches.setdefault(device, Cache())
    key = (*key, *[None if v is None else v.dtype for v in values])
    found = cache.find(key, objects)
    if found is not None:
        metrics.count("CachedCompile")
        program, compiled = found
        return program, compiled, program.arguments(objects, values)
    metrics.count("UncachedCompile")
    program = Program(read(key[0], objects), struct.unpack(f"{len(key[1]) // 8}q", key[1]), wanted, objects,
                      ends)
    metrics.tell("compile", f"{len(program.calls)} calls, {len(program.outputs)} outputs on '{device}'")
    given = program.arguments(objects, values)
    raise_broken(given)
    with _compiling, metrics.timed("CompileTime"):
        compiled = engine.compile(program, given) if program.outputs else None
    cache.keep(key, program, compiled, objects)
    return program, compiled, given


def _computed(device: str, key: tuple, objects: list[Any], values: list[Any], wanted: list[int]) -> tuple:
    """(program, values of its outputs)."""
    program, compiled, given = compiled_for(device, key, objects, values, wanted)
    return program, _executed(device, program, compiled, given)


def _executed(device: str, program: Program, compiled: Any, given: list[Any]) -> list[Any]:
    """Values of a program's outputs."""
    if not program.outputs:
        return []
    with metrics.timed("ExecuteTime"):
        return engine_of(device).run(compiled, given)


class Broken:
    """What a storage holds whose computation failed: whoever asks for it is told why."""

    dtype = None

    def __init__(self, error: Exception) -> None:
        self.error = error


def rescued(device: str, program: Program, given: list[Any], error: Exception) -> list[Any]:
    """Values of a program of which one call fails, call by call on the host: what does not come from that call is
    there, the rest is `Broken`."""
    engine = engine_of(device)
    inputs = len(program.inputs)
    host = [*[engine.to_host(v) for v in given[:inputs]], *given[inputs:]]
    with no_grad():
        return [Broken(error) if v is None else engine.from_host(v) for v in program.attempt(host)]


def raise_broken(values: Sequence[Any]) -> None:
    """Raise what went wrong with a value that is needed now."""
    if Broken not in set(map(type, values)):
        return
    error = next(value.error for value in values if isinstance(value, Broken))
    raise type(error)(*error.args) from error


def sync_multi(tensors: Any, devices: Any = None) -> None:
    """Compute some tensors of this device in one graph; the rest stays written down."""
    groups: dict[Any, list[Any]] = {}
    for t in tensors:
        if isinstance(t, _C.Tensor) and _C.records(t.device) and (at := _C.recorded_at(t)) is not None:
            groups.setdefault((t.device.type, at[0]), []).append((t, at[1]))
    for (device, recording), members in groups.items():
        words, homes, _, objects, values = recording.state()
        wanted = sorted({number for _, number in members})
        program, results = _computed(device, (words, homes, *wanted), objects, values, wanted)
        found = dict(zip(program.outputs, results, strict=True))
        for t, number in members:
            if (value := found.get(number, values[number])) is not None:
                _C.set_stored_value(t, value)
        metrics.count("SyncedTensorsWithIR", len(program.outputs))


def wait_device_ops(devices: Any = None) -> None:
    """Return when what was started has finished, on these devices or on all."""
    names = {_C.device(d).type for d in devices or ()}
    for name in caches if not names else names:
        engine_of(name).wait()


_ids = itertools.count(1)


def get_tensor_id(tensor: Any) -> int:
    """A number that no other tensor of the process has or had."""
    if not isinstance(tensor, _C.Tensor) or not _C.records(tensor.device):
        raise RuntimeError(f"get_tensor_id: expected a tensor on a lazy device, got {_described(tensor)}")
    if not hasattr(tensor, "_lazy_id"):
        tensor._lazy_id = next(_ids)
    return tensor._lazy_id


def _described(value: Any) -> str:
    return f"one on '{value.device}'" if isinstance(value, _C.Tensor) else type(value).__name__


def to_cpu(tensors: Any, devices: Any = None) -> Any:
    """Tensors in lists, tuples and dictionaries on the host, computed in one graph."""
    leaves, spec = tree_flatten(tensors)
    sync_multi(leaves, devices)
    return tree_unflatten([t.cpu() if isinstance(t, _C.Tensor) else t for t in leaves], spec)


def save(tensors: Any, *args: Any, **kwargs: Any) -> None:
    """`rushlight.save` of `to_cpu(tensors)`."""
    late.provided("save")(to_cpu(tensors), *args, **kwargs)
