"""From a captured graph to a region that runs: partition, hand both graphs to compilers, wrap.

Enters: a `Captured` and an `AotConfig` (compilers of forward, backward and inference graphs, a partitioner). Leaves: a
`CompiledRegion`. The backward is compiled when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..autograd.grad_mode import no_grad
from ..dispatch.modes import disable_dispatch_modes
from ..fx.graph_module import GraphModule
from .capture import Captured
from .partition import default_partition
from .runtime import Compiled, CompiledRegion

GraphCompiler = Callable[[GraphModule, list[Any]], Callable]


@dataclass(frozen=True)
class AotConfig:
    """Who compiles what."""

    fw_compiler: GraphCompiler
    bw_compiler: GraphCompiler
    inference_compiler: GraphCompiler | None = None
    partition: Callable[..., Any] = default_partition
    partition_options: Mapping[str, Any] = field(default_factory=dict)
    decompositions: Mapping[Any, Callable] = field(default_factory=dict)


def compile_captured(captured: Captured, config: AotConfig) -> CompiledRegion:
    """The region of a captured function."""
    meta, graph = captured.meta, captured.graph
    if not meta.is_joint:
        compiler = config.inference_compiler or config.fw_compiler
        return CompiledRegion(meta, compiled(compiler, graph), None, None)
    parts = config.partition(graph, meta.num_results, meta.mutated, **config.partition_options)
    return CompiledRegion(
        meta, compiled(config.fw_compiler, parts.forward), parts, lambda: compiled(config.bw_compiler, parts.backward)
    )


def compiled(compiler: GraphCompiler, graph: GraphModule) -> Compiled:
    """What a compiler makes of a graph, as a function of one list."""
    examples = [node.meta.get("val") for node in graph.graph.find_nodes(op="placeholder")]
    with no_grad(), disable_dispatch_modes():
        result = compiler(graph, examples)
    return result if is_boxed(result) else boxed(result)


def is_boxed(function: Any) -> bool:
    """Whether a function takes its arguments as one list."""
    return getattr(function, "_boxed_call", False)


def boxed(function: Callable) -> Compiled:
    """A function of one list that it may empty."""

    def call(args: list[Any]) -> Any:
        return function(*args)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
