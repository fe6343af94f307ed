"""What every compiled function goes through before anybody sees it.

Tuples that are only made to be taken apart go, what the compiler can compute of plain numbers and words is computed,
equal constants become one at the head, results of branches and loops stand in the order in which they are used, and
loops that only break leave through their condition.
"""

from __future__ import annotations

from typing import Any

from .. import types as t
from ..constants import constant_of, insert_constant, set_constant
from ..ir import Block, Graph, Node, Value
from ..primitives import FUNCTIONS, TEXTS

_NO = object()
EFFECTS = frozenset(("prim::Print", "prim::RaiseException", "prim::Enter", "prim::Exit", "aten::warn", "prim::SetAttr",
                     "prim::CallFunction", "prim::CallMethod", "prim::PythonOp", "prim::fork", "aten::wait",
                     "aten::manual_seed", "aten::save", "prim::CreateObject"))
_FOLDED = (t.IntType, t.FloatType, t.ComplexType, t.BoolType, t.StringType, t.NoneType, t.NumberType, t.DeviceObjType)


def clean(graph: Graph) -> None:
    """All of it."""
    lower_simple_tuples(graph.block)
    fold_constants(graph)
    drop_dead(graph)
    pool_constants(graph)
    order_outputs(graph.block)


# --- tuples -----------------------------------------------------------------------------------------------------------


def lower_simple_tuples(block: Block) -> None:
    """Take a tuple that was just made apart without making it."""
    for node in list(block.nodes()):
        for inner in node.blocks_:
            lower_simple_tuples(inner)
        if not node.inputs_ or node.inputs_[0].node_.kind_ != "prim::TupleConstruct":
            continue
        made = node.inputs_[0].node_
        if node.kind_ == "prim::TupleUnpack":
            for output, value in zip(node.outputs(), made.inputs_, strict=True):
                if output.has_name() and not value.has_name():
                    value.set_debug_name(output.name)
                output.replace_all_uses_with(value)
            node.destroy()
        elif node.kind_ == "prim::TupleIndex":
            at = constant_of(node.inputs_[1], None)
            if isinstance(at, int):
                node.outputs_[0].replace_all_uses_with(made.inputs_[at])
                node.destroy()


# --- constants --------------------------------------------------------------------------------------------------------


def fold_constants(graph: Graph) -> None:
    """Compute what depends on constants alone and can be no list, dict, object or tensor; choose branches."""
    _fold_block(graph, graph.block)


def _fold_block(graph: Graph, block: Block) -> None:
    for node in list(block.nodes()):
        if node.block is not block:
            continue
        if node.kind_ == "prim::If" and constant_of(node.inputs_[0], None) is not None:
            _take_branch(graph, node)
            continue
        if node.kind_ == "prim::Loop" and _never_turns(node):
            for output, value in zip(node.outputs(), node.inputs_[2:], strict=True):
                output.replace_all_uses_with(value)
            node.destroy()
            continue
        for inner in node.blocks_:
            _fold_block(graph, inner)
        if node.kind_ == "prim::If":
            _drop_same_results(graph, node)
        elif node.kind_ == "prim::Loop":
            _drop_unchanged(node)
        if not node.blocks_:
            _fold_node(graph, node)


def _take_branch(graph: Graph, node: Node) -> None:
    chosen = node.blocks_[0 if constant_of(node.inputs_[0]) else 1]
    _fold_block(graph, chosen)
    for inner in list(chosen.nodes()):
        inner.move_before(node)
    for output, value in zip(node.outputs(), chosen.return_node.inputs_, strict=True):
        output.replace_all_uses_with(value)
    node.destroy()


def _never_turns(node: Node) -> bool:
    count, starts = constant_of(node.inputs_[0], None), constant_of(node.inputs_[1], None)
    return starts is False or (isinstance(count, int) and count <= 0)


