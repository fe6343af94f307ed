"""`functorch.compile`: AOTAutograd and small compilers to look at graphs with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._decomp import get_decompositions
from ..._functorch.aot_autograd import (
    aot_export_module,
    aot_function,
    aot_module,
    aot_module_simplified,
    get_aot_compilation_context,
    get_aot_graph_name,
    get_graph_being_compiled,
    make_boxed_compiler,
    make_boxed_func,
)
from ..._functorch.fx_minifier import minifier
from ..._functorch.partitioners import default_partition, draw_graph, min_cut_rematerialization_partition
from ...aot import settings as config
from ...fx.graph_module import GraphModule
from ...nn import Module

__all__ = [
    "aot_export_module", "aot_function", "aot_module", "aot_module_simplified", "boxed_nop", "compiled_function",
    "compiled_module", "config", "default_decompositions", "default_partition", "draw_graph", "draw_graph_compile",
    "get_aot_compilation_context", "get_aot_graph_name", "get_decompositions", "get_graph_being_compiled",
    "make_boxed_compiler", "make_boxed_func", "memory_efficient_fusion",
    "min_cut_rematerialization_partition", "minifier", "nop", "print_compile",
]

compiled_function = aot_function
compiled_module = aot_module
default_decompositions: dict[Any, Callable] = {}


def nop(fx_g: GraphModule, _: Sequence[Any]) -> GraphModule:
    """The compiler that leaves a graph as it is."""
    return fx_g


def boxed_nop(fx_g: GraphModule, example_inputs: Sequence[Any]) -> Callable:
    """The same, for callers that pass one list."""
    return make_boxed_func(fx_g)


def print_compile(fx_g: GraphModule, _: Sequence[Any]) -> GraphModule:
    """The compiler that prints a graph's code and leaves it as it is."""
    print(fx_g.code)
    return fx_g


def draw_graph_compile(name: str) -> Callable:
    """A compiler that writes a picture of each graph and leaves it as it is."""

    def compile(fx_g: GraphModule, _: Sequence[Any]) -> GraphModule:
        draw_graph(fx_g, name)
        return fx_g

    return make_boxed_compiler(compile)


def memory_efficient_fusion(fn: Callable | Module, **kwargs: Any) -> Any:
    """`fn` with the min-cut partition: what is cheap is computed again instead of saved. The graphs run op by op:
    nothing is fused by this function."""
    options = {"fw_compiler": nop, "bw_compiler": nop, "partition_fn": min_cut_rematerialization_partition, **kwargs}
    return aot_module(fn, **options) if isinstance(fn, Module) else aot_function(fn, **options)
