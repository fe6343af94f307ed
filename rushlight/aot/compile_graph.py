"""From a captured graph to a region that runs: partition, hand both graphs to compilers, wrap.

Enters: a `Captured` and an `AotConfig` (compilers of forward, backward and inference graphs, a partitioner). Leaves: a
`CompiledRegion`. The backward is compiled when it is first asked for.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..autograd.grad_mode import no_grad
from ..base import late, logs
from ..dispatch.modes import disable_dispatch_modes
from ..loops.record import Record
from .graphs.cache import Entry
from .runtime import Compiled, CompiledRegion

if TYPE_CHECKING:      # graphs that are found on disk are neither captured nor cut
    from ..fx.graph_module import GraphModule
    from .capture import Captured
    from .partition import Partition

GraphCompiler = Callable[[Any, list[Any]], Callable]      # of a GraphModule and example inputs


def default_partition(joint: GraphModule, num_results: int, overwritten: Sequence[int] = (), **options: Any
                      ) -> Partition:
    """The partition that computes nothing again (partition.py)."""
    from .partition import default_partition as partition  # noqa: PLC0415 - as above

    return partition(joint, num_results, overwritten, **options)


class AotConfig(Record):
    """Who compiles what."""

    fw_compiler: GraphCompiler
    bw_compiler: GraphCompiler
    inference_compiler: GraphCompiler | None = None
    partition: Callable[..., Any] = default_partition
    partition_options: Mapping[str, Any] = MappingProxyType({})
    decompositions: Mapping[Any, Callable] = MappingProxyType({})
    is_aten: bool = False      # whether compilers get graphs of ATen's ops, not of ours
    keeper: Callable[[], Any] | None = None      # who describes what was made, for later processes
    keeps_layers: bool = False      # whether recurrent layers are single ops of the graphs, or a product for each step
    joins_attention: Callable[[], bool] | None = None      # whether attention that is written out is one op


class BeingCompiled(threading.local):
    """Which graph a compiler is looking at: `0_forward` is the forward of the first region, the `nth` graph of all."""

    label = ""
    nth = 0


being_compiled = BeingCompiled()
_regions = itertools.count()


@contextlib.contextmanager
def labelled(region: int, kind: str) -> Iterator[None]:
    """Inside, that graph is compiled."""
    before = being_compiled.label
    being_compiled.label = logs.here.graph = f"{region}_{kind}"
    try:
        yield
    finally:
        being_compiled.label = logs.here.graph = before
        being_compiled.nth += 1


def compile_captured(captured: Captured, config: AotConfig, entry: Entry | None = None,
                     formulas: Mapping[int, Any] = MappingProxyType({})) -> CompiledRegion:
    """The region of a captured function; what was made is kept in `entry`, with `formulas` of results that are
    numbers."""
    meta, graph = captured.meta, captured.graph
    sizes = captured.shape_env, formulas
    if config.is_aten:
        graph = late.provided("aten graphs")(graph, captured.shape_env, config.decompositions)
    from . import telling  # noqa: PLC0415 - graphs that are found on disk need none of it

    region = next(_regions)
    if not meta.is_joint:
        telling.inference(graph, meta, region)
        with labelled(region, "inference"):
            forward = compiled(config.inference_compiler or config.fw_compiler, graph)
        if entry is not None:
            entry.keep(meta, (), forward, *sizes)
        return CompiledRegion(meta, forward, None, None)
    telling.joint(graph, region)
    parts = config.partition(graph, meta.num_results, meta.mutated, **config.partition_options)
    telling.parts(parts, meta, region)
    with labelled(region, "forward"):
        forward = compiled(config.fw_compiler, parts.forward)
    if entry is not None:
        entry.keep(meta, [(s.place, s.index) for s in parts.saved], forward, *sizes)
    frame = logs.here.compile_id

    def backward() -> Compiled:
        with logs.compiling(frame):
            return compiled_backward(parts, config, entry, region)

    return CompiledRegion(meta, forward, parts, backward)


def compiled_backward(parts: Partition, config: AotConfig, entry: Entry | None,
                      region: int | None = None) -> Compiled:
    """The backward graph, when it is first needed: of that region, or of one that was found on disk."""
    with labelled(next(_regions) if region is None else region, "backward"):
        backward = compiled(config.bw_compiler, parts.backward)
    if entry is not None:
        entry.keep_backward(backward)
    return backward


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
