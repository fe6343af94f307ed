"""Lists and dicts that are made, asked and never written: answers without them.

Enters: a graph. Leaves: whether something changed. `len([a, b])` is 2, `[a, b][1]` is b, `[a] + [b]` is one list,
`[a, b, c][1:]` is `[b, c]`, `{"k": v}["k"]` is v.
"""

from __future__ import annotations

from typing import Any

from .. import types as t
from ..constants import constant_of, insert_constant
from ..ir import Graph, Node, Value
from .aliases import Aliases

_NO = object()


def fold_containers(graph: Graph) -> bool:
    """All of it."""
    aliases = Aliases(graph)
    changed = False
    for node in list(graph.all_nodes()):
        if node.inputs_ and node.outputs_ and node.block is not None:
            changed |= _fold(graph, node, aliases)
    return changed


def _fold(graph: Graph, node: Node, aliases: Aliases) -> bool:
    made = node.inputs_[0].node_
    if made.kind_ not in ("prim::ListConstruct", "prim::DictConstruct") or aliases.has_writers(
            node.inputs_[0], deep=False):
        return False
    rule = _RULES.get((made.kind_, node.kind_))
    return rule is not None and rule(graph, node, made, aliases)


def _stand(node: Node, at: int, found: Value) -> bool:
    if not node.outputs_[at].uses_:
        return False
    node.outputs_[at].replace_all_uses_with(found)
    return True


def _constant(graph: Graph, node: Node, held: Any) -> bool:
    if not node.outputs_[0].uses_:
        return False
    with graph.inserting(node), graph.at_range(node.range):
        return _stand(node, 0, insert_constant(graph, held))


def _length(graph: Graph, node: Node, made: Node, aliases: Aliases) -> bool:
    return _constant(graph, node, len(made.inputs_))


def _item(graph: Graph, node: Node, made: Node, aliases: Aliases) -> bool:
    at = constant_of(node.inputs_[1], None)
    if isinstance(at, bool) or not isinstance(at, int) or not -len(made.inputs_) <= at < len(made.inputs_):
        return False
    return _stand(node, 0, made.inputs_[at])


def _unpack(graph: Graph, node: Node, made: Node, aliases: Aliases) -> bool:
    if len(node.outputs_) != len(made.inputs_):
        return False
    return bool(sum(_stand(node, at, value) for at, value in enumerate(made.inputs_)))


def _sum(graph: Graph, node: Node, made: Node, aliases: Aliases) -> bool:
    other = node.inputs_[1].node_
    if other.kind_ != "prim::ListConstruct" or aliases.has_writers(node.inputs_[1], deep=False):
        return False
    return _new_list(graph, node, [*made.inputs_, *other.inputs_])


def _new_list(graph: Graph, node: Node, values: list[Value]) -> bool:
    if not node.outputs_[0].uses_:
        return False
    with graph.inserting(node), graph.at_range(node.range):
        found = graph.insert("prim::ListConstruct", values, node.outputs_[0].type_).outputs_[0]
    return _stand(node, 0, found)


def _slice(graph: Graph, node: Node, made: Node, aliases: Aliases) -> bool:
    bounds = [constant_of(value, _NO) for value in node.inputs_[1:]]
    if not isinstance(node.inputs_[0].type_, t.ListType) or any(bound is _NO for bound in bounds):
        return False
    start, end, step = (bounds + [None, None, 1][len(bounds):])[:3]
    return _new_list(graph, node, made.inputs_[start:end:step])


def _entries(made: Node) -> dict[Any, Value] | None:
    """A dict's entries where all keys are known and differ."""
    keys = [constant_of(key, _NO) for key in made.inputs_[::2]]
    if any(not isinstance(key, (int, float, str, bool)) for key in keys) or len(set(keys)) != len(keys):
        return None
    return dict(zip(keys, made.inputs_[1::2], strict=True))


def _entry(graph: Graph, node: Node, made: Node, aliases: Aliases) -> bool:
    entries, key = _entries(made), constant_of(node.inputs_[1], _NO)
    if entries is None or not isinstance(key, (int, float, str, bool)) or key not in entries:
        return False
    return _stand(node, 0, entries[key])


def _entry_count(graph: Graph, node: Node, made: Node, aliases: Aliases) -> bool:
    entries = _entries(made)
    return entries is not None and _constant(graph, node, len(entries))


_RULES = {
    ("prim::ListConstruct", "aten::len"): _length, ("prim::ListConstruct", "aten::__getitem__"): _item,
    ("prim::ListConstruct", "prim::ListUnpack"): _unpack, ("prim::ListConstruct", "aten::add"): _sum,
    ("prim::ListConstruct", "aten::slice"): _slice, ("prim::DictConstruct", "aten::__getitem__"): _entry,
    ("prim::DictConstruct", "aten::len"): _entry_count,
}
