"""Graphs taken out of a recording: by their hash, or as a function that runs without recording again.

Enters: lazy tensors, or an FX graph and examples of its inputs. Leaves: hashes, inputs, results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from ..utils._pytree import tree_flatten, tree_unflatten
from .engines import engine_of
from .step import compiled_for, get_tensor_id

_graphs: dict[str, tuple[str, Any, Any]] = {}


def _state(tensors: Sequence[Any]) -> tuple[str, tuple, list[Any], list[Any], list[int]]:
    """Device, key, objects, values and numbers of storages of tensors that one thread wrote down."""
    places = [_C.recorded_at(t) for t in tensors]
    recordings = {id(at[0]): at[0] for at in places if at is not None}
    if len(recordings) != 1 or None in places:
        raise RuntimeError("expected tensors that one thread wrote down and nothing computed yet")
    (recording,) = recordings.values()
    words, homes, _, objects, values = recording.state()
    wanted = sorted({at[1] for at in places})
    return tensors[0].device.type, (words, homes, *wanted), objects, values, wanted


def get_graph_hash(tensors: Sequence[Any]) -> str:
    """A name of the graph that the tensors come from; equal graphs have equal names."""
    device, key, objects, values, wanted = _state(tensors)
    name = hashlib.sha256(repr(key).encode()).hexdigest()[:32]
    program, compiled, _ = compiled_for(device, key, objects, values, wanted)
    _graphs[name] = device, program, compiled
    return name


def get_tensors_ts_device_data_node(tensors: Sequence[Any]) -> tuple[list[int], list[Any]]:
    """Numbers and values of what the graph of the tensors is given."""
    device, key, objects, values, wanted = _state(tensors)
    program, _, _ = compiled_for(device, key, objects, values, wanted)
    return list(program.inputs), [engine_of(device).to_host(values[n]) for n in program.inputs]


def run_cached_graph(hash_str: str, graph_inputs: Sequence[Any]) -> list[Any]:
    """Results of a graph that `get_graph_hash` named, on other inputs."""
    if hash_str not in _graphs:
        raise RuntimeError(f"run_cached_graph: no graph is called {hash_str!r}; ask get_graph_hash first")
    device, program, compiled = _graphs[hash_str]
    engine = engine_of(device)
    given = program.arguments(program.objects, dict(zip(program.inputs, graph_inputs, strict=True)))
    return [engine.to_host(value) for value in engine.run(compiled, given)]


def extract_compiled_graph(model: Any, example_inputs: Sequence[Any]) -> Callable:
    """A function like the FX graph `model`, recorded once on the lazy device and run by its engine from then on."""
    lazy_args = [_lazy(a) for a in example_inputs]
    model = model.to("lazy")
    outputs, spec = tree_flatten(model(*lazy_args))
    computed = [t for t in outputs if isinstance(t, _C.Tensor) and _C.recorded_at(t) is not None]
    if not computed:
        raise RuntimeError("extract_compiled_graph: nothing in the graph was computed on the lazy device")
    device, key, objects, values, wanted = _state(computed)
    program, compiled, _ = compiled_for(device, key, objects, values, wanted)
    engine = engine_of(device)
    places = {_C.recorded_at(t)[1]: k for k, t in enumerate(lazy_args)
              if isinstance(t, _C.Tensor) and _C.recorded_at(t) is not None}
    layouts = [(_C.recorded_at(t)[1], tuple(t.shape), t.stride(), t.storage_offset(), t.dtype) for t in computed]
    kept = dict(enumerate(values))

    def run(*args: Any) -> Any:
        given = dict(kept)
        given.update({n: engine.from_host(args[k].detach().cpu().contiguous().reshape(-1)) for n, k in places.items()})
        results = dict(zip(program.outputs, engine.run(compiled, program.arguments(objects, given)), strict=True))
        found = iter([_seen(engine.to_host(results[n]), *layout) for n, *layout in layouts])
        leaves = [next(found) if any(t is c for c in computed) else t for t in outputs]
        return tree_unflatten([t.to(args[0].device) if isinstance(t, _C.Tensor) else t for t in leaves], spec)

    run.program = program      # type: ignore[attr-defined]
    return run


def _lazy(a: Any) -> Any:
    if not isinstance(a, _C.Tensor):
        return a
    moved = a.to("lazy")
    get_tensor_id(moved)
    return moved


def _seen(flat: Any, sizes: tuple, strides: tuple, offset: int, dtype: Any) -> Any:
    return (flat if flat.dtype is dtype else flat.view(dtype)).as_strided(sizes, strides, offset)
