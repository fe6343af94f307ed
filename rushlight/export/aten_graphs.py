"""Graphs of our ops as graphs of ATen's: what `make_fx` returns, and what compilers given to AOTAutograd get.

Enters: a graph that was traced below autograd, with the fake values of its nodes. Leaves: a graph that computes the
same, whose targets are ATen's overloads (`aten.mm.default`, `aten.gelu_backward.default`): passes that were written for
PyTorch find what they look for. Parts of ops that ATen has no words for stay as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from .. import _C
from .._C import Tensor
from .._decomp.aten_forms import aten_rule
from ..aot.partition import BACKWARD, after_tangents, is_tangent
from ..aten.calls import aten_call
from ..aten.overloads import AtenOverload
from ..dispatch.modes import DisableTorchFunction
from ..fake import DataDependentOutputException, ShapeEnv
from ..fx.experimental.proxy_tensor import PythonKeyTracer, _is_plain
from ..fx.experimental.symbolic_sizes import same_symbols
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_aggregate
from ..op.pointwise import PointwiseVjp
from .decompositions import _Decompose
from .graph_signature import ExportGraphSignature
from .recording import ExportTracer
from .values import note_numbers

_OVERLOADS = (_C.Overload, AtenOverload)


def as_aten(gm: GraphModule, env: ShapeEnv | None = None,
            table: Mapping[Any, Callable] | None = None) -> GraphModule:
    """`gm` with ATen's ops; calls of overloads that `table` names are replaced by its functions."""
    rules = {str(op): rule for op, rule in (table or {}).items()}

    def rule_of(target: Any) -> Callable | None:
        if _is_transformed(target):
            return None
        return rules.get(str(target)) or aten_rule(target)

    targets = {n.target for n in gm.graph.nodes if n.op == "call_function" and isinstance(n.target, _OVERLOADS)}
    if all(rule_of(t) is None for t in targets):
        return gm
    return _AsAten(gm, env, rule_of).run()


def _is_transformed(target: Any) -> bool:
    """Whether a transform made this overload of an op's own: under its name it means something else."""
    if not isinstance(target, _C.Overload) or isinstance(target.definition, PointwiseVjp):
        return False
    return target.namespace == "aten" and not _is_plain(target)


class _Tracer(ExportTracer):
    """Constants are attributes of the graph's module."""

    create_proxy_for_constant = PythonKeyTracer.create_proxy_for_constant


class _Source:
    """A graph, as what decomposes programs reads them."""

    def __init__(self, gm: GraphModule, env: ShapeEnv | None) -> None:
        self.graph_module, self.graph, self._shape_env = gm, gm.graph, env
        self.graph_signature = ExportGraphSignature([], [])      # it is nobody's program: its inputs are values


class _AsIs:
    """Calls as they are: writes stay writes."""

    def call(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        return target(*args, **kwargs)

    def current(self, t: Tensor) -> Tensor:
        return t

    def own(self, t: Tensor) -> None:
        """Nobody asks whose memory it is."""


class _AsAten(_Decompose):
    """One graph."""

    def __init__(self, gm: GraphModule, env: ShapeEnv | None, rule_of: Callable[[Any], Callable | None]) -> None:
        super().__init__(_Source(gm, env), rule_of, lambda overload: False)
        tracer = _Tracer({})
        tracer.env, tracer.snapshots = env, self.mode
        self.tracer = self.recorder.tracer = tracer
        self.functional = _AsIs()
        self.backward = after_tangents(gm.graph)

    def inputs(self) -> list[Any]:
        result = super().inputs()
        seen = self.tracer.sizes.seen      # a forward cannot read a size from a gradient that comes later
        for name, (proxy, _) in list(seen.items()):
            if is_tangent(proxy.node):
                del seen[name]
        return result

    def call(self, node: Node, owner: GraphModule | None = None) -> None:
        if node.op == "get_attr":
            self.values[node] = self.attribute(node)
            return
        before = next(reversed(self.tracer.graph.nodes), None)
        with same_symbols(self.program._shape_env, node):
            if isinstance(node.target, _OVERLOADS):
                self.overload(node)
            else:
                super().call(node, owner)
        added = self.recorder.added_since(before)
        if node in self.backward:
            for made in added:
                made.meta.update(BACKWARD)
        if len(added) == 1:
            added[0].meta.update({k: v for k, v in node.meta.items() if k not in added[0].meta})

    def overload(self, node: Node) -> None:
        """A call of an op: by its rule, else as ATen names it."""
        target, recorder = node.target, self.recorder
        args, kwargs = map_aggregate(
            (node.args, node.kwargs), lambda a: self.values[a] if isinstance(a, Node) else a)
        self.tracer.line = node.meta.get("stack_trace")
        result = NotImplemented if target.inplace else recorder.by_rule(target, args, kwargs)
        if result is not NotImplemented:
            self.values[node] = self.as_laid_out(result, node.meta.get("val"), target)
            return
        call = target, args, kwargs
        if isinstance(target, _C.Overload) and not _is_transformed(target):
            bound, _ = target.bind(args, kwargs)
            call = aten_call(target, bound) or call
        self.values[node] = recorder.node(call, lambda: self.run_alone(node, args, kwargs))

    def run_alone(self, node: Node, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call by its very overload: function modes see the op, which another overload may serve. Where elements
        decide, which a trace of real tensors had, the result is what it was."""
        try:
            with DisableTorchFunction():
                return node.target(*args, **kwargs)
        except (NotImplementedError, DataDependentOutputException):
            return map_aggregate(node.meta["val"], lambda v: v.clone() if isinstance(v, Tensor) else v)

    def attribute(self, node: Node) -> Any:
        """A tensor or a graph that the module holds, held by the new one too."""
        value = functools.reduce(getattr, node.target.split("."), self.program.graph_module)
        if not isinstance(value, Tensor):
            return value
        fake = self.mode.from_tensor(value.detach(), static_shapes=True)
        place, _, name = node.target.rpartition(".")
        if place:
            name = node.target.replace(".", "_")
        setattr(self.tracer.root, name, value)
        self.tracer.track(fake, self.tracer.create_proxy("get_attr", name, (), {}))
        return fake

    def finished(self, placeholders: list[Any]) -> GraphModule:
        self.tracer.record_checks()
        tracer, output = self.tracer, self.program.graph.output_node()
        returned = map_aggregate(output.args[0], lambda a: self.node_of(self.values[a]) if isinstance(a, Node) else a)
        tracer.graph.output(returned)
        tracer.graph._codegen = self.program.graph._codegen
        tracer.graph.eliminate_dead_code()
        note_numbers(tracer.graph)
        result = GraphModule(tracer.root, tracer.graph, self.program.graph_module._get_name())
        result.meta.update(self.program.graph_module.meta)
        result.shape_env = self.program._shape_env
        return result
