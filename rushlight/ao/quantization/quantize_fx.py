"""Quantization of models as graphs: `prepare_fx`, calibrate, `convert_fx`.

Enters: a model that can be traced, a QConfigMapping, example inputs. Leaves: a graph module with observers, and from it
one that computes on quantized tensors (`convert_fx`), or the reference model that says the same with quantize and
dequantize around float operators (`convert_to_reference_fx`). Refuses: models that cannot be traced (TraceError), and
converting what was not prepared.

    prepared = prepare_fx(model.eval(), get_default_qconfig_mapping("x86"), example_inputs)
    for batch in data: prepared(batch)
    quantized = convert_fx(prepared)
"""

from __future__ import annotations

import copy
from typing import Any

from ...fx import GraphModule, symbolic_trace
from ...fx.graph_module import _USER_PRESERVED_ATTRIBUTES_KEY
from ...nn import Module
from .backend_config import BackendConfig, get_tensorrt_backend_config  # noqa: F401 - PyTorch has the name here
from .fx.convert import convert
from .fx.custom_config import ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig
from .fx.fuse import fuse
from .fx.graph_module import ObservedGraphModule  # noqa: F401 - PyTorch has the name here
from .fx.prepare import trace_and_prepare
from .fx.tracer import QuantizationTracer, Scope, ScopeContextManager  # noqa: F401
from .fx.utils import (
    from_deprecated_dict,
    get_custom_module_class_keys,  # noqa: F401
    get_skipped_module_name_and_classes,  # noqa: F401
)
from .qconfig_mapping import QConfigMapping
from .utils import deprecated

Mapping = QConfigMapping | dict[str, Any]
Backend = BackendConfig | dict[str, Any] | None


def attach_preserved_attrs_to_model(model: Module, preserved_attrs: dict[str, Any]) -> None:
    """Keep attributes that the graph does not use, through copies too."""
    model.meta[_USER_PRESERVED_ATTRIBUTES_KEY] = copy.copy(preserved_attrs)
    for name, value in preserved_attrs.items():
        setattr(model, name, value)


def _preserved(model: Module, names: list[str]) -> dict[str, Any]:
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def _check_is_graph_module(model: Any) -> None:
    if not isinstance(model, GraphModule):
        raise ValueError(f"expected a GraphModule, which prepare_fx makes, but got {type(model)}")


def _fuse_fx(
    model: GraphModule, is_qat: bool, fuse_custom_config: FuseCustomConfig | dict[str, Any] | None = None,
    backend_config: Backend = None,
) -> GraphModule:
    """Fuse a traced model."""
    _check_is_graph_module(model)
    return fuse(model, is_qat, fuse_custom_config, backend_config)


def _prepare_fx(
    model: Module, qconfig_mapping: Mapping, is_qat: bool, example_inputs: tuple[Any, ...],
    prepare_custom_config: PrepareCustomConfig | dict[str, Any] | None = None,
    _equalization_config: Mapping | None = None, backend_config: Backend = None, is_standalone_module: bool = False,
) -> GraphModule:
    """Trace, fuse and observe a model."""
    custom = from_deprecated_dict(PrepareCustomConfig, prepare_custom_config, "prepare_fx") or PrepareCustomConfig()
    kept = _preserved(model, custom.preserved_attributes)
    prepared = trace_and_prepare(
        model, qconfig_mapping, is_qat, example_inputs, custom, _equalization_config, backend_config,
        is_standalone_module,
    )
    attach_preserved_attrs_to_model(prepared, kept)
    return prepared


def _prepare_standalone_module_fx(
    model: Module, qconfig_mapping: Mapping, is_qat: bool, example_inputs: tuple[Any, ...],
    prepare_custom_config: PrepareCustomConfig | dict[str, Any] | None = None, backend_config: Backend = None,
) -> GraphModule:
    """A submodule prepared by itself; its custom config says which inputs come and which outputs leave quantized."""
    return _prepare_fx(
        model, qconfig_mapping, is_qat, example_inputs, prepare_custom_config, backend_config=backend_config,
        is_standalone_module=True,
    )


def fuse_fx(
    model: Module, fuse_custom_config: FuseCustomConfig | dict[str, Any] | None = None, backend_config: Backend = None
) -> GraphModule:
    """The model traced, with convolutions, batch norms, activations and the like fused. It must be in eval mode."""
    custom = from_deprecated_dict(FuseCustomConfig, fuse_custom_config, "fuse_fx") or FuseCustomConfig()
    kept = _preserved(model, custom.preserved_attributes)
    fused = _fuse_fx(symbolic_trace(model), False, custom, backend_config)
    attach_preserved_attrs_to_model(fused, kept)
    return fused


