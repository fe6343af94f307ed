"""Capture: a flat function of tensors, run once on fake tensors, as a graph without writes: its forward,
or forward and backward together.

Enters: a function from a list of tensors to a list of outputs, its inputs (real tensors; no two of them the same),
whether gradients are wanted, a decomposition table. Leaves: a `Captured`: graph, metadata, and tensors found on the way
that are no inputs (they become the last inputs). Refuses: elements read while tracing (`NotCaptured`, naming the user's
line), writes to tensors that are no inputs, and results that show memory of an input as another dtype.

Forward and backward are one trace: the tape records while the function runs on fakes, tangents become inputs when it is
known which results want them, and autograd's own rules write the rest of the graph.
What writes in place is rewritten afterwards (functional_graph.py).
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _C
from .._C import Tensor
from .._higher_order_ops.core import HigherOrderOp, apart, fake_mode_for, tensors_in
from ..autograd import grad as autograd_grad, grad_mode
from ..base.bits import BITS
from ..dispatch import autocast
from ..dispatch.modes import TorchFunctionMode, disable_dispatch_modes
from ..dynamo.record.tensor_classes import is_whole
from ..dynamo.record.tracing import tracing, without_saving_hooks
from ..fake import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    is_for_others,
)
from ..fx._lazy_graph_module import _LazyGraphModule
from ..fx.experimental.proxy_tensor import ProxyTorchDispatchMode, PythonKeyTracer
from ..fx.experimental.symbolic_sizes import SYMBOLIC, SizeProxies
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node, _draws
from ..fx.proxy import Proxy
from ..op import find_op
from ..symbols import symbolic_math
from ..utils import _pytree as pytree
from . import functional_graph
from .graphs.calls import GraphCall
from .metadata import GraphMeta, InputInfo, OutputInfo, OutputKind
from .refused import NotCaptured, refusal
from .schema_arguments import bound_arguments

_READS = (DataDependentOutputException, GuardOnDataDependentSymNode)


@dataclass(frozen=True)
class Captured:
    """A graph, what it does to its inputs, and the tensors that its last inputs are."""

    graph: GraphModule
    meta: GraphMeta
    lifted: tuple[Tensor, ...] = ()
    shape_env: ShapeEnv | None = None


class LiftingTracer(PythonKeyTracer):
    """Records ops; tensors the function did not get as arguments become inputs of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.lifted: dict[int, tuple[Tensor, Proxy]] = {}
        self.graph = Graph(tracer_cls=PythonKeyTracer)
        self.tensor_attrs = {}
        self.inputs: list[Proxy] = []
        self.outside: set[int] = set()     # memory of tensors that are no arguments

    def create_proxy_for_constant(self, t: Tensor) -> Proxy:
        if isinstance(t, FakeTensor):
            raise NotCaptured(
                "compile: the program uses a tensor made in another trace. Make it inside the function, or pass it as"
                " an argument."
            )
        if id(t) not in self.lifted:
            proxy = self.add_input(f"lifted_{len(self.lifted) + 1}")
            self.note_value(proxy, t)
            self.lifted[id(t)] = (t, proxy)
        return self.lifted[id(t)][1]

    def note_value(self, proxy: Proxy, t: Tensor) -> None:
        mode: FakeTensorMode = self.snapshots
        told, mode.created = mode.created, None      # what nodes keep does not escape
        super().note_value(proxy, t)
        mode.created = told

    def add_input(self, name: str) -> Proxy:
        """A placeholder, behind those there are (in the list; their place in the graph is put right at the end)."""
        proxy = self.create_proxy("placeholder", name, (), {})
        self.inputs.append(proxy)
        return proxy


class _WantsTwins(Exception):  # noqa: N818 - no error: the trace begins again
    """The function uses tensors from outside that require gradients."""


