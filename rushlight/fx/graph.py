"""Graphs: lists of nodes in order, with everything that changes them.

Enters: nodes made by `call_function`, `call_module`, ... at the insert point, or copied from other graphs. Leaves: the
text form (`print(graph)`), Python (`python_code`), and after transformations a graph that `lint` accepts. Refuses:
erasing nodes still in use, and, in `lint`, orders or targets that cannot run.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .codegen import (
    CodeGen,
    PythonCode,
    TransformCodeFunc,
    _custom_builtins,
    _CustomBuiltin,
    _format_target,
    _is_magic,
    _Namespace,
    _PyTreeCodeGen,
    _PyTreeInfo,
    _register_custom_builtin,
    _snake_case,
    inplace_methods,
    magic_methods,
    reflectable_magic_methods,
)
from .node import LEGAL_OPS, Argument as Argument, Node, Target, map_arg
from .spelling import is_ours, qualified_name, type_text

if TYPE_CHECKING:
    from .graph_module import GraphModule

__all__ = [
    "CodeGen", "Graph", "PythonCode", "TransformCodeFunc", "_CustomBuiltin", "_Namespace", "_PyTreeCodeGen",
    "_PyTreeInfo", "_custom_builtins", "_format_target", "_is_magic", "_register_custom_builtin", "_snake_case",
    "inplace_methods", "magic_methods", "reflectable_magic_methods",
]


class _InsertPoint:
    """Where new nodes go; as a context manager, the old place comes back."""

    def __init__(self, graph: Graph, new_insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.orig_insert, graph._insert = graph._insert, new_insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        self.graph._insert = self.orig_insert


class _node_list:  # noqa: N801 - PyTorch's name
    """The nodes of a graph in order. Nodes may be erased or inserted while iterating."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        assert direction in ("_next", "_prev"), f"direction: expected '_next' or '_prev', got {direction}"
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Any]:
        root, step = self.graph._root, self.direction
        at = getattr(root, step)
        while at is not root:
            if not at._erased:
                yield at
            at = getattr(at, step)

    def __reversed__(self) -> Iterator[Any]:
        return iter(_node_list(self.graph, "_next" if self.direction == "_prev" else "_prev"))


class _FindNodesLookupTable:
    """Nodes by opcode, and calls of functions by function too."""

    def __init__(self) -> None:
        self.table: dict[tuple[str, Any], dict[Node, None]] = defaultdict(dict)

    def _key(self, node: Node) -> tuple[str, Any]:
        return node.op, node.target if node.op == "call_function" else None

    def __contains__(self, node: Node) -> bool:
        return node in self.table[self._key(node)]

    def insert(self, node: Node) -> None:
        self.table[self._key(node)][node] = None

    def remove(self, node: Node) -> None:
        self.table[self._key(node)].pop(node)

    def find_nodes(self, *, op: str, target: Target | None = None) -> list[Node]:
        if op == "call_function":
            assert target is not None, "find_nodes: op='call_function' needs a target"
            return list(self.table[op, target])
        return [node for node in self.table[op, None] if target is None or node.target == target]