def _drop_same_results(graph: Graph, node: Node) -> None:
    """What both branches of an If give alike is no result of it."""
    at = 0
    while at < len(node.outputs_):
        first, second = (block.return_node.inputs_[at] for block in node.blocks_)
        both: Value | None = first if first is second else None
        if both is None and {first.node_.kind_, second.node_.kind_} == {"prim::Constant"} and (
                _constant_key(first.node_) == _constant_key(second.node_)):
            with graph.inserting(node):
                both = graph.insert_node(graph.create_clone(first.node_, {})).outputs_[0]
        if both is None:
            at += 1
            continue
        node.outputs_[at].replace_all_uses_with(both)
        _erase_result(node, at)


def _drop_unchanged(node: Node) -> None:
    """What a loop hands from turn to turn as it is needs no carrying."""
    body = node.blocks_[0]
    for at in reversed(range(len(node.outputs_))):
        inside = body.params.outputs_[1 + at]
        if inside is body.return_node.inputs_[1 + at]:
            first = node.inputs_[2 + at]
            node.outputs_[at].replace_all_uses_with(first)
            inside.replace_all_uses_with(first)
            _erase_result(node, at)


def _erase_result(node: Node, at: int) -> None:
    """A result of an If or a loop away, with all that belongs to it."""
    node.erase_output(at)
    first = 1 if node.kind_ == "prim::Loop" else 0
    for block in node.blocks_:
        block.return_node.remove_input(first + at)
    if node.kind_ == "prim::Loop":
        node.remove_input(2 + at)
        node.blocks_[0].params.erase_output(1 + at)


def _fold_node(graph: Graph, node: Node) -> None:
    if node.kind_ == "prim::Constant" or node.kind_ in EFFECTS or len(node.outputs_) != 1:
        return
    output = node.outputs_[0]
    if not _is_plain(output.type_) or not all(_is_plain(value.type_) for value in node.inputs_):
        return
    values = [constant_of(value, _NO) for value in node.inputs_]
    if any(value is _NO for value in values):
        return
    result = run_plain(node, values)
    if result is _NO:
        return
    with graph.inserting(node), graph.at_range(node.range):
        made = graph.create("prim::Constant")
        if not set_constant(made, result, output.type_ if not isinstance(output.type_, t.NumberType) else None):
            made.remove_all_inputs()
            return
        graph.insert_node(made)
    if output.has_name():
        name = output.name
        output.set_debug_name("")
        made.outputs_[0].set_debug_name(name)
    output.replace_all_uses_with(made.outputs_[0])
    node.destroy()


def _is_plain(type: t.Type) -> bool:
    if isinstance(type, (t.TupleType, t.OptionalType)):
        return all(map(_is_plain, type.contained()))
    return isinstance(type, _FOLDED)


def run_plain(node: Node, values: list[Any]) -> Any:
    """What a node over plain values gives; `_NO` where only running it can tell."""
    if node.kind_ == "prim::TupleConstruct":
        return tuple(values)
    if node.kind_ in ("prim::Uninitialized", "prim::Load"):
        return _NO
    function = FUNCTIONS.get(node.kind_)
    try:
        if function is not None:
            return function(*values)
        text = TEXTS.get(node.kind_)
        simple = {"({0} + {1})": lambda a, b: a + b, "({0} - {1})": lambda a, b: a - b,
                  "({0} * {1})": lambda a, b: a * b, "(-{0})": lambda a: -a, "({0} // {1})": lambda a, b: a // b,
                  "({0} % {1})": lambda a, b: a % b,
                  "({0} < {1})": lambda a, b: a < b, "({0} <= {1})": lambda a, b: a <= b,
                  "({0} > {1})": lambda a, b: a > b, "({0} >= {1})": lambda a, b: a >= b,
                  "({0} == {1})": lambda a, b: a == b, "({0} != {1})": lambda a, b: a != b,
                  "(not {0})": lambda a: not a, "({0} is {1})": lambda a, b: a is b,
                  "({0} is not {1})": lambda a, b: a is not b, "len({0})": len, "{0}[{1}]": lambda a, b: a[b],
                  "{0}": lambda a: a}
        return simple[text](*values) if text in simple else _NO
    except Exception:  # noqa: BLE001 - whatever it raises, it raises when it runs
        return _NO


