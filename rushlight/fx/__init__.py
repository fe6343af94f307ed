"""rushlight.fx: programs as graphs. Trace a module, look at it, change it, run it.

Enters: modules and functions of Python. Leaves: `GraphModule`s: a `Graph` of nodes, and the Python that runs it.
Refuses: control flow that depends on values (`compile` captures that).

    traced = fx.symbolic_trace(model)      # a GraphModule
    print(traced.graph, traced.code)       # nodes; the Python it runs
    for node in traced.graph.nodes: ...    # change the graph, then
    traced.graph.lint(); traced.recompile()

`Interpreter` runs a graph node by node, `Transformer` makes a new one, `replace_pattern` rewrites subgraphs,
`fx.passes` holds analyses and passes, and `fx.experimental.proxy_tensor.make_fx` traces through the dispatcher,
derivatives included.
"""

from ..base import late
from . import immutable_collections  # noqa: F401
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .codegen import CodeGen
from .graph import Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .spelling import install_core_namespaces

install_core_namespaces()
__getattr__, __dir__ = late.names(globals(), {"replace_pattern": "subgraph_rewriter"}, files=("subgraph_rewriter",))

__all__ = [
    "PH", "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "ProxyableClassMeta", "Tracer",
    "Transformer", "has_side_effect", "map_arg", "replace_pattern", "symbolic_trace", "wrap",
]  # noqa: F822 - a late name
