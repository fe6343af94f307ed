"""What `compile()` does with a function: capture it, and run it through the backend that was named.

Enters: a callable, and the options of `compile`. Leaves: a callable. Backends: `eager` runs the graphs that Dynamo
captured op by op; `aot_eager` their forward and backward graphs; `aot_eager_decomp_partition` the same, decomposed and
cut with recomputation; `inductor` hands them to the inductor, `onnxrt` to ONNX Runtime. A function as backend gets the
graph and example inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ..base import late
from ..dynamo import errors
from ..dynamo.convert import Choices, compiled, compiled_module
from ..nn import Module
from . import settings
from .compile_graph import AotConfig
from .graphs.backend import compile_with, force_recompile
from .repro import reporting
from .runtime import boxed

if TYPE_CHECKING:
    from ..dynamo.report import Report
    from ..fx.graph_module import GraphModule
    from .partition import Partition


def run_graph(gm: GraphModule, example_inputs: list[Any]) -> Callable:
    """The graph, run op by op."""
    force_recompile(gm)
    return gm.forward


def run_inductor(gm: GraphModule, example_inputs: list[Any], options: Mapping[str, Any] | None = None) -> Callable:
    """The graph as native code, where there is an inductor; else op by op."""
    from .graphs.calls import calls_in  # noqa: PLC0415 - as in within_budget

    compile_graph = inductor_entry()
    if compile_graph is None:
        return run_graph(gm, example_inputs)
    with inductor_options(options or {}):
        for inner in calls_in(gm):
            inner.compile(functools.partial(run_inductor, options=options))
        result = compile_graph(gm, example_inputs)

    return boxed(result)


def inductor_options(options: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Settings of the inductor for one compilation. Refuses names it does not have."""
    return late.provided("inductor settings").applied(options) if options else nullcontext()


def kept_by(options: Mapping[str, Any] | None) -> Any:
    """Who keeps what the inductor makes with these options."""
    return late.provided("graph keeper")(options)


@functools.cache
def inductor_entry() -> Callable | None:
    """The inductor's way in; None until there is one."""
    try:
        return late.provided("compile_graph")
    except ModuleNotFoundError:
        return None


def config_of(backend: str | Callable, options: Any) -> AotConfig:
    """How a backend compiles."""
    given = getattr(backend, "aot_config", None)
    if given is not None:
        return given
    if options and backend != "inductor":
        raise RuntimeError(
            f"compile: options are for the backend 'inductor', got some for {getattr(backend, '__name__', backend)!r}."
        )
    if callable(backend):
        return AotConfig(functools.partial(_ask, backend), run_graph)
    if backend == "inductor":
        with inductor_options(options or {}):     # refuses unknown ones now
            compiler = functools.partial(run_inductor, options=options)
        keeper = functools.partial(kept_by, options)
        return AotConfig(compiler, compiler, partition=within_budget, keeper=keeper, keeps_layers=True)
    if backend == "onnxrt":
        bridge = late.provided("onnx backend")
        return AotConfig(bridge.run_forward, bridge.run_backward, partition=bridge.partition)
    if backend == "aot_eager_decomp_partition":
        from .._decomp import core_aten_decompositions  # noqa: PLC0415 - for this backend alone

        return AotConfig(run_graph, run_graph, partition=within_budget, decompositions=core_aten_decompositions())
    return AotConfig(run_graph, run_graph)


def within_budget(joint: GraphModule, num_results: int, overwritten: Sequence[int] = ()) -> Partition:
    """The min-cut partition, with the memory budget that is set (`_functorch.config.activation_memory_budget`)."""
    from .lines import lay_out_lines  # noqa: PLC0415 - these are for graphs that are not found on disk
    from .min_cut import min_cut_rematerialization_partition  # noqa: PLC0415

    lay_out_lines(joint)
    budget = settings.activation_memory_budget
    return min_cut_rematerialization_partition(joint, num_results, overwritten, memory_budget=budget)


def _ask(backend: Callable, gm: GraphModule, example_inputs: list[Any]) -> Callable:
    """What a backend given as a function makes of a graph; what it raises is its own."""
    try:
        result = backend(gm, example_inputs)
    except Exception as error:
        name = getattr(backend, "__name__", type(backend).__name__)
        raise errors.BackendCompilerFailed(f"backend={name!r} raised:\n{type(error).__name__}: {error}") from error
    if not callable(result):
        raise TypeError(f"compile: expected the backend to return a callable, got {type(result).__name__}")
    return result


def choices_of(
    backend: str | Callable, *, fullgraph: bool = False, dynamic: bool | None = None, options: Any = None,
    limit: int | None = None, report: Report | None = None,
) -> Choices:  # fmt: skip
    """What `compile()` was told, as Dynamo takes it."""
    arguments = {"backend": backend, "fullgraph": fullgraph, "dynamic": dynamic, "options": options, "limit": limit}
    return Choices(graph_backend(backend, options), fullgraph, dynamic, limit, arguments, report)


def graph_backend(backend: str | Callable, options: Any = None) -> Callable[[GraphModule, list[Any]], Callable]:
    """What makes a function of a graph that Dynamo captured. A function as backend gets the graph itself."""
    if backend in ("eager", "eager_noexcept"):
        return run_graph
    name = backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)
    if callable(backend) and getattr(backend, "aot_config", None) is None:
        config_of(backend, options)      # refuses options
        return reporting(functools.partial(_ask, backend), name)
    return reporting(compile_with(config_of(backend, options)), name)


def compile_callable(function: Callable, **told: Any) -> Any:
    """`function` compiled."""
    return compiled(function, choices_of(**told))


def compile_module(module: Module, **told: Any) -> tuple[Any, Any]:
    """What a call of a module runs: its forward alone, where there are no hooks, and the whole call."""
    return compiled_module(module, choices_of(**told))