def pool_constants(graph: Graph) -> None:
    """Equal constants become one; all stand at the head."""
    known: dict[Any, Value] = {}
    _pool_block(graph, graph.block, known)


def _pool_block(graph: Graph, block: Block, known: dict[Any, Value]) -> None:
    for node in list(block.nodes()):
        for inner in node.blocks_:
            _pool_block(graph, inner, known)
        if node.kind_ != "prim::Constant":
            continue
        key = _constant_key(node)
        if key is None:
            continue
        output = node.outputs_[0]
        if key in known:
            if output.has_name() and not known[key].has_name():
                name = output.name
                output.set_debug_name("")
                known[key].set_debug_name(name)
            output.replace_all_uses_with(known[key])
            node.destroy()
            continue
        known[key] = output
        first = graph.block.params.next_
        if node is not first:
            node.move_before(first)  # type: ignore[arg-type]


def _constant_key(node: Node) -> Any:
    if node.pyobj is not None:
        return ("function", id(node.pyobj))
    held = node.attributes.get("value", _NO)
    kind = node.attribute_kinds.get("value", "")
    if kind == "t":
        return ("tensor", id(held))
    try:
        hash(held)
    except TypeError:
        held = repr(held)
    return (node.outputs_[0].type_, kind, repr(held) if isinstance(held, float) else held)


# --- dead code --------------------------------------------------------------------------------------------------------


def drop_dead(graph: Graph) -> None:
    """Nodes without effect whose results nobody reads, and what loops carry for nobody."""
    while _drop_in(graph.block):
        pass


def _drop_in(block: Block) -> bool:
    changed = False
    for node in list(block.reversed_nodes()):
        changed |= _drop_results(node)
        for inner in node.blocks_:
            changed |= _drop_in(inner)
        if not node.has_uses() and not has_effect(node):
            node.destroy()
            changed = True
    return changed


def _drop_results(node: Node) -> bool:
    """Results of an If or a loop that nobody reads."""
    if node.kind_ not in ("prim::If", "prim::Loop"):
        return False
    dead = [at for at, output in enumerate(node.outputs_) if not output.uses_ and (
        node.kind_ == "prim::If" or not _is_read(node, at))]
    for at in reversed(dead):
        _erase_result(node, at)
    return bool(dead)


def _is_read(node: Node, at: int) -> bool:
    """Whether a turn of a loop does more with something it carries than hand it on as itself."""
    body = node.blocks_[0]
    return any(user is not body.return_node or offset != 1 + at for user, offset in body.params.outputs_[1 + at].uses_)


def has_effect(node: Node) -> bool:
    """Whether a node does more than compute what it returns."""
    if node.kind_ in EFFECTS or (node.kind_.endswith("_") and not node.kind_.endswith("__")):
        return True
    if node.kind_ in ("prim::Loop",) and any(has_effect(inner) for block in node.blocks_ for inner in block.nodes()):
        return True
    if node.blocks_ and any(has_effect(inner) for block in node.blocks_ for inner in block.nodes()):
        return True
    return node.kind_ in _WRITES


_WRITES = frozenset(f"aten::{name}" for name in (
    "append", "insert", "extend", "remove", "reverse", "update", "sort", "pop", "popitem", "Delete", "clear",
    "_set_item", "setdefault", "index_put_", "copy_"))


# --- order ------------------------------------------------------------------------------------------------------------


def order_outputs(block: Block) -> None:
    """Results of branches and loops in the order of their first use."""
    for node in list(block.nodes()):
        if node.kind_ == "prim::If":
            _reorder(node, 0, 0)
        elif node.kind_ == "prim::Loop":
            _reorder(node, 2, 1)
        for inner in node.blocks_:
            order_outputs(inner)


