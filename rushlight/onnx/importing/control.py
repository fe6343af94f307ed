"""If, Loop, Scan and SequenceMap: graphs in graphs, with gradients through them.

Enters: a node and the graphs it has. Leaves: a call of one of the functions below with the graphs as modules, and with
what they read from around them. On tensors they run in Python, so that shapes and numbers of steps may differ from
call to call; where a graph is made (compile, export) they are `cond`, `while_loop` and `scan`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from operator import getitem
from typing import Any

from ... import _C, ops
from ..._higher_order_ops import cond, core, scan, while_loop
from ..._higher_order_ops.cond import is_recorded
from ...autograd import grad
from ...autograd.grad_mode import enable_grad, no_grad
from ...base import assertions
from ...compiler import is_dynamo_compiling
from ...dynamo.record.marks import decided
from ...fake import DataDependentOutputException, GuardOnDataDependentSymNode
from ...symbols import SymBool, SymInt
from ..model import Graph, Node, Value
from .errors import damaged
from .rules.attention import flex_attention
from .translating import Item, Scope, Translation

aten = ops.aten


def run_if(condition: Any, then: Any, then_given: Sequence[Any], other: Any, other_given: Sequence[Any]) -> Any:
    """One of two graphs; in a graph that is being made, both of them as `cond`, unless a whole number that was given
    decides: `compile` makes a graph for that number."""
    if _is_interpreted():
        condition = decided(condition)
    if not isinstance(condition, _C.Tensor):
        condition = _truth(condition)
        if not (isinstance(condition, SymBool) and _can_be_either(condition, then, then_given, other, other_given)):
            return then(*then_given) if condition else other(*other_given)
        return cond(condition, lambda a, b: _own(then(*a)), lambda a, b: _own(other(*b)),
                    (tuple(then_given), tuple(other_given)))
    if not _is_recorded([condition, *then_given, *other_given]):
        return then(*then_given) if bool(condition) else other(*other_given)
    condition = aten.reshape(condition, ())
    try:
        return cond(condition, lambda a, b: _own(then(*a)), lambda a, b: _own(other(*b)),
                    (tuple(then_given), tuple(other_given)))
    except (RuntimeError, ValueError, IndexError):
        if _is_interpreted():
            raise
        runs = _runs(then, then_given), _runs(other, other_given)
        if runs[0] == runs[1]:
            raise
        if any(isinstance(n, SymInt) for t in (*then_given, *other_given) if isinstance(t, _C.Tensor) for n in t.shape):
            raise RuntimeError(f"onnx: sizes vary, and with those of the example only the graph for {runs[0]} of an If"
                               " runs: a graph for all sizes cannot be made. Export with fixed sizes.") from None
    # Tensors of these sizes fit one of the graphs alone: taking the other is an error with and without a graph.
    warnings.warn(f"onnx: tensors of these sizes fit only one graph of an If, that for {runs[0]}; what is made of the"
                  " model holds that one alone, and ONNX files do not check the condition", stacklevel=2)
    holds = condition if runs[0] else aten.logical_not(condition)
    assertions._check(holds.item(), f"If: the condition should be {runs[0]} with tensors of these sizes")
    return then(*then_given) if runs[0] else other(*other_given)


def _runs(graph: Any, given: Sequence[Any]) -> bool:
    """Whether a graph runs on tensors of these sizes. What hangs on elements is not said to fail."""
    mode = core.fake_mode_for([v for v in given if isinstance(v, _C.Tensor)])
    try:
        with core.dispatching([mode], []), no_grad():
            graph(*[core.apart(v, mode) if isinstance(v, _C.Tensor) else v for v in given])
    except (GuardOnDataDependentSymNode, DataDependentOutputException, NotImplementedError):
        return True
    except (RuntimeError, ValueError, IndexError):
        return False
    return True


def _can_be_either(condition: Any, then: Any, then_given: Sequence[Any], other: Any, other_given: Sequence[Any]
                   ) -> bool:
    """Whether a graph that is being made can hold both graphs of an If that sizes decide: each runs on the sizes that
    it is for, and they give tensors alike but for sizes. What they ask of sizes is not noted."""
    if core.recording_mode() is None or _is_interpreted() or any(
            not isinstance(v, _C.Tensor) for v in (*then_given, *other_given)):
        return False
    results = []
    for truth, graph, given in ((condition, then, then_given), (assertions.sym_not(condition), other, other_given)):
        mode = core.fake_mode_for(given)
        env: Any = condition.env
        guards = len(env.guards)
        try:
            with env.trial(), env.assuming(truth.expression), core.dispatching([mode], []), no_grad():
                found = graph(*[core.apart(v, mode) for v in given])
                if len(env.guards) > guards:      # the graph is right for some sizes alone
                    return False
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
            return False
        results.append(found)
    return all(isinstance(t, _C.Tensor) for found in results for t in found) and core.are_alike_but_for_sizes(*results)


def _truth(value: Any) -> Any:
    """A number of the host as a truth, which sizes that vary may decide."""
    value = value[0] if isinstance(value, tuple) else value
    if isinstance(value, (SymInt, SymBool)):
        return value != 0 if isinstance(value, SymInt) else value
    return bool(value)


def _is_recorded(values: Sequence[Any]) -> bool:
    return is_dynamo_compiling() or is_recorded(values)


def _is_interpreted() -> bool:
    """Whether bytecode is read (compile), and not what is called (export): nothing can be tried beforehand then."""
    return is_dynamo_compiling() and core.recording_mode() is None


def _own(values: Sequence[Any]) -> tuple:
    """Results in memory of their own: what a graph in a graph gives is no view of what it gets."""
    return tuple([aten.clone(v) if isinstance(v, _C.Tensor) else v for v in values])


def run_loop(most: Any, condition: Any, body: Any, given: Sequence[Any], states: Sequence[Any], scanned: int,
             is_counted: bool) -> Sequence[Any]:
    """A graph while its condition holds, at most so many times; what it yields besides its state is stacked.
    `is_counted`: no condition ends it. In a graph that is being made it is `scan` or `while_loop`, unless its state
    changes its sizes: then it is unrolled."""
    most = most[0] if isinstance(most, tuple) else most
    tensors = [v for v in (most, condition, *given, *states) if isinstance(v, _C.Tensor)]
    if _is_recorded(tensors):
        device = next((t.device for t in tensors), None)
        like = _step_like(body, given, states, device)[1:]
        if _are_alike(like, states) and is_counted and (scanned or not isinstance(most, _C.Tensor)):
            count = most.reshape(()).item() if isinstance(most, _C.Tensor) else most
            steps = aten.arange(count, dtype=_C.int64, device=device)
            return _scanned(lambda i, *s: body(i, aten.ones_like(i, dtype=_C.bool), *s, *given)[1:], states, [steps])
        if _are_alike(like, states):
            return _as_while_loop(most, condition, body, given, states, like[len(states) :], device)
    return _in_python(most, condition, body, given, states, scanned, is_counted)


def _in_python(most: Any, condition: Any, body: Any, given: Sequence[Any], states: Sequence[Any], scanned: int,
               is_counted: bool) -> list:
    limit = None if most is None else int(most)
    goes_on = is_counted or condition is None or bool(condition)
    states, rows, step = list(states), [[] for _ in range(scanned)], 0
    device = next((s.device for s in [*states, *given] if isinstance(s, _C.Tensor)), None)
    while goes_on and (limit is None or step < limit):
        results = body(aten.scalar_tensor(step, dtype=_C.int64, device=device),
                       aten.scalar_tensor(True, dtype=_C.bool, device=device), *states, *given)
        goes_on = is_counted or bool(results[0])
        states = list(results[1 : 1 + len(states)])
        for row, value in zip(rows, results[1 + len(states) :], strict=True):
            row.append(value)
        step += 1
    if not scanned:
        return states
    if not step:
        return [*states, *_no_rows(body, given, states, scanned, device)]
    return [*states, *[aten.stack(row) for row in rows]]


def _no_rows(body: Any, given: Sequence[Any], states: Sequence[Any], scanned: int, device: Any) -> list:
    """What a loop of no steps yields: nothing, of the sizes that a step would give, where those do not hang on
    elements."""
    try:
        like = _step_like(body, given, states, device)[1 + len(states) :]
    except (RuntimeError, NotImplementedError):
        return [aten.zeros((0,), device=device) for _ in range(scanned)]
    return [aten.zeros((0, *t.shape), dtype=t.dtype, device=device) for t in like]


def _as_while_loop(most: Any, condition: Any, body: Any, given: Sequence[Any], states: Sequence[Any],
                   yielded: Sequence[Any], device: Any) -> list:
    """A loop that its condition may end. What it yields (`yielded`: tensors like it) goes into rows of tensors that are
    there before, as many as it has steps at most."""
    count = len(states)
    if yielded and (most is None or isinstance(most, _C.Tensor)):
        raise NotImplementedError(
            "onnx: a Loop that its condition ends yields a row at each step, and how many it has at most depends on"
            " elements: a graph cannot hold it. Run it as it is, without export or compile.")
    rows = [aten.zeros((most, *t.shape), dtype=t.dtype, device=device) for t in yielded]
    limit = aten.reshape(most, ()) if isinstance(most, _C.Tensor) else most
    start = aten.scalar_tensor(True, dtype=_C.bool, device=device) if condition is None else aten.reshape(condition, ())

    def goes_on(step: Any, holds: Any, *carried: Any) -> Any:
        return holds if limit is None else aten.logical_and(holds, aten.lt(step, limit))

    def once(step: Any, holds: Any, *carried: Any) -> tuple:
        results = body(step, holds, *carried[:count], *given)
        kept = [aten.index_copy(row, 0, aten.reshape(step, (1,)), aten.unsqueeze(value, 0))
                for row, value in zip(carried[count:], results[1 + count :], strict=True)]
        return _own((aten.add(step, 1), aten.reshape(results[0], ()), *results[1 : 1 + count], *kept))

    first = aten.scalar_tensor(0, dtype=_C.int64, device=device)
    step, _, *found = while_loop(goes_on, once, (first, start, *states, *rows))
    if not rows:
        return found
    steps = step.item()
    return [*found[:count], *[aten.slice(row, 0, 0, steps) for row in found[count:]]]


def _step_like(body: Any, given: Sequence[Any], states: Sequence[Any], device: Any) -> Sequence[Any]:
    """Tensors like the results of one step, which is not recorded (or, where bytecode is read, used by nothing)."""
    first = aten.scalar_tensor(0, dtype=_C.int64, device=device), aten.scalar_tensor(True, dtype=_C.bool, device=device)
    if _is_interpreted():
        return body(*first, *states, *given)
    mode = core.fake_mode_for([v for v in (*given, *states) if isinstance(v, _C.Tensor)])
    with core.dispatching([mode], []), no_grad():
        own = [core.apart(v, mode) if isinstance(v, _C.Tensor) else v for v in (*states, *given)]
        return body(*[core.apart(t, mode) for t in first], *own)


def _are_alike(results: Sequence[Any], states: Sequence[Any]) -> bool:
    """Whether a step leaves the sizes and types of its state as they are."""
    return all(isinstance(a, _C.Tensor) and isinstance(b, _C.Tensor) and a.dtype is b.dtype and a.ndim == b.ndim
               and all(m is n or bool(m == n) for m, n in zip(a.shape, b.shape, strict=True))
               for a, b in zip(results, states, strict=False))


def _scanned(step: Callable[..., Any], states: Sequence[Any], rows: Sequence[Any]) -> list:
    """step(*rows' slices, *states) gives the next states, and a slice of each result; as `scan`."""
    count = len(states)
    unused = [] if states else [aten.zeros((), device=rows[0].device)]      # something has to be carried

    def combine(carried: Any, slices: Any) -> tuple:
        results = _own(step(*slices, *carried[:count]))
        return (tuple(results[:count]) if states else _own(carried)), tuple(results[count:])

    last, stacked = scan(combine, (*states, *unused), tuple(rows))
    return [*last[:count], *stacked]


def run_scan(body: Any, given: Sequence[Any], states: Sequence[Any], rows: Sequence[Any], axes: Sequence[int],
             directions: Sequence[int], out_axes: Sequence[int], out_directions: Sequence[int]) -> list:
    """A graph over slices of its inputs."""
    count = len(states)
    if _is_recorded([*states, *rows, *given]):
        moved = [aten.flip(r, [axis]) if back else r for r, axis, back in zip(rows, axes, directions, strict=True)]
        moved = [aten.movedim(r, axis, 0) for r, axis in zip(moved, axes, strict=True)]
        found = _scanned(lambda *values: body(*values[len(rows) :], *values[: len(rows)], *given), states, moved)
        turned = [aten.flip(r, [0]) if back else r for r, back in zip(found[count:], out_directions, strict=True)]
        return [*found[:count], *[aten.movedim(r, 0, axis) for r, axis in zip(turned, out_axes, strict=True)]]
    steps = rows[0].shape[axes[0]]
    taken = [aten.unbind(row, axis) for row, axis in zip(rows, axes, strict=True)]
    outputs: list[list[Any]] = [[] for _ in out_axes]
    states = list(states)
    for t in range(steps):
        parts = [part[steps - 1 - t] if back else part[t] for part, back in zip(taken, directions, strict=True)]
        results = body(*states, *parts, *given)
        states = list(results[:count])
        for row, value in zip(outputs, results[count:], strict=True):
            row.append(value)
    stacked = [aten.stack(row[::-1] if back else row, axis) for row, axis, back in zip(
        outputs, out_axes, out_directions, strict=True)]
    return [*states, *stacked]


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
    most = given[0]
    if most is not None:
        most = builder.numbers(most) if most.is_known or most.form == "numbers" else builder.tensor(most)
    called = builder.call(run_loop, most, builder.tensor(given[1]), builder.attribute(part.target),
                          tuple(part.captured), tuple([builder.tensor(s) for s in states]),
                          len(body.outputs) - 1 - len(states), _is_counted(given[1], body), name=label)
    forms = [_form(s.form if s is not None else "", f) for s, f in zip(states, part.forms[1:], strict=False)]
    return _results(scope, node, called, part.numbers[1:], [*forms, *part.forms[1 + len(states) :]])


def _is_counted(condition: Item | None, body: Graph) -> bool:
    """Whether no condition can end a loop: it is true at first, and its graph hands it on."""
    if condition is not None and not (condition.is_known and bool(condition.value)):
        return False
    makers = {name: n for n in body.nodes for name in n.outputs}
    name = body.outputs[0].name
    while name in makers and makers[name].op == "Identity":
        name = makers[name].inputs[0]
    if name == body.inputs[1].name:
        return True
    maker = makers.get(name)
    value = maker.attributes.get("value") if maker is not None and maker.op == "Constant" else body.tensors.get(name)
    return hasattr(value, "load") and bool(value.load())


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
