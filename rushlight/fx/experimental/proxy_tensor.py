"""make_fx: trace through the dispatcher, so that graphs hold what really runs: ops below autograd,
derivatives and transforms included.

Enters: a function (or module) and example arguments. It runs once, on the examples ("real"), on fakes of them ("fake"),
or on fakes with symbolic sizes ("symbolic"). Leaves: a GraphModule over op overloads. Tensors the function does not get
as arguments become constants of it. Refuses: reading elements in the fake modes. Control flow follows the examples.

A tensor is recognised by the memory it looks at, not by its Python object:
what autograd saved comes back as another object.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..._C import Tensor
from ..._higher_order_ops.core import HigherOrderOp, apart, check_draws, dispatching, fake_mode_for, settled, tensors_in
from ...aten.calls import aten_call
from ...aten.plain import ASSERT_SCALAR
from ...autograd.grad_mode import no_grad
from ...base import late
from ...base.bits import BITS
from ...base.shape import INTS
from ...dispatch.modes import TorchDispatchMode, below, disable_dispatch_modes, state
from ...fake import FakeTensor, FakeTensorMode, ShapeEnv
from ...nn import Module, Parameter
from ...op import find_op, ops
from ...symbols import symbolic_math
from ...utils import _pytree as pytree
from .._symbolic_trace import PH, Tracer
from ..codegen import _snake_case
from ..graph import Graph
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, _draws, map_aggregate
from ..passes.shape_prop import _extract_tensor_metadata
from ..proxy import Proxy
from .symbolic_sizes import SYMBOLIC, SizeProxies

__all__ = [
    "ProxyTorchDispatchMode", "PythonKeyTracer", "disable_autocast_cache", "disable_proxy_modes_tracing",
    "dispatch_trace", "get_innermost_proxy_mode", "get_isolated_graphmodule", "get_proxy_mode", "handle_sym_dispatch",
    "maybe_disable_fake_tensor_mode", "make_fx", "selective_decompose",
]

py_sym_types = SYMBOLIC
_OVERWRITING = frozenset(
    ("copy_", "bernoulli_", "uniform_", "normal_", "random_", "exponential_", "geometric_", "cauchy_", "log_normal_")
)


def _place(t: Tensor) -> tuple:
    """What a tensor looks at: two with the same place have the same value."""
    layout = t.symbolic if isinstance(t, FakeTensor) else None
    if layout is not None and t.fake_mode.shape_env.stand_ins:
        parts = [getattr(n, "formula", n) for n in (*layout[0], *layout[1], layout[2])]      # as they were first
        if any(name in t.fake_mode.shape_env.stand_ins for n in parts for name in getattr(n, "names", ())):
            # what stands for such numbers may well be equal where they are not
            return t.untyped_storage()._cdata, *parts, t.dtype, t._keys & BITS
    return (
        t.untyped_storage()._cdata,
        Tensor.storage_offset(t),
        tuple(Tensor.shape.__get__(t)),
        Tensor.stride(t),
        t.dtype,
        t._keys & BITS,
    )


class PythonKeyTracer(Tracer):
    """Records op calls; parameters and other tensors that are no arguments become constants of the module."""

    def __init__(self) -> None:
        super().__init__(autowrap_modules=())
        self.places: dict[tuple, Proxy] = {}
        self.kept: list[Tensor] = []          # memory must not be reused while places are compared
        self.sizes = SizeProxies()
        self.env: ShapeEnv | None = None
        self.root = Module()
        self.snapshots = FakeTensorMode(allow_non_fake_inputs=True)

    def call_module(self, m: Module, forward: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        return attr_val

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, Parameter):
            return self._constant(a, "_param_constant")
        if isinstance(a, SYMBOLIC):
            return super().create_arg(self.sizes.proxy(a))
        return super().create_arg(a)

    # --- which proxy stands for which tensor --------------------------------------------------------------------------

    def track(self, t: Tensor, proxy: Proxy) -> None:
        """From now on the memory of `t` is the value of `proxy`."""
        self.kept.append(t)
        self.places[_place(t)] = proxy
        for d, size in enumerate(t.shape):
            self.sizes.note(size, proxy, d)
        self.note_value(proxy, t)

    def note_value(self, proxy: Proxy, t: Tensor) -> None:
        with disable_dispatch_modes():
            value = (
                t.detach() if isinstance(t, FakeTensor) else self.snapshots.from_tensor(t.detach(), static_shapes=True)
            )
        proxy.node.meta["val"] = value
        proxy.node.meta["tensor_meta"] = _extract_tensor_metadata(value)

    def note_element(self, t: Tensor, number: Any) -> None:
        """`number` is the only element of `t`."""
        result = self.create_proxy(
            "call_function",
            find_op("_local_scalar_dense").overload_list[0],
            (self.proxy_of(t),),
            {},
            name="_local_scalar_dense",
        )
        result.node.meta["val"] = number
        self.sizes.note(number, result, None)

    def record_checks(self) -> None:
        """What was required of elements is checked where they are known: when the graph runs."""
        for guard in () if self.env is None else self.env.deferred:
            if guard.truth.names <= set(self.sizes.seen):
                self.create_proxy(
                    "call_function",
                    ASSERT_SCALAR,
                    (self.sizes.build(guard.truth), f"{guard!r}, required at {guard.location}"),
                    {},
                )

    def proxy_of(self, a: Any) -> Any:
        """An argument of a call, with proxies for tensors; unknown ones become constants."""
        if not isinstance(a, Tensor):
            return a
        found = self.places.get(_place(a))
        if found is None:
            self.kept.append(a)
            found = self.create_proxy_for_constant(a)
            self.places[_place(a)] = found
        return found

    def create_proxy_for_constant(self, t: Tensor) -> Proxy:
        prefix = "_param_constant" if isinstance(t, Parameter) else "_tensor_constant"
        return self.proxy(self._constant(t, prefix))


def _with_lists(given: tuple[tuple, dict[str, Any]]) -> tuple[tuple, dict[str, Any]]:
    """Arguments with sizes as lists, as schemas call them."""
    args, kwargs = given
    plain = [list(a) if isinstance(a, tuple) and all(isinstance(x, INTS) for x in a) else a for a in args]
    return tuple(plain), {
        k: list(a) if isinstance(a, tuple) and all(isinstance(x, INTS) for x in a) else a for k, a in kwargs.items()
    }


def _is_plain(func: Any) -> bool:
    """Whether an overload is one of its op's own: those that transforms make of them mean something else."""
    found = ops.get(func.name)
    return found is not None and any(type(o.definition) is type(func.definition) for o in found.overload_list)


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Records every call that reaches it, then lets it run."""

    records = own_ops = True

    def __init__(
        self,
        tracer: PythonKeyTracer,
        tracing_mode: str = "real",
        pre_dispatch: bool = False,
        decomposition_table: Mapping[Any, Callable] | None = None,
    ) -> None:
        super().__init__()
        self.tracer, self.tracing_mode, self.pre_dispatch = tracer, tracing_mode, pre_dispatch
        self.decomposition_table = dict(decomposition_table or {})
        self.enable_tracing = True
        self.names_as_pytorch = False       # calls are recorded under PyTorch's names, with its arguments

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if any(hasattr(kind, "_taken_apart") for kind in types):      # the calls on what is inside are recorded
            return NotImplemented
        if not self.enable_tracing:
            return func(*args, **kwargs)
        rule = self.decomposition_table.get(func, self.decomposition_table.get(getattr(func, "overloadpacket", None)))
        if rule is not None:
            with self:
                result = rule(*args, **kwargs)
            if result is not NotImplemented:
                return result
        return self.record(func, args, kwargs)

    def record(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        tracer = self.tracer
        fresh = func.inplace and isinstance(args[0], Tensor) and _place(args[0]) not in tracer.places
        filled = self.begin(func, args) if fresh else None
        if filled is not None:
            result = func(*args, **kwargs)     # in the fake modes another object than what was filled
            tracer.track(result, filled)
            return result
        target, args_, kwargs_ = self.named(func, args, kwargs)
        given = map_aggregate(_with_lists((args_, kwargs_)), tracer.proxy_of)
        answer = tracer.create_proxy("call_function", target, given[0], given[1], name=_snake_case(func._opname))
        result = func(*args, **kwargs)
        self.track_tree(result, answer)
        return result

    def record_higher_order(self, op: HigherOrderOp, arguments: tuple) -> Sequence[Tensor]:
        """A call of an op over functions: each of them as a graph of its own, held by the module of this one."""
        graphs, result = self.traced_functions(op, arguments)
        given = list(arguments)
        nodes: list[Any] = list(map_aggregate(tuple(a if not callable(a) or isinstance(a, Tensor) else None
                                                    for a in arguments), self.tracer.proxy_of))
        for name, (at, _) in op.functions(arguments).items():
            number = 0
            while hasattr(self.tracer.root, f"{name}_{number}"):
                number += 1
            setattr(self.tracer.root, f"{name}_{number}", graphs[name])
            given[at] = graphs[name]
            nodes[at] = self.tracer.create_proxy("get_attr", f"{name}_{number}", (), {})
        proxy = self.tracer.create_proxy("call_function", op, tuple(nodes), {}, name=op.name)
        has_elements = self.tracing_mode == "real" and not any(isinstance(t, FakeTensor) for t in tensors_in(arguments))
        if has_elements:
            with below(state.dispatch_modes), no_grad():
                result = list(op.run(*given))
        self.track_tree(tuple(result), proxy)
        proxy.node.meta["val"] = tuple(result)
        return result

    def traced_functions(self, op: HigherOrderOp, arguments: tuple) -> tuple[dict[str, GraphModule], list[Tensor]]:
        """The functions of a call as graphs, by their names, and tensors without elements like its results."""
        graphs: dict[str, GraphModule] = {}
        results: dict[str, list[Tensor]] = {}
        fakes = fake_mode_for(tensors_in(arguments))
        for name, (at, like) in op.functions(arguments).items():
            tracer = PythonKeyTracer()
            tracer.graph, tracer.tensor_attrs = Graph(tracer_cls=PythonKeyTracer), {}
            tracer.env, tracer.snapshots = self.tracer.env, fakes
            with op.assuming(name, arguments):
                given = [apart(t, fakes) for t in like]
                for i, t in enumerate(given):
                    tracer.track(t, tracer.create_proxy("placeholder", f"arg{i}_1", (), {}))
                with dispatching([fakes, self.mode_inside(tracer)]), symbolic_math():
                    results[name] = settled(op, name, arguments[at], given)
                tracer.graph.output(tuple(tracer.proxy_of(t).node for t in results[name]))
                check_draws(op, any(n.op == "call_function" and _draws(n.target) for n in tracer.graph.nodes))
                graphs[name] = GraphModule(tracer.root, tracer.graph, name)
                results[name] = [apart(t, fakes) for t in results[name]]
        with dispatching([fakes]), symbolic_math():
            return graphs, op.imitated(arguments, results)

    def mode_inside(self, tracer: PythonKeyTracer) -> ProxyTorchDispatchMode:
        """What records the functions of ops over functions."""
        result = ProxyTorchDispatchMode(tracer, "fake", decomposition_table=self.decomposition_table)
        result.names_as_pytorch = self.names_as_pytorch
        return result

    def named(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, tuple, dict[str, Any]]:
        """The call as it is recorded: as PyTorch would make it, where that is asked for and it has such a call."""
        if not self.names_as_pytorch or func.namespace != "aten" or not _is_plain(func):
            return func, args, kwargs
        rest = func.definition.spec.params[len(args) :]
        bound = [*args, *[kwargs.get(p.name, None if p.required else p.default) for p in rest]]
        return aten_call(func, bound) or (func, args, kwargs)

    def begin(self, func: Any, args: tuple) -> Proxy | None:
        """The first write to memory nobody has seen: it was made for this. If that says all of its value,
        the proxy for it."""
        t = args[0]
        options = {"dtype": t.dtype, "device": t.device}
        if func._opname in ("fill_", "zero_") and not any(isinstance(a, Tensor) for a in args[1:]):
            value = args[1] if func._opname == "fill_" else 0
            overload, given = find_op("full").overload_list[0], (list(t.shape), value)
        elif func._opname in _OVERWRITING:
            overload, given = find_op("empty_strided").overload_list[0], (list(t.shape), list(t.stride()))
        else:
            overload, given, options = (
                find_op("clone").overload_list[0],
                (self.tracer.create_proxy_for_constant(self.snapshot(t)),),
                {},
            )
        result = self.tracer.create_proxy("call_function", overload, given, options, name=overload._opname)
        self.tracer.track(t, result)
        return result if func._opname in ("fill_", "zero_") else None

    def snapshot(self, t: Tensor) -> Tensor:
        with disable_dispatch_modes():
            return t.detach().clone()

    def track_tree(self, result: Any, proxy: Proxy) -> None:
        """Remember the tensors of a result; members of tuples become items."""
        if isinstance(result, Tensor):
            self.tracer.track(result, proxy)
        elif isinstance(result, (tuple, list)):
            for i, member in enumerate(result):
                if isinstance(member, (Tensor, tuple, list)):
                    self.track_tree(member, proxy[i])


# --- one trace --------------------------------------------------------------------------------------------------------


def dispatch_trace(root: Callable, tracer: Tracer, concrete_args: tuple | None = None) -> GraphModule:
    """The graph of a function that records into `tracer`, as a module."""
    graph = tracer.trace(root, concrete_args)
    return GraphModule(tracer.root, graph, type(root).__name__ if isinstance(root, Module) else root.__name__)


def _recording(f: Callable, leaves: list[Any], mode: ProxyTorchDispatchMode) -> Callable:
    """`f` as a function of proxies: it runs on the tensors they stand for."""
    tracer = mode.tracer

    def wrapped(*proxies: Any) -> Any:
        flat, spec = pytree.tree_flatten(proxies)
        for value, proxy in zip(leaves, flat, strict=True):
            if isinstance(value, Tensor):
                tracer.track(value, proxy)
            else:
                tracer.sizes.note(value, proxy, None)
                if isinstance(value, SYMBOLIC):
                    proxy.node.meta["val"] = value
        with mode, symbolic_math():
            result = f(*pytree.tree_unflatten(list(leaves), spec))
        tracer.record_checks()
        return pytree.tree_map(lambda x: _output(tracer, x), result)

    return wrapped


def _output(tracer: PythonKeyTracer, x: Any) -> Any:
    if isinstance(x, Tensor):
        return tracer.proxy_of(x)
    return tracer.sizes.proxy(x) if isinstance(x, SYMBOLIC) else x


def make_fx(f: Callable, decomposition_table: Mapping[Any, Callable] | None = None, tracing_mode: str = "real",
            _allow_non_fake_inputs: bool = False, *, pre_dispatch: bool = False, record_module_stack: bool = False,
            _allow_fake_constant: bool = False, _error_on_data_dependent_ops: bool = True,
            record_stack_traces: bool = False, _own_ops: bool = False,
            **options: Any) -> Callable[..., GraphModule]:
    """A function that takes example arguments and returns the graph of `f` on them. Calls that PyTorch has too are
    recorded as its graphs have them (`aten.add.Tensor`); `_own_ops`: all as overloads of this framework."""
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f'Expected tracing_mode to be "real", "fake" or "symbolic", got {tracing_mode}')
    if pre_dispatch:
        raise NotImplementedError("make_fx: pre_dispatch=True records ops above autograd; use symbolic_trace for that")

    @functools.wraps(f)
    def traced(*args: Any) -> GraphModule:
        leaves, spec = pytree.tree_flatten(args)
        outer = _fake_mode_of(leaves, tracing_mode)
        if tracing_mode != "real":
            leaves = [_imitated(outer, x, i, tracing_mode) for i, x in enumerate(leaves)]
        tracer = PythonKeyTracer()
        if outer is not None:
            outer.on_scalar, tracer.env = tracer.note_element, outer.shape_env
        tracer.record_stack_traces = record_stack_traces
        mode = ProxyTorchDispatchMode(tracer, tracing_mode, decomposition_table=decomposition_table)
        mode.names_as_pytorch = not _own_ops
        placeholders = pytree.tree_map(lambda _: PH, pytree.tree_unflatten(leaves, spec))
        with outer if outer is not None else contextlib.nullcontext():
            result = dispatch_trace(_root_of(_recording(f, leaves, mode), f, len(args)), tracer, tuple(placeholders))
        result.shape_env = getattr(outer, "shape_env", None)
        if outer is not None:
            outer.on_scalar = None
        if _own_ops:
            return result
        return late.provided("aten graphs")(result, getattr(outer, "shape_env", None), decomposition_table)

    return traced


def _imitated(mode: Any, x: Any, position: int, tracing_mode: str) -> Any:
    """An example as the trace sees it: a fake tensor, and with symbolic sizes a symbol for an int."""
    source = f"arg{position}"
    if isinstance(x, Tensor):
        return mode.from_tensor(x, source=source)
    if tracing_mode == "symbolic" and type(x) is int:
        result = mode.shape_env.create_symbol(x, source)
        mode.shape_env.remember_number(source, result)
        return result
    return x


def _root_of(recording: Callable, f: Callable, count: int) -> Callable:
    """A function for the tracer to read: with the parameter names of `f`, or plain ones where those are not its own."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    is_plain = (
        code is not None
        and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        and code.co_argcount == count
    )
    names = ", ".join(
        code.co_varnames[:count] if is_plain and not inspect.ismethod(f) else (f"arg{i}" for i in range(count))
    )
    scope: dict[str, Any] = {"_recording": recording}
    exec(f"def root({names}):\n    return _recording({names})", scope)
    scope["root"].__name__ = getattr(f, "__name__", type(f).__name__)
    return scope["root"]


