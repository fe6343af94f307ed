"""What depends on constants alone is computed once, and branches and loops that constants decide are decided.

Enters: a graph. Leaves: whether something changed. Nodes are run by the executor itself. Values that somebody may write
to are left alone; without `with_aliases`, so is everything that can be written to at all (what every compiled function
goes through). What raises is left to raise when it runs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from .. import types as t
from ..constants import constant_of, set_constant, type_of
from ..ir import Block, Graph, Node, Value
from ..primitives import FUNCTIONS, TEXTS
from .aliases import Aliases, may_change
from .dead_code import drop_dead
from .effects import has_side_effects, is_random

_NO = object()
_SKIPPED = frozenset((
    "aten::format", "aten::percentFormat", "aten::is_grad_enabled", "prim::If", "prim::Loop",
    "prim::Closure", "prim::Constant", "prim::AutogradZero", "prim::Load", "prim::Store",
    "prim::Uninitialized", "prim::Guard", "prim::profile", "aten::dequantize",
    "prim::unchecked_unwrap_optional", "prim::awaitable", "prim::CreateObject", "prim::GetAttr",
    "prim::fork", "aten::wait", "prim::Enter"))


def propagate_constants(graph: Graph, *, with_aliases: bool = True) -> bool:
    """All of it, and what is dead afterwards is dropped."""
    changed = _Propagation(graph, with_aliases).block(graph.block)
    if changed:
        drop_dead(graph)
    return changed


class _Propagation:
    def __init__(self, graph: Graph, with_aliases: bool) -> None:
        self.graph = graph
        self.aliases = Aliases(graph) if with_aliases else None

    def block(self, block: Block) -> bool:
        changed = False
        for node in list(block.nodes()):
            if node.block is block:
                changed |= self.node(node)
        return changed

    def node(self, node: Node) -> bool:
        if node.kind_ == "prim::If":
            return self.branch(node)
        if node.kind_ == "prim::Loop":
            return self.loop(node)
        changed = False
        for inner in node.blocks_:
            changed |= self.block(inner)
        return self.fold(node) or changed if self.may_run(node) else changed

    # --- control flow
    def branch(self, node: Node) -> bool:
        held = constant_of(node.inputs_[0], None)
        if held is not None:
            chosen = node.blocks_[0 if held else 1]
            self.block(chosen)
            take_branch(node, bool(held))
            return True
        changed = bool(sum(self.block(inner) for inner in node.blocks_))
        return drop_equal_results(node) or changed

    def loop(self, node: Node) -> bool:
        never = constant_of(node.inputs_[1], None) is False or _at_most_zero(constant_of(node.inputs_[0], None))
        if never:
            for output, given in zip(node.outputs(), node.inputs_[2:], strict=True):
                output.replace_all_uses_with(given)
            node.destroy()
            return True
        changed = self.block(node.blocks_[0])
        return self._drop_unchanged(node) or changed

    def _drop_unchanged(self, node: Node) -> bool:
        """What every turn hands on as it came in is no value of the loop."""
        body, changed = node.blocks_[0], False
        for at in reversed(range(len(node.outputs_))):
            inside, left = body.params.outputs_[1 + at], body.return_node.inputs_[1 + at]
            given = node.inputs_[2 + at]
            if left is inside or left is given:
                node.outputs_[at].replace_all_uses_with(given)
                inside.replace_all_uses_with(given)
                node.erase_output(at)
                body.return_node.remove_input(1 + at)
                body.params.erase_output(1 + at)
                node.remove_input(2 + at)
                changed = True
        return changed

    # --- nodes
    def may_run(self, node: Node) -> bool:
        if node.kind_ in _SKIPPED or not node.outputs_ or node.blocks_ or has_side_effects(node) or is_random(node):
            return False
        if self.aliases is None:
            return not any(may_change(value.type_) for value in (*node.inputs_, *node.outputs_))
        return not self.aliases.node_has_writers(node)

    def fold(self, node: Node) -> bool:
        values = [constant_of(value, _NO) for value in node.inputs_]
        if any(value is _NO for value in values):
            return False
        found = run_node(node, values)
        if found is _NO:
            return False
        results = [found] if len(node.outputs_) == 1 else list(found)
        made: list[Value] = []
        with self.graph.inserting(node), self.graph.at_range(node.range):
            for output, result in zip(node.outputs_, results, strict=True):
                constant = self.graph.create("prim::Constant")
                if not set_constant(constant, result, result_type(output.type_, result)):
                    for value in made:
                        value.node_.destroy()
                    return False
                made.append(self.graph.insert_node(constant).outputs_[0])
        for output, value in zip(node.outputs(), made, strict=True):
            if output.has_name():
                name = output.name
                output.set_debug_name("")
                value.set_debug_name(name)
            output.replace_all_uses_with(value)
            if self.aliases is not None:
                self.aliases.replace(output, value)
        node.destroy()
        return True


def result_type(given: t.Type, held: Any) -> t.Type | None:
    """The type of a constant that stands for a value: what a number or a tensor turned out to be, else the value's."""
    if isinstance(given, (t.NumberType, t.TensorType, t.AnyType)) or (isinstance(given, t.UnionType)):
        return None if held is not None else t.NoneType()
    if isinstance(given, t.TupleType) and not given.name:
        parts = [result_type(type, item) or type_of(item) or type
                 for type, item in zip(given.elements_, held, strict=True)]
        return t.TupleType(parts)
    return given