class Twins(TorchFunctionMode):
    """Above the tape, fakes in the place of tensors that are no arguments: gradients of the graph are fakes,
    and must not meet them."""

    def __init__(self, tracer: LiftingTracer, fake_mode: FakeTensorMode, wants_grad: bool) -> None:
        super().__init__()
        self.tracer, self.fake_mode, self.wants_grad = tracer, fake_mode, wants_grad
        self.of: dict[int, FakeTensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        args, kwargs = pytree.tree_map(self.twin, (args, kwargs or {}))
        return func(*args, **kwargs)

    def twin(self, t: Any) -> Any:
        if not isinstance(t, Tensor) or isinstance(t, FakeTensor) or is_whole(t):
            return t
        if id(t) not in self.of:
            proxy = self.tracer.create_proxy_for_constant(t)
            with disable_dispatch_modes():
                result = self.fake_mode.from_tensor(t.detach(), static_shapes=True)
                self.of[id(t)] = result.requires_grad_() if t.requires_grad and self.wants_grad else result
            self.tracer.track(self.of[id(t)], proxy)
            self.tracer.outside.add(_memory(self.of[id(t)]))
        return self.of[id(t)]


class CallingMode(ProxyTorchDispatchMode):
    """As make_fx records, but a call of an op over functions becomes an op of its own, which holds their graphs."""

    def record_higher_order(self, op: HigherOrderOp, arguments: tuple) -> Sequence[Tensor]:
        fakes = fake_mode_for(tensors_in(arguments))
        told, fakes.created = fakes.created, None      # what the graphs keep does not escape
        graphs, like = self.traced_functions(op, arguments)
        for name, graph in graphs.items():
            graphs[name] = functional_graph.functionalized(graph, fakes, self.tracer.env)
        fakes.created = told
        results = [apart(t, fakes) for t in like]
        call = GraphCall(op, arguments, graphs)
        given = [self.tracer.proxy_of(t) for t in call.tensors()]
        call.forget_tensors(like)
        proxy = self.tracer.create_proxy("call_function", call.overload(), (given,), {}, name=op.name)
        self.track_tree(tuple(results), proxy)
        proxy.node.meta["val"] = tuple(like)
        return results

    def mode_inside(self, tracer: PythonKeyTracer) -> ProxyTorchDispatchMode:
        return CallingMode(tracer, "fake", decomposition_table=self.decomposition_table)


class RecordingMode(CallingMode):
    """As make_fx records, but writes to tensors from outside are refused: nobody would see them.
    Lists of tensors are taken one by one."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        definition = func.definition
        if is_for_others(types):
            return NotImplemented
        if (
            func.name.startswith("_foreach_")
            and definition.body
            and not func.records
            and func not in self.decomposition_table
        ):
            with self:
                return definition.run(*bound_arguments(func, args, kwargs or {}))
        if func.name in ("index", "index_put", "index_put_") and func not in self.decomposition_table:
            if any(isinstance(i, Tensor) and i.dtype in (_C.bool, _C.uint8) for i in args[1]):
                with self:      # positions, which forward and backward share
                    return definition.run(*bound_arguments(func, args, kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)

    def record(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        is_outside = (
            func.inplace
            and isinstance(args[0], Tensor)
            and (not isinstance(args[0], FakeTensor) or _memory(args[0]) in self.tracer.outside)
        )
        if is_outside and not _C.in_rule():
            raise NotCaptured(
                f"{func._opname}: a compiled function writes to a tensor that is neither its argument nor made by its"
                " ops. Pass it as an argument."
            )
        return super().record(func, args, kwargs)

    def begin(self, func: Any, args: tuple) -> Proxy | None:
        if func._opname in ("fill_", "zero_"):
            return super().begin(func, args)
        t = args[0]      # memory that a rule made to write to: it has no value yet
        overload = find_op("empty_strided").overload_list[0]
        sizes, strides = [[self.tracer.sizes.proxy(n) if isinstance(n, SYMBOLIC) else n for n in numbers]
                          for numbers in (t.shape, t.stride())]
        given = (sizes, strides), {"dtype": t.dtype, "device": t.device}
        self.tracer.track(t, self.tracer.create_proxy("call_function", overload, *given, name="empty_strided"))
        return None


def capture(function: Callable[[list[Any]], Sequence[Any]], inputs: Sequence[Any], *, wants_grad: bool,
            decompositions: Mapping[Any, Callable] | None = None, dynamic: bool = False,
            dynamic_dims: Sequence[Sequence[int] | None] | None = None,
            keeps_layers: bool = False) -> Captured:
    """The graph of `function(inputs)`; with `wants_grad`, and if some result has a gradient to give,
    with its backward. `keeps_layers`: with recurrent layers as single ops."""
    given = function, inputs, wants_grad, dict(decompositions or {}), dynamic, dynamic_dims
    results: list[weakref.ref] = []
    try:
        try:
            captured = _traced(_Trace(*given, created=results, keeps_layers=keeps_layers))
        except _WantsTwins:
            captured = _traced(_Trace(*given, created=results, has_twins=True, keeps_layers=keeps_layers))
    except _READS as error:
        raise refusal(
            "the program needs the elements of a tensor while it is traced",
            error,
            "A graph cannot hold Python that depends on them (item(), bool(), tolist(), an if on a tensor): keep it in"
            " tensors (torch.where), or leave that part uncompiled.",
        ) from error
    _check_escaped(results)
    return captured


def _traced(trace: _Trace) -> Captured:
    """What a trace gives; its tensors are let go."""
    # casts of parameters that mixed precision keeps would be fakes
    outside, autocast.state.casts = autocast.state.casts, {}
    try:
        with without_saving_hooks():
            return trace.run()
    finally:
        autocast.state.casts = outside
        trace.release()


def _check_escaped(created: list[weakref.ref]) -> None:
    """Refuse programs that keep tensors they made: what they would find there later has no elements."""
    # leaves that require gradients are the inputs' own, and the tape may hold them for a while
    def is_kept() -> bool:
        return any((t := r()) is not None and not (t.requires_grad and t.is_leaf) for r in created)

    if is_kept():
        gc.collect()     # contexts of custom functions refer to themselves
        if is_kept():
            raise NotCaptured(
                "compile: the program keeps a tensor that it made (a hook that stores activations, a list or cache that"
                " it fills), which a graph cannot repeat. Return it, or leave that part uncompiled."
            )


class _Trace:
    """One capture."""

    def __init__(self, function: Callable, inputs: Sequence[Any], wants_grad: bool, decompositions: dict, dynamic: bool,
                 dynamic_dims: Sequence[Sequence[int] | None] | None, *, created: list[weakref.ref],
                 has_twins: bool = False, keeps_layers: bool = False) -> None:
        self.function, self.wants_grad, self.decompositions = function, wants_grad, decompositions
        self.real = list(inputs)
        self.env, self.dynamic = ShapeEnv(), dynamic
        self.fake_mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=self.env, static_shapes=not dynamic)
        self.fake_mode.created = created
        self.dynamic_dims = dynamic_dims
        self.tracer = LiftingTracer()
        self.tracer.env, self.tracer.snapshots = self.env, self.fake_mode
        self.mode = RecordingMode(self.tracer, "fake", decomposition_table=decompositions)
        self.mode.keeps_layers = keeps_layers
        self.twins = Twins(self.tracer, self.fake_mode, wants_grad) if has_twins else None

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self) -> Captured:
        self.fake_mode.on_scalar = self.tracer.note_element
        self.leaves = [self.imitated(t, i) for i, t in enumerate(self.real)]
        self.given = [self.as_given(real, leaf) for real, leaf in zip(self.real, self.leaves, strict=True)]
        for i, t in enumerate(self.given):
            proxy = self.tracer.add_input(f"primals_{i + 1}")
            if isinstance(t, Tensor):
                self.tracer.track(t, proxy)
            else:
                proxy.node.meta["val"] = t
                self.tracer.sizes.note(t, proxy, None)
        before = [(t._version, _layout(t), t.requires_grad) if isinstance(t, Tensor) else None for t in self.given]
        with self.recording(), self.twins or contextlib.nullcontext():
            outputs = list(self.function(list(self.given)))
        if self.wants_grad and self.twins is None and any(t.requires_grad for t, _ in self.tracer.lifted.values()):
            raise _WantsTwins
        self.inputs = tuple(
            self.input_info(t, real, was) for t, real, was in zip(self.given, self.real, before, strict=True)
        )
        for t in self.leaves:
            if isinstance(t, Tensor) and t.is_leaf and t.grad is not None:
                raise NotCaptured(
                    "compile: the function calls backward(), which writes the .grad of its inputs; a graph cannot hold"
                    " that. Return the loss and call backward() outside, or return autograd.grad(...)."
                )
        return self.finish(outputs)

    def release(self) -> None:
        """Let go of everything that was made: tracers and proxies refer to each other."""
        tracer = self.tracer
        tracer.kept.clear()
        tracer.places.clear()
        tracer.sizes, tracer.inputs, tracer.lifted = SizeProxies(), [], {}
        self.leaves, self.given, self.twins = [], [], None
        self.fake_mode.on_scalar = None

    @contextlib.contextmanager
    def recording(self) -> Any:
        with self.fake_mode, self.mode, symbolic_math(), tracing():
            yield

    def imitated(self, t: Any, position: int) -> Any:
        """A fake of an input, without its history."""
        if not isinstance(t, Tensor):
            if self.dynamic and type(t) is int:
                return self.symbol_for(t, f"arg{position}")
            return t
        dims = None if self.dynamic_dims is None else self.dynamic_dims[position]
        static = dims is not None and not dims
        with disable_dispatch_modes():
            result = self.fake_mode.from_tensor(
                t.detach(), source=f"arg{position}", static_shapes=static or None, dynamic_dims=dims or None
            )
            return result.requires_grad_() if t.requires_grad and self.wants_grad else result

    def symbol_for(self, number: int, source: str) -> Any:
        result = self.env.create_symbol(number, source)
        self.env.remember_number(source, result)
        return result

    def as_given(self, real: Any, leaf: Any) -> Any:
        """What the function gets: where the input has a history, a tensor with one, which may be written to."""
        if not isinstance(leaf, Tensor) or not leaf.requires_grad or real.is_leaf:
            return leaf
        with disable_dispatch_modes(), grad_mode.enable_grad():
            return leaf.clone()

    # --- what the inputs and outputs turned out to be -----------------------------------------------------------------

    def input_info(self, t: Any, real: Any, before: Any) -> InputInfo:
        if not isinstance(t, Tensor):
            return InputInfo(False, True)
        version, layout, requires_grad = before
        sizes, strides, offset = _layout(t)
        after = None if (sizes, strides, offset) == layout else (sizes, strides, offset - layout[2])
        return InputInfo(requires_grad, real.is_leaf, t._version != version, after)

    def finish(self, outputs: list[Any]) -> Captured:
        twins = {} if self.twins is None else self.twins.of
        tensors = [*self.given, *(twins.get(id(t), t) for t, _ in self.tracer.lifted.values())]
        is_joint = self.wants_grad and any(
            isinstance(o, Tensor) and o.requires_grad for o in (*outputs, *tensors_written(self.given, self.inputs))
        )
        results: list[Tensor] = []
        mutated = tuple(i for i, info in enumerate(self.inputs) if info.mutates_data)
        results += [self.given[i] for i in mutated]
        infos = _Outputs(self.given, results).describe(outputs)
        differentiable = [is_joint and isinstance(r, Tensor) and r.requires_grad and _has_gradient(r) for r in results]
        for position, i in enumerate(mutated):
            # written to under no_grad: it keeps its own history
            if self.inputs[i].is_leaf and self.inputs[i].requires_grad:
                differentiable[position] = False
        grads = self.gradients(results, differentiable, tensors) if is_joint and any(differentiable) else None
        known = len(tensors) - len(self.given)     # what only the backward met gets no gradient
        lifted_info = tuple(
            InputInfo(t.requires_grad and self.wants_grad and i < known, t.is_leaf)
            for i, (t, _) in enumerate(self.tracer.lifted.values())
        )
        inputs = (*self.inputs, *lifted_info)
        meta = GraphMeta(inputs, infos, mutated, len(results),
                         tuple(differentiable) if grads is not None else (False,) * len(results), grads is not None,
                         len(lifted_info))
        return self.close(results, grads or [], meta)

    def gradients(self, results: list[Tensor], differentiable: list[bool], tensors: list[Any]) -> list[Any]:
        """Gradients of all inputs that require them, recorded from tangents that become inputs now."""
        wanted = [r for r, wants in zip(results, differentiable, strict=True) if wants]
        tangents = [self.tangent(r, i) for i, r in enumerate(wanted)]
        sources = [*self.leaves, *tensors[len(self.leaves):]]
        wants = [*(info.requires_grad for info in self.inputs), *(t.requires_grad for t in sources[len(self.leaves):])]
        wrt = [t for t, wanted_here in zip(sources, wants, strict=True) if wanted_here]
        with self.recording(), grad_mode.enable_grad():
            return list(autograd_grad(wanted, wrt, tangents, allow_unused=True))

    def tangent(self, result: Tensor, number: int) -> Tensor:
        """A fake for the gradient of a result: laid out as that is, where it is dense."""
        with disable_dispatch_modes():
            strides = result.stride() if result._is_dense() else None
            answer = self.fake_mode.empty(tuple(result.shape), strides, result.dtype, result.device)
        self.tracer.track(answer, self.tracer.add_input(f"tangents_{number + 1}"))
        return answer

    # --- the graph ----------------------------------------------------------------------------------------------------

    def close(self, results: list[Tensor], grads: list[Any], meta: GraphMeta) -> Captured:
        tracer = self.tracer
        self.fake_mode.created = None
        found = len(tracer.lifted)
        tracer.record_checks()
        returned = [self.node_of(v) for v in (*results, *grads)]
        assert len(tracer.lifted) == found, "a result is a tensor from outside that no op has seen"
        names = {p.node for _, p in tracer.lifted.values()}
        tangents = [p.node for p in tracer.inputs if p.node.target.startswith("tangents_")]
        primals = [p.node for p in tracer.inputs if p.node not in names and p.node not in tangents]
        order = [*primals, *(p.node for _, p in tracer.lifted.values()), *tangents]
        first = next(iter(tracer.graph.nodes), None)
        for node in reversed(order):
            if node is not first:
                first.prepend(node)
                first = node
        tracer.graph.output(tuple(returned))
        graph = _LazyGraphModule(tracer.root, tracer.graph, "joint" if meta.is_joint else "forward")
        graph = functional_graph.functionalized(graph, self.fake_mode, self.env)
        graph.shape_env = self.env
        draws = any(_draws(n.target) for n in graph.graph.nodes if n.op == "call_function")
        return Captured(graph, meta.but(draws=draws), tuple(t for t, _ in tracer.lifted.values()), self.env)

    def node_of(self, value: Any) -> Node | Any:
        if isinstance(value, Tensor):
            return self.tracer.proxy_of(value).node
        if isinstance(value, SYMBOLIC):
            result = self.tracer.sizes.proxy(value)
            return result.node if isinstance(result, Proxy) else result
        return value


def tensors_written(given: Sequence[Any], infos: Sequence[InputInfo]) -> list[Tensor]:
    return [t for t, info in zip(given, infos, strict=True) if info.mutates_data]


def _has_gradient(t: Tensor) -> bool:
    return t.dtype.is_floating_point or t.dtype.is_complex


def _layout(t: Tensor) -> tuple:
    return tuple(t.shape), tuple(t.stride()), t.storage_offset()


class _Outputs:
    """Sorts outputs: which are inputs, which show memory of inputs or of each other, which are new.
    New ones and bases join `results`."""

    def __init__(self, given: Sequence[Any], results: list[Any]) -> None:
        self.given, self.results = given, results
        self.inputs = {id(t): i for i, t in enumerate(given) if isinstance(t, Tensor)}
        self.memory: dict[int, int] = {}
        for i, t in enumerate(given):
            if isinstance(t, Tensor):
                self.memory.setdefault(_memory(t), i)
        self.bases: dict[int, int] = {}      # memory -> place of its base in results
        self.seen: dict[int, int] = {}

    def describe(self, outputs: list[Any]) -> tuple[OutputInfo, ...]:
        count: dict[int, int] = {}
        for o in {id(o): o for o in outputs if isinstance(o, Tensor)}.values():
            count[_memory(o)] = count.get(_memory(o), 0) + 1
        return tuple(self.one(o, i, count) for i, o in enumerate(outputs))

    def one(self, o: Any, position: int, count: dict[int, int]) -> OutputInfo:
        if not isinstance(o, Tensor):
            if isinstance(o, SYMBOLIC):
                self.results.append(o)
                return OutputInfo(OutputKind.NEW, False, len(self.results) - 1)
            return OutputInfo(OutputKind.CONSTANT, value=o)
        if id(o) in self.seen:
            return OutputInfo(OutputKind.SAME, o.requires_grad, self.seen[id(o)])
        self.seen[id(o)] = position
        if id(o) in self.inputs:
            return OutputInfo(OutputKind.INPUT, o.requires_grad, self.inputs[id(o)])
        memory = _memory(o)
        if not isinstance(o, FakeTensor):
            raise NotCaptured(
                "compile: the function returns a tensor that it did not get and did not make with ops. Pass it as an"
                " argument."
            )
        if memory in self.memory:
            source = self.given[self.memory[memory]]
            return self.view(OutputKind.VIEW_OF_INPUT, o, source, self.memory[memory])
        if count[memory] > 1:
            base = o._base if o._base is not None else o
            if memory not in self.bases:
                self.bases[memory] = len(self.results)
                self.results.append(base)
            at = self.bases[memory]
            if self.results[at] is o:
                return OutputInfo(OutputKind.NEW, o.requires_grad, at)
            return self.view(OutputKind.VIEW_OF_BASE, o, self.results[at], at)
        self.results.append(o)
        return OutputInfo(OutputKind.NEW, o.requires_grad, len(self.results) - 1)

    def view(self, kind: OutputKind, o: Tensor, source: Tensor, at: int) -> OutputInfo:
        if o.dtype is not source.dtype:
            raise NotCaptured(
                f"compile: the function returns memory of {source.dtype} as {o.dtype}. Return a copy (clone())."
            )
        sizes, strides, offset = _layout(o)
        layout = sizes, strides, offset - source.storage_offset()      # wherever the source will begin
        flips = (o._keys ^ source._keys) & BITS
        if all(type(n) is int for n in (*layout[0], *layout[1], layout[2])):
            return OutputInfo(kind, o.requires_grad, at, layout, flips=flips)
        self.results.append(o)
        return OutputInfo(kind, o.requires_grad, at, None, len(self.results) - 1, flips=flips)


def _memory(t: Tensor) -> int:
    return Tensor.untyped_storage(t)._cdata
