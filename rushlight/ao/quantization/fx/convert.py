"""Converting: observers become quantize and dequantize pairs, modules with weights their reference classes.

Enters: a prepared model. Leaves: the reference model, or, lowered, one of quantized operators. Only operators that
preparing observed are converted. Refuses: models that were not prepared, and qconfigs that contradict prepare's.
"""

from __future__ import annotations

import copy
import operator
import warnings
from typing import Any

from ...._C import (
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    int8,
    int16,
    int32,
    qint8,
    qint32,
    quint8,
    uint8,
    uint16,
)
from ....backends import quantized as engines
from ....base.quantizers import per_tensor_affine, per_tensor_symmetric
from ....fx import GraphModule, Node
from ....nn import Module, functional as F  # noqa: N812
from ....nn.utils.parametrize import type_before_parametrizations
from ....op import published
from ....ops import quantized_decomposed
from ..backend_config import BackendConfig, get_native_backend_config
from ..backend_config.utils import (
    get_fused_module_classes,
    get_qat_module_classes,
    get_root_module_to_quantized_reference_module,
)
from ..observer import _is_activation_post_process
from ..qconfig import qconfig_equals
from ..qconfig_mapping import QConfigMapping
from ..quantize import _remove_qconfig
from ..stubs import DeQuantStub
from ..utils import (
    _parent_name,
    activation_is_statically_quantized,
    get_swapped_custom_module_class,
    is_per_channel,
    to_underlying_dtype,
)
from ._equalize import convert_eq_obs, update_obs_for_equalization
from .custom_config import ConvertCustomConfig
from .custom_modules import is_custom_attention, is_custom_lstm
from .graph_module import ObservedGraphModuleAttrs, _is_observed_module, _is_observed_standalone_module
from .lower_to_fbgemm import lower_to_fbgemm
from .qconfig_mapping_utils import (
    _compare_prepare_convert_qconfig_mappings,
    _generate_node_name_to_qconfig,
    _update_qconfig_for_fusion,
    _update_qconfig_for_qat,
)
from .references import refer
from .utils import (
    assert_and_get_unique_device,
    collect_producer_nodes,
    create_getattr_from_value,
    from_deprecated_dict,
    get_custom_module_class_keys,
    graph_module_from_producer_nodes,
    node_arg_is_weight,
)

__all__ = ["convert"]

_functions = published("")
_TENSOR_TYPES = (quint8, qint8, qint32, float8_e5m2, float8_e4m3fn)
_STATIC_TYPES = (quint8, qint8, qint32, uint8, int8, uint16, int16, int32, float8_e5m2, float8_e4m3fn)
_EPS = 1.1920928955078125e-07        # of float32


def convert(
    model: GraphModule, is_reference: bool = False,
    convert_custom_config: ConvertCustomConfig | dict[str, Any] | None = None, is_standalone_module: bool = False,
    _remove_qconfig_flag: bool = True, qconfig_mapping: QConfigMapping | dict[str, Any] | None = None,
    backend_config: BackendConfig | dict[str, Any] | None = None, is_decomposed: bool = False,
    keep_original_weights: bool = False,
) -> GraphModule:
    """The quantized model of a prepared one, or its reference model; `is_decomposed` says it in decomposed ops."""
    custom = from_deprecated_dict(ConvertCustomConfig, convert_custom_config, "convert") or ConvertCustomConfig()
    mapping = from_deprecated_dict(QConfigMapping, qconfig_mapping, "convert")
    backend = from_deprecated_dict(BackendConfig, backend_config, "convert") or get_native_backend_config()
    if mapping is not None and not isinstance(mapping, QConfigMapping):
        raise AssertionError(f"convert: qconfig_mapping must be a QConfigMapping, not {type(mapping).__name__}")
    if not _is_observed_module(model):
        raise AssertionError("convert: the model was not made by prepare_fx")
    conversion = _Conversion(model, mapping, backend, custom, is_reference, is_decomposed)
    conversion.run()
    model.graph.eliminate_dead_code()
    converted = GraphModule(model, model.graph)
    if not is_reference:
        converted = lower_to_fbgemm(
            converted, conversion.qconfigs, conversion.attrs.node_name_to_scope, keep_original_weights
        )
    if _remove_qconfig_flag:
        _remove_qconfig(converted)
    converted.delete_all_unused_submodules()
    converted.meta.pop("_observed_graph_module_attrs", None)
    return converted


