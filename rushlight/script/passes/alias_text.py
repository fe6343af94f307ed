"""What is known of a graph's memory, for programs to ask and print: `graph.alias_db()`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ir import Graph, Node, Value
from .aliases import Aliases, Spot, meet


class AliasDb:
    """The questions of `torch._C.AliasDb`."""

    def __init__(self, graph: Graph, is_frozen: bool = False) -> None:
        self._graph, self._known = graph, Aliases(graph, is_frozen)

    def has_writers(self, what: Node | Value) -> bool:
        """Whether a value, or what a node reads or makes, may be written."""
        return self._known.node_has_writers(what) if isinstance(what, Node) else self._known.has_writers(what)

    def may_contain_alias(self, a: Value | Iterable[Value], b: Value | Iterable[Value]) -> bool:
        """Whether something in or of the first may be in or of the second."""
        first, second = ([each] if isinstance(each, Value) else list(each) for each in (a, b))
        return self._known.may_contain_alias(first, second)

    def _moves(self, node: Node, place: Node, behind: bool) -> bool:
        """Whether a node may stand beside another of its block: nothing between depends on it, nor it on that."""
        if node.block is not place.block:
            return False
        first, last = (node, place) if node.is_before(place) else (place, node)
        between: list[Node] = []
        each = first.next_
        while each is not None and each is not last:
            between.append(each)
            each = each.next_
        if (node is first and behind) or (node is last and not behind):
            between.append(place)
        return not any(self._depend(node, other) for other in between)

    def _depend(self, a: Node, b: Node) -> bool:
        known = self._known
        if set(a.inputs_) & set(b.outputs_) or set(b.inputs_) & set(a.outputs_):
            return True
        return (meet(known.written(a), known.may_read(b)) or meet(known.written(b), known.may_read(a)) or
                meet(known.written(a), known.written(b)))

    def move_after_topologically_valid(self, node: Node, place: Node) -> bool:
        """Move a node behind another where that changes nothing; whether it was moved."""
        if not self._moves(node, place, behind=True):
            return False
        node.move_after(place)
        return True

    def move_before_topologically_valid(self, node: Node, place: Node) -> bool:
        """Move a node in front of another where that changes nothing; whether it was moved."""
        if not self._moves(node, place, behind=False):
            return False
        node.move_before(place)
        return True

    # --- text
    def dump(self) -> None:
        print(f"\n===1. GRAPH===\n{self._graph}\n===2. ALIAS DB===")
        for value, spot in self._known.spots.items():
            if spot.targets:
                print(f"%{value.debug_name()} points to: {self._row(spot.targets)}")
            if spot.inside:
                print(f"%{value.debug_name()} contains: {self._row(spot.inside)}")
        print("\n===3. Writes===")
        for node in self._known.writes:
            print(f"{str(node).strip()}\n  {self._row(self._known.written(node))}")
        print()

    def _row(self, spots: Iterable[Spot]) -> str:
        names: dict[Any, str] = {spot: f"%{value.debug_name()}" for value, spot in self._known.spots.items()}
        return ", ".join(sorted(names.get(spot) or f"WILDCARD for type {spot.key}" for spot in spots))

    def to_graphviz_str(self) -> str:
        """Who may be what, for `dot`."""
        lines = ["digraph alias_db {"]
        for value, spot in self._known.spots.items():
            name = f'"%{value.debug_name()}"'
            lines += [f'  {name} -> "{self._row([target])}"' for target in spot.targets]
            lines += [f'  {name} -> "{self._row([inner])}" [style=dashed]' for inner in spot.inside]
        return "\n".join([*lines, "}"]) + "\n"
