"""A program as an ONNX graph: its nodes, one after the other, by the table of rules.

Enters: an ExportedProgram. Leaves: a `Model`. First the program is decomposed (`prepared`): writes become values, and
composites without a rule become what they are made of. Then every node is looked up: by the name of its op's
definition in `rules`, or as a pointwise op, whose definition says enough. Refuses: ops that have neither, naming the op
and the user's line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .. import _C
from .._C import Tensor
from .._higher_order_ops.core import HigherOrderOp
from ..aot.schema_arguments import bound_arguments
from ..aten.overloads import AtenOverload
from ..aten.plain import ASSERT_SCALAR
from ..export.decompositions import decomposed, default_table
from ..export.graph_signature import ConstantArgument, InputKind, OutputKind
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_aggregate
from ..op import ops
from ..op.fused import Fused
from ..op.pointwise import Pointwise
from ..utils import _pytree as pytree
from ..version import __version__
from .bodies import BODIES
from .building import IR_VERSIONS, NATIVE, Builder, Size
from .control_flow import control_flow
from .elements import NotPointwise, pointwise
from .errors import OnnxExporterError, UnsupportedOperatorError
from .lowering import lowered
from .model import CONSTANT, Model, Value
from .numbers import NUMBERS
from .pairs import REAL, Pair, whole
from .rules import COMPLEX, RANDOM, RULES, complex_call
from .rules.operators import NATIVE as NATIVE_OPS
from .scripts import as_rule

MOST_PASSES = 4


@dataclasses.dataclass(frozen=True)
class Wanted:
    """How the model is to be."""

    opset: int
    shares: bool = True                                            # equal nodes are one
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    dims: Mapping[tuple[str, int], str] = dataclasses.field(default_factory=dict)     # names of dims of inputs
    rules: Mapping[Any, Callable] = dataclasses.field(default_factory=dict)           # the user's own
    keeps_origin: bool = True                                      # nodes say which lines they come from
    draws: bool = True                                             # random numbers may be drawn by the runtime


# --- before -----------------------------------------------------------------------------------------------------------


def prepared(program: Any, rules: Mapping[Any, Callable] = {}, opset: int = 0) -> Any:  # noqa: B006 - never changed
    """The program without writes, and without composites that there are no rules for."""
    bodies = {name: body for name, body in BODIES.items() if not (name.startswith("onnx::") and opset >= NATIVE_OPS)}
    own, table = {str(target) for target in rules}, {str(t): rule for t, rule in default_table().items()}
    own_names = {str(getattr(target, "_opname", target)) for target in rules}

    def keeps(overload: Any) -> bool:
        definition = overload.definition
        if definition.is_inplace or definition.name in own_names or definition.name in bodies:
            return False
        return _is_known(definition)

    def rule_of(target: Any) -> Callable | None:
        definition = getattr(target, "definition", None)
        if definition is None or str(target) in own:
            return None
        if definition.name in bodies and not definition.is_inplace:
            return functools.partial(_own_body, target)
        if _is_known(definition):
            return None
        if str(target) in table:
            return table[str(target)]
        return functools.partial(_body, target) if _has_body(definition) else None

    result = decomposed(program, rule_of=rule_of, keeps=keeps)
    # Bodies of composites may write to tensors that they made; of those passes over the result make values.
    for _ in range(MOST_PASSES):
        if not any(_writes(node.target) for node in result.graph.nodes):
            break
        result = decomposed(result, rule_of=rule_of, keeps=keeps)
    return result


def _is_known(definition: Any) -> bool:
    """Whether an op becomes nodes as it is."""
    return definition.name in RULES or definition.name in COMPLEX or isinstance(definition, Pointwise)


def _writes(target: Any) -> bool:
    return isinstance(target, (AtenOverload, _C.Overload)) and bool(target.inplace)


def _has_body(definition: Any) -> bool:
    """Whether an op is written with others, and computes a value: some exist for what they write."""
    return (definition.is_composite and not definition.only_inplace) or isinstance(definition, Fused)


def _own_body(target: Any, *args: Any, **kwargs: Any) -> Any:
    """What an op computes, by the body that there is for it here."""
    overload, named = target, kwargs
    if isinstance(target, AtenOverload):
        found = target.ours(args, kwargs, lambda own: own)
        if found is None:
            return NotImplemented
        overload, named = found
        args = ()
    return BODIES[overload.definition.name](*bound_by_name(overload, args, named))


def _body(target: Any, *args: Any, **kwargs: Any) -> Any:
    """What a composite computes, by the ops that it is made of."""
    overload, named = target, kwargs
    if isinstance(target, AtenOverload):
        found = target.ours(args, kwargs, lambda own: own)
        if found is None:      # PyTorch has in one op what a few of ours do
            return target(*args, **kwargs)
        overload, named = found
        args = ()
    definition = overload.definition
    if not _has_body(definition) or _is_known(definition):
        return NotImplemented
    return definition.run(*bound_by_name(overload, args, named))


def bound_by_name(overload: Any, args: tuple, kwargs: Mapping[str, Any]) -> tuple:
    """Every parameter of the schema; `kwargs` may name those that come by place."""
    return bound_arguments(overload, args, dict(kwargs))


# --- the conversion ---------------------------------------------------------------------------------------------------


def converted(program: Any, wanted: Wanted) -> Model:
    """The model of a prepared program."""
    return _Conversion(program, wanted).run()


class _Conversion:
    """One run."""

    def __init__(self, program: Any, wanted: Wanted) -> None:
        self.program, self.wanted = program, wanted
        self.g = Builder("main_graph", max(wanted.opset, NATIVE), wanted.shares)
        self.env: dict[Node, Any] = {}
        self.names = dict(program._dim_names)
        self.own = {str(target): as_rule(rule) for target, rule in wanted.rules.items()}
        self.owner: Any = program.graph_module          # who holds what the graph at hand names

    def run(self) -> Model:
        self.name_dims()
        self.inputs()
        self.calls(self.program.graph)
        self.outputs()
        self.g.drop_unused()
        if self.wanted.opset < NATIVE:
            lowered(self.g, self.wanted.opset)
            self.g.drop_unused()
        made = {n.name: v.name for n, v in self.env.items() if isinstance(v, Value) and n.op == "call_function"}
        return Model(self.g.graph, self.wanted.opset, IR_VERSIONS[self.wanted.opset], self.g.domains,
                     producer=("rushlight", __version__), made=made)

    def calls(self, graph: Any) -> None:
        """The nodes of a graph, in order."""
        for node in graph.nodes:
            if node.op == "get_attr":
                self.env[node] = self.attribute(node)
            elif node.op == "call_function":
                self.env[node] = self.call(node)

    def inlined(self, function: GraphModule, given: Sequence[Any]) -> list[Any]:
        """What the graph of a function computes, by nodes of the graph that is built."""
        self.env.update(zip(function.graph.find_nodes(op="placeholder"), given, strict=True))
        owner, self.owner = self.owner, function
        try:
            self.calls(function.graph)
        finally:
            self.owner = owner
        returned = function.graph.output_node().args[0]
        return [self.value(n) for n in ([returned] if isinstance(returned, Node) else returned)]

    @contextlib.contextmanager
    def inside(self, name: str) -> Iterator[Builder]:
        """Inside, a graph within the one at hand is built."""
        outer, self.g = self.g, self.g.within(self.g.fresh(name))
        self.g.scope = outer.scope
        try:
            yield self.g
        finally:
            self.g = outer

    # --- inputs and outputs -------------------------------------------------------------------------------------------

    def name_dims(self) -> None:
        """Names that the user has for dims, by their symbols."""
        for name, value in self.user_inputs():
            for d, n in enumerate(value.shape if isinstance(value, Tensor) else ()):
                given = self.wanted.dims.get((name, d))
                if given is not None and type(n) is not int and str(n) not in self.names:
                    self.names[str(n)] = given

    def user_inputs(self) -> list[tuple[str, Any]]:
        nodes = self.program.graph.find_nodes(op="placeholder")
        specs = zip(nodes, self.program.graph_signature.input_specs, strict=True)
        return [(node.name, node.meta.get("val")) for node, spec in specs if spec.kind is InputKind.USER_INPUT]

    def inputs(self) -> None:
        nodes = self.program.graph.find_nodes(op="placeholder")
        given = iter(self.wanted.inputs)
        for node, spec in zip(nodes, self.program.graph_signature.input_specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                if isinstance(spec.arg, ConstantArgument):
                    self.env[node] = spec.arg.value
                    continue
                self.env[node] = self.user_input(next(given, node.name), node.meta["val"])
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                self.env[node] = self.tensor(str(spec.target), self.program.tensor_of(spec).detach(), spec.kind.name)
            else:
                raise OnnxExporterError(f"onnx: input {node.name} is a {spec.kind.name}, which a model cannot have")
        unused = list(given)
        if unused:
            raise ValueError(f"onnx: input_names has {unused} beyond the inputs that the model has")

    def tensor(self, name: str, held: Tensor, role: str = CONSTANT) -> Value | Pair:
        """A tensor that the model holds."""
        if not held.dtype.is_complex:
            return self.g.tensor(name, held, role)
        return Pair(self.g.tensor(name, ops["view_as_real"](held.resolve_conj()), role), held.dtype, tuple(held.shape))

    def user_input(self, name: str, value: Any) -> Any:
        if isinstance(value, Tensor) and value.dtype.is_complex:
            shape = self.shape(value)
            return Pair(self.g.input(name, REAL[value.dtype.code], (*shape, 2)), value.dtype, shape)
        if isinstance(value, Tensor):
            return self.g.input(name, value.dtype, self.shape(value))
        if isinstance(value, _C.SymbolicInt):
            scalar = self.g.input(name, _C.int64, ())
            return Size(self.g.node("Unsqueeze", scalar, self.g.ints([0]), shape=(1,)), self.text(value))
        raise OnnxExporterError(f"onnx: input {name} is a {type(value).__name__}; models take tensors and integers")

    def shape(self, value: Tensor) -> tuple[int | str, ...]:
        return tuple([n if type(n) is int else self.text(n) for n in value.shape])

    def text(self, n: Any) -> str:
        """A size that varies, in the user's names."""
        return re.sub(r"[A-Za-z_]\w*", lambda m: self.names.get(m.group(), m.group()), str(n))

    def outputs(self) -> None:
        returned = self.program.graph.output_node().args[0]
        given, taken = iter(self.wanted.outputs), {v.name for v in self.g.graph.inputs}
        written = []
        for node, spec in zip(returned, self.program.graph_signature.output_specs, strict=True):
            if spec.kind is not OutputKind.USER_OUTPUT:
                written.append(str(spec.target))
                continue
            if not isinstance(node, Node):
                continue                       # None and numbers that were fixed: the program knows them
            value = self.value(node)
            if isinstance(value, Size):
                value = self.g.scalar(value, value.value.dtype)
            if isinstance(value, Pair):
                value = dataclasses.replace(value.value, shape=(*value.shape, 2))
            name = next(given, None)
            settled = self.output(value, name, taken)
            self.g.graph.outputs.append(settled)
            taken.add(settled.name)
        if not self.g.graph.outputs:
            raise OnnxExporterError("onnx: the program returns no tensors, and a model without results is none")
        if written:
            warnings.warn(
                f"onnx: the program writes to {', '.join(written)}. Models keep no state: what is written there is left"
                " out. Call eval() on the module, or return the new values.", stacklevel=2)
        unused = list(given)
        if unused:
            raise ValueError(f"onnx: output_names has {unused} beyond the outputs that the model has")

    def output(self, value: Value, name: str | None, taken: set[str]) -> Value:
        """A result under its name; one that is an input, a tensor of the model or another result is copied."""
        is_made = any(value.name in n.outputs for n in self.g.graph.nodes)
        if not is_made or value.name in taken:
            value = self.g.node("Identity", value, shape=value.shape)
        if name is None or name == value.name:
            return value
        if name in self.g.taken:
            raise ValueError(f"onnx: output_names: the name {name!r} is taken by another value of the model")
        self.g.rename(value.name, name)
        renamed = dataclasses.replace(value, name=name)
        for node, held in self.env.items():
            if isinstance(held, Value) and held.name == value.name:
                self.env[node] = renamed
            if isinstance(held, Pair) and held.value.name == value.name:
                self.env[node] = dataclasses.replace(held, value=renamed)
        return renamed

    # --- nodes --------------------------------------------------------------------------------------------------------

    def attribute(self, node: Node) -> Any:
        held = functools.reduce(getattr, str(node.target).split("."), self.owner)
        return self.tensor(str(node.target), held.detach()) if isinstance(held, Tensor) else held

    def given(self, argument: Any) -> Any:
        return map_aggregate(argument, lambda a: self.value(a) if isinstance(a, Node) else a)

    def value(self, node: Node) -> Any:
        found = self.env[node]
        if found is None and isinstance(node.meta.get("val"), Tensor):
            raise UnsupportedOperatorError(f"onnx: {node.name}, a further result of an op, has no rule.{_line(node)}")
        return found

    def call(self, node: Node) -> Any:
        self.g.scope, self.g.origin = node.name, self.origin(node)
        try:
            return self.finished(node, self.result(node))
        except (NotPointwise, NotImplementedError) as error:
            if isinstance(error, UnsupportedOperatorError):
                raise
            raise UnsupportedOperatorError(f"onnx: {node.target} cannot be converted: {error}{_line(node)}") from error
        except TypeError as error:
            sizes = [str(v) for v in map(self.env.get, node.all_input_nodes) if isinstance(v, Size)]
            if not sizes:
                raise
            raise UnsupportedOperatorError(f"onnx: {node.target} takes numbers that are known when a model is exported,"
                                           f" and {', '.join(sizes)} varies.{_line(node)}") from error

    def result(self, node: Node) -> Any:
        target = node.target
        if target is operator.getitem:
            return self.given(node.args[0])[node.args[1]]
        if target is ASSERT_SCALAR:
            return None                        # what sizes meet was checked when the program was exported
        own = self.own.get(str(target))
        if own is not None:
            return own(self.g, *self.given(node.args), **self.given(node.kwargs))
        if isinstance(target, HigherOrderOp):
            return control_flow(self, target.name, *self.given(node.args))
        if not isinstance(target, (AtenOverload, _C.Overload)):
            return self.number(node)
        if _writes(target):
            raise UnsupportedOperatorError(f"onnx: {target} writes to a tensor, which models cannot.{_line(node)}")
        overload, bound = _bound(node)
        definition = overload.definition
        if definition.name in _SIZES:
            return _SIZES[definition.name](self.g, *self.given(bound))
        given = self.given(bound)
        if definition.name in RANDOM and not self.wanted.draws:
            raise UnsupportedOperatorError(f"onnx: {target} draws random numbers, others than this program would.")
        self.g.result = node.meta.get("val")
        fakes = map_aggregate(bound, lambda a: a.meta["val"] if isinstance(a, Node) else a)
        self.g.seen = dict(zip([p.name for p in definition.spec.params], fakes, strict=True))
        if isinstance(self.g.result, Tensor) and _is_empty(self.g.result):
            return None                        # see `finished`
        rule = RULES.get(definition.name)
        is_complex = _has_complex(self.g.result, given)
        if (is_complex or rule is not None) and not (is_complex and isinstance(definition, Pointwise)):
            named = {p.name: value for p, value in zip(definition.spec.params, given, strict=True)}
            return complex_call(self.g, definition.name, named) if is_complex else rule(self.g, **named)
        if isinstance(definition, Pointwise):
            results = pointwise(self.g, definition, fakes, given)
            return results[0] if len(results) == 1 else tuple(results)
        raise UnsupportedOperatorError(
            f"onnx: there is no rule for {target}.{_line(node)} Give one with custom_translation_table={{{target}: "
            "function of a builder and the arguments}."
        )

    def number(self, node: Node) -> Any:
        """What graphs compute with sizes."""
        args = self.given(node.args)
        if not any(isinstance(a, Size) for a in args):
            return node.target(*args)
        if _is_checked_only(node):
            return None
        rule = NUMBERS.get(node.target)
        if rule is None:
            raise UnsupportedOperatorError(f"onnx: no rule for sizes computed with {node.target}.{_line(node)}")
        return rule(self.g, *args, self.text(node.meta.get("val")))

    def finished(self, node: Node, result: Any) -> Any:
        """Results with the shapes and types that the program says they have."""

        def settled(value: Any, fake: Any) -> Any:
            if isinstance(fake, Tensor) and _is_empty(fake) and node.target is not operator.getitem:
                return self.tensor("nothing", ops["zeros"](list(fake.shape), dtype=fake.dtype))
            if isinstance(value, Pair):
                return dataclasses.replace(whole(self.g, value, fake.dtype), shape=self.shape(fake))
            if isinstance(value, Value) and isinstance(fake, Tensor):
                found = dataclasses.replace(self.g.cast(value, fake.dtype), shape=self.shape(fake))
                self.g.facts[found.name] = found
                return found
            if isinstance(value, (list, tuple)) and isinstance(fake, (list, tuple)):
                return tuple([settled(v, f) for v, f in zip(value, fake)])
            return value

        return settled(result, node.meta.get("val"))

    def origin(self, node: Node) -> dict[str, str]:
        """Where a node comes from, as metadata of what it becomes."""
        if not self.wanted.keeps_origin:
            return {}
        found = {"fx_node": str(node.target)}
        stack = node.meta.get("nn_module_stack")
        if stack:
            found["module"] = list(stack.values())[-1][0]
        if node.meta.get("stack_trace"):
            found["stack_trace"] = node.meta["stack_trace"]
        return found


