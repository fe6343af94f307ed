"""Control: calls, branches, loops, tuples.

Enters: operations with regions, or names of functions. Leaves: functions written where they are called, branches as
`cond` and loops as `while_loop` over inner graphs; what a loop hands on unchanged is no part of what it carries. In a
body for many elements at once both branches are computed and one is chosen. Refuses functions that call themselves.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ..._higher_order_ops.cond import cond_op
from ..._higher_order_ops.while_loop import while_loop_op
from ...fx import Node
from ..syntax import Block, Operation, TupleType, Value
from ..types import TensorType
from .table import body, op, regions, require, scalar, tensors
from .writer import Writer, free_values, leaves


def _called(o: Operation) -> None:
    return None      # the verifier, who knows the functions, has compared the types


@op("func.call composite", _called, lifts=True)
def call(w: Writer, o: Operation, *operands: Any) -> list[Any]:
    name = o.symbol("callee" if o.name == "func.call" else "decomposition")
    if name in w.calls:
        raise o.error(f"@{name} calls itself")
    w.calls.append(name)
    if len(w.calls) > 64:
        raise o.refusal("calls are nested more than 64 deep")
    found = w.apply(w.module.functions[name].blocks[0], operands)
    w.calls.pop()
    return found


# --- tuples -----------------------------------------------------------------------------------------------------------


def _tuple(o: Operation) -> list[Any]:
    return [TupleType(tuple(o.types))]


@op("tuple", _tuple, lifts=True)
def make_tuple(w: Writer, o: Operation, *operands: Any) -> Any:
    return operands


def _item(o: Operation) -> list[Any]:
    kind = o.types[0] if len(o.operands) == 1 else None
    if not isinstance(kind, TupleType):
        raise o.error("expected one tuple as operand")
    index = o.integer("index", bits=32)
    require(o, 0 <= index < len(kind.items), f"a tuple of {len(kind.items)} has no element {index}")
    return [kind.items[index]]


@op("get_tuple_element", _item, lifts=True)
def get_tuple_element(w: Writer, o: Operation, given: Any) -> Any:
    return [given[o.integer("index", bits=32)]]


def _barrier(o: Operation) -> list[Any]:
    return o.types


@op("optimization_barrier", _barrier, lifts=True)
def optimization_barrier(w: Writer, o: Operation, *operands: Any) -> list[Any]:
    return list(operands)


# --- branches ---------------------------------------------------------------------------------------------------------


def _branches(o: Operation, count: int, element: str) -> list[Any]:
    kind = scalar(o, tensors(o, 1)[0], "what decides")
    require(o, kind.element == element, f"what decides must have elements of {element}, got {kind}")
    regions(o, count)
    first = body(o, 0, [])
    for i in range(1, count):
        body(o, i, [], first)
    return first


def _if(o: Operation) -> list[Any]:
    return _branches(o, 2, "i1")


def _case(o: Operation) -> list[Any]:
    require(o, len(o.blocks) >= 1, "expected at least one region")
    return _branches(o, len(o.blocks), "i32")


@op("if", _if, lifts=True)
def if_(w: Writer, o: Operation, pred: Node) -> list[Any]:
    return branch(w, o, pred, o.blocks[0], o.blocks[1])


@op("case", _case, lifts=True)
def case(w: Writer, o: Operation, index: Node) -> list[Any]:
    """Any index without a branch takes the last one."""
    return one_of(w, o, index, 0)


def one_of(w: Writer, o: Operation, index: Node, first: int) -> list[Any]:
    if first == len(o.blocks) - 1:
        return w.apply(o.blocks[first], [])
    chosen = w("eq.Scalar", index, first)
    if first == len(o.blocks) - 2:
        return branch(w, o, chosen, o.blocks[first], o.blocks[first + 1])
    if w.batched is not None:
        return chosen_of(w, chosen, w.apply(o.blocks[first], []), one_of(w, o, index, first + 1))
    captured = free_values(o.blocks[first:])
    then = w.inner_of(lambda inside, _: inside.apply(o.blocks[first], []), captured, [index], "branch")
    rest = w.inner_of(lambda inside, given: one_of(inside, o, given, first + 1), captured, [index], "branch")
    return results_of(w, o, w.node(cond_op, chosen, then, rest, (index, *operands_of(w, captured))))


def branch(w: Writer, o: Operation, pred: Node, then: Block, otherwise: Block) -> list[Any]:
    """One of two blocks."""
    if w.batched is not None:
        return chosen_of(w, pred, w.apply(then, []), w.apply(otherwise, []))
    captured = free_values([then, otherwise])
    graphs = [w.inner(b, [], captured, "branch") for b in (then, otherwise)]
    return results_of(w, o, w.node(cond_op, pred, *graphs, operands_of(w, captured)))


def results_of(w: Writer, o: Operation, result: Node) -> list[Any]:
    """The results of a branch, which are flat, as the types say."""
    flat = iter([w.node(operator.getitem, result, i) for i in range(sum(count(v.type) for v in o.results))])

    def built(kind: Any) -> Any:
        return tuple([built(k) for k in kind.items]) if isinstance(kind, TupleType) else next(flat)

    return [built(v.type) for v in o.results]


def count(kind: Any) -> int:
    return sum(map(count, kind.items)) if isinstance(kind, TupleType) else 1


def chosen_of(w: Writer, pred: Node, first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    assert w.batched is not None
    found = [w("where.self", pred, a, b) for a, b in zip(first, second, strict=True)]
    if pred in w.batched or any(n in w.batched for n in (*first, *second)):
        w.batched.update(found)
    return found


def operands_of(w: Writer, captured: Sequence[Value]) -> tuple[Node, ...]:
    return tuple([n for v in captured for n in leaves(w.nodes[v])])


# --- loops ------------------------------------------------------------------------------------------------------------


def _while(o: Operation) -> list[Any]:
    types = tensors(o, 0, 1 << 30)
    regions(o, 2)
    decided = body(o, 0, types)
    require(o, len(decided) == 1 and decided[0] == TensorType((), "i1"),
            f"the first region must return tensor<i1>, got ({', '.join(map(str, decided))})")
    body(o, 1, types, types)
    return types


@op("while", _while)
def while_(w: Writer, o: Operation, *operands: Node) -> list[Any]:
    condition, step = o.blocks
    returned = step.operations[-1].operands
    carried = [i for i, v in enumerate(returned) if v is not step.arguments[i]]
    fixed = [i for i in range(len(returned)) if i not in carried]
    captured = free_values(o.blocks)
    graphs = []
    for block, results, prefix in ((condition, None, "condition"), (step, carried, "body")):
        arguments = [block.arguments[i] for i in (*carried, *fixed)]
        graphs.append(w.inner(block, arguments, captured, prefix, results))
    further = (*[operands[i] for i in fixed], *operands_of(w, captured))
    result = w.node(while_loop_op, *graphs, tuple([operands[i] for i in carried]), further)
    found: list[Any] = list(operands)
    for place, i in enumerate(carried):
        found[i] = w.node(operator.getitem, result, place)
    return found


# --- map --------------------------------------------------------------------------------------------------------------


def _mapped(o: Operation) -> list[TensorType]:
    types = tensors(o, 1, 1 << 30)
    require(o, all(t.shape == types[0].shape for t in types), "operands must have one shape")
    require(o, sorted(o.integers("dimensions")) == list(range(len(types[0].shape))), "dimensions must be all of them")
    regions(o, 1)
    found = body(o, 0, [TensorType((), t.element) for t in types])
    require(o, len(found) == 1 and isinstance(found[0], TensorType) and found[0].shape == (),
            "its region must return one tensor without dimensions")
    return [TensorType(types[0].shape, found[0].element)]


@op("map", _mapped)
def map_(w: Writer, o: Operation, *operands: Node) -> Node:
    return w.lift(o.blocks[0], operands, w.shape(operands[0], o.types[0]))[0]