@deprecated
def prepare_fx(
    model: Module, qconfig_mapping: Mapping, example_inputs: tuple[Any, ...],
    prepare_custom_config: PrepareCustomConfig | dict[str, Any] | None = None,
    _equalization_config: Mapping | None = None, backend_config: Backend = None,
) -> GraphModule:
    """The model with observers, to be run on data and then converted. It must be in eval mode."""
    return _prepare_fx(
        model, qconfig_mapping, False, example_inputs, prepare_custom_config, _equalization_config, backend_config
    )


@deprecated
def prepare_qat_fx(
    model: Module, qconfig_mapping: Mapping, example_inputs: tuple[Any, ...],
    prepare_custom_config: PrepareCustomConfig | dict[str, Any] | None = None, backend_config: Backend = None,
) -> GraphModule:
    """The model with fake quantization, to be trained and then converted. It must be in training mode."""
    return _prepare_fx(
        model, qconfig_mapping, True, example_inputs, prepare_custom_config, backend_config=backend_config
    )


def _convert_fx(
    graph_module: GraphModule, is_reference: bool,
    convert_custom_config: ConvertCustomConfig | dict[str, Any] | None = None, is_standalone_module: bool = False,
    _remove_qconfig: bool = True, qconfig_mapping: Mapping | None = None, backend_config: Backend = None,
    is_decomposed: bool = False, keep_original_weights: bool = False,
) -> GraphModule:
    """Convert a prepared model."""
    custom = from_deprecated_dict(ConvertCustomConfig, convert_custom_config, "convert_fx") or ConvertCustomConfig()
    _check_is_graph_module(graph_module)
    kept = _preserved(graph_module, custom.preserved_attributes)
    converted = convert(
        graph_module, is_reference, custom, is_standalone_module, _remove_qconfig_flag=_remove_qconfig,
        qconfig_mapping=qconfig_mapping, backend_config=backend_config, is_decomposed=is_decomposed,
        keep_original_weights=keep_original_weights,
    )
    attach_preserved_attrs_to_model(converted, kept)
    return converted


@deprecated
def convert_fx(
    graph_module: GraphModule, convert_custom_config: ConvertCustomConfig | dict[str, Any] | None = None,
    _remove_qconfig: bool = True, qconfig_mapping: Mapping | None = None, backend_config: Backend = None,
    keep_original_weights: bool = False,
) -> GraphModule:
    """The quantized model of a prepared one. A `qconfig_mapping` may leave more in float (None), no less."""
    return _convert_fx(
        graph_module, False, convert_custom_config, _remove_qconfig=_remove_qconfig, qconfig_mapping=qconfig_mapping,
        backend_config=backend_config, keep_original_weights=keep_original_weights,
    )


def convert_to_reference_fx(
    graph_module: GraphModule, convert_custom_config: ConvertCustomConfig | dict[str, Any] | None = None,
    _remove_qconfig: bool = True, qconfig_mapping: Mapping | None = None, backend_config: Backend = None,
) -> GraphModule:
    """The reference model: quantize and dequantize around float operators, for other backends to lower."""
    return _convert_fx(
        graph_module, True, convert_custom_config, _remove_qconfig=_remove_qconfig, qconfig_mapping=qconfig_mapping,
        backend_config=backend_config,
    )


def _convert_to_reference_decomposed_fx(
    graph_module: GraphModule, convert_custom_config: ConvertCustomConfig | dict[str, Any] | None = None,
    qconfig_mapping: Mapping | None = None, backend_config: Backend = None,
) -> GraphModule:
    """The reference model with `quantized_decomposed` ops: integer tensors, their qparams beside them."""
    return _convert_fx(
        graph_module, True, convert_custom_config, _remove_qconfig=False, qconfig_mapping=qconfig_mapping,
        backend_config=backend_config, is_decomposed=True,
    )


def _convert_standalone_module_fx(
    graph_module: GraphModule, is_reference: bool = False,
    convert_custom_config: ConvertCustomConfig | dict[str, Any] | None = None,
) -> GraphModule:
    """A submodule prepared by itself, converted."""
    return _convert_fx(graph_module, is_reference, convert_custom_config, is_standalone_module=True)
