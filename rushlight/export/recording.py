"""Recording a program as calls of ATen ops: what it calls, not what those calls are made of.

Enters: a function to run on fake tensors, and which placeholder each of them is. Leaves: nodes in a graph. Calls are
seen twice: as the program makes them (a function mode), and as they reach kernels (a dispatch mode). What PyTorch has a
signature for is recorded as the first sees it; of everything else its parts, as the second sees them.
"""

from __future__ import annotations

import contextlib
import itertools
import linecache
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from .. import _C
from .._C import Tensor
from .._higher_order_ops.core import HigherOrderOp, apart, dispatching, settled
from ..aten.calls import aten_call
from ..aten.composed import COMPOSED
from ..aten.namespaces import namespace
from ..aten.overloads import schemas_of
from ..autograd.grad_mode import no_grad
from ..base.sources import PACKAGE
from ..definitions.products.einsum import einsum
from ..devices import default_device
from ..dispatch import autocast
from ..dispatch.modes import TorchDispatchMode, TorchFunctionMode, state as modes
from ..fake import DataDependentOutputException, FakeTensor
from ..fx.experimental.proxy_tensor import PythonKeyTracer, _place
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_aggregate
from ..fx.proxy import Proxy
from ..fx.spelling import public_module
from ..nn import Module, Parameter
from ..nn.modules.hooks import register_module_forward_hook, register_module_forward_pre_hook
from ..op import find_op
from ..rules import levels
from .imitations import imitated
from .values import note_numbers

_END = (1 << 63) - 1      # of a slice that has none
_CREATING = frozenset(
    ("zeros", "ones", "full", "empty", "arange", "linspace", "logspace", "eye", "rand", "randn", "randint", "randperm",
     "scalar_tensor", "empty_strided")
)
_PACKAGE = PACKAGE + os.sep


class ExportTracer(PythonKeyTracer):
    """Records nodes; tensors that are neither arguments nor made by ops become placeholders for constants."""

    def __init__(self, names: dict[int, str]) -> None:
        super().__init__()
        self.graph = Graph(tracer_cls=PythonKeyTracer)
        self.tensor_attrs = {}
        self.names = names                                        # tensors that modules hold: where
        self.constants: dict[str, tuple[Tensor, Node]] = {}
        self.twins: dict[int, FakeTensor] = {}
        self.line: str | None = None                              # where the program is, if that is known already
        self.first_argument: Node | None = None                   # constants stand before it
        self.by_identity: dict[int, Proxy] = {}                   # tensors that were made: whose results they are
        self.grad_modes: dict[Node, bool] = {}                    # the grad mode that the program called nodes in
        self.cast_modes: dict[Node, Any] = {}                     # and the mixed precision
        self.grad_outside: bool | None = None                     # that mode, while calls run without a tape

    def add_input(self, name: str) -> Proxy:
        """A placeholder of this name, which may be a word of Python's. What names cannot have becomes "_"."""
        if not name.isidentifier():
            name = "".join([c if c.isalnum() or c == "_" else "_" for c in name])
            taken = {node.name for node in self.graph.find_nodes(op="placeholder")}
            others = (f"{name}_{k}" for k in itertools.count(1))
            name = next(n for n in itertools.chain([name], others) if n not in taken)
        proxy = self.create_proxy("placeholder", name, (), {})
        keep_name(proxy.node, name)
        return proxy

    def track(self, t: Tensor, proxy: Proxy) -> None:
        super().track(t, proxy)
        self.by_identity[id(t)] = proxy      # it is kept, so nothing else gets this number

    def proxy_of(self, a: Any) -> Any:
        """Tensors that look at the same memory are the same value, but a gradient may pass through one only."""
        found = self.by_identity.get(id(a)) if isinstance(a, Tensor) else None
        return super().proxy_of(a) if found is None else found

    def create_arg(self, a: Any) -> Any:
        return self.proxy_of(a).node if isinstance(a, Parameter) else super().create_arg(a)

    def create_node(self, kind: str, *args: Any, **kwargs: Any) -> Node:
        node = super().create_node(kind, *args, **kwargs)
        self.grad_modes[node] = _C.is_grad_enabled() if self.grad_outside is None else self.grad_outside
        self.cast_modes[node] = cast_now()
        if kind == "call_function":
            line = user_lines() if self.line is None else self.line
            if line:
                node.meta["stack_trace"] = line
        return node

    @contextlib.contextmanager
    def untaped(self) -> Iterator[None]:
        """Inside, nothing is differentiated; nodes know the grad mode around it."""
        before = self.grad_outside
        if before is None:
            self.grad_outside = _C.is_grad_enabled()
        try:
            with no_grad():
                yield
        finally:
            self.grad_outside = before

    def twin(self, t: Any) -> Any:
        """A fake in the place of a tensor from outside: what is computed from it is recorded, not computed."""
        if not isinstance(t, Tensor) or isinstance(t, FakeTensor):
            return t
        if id(t) not in self.twins:
            result = self.snapshots.from_tensor(t.detach(), static_shapes=True)
            self.track(result, self.create_proxy_for_constant(t))
            self.twins[id(t)] = result
            self.kept.append(t)
        return self.twins[id(t)]

    def create_proxy_for_constant(self, t: Tensor) -> Proxy:
        path = self.names.get(id(t), f"lifted_tensor_{sum(n.startswith('lifted_tensor_') for n in self.constants)}")
        before = self.first_argument or next(iter(self.graph.nodes), None)
        with self.graph.inserting_before(before):
            proxy = self.add_input(f"c_{path.replace('.', '_')}")
        self.constants[path] = (t, proxy.node)
        self.note_value(proxy, t)
        return proxy


