"""An exported program as a tree of modules again, with the names and calls that the original had.

Enters: an ExportedProgram whose nodes know the modules they were called in. Leaves: `UnflattenedModule`: every module
that was called is a GraphModule in its place; copies of parameters and buffers are where they were. A module called
several times has a copy for each call that does something else (`block`, `block@1`, ...) and shares its tensors. Where
the program keeps how a module was called, it is called so again, and may be exchanged for one that can be.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from enum import Enum
from typing import Any

from .._C import Tensor
from ..fx.graph import Graph
from ..fx.node import Node
from ..nn import Module, Parameter
from ..op import find_op
from ..utils import _pytree as pytree
from .exported_program import ExportedProgram
from .graph_signature import ConstantArgument, InputKind, OutputKind
from .kept_calls import (
    InterpreterModule,
    InterpreterModuleDispatcher,
    dispatch_calls,
    is_same_call,
    kept_call,
    kept_inside,
    kept_outside,
    order_modules,
)
from .recording import keep_name
from .unlift import owner_of
from .values import flat_arguments

__all__ = ["FlatArgsAdapter", "InterpreterModule", "InterpreterModuleDispatcher", "UnflattenedModule", "unflatten"]

_STATE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


class FlatArgsAdapter(abc.ABC):
    """Turns arguments of one structure into those of the structure that was exported."""

    @abc.abstractmethod
    def adapt(self, target_spec: Any, input_spec: Any, input_args: list[Any],
              metadata: dict[str, Any] | None = None, obj: Any = None) -> list[Any]:
        """The leaves, for `target_spec`."""

    def get_flat_arg_paths(self) -> list[str]:
        """Paths of attributes that are arguments too; none unless overridden."""
        return []


class UnflattenedModule(Module):
    """A program as modules. Submodules may be exchanged for others that compute the same."""

    def __init__(self, export_module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> None:
        super().__init__()
        self.adapter = flat_args_adapter
        self.spec = export_module.call_spec
        self.guards = export_module.guards()
        result = _Tree(export_module).module()
        for name, child in result._modules.items():
            self.add_module(name, child)
        for name, parameter in result._parameters.items():
            self.register_parameter(name, parameter)
        for name, buffer in result._buffers.items():
            self.register_buffer(name, buffer, persistent=name not in result._non_persistent_buffers_set)
        for name, value in result.__dict__.items():
            if isinstance(value, (Tensor, pytree.TreeSpec)):      # constants, and structures that kept calls need
                setattr(self, name, value)
        self.graph = result.graph
        self.graph.owning_module = self
        self._run = type(result).forward
        self.check_input_constraints = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.adapter is not None:
            leaves, spec = pytree.tree_flatten((args, kwargs))
            leaves = self.adapter.adapt(self.spec.in_spec, spec, leaves)
        else:
            leaves = flat_arguments(self.spec.in_spec, args, kwargs)
        if self.check_input_constraints:
            self.guards.check(leaves)
        return pytree.tree_unflatten(list(self._run(self, *leaves)), self.spec.out_spec)

    def print_readable(self, print_output: bool = True) -> str:
        """The code of the outermost graph."""
        text = str(self.graph)
        if print_output:
            print(text)
        return text


def unflatten(module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """The program with the modules of the original."""
    if not isinstance(module, ExportedProgram):
        raise TypeError(f"unflatten: expected an ExportedProgram, got {type(module).__name__}")
    return UnflattenedModule(module, flat_args_adapter)


class _Tree:
    """Builds the modules of a program."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.tensors: dict[int, Any] = {}            # copies of the program's, by what they are copies of
        placeholders = program.graph.find_nodes(op="placeholder")
        self.specs = dict(zip(placeholders, program.graph_signature.input_specs, strict=True))
        self.by_name = {n.name: n for n in program.graph.nodes}
        self.kept = {e.fqn: e.signature for e in program.module_call_graph if e.fqn and e.signature is not None}

    def module(self) -> InterpreterModule:
        nodes = [n for n in self.program.graph.nodes if n.op not in ("placeholder", "output")]
        inputs = [n for n, s in self.specs.items() if s.kind is InputKind.USER_INPUT]
        returned = self.program.graph.output_node().args[0]
        written, results = [], []
        for node, spec in zip(returned, self.program.graph_signature.output_specs, strict=True):
            if spec.kind is OutputKind.USER_OUTPUT:
                results.append(node)
            else:
                written.append((node, spec))
        root = self.level("", nodes, inputs, results, written)
        self.attach_everything(root)
        dispatch_calls(root, {path.partition("@")[0] for path in self.kept})
        order_modules(root, [e.fqn for e in self.program.module_call_graph])
        return root

    def tensor_of(self, spec: Any) -> Any:
        """A tensor of the program: a copy, the same one for all who share it."""
        original = self.program.tensor_of(spec)
        if not isinstance(original, Tensor):
            return original
        if id(original) not in self.tensors:
            copied = original.detach().clone()
            is_parameter = isinstance(original, Parameter)
            self.tensors[id(original)] = Parameter(copied, original.requires_grad) if is_parameter else copied
        return self.tensors[id(original)]

    def attach_everything(self, root: Module) -> None:
        """State that no graph uses stays where it was."""
        for node, spec in self.specs.items():
            if spec.kind in _STATE and (not node.users or not _has(root, spec.target)):
                _attach(root, spec.target, self.tensor_of(spec), spec)

    def level(self, path: str, nodes: list[Node], inputs: list[Node], results: list[Any],
              written: Iterable[Any] = ()) -> InterpreterModule:
        """The graph module of one module's own nodes and calls."""
        root, graph, copied = Module(), Graph(), {}
        signature = self.kept.get(path)
        if signature is not None:
            given = kept_inside(root, graph, signature)
            for argument, part in zip(signature.inputs, given, strict=True):
                if not isinstance(argument, ConstantArgument):
                    copied.setdefault(self.by_name[argument.name], part)
                    keep_name(part, argument.name)
        for node in inputs if signature is None else ():
            copied[node] = graph.placeholder(node.name)
            copied[node].meta = dict(node.meta)
            if path:
                copied[node].target = copied[node].name
        for child, members in _grouped(path, nodes):
            if child is None:
                if members[0].op == "get_attr":       # a graph that an op over functions calls
                    setattr(root, members[0].target, getattr(self.program.graph_module, members[0].target))
                copied[members[0]] = graph.node_copy(members[0], lambda n: self.get(n, path, root, graph, copied))
            else:
                self.called(path, child, members, nodes, results, written, root, graph, copied)
        for node, spec in written:
            target = next(n for n, s in self.specs.items() if s.target == spec.target or n.name == spec.target)
            graph.call_function(find_op("copy_").overload_list[0], (
                self.get(target, path, root, graph, copied), self.get(node, path, root, graph, copied)))
        if signature is not None:
            results = [a.value if isinstance(a, ConstantArgument) else self.by_name[a.name] for a in signature.outputs]
        outs = [self.get(r, path, root, graph, copied) if isinstance(r, Node) else r for r in results]
        if signature is not None:
            graph.output(kept_outside(root, graph, signature, outs))
        else:
            graph.output(tuple(outs) if not path or len(outs) != 1 else outs[0])
        return InterpreterModule(graph, root=root)

    def called(self, path: str, child: str, members: list[Node], nodes: list[Node], results: list[Any],
               written: Iterable[Any], root: Module, graph: Graph, copied: dict[Node, Node]) -> None:
        """A call of a module inside."""
        inside = set(members)
        needed: list[Node] = []
        for node in members:
            for used in node.all_input_nodes:
                state = self.specs.get(used)
                if used not in inside and used not in needed and not (state is not None and state.kind in _STATE):
                    needed.append(used)
        needed.sort(key=lambda n: n.name)
        asked = {r for r in (*results, *(n for n, _ in written)) if isinstance(r, Node)}
        outs = [n for n in members if n in asked or any(u not in inside and u.op != "output" for u in n.users)]
        result = self.level(child, members, needed, outs)
        name = _placed(root, child[len(path) + 1 :] if path else child, result)
        signature = self.kept.get(child)
        if signature is not None:
            self.called_as_kept(name, signature, outs, child, lambda n: self.get(n, path, root, graph, copied), root,
                                graph, copied)
            return
        given = tuple(self.get(n, path, root, graph, copied) for n in needed)
        call = graph.call_module(name, given)
        for i, out in enumerate(outs):
            copied[out] = call if len(outs) == 1 else graph.call_function(_getitem, (call, i))

    def called_as_kept(self, name: str, signature: Any, needed: list[Node], child: str, get: Any, root: Module,
                       graph: Graph, copied: dict[Node, Node]) -> None:
        """A call with the structure of arguments that the original had."""
        given = [a.value if isinstance(a, ConstantArgument) else get(self.by_name[a.name]) for a in signature.inputs]
        parts = kept_call(root, graph, name, signature, given)
        for argument, part in zip(signature.outputs, parts, strict=True):
            if not isinstance(argument, ConstantArgument):       # an argument that is a result too is what the call
                copied[self.by_name[argument.name]] = part       # returned from here on
        lost = [n.name for n in needed if n not in copied]
        if lost:
            raise NotImplementedError(
                f"unflatten: {lost} are computed in {child} and used outside it, but are none of its results, so that "
                "it cannot be called with the signature that was kept."
            )

    def get(self, node: Node, path: str, root: Module, graph: Graph, copied: dict[Node, Node]) -> Any:
        """A node in a level's graph; state becomes an attribute of the level it belongs to."""
        if node in copied:
            return copied[node]
        spec = self.specs[node]
        inside = _without_calls(path)
        target = next((t for t in self.ties(spec) if not inside or t.startswith(f"{inside}.")), spec.target)
        is_own = not inside or target.startswith(f"{inside}.")
        name = target.replace(".", "_") if not is_own else target[len(inside) + 1 :] if inside else target
        _attach(root, name, self.tensor_of(spec), spec)
        copied[node] = graph.get_attr(name)
        return copied[node]

    def ties(self, spec: Any) -> list[str]:
        """All names of a tensor that the program holds."""
        own = self.program.tensor_of(spec)
        return [s.target for s in self.specs.values() if s.kind in _STATE and self.program.tensor_of(s) is own]