def _reorder(node: Node, inputs: int, block_outputs: int) -> None:
    """Sort a node's results by first use; `inputs` come before those it carries, likewise in its block."""
    def first_use(at: int) -> tuple[int, Any, int]:
        uses = node.outputs_[at].uses_
        if not uses:
            return (1, 0, at)
        best = uses[0]
        for use in uses[1:]:
            if (use.user is best.user and use.offset < best.offset) or use.user.is_before(best.user):
                best = use
        return (0, _Place(best.user, best.offset), at)

    order = sorted(range(len(node.outputs_)), key=first_use)
    if order == list(range(len(order))):
        return
    node.outputs_ = [node.outputs_[at] for at in order]
    for offset, output in enumerate(node.outputs_):
        output.offset = offset
    for block in node.blocks_:
        results = block.outputs()
        block.return_node.remove_all_inputs()
        for value in [*results[:block_outputs], *(results[block_outputs + at] for at in order)]:
            block.register_output(value)
    if node.kind_ == "prim::Loop":
        given, body = node.inputs(), node.blocks_[0]
        node.remove_all_inputs()
        for value in [*given[:inputs], *(given[inputs + at] for at in order)]:
            node.add_input(value)
        params = body.params.outputs_
        body.params.outputs_ = [params[0], *(params[1 + at] for at in order)]
        for offset, output in enumerate(body.params.outputs_):
            output.offset = offset


class _Place:
    """A use, compared by where it stands."""

    def __init__(self, node: Node, offset: int) -> None:
        self.node, self.offset = node, offset

    def __lt__(self, other: _Place) -> bool:
        if self.node is other.node:
            return self.offset < other.offset
        return self.node.is_before(other.node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place) and self.node is other.node and self.offset == other.offset


def canonicalize_loops(graph: Graph, block: Block) -> None:
    """A counted loop whose turns may end it becomes a plain while: its own counter, one condition."""
    for node in list(block.nodes()):
        for inner in node.blocks_:
            canonicalize_loops(graph, inner)
        if node.kind_ == "prim::Loop" and _is_modified(node):
            _as_while(graph, node)


def _is_modified(node: Node) -> bool:
    """A counted loop with a condition that changes."""
    counted = constant_of(node.inputs_[0], None) != 2**63 - 1
    return counted and constant_of(node.blocks_[0].return_node.inputs_[0], None) is not True


def _as_while(graph: Graph, node: Node) -> None:
    body, count = node.blocks_[0], node.inputs_[0]
    with graph.inserting(node), graph.at_range(None):
        zero, one = insert_constant(graph, 0), insert_constant(graph, 1)
        any_left = graph.insert("aten::gt", [count, zero], t.BoolType()).outputs_[0]
        started = any_left
        if constant_of(node.inputs_[1], None) is not True:
            started = graph.insert("aten::__and__", [any_left, node.inputs_[1]], t.BoolType()).outputs_[0]
        forever = insert_constant(graph, 2**63 - 1)
    node.replace_input(0, forever)
    node.replace_input(1, started)
    node.add_input(zero)
    index = body.add_input("", t.IntType())
    counter = body.params.outputs_[0]
    counter.replace_all_uses_with(index)
    if counter.has_name():
        name = counter.name
        counter.set_debug_name("")
        index.set_debug_name(name)
    with graph.inserting(body), graph.at_range(None):
        following = graph.insert("aten::add", [index, one], t.IntType()).outputs_[0]
        left = graph.insert("aten::lt", [following, count], t.BoolType()).outputs_[0]
        goes_on = graph.insert("aten::__and__", [left, body.return_node.inputs_[0]], t.BoolType()).outputs_[0]
    body.return_node.replace_input(0, goes_on)
    body.register_output(following)
    node.add_output(t.IntType())
