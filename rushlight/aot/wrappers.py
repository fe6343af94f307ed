"""Graphs over tensors that are made of others (`__torch_dispatch__`, `__tensor_flatten__`): a graph over their parts.

Enters: a graph of Dynamo's, some of whose inputs or results are such wrappers. Leaves: a graph that takes and gives the
tensors inside, puts wrappers together and takes them apart at its ends, and goes to the backend as any other; around it
a function that does the same to real ones. Both ends are autograd Functions, so that the gradient of a wrapper is one
made of its parts' gradients. Refuses: wrappers with gradients whose parts have none, and wrappers that want a gradient
and are written to; such graphs run op by op.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import _C
from .._C import Tensor
from ..autograd import Function
from ..dynamo.record.recorder import as_target
from ..dynamo.record.tensor_classes import is_wrapper, parts
from ..fx._lazy_graph_module import _LazyGraphModule
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from .refused import NotCaptured


@dataclass(frozen=True)
class Spec:
    """How a wrapper is put together."""

    kind: type
    names: tuple[str, ...]
    context: Any
    size: tuple[int, ...]
    stride: tuple[int, ...]
    inner: tuple[Spec | None, ...]      # of the parts: None for plain tensors

    @staticmethod
    def of(t: Any) -> Spec:
        names, context = parts(t)
        inner = tuple(Spec.of(part) if is_wrapper(part) else None for part in (getattr(t, n) for n in names))
        return Spec(type(t), tuple(names), context, tuple(t.shape), tuple(t.stride()), inner)

    @property
    def count(self) -> int:
        """How many plain tensors there are."""
        return sum(1 if spec is None else spec.count for spec in self.inner)

    def build(self, tensors: Sequence[Tensor]) -> Any:
        """A wrapper around these tensors."""
        found, at = {}, 0
        for name, spec in zip(self.names, self.inner, strict=True):
            if spec is None:
                found[name] = tensors[at]
                at += 1
            else:
                found[name] = spec.build(tensors[at:at + spec.count])
                at += spec.count
        return self.kind.__tensor_unflatten__(found, self.context, self.size, self.stride)  # type: ignore[attr-defined]


def flattened(t: Any) -> list[Tensor]:
    """The plain tensors in a wrapper."""
    found: list[Tensor] = []
    for name in parts(t)[0]:
        part = getattr(t, name)
        found += flattened(part) if is_wrapper(part) else [part]
    return found


class _Join(Function):
    """A wrapper of its parts."""

    @staticmethod
    def forward(ctx: Any, spec: Spec, *tensors: Tensor) -> Any:
        ctx.spec, ctx.like = spec, [t.detach() for t in tensors]
        return spec.build(ctx.like)      # the wrapper has the history, its parts have none

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple:
        if not is_wrapper(g):      # as a wrapper: what it is when it is added to one of zeros
            g = ctx.spec.build([t.new_zeros(t.shape) for t in ctx.like]) + g
        if not is_wrapper(g) or Spec.of(g).count != ctx.spec.count:
            raise NotCaptured(f"compile: the gradient of a {ctx.spec.kind.__name__} is no such tensor.")
        return None, *flattened(g)


class _Part(Function):
    """The parts of a wrapper."""

    @staticmethod
    def forward(ctx: Any, t: Any) -> tuple:
        ctx.spec = Spec.of(t)
        found = flattened(t)
        if not all(part.is_floating_point() or part.is_complex() for part in found):
            raise NotCaptured("compile: a tensor made of others wants a gradient, and some of them can have none.")
        return tuple([part.detach() for part in found])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.spec.build(grads)


def take_apart(t: Any) -> tuple:
    """The tensors in a wrapper, with its history."""
    return tuple(_Part.apply(t)) if t.requires_grad and _C.is_grad_enabled() else tuple(flattened(t))


def put_together(spec: Spec, tensors: Sequence[Tensor]) -> Any:
    """A wrapper, with the history of its parts."""
    if _C.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return _Join.apply(spec, *tensors)
    return spec.build(tensors)


# --- graphs -----------------------------------------------------------------------------------------------------------


def are_in(gm: GraphModule) -> bool:
    """Whether a graph takes or returns wrappers."""
    return any(is_wrapper(node.meta.get("example_value")) for node in (*gm.graph.find_nodes(op="placeholder"),
                                                                      *_results(gm.graph)))


def _results(graph: Graph) -> list[Node]:
    (end,) = graph.find_nodes(op="output")
    return [node for node in end.args[0] if isinstance(node, Node)]


def compiled(gm: GraphModule, inputs: list[Any], backend: Callable[[GraphModule, list[Any]], Callable]) -> Callable:
    """A function of the inputs that runs the graph over their parts."""
    inner, ins, outs = _opened(gm)
    try:
        run = backend(inner, _apart(inputs, ins))
    except NotCaptured:
        return gm.forward
    writes = getattr(getattr(run, "compiled", None), "only", None)
    if writes is not None and _is_tracked(writes[2], inputs, ins):
        return gm.forward

    def call(given: list[Any]) -> list[Any]:
        flat = _apart(given, ins)
        results = list(run(flat) if getattr(run, "_boxed_call", False) else run(*flat))
        return _together(results, outs)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _is_tracked(mutated: Sequence[int], inputs: list[Any], ins: list[bool]) -> bool:
    """Whether a part of a wrapper that wants a gradient is written to."""
    owners = [t for t, opens in zip(inputs, ins, strict=True) for _ in (flattened(t) if opens else (t,))]
    return any(is_wrapper(owners[i]) and owners[i].requires_grad for i in mutated)


def _apart(inputs: list[Any], ins: list[bool]) -> list[Any]:
    flat: list[Any] = []
    for t, opens in zip(inputs, ins, strict=True):
        flat += take_apart(t) if opens else (t,)
    return flat


def _together(results: list[Any], outs: list[Spec | None]) -> list[Any]:
    result, at = [], 0
    for spec in outs:
        count = 1 if spec is None else spec.count
        result.append(results[at] if spec is None else put_together(spec, results[at:at + count]))
        at += count
    return result


def _opened(gm: GraphModule) -> tuple[GraphModule, list[bool], list[Spec | None]]:
    """The graph over parts; which inputs are taken apart, and how results are put together."""
    graph, env = Graph(), {}
    ins: list[bool] = []
    outs: list[Spec | None] = []
    flat: list[Node] = []
    static: list[int] = []
    places = list(gm.graph.find_nodes(op="placeholder"))
    for i, node in enumerate(places):
        example = node.meta.get("example_value")
        ins.append(is_wrapper(example))
        if i in gm.meta.get("static_inputs", ()) and not ins[-1]:
            static.append(len(flat))
        tensors = flattened(example) if ins[-1] else [example]
        answers = [graph.placeholder(f"{node.name}_{k}" if ins[-1] else node.name) for k in range(len(tensors))]
        for place, t in zip(answers, tensors, strict=True):
            place.meta["example_value"] = t
        flat += answers
        env[node] = answers[0] if not ins[-1] else answers
    for node in places:
        if isinstance(env[node], list):
            spec = Spec.of(node.meta["example_value"])
            env[node] = graph.call_function(as_target("put_together", functools.partial(put_together, spec)),
                                            (tuple(env[node]),), {})
    for node in gm.graph.nodes:
        if node.op not in ("placeholder", "output"):
            env[node] = graph.node_copy(node, env.__getitem__)
    (end,) = gm.graph.find_nodes(op="output")
    results: list[Any] = []
    for node in end.args[0]:
        example = node.meta.get("example_value") if isinstance(node, Node) else None
        outs.append(Spec.of(example) if is_wrapper(example) else None)
        if outs[-1] is None:
            results.append(env[node] if isinstance(node, Node) else node)
            continue
        if not all(type(n) is int for n in (*outs[-1].size, *outs[-1].stride)):
            raise NotCaptured("compile: a tensor made of others has sizes that are symbols.")
        whole = graph.call_function(take_apart, (env[node],), {})
        results += [graph.call_function(operator.getitem, (whole, k), {}) for k in range(outs[-1].count)]
    graph.output(tuple(results))
    made_module = _LazyGraphModule(gm, graph, "parts")
    made_module.shape_env = gm.shape_env
    made_module.meta.update({**gm.meta, "static_inputs": static})
    return made_module, ins, outs
