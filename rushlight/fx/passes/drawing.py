"""Graphs drawn with the shapes that flow through them: `utils.draw`, and `_repr_html_` of graph modules.

Enters: a module or function and examples of its arguments, or a graph module. Leaves: an SVG: a box for each step with
what it calls and the shape and dtype of its result, an arrow for each use. Shapes are found without computing (fake
tensors), so the model is not changed and large ones cost nothing. Refuses a program whose graph depends on values or
sizes by the tracer's own error, and names the way.
"""

from __future__ import annotations

import html
import os
from typing import Any

from ..._C import Tensor
from ..graph import Graph
from ..graph_module import GraphModule
from ..proxy import TraceError
from .graph_svg import draw_svg

MOST_NODES = 200      # in a notebook; more are named, not drawn
_COLORS = {"placeholder": "AliceBlue", "call_module": "LemonChiffon1", "get_attr": "LightGrey", "output": "PowderBlue",
           "call_function": "GhostWhite", "call_method": "GhostWhite"}


class Drawing(str):
    """An SVG, as text: notebooks show it, `save` writes it."""

    def _repr_svg_(self) -> str:
        return str(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file, whole or not at all."""
        fresh = f"{os.fspath(path)}.new"
        with open(fresh, "w", encoding="utf-8") as file:
            file.write(self)
        os.replace(fresh, path)


def draw(model: Any, *args: Any, **kwargs: Any) -> Drawing:
    """`utils.draw`: the steps of the model's graph, with shapes where arguments are given."""
    from .._symbolic_trace import symbolic_trace  # drawing a graph that is there needs no tracer

    module = getattr(model, "graph_module", model)
    try:
        traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    except TraceError as refused:
        raise TraceError(f"draw: {refused}. Where sizes decide, draw what export makes of them, utils.draw("
                         "export.export(model, args)); else draw the parts of the model.") from refused
    if kwargs:
        names = [node.target for node in traced.graph.nodes if node.op == "placeholder"][len(args):]
        unknown = sorted(set(kwargs) - set(names))
        if unknown:
            known = ", ".join(map(str, names)) or "none"
            raise TypeError(f"draw: the model has no argument {unknown[0]!r}, but {known}")
        args += tuple(kwargs[name] for name in names if name in kwargs)
    shapes = _shapes(traced, args) if args else {}
    title = type(model).__name__ if not hasattr(model, "__name__") else model.__name__
    return Drawing(draw_graph(traced.graph, title, shapes))


def _shapes(traced: GraphModule, args: tuple) -> dict[str, Any]:
    """What each step gives, found on fake tensors."""
    from .fake_tensor_prop import FakeTensorProp  # with shapes alone

    found: dict[str, Any] = {}

    class Noting(FakeTensorProp):
        def run_node(self, n: Any) -> Any:
            before = dict(n.meta)      # a graph that the caller holds stays as it is
            found[n.name] = super().run_node(n)
            n.meta.clear()
            n.meta.update(before)
            return found[n.name]

    Noting(traced).propagate(*args)
    return found


def draw_graph(graph: Graph, title: str, shapes: dict[str, Any] | None = None) -> str:
    """A graph as SVG. Without `shapes`, those that nodes know (`meta["val"]`) are shown."""
    nodes, edges = {}, []
    for node in graph.nodes:
        value = (shapes or {}).get(node.name, node.meta.get("val"))
        target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        lines = [node.name, target if target != node.name else node.op, *_told(value)]
        nodes[node.name] = {"label": "\n".join(map(_escaped, lines)), "fillcolor": _COLORS[node.op]}
        edges += [(used.name, node.name) for used in node.all_input_nodes]
    return draw_svg(title, nodes, edges)


def _told(value: Any) -> list[str]:
    """Shape and dtype of a tensor, or of the first few of several."""
    if isinstance(value, Tensor):
        return [f"{' × '.join(map(str, value.shape)) or 'one number'} {str(value.dtype).rpartition('.')[2]}"]
    if isinstance(value, (tuple, list)):
        return [line for item in value[:4] for line in _told(item)]
    return []


def _escaped(text: str) -> str:
    for sign in "|{}<>":
        text = text.replace(sign, "\\" + sign)
    return text


def graph_page(graph: Graph, title: str) -> str:
    """A graph as a notebook shows it: drawn, or if it is large, named."""
    count = len(graph.nodes)
    if count <= MOST_NODES:
        return f"<div><strong>{html.escape(title)}</strong> {count} steps<br>{draw_graph(graph, title)}</div>"
    first = [str(node) for node, _ in zip(graph.nodes, range(MOST_NODES))]
    return (f"<div><strong>{html.escape(title)}</strong> {count:,} steps, too many to draw"
            f"<pre>{html.escape(', '.join(first))}, …</pre></div>")
