"""Captured graphs, compiled: what `compile()` does with a graph that Dynamo made.

Enters: a GraphModule over torch functions, and example inputs (real tensors, numbers where they are symbols). Leaves: a
function of the list of inputs that returns the list of results, with gradients. Graphs whose sizes are symbols are
compiled once; where compiling assumed more of the sizes than Dynamo's guards say, sizes that do not fit are compiled
for again. What cannot be traced (or would write to shared memory) runs op by op.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ... import _C
from ..._C import Tensor
from ...aten.plain import ASSERT_SCALAR
from ...autograd import grad_mode
from ...base import logs, show
from ...base.assertions import CheckFailed
from ...base.disk_cache import NotKept
from ...dynamo import settings
from ...dynamo.record.breaks import Unfit
from ..compile_graph import AotConfig, compile_captured, compiled_backward
from ..runtime import CompiledRegion
from ..thread_casts import autocast_state, without_autocast
from . import data as graph_data
from .cache import Entry, Found, entry_for, frame_told, process_identity

if TYPE_CHECKING:      # graphs that are found on disk need neither
    from ...fx.graph_module import GraphModule
    from ..capture import Captured

MOST_SIZES = 1024
_C.Region._boxed_call = True      # it takes its arguments as one list


def compile_with(config: AotConfig | None) -> Callable[[GraphModule, list[Any]], Callable]:
    """The backend for Dynamo: through AOTAutograd with `config`, or (None) op by op."""

    def backend(gm: GraphModule, example_inputs: list[Any]) -> Callable:
        from .. import telling, wrappers  # noqa: PLC0415 - as above

        force_recompile(gm)
        if config is None:
            return gm.forward
        if config.keeper is not None:      # the inductor's
            telling.before_gradients(gm)
        if wrappers.are_in(gm):
            return wrappers.compiled(gm, example_inputs, backend)
        result = CompiledGraph(gm, config)
        is_compiled = result.region_for(example_inputs) is not None
        if not is_compiled and gm.meta.get("unbacked") and not gm.meta.get("fullgraph"):
            raise Unfit(result.why)
        if not is_compiled and gm.meta.get("fullgraph"):
            # The results are right, so the program goes on; but who asks for whole graphs wants to know.
            warnings.warn(f"compile(fullgraph=True): the graph was captured whole, but runs op by op: {result.why}",
                          stacklevel=2)
        return callable_of(result)

    if config is not None and config.keeper is not None:
        backend.frames = Frames(config)  # type: ignore[attr-defined]
    return backend


def force_recompile(gm: GraphModule) -> None:
    """Write the code of a graph now."""
    from ...fx._lazy_graph_module import _LazyGraphModule  # noqa: PLC0415 - graphs that are found on disk have no code

    _LazyGraphModule.force_recompile(gm)


def callable_of(graph: CompiledGraph) -> Callable:
    """What emitted code calls."""
    if graph.is_native():      # nothing to do around it
        return graph.only[0].native

    def call(inputs: list[Any]) -> Sequence[Any]:
        return graph(inputs)

    call._boxed_call = True  # type: ignore[attr-defined]
    call.compiled = graph  # type: ignore[attr-defined]
    return call


class Frames:
    """For Dynamo, which keeps frames: what their graphs are, and what was made of them."""

    def __init__(self, config: AotConfig) -> None:
        self.config, self.told = config, frame_told

    def identity(self) -> Any:
        """What decides, besides the program, what is made of its graphs."""
        if settings.repro_after is not None:
            raise NotKept("graphs that a backend fails on are to be written down")
        return process_identity(self.config.keeper())

    def described(self, gm: GraphModule) -> Any:
        if gm.meta.get("unbacked"):
            raise NotKept("sizes or numbers of the graph come from elements")
        return {
            "nodes": graph_data.described(gm), "static_inputs": gm.meta["static_inputs"],
            "location": gm.meta["location"], "fullgraph": gm.meta["fullgraph"], "enables": enables(gm),
            "dims": symbolic_dims(gm),
        }

    def restored(self, data: Any, inputs: list[Any]) -> Callable | None:
        """What was made of a graph; None where it is not on disk."""
        meta = {name: data[name] for name in ("static_inputs", "location", "fullgraph")}
        module = graph_data.StoredModule(data["nodes"], meta)
        graph = CompiledGraph(module, self.config, [tuple(dims) for dims in data["dims"]], data["enables"])
        found = graph.found(inputs)[0]
        if not graph.is_symbolic:
            graph.only = graph.regions[None] = found
        return None if found is None else callable_of(graph)


class CompiledGraph:
    """One graph of Dynamo's, compiled when it is first run with certain sizes."""

    def __init__(self, gm: Any, config: AotConfig, dims: list[tuple[int, ...]] | None = None,
                 is_enabling: bool | None = None) -> None:
        """`dims`: of each input, those that are symbols; `is_enabling`: whether recording is turned on inside. Both are
        asked of the graph where they are not given."""
        self.gm, self.config = gm, config
        self.dims = symbolic_dims(gm) if dims is None else dims
        self.is_symbolic = any(self.dims)
        self.general: list[tuple[Any, tuple]] = []      # what each region assumed of sizes
        self.regions: dict[Any, tuple | None] = {}
        self.only: tuple | None = None
        self.wholes: list[int] = []      # inputs that are tensors around others
        self.rebuilt: dict[int, Callable] = {}      # results that are such: from what is inside
        self.why = ""      # what kept the graph from being compiled
        self.checks = self.draws = False      # whether it checks what only elements can tell; and draws random numbers
        self.casts = autocast_state() is not None
        self.enables = enables(gm) if is_enabling is None else is_enabling

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        found = self.only if self.only is not None else self.region_for(inputs)
        given = self.taken_apart(inputs) if found is not None and self.wholes else inputs
        if found is None or (found[2] and _shares_memory(given, found[2])):
            return self.gm.forward(*inputs)
        region, lifted, _, numbers = found
        recording = grad_mode.enable_grad() if self.enables else nullcontext()
        with without_autocast() if self.casts else nullcontext(), recording:     # the graph has its casts
            try:
                results = region([*given, *lifted] if lifted else given)
            except CheckFailed:      # sizes that tracing took for equal, or for no 1, and nothing is written yet
                if self.draws:
                    raise
                return self.gm.forward(*inputs)
        if numbers:
            results = self.with_numbers(results, inputs, *numbers)
        if not self.rebuilt:
            return results
        return [self.rebuilt[i](r) if i in self.rebuilt else r for i, r in enumerate(results)]

    def taken_apart(self, inputs: list[Any]) -> list[Any]:
        """The inputs, with what is inside of tensors in their place."""
        parts = list(inputs)
        for i in self.wholes:
            parts[i] = inputs[i]._taken_apart()[0]
        return parts

    def is_native(self) -> bool:
        """Whether a call is a call of the native region, and nothing else."""
        if self.only is None or self.casts or self.enables or self.wholes or self.rebuilt or self.checks:
            return False
        region, lifted, mutated, numbers = self.only
        return region.plain and not lifted and not mutated and not numbers

    def with_numbers(self, results: Sequence[Any], inputs: list[Any], env: Any, formulas: dict[int, Any]) -> list[Any]:
        """Results that are numbers are computed from the sizes, not by the graph."""
        values = env.bind(self.sized(inputs))
        return [formulas[i].evaluate(values) if i in formulas else result for i, result in enumerate(results)]

    def sized(self, inputs: list[Any]) -> list[Any]:
        """The inputs that have symbols."""
        return [x for x, d in zip(inputs, self.dims, strict=True) if d or type(x) is int]

    def region_for(self, inputs: list[Any]) -> tuple | None:
        """What runs inputs of these sizes."""
        if not self.is_symbolic:
            if None not in self.regions:
                self.regions[None] = self.only = self.compiled(inputs)
            return self.only
        key = tuple([x.shape if isinstance(x, Tensor) else x for x, d in zip(inputs, self.dims, strict=True) if d])
        if key not in self.regions:
            if len(self.regions) >= MOST_SIZES:
                self.regions.clear()
            found = next((region for env, region in self.general if env.accepts(*self.sized(inputs))), None)
            self.regions[key] = found or self.compiled(inputs)
        return self.regions[key]

    def found(self, inputs: list[Any]) -> tuple[tuple | None, Entry | None]:
        """What another process made of the graph, and where what this one makes of it is kept."""
        state = _C.is_grad_enabled(), _C.is_inference_mode_enabled(), self.enables, str(autocast_state())
        entry = entry_for(self.gm, inputs, self.dims, self.config, state)
        if entry is None:
            return None, None
        again = functools.partial(self.again, _like(inputs), _C.is_grad_enabled(), entry)
        found = entry.found(again, self.sized(inputs))
        return None if found is None else self.restored(entry, found, again), entry

    def compiled(self, inputs: list[Any]) -> tuple | None:
        entry = None
        if not self.gm.meta.get("unbacked"):
            found, entry = self.found(inputs)
            if found is not None:
                return found
        formulas: dict[int, Any] = {}
        captured = self.captured(inputs, _C.is_grad_enabled(), formulas)
        if captured is None:
            return None
        mutated = captured.meta.mutated
        self.checks = self.checks or any(n.target is ASSERT_SCALAR for n in captured.graph.graph.nodes)
        self.draws = self.draws or captured.meta.draws
        numbers = (captured.shape_env, formulas) if formulas else ()
        kept = None if captured.lifted or self.wholes or self.rebuilt else entry
        result = compile_captured(captured, self.config, kept, formulas), list(captured.lifted), mutated, numbers
        if self.is_symbolic:
            self.general.append((captured.shape_env, result))
        return result

    def captured(self, inputs: list[Any], records: bool, formulas: dict[int, Any]) -> Captured | None:
        """The graph of forward and backward; None, and why is told, where there can be none."""
        from ..._higher_order_ops import NotRecordable  # noqa: PLC0415 - graphs that are found on disk need none of it
        from ...fx.experimental.symbolic_sizes import SYMBOLIC  # noqa: PLC0415
        from ..capture import capture  # noqa: PLC0415
        from ..refused import NotCaptured  # noqa: PLC0415

        forward = self.gm.forward
        if self.config.joins_attention is not None and self.config.joins_attention():
            from ..written_attention import with_attention  # noqa: PLC0415 - as above

            stored = isinstance(self.gm, graph_data.StoredModule)
            forward = with_attention(self.gm.module if stored else self.gm)
        apart = {i: t._taken_apart() for i, t in enumerate(inputs) if hasattr(type(t), "_taken_apart")}
        self.wholes = list(apart)
        inputs = [apart[i][0] if i in apart else t for i, t in enumerate(inputs)]

        def flat(values: list[Any]) -> list[Any]:
            values = [apart[i][1](v) if i in apart else v for i, v in enumerate(values)]
            results = list(forward(*values))
            for i, r in enumerate(results):
                if hasattr(type(r), "_taken_apart"):
                    results[i], self.rebuilt[i] = r._taken_apart()
            formulas.update({
                i: r.expression
                for i, r in enumerate(results)
                if isinstance(r, SYMBOLIC) and not r.env.is_unbacked(r.expression)      # the graph returns the others
            })
            return [None if i in formulas else r for i, r in enumerate(results)]

        try:
            with grad_mode.inference_mode(False), grad_mode.set_grad_enabled(records):
                captured = capture(flat, inputs, wants_grad=records or self.enables,
                                   decompositions=self.config.decompositions, dynamic=self.is_symbolic,
                                   dynamic_dims=self.dims, keeps_layers=self.config.keeps_layers)
        except (NotCaptured, NotRecordable) as error:
            return self.refused(str(error))
        mutated = captured.meta.mutated
        if not captured.meta.is_joint:
            captured.graph.meta["static_inputs"] = sorted({*self.gm.meta.get("static_inputs", ())} - {*mutated})
            captured.graph.meta["overwritten"] = mutated      # compilers may write new values there, and return None
        if mutated and _shares_memory(inputs, mutated):
            return self.refused("an input that is written to shares memory with another one")
        return captured

    def restored(self, entry: Entry, found: Found, again: Callable[[bool], Callable]) -> tuple:
        """What another process compiled; the backward is looked for when it is first needed."""
        numbers = (found.env, found.formulas) if found.formulas else ()
        region = CompiledRegion(found.meta, found.forward, None, None) if not found.meta.is_joint else CompiledRegion(
            found.meta, found.forward, None, lambda: entry.found_backward(again) or again(False), found.saved)
        result = region, [], found.meta.mutated, numbers
        if self.is_symbolic:
            self.general.append((found.env, result))
        return result

    def again(self, like: Sequence[Any], records: bool, entry: Entry, is_forward: bool) -> Callable:
        """The forward or the backward of a graph of which another process made a part, or for other sizes."""
        formulas: dict[int, Any] = {}
        captured = self.captured([x.tensor() if isinstance(x, _Layout) else x for x in like], records, formulas)
        assert captured is not None, "a graph that was captured before is captured again"
        meta, config = captured.meta, self.config
        if not is_forward:
            parts = config.partition(captured.graph, meta.num_results, meta.mutated, **config.partition_options)
            return compiled_backward(parts, config, entry)
        return compile_captured(captured, config, entry, formulas).forward

    def refused(self, why: str) -> None:
        """The graph runs op by op; says why, to those who ask where graphs end."""
        self.why = why.removeprefix("compile: ")
        where = self.gm.meta.get("location", "a graph")
        if show.is_shown("breaks"):
            show.show("breaks", where, f"runs op by op, uncompiled: {self.why}")
        if (log := logs.artifact("graph_breaks")) is not None:
            log.debug("The graph of %s runs op by op, uncompiled: %s", where, self.why)
        if (log := logs.artifact("perf_hints")) is not None:
            log.info("the graph of %s runs op by op: %s", where, self.why)


