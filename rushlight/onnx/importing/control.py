"""If, Loop, Scan and SequenceMap: graphs in graphs, run in Python, with gradients through them.

Enters: a node and the graphs it has. Leaves: a call of one of the functions below with the graphs as modules, and with
what they read from around them. Shapes and numbers of steps may differ from call to call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import getitem
from typing import Any

from ... import _C, ops
from ...autograd import grad
from ...autograd.grad_mode import enable_grad
from ..model import Graph, Node, Value
from .errors import damaged
from .rules.attention import flex_attention
from .translating import Item, Scope, Translation

aten = ops.aten


def run_if(condition: Any, then: Any, then_given: Sequence[Any], other: Any, other_given: Sequence[Any]) -> tuple:
    """One of two graphs."""
    return then(*then_given) if bool(condition) else other(*other_given)


def run_loop(most: Any, condition: Any, body: Any, given: Sequence[Any], states: Sequence[Any], scanned: int) -> list:
    """A graph while its condition holds, at most so many times; what it yields besides its state is stacked."""
    limit = None if most is None else int(most)
    goes_on = True if condition is None else bool(condition)
    states, rows, step = list(states), [[] for _ in range(scanned)], 0
    device = next((s.device for s in [*states, *given] if isinstance(s, _C.Tensor)), None)
    while goes_on and (limit is None or step < limit):
        results = body(aten.scalar_tensor(step, dtype=_C.int64, device=device),
                       aten.scalar_tensor(True, dtype=_C.bool, device=device), *states, *given)
        goes_on = bool(results[0])
        states = list(results[1 : 1 + len(states)])
        for row, value in zip(rows, results[1 + len(states) :], strict=True):
            row.append(value)
        step += 1
    return [*states, *[_stacked(row) for row in rows]]


def _stacked(row: list[Any]) -> Any:
    return aten.stack(row) if row else aten.zeros((0,))


def run_scan(body: Any, given: Sequence[Any], states: Sequence[Any], rows: Sequence[Any], axes: Sequence[int],
             directions: Sequence[int], out_axes: Sequence[int], out_directions: Sequence[int]) -> list:
    """A graph over slices of its inputs."""
    states = list(states)
    steps = rows[0].shape[axes[0]]
    taken = [aten.unbind(row, axis) for row, axis in zip(rows, axes, strict=True)]
    outputs: list[list[Any]] = [[] for _ in out_axes]
    for t in range(steps):
        parts = [part[steps - 1 - t] if back else part[t] for part, back in zip(taken, directions, strict=True)]
        results = body(*states, *parts, *given)
        states = list(results[: len(states)])
        for row, value in zip(outputs, results[len(states) :], strict=True):
            row.append(value)
    found = [aten.stack(row[::-1] if back else row, axis) for row, axis, back in zip(
        outputs, out_axes, out_directions, strict=True)]
    return [*states, *found]


def run_map(body: Any, given: Sequence[Any], inputs: Sequence[Any], count: int) -> list:
    """A graph over the elements of sequences; what is no sequence is the same for each."""
    rows: list[list[Any]] = [[] for _ in range(count)]
    for k in range(len(inputs[0])):
        results = body(*[x[k] if isinstance(x, (list, tuple)) else x for x in inputs], *given)
        for row, value in zip(rows, results, strict=True):
            row.append(value)
    return rows


# --- translation ------------------------------------------------------------------------------------------------------


def _graph(node: Node, settings: Mapping[str, Any], name: str) -> Graph:
    graph = settings.get(name)
    if not isinstance(graph, Graph):
        raise damaged(f"node {node.name or node.op!r} ({node.op}) has no graph {name!r}")
    return graph


def _results(scope: Scope, node: Node, called: Any, numbers: Sequence[int], forms: Sequence[str]) -> list[Item]:
    return [Item(form, scope.builder, scope.builder.call(getitem, called, k, name=name), number=number)
            for k, (name, number, form) in enumerate(zip(node.outputs, numbers, forms, strict=False))]


def _form(*forms: str) -> str:
    return "other" if "other" in forms else "tensor"


def if_node(t: Translation, scope: Scope, node: Node, inputs: Sequence[Item | None], settings: dict[str, Any],
            label: str
            ) -> list[Item]:
    builder = scope.builder
    then_graph, else_graph = _graph(node, settings, "then_branch"), _graph(node, settings, "else_branch")
    if len(then_graph.outputs) != len(node.outputs) or len(else_graph.outputs) != len(node.outputs):
        raise damaged(f"node {label!r} (If) has {len(node.outputs)} results, and its graphs have"
                      f" {len(then_graph.outputs)} and {len(else_graph.outputs)}")
    then, other = t.subgraph(scope, then_graph, f"{label}_then"), t.subgraph(scope, else_graph, f"{label}_else")
    if not inputs or inputs[0] is None:
        raise damaged(f"node {label!r} (If) has no condition")
    condition = builder.numbers(inputs[0]) if inputs[0].form == "numbers" else builder.tensor(inputs[0])
    called = builder.call(run_if, condition, builder.attribute(then.target), tuple(then.captured),
                          builder.attribute(other.target),
                          tuple(other.captured), name=label)
    return _results(scope, node, called, then.numbers, [_form(a, b) for a, b in zip(then.forms, other.forms,
                                                                                    strict=True)])


def loop_node(t: Translation, scope: Scope, node: Node, inputs: Sequence[Item | None], settings: dict[str, Any],
              label: str) -> list[Item]:
    builder = scope.builder
    body = _graph(node, settings, "body")
    states = list(inputs[2:])
    if len(body.inputs) != len(states) + 2 or len(body.outputs) < len(states) + 1:
        raise damaged(f"node {label!r} (Loop) carries {len(states)} values, and its graph takes {len(body.inputs)} and"
                      f" gives {len(body.outputs)}")
    part = t.subgraph(scope, body, f"{label}_body", [None, None, *states])
    given = [*inputs, None, None]
    most = builder.numbers(given[0]) if given[0] is not None else None
    called = builder.call(run_loop, most, builder.tensor(given[1]), builder.attribute(part.target),
                          tuple(part.captured),
                          tuple([builder.tensor(s) for s in states]), len(body.outputs) - 1 - len(states), name=label)
    forms = [_form(s.form if s is not None else "", f) for s, f in zip(states, part.forms[1:], strict=False)]
    return _results(scope, node, called, part.numbers[1:], [*forms, *part.forms[1 + len(states) :]])


def scan_node(t: Translation, scope: Scope, node: Node, inputs: Sequence[Item | None], settings: dict[str, Any],
              label: str) -> list[Item]:
    builder, body = scope.builder, _graph(node, settings, "body")
    version = scope.opsets.get("", t.model.opset)
    given = list(inputs)
    if version < 9:                              # a batch in front, and lengths first
        if given and given[0] is not None:
            raise NotImplementedError(
                f"onnx: node {label!r} (Scan of version 8) has lengths of sequences, which are not supported here")
        given = given[1:]
    rows = settings.get("num_scan_inputs")
    if not isinstance(rows, int) or not 0 < rows <= len(given):
        raise damaged(f"node {label!r} (Scan) says that it scans {rows!r} of {len(given)} inputs")
    carried = len(given) - rows
    scanned = len(body.outputs) - carried
    if scanned < 0 or len(body.inputs) != len(given):
        raise damaged(f"node {label!r} (Scan) has {len(given)} inputs, and its graph {len(body.inputs)}")
    part = t.subgraph(scope, body, f"{label}_body", given)
    options = [tuple(settings.get(name) or [0] * count) for name, count in (
        ("scan_input_axes", rows), ("scan_input_directions" if version > 8 else "directions", rows),
        ("scan_output_axes", scanned), ("scan_output_directions", scanned))]
    values = [builder.tensor(v) for v in given]
    function: Callable[..., Any] = run_scan if version > 8 else run_scan_of_batches
    called = builder.call(function, builder.attribute(part.target), tuple(part.captured), tuple(values[:carried]),
                          tuple(values[carried:]), *options, name=label)
    return _results(scope, node, called, part.numbers, part.forms)


def run_scan_of_batches(body: Any, given: Sequence[Any], states: Sequence[Any], rows: Sequence[Any],
                        *options: Any) -> list:
    """A scan for each element of a batch, as version 8 has it."""
    each = [run_scan(body, given, [s[b] for s in states], [r[b] for r in rows], *options)
            for b in range(rows[0].shape[0])]
    return [aten.stack(list(parts)) for parts in zip(*each, strict=True)]


def map_node(t: Translation, scope: Scope, node: Node, inputs: Sequence[Item | None], settings: dict[str, Any],
             label: str
             ) -> list[Item]:
    builder, body = scope.builder, _graph(node, settings, "body")
    part = t.subgraph(scope, body, f"{label}_body")
    called = builder.call(run_map, builder.attribute(part.target), tuple(part.captured),
                          tuple([builder.tensor(i) for i in inputs]),
                          len(body.outputs), name=label)
    return _results(scope, node, called, part.numbers, ["other"] * len(body.outputs))


def flex_attention_node(t: Translation, scope: Scope, node: Node, inputs: Sequence[Item | None], settings: dict[str,
                                                                                                                Any],
                        label: str) -> list[Item]:
    builder, given = scope.builder, dict(settings)
    graphs: list[Any] = []
    for name in ("score_mod", "prob_mod"):
        if name in given:
            given.pop(name)
            part = t.subgraph(scope, _graph(node, settings, name), f"{label}_{name}")
            graphs += [builder.attribute(part.target), tuple(part.captured)]
        else:
            graphs += [None, ()]
    called = builder.call(flex_attention, *[builder.tensor(i) for i in inputs], *graphs, name=label, **given)
    return [Item("tensor", builder, called)]


def gradient_node(t: Translation, scope: Scope, node: Node, inputs: Sequence[Item | None], settings: dict[str, Any],
                  label: str) -> list[Item]:
    """The nodes between `xs` (and `zs`) and `y` as a graph of their own, run on the inputs and differentiated."""
    builder = scope.builder
    xs, zs, y = list(settings.get("xs") or []), list(settings.get("zs") or []), settings.get("y")
    if not isinstance(y, str) or len(inputs) != len(xs) + len(zs):
        raise damaged(f"node {label!r} (Gradient) has {len(inputs)} inputs, and names {len(xs) + len(zs)} of the graph")
    body = Graph(label, [Value(n, None) for n in xs + zs], [Value(y, None)], _between(scope, t, xs + zs, y))
    part = t.subgraph(scope, body, f"{label}_body")
    called = builder.call(run_gradient, builder.attribute(part.target), tuple(part.captured),
                          tuple([builder.tensor(i) for i in inputs]), len(xs), name=label)
    return [Item("tensor", builder, builder.call(getitem, called, k)) for k in range(len(xs))]


def _between(scope: Scope, t: Translation, given: Sequence[str], y: str) -> list[Node]:
    """The nodes that `y` is computed by from some values."""
    makers = {name: n for n in t.model.graph.nodes for name in n.outputs if name}
    wanted, found, pending = set(), [], [y]
    while pending:
        name = pending.pop()
        if name in given or name not in makers or id(makers[name]) in wanted:
            continue
        wanted.add(id(makers[name]))
        found.append(makers[name])
        pending += [n for n in makers[name].inputs if n]
    return found


def run_gradient(body: Any, captured: Sequence[Any], inputs: Sequence[Any], count: int) -> tuple:
    """The derivatives of a graph's result by its first inputs; they can be differentiated again."""
    with enable_grad():
        given = [x if x.requires_grad else x.detach().requires_grad_() for x in inputs[:count]]
        result = body(*given, *inputs[count:], *captured)[0]
        found = grad([result.sum()], given, create_graph=True, allow_unused=True)
    return tuple([aten.zeros_like(x) if g is None else g for g, x in zip(found, given, strict=True)])


Translation.special.update({("", "If"): if_node, ("", "Loop"): loop_node, ("", "Scan"): scan_node,
                            ("", "SequenceMap"): map_node, ("ai.onnx.preview", "FlexAttention"): flex_attention_node,
                            ("ai.onnx.preview.training", "Gradient"): gradient_node})
