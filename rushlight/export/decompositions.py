"""Decomposing a program: its graph run once more on fake tensors, ops replaced by rules, writes by values.

Enters: a program and a table from overloads to functions. Leaves: a program whose graph writes to nothing: what was
written to buffers and arguments is returned, and the signature says where it goes. The default table turns composites
into core ATen ops, as PyTorch's does.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from .. import _C
from .._C import Tensor
from .._decomp.core import decomposed_names, inner_rule, rule_of
from .._higher_order_ops.core import HigherOrderOp, apart as apart_of
from .._higher_order_ops.wrap import WrapWithAutocast, WrapWithSetGradEnabled, wrap_with_autocast
from ..aten.calls import aten_overload
from ..aten.overloads import AtenOverload
from ..autograd.grad_mode import no_grad
from ..base.shape import contiguous_format
from ..fake import FakeTensorMode
from ..fx.experimental.symbolic_sizes import SYMBOLIC
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_aggregate
from ..symbols import symbolic_math
from ..utils import _pytree as pytree
from .functional import Functional, is_view
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from .module_calls import names_kept, renamed
from .recording import ExportTracer, Recorder
from .values import argument_of, note_numbers


def decomposed(program: Any, table: Mapping[Any, Callable] | None = None,
               rule_of: Callable[[Any], Callable | None] | None = None,
               keeps: Callable[[Any], bool] = lambda overload: False) -> Any:
    """The program by the rules of a table (or those that `rule_of` has for calls), without writes. Overloads of ours
    that `keeps` is true of stay as they are."""
    if program.graph.find_nodes(op="call_function", target=wrap_with_autocast):      # first the casts, then the rules
        program = _Decompose(program, lambda target: None, keeps).run()
    if rule_of is not None:
        return _Decompose(program, rule_of, keeps).run()
    rules = {_key(op): rule for op, rule in (table or {}).items()}

    def found(target: Any) -> Callable | None:
        rule = rules.get(_key(target))
        return inner_rule(target) if rule is None and rules else rule

    return _Decompose(program, found, keeps).run()


class _Decompose:
    """One run."""

    def __init__(self, program: Any, rule_of: Callable[[Any], Callable | None], keeps: Callable[[Any], bool]) -> None:
        self.program = program
        self.mode = _mode_of(program)
        self.tracer = ExportTracer({})
        self.tracer.env, self.tracer.snapshots = program._shape_env, self.mode
        self.recorder = Recorder(self.tracer, rule_of, keeps)
        self.recorder.inside, self.recorder.without_writes = _without_writes, _rule_without_writes
        self.functional = Functional(self.recorder)
        self.values: dict[Node, Any] = {}
        self.by_name = {n.name: n for n in program.graph.nodes}

    def run(self) -> Any:
        told, self.mode.on_scalar = self.mode.on_scalar, self.tracer.note_element
        try:
            with self.mode, no_grad(), symbolic_math():
                placeholders = self.inputs()
                nodes = [n for n in self.program.graph.nodes if n.op not in ("placeholder", "output")]
                self.recorder.run_recorded(lambda: [self.call(n) for n in nodes])
                return self.finished(placeholders)
        finally:
            self.mode.on_scalar = told

    def inputs(self) -> list[Any]:
        result = []
        for node in self.program.graph.find_nodes(op="placeholder"):
            proxy = self.tracer.add_input(node.name)
            value = node.meta.get("val")
            if isinstance(value, Tensor):
                value = self.mode.empty(tuple(value.shape), value.stride(), value.dtype, value.device)
                self.tracer.track(value, proxy)
                self.functional.own(value)
            else:
                self.tracer.sizes.note(value, proxy, None)
                proxy.node.meta["val"] = value
            self.values[node] = value
            result.append((node, proxy.node, value))
        kinds = [spec.kind for spec in self.program.graph_signature.input_specs]
        if InputKind.USER_INPUT in kinds:      # constants that rules bring stand where the signature has them
            self.tracer.first_argument = result[kinds.index(InputKind.USER_INPUT)][1]
        return result

    def call(self, node: Node, owner: GraphModule | None = None) -> None:
        """One node of the program, or of a graph inside of it."""
        args, kwargs = map_aggregate((node.args, node.kwargs), lambda a: self.values[a] if isinstance(a, Node) else a)
        self.tracer.module_stack = node.meta.get("nn_module_stack") or {}
        self.tracer.line = node.meta.get("stack_trace")
        if node.op == "get_attr":
            self.values[node] = functools.reduce(getattr, node.target.split("."), owner or self.program.graph_module)
        elif isinstance(node.target, WrapWithSetGradEnabled):
            self.values[node] = self.inlined(args[1], args[2:])
        elif isinstance(node.target, WrapWithAutocast):
            with node.target.mode(*args[:4]):
                self.values[node] = self.inlined(args[4], args[5:])
        elif isinstance(node.target, HigherOrderOp):
            given = map_aggregate(args, lambda a: self.functional.current(a) if isinstance(a, Tensor) else a)
            self.values[node] = node.target(*given)
        elif node.target is operator.getitem or not isinstance(node.target, (AtenOverload, _C.Overload)):
            self.values[node] = node.target(*args, **kwargs)
        else:
            result = self.functional.call(node.target, args, kwargs)
            self.values[node] = self.as_laid_out(result, node.meta.get("val"), node.target)

    def as_laid_out(self, result: Any, known: Any, target: Any) -> Any:
        """A result with the strides it has in the program, where views may rely on them."""
        if not isinstance(result, Tensor) or not isinstance(known, Tensor) or is_view(target) or target.inplace:
            return result
        wanted, found = _steps(known), _steps(result)
        if wanted is None or found is None or wanted == found or not known._is_dense():
            return result
        order = sorted(range(known.ndim), key=lambda d: (-_seen(known.stride(d)), d))
        laid = result.permute(order).clone(memory_format=contiguous_format)
        laid = laid.permute([order.index(d) for d in range(known.ndim)])
        self.functional.own(laid)
        return laid

    def inlined(self, region: GraphModule, given: tuple) -> tuple:
        """The calls of a region that runs without gradients: a program without writes has none anyway."""
        self.values.update(zip(region.graph.find_nodes(op="placeholder"), given, strict=True))
        nodes = [n for n in region.graph.nodes if n.op not in ("placeholder", "output")]
        for node in nodes:
            self.call(node, region)
        return tuple(self.values[n] if isinstance(n, Node) else n for n in region.graph.output_node().args[0])

    def finished(self, placeholders: list[Any]) -> Any:
        signature = self.program.graph_signature
        written = [(spec, self.functional.current(value))
                   for spec, (_, _, value) in zip(signature.input_specs, placeholders, strict=True)
                   if isinstance(value, Tensor) and self.functional.is_written(value)]
        self.tracer.record_checks()
        outputs, returned = [], []
        for spec, value in written:
            node = self.node_of(value)
            kind, target = _mutation(spec)
            outputs.append(OutputSpec(kind, TensorArgument(node.name), target))
            returned.append(node)
        for old, spec in zip(self.program.graph.output_node().args[0], signature.output_specs, strict=True):
            value = self.values[old] if isinstance(old, Node) else old
            node = self.node_of(self.functional.current(value) if isinstance(value, Tensor) else value)
            arg = argument_of(value, node) if isinstance(node, Node) else ConstantArgument("", node)
            outputs.append(OutputSpec(spec.kind, arg, spec.target))
            returned.append(node)
        graph = self.tracer.graph
        calls = renamed(self.program.module_call_graph, self.argument_now)
        kept = names_kept(calls)
        graph.output(tuple(returned))
        graph.eliminate_dead_code(lambda n: n.name in kept or n.is_impure())
        note_numbers(graph)
        inputs = [InputSpec(s.kind, s.arg, s.target, s.persistent) for s in signature.input_specs]
        constants = dict(self.program.constants)
        at = next((i for i, s in enumerate(inputs) if s.kind is InputKind.USER_INPUT), len(inputs))
        for path, (t, node) in self.tracer.constants.items():
            name = path
            while name in constants:
                name += "_"
            constants[name] = t
            inputs.insert(at, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), name))
            at += 1
        return self.program._update(
            GraphModule(self.tracer.root, graph), ExportGraphSignature(inputs, outputs), constants=constants,
            dialect="ATEN", module_call_graph=calls,
        )

    def argument_now(self, arg: Any) -> Any:
        """A value of the program, as the new graph has it."""
        if isinstance(arg, ConstantArgument):
            return arg
        value = self.values[self.by_name[arg.name]]
        node = self.node_of(self.functional.current(value) if isinstance(value, Tensor) else value)
        return argument_of(value, node)

    def node_of(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.tracer.proxy_of(value).node
        if isinstance(value, SYMBOLIC):
            result = self.tracer.sizes.proxy(value)
            return getattr(result, "node", result)
        return value


class _Inside(_Decompose):
    """The graph of a function that an op over functions calls: the same, and what it returns is current."""

    def __init__(self, recorder: Recorder, function: GraphModule) -> None:
        self.recorder, self.tracer, self.function = recorder, recorder.tracer, function
        self.functional = Functional(recorder)
        self.values = {}

    def __call__(self, *given: Any) -> list[Any]:
        self.values.update(zip(self.function.graph.find_nodes(op="placeholder"), given, strict=True))
        for node in self.function.graph.nodes:
            if node.op not in ("placeholder", "output"):
                self.call(node, self.function)
        returned = self.function.graph.output_node().args[0]
        values = [self.values[n] if isinstance(n, Node) else n
                  for n in ([returned] if isinstance(returned, Node) else returned)]
        return [self.functional.current(v) if isinstance(v, Tensor) else v for v in values]


def _without_writes(recorder: Recorder, function: Callable) -> Callable:
    """A function that an op over functions calls, which writes to nothing if it is a graph already."""
    return _Inside(recorder, function) if isinstance(function, GraphModule) else function


def _rule_without_writes(recorder: Recorder, target: Any, rule: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What a rule computes that writes to tensors it made: recorded apart, then as values. NotImplemented where parts
    of it have no place in a graph."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    shape: list[Any] = []

    def apart(*given: Tensor) -> list[Tensor]:
        rest = iter(given)
        own_args, own_kwargs = pytree.tree_unflatten([next(rest) if isinstance(x, Tensor) else x for x in leaves], spec)
        found, form = pytree.tree_flatten(rule(*own_args, **own_kwargs))
        shape.append(form)
        return found

    tracer, recorder.within = recorder.tracer, [*recorder.within, str(target)]
    before = recorder.inside, recorder.without_writes
    recorder.inside, recorder.without_writes = (lambda inner, function: function), None
    try:
        op = SimpleNamespace(name=str(target))
        like = [apart_of(t, tracer.snapshots) for t in tensors]
        graph, _ = recorder.function_graph(op, "rule", apart, like)
    except (NotImplementedError, RuntimeError):
        return NotImplemented
    finally:
        recorder.inside, recorder.without_writes = before
        recorder.within = recorder.within[:-1]
    ours = [n.target for n in graph.graph.nodes if n.op == "call_function"]
    if any(recorder.is_out_of_place(t) and not getattr(t, "inplace", False) for t in ours):
        return NotImplemented
    last = next(reversed(tracer.graph.nodes), None)
    with recorder.calls:
        result = _Inside(recorder, graph)(*tensors)
    added = recorder.added_since(last)
    if any(recorder.is_out_of_place(n.target) for n in added):
        for node in reversed(added):
            tracer.graph.erase_node(node)
        return NotImplemented
    return pytree.tree_unflatten(result, shape[-1])


def _seen(n: Any) -> int | None:
    """A size as it was in the example."""
    return n if isinstance(n, int) else n.hint if n.has_hint() else None


def _steps(t: Tensor) -> list[int] | None:
    """Strides, of the example, of the dims that have any; None where only elements tell them."""
    pairs = [(_seen(size), _seen(step)) for size, step in zip(t.shape, t.stride(), strict=True)]
    if any(n is None for pair in pairs for n in pair) or not all(size for size, _ in pairs):
        return None
    return [step for size, step in pairs if size > 1]


def _mode_of(program: Any) -> FakeTensorMode:
    """The mode that the program's fakes belong to, or one like it."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if hasattr(value, "fake_mode"):
            return value.fake_mode
    return FakeTensorMode(allow_non_fake_inputs=True, shape_env=program._shape_env)


