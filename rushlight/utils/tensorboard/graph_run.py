"""A run of a module written down op by op, for programs that cannot be captured as a graph of PyTorch's ops.

Enters: a module and its inputs. Leaves: nodes of every op that ran, by its own name (`rushlight::...` of those that
PyTorch has no op for).
"""

from __future__ import annotations

import inspect
from typing import Any

from ... import _C
from ...aten.overloads import schemas_of
from ...autograd import no_grad
from ...base import late
from ...dispatch.modes import TorchDispatchMode
from .._pytree import tree_leaves, tree_map
from .graph_nodes import GraphNodes, Stack

Key = tuple[str, int]      # of a tensor's value


class _Writer(TorchDispatchMode):
    """Nodes of every op that runs."""

    own_ops = True

    def __init__(self, nodes: GraphNodes, stack: list[tuple[str, str]]) -> None:
        self.nodes, self.stack = nodes, stack
        self.alive: list[Any] = []        # tensors whose identity names a value must not be replaced by others

    def keep(self, tensor: Any) -> Key:
        self.alive.append(tensor)
        return "tensor", id(tensor)

    def known(self, value: Any) -> Any:
        """An argument, with tensors as the keys of their values; those nobody knows are constants."""
        if isinstance(value, _C.Tensor):
            key = self.keep(value)
            if key not in self.nodes.names:
                self.nodes.tensor_constant(key, value)
            return key
        return value

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = tree_map(self.known, [*args, *(kwargs or {}).values()])
        found = [t for t in tree_leaves(out) if isinstance(t, _C.Tensor)]
        space = "aten" if schemas_of(func.name) else "rushlight"
        stack: Stack = tuple(each for each in self.stack if each[0])
        self.nodes.call([self.keep(t) for t in found], f"{space}::{func.name}", stack, given, found)
        return out


def draw_run(nodes: GraphNodes, model: Any, args: tuple) -> None:
    """Run the module and write down what it calls."""
    stack: list[tuple[str, str]] = []
    writer = _Writer(nodes, stack)
    names = list(inspect.signature(model.forward).parameters)
    for k, value in enumerate(args):
        tensors = [t for t in tree_leaves(value) if isinstance(t, _C.Tensor)]
        for i, t in enumerate(tensors):
            name = names[min(k, len(names) - 1)]
            nodes.input(writer.keep(t), name if len(tensors) == 1 else f"{name}_{i}", t)
    for path, t in [*model.named_parameters(), *model.named_buffers()]:
        nodes.attribute(writer.keep(t), path)
    paths = {id(m): (path, type(m).__name__) for path, m in model.named_modules()}
    hooks = late.provided("module hooks")
    handles = [
        hooks.register_module_forward_pre_hook(lambda m, inputs: stack.append(paths.get(id(m), ("", "")))),
        hooks.register_module_forward_hook(lambda m, inputs, output: stack.pop() and None, always_call=True),
    ]
    try:
        with no_grad(), writer:
            result = model(*args)
    finally:
        for handle in handles:
            handle.remove()
    nodes.output(tree_map(writer.known, result))
