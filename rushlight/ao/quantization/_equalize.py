"""Cross-layer equalization: the channels between two layers scaled so that both weights use one scale better.

The rows of the first weight are divided, and the columns of the second multiplied, by s = sqrt(r1 / r2), r the ranges
of a channel in each; what comes out changes only where an activation between them does not pass a factor on.

Enters: a model, and groups of layers that follow each other (modules or names). Leaves: the model with its parameters
scaled, pair after pair until they stand. Refuses: other layers than linear and convolution (ValueError), pairs that do
not fit (TypeError).
"""

from __future__ import annotations

import copy
from itertools import chain, pairwise
from typing import Any

from ..._C import Tensor
from ...nn import Conv1d, Conv2d, Linear, Module, Parameter
from ..nn.intrinsic import ConvReLU1d, ConvReLU2d, LinearReLU

__all__ = [
    "channel_range", "converged", "cross_layer_equalization", "equalize", "expand_groups_in_paired_modules_list",
    "get_module_bias", "get_module_weight", "get_name_by_module", "has_bias", "max_over_ndim", "min_over_ndim",
    "process_paired_modules_list_to_name", "set_module_bias", "set_module_weight",
]

_supported_types = {Conv2d, Linear, Conv1d}
_supported_intrinsic_types = {ConvReLU2d, LinearReLU, ConvReLU1d}
_all_supported_types = _supported_types | _supported_intrinsic_types


def _layer(module: Any) -> Any:
    """The layer itself, or that in a fused module."""
    return module if type(module) in _supported_types else module[0]


def set_module_weight(module: Any, weight: Tensor) -> None:
    """Give a layer another weight."""
    _layer(module).weight = Parameter(weight)


def set_module_bias(module: Any, bias: Tensor) -> None:
    """Give a layer another bias."""
    _layer(module).bias = Parameter(bias)


def has_bias(module: Any) -> bool:
    """Whether a layer has a bias."""
    return _layer(module).bias is not None


def get_module_weight(module: Any) -> Any:
    """A layer's weight."""
    return _layer(module).weight


def get_module_bias(module: Any) -> Any:
    """A layer's bias."""
    return _layer(module).bias


def max_over_ndim(input: Tensor, axis_list: list[int], keepdim: bool = False) -> Tensor:
    """The greatest values over several dimensions."""
    return input.amax(axis_list, keepdim) if axis_list else input


def min_over_ndim(input: Tensor, axis_list: list[int], keepdim: bool = False) -> Tensor:
    """The least values over several dimensions."""
    return input.amin(axis_list, keepdim) if axis_list else input


def channel_range(input: Tensor, axis: int = 0) -> Tensor:
    """Greatest minus least value, for each index of a dimension."""
    others = [d for d in range(input.ndim) if d != axis]
    return max_over_ndim(input, others) - min_over_ndim(input, others)


def get_name_by_module(model: Module, module: Module) -> str:
    """The path of a module in a model; ValueError if it is not in it."""
    for name, found in model.named_modules():
        if found is module:
            return name
    raise ValueError(f"{type(module).__name__} is not in the model")


def cross_layer_equalization(module1: Any, module2: Any, output_axis: int = 0, input_axis: int = 1) -> None:
    """Equalize the outputs of one layer with the inputs of the next."""
    if type(module1) not in _all_supported_types or type(module2) not in _all_supported_types:
        raise ValueError(
            f"cross_layer_equalization: expected linear or convolution layers, got {type(module1)} and {type(module2)}"
        )
    first, second = get_module_weight(module1), get_module_weight(module2)
    if first.size(output_axis) != second.size(input_axis):
        raise TypeError(
            f"cross_layer_equalization: the first layer has {first.size(output_axis)} outputs, but the second takes"
            f" {second.size(input_axis)}"
        )
    factors = (channel_range(first, output_axis) / (channel_range(second, input_axis) + 1e-9)).sqrt()
    inverses = factors.reciprocal()
    if has_bias(module1):
        set_module_bias(module1, get_module_bias(module1) * inverses)
    set_module_weight(module1, first * _along(inverses, output_axis, first))
    set_module_weight(module2, second * _along(factors, input_axis, second))


def _along(factors: Tensor, axis: int, weight: Tensor) -> Tensor:
    return factors.reshape([-1 if d == axis else 1 for d in range(weight.ndim)])


def process_paired_modules_list_to_name(model: Module, paired_modules_list: list[list[Any]]) -> list[list[Any]]:
    """Replace modules by their paths, in place."""
    for group in paired_modules_list:
        for i, item in enumerate(group):
            if not isinstance(item, (Module, str)):
                raise TypeError(f"expected modules or their names, got {type(item).__name__}")
            group[i] = item if isinstance(item, str) else get_name_by_module(model, item)
    return paired_modules_list


def expand_groups_in_paired_modules_list(paired_modules_list: list[list[Any]]) -> list[list[Any]]:
    """Groups as the pairs in them."""
    if any(len(group) == 1 for group in paired_modules_list):
        raise ValueError("each group must have at least two modules")
    return [list(pair) for group in paired_modules_list for pair in pairwise(group)]


def equalize(
    model: Module, paired_modules_list: list[list[Any]], threshold: float = 1e-4, inplace: bool = True
) -> Module:
    """Equalize pairs until a round changes the weights by less than `threshold` in all."""
    named = process_paired_modules_list_to_name(model, paired_modules_list)
    if not inplace:
        model = copy.deepcopy(model)
    pairs = expand_groups_in_paired_modules_list(named)
    wanted = set(chain.from_iterable(pairs))
    now: dict[str, Any] = {name: module for name, module in model.named_modules() if name in wanted}
    before: dict[str, Any] = dict.fromkeys(now)
    while not converged(now, before, threshold):
        for first, second in pairs:
            before[first], before[second] = copy.deepcopy(now[first]), copy.deepcopy(now[second])
            cross_layer_equalization(now[first], now[second])
    return model


def converged(curr_modules: dict[str, Any], prev_modules: dict[str, Any], threshold: float = 1e-4) -> bool:
    """Whether the weights of modules changed by less than `threshold`, the norms of the changes added."""
    if curr_modules.keys() != prev_modules.keys():
        raise ValueError(f"the names differ: {sorted(curr_modules)} and {sorted(prev_modules)}")
    if any(module is None for module in prev_modules.values()):
        return False
    changes = (
        get_module_weight(module).sub(get_module_weight(prev_modules[name])).norm()
        for name, module in curr_modules.items()
    )
    return bool(sum(changes) < threshold)
