"""Masked rows taken out of a layer, and what read them out of the layer that follows.

Enters: the modules and functions of a matched chain. Leaves: the first layer without its masked rows, the next one
without the columns for them. A bias that pruned rows kept is carried into the next layer's bias.
Refuses layers whose sizes do not fit the mask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....._C import Tensor
from .....autograd.grad_mode import no_grad
from .....nn import LSTM, Conv2d, LayerNorm, Linear, Parameter
from .....nn.utils import parametrize
from .....op import find_op
from .parametrization import BiasHook, FakeStructuredSparsity

Activation = Callable[[Tensor], Tensor] | None


def _take_mask(module: Any, tensor_name: str = "weight") -> Tensor:
    """The mask of a tensor, baked into it and taken off."""
    steps = module.parametrizations[tensor_name]
    mask = [step.mask for step in steps if isinstance(step, FakeStructuredSparsity)][-1]
    with no_grad():
        parametrize.remove_parametrizations(module, tensor_name, leave_parametrized=True)
    return mask


def _cut(owner: Any, name: str, index: Any) -> Tensor:
    """Let a parameter be a part of itself."""
    with no_grad():
        setattr(owner, name, Parameter(getattr(owner, name)[index]))
    return getattr(owner, name)


def _inputs_of(module: Any, name: str = "weight") -> tuple[Any, str]:
    """Where the weight lies whose columns read a layer's input: under its parametrization, or in the module."""
    if parametrize.is_parametrized(module, name):
        return module.parametrizations[name], "original"
    return module, name


def _cut_columns(module: Any, mask: Tensor, name: str = "weight") -> int:
    owner, attribute = _inputs_of(module, name)
    columns = getattr(owner, attribute).shape[1]
    if columns != len(mask):
        raise RuntimeError(
            f"{type(module).__name__}: its {name} reads {columns} inputs per group, and the layer before it makes"
            f" {len(mask)}; ao.pruning.shrink follows models of other forms."
        )
    return _cut(owner, attribute, (slice(None), mask)).shape[1]


def _cut_rows(module: Any) -> Tensor:
    """Take the masked rows out of a layer, and the hook that added its bias."""
    mask = _take_mask(module)
    _cut(module, "weight", mask)
    for key in [key for key, hook in module._forward_hooks.items() if isinstance(hook, BiasHook)]:
        del module._forward_hooks[key]
    return mask


def _cut_bias(module: Any, mask: Tensor) -> Tensor | None:
    """Give a layer its bias back for the rows kept; leaves what the others had, None where masked rows had none."""
    kept = module.bias if module.bias is not None else getattr(module, "_bias", None)
    others = getattr(module, "_bias", None)
    if kept is not None:
        with no_grad():
            module.bias = Parameter(kept[mask])
    if hasattr(module, "_bias"):
        del module._bias
    if others is None or getattr(module, "prune_bias", False):
        return None
    return others.detach()[~mask]


def _carry_bias(module: Any, lost: Tensor, mask: Tensor) -> None:
    """Add to a layer's bias what constant inputs, those that are not in `mask`, gave to its output."""
    owner, attribute = _inputs_of(module)
    weight = getattr(owner, attribute).detach()[:, ~mask]
    carried = find_op("matmul")(weight.flatten(2).sum(-1) if weight.dim() > 2 else weight, lost)
    own = getattr(module, "_bias", None) if parametrize.is_parametrized(module) else module.bias
    module.bias = Parameter(carried if own is None else carried + own.detach())


def _prune_chain(first: Any, activation: Activation, following: Any, per_channel: int = 1) -> None:
    """Prune a layer before another, which reads `per_channel` inputs for each of its channels."""
    mask = _cut_rows(first)
    columns = mask.repeat_interleave(per_channel) if per_channel > 1 else mask
    lost = _cut_bias(first, mask)
    if lost is not None:
        lost = activation(lost) if activation else lost
        _carry_bias(following, lost.repeat_interleave(per_channel) if per_channel > 1 else lost, columns)
    size = _cut_columns(following, columns)
    setattr(following, "in_features" if isinstance(following, Linear) else "in_channels", size)
    _write_size(first)


def _write_size(module: Any) -> None:
    setattr(module, "out_features" if isinstance(module, Linear) else "out_channels", module.weight.shape[0])


def prune_linear(linear: Linear) -> None:
    """Prune a layer whose rows are the model's output."""
    _cut_bias(linear, _cut_rows(linear))
    _write_size(linear)


def prune_linear_linear(linear1: Linear, linear2: Linear) -> None:
    """Prune a layer before another."""
    _prune_chain(linear1, None, linear2)


def prune_linear_activation_linear(linear1: Linear, activation: Activation, linear2: Linear) -> None:
    """Prune a layer before an activation and another layer."""
    _prune_chain(linear1, activation, linear2)


def prune_conv2d(conv2d: Conv2d) -> None:
    """Prune a convolution whose channels are the model's output."""
    _cut_bias(conv2d, _cut_rows(conv2d))
    _write_size(conv2d)


