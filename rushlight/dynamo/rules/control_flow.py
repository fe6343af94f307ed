"""Control flow as functions (`cond`, `while_loop`, `scan`, `map`) inside of a graph: one node, with a graph for each
function.

Enters: a call of one of them. Each function is interpreted once, on tensors like those it will be called with; its ops
are recorded in a graph of its own, in which tensors from around it are further inputs. Leaves: a node that calls the op
of `_higher_order_ops` with those graphs, which the captured module holds. Refuses (breaks the graph): functions that
change Python objects or tensors around them, since they may run any number of times, results of other structures.
"""

from __future__ import annotations

import collections
import functools
import operator
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..._C import Tensor
from ..._higher_order_ops import cond, core, map as map_function, scan, while_loop
from ..._higher_order_ops.cond import cond_op
from ..._higher_order_ops.scan import scan_op
from ..._higher_order_ops.while_loop import while_loop_op
from ...autograd import Function, grad_mode
from ...dispatch.modes import below, state as mode_state
from ...fx._lazy_graph_module import _LazyGraphModule
from ...nn import Module
from ...op import ops
from ...utils import _pytree as pytree
from ..record.breaks import GraphBreak, Raised, shown
from ..record.machine import Machine
from ..record.recorder import without_modes
from ..record.thread_modes import modes_now
from ..values.operators import Drawn, Generator
from ..values.outside import dict_of, is_python_class
from .natives import special
from .regions import Traced

# --- what functions must leave as it is -------------------------------------------------------------------------------


def _parts(value: Any) -> Any:
    """What an object that may change holds now; None for others."""
    kind = type(value)
    if kind in (list, collections.deque):
        return list(value)
    if kind in (set,):
        return set(value)
    if isinstance(value, dict):
        return [*dict.items(value)] if not is_python_class(kind) else [*dict.items(value), *dict_of(value).items()]
    if kind is types.CellType:
        try:
            return [value.cell_contents]
        except ValueError:
            return []
    if is_python_class(kind):
        return [*dict_of(value).items(), *(list.__iter__(value) if isinstance(value, list) else ())]
    return None


def _inner(value: Any) -> Iterator[Any]:
    """Objects that an object leads to."""
    kind = type(value)
    if kind in (list, tuple, set, frozenset, collections.deque) or isinstance(value, tuple):
        yield from value
    elif isinstance(value, dict):
        yield from dict.values(value)
    elif kind is types.CellType:
        try:
            yield value.cell_contents
        except ValueError:
            return
    elif kind is types.FunctionType:
        yield from value.__closure__ or ()
        yield from value.__defaults__ or ()
    elif kind is types.MethodType:
        yield value.__self__
        yield value.__func__
    elif kind is functools.partial:
        yield from (value.func, *value.args, *value.keywords.values())
    if is_python_class(kind):
        yield from dict_of(value).values()


class Surroundings:
    """Everything that functions of the program could change, as it is before they run."""

    def __init__(self, machine: Machine, functions: Sequence[Any]) -> None:
        self.machine = machine
        self.seen: dict[int, tuple[Any, Any]] = {}
        self.kept: dict[int, Any] = {}
        self.reach([*functions])
        if any(isinstance(value, (Iterator, Generator, Drawn)) for value in self.kept.values()):
            raise GraphBreak("not modelled", "a function of control flow draws from an iterator around it")
        for frame in machine.frames:
            self.reach([*frame.slots.values(), *frame.stack])
        self.reach([known.twin for known in machine.outside.by_twin.values()])
        self.twins = set(machine.outside.by_twin)
        self.said = len(machine.deferred) + len(machine.asserted)
        self.written = {k: dict(v) for k, v in machine.writes.items()}
        self.modes = modes_now()

    def reach(self, todo: list[Any]) -> None:
        """Note everything that these lead to."""
        while todo:
            value = todo.pop()
            if id(value) in self.kept or isinstance(value, (Tensor, type, types.ModuleType)):
                continue
            self.kept[id(value)] = value
            parts = _parts(value)
            if parts is not None:
                self.seen[id(value)] = value, parts
            todo += _inner(value)

    def check(self, what: str) -> None:
        """Break the graph if something is not as it was."""
        machine = self.machine
        changed = len(machine.deferred) + len(machine.asserted) != self.said or modes_now() != self.modes or any(
            not _same(machine.writes[k].items(), self.written.get(k, {}).items()) for k in machine.writes)
        for value, parts in self.seen.values():
            changed = changed or not self.is_same(value, parts)
        for key, known in machine.outside.by_twin.items():
            if key not in self.twins and known.before is not None and known.kind in ("list", "dict", "set"):
                before = list(known.before.items()) if known.kind == "dict" else known.before
                changed = changed or not _same(_parts(known.twin), before)
        if changed:
            raise GraphBreak("mutation", f"a function of {what} changes objects around it, and may run often or never")

    def is_same(self, value: Any, parts: Any) -> bool:
        now = _parts(value)
        if _same(now, parts):
            return True
        known = self.machine.outside.by_twin.get(id(value))
        if known is None or known.kind != "object" or isinstance(value, (list, dict)):
            return False
        before = dict(parts)      # attributes come when they are read
        return all(known.read.get(name) is v if name not in before else before[name] is v for name, v in now) \
            and len(dict(now)) >= len(before)