class Graph:
    """A function as nodes. Printed, it is readable; through a GraphModule, it runs."""

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._find_nodes_lookup_table = _FindNodesLookupTable()
        self._owning_module = owning_module
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen: CodeGen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> GraphModule | None:
        """The module whose attributes the graph's targets name."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in order; `reversed(graph.nodes)` works."""
        return _node_list(self)

    def output_node(self) -> Node:
        """The output node, which is the last."""
        last = next(iter(reversed(self.nodes)))
        assert last.op == "output", f"output_node: the last node is a {last.op}"
        return last

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of an opcode (and target), in the graph's order if `sort`."""
        found = self._find_nodes_lookup_table.find_nodes(op=op, target=target)
        return sorted(found) if sort else found

    # --- copying ------------------------------------------------------------------------------------------------------

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Copy the nodes of `g` here, and answer with the value it returns, in this graph's nodes."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda n: val_map[n])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Copy a node here; `arg_transform` maps its arguments to nodes of this graph."""
        result = self.create_node(
            node.op,
            node.target,
            map_arg(node.args, arg_transform),
            map_arg(node.kwargs, arg_transform),
            node.name,
            node.type,
        )
        result.meta = copy.copy(node.meta)
        return result

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        result = Graph(tracer_cls=self._tracer_cls)
        memo = {} if memo is None else memo
        values: dict[Node, Node] = {}
        copied = result.graph_copy(self, values, return_output_node=True)
        memo.update((id(old), new) for old, new in values.items())
        result._codegen = copy.deepcopy(self._codegen)
        if copied is not None:
            value, old = copied
            result.output(value, type_expr=old.type).meta = copy.copy(old.meta)
        return result

    # --- making and erasing nodes -------------------------------------------------------------------------------------

    def create_node(self, op: str, target: Target, args: tuple | None = None, kwargs: dict[str, Any] | None = None,
                    name: str | None = None, type_expr: Any | None = None) -> Node:
        """A new node at the insert point, with a name of its own."""
        assert not args or isinstance(args, tuple), f"create_node: args must be a tuple, got {type(args)}"
        assert not kwargs or isinstance(kwargs, dict), f"create_node: kwargs must be a dict, got {type(kwargs)}"
        name = self._graph_namespace.create_name(name if name is not None else self._target_to_str(target), None)
        node = Node(self, name, op, target, args or (), kwargs or {}, type_expr)
        for hook in getattr(self.owning_module, "_create_node_hooks", None) or ():
            hook(node)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._find_nodes_lookup_table.insert(node)
        self._len += 1
        return node

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out. Nothing may use it."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph:"
                f" {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        self._find_nodes_lookup_table.remove(to_erase)
        to_erase._remove_from_list()   # its own links stay, so that an iteration standing on it goes on
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs(map_arg(to_erase._args, lambda n: None), map_arg(to_erase._kwargs, lambda n: None))

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go before `n` (None: at the beginning), until changed again or the `with` block ends."""
        if n is None:
            return self.inserting_after(self._root)
        assert n.graph is self, "Node to insert before is not in graph."
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go after `n` (None: at the end), until changed again or the `with` block ends."""
        if n is None:
            return self.inserting_before(self._root)
        assert n.graph is self, "Node to insert after is not in graph."
        return _InsertPoint(self, n.append)

    def placeholder(
        self, name: str, type_expr: Any | None = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """An input of the function."""
        return self.create_node(
            "placeholder",
            name,
            () if default_value is inspect.Signature.empty else (default_value,),
            type_expr=type_expr,
        )

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """A parameter, buffer or submodule by its path."""
        if self.owning_module is not None and not _has_attribute(self.owning_module, qualified_name):
            warnings.warn(
                "get_attr: the owning GraphModule holds nothing under this name. Add it first: add_submodule for a "
                "module, register_parameter for a Parameter, register_buffer for a buffer",
                stacklevel=2)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """A call of a submodule, by its path."""
        if self.owning_module is not None and not _has_attribute(self.owning_module, module_name):
            warnings.warn(
                "call_module: the owning GraphModule holds no module under this name. Add it first, "
                "with add_submodule", stacklevel=2)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """A method of args[0]."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function: Callable[..., Any], args: tuple | None = None,
                      kwargs: dict[str, Any] | None = None, type_expr: Any | None = None,
                      name: str | None = None) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Any, type_expr: Any | None = None) -> Node:
        """What the function returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def _target_to_str(self, target: Target) -> str:
        if not callable(target):
            return _snake_case(target[2:-2] if _is_magic(target) else target)
        name = getattr(target, "__name__", type(target).__name__)
        if is_ours(target):   # as PyTorch calls it: fft_fft, and relu_default for an overload
            _, _, name = (
                qualified_name(target).partition("torch.ops.")[2].partition(".")
                if hasattr(target, "overloadpacket")
                else qualified_name(target).rpartition(".")
            )
            name = name.replace(".", "_")
        return _snake_case(name)

    # --- text and code ------------------------------------------------------------------------------------------------

    def python_code(self, root_module: str, *, verbose: bool = False, include_stride: bool = False,
                    include_device: bool = False, colored: bool = False, expanded_def: bool = False,
                    record_func: bool = False, additional_meta: list[str] | None = None) -> PythonCode:
        """The graph as a Python function; `root_module` is what the text calls the module that owns the targets."""
        namespace = _Namespace()
        before = {node: node._repr_fn for node in self.nodes}
        for node in before:
            node._repr_fn = lambda n: namespace.create_name(n.name, n)
        try:
            return self._codegen._gen_python_code(
                self.nodes, root_module, namespace, verbose=verbose, include_stride=include_stride,
                include_device=include_device, colored=colored, expanded_def=expanded_def, record_func=record_func,
                additional_meta=additional_meta)
        finally:
            for node, shown in before.items():
                node._repr_fn = shown

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *filter(None, (node.format_node() for node in self.nodes))])

    def print_tabular(self) -> None:
        """Print a table: opcode, name, target, args, kwargs."""
        rows = [
            ["opcode", "name", "target", "args", "kwargs"],
            *([str(x) for x in (n.op, n.name, n.target, n.args, n.kwargs)] for n in self.nodes),
        ]
        widths = [max(len(rows[0][i]) + 2, *(len(row[i]) for row in rows)) for i in range(5)]
        rows.insert(1, ["-" * width for width in widths])
        print(
            "\n".join(
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
            )
        )

    def process_inputs(self, *args: Any) -> Any:
        """A caller's arguments as the placeholders take them."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """The output as a caller gets it."""
        return self._codegen.process_outputs(out)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Generate code another way."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        """Rewrite the lines of generated code. `make_transformer` gets the present rewriter (or None) and returns the
        new one."""
        codegen, before = self._codegen, self._codegen._body_transformer
        codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def until_left() -> Iterator[None]:
            try:
                yield
            finally:
                codegen._body_transformer = before

        return until_left()

    # --- health -------------------------------------------------------------------------------------------------------

    def lint(self) -> None:
        """Raise if the graph could not run: order, ownership, names, targets."""
        names: set[str] = set()
        defined: set[Node] = set()
        for node in self.nodes:
            if node.op not in LEGAL_OPS or node.op == "root":
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            if node not in self._find_nodes_lookup_table:
                raise RuntimeError(f"Node '{node}' is not added to the side table")
            for used in node._input_nodes:
                self._check_use(used, node, defined)
            defined.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                self._check_target(node)

    def _check_use(self, used: Node, user: Node, defined: set[Node]) -> None:
        if used.graph is not self:
            raise RuntimeError(
                f"argument '{used}' of node '{user}' belongs to another graph. When nodes are copied from one "
                f"graph to another, arg_transform of node_copy() must map their arguments\n{self}")
        if used not in defined:
            raise RuntimeError(
                f"argument '{used}' of node '{user}' is made later than it is used: nodes must stand in the order of"
                f" their use\n{self}"
            )

    def _check_target(self, node: Node) -> None:
        if node.op == "call_function":
            if not callable(node.target):
                raise ValueError(
                    f"Node {node} target {node.target} has type {type_text(type(node.target))} but a Callable is"
                    " expected"
                )
        elif not isinstance(node.target, str):
            raise ValueError(
                f"Node {node} target {node.target} has type {type_text(type(node.target))} but a str is expected"
            )
        if node.op not in ("get_attr", "call_module"):
            return
        owner: Any = self.owning_module
        atoms = node.target.split(".")
        for i, atom in enumerate(atoms):
            owner = getattr(owner, atom, None)
            path = ".".join(atoms[:i])
            if owner is None:
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {atom} of {path}"
                )
            if node.op == "call_module" and not hasattr(owner, "_modules"):
                raise RuntimeError(f"Node {node} target {node.target} {atom} of {path} does not reference an nn.Module")

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase nodes nothing uses, unless they have effects; True if any was erased."""
        self.lint()
        changed = False
        for node in reversed(self.nodes):   # a user goes before what it used, so whole chains fall in one pass
            keep = is_impure_node(node) if is_impure_node is not None else node.is_impure()
            if not keep and not node.users:
                self.erase_node(node)
                changed = True
        if self.owning_module is not None:
            named = {node.target for node in self.find_nodes(op="get_attr")}
            for name, child in self.owning_module.named_children():
                if name in named and isinstance(getattr(child, "graph", None), Graph):
                    changed |= child.graph.eliminate_dead_code()
                    child.recompile()
        return changed


def _has_attribute(module: Any, path: str) -> bool:
    """Whether a path of attributes leads somewhere."""
    for atom in path.split("."):
        if not hasattr(module, atom):
            return False
        module = getattr(module, atom)
    return True
