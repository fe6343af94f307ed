"""How modules inside a program are called, where that is to be kept: structures of arguments and results, and which
values of the graph they are.

Enters: modules by path, while a program is traced. Leaves: a `ModuleCallSignature` for each of their calls, by the
label of the call (`block`, `block@1`, ...). Refuses: arguments that are neither tensors nor numbers, strings or None.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .._C import Tensor
from ..dynamo.errors import UserError
from ..fx.experimental.symbolic_sizes import SYMBOLIC
from ..fx.node import Node
from ..nn import Module
from ..utils import _pytree as pytree
from .graph_signature import ConstantArgument
from .values import argument_of


@dataclasses.dataclass
class ModuleCallSignature:
    """How a module inside the program is called."""

    inputs: list[Any]
    outputs: list[Any]
    in_spec: Any
    out_spec: Any
    forward_arg_names: list[str] | None = None

    def replace_all_uses_with(self, original_node: Any, new_node: Any) -> None:
        """A node has another name now."""
        for arg in (*self.inputs, *self.outputs):
            if not isinstance(arg, ConstantArgument) and arg.name == original_node.name:
                arg.name = new_node.name


@dataclasses.dataclass
class ModuleCallEntry:
    """A module that is called, and how, where that is to be kept."""

    fqn: str
    signature: ModuleCallSignature | None = None


class _Side(NamedTuple):
    """Arguments or results of a call: nodes and constants, their structure, and the tensors themselves."""

    nodes: list[Any]
    values: list[Any]
    spec: Any


class NotedCalls:
    """The calls of modules whose signatures are kept."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.given: dict[str, _Side] = {}
        self.returned: dict[str, _Side] = {}

    def side(self, path: str, what: str, tree: Any) -> _Side:
        leaves, spec = pytree.tree_flatten(tree)
        for leaf in leaves:
            if not isinstance(leaf, (Tensor, *SYMBOLIC, int, float, bool, str, type(None))):
                raise UserError(
                    f"export(preserve_module_call_signature=...): {what} of {path} holds a {type(leaf).__name__}. "
                    "Signatures are kept of tensors, numbers, strings, None and containers of them."
                )
        return _Side([self.node_of(leaf) for leaf in leaves], leaves, spec)

    def node_of(self, leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return self.tracer.proxy_of(leaf).node
        found = self.tracer.sizes.proxy(leaf) if isinstance(leaf, SYMBOLIC) else leaf
        return getattr(found, "node", found)

    def label(self) -> str:
        """The call that runs: innermost in the tracer's stack."""
        return next(reversed(self.tracer.module_stack.values()))[0]

    def is_kept(self, node: Node) -> bool:
        """Whether a node must stay although nothing in the graph uses it."""
        kept = {n for side in (*self.given.values(), *self.returned.values()) for n in side.nodes}
        return node in kept or node.is_impure()

    def signatures(self) -> dict[str, ModuleCallSignature]:
        return {
            label: ModuleCallSignature(_arguments(given), _arguments(self.returned[label]), given.spec,
                                       self.returned[label].spec)
            for label, given in self.given.items() if label in self.returned
        }


def _arguments(side: _Side) -> list[Any]:
    return [argument_of(value, node) for value, node in zip(side.values, side.nodes, strict=True)]


@contextlib.contextmanager
def noted_calls(tracer: Any, modules: Mapping[str, Module]) -> Iterator[NotedCalls]:
    """Inside, calls of these modules are noted."""
    noted = NotedCalls(tracer)
    running: list[str] = []       # the tracer's own stack is a call shorter when results are seen
    handles = []

    def enter(module: Module, args: tuple, kwargs: dict[str, Any]) -> None:
        label = noted.label()
        running.append(label)
        noted.given[label] = noted.side(label, "an argument", (args, kwargs))

    def leave(module: Module, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        label = running.pop()
        noted.returned[label] = noted.side(label, "the result", result)

    try:
        for module in modules.values():
            handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            handles.append(module.register_forward_hook(leave, with_kwargs=True))
        yield noted
    finally:
        for handle in handles:
            handle.remove()


def renamed(entries: Sequence[ModuleCallEntry], arguments: Any) -> list[ModuleCallEntry]:
    """The entries for another graph of the same program; `arguments` maps specs of values to those they have there."""
    result = []
    for entry in entries:
        s = entry.signature
        if s is not None:
            s = ModuleCallSignature([arguments(a) for a in s.inputs], [arguments(a) for a in s.outputs], s.in_spec,
                                    s.out_spec, s.forward_arg_names)
        result.append(ModuleCallEntry(entry.fqn, s))
    return result


def names_kept(entries: Sequence[ModuleCallEntry]) -> set[str]:
    """The values that kept signatures name."""
    return {
        a.name
        for e in entries if e.fqn and e.signature is not None
        for a in (*e.signature.inputs, *e.signature.outputs) if not isinstance(a, ConstantArgument)
    }