def _memory(t: Tensor) -> int:
    return Tensor.untyped_storage(t)._cdata


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, set):
        return a == b
    a, b = list(a), list(b)
    return len(a) == len(b) and all(
        x is y or (type(x) is tuple and type(y) is tuple and len(x) == len(y) and all(map(operator.is_, x, y)))
        for x, y in zip(a, b, strict=True)
    )


# --- functions as graphs ----------------------------------------------------------------------------------------------


class FunctionGraph(Traced):
    """A function of a control-flow op."""

    def traced(self, args: tuple, what: str) -> FunctionGraph:
        """Interpret the function on these arguments."""
        given = [t for t in pytree.tree_leaves(args) if isinstance(t, Tensor)]
        versions = {id(t): (t, t._version) for t in given}
        outer = {id(t): (t, t._version) for t in self.machine.recorder.kept if isinstance(t, Tensor)}
        def run() -> None:
            with below(mode_state.function_modes):      # what is recorded inside is not of the graph around it
                self(*args)

        try:
            self.machine.native(run, (), is_watched=False)
        except Raised as raised:
            raise GraphBreak("exception", f"a function of {what} raises {type(raised.exception).__name__}") from raised
        if any(t._version != version for t, version in (*versions.values(), *outer.values())):
            raise GraphBreak("mutation", f"a function of {what} writes to a tensor around it")
        if not all(isinstance(t, Tensor) for t in self.lifted()):
            raise GraphBreak("not modelled", f"a function of {what} calls a derivative that was taken around it")
        memory = {_memory(t) for t in (*given, *self.lifted())}
        for t in self.tensors if what in ("cond", "while_loop") else ():      # steps of others are copied
            if _memory(t) in memory:
                raise GraphBreak("not modelled", f"a function of {what} returns memory that others have; clone() it")
            memory.add(_memory(t))
        return self

    @property
    def result(self) -> Any:
        return self.calls[0].result

    @property
    def spec(self) -> Any:
        return self.calls[0].spec

    @property
    def places(self) -> list[Any]:
        return self.calls[0].places

    @property
    def tensors(self) -> list[Tensor]:
        return [t for t in pytree.tree_leaves(self.result) if isinstance(t, Tensor)]

    def graph(self, lifted: Sequence[Tensor]) -> Module:
        """The graph, with all of `lifted` as its last inputs."""
        recorder = self.calls[0].region
        graph = recorder.graph
        order = list(recorder.inner)
        for t in lifted:
            known = recorder.nodes[id(t)] if id(t) in recorder.lifted else None
            order.append(known or graph.placeholder(f"further_{len(order)}"))
        first = next(iter(graph.nodes))
        for node in reversed(order):
            if node is not first:
                first.prepend(node)
                first = node
        return _LazyGraphModule(recorder.root, graph, "function")


def _like(m: Machine, t: Tensor) -> Tensor:
    """A tensor like one of the graph, which is none of it yet."""
    with without_modes(), grad_mode.inference_mode(False), grad_mode.enable_grad():
        result = core.apart(t, m.recorder.fake_mode)
        return result.requires_grad_().clone() if t.requires_grad else result


def _record(m: Machine, op: core.HigherOrderOp, functions: dict[str, FunctionGraph], arguments: Callable[..., tuple],
            results: Sequence[Tensor]) -> list[Tensor]:
    """The node: `arguments(graphs, lifted tensors)` are those of the op. Returns its results."""
    recorder = m.recorder
    lifted = {id(t): t for one in functions.values() for t in one.lifted()}
    graphs = [recorder.hold(name, one.graph(list(lifted.values()))) for name, one in functions.items()]
    given = arguments(graphs, tuple(lifted.values()))
    nodes = tuple(a if a in graphs else recorder.argument(a) for a in given)
    node = recorder.graph.call_function(op, nodes, {})
    recorder.calls += 1
    wants = any(t.requires_grad for t in core.tensors_in(given)) and grad_mode._C.is_grad_enabled()
    tensors = []
    for i, t in enumerate(results):
        with without_modes(), grad_mode.inference_mode(False), grad_mode.enable_grad():
            fresh = core.apart(t, recorder.fake_mode)
            if wants and core.is_differentiable(t):
                fresh = _Joined.apply(fresh, *(x for x in core.tensors_in(given) if x.requires_grad))
        recorder.track(fresh, recorder.graph.call_function(operator.getitem, (node, i), {}))
        tensors.append(fresh)
    return tensors


