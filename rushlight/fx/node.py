"""Nodes: one operation each, linked in order, with the arguments they use and the nodes that use them.

Enters: an opcode (placeholder, get_attr, call_function, call_method, call_module, output), a target, arguments in which
other nodes stand for their values. Leaves: `Node`, whose `args` and `kwargs` are immutable: assigning them keeps the
users of every input right. Refuses: targets that do not suit the opcode, and nodes of another graph.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _C
from .._C import Tensor
from ..aten.overloads import AtenOverload
from ..aten.plain import ASSERT_SCALAR, ASSERT_TENSOR_METADATA
from ..base import assertions
from ..base.shape import layout, memory_format
from ..utils._dtype_abbrs import dtype_abbrs
from .immutable_collections import immutable_dict, immutable_list
from .spelling import plain_text, qualified_name, type_text

if TYPE_CHECKING:
    from ..nn import Module
    from .graph import Graph
    from .operator_schemas import ArgsKwargsPair

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

BaseArgumentTypes = str | int | float | bool | complex | _C.dtype | Tensor | _C.device | Any
base_types = (
    str, int, float, bool, complex, _C.dtype, Tensor, _C.device, layout, memory_format, _C.Overload, AtenOverload,
)
Target = Callable[..., Any] | str
Argument = Any
ArgumentT = TypeVar("ArgumentT", bound=Any)

LEGAL_OPS = frozenset(("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"))
_side_effectful_functions: set[Callable[..., Any]] = {
    operator.setitem, *(function for name, function in assertions.PUBLIC.items() if name.startswith("_assert")),
    ASSERT_SCALAR, ASSERT_TENSOR_METADATA,
}

_SPACING = 1 << 20   # room left between the order keys of neighbours


def has_side_effect(fn: Callable) -> Callable:
    """Calls of `fn` stay in a graph even if nothing uses their result."""
    _side_effectful_functions.add(fn)
    return fn


def _get_qualified_name(func: Callable[..., Any]) -> str:
    return qualified_name(func)


def _type_repr(obj: Any) -> str:
    return type_text(obj)


# --- argument trees ---------------------------------------------------------------------------------------------------


def map_aggregate(a: ArgumentT, fn: Callable[[Any], Any]) -> ArgumentT:
    """`fn` over the leaves of tuples, lists, dicts and slices; containers come back immutable."""
    kind: Any = type(a)
    if isinstance(a, tuple):
        parts = [map_aggregate(x, fn) for x in a]
        return tuple(parts) if kind is tuple else kind(*parts) if hasattr(a, "_fields") else kind(parts)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict([(k, map_aggregate(v, fn)) for k, v in a.items()])
    if kind is slice:
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: ArgumentT, fn: Callable[[Node], Any]) -> ArgumentT:
    """`fn` over the nodes among arguments; everything else stays."""
    assert callable(fn), "torch.fx.map_arg(a, fn): fn must be a callable"
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    """Arguments as the text form of a graph shows them: nodes with a percent sign, strings bare."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, (list, tuple)):
        shown = [_format_arg(x) for i, x in enumerate(arg) if i < max_list_len]
        more = f", ...[total_len={len(arg)}]" if len(arg) > max_list_len else ""
        if isinstance(arg, list):
            return f"[{', '.join(shown)}{more}]"
        return f"({', '.join(shown)}{',' if len(arg) == 1 else ''}{more})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else plain_text(arg)


# --- the node ---------------------------------------------------------------------------------------------------------


