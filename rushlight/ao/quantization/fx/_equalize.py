"""Equalization between inputs and weights: channels scaled so that one scale serves all of them better.

The columns of a weight and the channels of its input are multiplied by s and 1/s with s = sqrt(range of the weight's
column / range of the input's channel). Observers find both ranges; converting folds 1/s into the weights, s into the
layer before where there is one, and multiplies by it where there is none.

Enters: a graph with equalization observers in it. Leaves: the same without them, its weights scaled.
"""

from __future__ import annotations

import operator
import warnings
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from .... import nn
from ...._C import Tensor, qint8, quint8
from ....base.quantizers import per_channel_affine, per_channel_symmetric, per_tensor_affine, per_tensor_symmetric
from ....fx import GraphModule, Node
from ....nn import Module, Parameter, functional as F  # noqa: N812
from ....op import published
from ....tensors.interop import tensor
from ...nn import intrinsic as nni
from ..observer import ObserverBase, PerChannelMinMaxObserver, _with_args
from ..utils import _parent_name, check_min_max_valid
from .graph_module import _get_observed_graph_module_attr
from .utils import free_name, maybe_get_next_module, node_arg_is_bias, node_arg_is_weight

_functions = published("")
CUSTOM_MODULE_SUPP_LIST: list[Any] = []
qsheme_mapping_per_tensor_to_per_channel = {
    per_tensor_affine: per_channel_affine,
    per_tensor_symmetric: per_channel_symmetric,
}


def reshape_scale(scale: Tensor, axis: int, input: Tensor) -> Tensor:
    """A scale for each index of an axis, in the shape that multiplies `input`."""
    shape = [1] * input.ndim
    shape[axis] = input.size(axis)
    return scale.view(shape)


def _is_one(scale: Tensor) -> bool:
    """Whether a scale is the one that observers begin with."""
    return scale.nelement() == 1 and bool(scale == 1)


def _check_rank(x: Tensor) -> None:
    if not 2 <= x.ndim <= 5:
        raise ValueError(f"equalization is for linear and convolution layers, not for tensors of {x.ndim} dimensions")