def cast_now() -> tuple[str, Any, bool, bool] | None:
    """The mixed precision of this thread, as `wrap_with_autocast` is told it; None where it is off, or on for several
    devices."""
    if not autocast.is_active():
        return None
    devices = [d for d in autocast.DEVICES if autocast.is_autocast_enabled(d)]
    if len(devices) != 1:
        return None
    return devices[0], autocast.get_autocast_dtype(devices[0]), True, False


def keep_name(node: Node, name: str) -> None:
    """Call a node by a name where no other node has it: placeholders by their own, `input` too."""
    if node.name != name and name.isidentifier() and all(n.name != name for n in node.graph.nodes):
        node.name = name
        if node.op == "placeholder":
            node.target = name


def user_lines() -> str:
    """Where the program is: its own lines, the outermost first."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if frame.f_code.co_name == "run_recorded" and name == __file__:
            break
        if not name.startswith((_PACKAGE, "<")):
            line = frame.f_lineno
            text = linecache.getline(name, line).strip()
            found.append(f'File "{name}", line {line}, in {frame.f_code.co_name}' + (f"\n    {text}" if text else ""))
        frame = frame.f_back
    return "\n  ".join(reversed(found))


class _Calls(TorchFunctionMode):
    """What the program calls."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self.recorder.called(func, args, kwargs or {})


class _Kernels(TorchDispatchMode):
    """What reaches kernels."""

    records = own_ops = True
    records_gradients = False

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self.recorder.reached(func, args, kwargs or {})

    def fresh(self, made: Tensor) -> Tensor:
        return self.recorder.made(made)

    def record_higher_order(self, op: HigherOrderOp, arguments: tuple) -> list[Tensor]:
        return self.recorder.over_functions(op, arguments)


