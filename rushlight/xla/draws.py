"""Random numbers of graphs: drawn from the host's generator, and given to programs as inputs.

Enters: graphs. Leaves: graphs that draw nothing, and the calls that draw, in order. Refuses: numbers that depend on
what the graph computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _C
from ..fx.node import Node, _draws, map_arg


class Draw:
    """A call that draws random numbers, to be made on the host: tensors that only say what the result is like are made
    anew for it."""

    def __init__(self, node: Node, place: dict[Node, int]) -> None:
        name = node.target.__name__.partition(".")[0]
        self.shapes_only = name.endswith(("_like", "_")) and not name.startswith("__")
        self.target, self.kwargs = node.target, dict(node.kwargs)
        self.args = map_arg(node.args, lambda n: self._argument(n, place))

    def _argument(self, n: Node, place: dict[Node, int]) -> Any:
        if n in place:
            return _Input(place[n])
        value = n.meta.get("val")
        if self.shapes_only and isinstance(value, _C.Tensor):
            return _Like(tuple(value.shape), value.dtype)
        raise NotImplementedError(
            f"xla: {self.target} draws random numbers from what {n.name} computes, and XLA's"
            " programs draw none. Draw them outside of what is compiled.")

    def __call__(self, inputs: Sequence[Any]) -> Any:
        def value(a: Any) -> Any:
            if isinstance(a, _Input):
                given = inputs[a.place]
                return given.detach().clone() if isinstance(given, _C.Tensor) and self.shapes_only else given
            if isinstance(a, _Like):
                return _C.empty(a.shape, None, a.dtype, None)
            return type(a)(map(value, a)) if isinstance(a, (list, tuple)) else a

        return self.target(*[value(a) for a in self.args], **self.kwargs)


class _Input:
    def __init__(self, place: int) -> None:
        self.place = place


class _Like:
    def __init__(self, shape: tuple, dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype


def lift_draws(gm: Any) -> list[Draw]:
    """Make what draws random numbers inputs of the graph, behind the others."""
    place = {n: k for k, n in enumerate(gm.graph.find_nodes(op="placeholder"))}
    drawn = [n for n in gm.graph.nodes if n.op == "call_function" and _draws(n.target)]
    found = [Draw(n, place) for n in drawn]
    for n in drawn:
        first = next(m for m in gm.graph.nodes if m.op != "placeholder")
        with gm.graph.inserting_before(first):
            given = gm.graph.placeholder(f"drawn_{n.name}")
        given.meta.update(n.meta)
        n.replace_all_uses_with(given)
        gm.graph.erase_node(n)
    if drawn:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return found
