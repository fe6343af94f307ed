"""Graphs without writes: what a trace recorded, run once more with writes turned into values.

Enters: a graph of op overloads that may write in place and look at tensors through views. Leaves: the same graph where
nothing is written, or one traced from it at a functionalize level; ops that only exist as writes of random numbers fill
memory made for them. Results that were inputs written to are their last values.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .._C import Tensor
from ..base.bits import BITS
from ..dispatch.levels.functionalize import current, functional_form, writes_arguments
from ..dispatch.modes import TorchDispatchMode, disable_dispatch_modes
from ..fake import FakeTensor, FakeTensorMode, ShapeEnv
from ..fx import elements
from ..fx._lazy_graph_module import _LazyGraphModule
from ..fx.experimental.proxy_tensor import ProxyTorchDispatchMode, PythonKeyTracer
from ..fx.experimental.symbolic_sizes import SYMBOLIC, same_symbols
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.interpreter import Interpreter
from ..fx.node import Node, _draws, _mutates, map_aggregate
from ..fx.passes.shape_prop import _extract_tensor_metadata
from ..fx.proxy import Proxy
from ..op import find_op
from ..rules import levels
from ..rules.levels import FunctionalizeLevel
from ..symbols import SymInt, statically_known_true, symbolic_math
from ..utils._pytree import tree_leaves
from .schema_arguments import bound_arguments


def functionalized(gm: GraphModule, fake_mode: FakeTensorMode, env: ShapeEnv | None) -> GraphModule:
    """`gm` without writes."""
    writes = [node for node in gm.graph.nodes if _is_write(node)]
    if writes and not (_are_whole(gm.graph, writes) and _replaced_in_place(gm.graph, writes, fake_mode)):
        gm = _again(gm, fake_mode, env)
    for node in list(gm.graph.nodes):
        if node.op == "call_function" and _mutates(node.target) and not _as_scatter(gm.graph, node):
            _give_own_memory(gm.graph, node)
    _share_positions(gm.graph)
    elements.use_tensors(gm.graph)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def _share_positions(graph: Graph) -> None:
    """Positions of one mask are looked for once, though its gradient asks again."""
    nonzero = find_op("nonzero").overload_list
    if sum(n.target in nonzero for n in graph.nodes) < 2:
        return
    known: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or not (
            node.target in nonzero or getattr(node.target, "is_view", False) or node.target is operator.getitem
        ):
            continue
        key = node.target, _hashable(node.args), _hashable(node.kwargs)
        first = known.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _hashable(a: Any) -> Any:
    """Arguments of a node as something to look up by."""
    if isinstance(a, (list, tuple)):
        return tuple([_hashable(x) for x in a])
    if isinstance(a, dict):
        return tuple([(k, _hashable(x)) for k, x in sorted(a.items())])
    return a if isinstance(a, Node) else (type(a), repr(a))


def _is_write(node: Node) -> bool:
    """Whether a node writes to something that others may see: filling memory made for it is none."""
    return node.op == "call_function" and _mutates(node.target) and not _fills_own_memory(node)


def _fills_own_memory(node: Node) -> bool:
    out = node.args[0]
    return _draws(node.target) and isinstance(out, Node) and out.target is _empty_strided() and len(out.users) == 1


# --- writes to whole tensors: the graph stays, and each write becomes its functional form -----------------------------


def _are_whole(graph: Graph, writes: list[Node]) -> bool:
    """Whether nothing but the very tensors that are written looks at their memory:
    then the tracer's names for them are values."""
    written = {_memory(w.args[0]) for w in writes if w.args and isinstance(w.args[0], Node)}
    layouts: dict[int, tuple] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, FakeTensor) and (memory := _memory(node)) in written:
            bits = value._keys & BITS
            layout = tuple(value.shape), tuple(value.stride()), value.storage_offset(), value.dtype, bits
            if not _is_same(layouts.setdefault(memory, layout), layout):
                return False
    return all(w.args and isinstance(w.args[0], Node) and not writes_arguments(w.target) for w in writes)


def _is_same(a: Any, b: Any) -> bool:
    """Whether layouts are equal for all sizes."""
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return a is b or statically_known_true(a == b)


def _memory(node: Node) -> int:
    value = node.meta["val"]
    return Tensor.untyped_storage(value)._cdata