def prune_conv2d_padded(conv2d_1: Conv2d) -> None:
    """Bake in the mask of a convolution before one that pads: a constant that is padded with zeros is none any more,
    so its channels stay."""
    module: Any = conv2d_1
    mask = _take_mask(module)
    bias = getattr(module, "_bias", None)
    if bias is not None:
        whole = bias.detach().clone()
        if getattr(module, "prune_bias", False):
            whole[~mask] = 0
        if module.bias is not None:
            whole[mask] = module.bias.detach()[mask]
        module.bias = Parameter(whole)
    elif module.bias is not None:
        module.bias.data[~mask] = 0
    for key in [key for key, hook in module._forward_hooks.items() if isinstance(hook, BiasHook)]:
        del module._forward_hooks[key]
    if hasattr(module, "_bias"):
        del module._bias


def prune_conv2d_conv2d(conv2d_1: Conv2d, conv2d_2: Conv2d) -> None:
    """Prune a convolution before another."""
    prune_conv2d_activation_conv2d(conv2d_1, None, conv2d_2)


def prune_conv2d_activation_conv2d(conv2d_1: Conv2d, activation: Activation, conv2d_2: Conv2d) -> None:
    """Prune a convolution before an activation and another convolution."""
    first: Any = conv2d_1
    pads = conv2d_2.padding == "same" or (conv2d_2.padding != "valid" and any(conv2d_2.padding))
    if pads and (first.bias is not None or getattr(first, "_bias", None) is not None):
        prune_conv2d_padded(conv2d_1)
    else:
        _prune_chain(conv2d_1, activation, conv2d_2)


def prune_conv2d_pool_activation_conv2d(c1: Conv2d, pool: Any, activation: Activation, c2: Conv2d) -> None:
    """Prune a convolution before a pool, an activation and another convolution."""
    prune_conv2d_activation_conv2d(c1, activation, c2)


def prune_conv2d_activation_pool_conv2d(c1: Conv2d, activation: Activation, pool: Any, c2: Conv2d) -> None:
    """Prune a convolution before an activation, a pool and another convolution."""
    prune_conv2d_activation_conv2d(c1, activation, c2)


def prune_conv2d_pool_flatten_linear(conv2d: Conv2d, pool: Any, flatten: Any, linear: Linear) -> None:
    """Prune a convolution before a pool, a flattening and a linear layer."""
    owner, attribute = _inputs_of(linear)
    inputs, channels = getattr(owner, attribute).shape[1], conv2d.weight.shape[0]
    if inputs % channels:
        raise AssertionError(f"Flattening from {channels} channels to {inputs} inputs of a linear layer not supported")
    _prune_chain(conv2d, None, linear, per_channel=inputs // channels)


def prune_lstm_output_linear(lstm: LSTM, getitem: Callable[..., Any], linear: Linear) -> None:
    """Prune the hidden units of an LSTM before a linear layer."""
    prune_lstm_output_layernorm_linear(lstm, getitem, None, linear)


def prune_lstm_output_layernorm_linear(
    lstm: LSTM, getitem: Callable[..., Any], layernorm: LayerNorm | None, linear: Linear
) -> None:
    """Prune the hidden units of an LSTM before a layer norm and a linear layer."""
    for layer in range(lstm.num_layers):
        if parametrize.is_parametrized(lstm, f"weight_ih_l{layer}"):
            mask = _take_mask(lstm, f"weight_ih_l{layer}")
            _cut(lstm, f"weight_ih_l{layer}", mask)
            _cut(lstm, f"bias_ih_l{layer}", mask)
        if parametrize.is_parametrized(lstm, f"weight_hh_l{layer}"):
            kept = _cut_hidden(lstm, layer)
            if layer + 1 < lstm.num_layers:
                _cut_columns(lstm, kept, f"weight_ih_l{layer + 1}")
            else:
                lstm.hidden_size = int(kept.sum())
                linear.in_features = _cut_columns(linear, kept)
                if layernorm is not None:
                    _cut_norm(layernorm, kept)


def _cut_hidden(lstm: Any, layer: int) -> Tensor:
    """Take hidden units out of one layer's recurrent weight: of each gate the rows and the columns its mask names.
    Leaves the mask of the output gate."""
    name = f"weight_hh_l{layer}"
    mask = _take_mask(lstm, name)
    gates = mask.split(lstm.hidden_size)
    with no_grad():
        blocks = getattr(lstm, name).split(lstm.hidden_size)
        setattr(lstm, name, Parameter(find_op("cat")([w[kept][:, kept] for w, kept in zip(blocks, gates)])))
    _cut(lstm, f"bias_hh_l{layer}", mask)
    return gates[-1]


def _cut_norm(norm: Any, kept: Tensor) -> None:
    norm.normalized_shape = (int(kept.sum()),)
    for name in ("weight", "bias"):
        if getattr(norm, name) is not None:
            _cut(norm, name, kept)