def _mutation(spec: InputSpec) -> tuple[OutputKind, str]:
    if spec.kind is InputKind.BUFFER:
        return OutputKind.BUFFER_MUTATION, str(spec.target)
    if spec.kind is InputKind.PARAMETER:
        return OutputKind.PARAMETER_MUTATION, str(spec.target)
    if spec.kind is InputKind.USER_INPUT:
        return OutputKind.USER_INPUT_MUTATION, spec.arg.name
    raise ValueError(f"run_decompositions: the program writes to the constant {spec.target}. Make it a buffer.")


def _key(op: Any) -> str:
    """What overloads are looked up by: their names."""
    return str(op)


# --- the default table ------------------------------------------------------------------------------------------------


class CustomDecompTable(dict):
    """A table from overloads to functions; `ops.aten.linear` as a key stands for all of its overloads."""

    def pop(self, key: Any, *default: Any) -> Any:
        """Take an op out, so that it stays whole."""
        for own in [k for k in self if k is key or _key(k) == _key(key)]:
            return super().pop(own)
        return super().pop(key, *default)

    def __delitem__(self, key: Any) -> None:
        own = next((k for k in self if _key(k) == _key(key)), key)
        super().__delitem__(own)

    def materialize(self) -> dict[Any, Callable]:
        """A plain dict of it."""
        return dict(self)


def default_table() -> CustomDecompTable:
    """Composites as core ATen ops. A copy: entries may be deleted."""
    found = CustomDecompTable()
    for name in decomposed_names():
        op, _, label = name.partition(".")
        overload = aten_overload(op, label)
        if overload is not None:
            found[overload] = rule_of(name)
    return found