def _is_empty(fake: Tensor) -> bool:
    """Whether a tensor never has elements: what it is computed with does not matter, and runtimes stop at some."""
    return 0 in [n for n in fake.shape if type(n) is int] and all(type(n) is int for n in fake.shape)


def _has_complex(fakes: Any, given: Any) -> bool:
    """Whether complex numbers are among results or arguments."""
    found = [x for x in pytree.tree_leaves(fakes) if isinstance(x, Tensor) and x.dtype.is_complex]
    return bool(found) or any(isinstance(x, Pair) for x in pytree.tree_leaves(list(given)))


def _is_checked_only(node: Node) -> bool:
    """Whether a condition on sizes was checked when the program was exported, and nothing else depends on it."""
    return all(u.target is ASSERT_SCALAR or (u.op == "call_function" and not isinstance(u.meta.get("val"), (
        Tensor, int, _C.SymbolicInt)) and u.target is not operator.getitem and _is_checked_only(u)) for u in node.users)


def _bound(node: Node) -> tuple[Any, tuple]:
    """The overload of ours that a node calls, and its arguments by the signature, nodes as they are."""
    target = node.target
    if not isinstance(target, AtenOverload):
        return target, bound_by_name(target, node.args, node.kwargs)
    found = target.ours(node.args, node.kwargs, lambda own: map_aggregate(
        own, lambda a: a.meta["val"] if isinstance(a, Node) else a))
    if found is None:
        raise UnsupportedOperatorError(f"onnx: {target} is no single op here, and has no rule.{_line(node)}")
    return found[0], bound_by_name(found[0], (), found[1])


def _line(node: Node) -> str:
    where = node.meta.get("stack_trace")
    return f"\n  {where}\n" if where else f" (node {node.name})"


def _numel(g: Builder, x: Value) -> Any:
    return Size(g.node("Reshape", g.node("Size", x, dtype=_C.int64), g.ints([1]), shape=(1,)), "numel")


_SIZES: dict[str, Callable] = {"sym_size": lambda g, x, dim: g.size(x, dim), "sym_numel": _numel}

__all__ = ["Wanted", "converted", "prepared"]