class Recorder:
    """Turns calls into nodes."""

    def __init__(self, tracer: ExportTracer, rules: Callable[[Any], Callable | None] = lambda target: None,
                 keeps: Callable[[Any], bool] = lambda overload: False) -> None:
        """`rules`: functions that calls of overloads are replaced by; `keeps`: which of ours are recorded as they are,
        not as PyTorch has them."""
        self.tracer, self.rules, self.keeps = tracer, rules, keeps
        self.within: list[str] = []       # overloads whose rules run
        self.keeps_casts = False          # whether calls in mixed precision are recorded without their casts
        self.values: Any = None           # who runs calls on real tensors too
        # How functions that ops are given run.
        self.inside: Callable[[Recorder, Callable], Callable] = lambda inner, function: function
        self.without_writes: Callable | None = None      # how rules run whose ops write to what they make
        self.calls, self.kernels = _Calls(self), _Kernels(self)
        self.is_quiet = False

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Inside, what reaches kernels is part of a call that has a node."""
        before, self.is_quiet = self.is_quiet, True
        try:
            yield
        finally:
            self.is_quiet = before

    def called(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call of the program."""
        if self.is_quiet:
            return func(*args, **kwargs)
        if levels.state.stack:      # batched and differentiated tensors are seen as what reaches kernels
            with self.tracer.untaped():
                return func(*args, **kwargs)
        args, kwargs = map_aggregate((args, kwargs), self.tracer.twin)
        if isinstance(func, _C.Op):
            return self.op(func, args, kwargs)
        if func is einsum and args and isinstance(args[0], str):
            tensors = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
            return self.op(find_op("einsum"), (args[0], list(tensors)), {})
        inner = getattr(func, "__wrapped__", None)
        if inner is None:
            with self.tracer.untaped():
                return func(*args, **kwargs)      # written in C: its parts are seen when they reach kernels
        with self.calls:
            return inner(*args, **kwargs)

    def op(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if autocast.is_active() and not (self.keeps_casts and cast_now()):      # what runs is not what is called
            with self.tracer.untaped():
                return func(*args, **kwargs)
        overload, bound, out = next(
            ((o, *b) for o in func.overload_list if (b := o.bind(args, kwargs)) is not None), (None, None, None)
        )
        if overload is None:
            return func(*args, **kwargs)      # which says what is wrong
        if out is not None:
            kwargs = {k: v for k, v in kwargs.items() if k != "out"}
            with self.calls:
                return out.copy_(func(*args, **kwargs))
        if self.keeps(overload):
            pairs = list(zip(overload.definition.spec.params, bound, strict=True))
            named = {p.name: v for p, v in pairs if p.keyword_only}
            places = tuple([v for p, v in pairs if not p.keyword_only])
            return self.node((overload, places, named), lambda: func(*args, **kwargs))
        if overload.name == "div" and not isinstance(bound[0], Tensor) and all(b is None for b in bound[2:]):
            with self.calls:
                return bound[1].reciprocal() * bound[0]
        if overload.name == "contiguous" and bound[0].is_contiguous():
            return bound[0]
        composed = COMPOSED.get(overload.name)
        if composed is not None and len(bound) == len(overload.definition.spec.params):
            with self.calls:
                result = composed(self.node, *bound)
            if result is not NotImplemented:
                return result
        answer = aten_call(overload, bound, without=self.within)      # a rule may call what it is for: not by itself
        if answer is None:
            runs_now = any(w.startswith(f"aten.{overload.name}.") for w in self.within)
            result = NotImplemented if runs_now else self.by_rule(overload, tuple(bound), {})
            if result is not NotImplemented:
                return result
            if overload.definition.is_composite and not overload.definition.is_portable:
                with self.calls:
                    return overload.definition.run(*bound)
            with self.tracer.untaped():
                return func(*args, **kwargs)
        result = self.by_rule(*answer)
        return self.node(answer, lambda: func(*args, **kwargs)) if result is NotImplemented else result

    def made(self, t: Tensor) -> Tensor:
        """A tensor that the program makes of its own data: in every run a new one, which it may write to."""
        if self.is_quiet or self.kernels not in modes.dispatch_modes or isinstance(t, FakeTensor) or levels.state.stack:
            return t
        with self.calls:
            result = find_op("lift_fresh_copy")(self.tracer.twin(t))
        result.constant = t, result._version
        if self.values is not None:
            result.example = t.detach().clone()
        return result

    def detached(self, t: Tensor, result: Tensor) -> None:
        """A call of `detach`, which no mode sees."""
        if self.is_quiet or self.kernels not in modes.dispatch_modes:
            return
        target = namespace("aten").detach.default
        proxy = self.tracer.create_proxy("call_function", target, (self.tracer.proxy_of(t),), {}, name="detach")
        before = self.tracer.places.get(_place(result))
        self.tracer.track(result, proxy)
        if before is not None:
            self.tracer.places[_place(result)] = before      # whatever else looks there is not detached

    def resized(self, t: Tensor, layout: tuple, enough: bool) -> Callable[[], None] | None:
        """A call of `resize_`, which no mode sees: from there on the tensor is another view of its memory."""
        if self.is_quiet or self.kernels not in modes.dispatch_modes:
            return None
        if not enough:
            raise NotImplementedError(
                f"export: resize_ to {list(layout[0])} needs more memory than the tensor of {list(t.shape)} has, which"
                " a graph cannot give it. Make a tensor of the new sizes and copy what there is."
            )
        target = namespace("aten").as_strided.default
        args = (self.tracer.proxy_of(t), *map(list, layout))      # from where it begins
        proxy = self.tracer.create_proxy("call_function", target, args, {}, name="as_strided")
        return lambda: self.tracer.track(t, proxy)

    def by_rule(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What the rule for an overload computes; NotImplemented where there is none, or where its graph would write
        or call what ATen has not: such ops stay whole."""
        rule = self.rules(target)
        if rule is None:
            return NotImplemented
        last = next(reversed(self.tracer.graph.nodes), None)
        given: list[tuple[Tensor, Proxy]] = []
        map_aggregate((args, kwargs), lambda t: given.append((t, self.tracer.proxy_of(t)))
                      if isinstance(t, Tensor) else None)
        self.within.append(str(target))
        try:
            with self.calls:
                result = rule(*args, **kwargs)
        except (NotImplementedError, DataDependentOutputException):
            result = NotImplemented
        finally:
            self.within.pop()
        added = self.added_since(last)
        if result is NotImplemented or any(self.is_out_of_place(n.target) for n in added):
            for node in reversed(added):
                self.tracer.graph.erase_node(node)
            for t, proxy in given:          # a view of the whole is the tensor itself, and was seen as what is erased
                self.tracer.track(t, proxy)
            if result is NotImplemented or self.without_writes is None:
                return NotImplemented
            return self.without_writes(self, target, rule, args, kwargs)
        return result

    def is_out_of_place(self, target: Any) -> bool:
        """Whether a target has no place in a decomposed graph: it writes, or is a part of an op of ours."""
        if getattr(target, "inplace", False):
            return True
        is_ours = isinstance(target, _C.Overload) and target.namespace == "aten" and not schemas_of(target._opname)
        return is_ours and not self.keeps(target)

    def added_since(self, last: Node | None) -> list[Node]:
        """The calls recorded after a node."""
        found = []
        for node in reversed(self.tracer.graph.nodes):
            if node is last:
                break
            if node.op == "call_function":
                found.append(node)
        return found[::-1]

    def reached(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call below the program's own."""
        if self.is_quiet:
            return func(*args, **kwargs)
        if self.keeps(func):
            return self.node((func, args, kwargs), lambda: func(*args, **kwargs))
        params = func.definition.spec.params
        bound = [args[i] if i < len(args) else kwargs.get(p.name, p.default) for i, p in enumerate(params)]
        result = aten_call(func, bound) or (func, args, kwargs)
        return self.node(result, lambda: func(*args, **kwargs))

    def over_functions(self, op: HigherOrderOp, arguments: tuple) -> list[Tensor]:
        """A call of an op over functions: a node, each function a graph that the program's module holds."""
        tracer, fakes = self.tracer, self.tracer.snapshots
        results: dict[str, list[Tensor]] = {}
        nodes = list(map_aggregate(tuple(None if callable(a) and not isinstance(a, Tensor) else a for a in arguments),
                                   lambda t: tracer.proxy_of(tracer.twin(t))))
        for name, (at, like) in op.functions(arguments).items():
            with op.assuming(name, arguments):
                graph, results[name] = self.function_graph(op, name, arguments[at], [apart(t, fakes) for t in like])
            number = sum(key.startswith(f"{name}_") for key in tracer.root._modules)
            setattr(tracer.root, f"{name}_{number}", graph)
            nodes[at] = tracer.create_proxy("get_attr", f"{name}_{number}", (), {})
        with dispatching([fakes], []):
            result = op.imitated(arguments, results)
        proxy = tracer.create_proxy("call_function", op, tuple(nodes), {}, name=op.name)
        self.track(tuple(result), proxy)
        return result

    def function_graph(self, op: HigherOrderOp, name: str, function: Callable, given: list[Tensor]
                       ) -> tuple[GraphModule, list[Tensor]]:
        """A function as a graph of ATen ops, and what it returned."""
        tracer = ExportTracer({})
        tracer.env, tracer.snapshots = self.tracer.env, self.tracer.snapshots
        for i, t in enumerate(given):
            tracer.track(t, tracer.add_input(f"arg{i}_1"))
        tracer.first_argument = next(iter(tracer.graph.nodes), None)
        inner = Recorder(tracer, self.rules, self.keeps)
        inner.inside, inner.without_writes, inner.within = self.inside, self.without_writes, list(self.within)
        with dispatching([tracer.snapshots], []):
            result = inner.run_recorded(lambda: settled(op, name, self.inside(inner, function), given))
        tracer.graph.output(tuple(tracer.proxy_of(t).node for t in result))
        for i, (t, node) in enumerate(tracer.constants.values()):
            setattr(tracer.root, f"_tensor_constant{i}", t)
            with tracer.graph.inserting_before(node):
                node.replace_all_uses_with(tracer.graph.get_attr(f"_tensor_constant{i}"))
            tracer.graph.erase_node(node)
        note_numbers(tracer.graph)
        return GraphModule(tracer.root, tracer.graph, name), [apart(t, tracer.snapshots) for t in result]

    def node(self, call: tuple[Any, tuple, dict[str, Any]], run: Callable[[], Any]) -> Any:
        """A node for a call, which runs."""
        target, args, kwargs = _spelled_out(*call)
        given = map_aggregate((args, kwargs), self.tracer.proxy_of)
        name = target._opname if hasattr(target, "_opname") else None
        proxy = self.tracer.create_proxy("call_function", target, given[0], given[1], name=name)
        proxy.node.meta["torch_fn"] = (f"{proxy.node.name}", f"OpOverload.{name}")
        with self.quiet(), self.tracer.untaped():
            result = imitated(target, args, kwargs, self.tracer.snapshots)
            result = run() if result is None else result
        if self.values is not None:
            self.values.follow(target, args, kwargs, result)
        self.track(result, proxy)
        return result

    def track(self, result: Any, proxy: Proxy) -> None:
        if isinstance(result, Tensor):
            self.tracer.track(result, proxy)
        elif isinstance(result, (tuple, list)):
            proxy.node.meta["val"] = result
            for i, member in enumerate(result):
                if isinstance(member, (Tensor, tuple, list)):
                    self.track(member, proxy[i])
        else:
            proxy.node.meta["val"] = result
            self.tracer.sizes.note(result, proxy, None)

    def run_recorded(self, function: Callable[[], Any]) -> Any:
        """Run a function, recording what it calls."""
        with self.kernels, self.calls:
            return function()


run_recorded = Recorder.run_recorded


def _spelled_out(target: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, tuple, dict[str, Any]]:
    """A call with what PyTorch's graphs say although it is the default: ends of slices, devices of new tensors."""
    name = getattr(target, "_opname", "")
    if name == "slice" and 2 <= len(args) <= 5 and not kwargs:
        dim, start, end, *step = (*args[1:], *(None,) * (4 - len(args)))
        args = (args[0], dim, 0 if start is None else start, _END if end is None else end, *step)
    elif name in _CREATING and "device" not in kwargs:
        order = ("dtype", "layout", "device", "pin_memory")
        kwargs = {**kwargs, "device": default_device()}
        kwargs = {k: kwargs[k] for k in sorted(kwargs, key=lambda k: order.index(k) if k in order else -1)}
    return target, args, kwargs


@contextlib.contextmanager
def module_stack(tracer: ExportTracer, root: Module) -> Iterator[list[tuple[str, Module]]]:
    """Inside, nodes know which modules they are called in. The list, filled on the way, has every call of a module."""
    paths = {id(m): name for name, m in root.named_modules()}
    counts: dict[str, int] = {}
    entered: list[tuple[str, Module]] = []
    tracer.module_stack = OrderedDict()
    open_calls: list[tuple[str, str]] = []     # path and label of the modules that run

    def enter(module: Module, args: Any) -> None:
        path = paths.get(id(module))
        if path is None:
            path = f"_{type(module).__name__}_{len(counts)}"
        outer, called = open_calls[-1] if open_calls else ("", "")
        own = called + path[len(outer) :] if outer and path.startswith(f"{outer}.") else path
        seen = counts.get(own, 0)
        counts[own] = seen + 1
        label = f"{own}@{seen}" if seen else own
        open_calls.append((path, label))
        entered.append((label, module))
        key = "L__self__" + "".join(f"_{part}" for part in label.split(".") if part)
        kind = f"{public_module(type(module))}.{type(module).__qualname__}"
        tracer.module_stack[key] = (label, kind)

    def leave(module: Module, args: Any, output: Any) -> None:
        if tracer.module_stack:
            tracer.module_stack.popitem()
            open_calls.pop()

    handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
    try:
        yield entered
    finally:
        for handle in handles:
            handle.remove()
