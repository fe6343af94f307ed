"""Made by tools/make_stubs.py from the op registry. Do not edit: run the tool."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, SupportsIndex, TypeVar, overload

Number = builtins.int | builtins.float | builtins.complex | builtins.bool
_E = TypeVar("_E")
_F = TypeVar("_F")


from rushlight import return_types as _return_types
from rushlight.base.shape import layout as _layout, memory_format as _memory_format
from rushlight import Generator as _Generator, Tensor, device as _device, dtype as _dtype
from rushlight.fx.codegen import CodeGen as CodeGen
from rushlight.fx.graph import Graph as Graph
from rushlight.fx.graph_module import GraphModule as GraphModule
from rushlight.fx.interpreter import Interpreter as Interpreter
from rushlight.fx.node import Node as Node
PH: Any
from rushlight.fx.proxy import Proxy as Proxy
from rushlight.fx._symbolic_trace import ProxyableClassMeta as ProxyableClassMeta
from rushlight.fx._symbolic_trace import Tracer as Tracer
from rushlight.fx.interpreter import Transformer as Transformer
from . import calls as calls
from . import codegen as codegen
from . import elements as elements
from . import experimental as experimental
from . import graph as graph
from . import graph_module as graph_module
from . import graph_record as graph_record
from rushlight.fx.node import has_side_effect as has_side_effect
from . import immutable_collections as immutable_collections
from rushlight.fx.spelling import install_core_namespaces as install_core_namespaces
from . import interpreter as interpreter
from rushlight.fx.node import map_arg as map_arg
from . import minifier as minifier
from . import node as node
from . import passes as passes
from . import patching as patching
from . import proxy as proxy
from rushlight.fx.subgraph_rewriter import replace_pattern as replace_pattern
from . import spelling as spelling
from . import subgraph_rewriter as subgraph_rewriter
from rushlight.fx._symbolic_trace import symbolic_trace as symbolic_trace
from . import tensor_type as tensor_type
from . import traceback as traceback
from rushlight.fx.wrapping import wrap as wrap
from . import wrapping as wrapping
