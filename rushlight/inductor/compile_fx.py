"""Compiling a graph: read, group, emit; a callable comes out.

Enters: a GraphModule and tensors like its inputs. Leaves: `Compiled`, called with a list of tensors of the same
layouts; it returns a list. Refuses: graphs over several devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _C
from ..base.show import is_shown, show
from ..op import find_op
from . import report, settings
from .emit import Emitter
from .merge import merge
from .overlap import overlapped
from .products import improve
from .read_graph import Reader, flat, is_node
from .replay import Replayed, can_replay
from .sized import Sized, varies
from .units import Grouping, summary
from .values import Buffer, Value


class Compiled:
    """A compiled graph. `plan` is what runs; `calls` names ops that run in Python between its kernels.

    What depends on static inputs alone (packed weights, folded statistics) is computed by `preparation` and kept until
    one of them is another tensor or was written to.
    """

    def __init__(
        self,
        emitter: Emitter,
        outputs: Sequence[Any],
        constants: Sequence[Any],
        used: Sequence[int],
        static: Sequence[int],
    ) -> None:
        self.plan, self.calls, self.labels = emitter.finish(), tuple(emitter.calls), tuple(emitter.labels)
        self.steps = tuple(emitter.steps)
        self.outputs, self.constants, self.used = outputs, tuple(constants), tuple(used)
        self.device = emitter.device
        self.is_plain = list(outputs) == list(range(len(outputs)))
        self.preparation: Any = None
        if emitter.prepared is not None:
            self.preparation, self.static = emitter.prepared.finish(), tuple(static)
            made = [self.preparation_slot(k, emitter.prepared) for k in emitter.given]
            self.taken, self.seen, self.kept = made, None, ()

    @staticmethod
    def preparation_slot(slot: int, prepared: Emitter) -> int:
        """Which of the preparation's results lies in a slot."""
        returned = [prepared.num_inputs + k for k, s in enumerate(prepared.slots) if s[0] == "new"]
        return returned.index(slot)

    writes = False           # to its inputs
    report: Any = None       # what was written to the debug folder, until the first call's times are in it

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return self.run(self.arguments(inputs))

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """Results from what `arguments` says the plan is called with."""
        if self.report is None:
            made = self.plan(*arguments)
        else:
            made, taken = self.plan.timed(*arguments)
            self.report, before = None, self.report
            before.add_times(taken)
        return (
            list(made[: len(self.outputs)])
            if self.is_plain
            else [made[k] if type(k) is int else k[0] for k in self.outputs]
        )

    def arguments(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """What the plan is called with."""
        given = inputs if len(self.used) == len(inputs) else [inputs[k] for k in self.used]
        if self.preparation is None:
            return (*given, *self.constants) if self.constants else given
        now = [(given[k], given[k]._version, given[k].data_ptr()) for k in self.static]
        seen = self.seen
        if seen is None or any(a[0] is not b[0] or a[1:] != b[1:] for a, b in zip(seen, now, strict=True)):
            results = self.preparation(*given, *self.constants)
            self.kept, self.seen = tuple([results[k] for k in self.taken]), now
            self.memory = [given[k].detach() for k in self.static]      # what `t.data = other` leaves must not return
        return (*given, *self.constants, *self.kept)

    @property
    def native_parts(self) -> tuple | None:
        """(plan, inputs it reads, constants, preparation, static inputs, what of it is kept): what the core needs to
        run the graph by itself; None where results are put in order here."""
        if not self.is_plain or self.report is not None:
            return None
        if self.preparation is None:
            return self.plan, self.used, self.constants, None, (), ()
        return self.plan, self.used, self.constants, self.preparation, self.static, tuple(self.taken)

    def times(self, inputs: Sequence[Any]) -> list[tuple[str, int]]:
        """What each step belongs to, and the nanoseconds it took in one run."""
        _, taken = self.plan.timed(*self.arguments(inputs))
        return list(zip(self.labels, taken, strict=True))


def compile_graph(graph_module: Any, example_inputs: Sequence[Any]) -> Compiled | Replayed | Sized:
    """A callable that runs the graph through one plan; where sizes of the examples are symbols, for all of them."""
    if any(varies(x) for x in example_inputs):
        return Sized(graph_module, example_inputs, compiled_for)
    made = compiled_for(graph_module, example_inputs, [])
    if made.device.type == "cuda":
        if can_replay(made, made.device, settings.replay):
            return Replayed(made, settings.replay)
    return made


def compiled_for(
    graph_module: Any, inputs: Sequence[Any], geometries: Sequence[Any], symbols: dict[str, Any] | None = None
) -> Compiled:
    """The graph for inputs of these layouts. `geometries`: sizes and strides of tensors that differ from the inputs'
    own, and numbers, in which Extents stand for those of other calls; None where there is nothing to say. `symbols`:
    what the names are that the graph's own formulas use."""
    inputs = list(inputs)
    used = [k for k, t in enumerate(inputs) if isinstance(t, _C.Tensor)]
    devices = {inputs[k].device for k in used}
    if len(devices) > 1:
        raise RuntimeError(f"inductor: expected the graph's inputs on one device, got {sorted(map(str, devices))}")
    device = next(iter(devices), _C.device("cpu"))
    values = [x if g is None else g for x, g in zip(inputs, geometries or [None] * len(inputs), strict=True)]
    for number, k in enumerate(used):
        t = inputs[k]
        own = [int(n) for n in t.shape], [int(s) for s in t.stride()]
        sizes, strides = own if values[k] is t else values[k]
        values[k] = Buffer(sizes, strides, t.dtype, number).whole()
    static = (
        [used.index(k) for k in graph_module.meta.get("static_inputs", ()) if k in used]
        if settings.prepare_weights
        else []
    )
    for number in static:
        values[used[number]].buffer.is_static = True
    reader = Reader(device)
    reader.constants, reader.first_constant, reader.symbols = [], len(used), symbols
    outputs = separate(reader, graph_module, flat(reader.read(graph_module, values)))
    emitter, order = emitted(reader, [v for v in outputs if isinstance(v, Value)], device)
    places = iter(order)
    numbered = [next(places) if isinstance(v, Value) else (v,) for v in outputs]
    made = Compiled(emitter, numbered, reader.constants, used, static)
    made.writes = any(b.is_input for n in reader.nodes for b in n.writes)
    if settings.debug_folder:
        made.report = report.written(settings.debug_folder, graph_module, emitter, made)
    return made


def separate(reader: Reader, graph_module: Any, outputs: list[Any]) -> list[Any]:
    """The outputs, with copies of those that are equal calls made once: the program has them in memory of their own."""
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
        found.append(value)
    return found


def emitted(reader: Reader, outputs: Sequence[Value], device: Any) -> tuple[Emitter, list[int]]:
    """Slots and steps of the whole, and which of the plan's results are the outputs."""
    reader.nodes = alive(reader.nodes, outputs)
    improve(reader, outputs)
    live = alive(reader.nodes, outputs)
    grouping = Grouping(live)
    merge(grouping)
    units = overlapped(grouping.units.values())
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
    return emitter, emitter.outputs(outputs)


def alive(nodes: Sequence[Any], outputs: Sequence[Value]) -> list[Any]:
    """The nodes that something needs: those that outputs come from, and those that write to inputs."""
    wanted = {v.buffer for v in outputs}
    kept = []
    for node in reversed(nodes):
        made = {v.buffer for v in node.results}
        if made & wanted or any(b.is_input for b in node.writes):
            kept.append(node)
            wanted |= {v.buffer for v in node.inputs}
    kept.reverse()
    return kept
