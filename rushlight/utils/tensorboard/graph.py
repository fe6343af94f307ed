"""A module as a graph for TensorBoard: what one run of it calls, with the modules it ran in and the shapes it made.

Enters: a module and example inputs. Leaves: a `GraphDef` message as PyTorch writes it: inputs, outputs, parameters as
attributes of their modules, every op under the names of the modules it ran in (`Net/Sequential[body]/Linear[0]/7`),
with each of its arguments as an input: constants and lists are nodes too. Values have numbers as names, where PyTorch's
tracer borrows some from variables. A program that looks at elements is drawn as it ran for the example. Refuses: what
`jit.trace` refuses.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from operator import getitem
from typing import Any

from ... import _C
from ...base import late
from .._pytree import tree_leaves, tree_unflatten
from .graph_nodes import GraphNodes, Stack
from .wire import Message

# Of a convolution as PyTorch's tracer sees it: (is transposed, its arguments after the first three, by position).
_CONVOLUTIONS = {f"conv{d}d": False for d in (1, 2, 3)} | {f"conv_transpose{d}d": True for d in (1, 2, 3)}
_LENGTH = re.compile(r"^int\[(\d)\]")


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """A module in evaluation, and every part of it as it was afterwards."""
    modes = [(m, m.training) for m in model.modules()] if hasattr(model, "modules") else []
    try:
        for m, _ in modes:
            m.training = False
        yield
    finally:
        for m, mode in modes:
            m.training = mode


def _stack(node: Any) -> Stack:
    """The modules a node ran in, without the outermost: (path, class)."""
    known = (node.meta.get("nn_module_stack") or {}).values()
    return tuple((path, kind.rpartition(".")[2]) for path, kind in known if path)


def _arguments(node: Any) -> list[Any]:
    """All arguments of a call in the order of its signature, defaults included."""
    given = list(node.args)
    for p in node.target._schema.arguments[len(given) :]:
        value = node.kwargs.get(p.name, p.default_value)
        length = _LENGTH.search(str(p.type))       # `int[2] padding=0` means a zero for each
        if length is not None and isinstance(value, int):
            value = [value] * int(length[1])
        given.append(value)
    for k, p in enumerate(node.target._schema.arguments):
        if p.name.startswith("cudnn_enable"):      # exported programs say no; a run asks
            given[k] = late.provided("package").backends.cudnn.enabled
    return given


def _convolution(name: str, given: list[Any]) -> list[Any]:
    """A convolution's arguments as those of the op that all of them are for PyTorch's tracer."""
    if _CONVOLUTIONS[name]:
        x, w, b, stride, padding, output_padding, groups, dilation = given
    else:
        (x, w, b, stride, padding, dilation, groups), output_padding = given, [0]
    dims = int(name[-2])
    wide = [list(v) * dims if len(v) == 1 else list(v) for v in (stride, padding, dilation, output_padding)]
    return [x, w, b, *wide[:3], _CONVOLUTIONS[name], wide[3], groups, False, False, True, True]


class _Drawing:
    """An exported program, node by node."""

    def __init__(self, nodes: GraphNodes, program: Any) -> None:
        self.nodes, self.program = nodes, program
        self.lists: set[Any] = set()          # nodes whose results are lists
        signature = program.graph_signature
        self.held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        self.constants = signature.inputs_to_lifted_tensor_constants

    def draw(self) -> None:
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self._output(node)

    def _placeholder(self, node: Any) -> None:
        if not node.users:
            return
        if node.name in self.held:
            self.nodes.attribute(node, self.held[node.name])
        elif node.name in self.constants:
            self.nodes.tensor_constant(node, self.program.constants[self.constants[node.name]])
        elif isinstance(node.meta.get("val"), _C.Tensor):
            self.nodes.input(node, node.name, node.meta["val"])

    def _call(self, node: Any) -> None:
        if node.target is getitem:
            self._item(node)
            return
        schema = getattr(node.target, "_schema", None)
        name = f"{schema.name}" if schema is not None else f"prim::{getattr(node.target, '__name__', node.target)}"
        given = _arguments(node) if schema is not None else [*node.args, *node.kwargs.values()]
        short = name.partition("::")[2]
        if short in _CONVOLUTIONS and not any(isinstance(v, str) for v in given):
            name, given = "aten::_convolution", _convolution(short, given)
        value = node.meta.get("val")
        if isinstance(value, list) or (schema is not None and [str(r.type) for r in schema.returns] == ["Tensor[]"]):
            self.lists.add(node)
            self.nodes.call([node], name, _stack(node), given, [None])
        elif isinstance(value, tuple):
            self.nodes.call([(node, k) for k in range(len(value))], name, _stack(node), given, value)
        else:
            self.nodes.call([node], name, _stack(node), given, [value])

    def _item(self, node: Any) -> None:
        source, k = node.args
        if source in self.lists:        # a list is taken apart at once, whichever of its items are used
            values = source.meta["val"]
            keys = [(source, i) for i in range(len(values))]
            self.nodes.call(keys, "prim::ListUnpack", _stack(node), [source], values)
            self.lists.discard(source)
        self.nodes.same(node, (source, k))

    def _output(self, node: Any) -> None:
        kept = set(self.program.graph_signature.user_outputs)
        found = [leaf for leaf in tree_leaves(node.args[0]) if not hasattr(leaf, "name") or leaf.name in kept]
        spec = self.program.call_spec.out_spec
        self.nodes.output(tree_unflatten(found, spec) if spec is not None else found[0])


def _draw(nodes: GraphNodes, model: Any, args: tuple) -> None:
    package = late.provided("package")
    try:
        program = package.export.draft_export(model, args, strict=False)
    except Exception:  # whatever capture refuses, one run can still be written down
        from .graph_run import draw_run  # noqa: PLC0415 - rarely needed

        draw_run(nodes, model, args)
        return
    _Drawing(nodes, program).draw()


def graph(model: Any, args: Any, verbose: bool = False, use_strict_trace: bool = True) -> tuple[Message, Message]:
    """The graph of `model(*args)`, and run metadata naming the device; `use_strict_trace` refuses outputs that are
    lists or dicts, as `jit.trace` does, and `verbose` prints the nodes."""
    given = args if isinstance(args, tuple) else tuple(args) if isinstance(args, list) else (args,)
    with _evaluating(model):
        try:
            late.provided("package").jit.trace(model, given, strict=use_strict_trace, check_trace=False)
        except RuntimeError as error:
            print(error)
            print("Error occurs, No graph saved")
            raise
        nodes = GraphNodes(model)
        _draw(nodes, model, given)
    if verbose:
        print(nodes)
    device = Message("StepStats", dev_stats=[Message("DeviceStepStats", device="/device:CPU:0")])
    return nodes.message(), Message("RunMetadata", step_stats=device)
