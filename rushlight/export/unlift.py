"""A program as a module again: parameters, buffers and constants are attributes, values to write back are written.

Enters: an ExportedProgram. Leaves: a GraphModule that takes the arguments the exported module took.
"""

from __future__ import annotations

from typing import Any

from .._C import Tensor
from ..fx.codegen import _PyTreeCodeGen, _PyTreeInfo
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..nn import Module, Parameter
from ..op import find_op
from .graph_signature import InputKind, OutputKind
from .recording import keep_name
from .sizes import Guards
from .values import flat_arguments

_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)


class Unlifted(GraphModule):
    """A graph module that checks its arguments. Its mode was chosen when it was exported."""

    _guards: Guards | None = None

    def train(self, mode: bool = True) -> Any:
        raise NotImplementedError(
            "train(): an exported program does what it did in the mode it was exported in. Call train() or eval() "
            "before export."
        )

    def eval(self) -> Any:
        raise NotImplementedError(
            "eval(): an exported program does what it did in the mode it was exported in. Call eval() before export."
        )


def unlifted(program: Any, check_guards: bool) -> GraphModule:
    """The module of a program."""
    root, graph, copied = Module(), Graph(), {}
    specs = program.graph_signature.input_specs
    inputs: list[Any] = []
    for node, spec in zip(program.graph.find_nodes(op="placeholder"), specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            copied[node] = graph.placeholder(node.name)
            keep_name(copied[node], node.name)
            inputs.append(copied[node])
        else:
            _attach(root, spec, program.tensor_of(spec))
            copied[node] = graph.get_attr(spec.target)
        copied[node].meta = dict(node.meta)
    _attach_ties(root, program, specs)
    for node in program.graph.nodes:
        if node.op not in ("placeholder", "output"):
            copied[node] = graph.node_copy(node, lambda n: copied[n])
            if node.op == "get_attr":
                setattr(root, node.target, getattr(program.graph_module, node.target))
    _finish(program, graph, copied)
    names = _argument_names(program)
    spec = program.call_spec
    graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, spec.in_spec, spec.out_spec)))
    result = Unlifted(root, graph, type(root).__name__)
    result._guards = program.guards() if check_guards else None
    result.training = False
    if check_guards:
        result.register_forward_pre_hook(_checked, with_kwargs=True)
    return result


def _checked(module: Unlifted, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    spec = module.graph._codegen.pytree_info.in_spec
    leaves = flat_arguments(spec, args, kwargs)
    module._guards.check(leaves)
    return args, {n: kwargs[n] for n in spec.child(1).context}


_checked._looks_into = (0,)      # capture calls it with the module as it is: what it checks are guards there


def owner_of(root: Module, name: str) -> tuple[Module, str]:
    """The module below `root` that has the attribute called `name` (`block.0.weight`), and what it is called there.
    Modules on the way that do not exist are made."""
    *path, last = name.split(".")
    owner = root
    for part in path:
        if part not in owner._modules:
            owner.add_module(part, Module())
        owner = owner._modules[part]
    return owner, last


def _attach(root: Module, spec: Any, value: Any) -> None:
    owner, name = owner_of(root, spec.target)
    if isinstance(value, Parameter):
        owner.register_parameter(name, value)
    else:
        owner.register_buffer(name, value, persistent=spec.kind is InputKind.BUFFER and bool(spec.persistent))


def _attach_ties(root: Module, program: Any, specs: Any) -> None:
    """Names of tensors that the graph has by another name."""
    known = {s.target for s in specs}
    for name, value in program.state_dict.items():
        if name not in known and isinstance(value, Tensor):
            kind = InputKind.PARAMETER if isinstance(value, Parameter) else InputKind.BUFFER
            _attach(root, _Held(kind, name), value)


class _Held:
    """The name of a tensor, as a spec of an input has it."""

    persistent = True

    def __init__(self, kind: InputKind, target: str) -> None:
        self.kind, self.target = kind, target


def _finish(program: Any, graph: Graph, copied: dict[Any, Any]) -> None:
    """Write back what is to be written, and return the results."""
    signature = program.graph_signature
    by_target = {s.target: n for s, n in zip(signature.input_specs, program.graph.find_nodes(op="placeholder"),
                                             strict=True) if s.target}
    by_name = {n.name: n for n in program.graph.find_nodes(op="placeholder")}
    copy_, results = find_op("copy_").overload_list[0], []
    returned = program.graph.output_node().args[0]
    written: dict[Any, Any] = {}
    for node, spec in zip(returned, signature.output_specs, strict=True):
        value = copied.get(node, node) if not isinstance(node, (int, float, bool, str, type(None))) else node
        if spec.kind in _MUTATIONS:
            target = by_name[spec.target] if spec.kind is OutputKind.USER_INPUT_MUTATION else by_target[spec.target]
            written[node] = graph.call_function(copy_, (copied[target], value))
        elif spec.kind is OutputKind.USER_OUTPUT:
            results.append(written.get(node, value))
        elif spec.kind is not OutputKind.TOKEN:
            raise NotImplementedError(f"module(): an output of kind {spec.kind.name} has no place in a module")
    graph.output(tuple(results))


def _argument_names(program: Any) -> list[str]:
    """Names of the arguments, as the program was exported with them."""
    spec = program.call_spec.in_spec
    count, keywords = len(spec.child(0).children()), list(spec.child(1).context)
    names = program.module_call_graph[0].signature.forward_arg_names
    if names is not None and len(names) == count + len(keywords):
        return list(names)
    return [*(f"arg_{i}" for i in range(count)), *keywords]
