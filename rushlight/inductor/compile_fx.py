"""Compiling a graph: read, group, emit; a callable comes out.

Enters: a GraphModule and tensors like its inputs. Leaves: `Compiled`, called with a list of tensors of the same
layouts; it returns a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _C
from ..base import logs
from ..base.show import is_shown, show
from ..op import find_op
from . import parts, report, settings, telling
from .compiled import Compiled, Description
from .emit import Emitter
from .epilogues import join_epilogues
from .freezing import enlarge_tiles, fold_norms
from .in_place import write_in_place, write_inputs
from .joined import write_joined, write_turned
from .launches import share
from .merge import merge
from .mixed import compile_mixed, devices_of
from .narrow_convolutions import widen
from .overlap import overlapped
from .products import improve
from .quantized_layers import fold_layers
from .read_graph import Reader, flat, is_node
from .replay import Replayed, ReplayedSizes, can_replay
from .sized import Sized, varies
from .units import Grouping, summary
from .values import Buffer, Value
from .whole_graphs import whole


def compile_graph(graph_module: Any, example_inputs: Sequence[Any]) -> Any:
    """A callable that runs the graph through one plan; where sizes of the examples are symbols, for all of them. A
    graph in which elements decide sizes is cut into several."""
    fold_layers(graph_module)
    if parts.are_in(graph_module.graph):
        return parts.Parted(graph_module, example_inputs, compile_graph)
    if len(devices_of(example_inputs)) > 1:
        return compile_mixed(graph_module, example_inputs, compile_graph)
    found = whole(graph_module, example_inputs, next(iter(devices_of(example_inputs)), None))
    if found is not None:
        return found
    if any(varies(x) for x in example_inputs):
        sized = Sized(graph_module, example_inputs, _as_now(compiled_for))
        tensors = [x for x in example_inputs if isinstance(x, _C.Tensor)]
        replays = settings.replay and not settings.skip_dynamic_replays and not settings.debug_folder
        return ReplayedSizes(sized) if replays and tensors and tensors[0].device.type == "cuda" else sized
    result = compiled_for(graph_module, example_inputs, [])
    if result.device.type == "cuda":
        if can_replay(result, result.device, settings.replay):
            return Replayed(result, settings.replay)
    if settings.replay:
        telling.not_replayed(result)
    return result


def _as_now(compile: Callable[..., Any]) -> Callable[..., Any]:
    """`compile`, whose lines name the frame and the graph that are compiled now, whenever it is called."""
    frame, graph = logs.here.compile_id, logs.here.graph

    def run(*args: Any) -> Any:
        before, logs.here.graph = logs.here.graph, graph
        try:
            with logs.compiling(frame):
                return compile(*args)
        finally:
            logs.here.graph = before

    return run


def compiled_for(
    graph_module: Any, inputs: Sequence[Any], geometries: Sequence[Any], symbols: dict[str, Any] | None = None
) -> Compiled:
    """The graph for inputs of these layouts. `geometries`: sizes and strides of tensors that differ from the inputs'
    own, and numbers, in which Extents stand for those of other calls; None where there is nothing to say. `symbols`:
    what the names are that the graph's own formulas use."""
    inputs = list(inputs)
    telling.begun(graph_module)
    used = [k for k, t in enumerate(inputs) if isinstance(t, _C.Tensor)]
    devices = {inputs[k].device for k in used}
    if len(devices) > 1:
        raise RuntimeError(f"inductor: expected the graph's inputs on one device, got {sorted(map(str, devices))}")
    device = next(iter(devices), None) or made_on(graph_module.graph)
    values = [x if g is None else g for x, g in zip(inputs, geometries or [None] * len(inputs), strict=True)]
    for number, k in enumerate(used):
        t = inputs[k]
        own = [int(n) for n in t.shape], [int(s) for s in t.stride()]
        sizes, strides = own if values[k] is t else values[k]
        values[k] = Buffer(sizes, strides, t.dtype, number).whole()
    static = (
        [used.index(k) for k in graph_module.meta.get("static_inputs", ()) if k in used]
        if settings.prepare_weights or settings.freeze
        else []
    )
    for number in static:
        values[used[number]].buffer.is_static = True
    reader = Reader(device)
    reader.constants, reader.first_constant, reader.symbols = [], len(used), symbols
    outputs = separate(reader, graph_module, flat(reader.read(graph_module, values)))
    updated: tuple[int, ...] = ()
    if not symbols and not geometries:
        inside = {p: values[k] for p, k in enumerate(graph_module.meta.get("overwritten", ()))}
        outputs = write_inputs(reader, outputs, inside)
        updated = tuple([v.buffer.number for p, v in inside.items() if outputs[p] is None])
    emitter, order = emitted(reader, [v for v in outputs if isinstance(v, Value)], device)
    places = iter(order)
    numbered = [next(places) if isinstance(v, Value) else (v,) for v in outputs]
    writes = any(b.is_input and b.number not in updated for n in reader.nodes for b in n.writes)
    result = Compiled(described(emitter, numbered, reader.constants, used, static, writes, updated))
    telling.emitted(result, emitter)
    if settings.debug_folder:
        result.report = report.written(settings.debug_folder, graph_module, emitter, result)
    return result