def _fake_mode_of(leaves: list[Any], tracing_mode: str) -> FakeTensorMode | None:
    """The mode fakes belong to: that of fake arguments, or a new one."""
    given = next((x.fake_mode for x in leaves if isinstance(x, FakeTensor)), None)
    if given is not None or tracing_mode == "real":
        return given
    return FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv() if tracing_mode == "symbolic" else None)


class _Chosen(Interpreter):
    """Runs a graph inside of a trace, which has rules for the nodes that are chosen, and none for the others."""

    def __init__(self, module: GraphModule, rules: Mapping[Any, Callable], is_chosen: Callable[[Node], bool]) -> None:
        super().__init__(module)
        self.rules, self.is_chosen = rules, is_chosen

    def run_node(self, n: Node) -> Any:
        mode = get_proxy_mode()
        if mode is None:
            raise RuntimeError("selective_decompose: a node runs outside of the trace that records it")
        if n.op != "call_function":
            return super().run_node(n)
        before, mode.decomposition_table = mode.decomposition_table, dict(self.rules) if self.is_chosen(n) else {}
        try:
            return super().run_node(n)
        finally:
            mode.decomposition_table = before

    def call_function(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        mode = get_proxy_mode()
        if isinstance(target, HigherOrderOp) and mode is not None and not mode.decomposition_table:
            args = tuple(_Chosen(a, self.rules, self.is_chosen).run if isinstance(a, GraphModule) else a for a in args)
        return super().call_function(target, args, kwargs)


def selective_decompose(
    joint_gm: GraphModule,
    *args: Any,
    decomposition: Mapping[Any, Callable] | None,
    should_decompose: Callable[[Node], bool],
    trace_joint_graph: bool,
) -> GraphModule:
    """The graph traced again on `args`, with the rules of `decomposition` for nodes of which `should_decompose` holds;
    of a node over functions that is not chosen, the nodes of its functions are asked about. `trace_joint_graph`: the
    arguments are two lists, whose members are then called primals and tangents."""
    chosen = _Chosen(joint_gm, decomposition or {}, should_decompose)
    if not trace_joint_graph:
        return make_fx(lambda *leaves: chosen.run(*leaves))(*args)

    def joint(primals: Any, tangents: Any) -> Any:
        return chosen.run(primals, tangents)

    return make_fx(joint)(*args)


# --- questions and switches -------------------------------------------------------------------------------------------


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The recording mode of the trace that runs now, if one does."""
    return next((mode for mode in reversed(state.dispatch_modes) if isinstance(mode, ProxyTorchDispatchMode)), None)


get_innermost_proxy_mode = get_proxy_mode


@contextlib.contextmanager
def disable_proxy_modes_tracing() -> Iterator[ProxyTorchDispatchMode | None]:
    """Inside, calls are not recorded."""
    mode = get_proxy_mode()
    if mode is not None:
        before, mode.enable_tracing = mode.enable_tracing, False
    try:
        yield mode
    finally:
        if mode is not None:
            mode.enable_tracing = before


@contextlib.contextmanager
def maybe_disable_fake_tensor_mode() -> Iterator[None]:
    """Inside, no fake mode is active."""
    kept = [m for m in state.dispatch_modes if not isinstance(m, FakeTensorMode)]
    before, state.dispatch_modes[:] = list(state.dispatch_modes), kept
    try:
        yield
    finally:
        state.dispatch_modes[:] = before


@contextlib.contextmanager
def disable_autocast_cache() -> Iterator[None]:
    """Inside, casts of parameters are recorded each time. They always are here."""
    yield


def handle_sym_dispatch(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call on symbolic sizes: their arithmetic is recorded when a size is used."""
    return func(*args, **kwargs)


def get_isolated_graphmodule(
    func: Callable,
    args: tuple,
    kwargs: dict[str, Any],
    tracing_mode: str = "real",
    decomposition_table: Mapping[Any, Callable] | None = None,
) -> GraphModule:
    """The graph of a call, not recorded in the trace around it."""
    leaves, spec = pytree.tree_flatten((args, kwargs))

    def run(leaves: list[Any]) -> Any:
        inner_args, inner_kwargs = pytree.tree_unflatten(leaves, spec)
        return func(*inner_args, **inner_kwargs)

    with disable_proxy_modes_tracing():
        return make_fx(run, decomposition_table, tracing_mode)(leaves)
