"""Drawing graphs: DOT text, and pictures.

Enters: a GraphModule. Leaves: a `DotGraph` per module: `to_string()`, `write_svg` (by Graphviz's `dot` where that is
installed, else by graph_svg.py), and `write_png`, ... with `dot`. Refuses: other pictures without it, saying so.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from typing import Any

from ...nn import Module
from ..graph_module import GraphModule, _get_attr
from ..node import Node, _format_arg, _get_qualified_name
from ..spelling import plain_text, public_module
from .graph_svg import draw_svg
from .shape_prop import TensorMetadata

__all__ = ["DotGraph", "FxGraphDrawer"]

_COLORS = {"placeholder": "AliceBlue", "call_module": "LemonChiffon1", "get_attr": "LightGrey", "output": "PowderBlue"}
_FUNCTION_COLORS = ("CadetBlue1", "Coral", "DarkOliveGreen1", "DarkSeaGreen1", "GhostWhite", "Khaki1", "LavenderBlush1",
                    "LightSkyBlue", "MistyRose1", "PaleTurquoise2", "PeachPuff1", "Salmon", "Thistle1", "Wheat1",
                    "YellowGreen")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


class DotGraph:
    """A directed graph in Graphviz's language."""

    def __init__(self, name: str, rankdir: str = "TB") -> None:
        self.name, self.rankdir = name, rankdir
        self.nodes: dict[str, dict[str, str]] = {}
        self.edges: list[tuple[str, str]] = []

    def add_node(self, name: str, **attributes: str) -> None:
        """A node, with Graphviz's attributes."""
        self.nodes[name] = attributes

    def add_edge(self, tail: str, head: str) -> None:
        """An arrow."""
        self.edges.append((tail, head))

    def to_string(self) -> str:
        """The text of the graph."""
        lines = [f"digraph {_quoted(self.name)} {{", f"rankdir={self.rankdir};"]
        for name, attributes in self.nodes.items():
            lines.append(f"{_quoted(name)} [{', '.join(f'{k}={_quoted(v)}' for k, v in attributes.items())}];")
        lines += [f"{_quoted(tail)} -> {_quoted(head)};" for tail, head in self.edges]
        return "\n".join([*lines, "}", ""])

    __str__ = to_string

    def create(self, format: str = "svg") -> bytes:
        """A picture: by Graphviz's `dot`, or without it, as SVG, by ourselves."""
        program = shutil.which("dot")
        if program is None and format == "svg":
            return draw_svg(self.name, self.nodes, self.edges).encode()
        if program is None:
            raise RuntimeError(
                f"graph_drawer: {format} pictures need Graphviz's `dot` program, which is not installed; write_svg and"
                " to_string() do not"
            )
        return subprocess.run(
            [program, f"-T{format}"], input=self.to_string().encode(), capture_output=True, check=True
        ).stdout

    def write(self, path: str, format: str = "raw") -> None:
        """Write the text (format "raw" or "dot"), or a picture."""
        data = self.to_string().encode() if format in ("raw", "dot") else self.create(format)
        with open(path, "wb") as file:
            file.write(data)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("write_"):
            return lambda path: self.write(path, name.removeprefix("write_"))
        if name.startswith("create_"):
            return lambda: self.create(name.removeprefix("create_"))
        raise AttributeError(name)


