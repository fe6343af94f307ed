"""Values put to places of a tensor, by any body.

Enters: flat tensors, for each update the places of its elements, and a body that makes a new element from an old one
and an update. Leaves: one ATen call where the body is a sum, product, largest, smallest or the update itself; where
places are unique, or the body is another, the body over gathered elements, one update after the other if need be.
Places beyond the end are left out. Refuses bodies that are not made of element-wise operations.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ..._higher_order_ops.while_loop import while_loop_op
from ...fx import Node
from ..syntax import Block
from .writer import Writer, dtype, free_values

REDUCE = {"multiply": "prod", "maximum": "amax", "minimum": "amin"}
BOOLEAN = {"add": "maximum", "or": "maximum", "and": "minimum", "multiply": "minimum"}


def single(block: Block, i: int, count: int) -> str | None:
    """The operation that alone makes result `i` from its two arguments; "" where the result is the second one."""
    left, right = block.arguments[i], block.arguments[count + i]
    result = block.operations[-1].operands[i]
    if result is right:
        return ""
    made = next((o for o in block.operations if result in o.results), None)
    if made is None or len(made.operands) != 2 or {*made.operands} != {left, right}:
        return None
    name = made.name.partition(".")[2]
    ordered = made.operands == [left, right]
    return name if name in ("add", "multiply", "maximum", "minimum", "and", "or") or (
        name == "subtract" and ordered) else None


def scattered(w: Writer, bases: list[Node], totals: list[Any], places: Node, updates: list[Node],
              block: Block, elements: list[str], unique: bool) -> list[Node]:
    """`bases`: [total] each; `places`, `updates`: [updates, elements of one]. A place that is the total is none."""
    count = len(bases)
    names = [named(block, i, count, elements[i]) for i in range(count)]
    if all(n is not None for n in names):
        return [known(w, n or "", base, total, places, new, element) for n, base, total, new, element in zip(
            names, bases, totals, updates, elements, strict=True)]
    longer = [w("constant_pad_nd.default", base, [0, 1], 0) for base in bases]
    result = at_once(w, longer, places, updates, block) if unique else in_turns(w, longer, places, updates, block)
    return [w("slice.Tensor", x, 0, 0, total) for x, total in zip(result, totals, strict=True)]


def named(block: Block, i: int, count: int, element: str) -> str | None:
    """How one result is made, if there is a call for it."""
    name = single(block, i, count)
    if name is None or name == "":
        return name
    name = BOOLEAN.get(name, name) if element == "i1" else name
    return name if name in REDUCE or name in ("add", "subtract") else None


def known(w: Writer, name: str, base: Node, total: Any, places: Node, new: Node, element: str) -> Node:
    """A scatter that has a name."""
    flat, values = w("reshape.default", places, [-1]), w("reshape.default", new, [-1])
    if name == "subtract":
        name, values = "add", w("neg.default", values)
    longer = w("constant_pad_nd.default", base, [0, 1], 0)
    if name in REDUCE and element == "i1":
        whole = [w("_to_copy.default", x, dtype=dtype("ui8")) for x in (longer, values)]
        result = w("ne.Scalar", w("scatter_reduce.two", whole[0], 0, flat, whole[1], REDUCE[name]), 0)
    elif name in REDUCE:
        result = w("scatter_reduce.two", longer, 0, flat, values, REDUCE[name])
    else:
        result = w("index_put.default", longer, [flat], values, name == "add")
    return w("slice.Tensor", result, 0, 0, total)


def at_once(w: Writer, longer: Sequence[Node], places: Node, updates: Sequence[Node], block: Block) -> list[Node]:
    """Updates of which no two have one place."""
    flat = w("reshape.default", places, [-1])
    old = [w("index.Tensor", x, [flat]) for x in longer]
    new = [w("reshape.default", x, [-1]) for x in updates]
    made = w.lift(block, [*old, *new], [w("sym_size.int", flat, 0)])
    return [w("index_put.default", x, [flat], value) for x, value in zip(longer, made, strict=True)]


def in_turns(w: Writer, longer: list[Node], places: Node, updates: list[Node], block: Block
             ) -> list[Node]:
    """One update after the other, in a loop: its elements have places of their own."""
    captured = free_values([block])
    number = w.scalar(0, "i64")
    count = w("full.default", [], w("sym_size.int", places, 0), dtype=dtype("i64"), device=w.device)

    def more(inside: Writer, i: Node, *given: Node) -> list[Node]:
        return [inside("lt.Tensor", i, given[len(longer)])]

    def step(inside: Writer, i: Node, *given: Node) -> list[Node]:
        current, (at, *new) = given[:len(longer)], given[len(longer) + 1:]
        turn = inside("view.default", i, [1])
        row = inside("select.int", inside("index_select.default", at, 0, turn), 0, 0)
        values = [inside("select.int", inside("index_select.default", x, 0, turn), 0, 0) for x in new]
        made = at_once(inside, current, row, values, block)
        return [inside("add.Scalar", i, 1), *made]

    further = [count, places, *updates]
    arguments = [number, *longer, *further]
    graphs = [w.inner_of(more, captured, arguments, "condition", alone=True),
              w.inner_of(step, captured, arguments, "body")]
    outside = tuple([w.nodes[v] for v in captured])
    result = w.node(while_loop_op, *graphs, (number, *longer), (*further, *outside))
    return [w.node(operator.getitem, result, i + 1) for i in range(len(longer))]