class _Conversion:
    """One run over a prepared graph."""

    def __init__(
        self, model: GraphModule, mapping: QConfigMapping | None, backend: BackendConfig, custom: ConvertCustomConfig,
        is_reference: bool, is_decomposed: bool,
    ) -> None:
        self.model, self.graph = model, model.graph
        self.modules: dict[str, Module] = dict(model.named_modules(remove_duplicate=False))
        self.backend, self.custom = backend, custom
        self.is_reference, self.is_decomposed = is_reference, is_decomposed
        self.attrs: ObservedGraphModuleAttrs = model.meta["_observed_graph_module_attrs"]
        self.qconfigs = self.attrs.node_name_to_qconfig if not mapping else self._checked_qconfigs(mapping)
        self.device = assert_and_get_unique_device(model)
        self.custom_classes = get_custom_module_class_keys(custom.observed_to_quantized_mapping)
        self.roots = get_root_module_to_quantized_reference_module(backend)
        self.fused = set(get_fused_module_classes(backend))
        self.qat = get_qat_module_classes(backend)
        self.quantized_nodes: set[Node] = set()       # calls of custom modules, which make quantized values

    def _checked_qconfigs(self, mapping: QConfigMapping) -> dict[str, Any]:
        """The qconfigs of nodes by convert's own mapping: prepare's, or None."""
        mapping = copy.deepcopy(mapping)
        if self.attrs.is_qat:
            _update_qconfig_for_qat(mapping, self.backend)
        _update_qconfig_for_fusion(self.model, mapping)
        _compare_prepare_convert_qconfig_mappings(self.attrs.qconfig_mapping, mapping)
        result = _generate_node_name_to_qconfig(
            self.model, copy.deepcopy(self.modules), self.graph, mapping, self.attrs.node_name_to_scope
        )
        for name, before in self.attrs.node_name_to_qconfig.items():
            if name not in result:
                raise AssertionError(f"convert: the node {name} of prepare is not there any more")
            if result[name] is not None and not qconfig_equals(before, result[name]):
                raise AssertionError(f"convert: {name} has the qconfig {result[name]}, but prepare gave it {before}")
        return result

    def run(self) -> None:
        """Convert node after node."""
        if self.attrs.equalization_node_name_to_qconfig is not None:
            convert_eq_obs(self.model, self.modules, update_obs_for_equalization(self.model, self.modules))
        self._run_weight_observers()
        inputs = 0
        for node in list(self.graph.nodes):
            if node.op == "placeholder":
                if inputs in self.attrs.prepare_custom_config.input_quantized_indexes:
                    self._dequantize_after(node)
                inputs += 1
            elif node.op == "output":
                self._keep_outputs_quantized(node)
            elif node.op == "call_module":
                self._convert_module(node, self.modules[node.target])

    def _run_weight_observers(self) -> None:
        """Let observers of weights that functions take see them: calibration may not have (dynamic operators)."""
        for node in self.graph.nodes:
            for arg in node.args if node.op == "call_function" else ():
                if isinstance(arg, Node) and node_arg_is_weight(node, arg):
                    producers = collect_producer_nodes(arg)
                    if producers is not None:
                        graph_module_from_producer_nodes(self.model, producers)()

    def _convert_module(self, node: Node, module: Module) -> None:
        kind = type_before_parametrizations(module)
        if _is_activation_post_process(module) and node.args[0] not in self.quantized_nodes:
            self._convert_observer(node, module)
        elif _is_activation_post_process(module) or isinstance(module, DeQuantStub):
            value = node.args[0]
            node.replace_all_uses_with(value)
            self.graph.erase_node(node)
            self._dequantize_after(value)
        elif _is_observed_standalone_module(module):
            self._convert_standalone(node, module)
        elif kind in self.roots or kind in self.qat or kind in self.fused:
            if kind in self.fused and type_before_parametrizations(module[0]) not in self.roots:
                return
            refer(node, self.modules, self.attrs.observed_node_names, self.qconfigs, self.backend, self.is_decomposed,
                  self.is_reference, self.device)
        elif kind in self.custom_classes:
            self._convert_custom(node, module)

    # --- inputs, outputs ----------------------------------------------------------------------------------------------

    def _dequantize_after(self, node: Node) -> None:
        """Let the users of a quantized value read it dequantized."""
        with self.graph.inserting_after(node):
            dequantized = self.graph.call_method("dequantize", (node,))
        for user in list(node.users):
            if user is not dequantized:
                user.replace_input_with(node, dequantized)

    def _keep_outputs_quantized(self, node: Node) -> None:
        """Take the dequantize off the outputs that are to stay quantized."""
        indexes = self.attrs.prepare_custom_config.output_quantized_indexes
        output = node.args[0]
        if isinstance(output, (list, tuple)):
            wanted = [output[index] for index in indexes]
        elif isinstance(output, (Node, dict)):
            wanted = [output] if 0 in indexes else []
        else:
            wanted = []
            if indexes:
                warnings.warn(f"output_quantized_indexes: an output of {type(output)} stays as it is", stacklevel=2)
        for value in wanted:
            self._undequantize(value, node)

    def _undequantize(self, value: Any, user: Node) -> None:
        if isinstance(value, (list, tuple, dict)):
            for part in value.values() if isinstance(value, dict) else value:
                self._undequantize(part, user)
        elif _is_dequantize(value):
            user.replace_input_with(value, value.args[0])
        else:
            warnings.warn(f"output_quantized_indexes: {value} is not quantized, and stays as it is", stacklevel=2)

    # --- observers ----------------------------------------------------------------------------------------------------

    def _convert_observer(self, node: Node, observer: Any) -> None:
        """An observer becomes quantize and dequantize; without a qconfig around it, nothing."""
        dtype, is_dynamic = observer.dtype, bool(getattr(observer, "is_dynamic", False))
        if self.is_decomposed and hasattr(observer, "convert"):
            observer.convert(self.model, node)
            return
        ends = [*node.args, *node.users]
        unwanted = all(isinstance(n, Node) and self.qconfigs.get(n.name, ...) is None for n in ends)
        value = node.args[0]
        with self.graph.inserting_before(node):
            if unwanted or not (is_dynamic or dtype in (*_STATIC_TYPES, float16)):
                new = value
            elif self.is_decomposed:
                new = self._decomposed_pair(node, observer, dtype, is_dynamic)
            elif is_dynamic:
                reduces = engines.engine in ("fbgemm", "x86")
                new = self._pair(_functions["quantize_per_tensor_dynamic"], (value, dtype, reduces))
            elif dtype in _TENSOR_TYPES:
                per_channel = is_per_channel(observer.qscheme)
                function = _functions["quantize_per_channel" if per_channel else "quantize_per_tensor"]
                axis = (int(observer.ch_axis),) if per_channel else ()
                new = self._pair(function, (value, *self._qparams(node, observer), *axis, dtype))
            elif dtype == float16:
                halved = self.graph.create_node("call_method", "to", (value, dtype), {})
                new = self.graph.call_method("dequantize", (halved,))
            else:
                return      # plain integers have no quantized tensors: the observer stays
        node.replace_all_uses_with(new)
        self.graph.erase_node(node)

    def _pair(self, function: Any, args: tuple) -> Node:
        quantized = self.graph.create_node("call_function", function, args, {})
        return self.graph.call_method("dequantize", (quantized,))

    def _qparams(self, node: Node, observer: Any) -> list[Any]:
        """An observer's scale and zero point, as buffers of the model; numbers of a decomposed graph stay in it."""
        scale, zero_point = observer.calculate_qparams()
        per_channel = is_per_channel(observer.qscheme)
        values = (scale, zero_point) if per_channel else (float(scale), int(zero_point))
        if self.is_decomposed and not per_channel:
            return list(values)
        prefix = self._prefix(node)
        return [
            create_getattr_from_value(self.model, self.graph, f"{prefix}_{what}_", value, self.device)
            for what, value in zip(("scale", "zero_point"), values, strict=True)
        ]

    def _prefix(self, node: Node) -> str:
        """The name for an observer's buffers: the module that made the value, or `_input` of its first user (a linear
        function before others) where only users want it quantized."""
        source, suffix = node.args[0], ""
        if source.name in self.qconfigs and self.qconfigs[source.name] is None:
            linear = (user for user in node.users if user.op == "call_function" and user.target is F.linear)
            source, suffix = next(linear, next(iter(node.users), None)), "_input"
        scope = self.attrs.node_name_to_scope.get(source.name) if source is not None else None
        return (scope[0] if scope else "") + suffix

    def _decomposed_pair(self, node: Node, observer: Any, dtype: Any, is_dynamic: bool) -> Node:
        """Quantize and dequantize in decomposed ops."""
        ops, value = quantized_decomposed, node.args[0]
        out = {}
        if "val" in value.meta and value.meta["val"].dtype != float32:
            out["out_dtype"] = value.meta["val"].dtype
        if not is_dynamic and dtype == float16:
            convert_type = ops.convert_element_type.no_fuse
            half = self.graph.create_node("call_function", convert_type, (value, float16), {})
            return self.graph.create_node("call_function", convert_type, (half, float32), {})
        stored = to_underlying_dtype(dtype)
        bounds = (observer.quant_min, observer.quant_max)
        if is_dynamic:
            qparams = self._chosen(value, observer, bounds, stored)
            quantize, dequantize = ops.quantize_per_tensor.tensor, ops.dequantize_per_tensor.tensor
        elif is_per_channel(observer.qscheme):
            qparams = (*self._qparams(node, observer), int(observer.ch_axis))
            quantize, dequantize = ops.quantize_per_channel.default, ops.dequantize_per_channel.default
        else:
            qparams = tuple(self._qparams(node, observer))
            quantize, dequantize = ops.quantize_per_tensor.default, ops.dequantize_per_tensor.default
        rest = (*qparams, *bounds, stored)
        quantized = self.graph.create_node("call_function", quantize, (value, *rest), {})
        return self.graph.call_function(dequantize, (quantized, *rest), out)

    def _chosen(self, value: Node, observer: Any, bounds: tuple, stored: Any) -> tuple[Node, Node]:
        """Scale and zero point found while the model runs."""
        if stored not in (uint8, int8):
            raise AssertionError(f"convert: dynamic quantization is to 8 bits in a reference model, not to {stored}")
        ops = quantized_decomposed
        choose = {per_tensor_affine: ops.choose_qparams.tensor,
                  per_tensor_symmetric: ops.choose_qparams_symmetric.tensor}
        function = choose[getattr(observer, "qscheme", per_tensor_affine)]
        args = (value, *bounds, getattr(observer, "eps", _EPS), stored)
        chosen = self.graph.create_node("call_function", function, args, {})
        scale = self.graph.create_node("call_function", operator.getitem, (chosen, 0), {})
        return scale, self.graph.create_node("call_function", operator.getitem, (chosen, 1), {})

    # --- standalone and custom modules --------------------------------------------------------------------------------

    def _give_quantized(self, node: Node, arg: Node) -> None:
        """Let a node read a value as it is before its dequantize."""
        if not isinstance(arg, Node):
            raise AssertionError(f"{node}: expected a value of the graph as an argument, got {arg!r}")
        if _is_dequantize(arg):
            node.replace_input_with(arg, arg.args[0])
            if not arg.users:
                self.graph.erase_node(arg)

    def _convert_standalone(self, node: Node, module: Any) -> None:
        """A submodule prepared by itself, converted by itself."""
        attrs = module.meta["_observed_graph_module_attrs"]
        for index, arg in enumerate(list(node.args)):
            if index in attrs.standalone_module_input_quantized_idxs:
                self._give_quantized(node, arg)
        stays_quantized = attrs.standalone_module_output_quantized_idxs
        if stays_quantized:
            if stays_quantized[0] != 0:
                raise AssertionError(f"{node.target}: only output 0 can stay quantized, not {stays_quantized}")
            self._dequantize_after(node)
        self.modules[node.target] = self._put(node, convert(module, self.is_reference, backend_config=self.backend))

    def _convert_custom(self, node: Node, module: Any) -> None:
        """A custom module becomes its quantized class; statically quantized ones take and give quantized values."""
        if activation_is_statically_quantized(module.qconfig):
            self.quantized_nodes.add(node)
            if is_custom_lstm(node, self.modules):
                match node.args:
                    case (value, (hidden, cell)):
                        inputs = (value, hidden, cell)
                    case _:
                        raise AssertionError(f"{node.target}: a custom LSTM takes (input, (hidden, cell))")
            elif is_custom_attention(node, self.modules):
                if len(node.args) != 3:
                    raise AssertionError(f"{node.target}: a custom attention takes (query, key, value)")
                inputs = node.args
            else:
                inputs = node.args[:1]
                module.activation_post_process = self._observer_of(node)
            for arg in inputs:
                self._give_quantized(node, arg)
        mapping = self.custom.observed_to_quantized_mapping
        quantized = get_swapped_custom_module_class(module, mapping, module.qconfig)
        self._put(node, quantized.from_observed(module))       # `modules` keeps the observed one, for further calls

    def _observer_of(self, node: Node) -> Module:
        for user in node.users:
            if user.op == "call_module" and _is_activation_post_process(self.modules[user.target]):
                return self.modules[user.target]
        raise AssertionError(f"{node.target}: the output of this custom module has no observer")

    def _put(self, node: Node, module: Module) -> Module:
        owner, name = _parent_name(node.target)
        setattr(self.modules[owner], name, module)
        return module


def _is_dequantize(node: Any) -> bool:
    return isinstance(node, Node) and node.op == "call_method" and node.target == "dequantize"
