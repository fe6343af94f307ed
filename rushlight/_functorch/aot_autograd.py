"""AOTAutograd's functions: a function or module whose forward and backward graphs are handed to compilers.

Enters: a function or module, compilers of graphs (`compiler(graph_module, example_inputs) -> callable`), a partitioner,
a decomposition table. Leaves: a callable with the same results and gradients. Refuses: what cannot be captured
(`aot.refused`), and exporting a joint graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..aot.capture import capture
from ..aot.compile_graph import AotConfig, being_compiled, boxed, compile_captured, is_boxed
from ..aot.graphs.backend import force_recompile
from ..aot.metadata import OutputKind
from ..aot.module_state import ModuleState
from ..aot.specialized import Specialized
from ..autograd.grad_mode import no_grad
from ..base import late
from ..fx.graph_module import GraphModule
from ..nn import Module
from ..utils import _pytree as pytree
from .partitioners import default_partition, partition_for_aot

__all__ = [
    "GraphSignature",
    "aot_export_module",
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "get_aot_compilation_context",
    "get_aot_graph_name",
    "get_graph_being_compiled",
    "make_boxed_compiler",
    "make_boxed_func",
]


def get_graph_being_compiled() -> str:
    """Which graph the compiler that asks was given: `0_forward`, `0_backward`, `1_inference`."""
    return being_compiled.label


def get_aot_compilation_context() -> tuple[list[str], str, int]:
    """That graph in a list, the name of the model, and how many graphs were compiled before."""
    label = being_compiled.label
    return [label] if label else [], "model", being_compiled.nth


def get_aot_graph_name() -> str:
    """A name for the graph that no other has: `model__0_forward_0`."""
    return f"model__{being_compiled.label}_{being_compiled.nth}"


def make_boxed_func(f: Callable) -> Callable:
    """`f` as a function of one list of arguments."""
    return boxed(f)


def make_boxed_compiler(compiler: Callable) -> Callable:
    """A compiler whose results take one list of arguments."""

    def compile(graph: GraphModule, inputs: Sequence[Any]) -> Callable:
        result = compiler(graph, inputs)
        return result if is_boxed(result) else boxed(result)

    return compile


def compilers(
    fw_compiler: Callable,
    bw_compiler: Callable | None = None,
    partition_fn: Callable = default_partition,
    decompositions: Mapping | None = None,
    inference_compiler: Callable | None = None,
    keep_inference_input_mutations: bool = False,
) -> AotConfig:
    """Who compiles what. Writes to inputs are made by wrappers, whether they are to be kept in graphs or not."""
    return AotConfig(
        fw_compiler,
        bw_compiler or fw_compiler,
        inference_compiler,
        partition_for_aot(partition_fn),
        decompositions=dict(decompositions or {}),
        is_aten=True,
    )


def _specialized(fn: Callable, modules: Sequence[Module], config: AotConfig, dynamic: bool) -> Specialized:
    return Specialized(
        fn,
        modules,
        lambda captured: compile_captured(captured, config),
        decompositions=config.decompositions,
        dynamic=dynamic,
    )


def aot_function(fn: Callable, fw_compiler: Callable, bw_compiler: Callable | None = None,
                 partition_fn: Callable = default_partition, decompositions: Mapping | None = None,
                 num_params_buffers: int = 0, keep_inference_input_mutations: bool = False,
                 inference_compiler: Callable | None = None, *, dynamic: bool = False, enable_log: bool = True,
                 disable_functionalization: bool = False) -> Callable:
    """`fn`, whose graphs are compiled when it is first called with arguments of a kind."""
    if disable_functionalization:
        raise NotImplementedError(
            "aot_function: graphs are always functionalized here; disable_functionalization=True is not possible"
        )
    return _specialized(
        fn, (), compilers(fw_compiler, bw_compiler, partition_fn, decompositions, inference_compiler), dynamic
    )


class AOTModule(Module):
    """A module that runs compiled; its parameters are those of the original."""

    def __init__(self, mod: Module, run: Specialized) -> None:
        super().__init__()
        self.orig_module = mod
        self.__dict__["_run"] = run

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_run"](*args, **kwargs)


def aot_module(mod: Module, fw_compiler: Callable, bw_compiler: Callable | None = None,
               partition_fn: Callable = default_partition, decompositions: Mapping | None = None,
               inference_compiler: Callable | None = None, *, dynamic: bool = False) -> Module:
    """A module that runs `mod` compiled: parameters and buffers are inputs of the graphs."""
    if not isinstance(mod, Module):
        raise AssertionError(f"aot_module: expected a Module, got {type(mod).__name__}")
    return AOTModule(
        mod,
        _specialized(
            mod, (mod,), compilers(fw_compiler, bw_compiler, partition_fn, decompositions, inference_compiler), dynamic
        ),
    )


def aot_module_simplified(mod: Module, args: Sequence[Any], fw_compiler: Callable, bw_compiler: Callable | None = None,
                          partition_fn: Callable = default_partition, decompositions: Mapping | None = None,
                          keep_inference_input_mutations: bool = False, inference_compiler: Callable | None = None,
                          **options: Any) -> Callable:
    """What a backend makes of the graph it is given: a callable of the graph's inputs.
    It is compiled for `args` when first called with their like."""
    config = compilers(fw_compiler, bw_compiler, partition_fn, decompositions, inference_compiler)
    if isinstance(mod, GraphModule):
        force_recompile(mod)      # not while it is traced
    run = _specialized(mod, (mod,) if isinstance(mod, Module) else (), config, False)
    if options:
        raise TypeError(f"aot_module_simplified: unexpected options {sorted(options)}")

    def forward(*runtime_args: Any) -> Any:
        return run(*runtime_args)

    return forward


@dataclass(frozen=True)
class GraphSignature:
    """What the inputs and results of an exported graph are, by node name."""

    parameters: list[str]
    buffers: list[str]
    user_inputs: list[str]
    user_outputs: list[str]
    inputs_to_parameters: dict[str, str]
    inputs_to_buffers: dict[str, str]
    buffers_to_mutate: dict[str, str]
    parameters_to_mutate: dict[str, str] = field(default_factory=dict)
    user_inputs_to_mutate: dict[str, str] = field(default_factory=dict)
    in_spec: Any = None
    out_spec: Any = None
    backward_signature: Any = None


def aot_export_module(mod: Module, args: Sequence[Any], *, decompositions: Mapping | None = None, trace_joint: bool,
                      output_loss_index: int | None = None, pre_dispatch: bool = False,
                      kwargs: dict[str, Any] | None = None, **options: Any) -> tuple[GraphModule,
                      GraphSignature]:
    """The forward graph of a module, without writes, and what its inputs and results are: parameters, buffers,
    then the arguments' tensors."""
    if trace_joint or pre_dispatch or options:
        raise NotImplementedError(
            "aot_export_module: only forward graphs (trace_joint=False) are exported here; aot_function hands out joint"
            " ones to its partition_fn"
        )
    state = ModuleState((mod,))
    named = {id(t): name for name, t in mod.named_parameters()} | {id(t): name for name, t in mod.named_buffers()}
    parameters = {id(t) for t in mod.parameters()}
    leaves, spec = pytree.tree_flatten((tuple(args), kwargs or {}))
    own = list({id(t): t for t in state.tensors()}.values())
    place = {id(t): i for i, t in enumerate(own)}
    specs: list[Any] = []

    def flat(values: list[Any]) -> list[Any]:
        with state.exchanged([values[place[id(t)]] for t in before]):
            given, named_args = pytree.tree_unflatten(values[len(own) :], spec)
            result = mod(*given, **named_args)
        outputs, out_spec = pytree.tree_flatten(result)
        specs.append(out_spec)
        return outputs

    before = state.tensors()
    with no_grad():
        captured = capture(flat, [*own, *leaves], wants_grad=False, decompositions=decompositions)
    graph, meta = late.provided("aten graphs")(captured.graph, captured.shape_env, decompositions), captured.meta
    if captured.lifted:
        raise RuntimeError(
            "aot_export_module: the module uses a tensor that is neither a parameter, a buffer nor an argument."
            " Register it as a buffer."
        )
    inputs = [n.name for n in graph.graph.find_nodes(op="placeholder")]
    output = graph.graph.output_node()
    returned, results = output.args[0], []
    for info in meta.outputs:     # aliases are shown as what they are: a graph returns values
        if info.kind not in (OutputKind.NEW, OutputKind.INPUT):
            raise NotImplementedError(
                "aot_export_module: an output is a view of an input, or of another output. Return a copy (clone())."
            )
        results.append(
            returned[info.source]
            if info.kind is OutputKind.NEW
            else graph.graph.find_nodes(op="placeholder")[info.source]
        )
    mutated = returned[: len(meta.mutated)]
    output.args = ((*mutated, *results),)
    graph.recompile()
    to_name = {name: named[id(t)] for name, t in zip(inputs, own, strict=False)}
    writes = {node.name: inputs[i] for node, i in zip(mutated, meta.mutated, strict=True)}
    return graph, GraphSignature(
        [named[id(t)] for t in own if id(t) in parameters], [named[id(t)] for t in own if id(t) not in parameters],
        inputs[len(own) :], [getattr(r, "name", r) for r in results],
        {n: to_name[n] for n, t in zip(inputs, own, strict=False) if id(t) in parameters},
        {n: to_name[n] for n, t in zip(inputs, own, strict=False) if id(t) not in parameters},
        {new: to_name[name] for new, name in writes.items() if name in to_name}, {},
        {new: name for new, name in writes.items() if name not in to_name}, spec, specs[0])