def _getitem(values: Any, index: int) -> Any:
    return values[index]


def _has(root: Module, target: str) -> bool:
    owner: Any = root
    for part in target.split("."):
        owner = getattr(owner, part, None)
    return owner is not None


def _without_calls(path: str) -> str:
    """The path of a module without which call of it this is."""
    return ".".join(part.partition("@")[0] for part in path.split(".")) if path else path


def _stack_of(node: Node) -> list[str]:
    return [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]


def _child_of(path: str, node: Node) -> str | None:
    """The module under `path` that a node was called in; None if it is the module's own."""
    stack = [p for p in _stack_of(node) if p]
    if path:
        stack = stack[stack.index(path) + 1 :] if path in stack else []
    return stack[0] if stack else None


def _grouped(path: str, nodes: list[Node]) -> list[tuple[str | None, list[Node]]]:
    """Runs of nodes of one call; own nodes one by one."""
    groups: list[tuple[str | None, list[Node]]] = []
    for node in nodes:
        child = _child_of(path, node)
        before = groups[-1] if groups else (None, [])
        if child is None and before[0] is not None and not _stack_of(node) and node.all_input_nodes[:1] and (
            node.all_input_nodes[0] in before[1]
        ):
            groups[-1][1].append(node)        # a part of the results of a call
        elif child is not None and groups and groups[-1][0] == child:
            groups[-1][1].append(node)
        else:
            groups.append((child, [node]))
    seen: set[str] = set()
    for i, (child, members) in enumerate(groups):
        if child is not None and child in seen:      # interrupted by others: its own nodes from here on
            groups[i : i + 1] = [(None, [m]) for m in members]
        elif child is not None:
            seen.add(child)
    return groups