def _at_most_zero(held: Any) -> bool:
    return isinstance(held, int) and held <= 0


def take_branch(node: Node, is_true: bool) -> None:
    """The nodes of one branch in place of a choice that is known."""
    chosen = node.blocks_[0 if is_true else 1]
    for inner in list(chosen.nodes()):
        inner.move_before(node)
    for output, value in zip(node.outputs(), chosen.return_node.inputs_, strict=True):
        output.replace_all_uses_with(value)
    node.destroy()


def drop_equal_results(node: Node) -> bool:
    """Results that are the same in both branches are not results of the choice."""
    at, before = 0, len(node.outputs_)
    while at < len(node.outputs_):
        first, second = (block.return_node.inputs_[at] for block in node.blocks_)
        both = first if first is second else None
        if both is None and _same_constant(first, second):
            with node.graph.inserting(node):
                both = node.graph.insert_node(node.graph.create_clone(first.node_, {})).outputs_[0]
        if both is None:
            at += 1
            continue
        node.outputs_[at].replace_all_uses_with(both)
        node.erase_output(at)
        for block in node.blocks_:
            block.return_node.remove_input(at)
    return len(node.outputs_) != before


def _same_constant(a: Value, b: Value) -> bool:
    first, second = constant_of(a, _NO), constant_of(b, _NO)
    if first is _NO or second is _NO or a.type_ != b.type_ or may_change(a.type_):
        return False
    return first is second or (type(first) is type(second) and repr(first) == repr(second))


def run_node(node: Node, values: list[Any]) -> Any:
    """What a node gives for some values; `_NO` where it raises, or where only running the program can tell."""
    if node.kind_ == "prim::TupleConstruct":
        owner = getattr(node.outputs_[0].type_, "python_class", None)
        return tuple(values) if owner is None else owner(*values)
    try:
        if not any(may_change(value.type_) for value in node.inputs_):
            function = FUNCTIONS.get(node.kind_) or _written(TEXTS.get(node.kind_, ""))
            if function is not None:
                return function(*values)
        return _run_alone(node)
    except Exception:  # noqa: BLE001 - whatever it raises, it raises when it runs
        return _NO


@functools.cache
def _written(text: str) -> Callable[..., Any] | None:
    """A builtin that is written out, as a function; None for no text."""
    names = sorted(set(re.findall(r"{(\d)}", text)))
    row = [f"a{name}" for name in names]
    return eval(f"lambda {', '.join(row)}: {text.format(*row)}") if text else None  # noqa: S307 - text of our own table


def _run_alone(node: Node) -> Any:
    """Through the executor: a program of this one node."""
    from ..execute import Program

    alone = Graph()
    given = {}
    for value in node.inputs_:
        if value not in given:
            given[value] = alone.insert_node(alone.create_clone(value.node_, {})).outputs_[0]
    copy = alone.insert_node(alone.create_clone(node, given))
    for output in copy.outputs_:
        alone.register_output(output)
    return Program(alone).run()


