"""`shrink`: a model without the channels that its masks made useless.

Enters: a model, pruned by `nn.utils.prune`, by a sparsifier of this package or by zeros in its weights, and an example
input. Leaves: a traced copy that is smaller and computes the same; the model given stays as it is.
Refuses models that cannot be traced, and a result that would not compute the same.
"""

from __future__ import annotations

import copy
from typing import Any

from ..._C import Tensor
from ...autograd.grad_mode import no_grad
from ...fx import GraphModule, Node, symbolic_trace
from ...nn import Module, Parameter, PReLU
from ...nn.utils import parametrize, prune
from ...op import find_op
from ...utils._pytree import tree_leaves
from ._experimental.pruner.parametrization import BiasHook, FakeStructuredSparsity
from .channel_flow import SIZED_RESHAPES, ChannelFlow, Flow, Layer, follow, full_weight
from .sparsifier.utils import FakeSparsity

__all__ = ["shrink"]

_TOLERANCE = 1e-3        # of the largest output: sums of fewer terms round otherwise


def shrink(model: Module, example: Any) -> GraphModule:
    """The model without the channels that are masked to zero, with the outputs of the masked one.

    Channels go where each layer that reads them has zero weights for them or can take them, constant in evaluation
    mode, into its bias. They are followed through sums, products, concatenation, batch norms, activations, pools,
    flattening, and group and depthwise convolutions (whole groups). Where the model's form is not known, they stay.
    `example` is an input or a tuple of inputs, of any batch size.
    """
    example = example if isinstance(example, tuple) else (example,)
    copied = _baked_copy(model)
    graph = symbolic_trace(copied)
    was_training = {name: module.training for name, module in graph.named_modules()}
    graph.eval()
    with no_grad():
        before = graph(*copy.deepcopy(example))
        flow = follow(graph, copy.deepcopy(example))
        _rewrite(flow, flow.removable())
        graph.recompile()
        _check_same(before, graph(*copy.deepcopy(example)))
    for name, module in graph.named_modules():
        module.training = was_training[name]
    return graph


def _baked_copy(model: Module) -> Module:
    """A copy with all masks baked into the tensors they mask."""
    with no_grad():
        for module in model.modules():
            for hook in module._forward_pre_hooks.values():
                if isinstance(hook, prune.BasePruningMethod):
                    hook(module, ())        # a masked tensor that has no history can be copied
        copied = copy.deepcopy(model)
        for module in copied.modules():
            hooks = [h for h in module._forward_pre_hooks.values() if isinstance(h, prune.BasePruningMethod)]
            for hook in hooks:
                prune.remove(module, hook._tensor_name)
            _bake_bias(module)
            _bake_masks(module)
    return copied


def _bake_masks(module: Any) -> None:
    """Let a module whose tensors are parametrized by masks alone be the plain module of masked tensors.

    A copy has the class of the model's own module, which carries its parametrized tensors as properties: they stay.
    """
    kinds = (FakeSparsity, FakeStructuredSparsity)
    if not parametrize.is_parametrized(module) or not all(
        isinstance(step, kinds) for steps in module.parametrizations.values() for step in steps
    ):
        return
    baked = {name: (getattr(module, name), steps.original) for name, steps in module.parametrizations.items()}
    module.__class__ = parametrize.type_before_parametrizations(module)
    del module.parametrizations
    for name, (value, original) in baked.items():
        if isinstance(original, Parameter):
            module.register_parameter(name, Parameter(value.detach(), requires_grad=original.requires_grad))
        else:
            module.register_buffer(name, value.detach())


def _bake_bias(module: Any) -> None:
    """Give a layer back the bias that a pruner of channels had set aside."""
    hooks = {key: hook for key, hook in module._forward_hooks.items() if isinstance(hook, BiasHook)}
    for key, hook in hooks.items():
        del module._forward_hooks[key]
        if getattr(module, "_bias", None) is not None:
            bias = module._bias.detach().clone()
            if hook.prune_bias:
                bias[~hook.param.mask] = 0
            module.bias = Parameter(bias)
            del module._bias


