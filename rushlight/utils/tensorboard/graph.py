"""A module as a graph for TensorBoard: one run, written down op by op.

Enters: a module and example inputs. Leaves: a `GraphDef` message: inputs, parameters, every op with the shapes it made,
named after the modules it ran in, and outputs. What the run skips (branches not taken) is not in the graph.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ... import _C
from ...autograd import no_grad
from ...dispatch.modes import TorchDispatchMode
from .._pytree import tree_leaves
from ..module_tracker import ModuleTracker
from .wire import Message


def _shapes(tensors: list[Any]) -> Message:
    result = [Message("TensorShapeProto", dim=[Message("Dim", size=s) for s in t.shape]) for t in tensors]
    return Message(
        "AttrEntry", key="_output_shapes", value=Message("AttrValue", list=Message("AttrList", shape=result))
    )


def _node(name: str, op: str, inputs: list[str] = (), outputs: list[Any] = (), note: str = "") -> Message:
    attributes = [_shapes(list(outputs))] if outputs else []
    if note:
        attributes.append(Message("AttrEntry", key="attr", value=Message("AttrValue", s=note)))
    return Message("NodeDef", name=name, op=op, input=list(inputs), attr=attributes)


class _Recorder(TorchDispatchMode):
    """Nodes of every op that runs."""

    own_ops = True

    def __init__(self, tracker: ModuleTracker, root: str) -> None:
        self.tracker, self.root = tracker, root
        self.nodes: list[Message] = []
        self.sources: dict[int, str] = {}
        self.alive: list[Any] = []        # tensors whose identity names a node must not be replaced by others
        self.numbers: Counter = Counter()

    def name(self, tensor: Any, source: str) -> None:
        self.sources[id(tensor)] = source
        self.alive.append(tensor)

    def scope(self) -> str:
        inside = [p for p in self.tracker.parents if p != "Global"]
        path = max(inside, key=lambda p: p.count("."), default=self.root)
        return path.replace(".", "/")

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = tree_leaves((args, kwargs or {}))
        inputs = [self.sources[id(t)] for t in given if isinstance(t, _C.Tensor) and id(t) in self.sources]
        plain = [repr(a) for a in given if not isinstance(a, _C.Tensor)]
        stem = f"{self.scope()}/aten::{func.name}"
        self.numbers[stem] += 1
        name = f"{stem}_{self.numbers[stem]}"
        result = [t for t in tree_leaves(out) if isinstance(t, _C.Tensor)]
        self.nodes.append(
            _node(name, f"aten::{func.name}", inputs, result, f"{{ arguments: {', '.join(plain)} }}" if plain else "")
        )
        for t in result:
            self.name(t, name)
        return out


def graph(model: Any, args: Any, verbose: bool = False, use_strict_trace: bool = True) -> tuple[Message, Message]:
    """The graph of `model(*args)`, and run metadata naming the device."""
    root = type(model).__name__
    inputs = (
        args
        if isinstance(args, tuple)
        else (args,) if isinstance(args, _C.Tensor) or not isinstance(args, list) else tuple(args)
    )
    with ModuleTracker() as tracker:
        recorder = _Recorder(tracker, root)
        nodes = []
        for i, t in enumerate(x for x in tree_leaves(inputs) if isinstance(x, _C.Tensor)):
            recorder.name(t, f"input/input_{i}")
            nodes.append(_node(f"input/input_{i}", "IO Node", [], [t]))
        for name, t in [*model.named_parameters(), *model.named_buffers()]:
            path = f"{root}/{name.replace('.', '/')}"
            recorder.name(t, path)
            nodes.append(_node(path, "prim::Param", [], [t]))
        with no_grad(), recorder:
            result = model(*inputs)
    outputs = [t for t in tree_leaves(result) if isinstance(t, _C.Tensor)]
    nodes += recorder.nodes
    for i, t in enumerate(outputs):
        nodes.append(
            _node(f"output/output_{i}", "IO Node", [recorder.sources[id(t)]] if id(t) in recorder.sources else [], [t])
        )
    if verbose:
        for node in nodes:
            print(f"{node.fields['name']} = {node.fields['op']}({', '.join(node.fields['input'])})")
    device = Message("StepStats", dev_stats=[Message("DeviceStepStats", device="/device:CPU:0")])
    return Message("GraphDef", node=nodes, versions=Message("VersionDef", producer=22)), Message(
        "RunMetadata", step_stats=device
    )
