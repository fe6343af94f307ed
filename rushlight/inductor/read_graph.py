"""Reading a graph: every node as a definition with its arguments bound, in the order of the graph.

Enters: a GraphModule whose nodes call ops, and tensors (or fakes) like its inputs. Leaves: `Node`s over `Value`s. Views
become geometry and leave no node; composites are traced into the ops of their bodies. Refuses:
nodes that call modules or functions that are no ops.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from .. import _C
from ..aten.overloads import AtenOverload
from ..base import assertions
from ..base.bits import BITS
from ..base.shape import contiguous_format, preserve_format
from ..codegen.schedule.forms.wishes import NONE, Wishes
from ..loops.lowered import Lowered, NotLowerable
from ..loops.row_program import FULL
from ..op.composite import Composite
from ..op.definition import KIND_PLANNED
from ..op.extents import Extent, Untraceable, larger, smaller
from ..op.extern import OwnPlans
from ..op.fused import Fused
from ..op.pointwise import Pointwise
from ..op.reduction import Reduction
from ..op.registry import find_op
from ..op.view import Geometry, View
from ..symbols import SymInt
from . import settings
from .lines import product_plan
from .tune import can_be_tuned, fastest, kept_plan
from .values import Buffer, Value, fresh, fresh_lines, hints, is_value, layout_key, map_values, named


class Node:
    """One op of the graph: what it is, what it reads, and the values it makes.

    `form` is "points" (a Lowered of one loop), "fold" (a Lowered with a reduction), "rows" (a fused body), "steps" (a
    plan of its own), or "call" (Python, between kernels).
    """

    def __init__(self, name: str, overload: Any, args: tuple, inputs: list[Value]) -> None:
        self.name, self.overload, self.args, self.inputs = name, overload, args, inputs
        self.definition = overload.definition
        self.form = "call"
        self.lowered: Lowered | None = None
        self.plan: Any = None
        self.finished: Any = None             # the plan with ops behind it (conv_epilogues.py)
        self.cost: int | None = None          # instructions for an element, once somebody counted them (merge.py)
        self.results: list[Value] = []
        self.single = True
        self.writes: list[Buffer] = []        # buffers of others that it changes
        self.place = 0                        # in the graph
        self.is_settled = False               # its plan is for the layouts it has: no other will do

    def __repr__(self) -> str:
        return f"{self.name}: {self.form} {self.definition.name}"


# how a graph asks for sizes, and what it computes with them where Python's own functions would fix a number
SIZES: dict[str, Callable] = {
    "sym_size": lambda v, dim: v.sizes[dim], "sym_stride": lambda v, dim: v.strides[dim],
    "sym_numel": lambda v: math.prod(v.sizes),
}
NUMBERS: dict[Any, Callable] = {assertions.sym_max: larger, assertions.sym_min: smaller}


class Reader:
    """Reads one graph, and those of the composites in it, into one list of nodes."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.nodes: list[Node] = []
        self.known: dict[tuple, Node] = {}      # calls made before: the same op on the same values is made once
        self.bodies: dict[tuple, Any] = {}      # what composites are made of, by their arguments' layouts
        self.answers: dict[tuple, Any] = {}     # what rules of ops said, likewise

    def read(self, graph_module: Any, inputs: Sequence[Any]) -> list[Any]:
        """The graph's outputs, from what its placeholders stand for: Values, or plain arguments."""
        env: dict[Any, Any] = {}
        given = iter(inputs)
        for node in graph_module.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(given)
            elif node.op == "output":
                return map_values(node.args[0], lambda n: env[n], is_node)
            elif node.op == "get_attr":
                env[node] = self.constant(attribute(graph_module, node.target))
            elif node.op == "call_function":
                args, kwargs = map_values((node.args, node.kwargs), lambda n: env[n], is_node)
                if self.symbols is not None:
                    args, kwargs = map_values((args, kwargs), self.number, lambda x: isinstance(x, SymInt))
                env[node] = self.call(node, args, kwargs)
            else:
                raise NotImplementedError(
                    f"inductor: a node of kind {node.op!r} ({node.target}). Trace the model with make_fx first."
                )
        return []

    def constant(self, tensor: Any) -> Value:
        """A tensor that the graph holds: one more input, bound to it."""
        if has_no_data(tensor):
            raise NotImplementedError(
                f"inductor: the graph holds a tensor {list(tensor.shape)} that was made while tracing and has no"
                " elements. Give it as an argument."
            )
        self.constants.append(tensor.resolve_conj().resolve_neg())
        return Buffer(
            tensor.shape, tensor.stride(), tensor.dtype, self.first_constant + len(self.constants) - 1
        ).whole()

    constants: list[Any]
    first_constant: int
    symbols: dict[str, Any] | None = None      # for many sizes: what each symbol of the trace is

    def number(self, symbolic: Any) -> Any:
        """A number that the graph holds as a formula of its symbols."""
        if not symbolic.expression.names <= set(self.symbols):
            raise NotImplementedError(f"inductor: the size {symbolic} of the graph is that of none of its inputs.")
        return symbolic.expression.evaluate(self.symbols)

    def call(self, fx_node: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        target = fx_node.target
        if isinstance(target, AtenOverload):
            found = target.ours(args, kwargs, lambda own: map_values(own, self.shown, is_given))
            if found is None:      # PyTorch has in one op what several do here
                body = self.traced(target, (args, kwargs))
                if body is None:
                    raise NotImplementedError(f"inductor: elements decide what {target} does; run it apart.")
                return self.read(body, [v for v in flat((args, kwargs)) if is_given(v)])
            target, args, kwargs = found[0], (), found[1]
        if not isinstance(target, _C.Overload):
            if target is not operator.getitem and any(isinstance(a, Value) for a in flat((args, kwargs))):
                raise NotImplementedError(
                    f"inductor: {target} is no op of the registry. Decompose it, or wrap it with"
                    " rushlight.library.custom_op."
                )
            return NUMBERS.get(target, target)(*args, **kwargs)       # sizes, items of a tuple of results
        overload = target
        bound = bind(overload, args, kwargs)
        if overload.definition.name in SIZES:
            return SIZES[overload.definition.name](*bound)
        if isinstance(overload.definition, View) and overload.definition.written is not None:
            return self.op(find_op(overload.definition.written), *bound, seen=fx_node)
        if isinstance(overload.definition, View):
            return self.view(overload.definition, bound, fx_node)
        if isinstance(overload.definition, Composite) and overload.definition.is_composite:
            body = self.traced(overload.definition.compute, (bound, {}))
            if body is not None:
                return self.read(body, [v for v in flat(bound) if is_given(v)])
        key = (overload, named(bound))
        node = self.known.get(key)
        if node is None:
            node = Node(fx_node.name, overload, bound, [v for v in flat(bound) if isinstance(v, Value)])
            self.nodes.append(node)
            self.settle(node, fx_node)
            if node.writes:
                self.known.clear()
            elif is_repeatable(node):
                self.known[key] = node
        return node.results[0] if node.single else tuple(node.results)

    def op(self, op: Any, *args: Any, seen: Any = None) -> Value:
        """One more call, of an op that the graph does not name; its result lies as that of the node `seen` did."""
        overload = op.overload_list[0]
        bound = bind(overload, args, {})
        node = Node(overload.name, overload, bound, [v for v in flat(bound) if isinstance(v, Value)])
        self.nodes.append(node)
        self.settle(node, seen)
        return node.results[0]

    # Asking rules
    # -------------------------------------------------------------------------------------------------------------

    def stands(self, args: Any, is_run: bool = False) -> tuple:
        """The arguments with tensors of their layouts in the place of values. Where a number stands for others none of
        them is a tensor that rules could look at through it. `is_run`: kernels will run on them."""
        varies = any(x.varies if isinstance(x, Value) else isinstance(x, Extent) for x in flat(args))
        return tuple(map_values(args, lambda v: v.stand_in(self.device, varies, is_run), is_value))

    def shown(self, given: Any) -> Any:
        """A value or number as something that signatures take."""
        return given.stand_in(self.device) if isinstance(given, Value) else int(given.hint)

    def asked(self, rule: Callable[[tuple], Any], args: tuple) -> Any:
        """What a rule says of the arguments; where it wants more than sizes that stand for others can give,
        of the very sizes of this call."""
        try:
            return rule(self.stands(args))
        except Untraceable:
            return rule(self.stands(settled(args)))

    def asked_once(self, definition: Any, what: Hashable, rule: Callable[[tuple], Any], args: tuple) -> Any:
        """The same, once for all arguments of a layout: networks repeat themselves."""
        try:
            key = definition, what, layout_key(args)
            hash(key)
        except TypeError:      # sizes that stand for others, or arguments that cannot be looked up by
            return self.asked(rule, args)
        if key not in self.answers:
            self.answers[key] = self.asked(rule, args)
        return self.answers[key]

    def planned(self, definition: Any, args: tuple, wishes: Wishes = NONE) -> Any:
        """The plan that eager mode would make, but for what is wished, or None."""

        def rule(stands: tuple) -> Any:
            return kept_plan(definition, stands, wishes)

        plan = self.asked_once(definition, wishes, rule, args)
        if plan is not None and plan.calls_python:      # functions of its own, which may remember what they did
            plan = self.asked(rule, args)
        if settings.tune and plan is not None and can_be_tuned(definition, args, self.device):
            return fastest(definition, args, self.stands(args, True), plan, wishes)
        if plan is not None and plan.calls_python and not all(keeps_no_sizes(s.kernel) for s in plan.parts[0]):
            plan = rule(self.stands(settled(args)))
        return plan

    # Views and composites
    # -----------------------------------------------------------------------------------------------

    def view(self, definition: View, bound: tuple, fx_node: Any) -> Any:
        """What a view shows of its source. Sources may lie otherwise than tracing saw them, in an order of their dims
        that suits the ops around; views that exist in the one order only get a copy in that."""
        if not definition.cacheable:
            bound = self.as_traced(bound[0], fx_node.args[0]), *bound[1:]
            first, *rest = settled(bound)
            results = definition.geometry(self.in_place(first), *rest)
        else:
            try:
                results = self.asked(lambda stands: definition.geometry(*stands), bound)
            except RuntimeError:
                copied = self.as_traced(bound[0], fx_node.args[0])
                if copied is bound[0]:
                    raise
                bound = copied, *bound[1:]
                results = self.asked(lambda stands: definition.geometry(*stands), bound)
        source = bound[0]

        def value(g: Geometry) -> Value:
            dtype = g.dtype or source.dtype
            own = source.offset * source.dtype.itemsize // dtype.itemsize
            return Value(source.buffer, g.sizes, g.strides, own + g.offset, dtype)

        return tuple([value(g) for g in results]) if isinstance(results, list) else value(results)

    def as_traced(self, source: Value, seen: Any) -> Value:
        """The value of the node `seen`, or where it is memory of this graph with its dims in another order than tracing
        saw, a copy in that."""
        strides = None if source.buffer.is_input else result_strides(seen, source.sizes)
        if strides is None or all(n == 1 or a == b for n, a, b in zip(source.sizes, source.strides, strides)):
            return source
        return self.op(find_op("clone"), source, seen=seen)

    def in_place(self, value: Value) -> Any:
        """A stand-in where the value lies, for views that ask for its offset: that of a whole buffer is 0."""
        return value.of(value.buffer.whole().stand_in(self.device))

    def traced(self, function: Callable, arguments: tuple[tuple, dict[str, Any]]) -> Any:
        """The ops that a function calls with these arguments; None where elements decide which they are."""
        from ..fake import DataDependentOutputException  # noqa: PLC0415 - most graphs hold none
        from ..fx.experimental.proxy_tensor import make_fx  # noqa: PLC0415

        def body(*given: Any) -> Any:
            left = iter(given)
            args, kwargs = map_values(arguments, lambda v: next(left), is_given)
            return function(*args, **kwargs)

        leaves = [x for x in flat(arguments) if is_given(x)]
        key = body_key(function, *arguments)
        if key in self.bodies:
            return self.bodies[key]
        sizes = SymbolicStands(self.device) if any(isinstance(x, Extent) or x.varies for x in leaves) else None
        stands = [v.stand_in(self.device) for v in leaves] if sizes is None else [*map(sizes.stand_in, leaves)]
        try:
            found = make_fx(body, tracing_mode="fake" if sizes is None else "symbolic", _own_ops=True)(*stands)
        except (DataDependentOutputException, NotImplementedError):
            return None
        held = [attribute(found, n.target) for n in found.graph.nodes if n.op == "get_attr"]
        if any(has_no_data(t) for t in held):
            return None
        if sizes is not None:
            sizes.state_conditions()
        elif not held and key is not None:
            self.bodies[key] = found      # the same for all arguments of these layouts: networks repeat themselves
        return found

    # What a node is
    # -------------------------------------------------------------------------------------------------------

    def settle(self, node: Node, fx_node: Any) -> None:
        """Find the form of the node, and its results."""
        definition = node.definition
        node.single = (
            len(definition.spec.returns) == 1 and not definition.spec.returns[0].endswith("[]")
            if definition.spec.returns
            else True
        )
        if isinstance(definition, Fused) and self.rows(node, fx_node):
            return
        if self.device.type != "cpu" and self.product_of_lines(node, fx_node):
            return
        if isinstance(definition, Pointwise) and not definition.is_inplace and self.points(node, fx_node):
            return
        if isinstance(definition, Reduction) and self.fold(node):
            return
        self.steps(node)

    def points(self, node: Node, fx_node: Any) -> bool:
        definition = node.definition
        if self.asked_once(definition, "returns itself", definition.returns_itself, node.args):
            node.form, node.results = "nothing", [node.inputs[0]]
            self.nodes.pop()
            return True
        try:
            lowered = self.asked_once(definition, "lower", definition.lower, node.args)
        except NotLowerable:
            return False
        if definition.divisor and lowered.reads[0].code[0] in "iu":     # integer division looks for zeros first
            return False
        memories = [r for r in lowered.reads if hasattr(r, "dims")]
        if len(memories) != len(node.inputs) or not lowered.aligned:
            return False
        strides = result_strides(fx_node, lowered.shape) or pointwise_strides(lowered.shape, node.inputs)
        node.form, node.lowered = "points", lowered
        node.results = [fresh(lowered.shape, strides, by_code(code)) for code in lowered.outs]
        node.single = len(node.results) == 1
        return True

    def fold(self, node: Node) -> bool:
        try:
            lowered = self.asked(node.definition.lower, node.args)
        except NotLowerable:
            return False
        if len(node.inputs) != 1 or not lowered.aligned:
            return False
        node.form, node.lowered = "fold", lowered
        node.results = [fresh(lowered.shape, None, by_code(code)) for code in lowered.outs]
        node.single = len(node.results) == 1
        return True

    def rows(self, node: Node, fx_node: Any) -> bool:
        """A fused body over contiguous rows, or over whole ones that lie further apart."""
        args, definition = node.args, node.definition
        if not all(v.is_contiguous for v in node.inputs):
            args = map_values(node.args, lambda v: fresh(v.sizes, None, v.dtype), is_value)     # to ask about
            inner = definition.row_dims(*self.stands(args))
            for p, v in zip(definition.spec.params, node.args, strict=True):
                in_lines = is_value(v) and definition.kind_of(p.name) == FULL and v.line(inner) is not None
                if is_value(v) and not v.is_contiguous and not in_lines:
                    return False
        plan = self.planned(definition, args)
        if plan is None:
            return False
        self.adopt(node, plan)
        line = line_seen(fx_node)
        if line is not None and len(node.results) == 1 and self.device.type != "cpu":
            node.results = [fresh_lines(node.results[0].sizes, line, node.results[0].dtype)]
        node.form = "rows"
        return True

    def product_of_lines(self, node: Node, fx_node: Any) -> bool:
        """A product whose result, or an operand, lies in lines with room behind them (aot/lines.py)."""
        line = line_seen(fx_node)
        if line is None and not any(v.buffer.has_room for v in node.inputs):
            return False
        plan = product_plan(node.definition.name, node.args, line, self.device)
        if plan is None:
            return False
        self.adopt(node, plan)
        if line is not None:
            node.results = [fresh_lines(node.results[0].sizes, line, node.results[0].dtype)]
        node.form, node.is_settled = "steps", True
        return True

    def steps(self, node: Node) -> None:
        """The plan that eager mode would make; dense copies of the operands first where it has none for these
        layouts."""
        is_planned = node.definition.kind == KIND_PLANNED or isinstance(node.definition, OwnPlans)
        plan = self.planned(node.definition, node.args) if is_planned else None
        if plan is not None:
            node.form = "steps"
            self.adopt(node, plan)
            return
        self.nodes.pop()
        if any(not v.is_contiguous for v in node.inputs) and not node.definition.is_inplace and is_planned:
            args, before = node.args, len(self.nodes)
            node.args = tuple(map_values(node.args, self.dense, is_value))
            plan = self.planned(node.definition, node.args)
            if plan is None:       # the call gets what the program gives: its result lies as that says
                node.args = args
                del self.nodes[before:]
            node.inputs = [v for v in flat(node.args) if isinstance(v, Value)]
        self.nodes.append(node)
        if plan is not None:
            node.form = "steps"
            self.adopt(node, plan)
            return
        self.called(node)

    def dense(self, value: Value) -> Value:
        """The value in row-major order: a copy where it lies otherwise."""
        if value.is_contiguous:
            return value
        from ..op.registry import find_op  # noqa: PLC0415

        overload = find_op("_laid_out").overload_list[0]
        node = Node("dense", overload, (value, None), [value])
        self.nodes.append(node)
        self.steps(node)
        return node.results[0]

    def adopt(self, node: Node, plan: Any) -> None:
        """The results of a plan's slots."""
        node.plan, node.results = plan, []
        for kind, dtype, sizes, strides, source, offset in plan.outputs:
            if kind == "new":
                node.results.append(fresh(sizes, strides, dtype))
            elif kind == "arg":
                node.results.append(node.inputs[source])
                node.writes.append(node.inputs[source].buffer)
            elif kind == "view":
                base = node.inputs[source]
                own = base.offset * base.dtype.itemsize // dtype.itemsize
                node.results.append(Value(base.buffer, sizes, strides, own + offset, dtype))
        node.single = plan.single

    def called(self, node: Node) -> None:
        """An op without a plan: run in Python, its results copied to where the plan keeps them."""
        from ..fake import FakeTensorMode  # noqa: PLC0415

        if node.definition.name == "empty_like" and self.is_memory_alike(node):
            return
        node.form, node.args = "call", settled(node.args)
        node.inputs = [v for v in flat(node.args) if isinstance(v, Value)]
        if node.definition.is_inplace:
            node.results, node.writes = [node.inputs[0]], [node.inputs[0].buffer]
            return
        if node.definition.ends:      # what was given to the call that began it stays until then
            filled = node.inputs[0]
            beginnings = [n for n in self.nodes if n.definition.begins and n.results]
            node.inputs += [v for n in beginnings if n.results[0].buffer is filled.buffer for v in n.inputs]
            node.results, node.writes = [filled], [filled.buffer]
            return
        with FakeTensorMode() as mode:
            fakes = map_values(node.args, lambda v: mode.from_tensor(v.stand_in(self.device)), is_value)
            result = node.overload.call(*fakes)
        node.single = isinstance(result, _C.Tensor)
        if node.definition.name == "empty_like":      # nothing to run
            node.form = "nothing"
        node.results = [fresh(t.shape, t.stride(), t.dtype) for t in ((result,) if node.single else result)]


    def is_memory_alike(self, node: Node) -> bool:
        """Whether the node makes memory for a row-major tensor of the sizes of its operand, whatever these are: that is
        its result then. Other layouts are asked for by the sizes of one call."""
        like, dtype, _layout, device, *_, memory_format = node.args
        is_here = device is None or _C.device(device) == self.device
        if not is_here or memory_format not in (None, preserve_format, contiguous_format) or not like.is_contiguous:
            return False
        node.form, node.results = "nothing", [fresh(like.sizes, None, dtype or like.dtype)]
        return True


def is_repeatable(node: Node) -> bool:
    """Whether an equal call gives an equal result: not where random numbers are drawn,
    or memory is made for others to write to."""
    return bool(node.inputs) and node.form != "call" and not (node.plan is not None and node.plan.calls_python)


def bind(overload: Any, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """The arguments by the op's own signature, as its definition is given them."""
    rest = overload.definition.spec.params[len(args) :]      # by place first: names of second derivatives repeat
    if unknown := kwargs.keys() - {p.name for p in rest}:
        raise TypeError(f"{overload}: a graph calls it with {', '.join(sorted(unknown))}, which it does not take")
    return (*args, *[kwargs[p.name] if p.name in kwargs else None if p.required else p.default for p in rest])


def result_strides(fx_node: Any, shape: Sequence[int]) -> tuple[int, ...] | None:
    """The strides that tracing saw, if it saw them and memory of its own can have them."""
    seen = fx_node.meta.get("val") if fx_node is not None else None
    if not isinstance(seen, _C.Tensor) or seen.ndim != len(shape):
        return None
    if any(type(n) is not int for n in (*shape, *seen.shape, *seen.stride())):
        return strides_in_order(seen, shape)
    if tuple(seen.shape) != tuple(shape):
        return None
    strides = tuple([int(s) for s in seen.stride()])
    return strides if is_dense(shape, strides) else None


def line_seen(fx_node: Any) -> int | None:
    """How far rows of a node's result are to lie from each other, where that is not how long they are."""
    return None if fx_node is None else fx_node.meta.get("line")


def strides_in_order(seen: Any, shape: Sequence[Any]) -> tuple[Any, ...] | None:
    """Strides of these sizes with the dims in the order that tracing saw, where that was a dense one.

    Which order it is depends on the call that was traced, and any order is right."""
    # no order hangs on the numbers that stand for those that only elements tell
    sizes, strides = [
        [n if type(n) is int else n.env.stand_in(n.expression) for n in numbers]
        for numbers in (seen.shape, seen.stride())
    ]
    if not is_dense(sizes, strides):
        return None
    results, step = [0] * len(shape), 1
    for d in sorted(range(len(shape)), key=lambda d: (strides[d], -d)):
        results[d] = step
        step = step * shape[d]
    return tuple(results)


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements in some order of the dims lie one behind the other."""
    step = 1
    for s, n in sorted([(s, n) for n, s in zip(shape, strides, strict=True) if n != 1]):
        if s != step:
            return False
        step *= n
    return True


def pointwise_strides(shape: Sequence[int], inputs: Sequence[Value]) -> tuple[int, ...] | None:
    """Row-major, unless a dense operand of the whole shape lies otherwise."""
    first = next((v for v in inputs if v.sizes == tuple(shape) and not v.is_contiguous and 0 not in v.strides), None)
    if first is None:
        return None
    order = sorted(range(len(shape)), key=lambda d: -first.strides[d])
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= shape[d]
    return tuple(strides)


# --- small matters ----------------------------------------------------------------------------------------------------


def is_node(x: Any) -> bool:
    return type(x).__name__ == "Node" and hasattr(x, "graph")


def is_given(x: Any) -> bool:
    """Whether an argument of a composite is an input of its body's graph."""
    return isinstance(x, (Value, Extent))


def body_key(function: Callable, args: tuple, kwargs: dict[str, Any]) -> tuple | None:
    """What decides which ops a function calls: itself, and its arguments as tracing sees them; None for arguments that
    cannot be looked up by."""
    seen = map_values((args, tuple(sorted(kwargs.items()))), layout_of, is_given)
    try:
        key = (function, named(seen))
        hash(key)
    except TypeError:
        return None
    return key


def layout_of(x: Any) -> tuple:
    """What tracing sees of an argument."""
    return (type(x), x) if isinstance(x, Extent) else (Value, x.sizes, x.strides, x.dtype)


class SymbolicStands:
    """Arguments of a body that is traced for many sizes: fakes whose sizes are symbols where ours are Extents."""

    def __init__(self, device: Any) -> None:
        from ..fake import FakeTensorMode  # noqa: PLC0415 - most graphs are for one size
        from ..symbols import ShapeEnv  # noqa: PLC0415

        self.device, self.seen = device, []
        self.env = ShapeEnv(duck_shape=False)
        self.mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=self.env)

    def stand_in(self, x: Any) -> Any:
        self.seen.append(x)
        source = f"arg{len(self.seen)}"
        if isinstance(x, Extent):
            result = self.env.create_symbol(x.hint, source)
            self.env.remember_number(source, result)
            return result
        bare = _C.empty(hints(x.sizes), hints(x.strides), x.dtype, self.device)
        dims = [d for d, n in enumerate(x.sizes) if isinstance(n, Extent)]
        if dims:
            return self.mode.from_tensor(bare, source=source, dynamic_dims=dims)
        self.seen.pop()
        return self.mode.from_tensor(bare, source=source, static_shapes=True)

    def state_conditions(self) -> None:
        """What the trace assumed of its symbols holds for our numbers, and is a condition on them from now on."""
        shown = [x if isinstance(x, Extent) else x.stand_in(self.device) for x in self.seen]
        for x in shown:
            for n in (x,) if isinstance(x, Extent) else x.shape:
                if isinstance(n, Extent) and n.hint > 1:
                    assert n > 1, "the hint is"       # sizes 0 and 1 were traced as numbers
        refused = self.env.why_not(*shown)
        if refused is not None:
            raise Untraceable(refused)


def settled(structure: Any) -> Any:
    """The structure with its numbers as they are in this call, for which alone the plan then holds."""
    varies = any(v.varies if isinstance(v, Value) else isinstance(v, Extent) for v in flat(structure))
    if not varies:
        return structure
    return map_values(
        structure,
        lambda x: x.settled() if isinstance(x, Value) else int(x),
        lambda x: isinstance(x, (Value, Extent)),
    )


# what a function of a plan may hold besides other functions and containers: none of it comes from a size
_PLAIN = (int, float, complex, str, bytes, type, type(None), type(math), _C.dtype, _C.device, _C.Generator, _C.Overload)


def keeps_no_sizes(function: Any, depth: int = 4) -> bool:
    """Whether a step's function (or kernel) holds nothing that could stand for a size of the call."""
    if isinstance(function, _PLAIN) or type(function) is type(len):
        return True
    if isinstance(function, (tuple, list, set)):
        return depth > 0 and all(keeps_no_sizes(x, depth - 1) for x in function)
    if isinstance(function, partial):
        return all(keeps_no_sizes(x, depth - 1) for x in (function.func, function.args, [*function.keywords.values()]))
    if not isinstance(function, FunctionType) or not depth:
        return False
    cells = [c.cell_contents for c in function.__closure__ or ()]
    given = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return all(keeps_no_sizes(x, depth - 1) for x in (*cells, *given))


def flat(structure: Any) -> list[Any]:
    """The leaves of a structure, in order."""
    if isinstance(structure, (list, tuple)):
        return [leaf for x in structure for leaf in flat(x)]
    if isinstance(structure, dict):
        return [leaf for x in structure.values() for leaf in flat(x)]
    return [structure]


def has_no_data(t: Any) -> bool:
    """Whether a tensor stands for another, without elements."""
    return isinstance(t, _C.Tensor) and bool(t._keys & ~BITS or t.is_meta)


def attribute(module: Any, path: str) -> Any:
    """What a dotted path names."""
    return operator.attrgetter(path)(module)


_BY_CODE = {d.code: d for d in vars(_C).values() if isinstance(d, _C.dtype)}


def by_code(code: str) -> Any:
    """The dtype of a loop-language type."""
    return _BY_CODE[code]