def enables(gm: GraphModule) -> bool:
    """Whether recording is off where a graph begins, and turned on inside of it (the rest of a no_grad block)."""
    return not _C.is_grad_enabled() and any(
        node.target is _C._set_grad_enabled and node.args[0] for node in gm.graph.nodes
    )


def symbolic_dims(gm: GraphModule) -> list[tuple[int, ...]]:
    """Of each input of a graph, the dims that are symbols."""
    return [_symbolic_dims(node.meta.get("example_value")) for node in gm.graph.find_nodes(op="placeholder")]


def _like(inputs: Sequence[Any]) -> list[Any]:
    return [_Layout(x) if isinstance(x, Tensor) else x for x in inputs]


class _Layout:
    """What tracing asks of an input, without its memory."""

    def __init__(self, t: Tensor) -> None:
        self.shape, self.strides, self.offset = tuple(t.shape), t.stride(), t.storage_offset()
        self.dtype, self.device, self.requires_grad, self.is_leaf = t.dtype, t.device, t.requires_grad, t.is_leaf

    def tensor(self) -> Tensor:
        """A tensor of this layout; what is in it means nothing."""
        size = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + 1
        memory = _C.empty((max(size, 1),), (1,), self.dtype, self.device)
        if self.requires_grad and not self.is_leaf:
            with grad_mode.enable_grad():
                return memory.requires_grad_().as_strided(self.shape, self.strides, self.offset)
        result = _C.alias(memory, self.shape, self.strides, self.offset, self.dtype)
        return result.requires_grad_() if self.requires_grad else result


def _symbolic_dims(value: Any) -> tuple[int, ...]:
    """The dims of an input whose sizes are symbols; a number that is one counts as a dim."""
    if isinstance(value, Tensor):
        return tuple(d for d, n in enumerate(value.shape) if not isinstance(n, int))
    return () if isinstance(value, (int, float)) else (0,)


def _shares_memory(inputs: Sequence[Any], mutated: Sequence[int]) -> bool:
    """Whether an input that is written to has memory of another one."""
    counts: dict[int, int] = {}
    for t in inputs:
        if isinstance(t, Tensor):
            place = t.untyped_storage()._cdata
            counts[place] = counts.get(place, 0) + 1
    return any(counts[inputs[i].untyped_storage()._cdata] > 1 for i in mutated)
