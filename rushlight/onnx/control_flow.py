"""Ops over functions as nodes that hold graphs: `cond` as If, `while_loop` as Loop, `scan` and `map` as Scan.

Enters: a call of such an op in a program, its functions as graphs. Leaves: a node's results. Functions' further tensors
(weights, what they capture) are values of the graph around, which ONNX lets inner graphs see. Refuses: gradients of
loops, which keep their steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .. import _C
from .building import Builder, Size
from .model import Value

HIDDEN = re.compile(r"u\d+")      # what sizes are called that elements decide
TRUTH, INT64 = _C.bool, _C.int64


class Converts(Protocol):
    """What is needed of a conversion."""

    g: Builder

    def inlined(self, function: Any, given: Sequence[Any]) -> list[Any]: ...

    def inside(self, name: str) -> Any: ...


def control_flow(conversion: Converts, name: str, *arguments: Any) -> tuple[Value, ...]:
    """The results of a call of the op of this name."""
    rule = _RULES.get(name)
    if rule is None:
        raise NotImplementedError(f"{name} has no node; only cond, while_loop, scan and map have")
    return tuple(rule(conversion, *arguments))


def _closed(g: Builder, values: Sequence[Any]) -> None:
    """The results of an inner graph: values that its own nodes make, each once, since ONNX wants it so."""
    made = {name for node in g.graph.nodes for name in node.outputs}
    for value in values:
        if isinstance(value, Size):
            value = g.scalar(value, value.value.dtype)
        if value.name not in made or any(value.name == v.name for v in g.graph.outputs):
            shares, g.shares = g.shares, False
            value = g.node("Identity", value, shape=value.shape)
            g.shares = shares
        g.graph.outputs.append(value)


def _truth(g: Builder, value: Any) -> Value:
    """A predicate as a tensor without dims."""
    if isinstance(value, Size):
        value = value.value
    if not isinstance(value, Value):
        return g.constant(bool(value), TRUTH)
    value = g.cast(value, TRUTH)
    return value if value.shape == () else g.node("Reshape", value, g.constant([], INT64), shape=())


def _cond(conversion: Converts, pred: Any, true_fn: Any, false_fn: Any, operands: Sequence[Any]) -> list[Value]:
    graphs = {}
    for name, function in {"then_branch": true_fn, "else_branch": false_fn}.items():
        with conversion.inside(name) as inner:
            _closed(inner, conversion.inlined(function, operands))
        graphs[name] = inner.graph
    g = conversion.g
    dtypes = [v.dtype for v in graphs["then_branch"].outputs]
    return g.nodes("If", _truth(g, pred), dtypes=dtypes, **graphs)


def _while_loop(conversion: Converts, cond_fn: Any, body_fn: Any, carried: Sequence[Value], further: Sequence[Any]
                ) -> list[Value]:
    g = conversion.g
    first = _truth(g, conversion.inlined(cond_fn, [*carried, *further])[0])
    with conversion.inside("body") as inner:
        inner.input("step", INT64, ())
        inner.input("goes_on", TRUTH, ())
        values = [inner.input("carried", v.dtype, v.shape) for v in carried]
        results = conversion.inlined(body_fn, [*values, *further])
        goes_on = _truth(inner, conversion.inlined(cond_fn, [*results, *further])[0])
        _closed(inner, [goes_on, *results])
    return g.nodes("Loop", None, first, *carried, dtypes=[v.dtype for v in carried], body=inner.graph)


def _scan(conversion: Converts, function: Any, carried: Sequence[Value], xs: Sequence[Value], further: Sequence[Any]
          ) -> list[Value]:
    g, count = conversion.g, len(carried)
    if any(v.shape is None or HIDDEN.fullmatch(str(v.shape[0])) for v in xs):
        return _scan_as_loop(conversion, function, carried, xs, further)
    with conversion.inside("body") as inner:
        values = [inner.input("carried", v.dtype, v.shape) for v in carried]
        slices = [inner.input("slice", v.dtype, v.shape[1:] if v.shape is not None else None) for v in xs]
        results = conversion.inlined(function, [*values, *slices, *further])
        _closed(inner, results)
    dtypes = [v.dtype for v in (*carried, *inner.graph.outputs[count:])]
    return g.nodes("Scan", *carried, *xs, dtypes=dtypes, body=inner.graph, num_scan_inputs=len(xs))


def _scan_as_loop(conversion: Converts, function: Any, carried: Sequence[Value], xs: Sequence[Value],
                  further: Sequence[Any]) -> list[Value]:
    """A scan over as many members as there are when it runs: runtimes refuse a Scan over none, and not a Loop."""
    g, count = conversion.g, len(carried)
    steps = g.node("Reshape", g.node("Shape", xs[0], dtype=INT64, start=0, end=1), g.constant([], INT64), shape=())
    with conversion.inside("body") as inner:
        step = inner.input("step", INT64, ())
        goes_on = inner.input("goes_on", TRUTH, ())
        values = [inner.input("carried", v.dtype, v.shape) for v in carried]
        slices = [inner.node("Gather", v, step, axis=0, shape=v.shape[1:] if v.shape is not None else None) for v in xs]
        results = conversion.inlined(function, [*values, *slices, *further])
        _closed(inner, [goes_on, *results])
    dtypes = [v.dtype for v in (*carried, *inner.graph.outputs[1 + count :])]
    return g.nodes("Loop", steps, None, *carried, dtypes=dtypes, body=inner.graph)


_RULES: dict[str, Callable[..., list[Value]]] = {"cond": _cond, "while_loop": _while_loop, "scan": _scan}