class _Joined(Function):
    """A result of a node, which depends on the node's inputs as far as the tape of the fakes is concerned."""

    @staticmethod
    def forward(ctx: Any, result: Tensor, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, g: Any) -> tuple:
        return None, *(ops["zeros_like"](t) for t in ctx.saved_tensors)


def _restored(one: FunctionGraph, tensors: Sequence[Tensor]) -> Any:
    leaves, spec = pytree.tree_flatten(one.result)
    given = iter(tensors)
    return pytree.tree_unflatten([next(given) if isinstance(x, Tensor) else x for x in leaves], spec)


def _bound(names: tuple[str, ...], args: tuple, kwargs: dict[str, Any], defaults: dict[str, Any], what: str
           ) -> list[Any]:
    if len(args) > len(names) or any(k not in names for k in kwargs):
        raise Raised(TypeError(f"{what}() takes {', '.join(names)}"))
    given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
    missing = [n for n in names if n not in given]
    if missing:
        raise Raised(TypeError(f"{what}() missing required argument: {missing[0]!r}"))
    return [given[n] for n in names]


def _check_alike(a: Sequence[Tensor], b: Sequence[Tensor], what: str) -> None:
    alike = len(a) == len(b) and all(
        x.dtype == y.dtype and tuple(x.shape) == tuple(y.shape) for x, y in zip(a, b, strict=True)
    )
    if not alike:
        raise GraphBreak("not modelled", f"{what} gives tensors of other sizes or types from one time to the next")