class _InputEqualizationObserver(Module):
    """The range of each channel of a layer's input."""

    def __init__(
        self, dtype: Any = quint8, qscheme: Any = per_tensor_affine, quant_min: int | None = None,
        quant_max: int | None = None, factory_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if qscheme not in (per_tensor_affine, per_tensor_symmetric):
            raise TypeError(f"Input qscheme must be per-tensor, not {qscheme}")
        self.dtype = dtype
        self.qscheme = qscheme
        self.input_obs = PerChannelMinMaxObserver(
            ch_axis=1, dtype=dtype, qscheme=qsheme_mapping_per_tensor_to_per_channel[qscheme], quant_min=quant_min,
            quant_max=quant_max, factory_kwargs=factory_kwargs,
        )
        self.equalization_scale = tensor(1)
        self.equalization_shape: list[int] = []

    def forward(self, x_orig: Tensor) -> Tensor:
        _check_rank(x_orig)
        self.equalization_shape = [1] * x_orig.ndim
        self.equalization_shape[1] = x_orig.size(1)
        return self.input_obs(x_orig)

    def get_input_minmax(self) -> tuple[Tensor, Tensor]:
        """The least and greatest values seen, by channel."""
        return self.input_obs.min_val, self.input_obs.max_val

    def set_equalization_scale(self, equalization_scale: Tensor) -> None:
        """Take the scale of each channel; a plain 1 says that there is none."""
        if not _is_one(equalization_scale):
            self.equalization_scale = equalization_scale.reshape(self.equalization_shape)

    def calculate_scaled_minmax(self) -> tuple[Tensor | None, Tensor | None]:
        """The range of the whole input once it is scaled."""
        if _is_one(self.equalization_scale):
            warnings.warn(
                "calculate_scaled_minmax: there is no equalization scale yet (calculate_equalization_scale finds it); "
                "the next observer is not scaled",
                stacklevel=2,
            )
            return None, None
        low, high = self.get_input_minmax()
        scale = reshape_scale(self.equalization_scale, 0, low)
        return (low * scale).min(), (high * scale).max()

    with_args = classmethod(_with_args)


class _WeightEqualizationObserver(Module):
    """The range of each column of a layer's weight."""

    def __init__(
        self, dtype: Any = qint8, qscheme: Any = per_tensor_affine, quant_min: int | None = None,
        quant_max: int | None = None, factory_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.qscheme = qscheme
        self.ch_axis = 1
        self.weight_col_obs = PerChannelMinMaxObserver(
            ch_axis=1, dtype=dtype, qscheme=qsheme_mapping_per_tensor_to_per_channel.get(qscheme, qscheme),
            quant_min=quant_min, quant_max=quant_max, factory_kwargs=factory_kwargs,
        )
        self.equalization_scale = tensor(1)

    def forward(self, w_orig: Tensor) -> Tensor:
        _check_rank(w_orig)
        return self.weight_col_obs(w_orig)

    def get_weight_col_minmax(self) -> tuple[Tensor, Tensor]:
        """The least and greatest values of each column."""
        return self.weight_col_obs.min_val, self.weight_col_obs.max_val

    def set_equalization_scale(self, equalization_scale: Tensor) -> None:
        """Take the scale of each column."""
        self.equalization_scale = equalization_scale

    with_args = classmethod(_with_args)


def calculate_equalization_scale(
    input_obs: _InputEqualizationObserver, weight_obs: _WeightEqualizationObserver
) -> Tensor:
    """sqrt(range of the weight / range of the input) for each channel; 1 where that is no number, or none was seen."""
    low, high = input_obs.get_input_minmax()
    weight_low, weight_high = weight_obs.get_weight_col_minmax()
    if not (check_min_max_valid(low, high) and check_min_max_valid(weight_low, weight_high)):
        warnings.warn(
            "calculate_equalization_scale: the observers have seen nothing; run them first. The scale is 1.",
            stacklevel=2,
        )
        return tensor(1)
    if low.shape != weight_low.shape:
        raise ValueError(f"input and weight must have the same columns, but have {low.shape} and {weight_low.shape}")
    scale = ((weight_high - weight_low) / (high - low)).sqrt()
    scale[scale == 0.0] = 1
    return scale.nan_to_num(nan=1, posinf=1, neginf=1)


class EqualizationQConfig(namedtuple("EqualizationQConfig", ["input_activation", "weight"])):
    """The equalization observers (classes or `with_args`) of a layer's input and weight."""

    __slots__ = ()

    def __new__(cls, input_activation: Any = nn.Identity, weight: Any = nn.Identity) -> EqualizationQConfig:
        if isinstance(input_activation, Module) or isinstance(weight, Module):
            raise ValueError(
                "EqualizationQConfig: expected observer classes, got an instance; `Observer.with_args(...)` sets their "
                "arguments"
            )
        return super().__new__(cls, input_activation, weight)


input_equalization_observer = _InputEqualizationObserver.with_args(dtype=quint8, qscheme=per_tensor_symmetric)
weight_equalization_observer = _WeightEqualizationObserver.with_args(dtype=qint8, qscheme=per_channel_symmetric)
default_equalization_qconfig = EqualizationQConfig(input_equalization_observer, weight_equalization_observer)


# --- what can be equalized --------------------------------------------------------------------------------------------


def fused_module_supports_equalization(module: Any) -> bool:
    """Whether a fused module has a layer that can."""
    return type(module) in (nni.LinearReLU, nni.ConvReLU1d, nni.ConvReLU2d, nni.ConvReLU3d)


def nn_module_supports_equalization(module: Any) -> bool:
    """Whether a module of `nn` can."""
    return type(module) in (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def custom_module_supports_equalization(module: Any) -> bool:
    """Whether a module is of a class that the user says can."""
    return type(module) in CUSTOM_MODULE_SUPP_LIST


def node_supports_equalization(node: Node, modules: dict[str, Module]) -> bool:
    """Whether a node is a layer that can."""
    if node.op == "call_module":
        module = modules[str(node.target)]
        return any(ask(module) for ask in (
            nn_module_supports_equalization, fused_module_supports_equalization, custom_module_supports_equalization
        ))
    return node.op == "call_function" and node.target in (F.linear, F.conv1d, F.conv2d, F.conv3d)


def is_equalization_observer(observer: Any) -> bool:
    """Whether a module observes for equalization."""
    return isinstance(observer, (_InputEqualizationObserver, _WeightEqualizationObserver))


def add_equalization_observers(
    node: Node, qconfig: Any, modules: dict[str, Module], is_branch: bool, insert: Callable[[Node, Module], Node]
) -> None:
    """Observe the input, and the weight of a function, for equalization; not where another layer has the same input."""
    if qconfig is None or not node_supports_equalization(node, modules):
        return
    if is_branch:
        warnings.warn(f"Cannot equalize {node} because it is part of a branch.", stacklevel=2)
        return
    node.args = tuple(
        insert(arg, (qconfig.weight if node_arg_is_weight(node, arg) else qconfig.input_activation)())
        if isinstance(arg, Node) and not node_arg_is_bias(node, arg)
        else arg
        for arg in node.args
    )


# --- converting -------------------------------------------------------------------------------------------------------


def _weight_observer_node(node: Node, modules: dict[str, Module]) -> Node | None:
    """The call of the equalization observer of a function's weight."""
    for arg in node.args:
        if isinstance(arg, Node) and node_arg_is_weight(node, arg) and arg.op == "call_module":
            if isinstance(modules[str(arg.target)], _WeightEqualizationObserver):
                return arg
    return None


def _equalized_layer(node: Node, model: GraphModule, modules: dict[str, Module]) -> tuple[Node, Any]:
    """The layer after an input's equalization observer, and the observer of its weight."""
    layer = next((user for user in node.users if node_supports_equalization(user, modules)), None)
    if layer is None:
        raise AssertionError(f"{node}: no layer that can be equalized comes after this observer")
    if layer.op == "call_function":
        weight = _weight_observer_node(layer, modules)
        return layer, modules[str(weight.target)] if weight is not None else None
    qconfig = (_get_observed_graph_module_attr(model, "equalization_node_name_to_qconfig") or {}).get(layer.name)
    if qconfig is None:
        raise AssertionError(f"{layer}: there is no equalization qconfig for it")
    return layer, qconfig.weight()


def _weighted(module: Any) -> Any:
    """The part of a layer that has the weight."""
    return module[0] if fused_module_supports_equalization(module) else module


def update_obs_for_equalization(
    model: GraphModule, modules: dict[str, Module]
) -> dict[str, _WeightEqualizationObserver]:
    """Find the equalization scales. Leaves: the observers of weights, by the name of their layer's node."""
    result = {}
    for node in model.graph.nodes:
        if node.op != "call_module" or not isinstance(modules[node.target], _InputEqualizationObserver):
            continue
        layer, weight_observer = _equalized_layer(node, model, modules)
        if weight_observer is None:
            continue
        if layer.op == "call_module":
            weight_observer(_weighted(modules[str(layer.target)]).weight)
        scale = calculate_equalization_scale(modules[node.target], weight_observer)
        modules[node.target].set_equalization_scale(scale)
        weight_observer.set_equalization_scale(scale)
        result[layer.name] = weight_observer
    return result


def _next_scale(node: Node, modules: dict[str, Module]) -> Tensor | None:
    """The equalization scale of the layer after this one, if nothing but a relu and an observer is between them."""
    relu = maybe_get_next_module(node, modules, nn.ReLU) or maybe_get_next_module(
        node, modules, target_functional_type=F.relu
    )
    observer = maybe_get_next_module(relu or node, modules, ObserverBase)
    after = maybe_get_next_module(observer, modules, _InputEqualizationObserver) if observer is not None else None
    scale = modules[str(after.target)].equalization_scale if after is not None else None
    return None if scale is None or _is_one(scale) else scale


def _scaled(weight: Tensor, scale: Tensor, next_scale: Tensor | None) -> Tensor:
    weight = weight * reshape_scale(scale, 1, weight).reciprocal()
    return weight if next_scale is None else weight * reshape_scale(next_scale, 0, weight)


def _scale_module(module: Any, scale: Tensor, next_scale: Tensor | None) -> None:
    """Fold the scales into a layer's parameters."""
    module.weight = Parameter(_scaled(module.weight, scale, next_scale))
    if next_scale is not None and module.bias is not None:
        module.bias = Parameter(module.bias * reshape_scale(next_scale, 0, module.bias))


def _scale_function(node: Node, modules: dict[str, Module], scale: Tensor, next_scale: Tensor | None) -> None:
    """Fold the scales into the tensors that a function is given."""
    source: Any = _weight_observer_node(node, modules)
    for _ in range(2):      # the weight's observers: for equalization, for quantization
        source = source.args[0] if isinstance(source, Node) else None
    if source is None or source.op != "get_attr":
        return
    _change(modules, source, lambda weight: _scaled(weight, scale, next_scale))
    bias = next((a for a in node.args if isinstance(a, Node) and a.op == "get_attr" and "bias" in a.name), None)
    if next_scale is not None and bias is not None:
        _change(modules, bias, lambda value: value * reshape_scale(next_scale, 0, value))


def _change(modules: dict[str, Module], node: Node, change: Callable[[Tensor], Tensor]) -> None:
    """Put another value where an attribute's node reads it. A parameter stays one."""
    owner, name = _parent_name(node.target)
    value = getattr(modules[owner], name)
    new = change(value)
    setattr(modules[owner], name, Parameter(new) if isinstance(value, Parameter) else new)


def _drop(model: GraphModule, node: Node) -> None:
    """Remove an observer's call."""
    node.replace_all_uses_with(node.args[0])
    model.graph.erase_node(node)


def convert_eq_obs(
    model: GraphModule, modules: dict[str, Module], weight_eq_obs_dict: dict[str, _WeightEqualizationObserver]
) -> None:
    """Take the equalization observers out, and scale what they observed."""
    for node in model.graph.nodes:
        if node.op == "call_module" and isinstance(modules[node.target], _InputEqualizationObserver):
            _convert_input(node, model, modules)
        elif node.name in weight_eq_obs_dict:
            scale = weight_eq_obs_dict[node.name].equalization_scale
            if node.op == "call_module":
                if not _is_one(scale):
                    _scale_module(_weighted(modules[str(node.target)]), scale, _next_scale(node, modules))
                continue
            if not _is_one(scale):
                _scale_function(node, modules, scale, _next_scale(node, modules))
            observer = _weight_observer_node(node, modules)
            if observer is not None:
                modules[str(observer.args[0].target)].reset_min_max_vals()     # it saw the weight as it was
                _drop(model, observer)


def _convert_input(node: Node, model: GraphModule, modules: dict[str, Module]) -> None:
    """Where a layer comes before, it was scaled; elsewhere multiply the input, and let its observer know."""
    observer = node.args[0]
    source = observer.args[0]
    if not (node_supports_equalization(source, modules) or "relu" in source.name):
        _scale_observer(modules[str(node.target)], modules[str(observer.target)])
        with model.graph.inserting_before(observer):
            name = free_name(model, f"{source.name}_equalization_scale")
            setattr(model, name, modules[node.target].equalization_scale)
            scale = model.graph.create_node("get_attr", name)
        with model.graph.inserting_after(scale):
            product = model.graph.create_node("call_function", _functions["mul"], (source, scale))
        observer.replace_input_with(source, product)
    _drop(model, node)


def _scale_observer(equalizing: Any, observer: Any) -> None:
    if isinstance(observer, ObserverBase):
        low, high = equalizing.calculate_scaled_minmax()
        if low is not None:
            observer.min_val, observer.max_val = low, high


def _convert_equalization_ref(model: GraphModule) -> GraphModule:
    """An observed model equalized, and still to be quantized: for comparing."""
    modules = dict(model.named_modules(remove_duplicate=False))
    convert_eq_obs(model, modules, update_obs_for_equalization(model, modules))
    return GraphModule(model, model.graph)


# --- which layers -----------------------------------------------------------------------------------------------------


def get_layer_sqnr_dict(model_a: Module, model_b: Module, x: Tensor) -> dict[str, float]:
    """How much of each layer's output quantizing loses: signal to noise in decibels, by the layer's name."""
    from ...ns import _numeric_suite_fx as ns  # noqa: PLC0415 - it compares models that are prepared with this file
    from ...ns.fx.mappings import get_unmatchable_types_map  # noqa: PLC0415
    from ...ns.fx.utils import compute_sqnr  # noqa: PLC0415

    unmatchable = get_unmatchable_types_map()
    unmatchable["funs_unmatchable"].add(_functions["mul"])
    logged_a, logged_b = ns.add_loggers(
        "fp32", model_a, "int8", model_b, ns.OutputLogger, unmatchable_types_map=unmatchable
    )
    logged_a(x)
    logged_b(x)
    results = ns.extract_logger_info(logged_a, logged_b, ns.OutputLogger, "int8")
    ns.extend_logger_results_with_comparison(results, "fp32", "int8", compute_sqnr, "sqnr")
    entries = (layer["node_output"]["int8"][0] for layer in results.values())
    return {entry["fqn"]: entry["sqnr"][0] for entry in entries}


def get_equalization_qconfig_dict(layer_sqnr_dict: dict[str, float], num_layers_to_equalize: int) -> Any:
    """Equalization for the layers that lose most."""
    worst = sorted(layer_sqnr_dict.items(), key=operator.itemgetter(1))[:num_layers_to_equalize]
    return {"module_name": [(name, default_equalization_qconfig) for name, _ in worst]}