class _Listening(TorchDispatchMode):
    """Notes the calls that are made inside."""

    own_ops = True

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple, dict[str, Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def _replaced_in_place(graph: Graph, writes: list[Node], fake_mode: FakeTensorMode) -> bool:
    """Every write as one op with a result of its own; False, and nothing changed,
    where one of them takes more than one op."""
    found = []
    for node in writes:
        if _draws(node.target):
            continue
        form = _functional_call(node, fake_mode)
        if form is None:
            return False
        found.append((node, *form))
    for node, target, args, kwargs, value in found:
        node.target, node.args, node.kwargs = target, args, kwargs
        node.meta["val"], node.meta["tensor_meta"] = value, _extract_tensor_metadata(value)
    return True


def _functional_call(node: Node, fake_mode: FakeTensorMode) -> tuple | None:
    """(op, arguments, value) of the functional form of a write; None if that is no single op,
    or its result another layout."""
    known: dict[int, Node] = {}

    def value_of(n: Node) -> Any:
        value = n.meta.get("val", n)      # what is made of sizes has none, and is a symbol below
        known[id(value)] = n
        return value

    bound = map_aggregate(
        bound_arguments(node.target, node.args, node.kwargs), lambda a: value_of(a) if isinstance(a, Node) else a
    )
    if any(
        type(a) not in (int, float, bool, str, type(None)) and not isinstance(a, (FakeTensor, list, tuple))
        for a in bound
    ):
        return None     # symbols: their nodes would have to be found again
    listening = _Listening()
    with fake_mode, listening:
        result = functional_form(node.target, tuple(bound))
    if len(listening.calls) != 1 or _mutates(listening.calls[0][0]) or result is bound[0]:
        return None
    func, args, kwargs = listening.calls[0]
    tensors = [a for a in tree_leaves((args, kwargs)) if isinstance(a, FakeTensor)]
    if any(id(t) not in known for t in tensors):
        return None
    given = map_aggregate((args, kwargs), lambda a: known[id(a)] if isinstance(a, FakeTensor) else a)
    return func, given[0], given[1], result


def _as_scatter(graph: Graph, node: Node) -> bool:
    """`copy_` into an as_strided view of a copy made for it, which is how that view's inverse is written, as one op."""
    view = node.args[0]
    if (
        node.target._opname != "copy_"
        or not isinstance(view, Node)
        or view.target is not find_op("as_strided").overload_list[0]
    ):
        return False
    copy = view.args[0]
    if copy.target is not find_op("clone").overload_list[0] or len(view.users) > 1 or node.users:
        return False
    with graph.inserting_before(node):
        result = graph.call_function(
            find_op("as_strided_scatter").overload_list[0],
            (copy.args[0], node.args[1], *view.args[1:]),
            dict(view.kwargs),
        )
    result.meta.update(copy.meta)
    graph.erase_node(node)
    graph.erase_node(view)
    copy.replace_all_uses_with(result)
    graph.erase_node(copy)
    return True


def _empty_strided() -> Any:
    return find_op("empty_strided").overload_list[0]


def _give_own_memory(graph: Graph, node: Node) -> None:
    """A draw into memory that something else made: what was there is not read, so it gets memory of its own."""
    if _fills_own_memory(node):
        return
    if not _draws(node.target):
        raise AssertionError(f"{node.target}: a write is left in a graph that was functionalized")
    like = node.args[0].meta["val"]

    def numbers(values: Sequence[Any], question: str) -> list[Any]:
        """Sizes or strides; where one is a symbol, what was written to is asked."""
        found = []
        for d, n in enumerate(values):
            if isinstance(n, SymInt):
                asked = graph.call_function(find_op(question).overload_list[0], (node.args[0], d), {})
                asked.meta["val"] = n
                n = asked
            found.append(n)
        return found

    with graph.inserting_before(node):
        layout = numbers(like.shape, "sym_size"), numbers(like.stride(), "sym_stride")
        result = graph.call_function(_empty_strided(), layout, {"dtype": like.dtype, "device": like.device})
    result.meta.update(node.args[0].meta)
    node.args = (result, *node.args[1:])


def _again(gm: GraphModule, fake_mode: FakeTensorMode, env: ShapeEnv | None) -> GraphModule:
    """The graph traced at a functionalize level."""
    tracer = PythonKeyTracer()
    tracer.graph, tracer.tensor_attrs, tracer.env = Graph(tracer_cls=PythonKeyTracer), {}, env
    values = []
    for node in gm.graph.find_nodes(op="placeholder"):
        proxy = tracer.create_proxy("placeholder", node.target, (), {}, name=node.name)
        value = node.meta.get("val")
        if isinstance(value, Tensor):
            with disable_dispatch_modes():
                value = _apart(value, fake_mode)
            tracer.track(value, proxy)
        else:
            proxy.node.meta["val"] = value
            tracer.sizes.note(value, proxy, None)
        values.append(value)
    level = FunctionalizeLevel()
    mode = ProxyTorchDispatchMode(tracer, "fake")
    told, fake_mode.on_scalar = fake_mode.on_scalar, tracer.note_element
    try:
        with fake_mode, mode, symbolic_math():
            with levels.opened(level):
                inside = [levels.functional(level, v) if isinstance(v, Tensor) else v for v in values]
                result = _SameSymbols(gm, env).run(*inside)
                results = [current(level, r) if isinstance(r, Tensor) else r for r in result]
            results = [levels.alive(r) if isinstance(r, Tensor) else r for r in results]
    finally:
        fake_mode.on_scalar = told
    tracer.record_checks()
    nodes = [tracer.create_arg(r) if isinstance(r, SYMBOLIC) else tracer.proxy_of(r) for r in results]
    nodes = [n.node if isinstance(n, Proxy) else n for n in nodes]
    tracer.graph.output(tuple(nodes))
    return _LazyGraphModule(tracer.root, tracer.graph, gm._get_name())


class _SameSymbols(Interpreter):
    """Runs a graph once more on fakes; numbers that only elements can tell are the symbols that they were."""

    def __init__(self, gm: GraphModule, env: ShapeEnv | None) -> None:
        super().__init__(gm)
        self.shape_env = env

    def run_node(self, n: Node) -> Any:
        with same_symbols(self.shape_env, n):
            return super().run_node(n)


def _apart(value: Any, fake_mode: FakeTensorMode) -> Any:
    """A fake with the same layout in memory of its own:
    inputs that are written to must not be taken for what they were."""
    if value.symbolic is None:
        return fake_mode.from_tensor(
            value.new_empty_strided(tuple(value.shape), value.stride(), device=value.device), static_shapes=True
        )
    return fake_mode.empty(*value.symbolic[:2], value.dtype, value.fake_device)