@special(cond)
def _cond(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    pred, true_fn, false_fn, operands = _bound(
        ("pred", "true_fn", "false_fn", "operands"), args, kwargs, {"operands": ()}, "cond")
    if not isinstance(pred, Tensor):
        return m.call(true_fn if m.truth(pred) else false_fn, tuple(operands), {})
    if not isinstance(operands, (tuple, list)) or pred.numel() != 1:
        raise GraphBreak("exception", "cond is given something else than it takes")
    around = Surroundings(m, [true_fn, false_fn])
    functions = {"cond_true": FunctionGraph(m, true_fn).traced(tuple(operands), "cond"),
                 "cond_false": FunctionGraph(m, false_fn).traced(tuple(operands), "cond")}
    around.check("cond")
    one, other = functions.values()
    if one.spec != other.spec or [p for p in one.places if not isinstance(p, int)] != [
            p for p in other.places if not isinstance(p, int)]:
        raise GraphBreak("not modelled", "the functions of cond return different structures")
    _check_alike(one.tensors, other.tensors, "cond")
    given = tuple(t for t in pytree.tree_leaves(tuple(operands)) if isinstance(t, Tensor))
    result = _record(m, cond_op, functions, lambda graphs, lifted: (pred, *graphs, (*given, *lifted)), one.tensors)
    return _restored(one, result)


@special(while_loop)
def _while_loop(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    cond_fn, body_fn, carried = _bound(("cond_fn", "body_fn", "carried_inputs"), args, kwargs, {}, "while_loop")
    leaves, spec = pytree.tree_flatten(tuple(carried))
    if not leaves or not all(isinstance(t, Tensor) for t in leaves):
        raise GraphBreak("not modelled", "while_loop carries values that are no tensors")
    return pytree.tree_unflatten(_loop(m, cond_fn, body_fn, leaves, spec, ()), spec)


def _loop(m: Machine, cond_fn: Any, body_fn: Any, leaves: Sequence[Tensor], spec: Any, further: Sequence[Tensor]
          ) -> list[Tensor]:
    around = Surroundings(m, [cond_fn, body_fn])
    functions = {}
    for name, function in (("while_loop_cond", cond_fn), ("while_loop_body", body_fn)):
        inside = pytree.tree_unflatten([_like(m, t) for t in leaves], spec)
        given = (*inside, *(_like(m, t) for t in further))
        functions[name] = FunctionGraph(m, function).traced(given, "while_loop")
    around.check("while_loop")
    condition, body = functions.values()
    if len(condition.tensors) != 1 or len(condition.places) != 1:
        raise GraphBreak("not modelled", f"{shown(cond_fn)} does not return one tensor")
    _check_alike(body.tensors, leaves, "while_loop")
    if any(not isinstance(p, int) for p in body.places):
        raise GraphBreak("not modelled", "the body of while_loop returns values that are no tensors")
    return _record(m, while_loop_op, functions,
                   lambda graphs, lifted: (*graphs, tuple(leaves), (*further, *lifted)), body.tensors)


@special(scan)
def _scan(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    combine_fn, init, xs, dim, reverse = _bound(
        ("combine_fn", "init", "xs", "dim", "reverse"), args, kwargs, {"dim": 0, "reverse": False}, "scan")
    carried, carried_spec = pytree.tree_flatten(init)
    members, members_spec = pytree.tree_flatten(xs)
    if not members or not all(isinstance(t, Tensor) for t in (*carried, *members)) or any(
            x.ndim <= dim or x.ndim < -dim or x.shape[dim] != members[0].shape[dim] for x in members):
        raise GraphBreak("exception", "scan is given something else than it takes")
    rows = [m.call(m.load_attr(x, "movedim"), (dim, 0), {}) for x in members]
    rows = [m.call(m.load_attr(x, "flip"), (0,), {}) for x in rows] if reverse else rows
    around = Surroundings(m, [combine_fn])
    inside = [_like(m, t) for t in carried], [_like(m, _slice(x)) for x in rows]
    one = FunctionGraph(m, combine_fn).traced(
        (pytree.tree_unflatten(inside[0], carried_spec), pytree.tree_unflatten(inside[1], members_spec)), "scan")
    around.check("scan")
    if not isinstance(one.result, (tuple, list)) or len(one.result) != 2 \
            or any(not isinstance(p, int) for p in one.places):
        raise GraphBreak("not modelled", "the function of scan does not return a carry and a result, both of tensors")
    if pytree.tree_structure(one.result[0]) != carried_spec:
        raise GraphBreak("exception", "the function of scan returns a carry of another structure")
    _check_alike(one.tensors[:len(carried)], carried, "scan")
    results = _steps(m, one, carried, rows, ())
    ys = [m.call(m.load_attr(y, "flip"), (0,), {}) if reverse else y for y in results[len(carried):]]
    ys = [m.call(m.load_attr(y, "movedim"), (0, dim), {}) for y in ys]
    return (pytree.tree_unflatten(results[:len(carried)], carried_spec),
            pytree.tree_unflatten(ys, pytree.tree_structure(one.result[1])))


@special(map_function)
def _map_over(m: Machine, f: Any, args: tuple, kwargs: dict) -> Any:
    if kwargs or len(args) < 2:
        raise GraphBreak("exception", "map is given something else than it takes")
    function, xs, *rest = args
    members, spec = pytree.tree_flatten(xs)
    leaves, rest_spec = pytree.tree_flatten(tuple(rest))
    if not members or not all(isinstance(t, Tensor) for t in members) or any(
            not x.ndim or x.shape[0] != members[0].shape[0] for x in members):
        raise GraphBreak("exception", "map is given something else than it takes")
    around = Surroundings(m, [function])
    inside = [_like(m, _slice(x)) for x in members]
    further = [t for t in leaves if isinstance(t, Tensor)]
    same = [_like(m, t) if isinstance(t, Tensor) else t for t in leaves]
    given = (pytree.tree_unflatten(inside, spec), *pytree.tree_unflatten(same, rest_spec))
    one = FunctionGraph(m, function).traced(given, "map")
    around.check("map")
    return _restored(one, _steps(m, one, [], members, further))


def _slice(x: Tensor) -> Tensor:
    with without_modes():
        return core.member_like(x)


def _steps(m: Machine, one: FunctionGraph, carried: Sequence[Tensor], rows: Sequence[Tensor], further: Sequence[Tensor]
           ) -> list[Tensor]:
    """The node of a scan; its results are those of all steps."""
    length = rows[0].shape[0]
    with without_modes():
        ys = [t.detach().unsqueeze(0).expand(length, *t.shape).contiguous() for t in one.tensors[len(carried):]]
    return _record(m, scan_op, {"scan_combine": one},
                   lambda graphs, lifted: (*graphs, tuple(carried), tuple(rows), (*further, *lifted)),
                   [*one.tensors[:len(carried)], *ys])


# --- the ops themselves, as graphs call them --------------------------------------------------------------------------


@special(cond_op)
def _cond_op(m: Machine, f: Any, args: tuple, kwargs: dict) -> tuple:
    return tuple(_cond(m, f, args, kwargs))


@special(while_loop_op)
def _while_loop_op(m: Machine, f: Any, args: tuple, kwargs: dict) -> tuple:
    cond_fn, body_fn, carried, further = args
    return tuple(_loop(m, cond_fn, body_fn, list(carried), pytree.tree_structure(tuple(carried)), tuple(further)))


@special(scan_op)
def _scan_op(m: Machine, f: Any, args: tuple, kwargs: dict) -> tuple:
    function, carried, rows, further = args
    around = Surroundings(m, [function])
    given = (*(_like(m, t) for t in carried), *(_like(m, _slice(x)) for x in rows), *(_like(m, t) for t in further))
    one = FunctionGraph(m, function).traced(given, "scan")
    around.check("scan")
    _check_alike(one.tensors[:len(carried)], list(carried), "scan")
    return tuple(_steps(m, one, list(carried), list(rows), list(further)))