def _rewrite(flow: ChannelFlow, removed: set[int]) -> None:
    """Cut the parameters of all layers, and sizes that the graph has in it as numbers."""
    for layer in flow.layers:
        _cut_layer(flow, layer, removed)
    for owner in flow.owners:
        _cut_owner(owner.module, flow, owner.flow, removed)
    for node, found in flow.flows.items():
        if node.target in SIZED_RESHAPES or getattr(node.target, "__name__", "") in SIZED_RESHAPES:
            _resize(node, found, len(flow.places(found, removed)))


def _cut_layer(flow: ChannelFlow, layer: Layer, removed: set[int]) -> None:
    module = layer.module
    rows = flow.places(layer.result, removed)
    grouped = getattr(module, "groups", 1) > 1
    inputs = None if layer.source is None else flow.places(layer.source, removed)
    if inputs is not None and not grouped:
        _fold(module, layer, flow, removed)
    weight = module.weight.detach()[rows]
    if inputs is not None and not grouped:
        weight = weight[:, inputs]
    _replace(module, "weight", weight)
    if module.bias is not None:
        _replace(module, "bias", module.bias.detach()[rows])
    if not hasattr(module, "groups"):
        module.out_features, module.in_features = len(rows), weight.shape[1]
        return
    if grouped:
        module.groups = module.groups * len(rows) // module.out_channels
    module.out_channels, module.in_channels = len(rows), weight.shape[1] * module.groups


def _fold(module: Any, layer: Layer, flow: ChannelFlow, removed: set[int]) -> None:
    """Add to a layer's bias what the constants it will not read any more gave to its output."""
    source: Any = layer.source
    going = [i for i, atom in enumerate(source.atoms) if flow.same(atom) in removed and bool(source.known[i])]
    if not going:
        return
    given = find_op("matmul")(full_weight(module)[:, going].sum(-1), source.value[going])
    if module.bias is not None:
        _replace(module, "bias", module.bias.detach() + given)
    elif bool((given != 0).any()):
        module.bias = Parameter(given)


def _cut_owner(module: Any, flow: ChannelFlow, found: Flow, removed: set[int]) -> None:
    kept = flow.places(found, removed)
    for name in ("weight", "bias"):
        if getattr(module, name, None) is not None:
            _replace(module, name, getattr(module, name).detach()[kept])
    for name in ("running_mean", "running_var"):
        if getattr(module, name, None) is not None:
            module.register_buffer(name, getattr(module, name)[kept])
    setattr(module, "num_parameters" if isinstance(module, PReLU) else "num_features", len(kept))


def _replace(module: Any, name: str, value: Tensor) -> None:
    old = getattr(module, name)
    setattr(module, name, Parameter(value.contiguous(), requires_grad=old.requires_grad))


def _resize(node: Node, found: Flow, size: int) -> None:
    """Let a reshape to a number of channels be one to the number there is now."""
    sizes: Any = node.args[1:]
    nested = len(sizes) == 1 and isinstance(sizes[0], (tuple, list))
    sizes = list(sizes[0] if nested else sizes)
    dim = found.dim if found.dim < len(sizes) else len(sizes) - 1
    if dim >= 0 and isinstance(sizes[dim], int) and sizes[dim] == len(found.atoms):
        sizes[dim] = size
        node.args = (node.args[0], tuple(sizes)) if nested else (node.args[0], *sizes)


def _check_same(before: Any, after: Any) -> None:
    """Refuse a result that is another model."""
    for old, new in zip(tree_leaves(before), tree_leaves(after), strict=True):
        if not isinstance(old, Tensor) or not old.is_floating_point():
            continue
        if old.shape != new.shape or not bool(((new - old).abs() <= _TOLERANCE * (1 + old.abs().max())).all()):
            raise RuntimeError(
                "shrink: the smaller model does not compute what the masked one does on this example, so the model has"
                " a form that channels cannot be followed through. Please report it; the model given is unchanged."
            )