class FxGraphDrawer:
    """Draws a GraphModule; submodules that are graphs themselves get drawings of their own."""

    def __init__(self, graph_module: GraphModule, name: str, ignore_getattr: bool = False,
                 ignore_parameters_and_buffers: bool = False, skip_node_names_in_args: bool = True,
                 parse_stack_trace: bool = False, dot_graph_shape: str | None = None,
                 normalize_args: bool = False) -> None:
        self._name = name
        self.dot_graph_shape = dot_graph_shape or "record"
        self.normalize_args = normalize_args
        self._options = {"getattr": not ignore_getattr, "parameters": not ignore_parameters_and_buffers,
                         "names": not skip_node_names_in_args, "traces": parse_stack_trace}
        self._dot_graphs = {name: self._draw(graph_module, name)}
        for child_name, child in graph_module.named_children():
            if isinstance(child, GraphModule):
                self._dot_graphs[f"{name}_{child_name}"] = self._draw(child, f"{name}_{child_name}")

    def get_dot_graph(self, submod_name: str | None = None) -> DotGraph:
        """The drawing of the module, or of a submodule by name."""
        return self._dot_graphs[self._name if submod_name is None else submod_name]

    def get_main_dot_graph(self) -> DotGraph:
        """The drawing of the module."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> DotGraph:
        """The drawing of a submodule."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, DotGraph]:
        """All drawings by name."""
        return self._dot_graphs

    def _draw(self, module: GraphModule, name: str) -> DotGraph:
        result = DotGraph(name)
        for node in module.graph.nodes:
            if node.op == "get_attr" and not self._options["getattr"]:
                continue
            result.add_node(node.name, label=self._label(module, node), **self._style(node))
            if self._options["parameters"] and node.op == "call_module":
                self._draw_tensors(result, module, node)
        for node in module.graph.nodes:
            for used in node.all_input_nodes:
                if used.name in result.nodes:
                    result.add_edge(used.name, node.name)
        return result

    def _draw_tensors(self, result: DotGraph, module: GraphModule, node: Node) -> None:
        submodule = _get_attr(module, node.target)
        for kind, tensors in (("parameter", submodule.named_parameters()), ("buffer", submodule.named_buffers())):
            for name, tensor in tensors:
                shape = f"\\nshape: {list(tensor.shape)}\\ndtype: {plain_text(tensor.dtype)}"
                label = (
                    f"{{{node.name}.{name}|op_code=get_{kind}{shape}\\l}}"
                    if self.dot_graph_shape == "record"
                    else f"{node.name}.{name}"
                )
                result.add_node(
                    f"{node.name}.{name}",
                    label=label,
                    shape=self.dot_graph_shape,
                    style="filled,rounded",
                    fillcolor="Yellow2",
                    fontcolor="#000000",
                )
                result.add_edge(f"{node.name}.{name}", node.name)

    def _style(self, node: Node) -> dict[str, str]:
        color = _COLORS.get(node.op)
        if color is None:   # calls of one function share a color
            named = node.target if isinstance(node.target, str) else _get_qualified_name(node.target)
            color = _FUNCTION_COLORS[int(hashlib.md5(named.encode()).hexdigest()[:8], 16) % len(_FUNCTION_COLORS)]
        return {"shape": self.dot_graph_shape, "style": "filled,rounded", "fillcolor": color, "fontcolor": "#000000"}

    def _label(self, module: GraphModule, node: Node) -> str:
        if self.dot_graph_shape != "record":
            return node.name
        parts = [f"{{name=%{node.name}|op_code={node.op}\\n"]
        if node.op == "call_module":
            called: Module = _get_attr(module, node.target)
            constants = [f"|{c}: {getattr(called, c)}" for c in getattr(called, "__constants__", ())]
            parts.append(
                f"{public_module(type(called))}.{type(called).__name__}\\n{''.join(constants)}".replace(
                    "<", "\\<"
                ).replace(">", "\\>")
            )
        else:
            parts.append(
                f"|target={node.target if isinstance(node.target, str) else _get_qualified_name(node.target)}\\n"
            )
            for title, values in (("args", node.args), ("kwargs", node.kwargs)):
                if values and not (
                    self._options["names"] is False
                    and all(isinstance(v, Node) for v in (values if title == "args" else values.values()))
                ):
                    shown = (
                        _format_arg(values, max_list_len=10)
                        .replace("{", r"\{")
                        .replace("}", r"\}")
                        .replace("<", r"\<")
                        .replace(">", r"\>")
                        .replace("|", r"\|")
                    )
                    parts.append(f"|{title}={shown}\\l")
        parts.append(f"|num_users={len(node.users)}\\n")
        meta = node.meta.get("tensor_meta")
        if isinstance(meta, TensorMetadata):
            parts.append(f"|dtype={plain_text(meta.dtype)}\\nshape={list(meta.shape)}\\n")
            parts.append(f"stride={list(meta.stride)}\\nrequires_grad={meta.requires_grad}\\n")
        if self._options["traces"] and node.stack_trace:
            parts.append(f"|file={node.stack_trace.splitlines()[0].strip()}\\n".replace("<", "\\<").replace(">", "\\>"))
        return "".join([*parts, "}"])