def _placed(root: Module, name: str, module: Module) -> str:
    """Where the module of a call is: `name`, or that of an earlier call which does the same."""
    owner, last = owner_of(root, name)
    base, mark, _ = last.partition("@")
    if mark:
        earlier = [k for k in owner._modules if k == base or k.startswith(f"{base}@")]
        same = next((k for k in earlier if is_same_call(owner._modules[k], module)), None)
        if same is not None:
            return f"{name[: -len(last)]}{same}"
    previous = owner._modules.get(last)
    if previous is not None:
        for key, child in previous._modules.items():
            module._modules.setdefault(key, child)
    owner._modules[last] = module
    return name


def _attach(root: Module, name: str, value: Any, spec: Any) -> None:
    *path, last = name.split(".")
    owner = root
    for part in path:
        if part not in owner._modules:
            owner.add_module(part, Module())
        owner = owner._modules[part]
    if last in owner._parameters or last in owner._buffers:
        return
    if isinstance(value, Parameter):
        owner.register_parameter(last, value)
    elif spec.kind is InputKind.BUFFER:
        owner.register_buffer(last, value, persistent=bool(spec.persistent))
    else:
        setattr(owner, last, value)




class _AttrKind(Enum):
    """What an attribute of a module is."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    MODULE = "module"


_KINDS = {_AttrKind.PARAMETER: Parameter, _AttrKind.BUFFER: Tensor, _AttrKind.MODULE: Module}


def _assign_attr(from_obj: Any, to_module: Module, target: str, attr_kind: _AttrKind, persistent: bool = True) -> None:
    """Put an object where a path below a module says, and below every further call of the modules on the way (`block@1`
    for `block`), which share it. Modules that are not there are made. Refuses objects that are not what `attr_kind`
    says."""
    if not isinstance(from_obj, _KINDS.get(attr_kind, object)):
        raise AssertionError(f"_assign_attr: {type(from_obj).__name__} at {target!r} is no {attr_kind.value}")
    *path, name = target.split(".")
    owners = [to_module]
    for part in path:
        for owner in owners:
            if part not in owner._modules:
                owner.add_module(part, Module())
        owners = [inner for owner in owners for key, inner in owner._modules.items()
                  if inner is not None and (key == part or key.startswith(f"{part}@"))]
    for owner in dict.fromkeys(owners):
        if attr_kind is _AttrKind.PARAMETER:
            owner.register_parameter(name, from_obj)
        elif attr_kind is _AttrKind.BUFFER:
            owner.register_buffer(name, from_obj, persistent=persistent)
        else:
            setattr(owner, name, from_obj)