def made_on(graph: Any) -> Any:
    """The device of a graph without tensors among its inputs."""
    return next(filter(None, map(parts.device_of, graph.nodes)), _C.device("cpu"))


def described(emitter: Emitter, outputs: Sequence[Any], constants: Sequence[Any], used: Sequence[int],
              static: Sequence[int], writes: bool, updated: tuple[int, ...]) -> Description:
    """What was emitted, as a record."""
    main, before, taken = emitter.finish(), None, ()
    if emitter.prepared is not None:
        prepared = emitter.prepared
        before = prepared.finish()
        returned = [prepared.num_inputs + k for k, s in enumerate(prepared.slots) if s[0] == "new"]
        taken = tuple([returned.index(slot) for slot in emitter.given])
    return Description(emitter.device, main, tuple(outputs), tuple(used), tuple(constants), tuple(emitter.calls),
                       tuple(emitter.labels), writes, before, tuple(static), taken, updated)


def separate(reader: Reader, graph_module: Any, outputs: list[Any]) -> list[Any]:
    """The outputs as the program has them: those that are equal calls made once in memory of their own, all with their
    dims in the order that tracing saw, which the graph of the gradients goes by."""
    (end,) = graph_module.graph.find_nodes(op="output")
    shown = flat(end.args[0])
    if len(shown) != len(outputs):
        return outputs
    homes: dict[Any, int] = {}
    found = []
    for node, value in zip(shown, outputs, strict=True):
        example = node.meta.get("val") if is_node(node) and isinstance(value, Value) else None
        if isinstance(example, _C.Tensor):
            memory = _C.Tensor.untyped_storage(example)._cdata
            if homes.setdefault(value.buffer, memory) != memory:
                value = reader.op(find_op("clone"), value)
            value = reader.as_traced(value, node)
        found.append(value)
    return found


def emitted(reader: Reader, outputs: Sequence[Value], device: Any) -> tuple[Emitter, list[int]]:
    """Slots and steps of the whole, and which of the plan's results are the outputs."""
    reader.nodes = alive(reader.nodes, outputs)
    if settings.freeze:
        fold_norms(reader, outputs)
        enlarge_tiles(reader)
    widen(reader)
    improve(reader, outputs)
    write_joined(reader, outputs)
    if device.type != "cpu":      # whose vectors go along rows
        write_turned(reader, outputs)
    write_in_place(reader, outputs)
    live = alive(reader.nodes, outputs)
    telling.lowered(live)
    grouping = Grouping(live)
    merge(grouping, device)
    join_epilogues(grouping, reader, outputs)
    units = overlapped(grouping.units.values())
    telling.grouped(grouping, units)
    if is_shown("graph"):
        show("graph", "units", summary(units))
    for v in outputs:
        v.buffer.is_output = True
    unit_readers: dict[Buffer, set[int]] = {}
    for u in units:
        for n in u.nodes:
            for v in n.inputs:
                unit_readers.setdefault(v.buffer, set()).add(u.number)
    emitter = Emitter(reader.first_constant + len(reader.constants), device)
    emitter.grouping = grouping
    for u in units:
        emitter.unit(u, lambda b, u=u: b.is_output or bool(unit_readers.get(b, set()) - {u.number}))
    order = emitter.outputs(outputs)
    share(emitter)
    return emitter, order


def alive(nodes: Sequence[Any], outputs: Sequence[Value]) -> list[Any]:
    """The nodes that something needs: those that outputs come from, and those that write to inputs."""
    wanted = {v.buffer for v in outputs}
    kept = []
    for node in reversed(nodes):
        result = {v.buffer for v in node.results}
        if result & wanted or any(b.is_input for b in node.writes):
            kept.append(node)
            wanted |= {v.buffer for v in node.inputs}
    kept.reverse()
    return kept