class Node:
    """One operation of a graph. Printed, it is its name."""

    graph: Graph
    name: str
    op: str
    target: Target
    type: Any | None
    meta: dict[str, Any]
    users: dict[Node, None]

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple,
        kwargs: dict[str, Any],
        return_type: Any | None = None,
    ) -> None:
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type {type_text(type(target))} but a"
                    " Callable is expected"
                )
        else:
            assert op in LEGAL_OPS, f"fx.Node: unknown op {op!r}; expected one of {sorted(LEGAL_OPS)}"
            if not isinstance(target, str):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type {type_text(type(target))} but a"
                    " str is expected"
                )
        put = self.__dict__.__setitem__   # nothing is in a lookup table yet, so __setattr__ has nothing to say
        put("graph", graph)
        put("name", name)
        put("op", op)
        put("target", target)
        put("type", return_type)
        put("meta", {})
        put("users", {})
        put("_input_nodes", {})
        put("_repr_fn", None)
        put("_prev", self)
        put("_next", self)
        put("_erased", False)
        put("_sort_key", 0)
        self._update_args_kwargs(args, kwargs)

    # --- position -----------------------------------------------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The node after this one (the graph's root after the last)."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move `x`, a node of the same graph, before this node."""
        assert self.graph == x.graph, "Attempting to move a Node into a different Graph"
        if self is x:
            return
        x._remove_from_list()
        before = self._prev
        before.__dict__["_next"], x.__dict__["_prev"] = x, before
        x.__dict__["_next"], self.__dict__["_prev"] = self, x
        x._set_order()

    def append(self, x: Node) -> None:
        """Move `x`, a node of the same graph, after this node."""
        if x is not self:
            self._next.prepend(x)

    def _remove_from_list(self) -> None:
        p, n = self._prev, self._next
        p.__dict__["_next"], n.__dict__["_prev"] = n, p

    def _set_order(self) -> None:
        """A key between the neighbours'; without room there, the whole graph is numbered anew."""
        root = self.graph._root
        low = 0 if self._prev is root else self._prev._sort_key
        if self._next is root:
            self.__dict__["_sort_key"] = low + _SPACING
            return
        high = self._next._sort_key
        if high - low > 1:
            self.__dict__["_sort_key"] = (low + high) // 2
            return
        for i, node in enumerate(self.graph.nodes, 1):
            node.__dict__["_sort_key"] = i * _SPACING

    def __lt__(self, other: Node) -> bool:
        return self._sort_key < other._sort_key

    def __gt__(self, other: Node) -> bool:
        return self._sort_key > other._sort_key

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    # --- arguments ----------------------------------------------------------------------------------------------------

    @property
    def args(self) -> tuple:
        """Positional arguments. Assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, a: tuple) -> None:
        self._update_args_kwargs(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments. Assign a new dict to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Any]) -> None:
        self._update_args_kwargs(self._args, k)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once, in order."""
        return list(self._input_nodes)

    def _update_args_kwargs(self, new_args: Iterable[Any], new_kwargs: dict[str, Any]) -> None:
        for used in self._input_nodes:
            used.users.pop(self, None)
        inputs: dict[Node, None] = {}

        def note(x: Any) -> Any:
            if isinstance(x, Node):
                inputs.setdefault(x)
                x.users.setdefault(self)
            return x

        self.__dict__["_args"] = map_aggregate(tuple(new_args), note)
        self.__dict__["_kwargs"] = map_aggregate(dict(new_kwargs), note)
        self.__dict__["_input_nodes"] = inputs

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replace the positional argument at `idx`."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Insert a positional argument before `idx`."""
        assert (
            0 <= idx <= len(self.args)
        ), f"insert_arg: index {idx} must be between 0 and len(self.args), {len(self.args)}"
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replace or add a keyword argument."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Make every user of this node (that `delete_user_cb` accepts) use `replace_with`; the users that changed."""
        if propagate_meta:
            assert (
                not replace_with.meta
            ), "replace_all_uses_with(propagate_meta=True): the replacement already has .meta keys"
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use `new_input` wherever this node uses `old_input`."""
        for hook in getattr(self.graph.owning_module, "_replace_hooks", None) or ():
            hook(old=old_input, new=new_input.name, user=self)

        def swap(x: Node) -> Node:
            return new_input if x is old_input else x

        self._update_args_kwargs(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    # --- questions ----------------------------------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """Where in the user's code the node was recorded, if that was asked for."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the node must stay although nothing uses its result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return (
                self.target in _side_effectful_functions
                or _mutates(self.target)
                or getattr(getattr(self.target, "definition", None), "effect", None) is not None
                or (impure_random and _draws(self.target))
            )
        if self.op == "call_module":
            assert self.graph.owning_module is not None, "is_impure: a call_module node needs graph.owning_module set"
            return getattr(self.graph.owning_module.get_submodule(str(self.target)), "_is_impure", False)
        return False

    def normalized_arguments(self, root: Module, arg_types: tuple | None = None,
                             kwarg_types: dict[str, Any] | None = None,
                             normalize_to_only_use_kwargs: bool = False) -> ArgsKwargsPair | None:
        """The arguments in the order and under the names of the callee's signature; None if it is not known."""
        from .operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs
            )
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs)
        return None

    # --- text ---------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    @staticmethod
    def _pretty_print_target(target: Target) -> str:
        if isinstance(target, str):
            return target
        name = getattr(target, "__name__", None)
        module = getattr(target, "__module__", None)
        if name is not None and not isinstance(target, (_C.Op, _C.Overload, AtenOverload)):
            if module == "builtins" and getattr(builtins, name, None) is target:
                return f"builtins.{name}"
            if module == "_operator":
                return f"operator.{name}"
        return qualified_name(target)

    def format_node(self, placeholder_names: list[str] | None = None, maybe_return_typename: list[str] | None = None, *,
                    include_tensor_metadata: bool = False) -> str | None:
        """One line of the text form of a graph."""
        shown_type = (
            f"{type_text(self.type)} " if self.type is not None and (self.type or self.op != "placeholder") else ""
        )
        head = (
            f"%{self.name} : {{}}[num_users={len(self.users)}] ="
            f" {self.op}[target={self._pretty_print_target(self.target)}]"
        )
        if self.op == "placeholder":
            if placeholder_names:
                placeholder_names.append(f"{self.target}: {type_text(self.type)}" if self.type else str(self.target))
                return None
            return head.format(shown_type) + (f"(default={plain_text(self.args[0])})" if self.args else "")
        if self.op == "get_attr":
            return head.format(shown_type)
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_text(self.type)}"
            return f"return {self.args[0]}"
        value = self.meta.get("val", self.meta.get("tensor_meta", self.meta.get("example_value")))
        if include_tensor_metadata and isinstance(value, Tensor):
            sizes, strides = (", ".join(map(str, x)) for x in (value.shape, value.stride()))
            shown_type = f'Tensor "{dtype_abbrs[value.dtype]}[{sizes}][{strides}]{value.device}"'
        return (
            head.replace("{}", shown_type, 1)
            + f"(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"
        )

    # --- bookkeeping --------------------------------------------------------------------------------------------------

    def _rename(self, candidate: str) -> None:
        if candidate == self.name:
            return
        self.name = self.graph._graph_namespace.create_name(candidate, None)
        self.graph._graph_namespace._rename_object(self, self.name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("op", "target", "name"):
            object.__setattr__(self, name, value)
            return
        if name == "name":
            for hook in getattr(self.graph.owning_module, "_replace_hooks", None) or ():
                for user in self.users:
                    hook(old=self, new=value, user=user)
        table = self.graph._find_nodes_lookup_table
        listed = self in table
        if listed:
            table.remove(self)
        object.__setattr__(self, name, value)
        if listed:
            table.insert(self)


def _mutates(target: Any) -> bool:
    """Whether an overload writes to its arguments."""
    if isinstance(target, AtenOverload):
        return target.inplace
    return isinstance(target, _C.Overload) and (target.inplace or any(p.mutated for p in target.definition.spec.params))


def _draws(target: Any) -> bool:
    """Whether a target draws random numbers: running it moves the generator on."""
    overloads = (
        target.overload_list
        if isinstance(target, _C.Op)
        else [target] if isinstance(target, (_C.Overload, AtenOverload)) else ()
    )
    return any(o.definition.batch == "random" for o in overloads)
