"""Channels followed through a traced model: which are one and the same, which are constant, and who reads them.

Enters: a graph module and an example input. Leaves: `ChannelFlow`, with the layers that make channels, those that read
them and those that have a parameter per channel, and `removable()`: the channels that nobody needs. A channel is not
needed where every layer that reads it has zero weights for it, or can have it as a constant in its bias.
What this file does not know is held to need all of its input.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..._C import Tensor
from ...fx import GraphModule, Interpreter, Node
from ...nn import functional as F, modules as nn
from ...nn.utils.parametrize import is_parametrized
from ...op import find_op

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_POINTWISE_CLASSES = tuple(
    getattr(nn, name)
    for name in (
        "Identity Dropout Dropout1d Dropout2d Dropout3d AlphaDropout ReLU RReLU Hardtanh ReLU6 Sigmoid Hardsigmoid Tanh"
        " SiLU Mish Hardswish ELU CELU SELU Hardshrink Softshrink LeakyReLU LogSigmoid Softplus Softsign Tanhshrink"
        " Threshold GELU"
    ).split()
)
_POINTWISE = frozenset(
    "relu relu_ relu6 rrelu hardtanh sigmoid sigmoid_ hardsigmoid tanh tanh_ silu mish hardswish elu celu selu"
    " hardshrink softshrink leaky_relu leaky_relu_ logsigmoid softplus softsign tanhshrink gelu dropout dropout1d"
    " dropout2d dropout3d abs neg exp sqrt square clamp contiguous clone detach float half double".split()
)
_PAIRWISE = frozenset(
    "add add_ iadd sub sub_ isub mul mul_ imul div div_ truediv itruediv maximum minimum".split()
)
# Windows over the places of a channel: what is constant stays so, but for zeros that an average counts at the edges.
_WINDOW_CLASSES = tuple(
    getattr(nn, f"{kind}Pool{rank}d") for kind in ("Max", "Avg", "AdaptiveAvg", "AdaptiveMax") for rank in (1, 2, 3)
)
_WINDOWS = frozenset(
    [f"{kind}_pool{rank}d" for kind in ("max", "avg", "adaptive_avg", "adaptive_max") for rank in (1, 2, 3)]
    + ["interpolate", "upsample"]
)
_RESHAPES = frozenset("flatten view reshape unsqueeze squeeze unflatten".split())
SIZED_RESHAPES = frozenset(("view", "reshape"))


@dataclass
class Flow:
    """The channels of one value: the dim they lie along, which each one is, and its value where that is constant."""

    dim: int
    atoms: list[int]
    value: Tensor
    known: Tensor


@dataclass
class Layer:
    """A layer that makes channels from channels; `needs[o, i]` says that its output `o` takes part of input `i`."""

    node: Node
    module: Any
    source: Flow | None
    result: Flow
    needs: Tensor
    foldable: Tensor | None


@dataclass
class Owner:
    """A module with a parameter per channel."""

    module: Any
    flow: Flow


@dataclass
class ChannelFlow:
    """What a walk over the graph found."""

    graph: GraphModule
    shapes: dict[Node, tuple[int, ...] | None]
    layers: list[Layer] = field(default_factory=list)
    owners: list[Owner] = field(default_factory=list)
    flows: dict[Node, Flow] = field(default_factory=dict)
    parents: list[int] = field(default_factory=list)
    pinned: set[int] = field(default_factory=set)

    def same(self, atom: int) -> int:
        """The one that stands for all channels that are the same as this."""
        while self.parents[atom] != atom:
            self.parents[atom] = self.parents[self.parents[atom]]
            atom = self.parents[atom]
        return atom

    def unite(self, first: int, second: int) -> None:
        """Two channels can only stay or go together."""
        self.parents[self.same(first)] = self.same(second)

    def new(self, dim: int, value: Tensor, known: Tensor) -> Flow:
        """Channels that nothing is known of but their constants."""
        start = len(self.parents)
        atoms = list(range(start, start + len(value)))
        self.parents += atoms
        return Flow(dim, atoms, value, known)

    def pin(self, *values: Any) -> None:
        """All channels of these values are needed."""
        for value in values:
            if isinstance(value, Node) and value in self.flows:
                self.pinned.update(self.flows[value].atoms)
            elif isinstance(value, (list, tuple)):
                self.pin(*value)
            elif isinstance(value, dict):
                self.pin(*value.values())

    def removable(self) -> set[int]:
        """The channels nobody needs, by the one that stands for each; every layer keeps at least one."""
        kept = {self.same(atom) for atom in self.pinned}
        while True:
            removed = self._not_needed(kept)
            emptied = [layer for layer in self.layers if all(self.same(a) in removed for a in layer.result.atoms)]
            if not emptied:
                return removed
            kept.update(self.same(layer.result.atoms[0]) for layer in emptied)

    def _not_needed(self, kept: set[int]) -> set[int]:
        removed: set[int] = set()
        while True:
            needed = set(kept)
            for layer in self.layers:
                if layer.source is None or layer.foldable is None:
                    continue
                rows = self.places(layer.result, removed)
                reads = layer.needs[rows].any(0) & ~layer.foldable
                needed.update(self.same(layer.source.atoms[i]) for i in reads.nonzero().flatten().tolist())
            found = {self.same(atom) for atom in range(len(self.parents))} - needed
            if found == removed:
                return removed
            removed = found

    def places(self, flow: Flow, removed: set[int]) -> list[int]:
        """Where the channels lie that stay."""
        return [i for i, atom in enumerate(flow.atoms) if self.same(atom) not in removed]


class _Shapes(Interpreter):
    """Runs a graph and writes down the shape of each tensor; None for what is no tensor and holds none."""

    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph)
        self.shapes: dict[Node, tuple[int, ...] | None] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, Tensor):
            self.shapes[n] = tuple(result.shape)
        elif isinstance(result, (int, float)) or (
            isinstance(result, tuple) and not any(isinstance(part, Tensor) for part in result)
        ):
            self.shapes[n] = None
        return result


def follow(graph: GraphModule, example: tuple[Any, ...]) -> ChannelFlow:
    """Walk over the graph of a model in evaluation mode."""
    runner = _Shapes(graph)
    runner.run(*example)
    flow = ChannelFlow(graph, runner.shapes)
    uses = Counter(node.target for node in graph.graph.nodes if node.op == "call_module")
    owned = Counter(id(p) for module in graph.modules() for p in module.parameters(recurse=False))
    for node in graph.graph.nodes:
        found = None
        module = graph.get_submodule(node.target) if node.op == "call_module" else None
        is_plain = module is None or not (
            is_parametrized(module) or any(uses[node.target] > 1 or owned[id(p)] > 1 for p in module.parameters())
        )
        if runner.shapes.get(node) is not None and is_plain:
            found = _of_module(flow, node, module) if module is not None else _of_call(flow, node)
        if found is not None:
            flow.flows[node] = found
        elif node not in runner.shapes or runner.shapes[node] is not None:
            flow.pin(node.args, node.kwargs)
    return flow


def _of_module(flow: ChannelFlow, node: Node, module: Any) -> Flow | None:
    source = flow.flows.get(node.args[0]) if node.args and isinstance(node.args[0], Node) else None
    if isinstance(module, CONVOLUTIONS):
        return _convolution(flow, node, module, source)
    if isinstance(module, nn.Linear):
        return _linear(flow, node, module, source)
    if source is None:
        return None
    if isinstance(module, BATCH_NORMS) and source.dim == 1:
        return _batch_norm(flow, module, source)
    if isinstance(module, nn.PReLU) and (module.num_parameters == 1 or source.dim == 1):
        if module.num_parameters > 1:
            flow.owners.append(Owner(module, source))
        return Flow(source.dim, source.atoms, module(source.value[None])[0], source.known)
    if isinstance(module, _POINTWISE_CLASSES):
        return Flow(source.dim, source.atoms, module(source.value), source.known)
    if isinstance(module, (*_WINDOW_CLASSES, nn.Upsample)) and source.dim == 1:
        return _window(source, "Avg" in type(module).__name__ and _is_padded(getattr(module, "padding", 0)))
    if isinstance(module, nn.Flatten):
        return _reshaped(flow, node, source)
    return None


def _is_padded(padding: Any) -> bool:
    return padding == "same" or any(padding if isinstance(padding, (tuple, list)) else (0,)) or (
        isinstance(padding, int) and padding != 0
    )


def _convolution(flow: ChannelFlow, node: Node, module: Any, source: Flow | None) -> Flow | None:
    rank = len(flow.shapes[node] or ())
    channel = rank - len(module.kernel_size) - 1
    if source is not None and source.dim != channel:
        flow.pin(node.args)
        source = None
    padded = _is_padded(module.padding) and module.padding_mode == "zeros"
    result, layer = _layer(flow, node, module, source, channel, padded)
    if module.groups == 1:
        return result
    layer.foldable = None
    if source is None:
        flow.pinned.update(result.atoms)
        return result
    inputs, outputs = module.in_channels // module.groups, module.out_channels // module.groups
    for group in range(module.groups):
        first = source.atoms[group * inputs]
        for atom in (
            *source.atoms[group * inputs : (group + 1) * inputs],
            *result.atoms[group * outputs : (group + 1) * outputs],
        ):
            flow.unite(atom, first)
    return result


def _linear(flow: ChannelFlow, node: Node, module: Any, source: Flow | None) -> Flow | None:
    channel = len(flow.shapes[node] or ()) - 1
    if source is not None and source.dim != channel:
        flow.pin(node.args)
        source = None
    return _layer(flow, node, module, source, channel, padded=False)[0]


def full_weight(module: Any) -> Tensor:
    """The weight of a layer as (outputs, inputs, places), with zeros where outputs and inputs are of other groups."""
    weight = module.weight.detach()
    weight = weight.flatten(2) if weight.dim() > 2 else weight[:, :, None]
    groups = getattr(module, "groups", 1)
    if groups == 1:
        return weight
    whole = find_op("zeros")(
        (weight.shape[0], module.in_channels, weight.shape[2]), dtype=weight.dtype, device=weight.device
    )
    rows, columns = weight.shape[0] // groups, weight.shape[1]
    for group in range(groups):
        part = slice(group * rows, (group + 1) * rows)
        whole[part, group * columns : (group + 1) * columns] = weight[part]
    return whole


def _layer(
    flow: ChannelFlow, node: Node, module: Any, source: Flow | None, dim: int, padded: bool
) -> tuple[Flow, Layer]:
    """The channels a layer makes: constant where all that it takes is."""
    weight = full_weight(module)
    needs = (weight != 0).any(-1)
    value = weight[:, 0, 0] * 0 if module.bias is None else module.bias.detach().clone()
    foldable = None
    known = ~needs.any(1)
    if source is not None:
        foldable = source.known & (source.value == 0) if padded else source.known.clone()
        known = ~(needs & ~foldable).any(1)
        value = value + find_op("matmul")(weight.sum(-1)[:, foldable], source.value[foldable])
    result = flow.new(dim, value, known)
    layer = Layer(node, module, source, result, needs, foldable)
    flow.layers.append(layer)
    return result, layer


def _batch_norm(flow: ChannelFlow, module: Any, source: Flow) -> Flow:
    flow.owners.append(Owner(module, source))
    if module.running_mean is None:
        return Flow(source.dim, source.atoms, source.value, source.known & False)
    weight, bias = (None if p is None else p.detach() for p in (module.weight, module.bias))
    value = F.batch_norm(
        source.value[None], module.running_mean, module.running_var, weight, bias, False, 0.0, module.eps
    )
    return Flow(source.dim, source.atoms, value[0], source.known)


def _window(source: Flow, only_zeros: bool) -> Flow:
    known = source.known & (source.value == 0) if only_zeros else source.known
    return Flow(source.dim, source.atoms, source.value, known)


def _of_call(flow: ChannelFlow, node: Node) -> Flow | None:
    """The channels of what a function or method leaves; None where it is not known to keep them."""
    if node.op not in ("call_function", "call_method"):
        return None
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if name in ("cat", "concat", "concatenate"):
        return _concatenated(flow, node)
    if name in _PAIRWISE:
        return _pairwise(flow, node, name)
    source = flow.flows.get(node.args[0]) if node.args and isinstance(node.args[0], Node) else None
    if source is None:
        return None
    if name in _POINTWISE and not any(isinstance(arg, Node) for arg in (*node.args[1:], *node.kwargs.values())):
        return Flow(source.dim, source.atoms, _call(node, source.value, *node.args[1:]), source.known)
    if name in _WINDOWS and source.dim == 1:
        padding = node.kwargs.get("padding", node.args[3] if len(node.args) > 3 else 0)
        return _window(source, name.startswith("avg") and _is_padded(padding))
    if name == "pad" and source.dim == 1:
        return _padded(flow, node, source)
    if name in ("mean", "amax", "amin"):
        return _reduced(flow, node, source)
    return _reshaped(flow, node, source) if name in _RESHAPES else None


def _call(node: Node, *args: Any) -> Tensor:
    kwargs = {key: value for key, value in node.kwargs.items() if key not in ("inplace", "training")}
    if isinstance(node.target, str):
        return getattr(args[0].clone(), node.target)(*args[1:], **kwargs)
    if "dropout" in getattr(node.target, "__name__", ""):
        return args[0]
    return node.target(args[0].clone(), *args[1:], **kwargs)  # type: ignore[operator]


def _padded(flow: ChannelFlow, node: Node, source: Flow) -> Flow | None:
    before, after = flow.shapes.get(node.args[0]), flow.shapes[node]  # type: ignore[arg-type]
    if before is None or after is None or before[:2] != after[:2]:
        return None
    return _window(source, only_zeros=True) if node.kwargs.get("mode", "constant") == "constant" and not any(
        (node.kwargs.get("value"), *node.args[3:])
    ) else Flow(source.dim, source.atoms, source.value, source.known & False)


def _reduced(flow: ChannelFlow, node: Node, source: Flow) -> Flow | None:
    """A mean or extreme over other dims than that of the channels."""
    given = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    rank = len(flow.shapes[node.args[0]] or ())  # type: ignore[index]
    dims = [given] if isinstance(given, int) else given
    if not isinstance(dims, (list, tuple)) or not all(isinstance(dim, int) for dim in dims):
        return None
    dims = [dim % rank for dim in dims]
    if source.dim in dims:
        return None
    keeps = len(flow.shapes[node] or ()) == rank
    return Flow(source.dim - (0 if keeps else sum(d < source.dim for d in dims)), source.atoms, source.value,
                source.known)


def _reshaped(flow: ChannelFlow, node: Node, source: Flow) -> Flow | None:
    """The same channels in another shape, or each as many times in a row as a flattening makes of it."""
    before, after = flow.shapes.get(node.args[0]), flow.shapes[node]  # type: ignore[arg-type]
    if before is None or after is None:
        return None
    for dim in {source.dim, source.dim + len(after) - len(before)}:
        if not 0 <= dim < len(after) or math.prod(after[:dim]) != math.prod(before[: source.dim]):
            continue
        times, rest = divmod(after[dim], before[source.dim])
        if rest or times == 0 or (times > 1 and math.prod(after[dim + 1 :]) != 1):
            continue
        atoms = [atom for atom in source.atoms for _ in range(times)]
        return Flow(dim, atoms, source.value.repeat_interleave(times), source.known.repeat_interleave(times))
    return None


def _concatenated(flow: ChannelFlow, node: Node) -> Flow | None:
    parts: Any = node.args[0]
    given = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else 0)
    if not isinstance(parts, (list, tuple)) or not isinstance(given, int):
        return None
    rank = len(flow.shapes[node] or ())
    flows = [flow.flows.get(part) for part in parts]
    tracked = [found for found in flows if found is not None]
    if not tracked or any(found.dim != tracked[0].dim for found in tracked):
        return None
    if given % rank != tracked[0].dim:
        return _united(flow, tracked) if len(tracked) == len(flows) else None
    whole = [found if found is not None else _pinned_part(flow, part, tracked[0]) for part, found in zip(parts, flows)]
    return Flow(
        tracked[0].dim,
        [atom for found in whole for atom in found.atoms],
        find_op("cat")([found.value for found in whole]),
        find_op("cat")([found.known for found in whole]),
    )


def _pinned_part(flow: ChannelFlow, node: Node, like: Flow) -> Flow:
    """Channels that come from what is not followed, and so stay."""
    size = (flow.shapes[node] or ())[like.dim]
    zeros = find_op("zeros")((size,), dtype=like.value.dtype, device=like.value.device)
    found = flow.new(like.dim, zeros, zeros != 0)
    flow.pinned.update(found.atoms)
    return found


def _united(flow: ChannelFlow, parts: list[Flow]) -> Flow | None:
    """Channels that lie over each other: constant where all are, and the same."""
    first, known = parts[0], parts[0].known
    for other in parts[1:]:
        if len(other.atoms) != len(first.atoms):
            return None
        for one, two in zip(first.atoms, other.atoms):
            flow.unite(one, two)
        known = known & other.known & (other.value == first.value)
    return Flow(first.dim, first.atoms, first.value, known)


def _pairwise(flow: ChannelFlow, node: Node, name: str) -> Flow | None:
    """A sum, product or the like of two values, or of a value and a number."""
    if len(node.args) < 2:
        return None
    sides = node.args[:2]
    flows = [flow.flows.get(side) if isinstance(side, Node) else None for side in sides]
    ranks = [len(flow.shapes.get(side) or ()) if isinstance(side, Node) else 0 for side in sides]
    rank = len(flow.shapes[node] or ())
    if flows[0] is not None and flows[1] is not None:
        return _two_flows(flow, node, flows, ranks, rank)  # type: ignore[arg-type]
    which = 0 if flows[0] is not None else 1
    source, other = flows[which], sides[1 - which]
    if source is None or ranks[which] != rank:
        return None
    if not isinstance(other, Node):
        args = (source.value, other) if which == 0 else (other, source.value)
        return Flow(source.dim, source.atoms, _combined(node, *args), source.known)
    shape = flow.shapes.get(other) or ()
    at = source.dim - rank + len(shape)
    if at >= 0 and shape and shape[at] != 1:
        return None
    known = source.known & (source.value == 0) if "mul" in name else source.known & False
    return Flow(source.dim, source.atoms, source.value, known)


def _two_flows(flow: ChannelFlow, node: Node, flows: list[Flow], ranks: list[int], rank: int) -> Flow | None:
    first, second = flows
    dims = [found.dim + rank - own for found, own in zip(flows, ranks)]
    if dims[0] != dims[1] or len(first.atoms) != len(second.atoms):
        return None
    for one, two in zip(first.atoms, second.atoms):
        flow.unite(one, two)
    known = first.known & second.known
    value = _combined(node, first.value, second.value)
    if "mul" in getattr(node.target, "__name__", str(node.target)):
        known = known | (first.known & (first.value == 0)) | (second.known & (second.value == 0))
    return Flow(dims[0], first.atoms, find_op("where")(known, value, find_op("zeros_like")(value)), known)


def _combined(node: Node, first: Any, second: Any) -> Tensor:
    """The function of a pair on the constants of two values; in-place forms work on copies."""
    first = first.clone() if isinstance(first, Tensor) else first
    if isinstance(node.target, str):
        return getattr(first, node.target)(second, *node.args[2:], **node.kwargs)
    function = operator.add if node.target is operator.iadd else node.target
    return function(first, second, *node.args[2:], **node.kwargs)  # type: ignore[operator]
