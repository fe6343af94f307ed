"""What pruners of channels share: masks over rows, biases set aside, and the chains that `prune()` cuts."""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any

from ....._C import bool as bool_
from .....fx import GraphModule, symbolic_trace
from .....nn import (
    LSTM,
    AdaptiveAvgPool2d,
    AdaptiveMaxPool2d,
    AvgPool2d,
    Conv2d,
    Flatten,
    LayerNorm,
    Linear,
    MaxPool2d,
    Module,
    Parameter,
    functional as F,
    modules,
)
from .....op import find_op
from ...sparsifier.base_sparsifier import BaseSparsifier
from . import prune_functions as prune
from .match_utils import apply_match
from .parametrization import BiasHook, FakeStructuredSparsity, module_contains_param

__all__ = ["BaseStructuredSparsifier"]

_ACTIVATIONS = (
    "relu rrelu hardtanh relu6 sigmoid hardsigmoid tanh silu mish hardswish elu celu selu hardshrink leaky_relu"
    " logsigmoid softplus prelu softsign tanhshrink gelu"
).split()
_ACTIVATION_CLASSES = (
    "ReLU RReLU Hardtanh ReLU6 Sigmoid Hardsigmoid Tanh SiLU Mish Hardswish ELU CELU SELU Hardshrink LeakyReLU"
    " LogSigmoid Softplus PReLU Softsign Tanhshrink GELU"
).split()


def _get_supported_structured_pruning_modules() -> set[type]:
    return {Linear, Conv2d, LSTM}


def _get_supported_activation_functions() -> set[Callable[..., Any]]:
    return {getattr(F, name) for name in _ACTIVATIONS}


def _get_supported_activation_modules() -> set[type]:
    return {getattr(modules, name) for name in _ACTIVATION_CLASSES}


def _get_default_structured_pruning_patterns() -> dict[tuple[Any, ...], Callable[..., None]]:
    """Chains of modules and functions, each with the function that prunes the first of them."""
    patterns: dict[tuple[Any, ...], Callable[..., None]] = {
        (Linear, "output"): prune.prune_linear,
        (Linear, Linear): prune.prune_linear_linear,
        (Conv2d, "output"): prune.prune_conv2d,
        (Conv2d, Conv2d): prune.prune_conv2d_conv2d,
        (LSTM, getitem, Linear): prune.prune_lstm_output_linear,
        (LSTM, getitem, LayerNorm, Linear): prune.prune_lstm_output_layernorm_linear,
    }
    for activation in (*_get_supported_activation_functions(), *_get_supported_activation_modules()):
        patterns[Linear, activation, Linear] = prune.prune_linear_activation_linear
        patterns[Conv2d, activation, Conv2d] = prune.prune_conv2d_activation_conv2d
        for pool in (AvgPool2d, F.avg_pool2d, MaxPool2d, F.max_pool2d):
            patterns[Conv2d, activation, pool, Conv2d] = prune.prune_conv2d_activation_pool_conv2d
            patterns[Conv2d, pool, activation, Conv2d] = prune.prune_conv2d_pool_activation_conv2d
    for adaptive in (AdaptiveAvgPool2d, AdaptiveMaxPool2d):
        for flatten in (Flatten, find_op("flatten")):
            patterns[Conv2d, adaptive, flatten, Linear] = prune.prune_conv2d_pool_flatten_linear
    return patterns


def _set_bias_aside(module: Any, prune_bias: bool) -> None:
    """Let a hook add the bias of a layer, so that rows that are masked can lose theirs."""
    bias, module.bias = module.bias, None
    if bias is not None:
        module.prune_bias = prune_bias
        module.register_parameter("_bias", Parameter(bias.detach()))
    module.register_forward_hook(BiasHook(module.parametrizations.weight[0], prune_bias))


class BaseStructuredSparsifier(BaseSparsifier):
    """Masks rows of weights; `prune()` takes them out, in the chains of layers that `patterns` describe."""

    traced: GraphModule

    def __init__(self, defaults: dict[str, Any], patterns: dict[tuple[Any, ...], Callable[..., None]] | None = None):
        super().__init__(defaults)
        self.patterns = _get_default_structured_pruning_patterns() if patterns is None else patterns

    def make_config_from_model(self, model: Module, SUPPORTED_MODULES: set[type] | None = None) -> None:
        """Let the config be the weights of all linear layers, convolutions and LSTMs."""
        classes = _get_supported_structured_pruning_modules() if SUPPORTED_MODULES is None else SUPPORTED_MODULES
        super().make_config_from_model(model, SUPPORTED_MODULES=classes)

    def _prepare(self, *args: Any, **kwargs: Any) -> None:
        for config in self.groups:
            module = config["module"]
            tensor = getattr(module, config["tensor_name"])
            all_rows = find_op("ones")((tensor.shape[0],), dtype=bool_, device=tensor.device)
            self._masked(config, config.get("mask", all_rows), FakeStructuredSparsity)
            if isinstance(module, (Linear, Conv2d)):
                _set_bias_aside(module, config.get("prune_bias", True))

    def prune(self) -> GraphModule:
        """The traced model without its masked rows. Refuses models where a masked layer stands in no known chain."""
        self.traced = symbolic_trace(self.model)
        named: dict[str, Any] = dict(self.traced.named_modules())
        for node in self.traced.graph.nodes:
            for pattern, convert in self.patterns.items():
                matched = apply_match(named, pattern, node, [])
                first = named.get(node.target) if isinstance(node.target, str) else None
                if matched is not None and first is not None and module_contains_param(first, FakeStructuredSparsity):
                    parts = {"call_module": lambda n: named[n.target], "call_function": lambda n: n.target}
                    convert(*(parts[found.op](found) for found in matched if found.op in parts))
        for module in self.traced.modules():
            if module_contains_param(module, FakeStructuredSparsity):
                raise Exception(  # noqa: TRY002 - PyTorch's class
                    f"Error: {module} still contains FakeStructuredSparsity parametrizations: the layers after it are"
                    " no chain that prune() knows. ao.pruning.shrink follows models of other forms."
                )
        self.traced.graph.lint()
        self.traced.recompile()
        return self.traced
