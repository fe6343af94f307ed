"""Graph modules between the passes: fused, observed, quantized; and what preparing leaves for converting.

What converting must know is kept in `meta["_observed_graph_module_attrs"]` of a prepared model. The classes here keep
attributes that the graph does not use; the passes themselves make plain `GraphModule`s.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from ....fx import Graph, GraphModule
from ....nn import Module
from ....quantized.packed import ScriptObject
from ..qconfig_mapping import QConfigMapping
from .custom_config import PrepareCustomConfig

__all__ = [
    "FusedGraphModule", "ObservedGraphModule", "ObservedGraphModuleAttrs", "ObservedStandaloneGraphModule",
    "QuantizedGraphModule",
]

_ATTRS = "_observed_graph_module_attrs"


@dataclass
class ObservedGraphModuleAttrs:
    """What preparing decided, for converting."""

    node_name_to_qconfig: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, type]]
    prepare_custom_config: PrepareCustomConfig
    equalization_node_name_to_qconfig: dict[str, Any]
    qconfig_mapping: QConfigMapping
    is_qat: bool
    observed_node_names: set[str]
    is_observed_standalone_module: bool = False
    standalone_module_input_quantized_idxs: list[int] | None = None
    standalone_module_output_quantized_idxs: list[int] | None = None


def _is_observed_module(module: Any) -> bool:
    """Whether preparing made this module."""
    return _ATTRS in getattr(module, "meta", {})


def _is_observed_standalone_module(module: Any) -> bool:
    """Whether preparing made it, as a submodule quantized by itself."""
    return _is_observed_module(module) and module.meta[_ATTRS].is_observed_standalone_module


def _get_observed_graph_module_attr(model: Any, attr_name: str) -> Any:
    """One of the attributes above; None for a module that was not prepared."""
    return getattr(model.meta[_ATTRS], attr_name) if _is_observed_module(model) else None


class _KeepingGraphModule(GraphModule):
    """A graph module that keeps named attributes of its root."""

    def __init__(self, root: Module | dict[str, Any], graph: Graph, preserved_attr_names: set[str]) -> None:
        kept = {name: getattr(root, name) for name in preserved_attr_names if hasattr(root, name)}
        super().__init__(root, graph)
        self.preserved_attr_names = preserved_attr_names
        for name, value in kept.items():
            setattr(self, name, value)

    def __deepcopy__(self, memo: dict) -> _KeepingGraphModule:
        root = Module()
        root.__dict__ = copy.deepcopy(self.__dict__)
        kind = next(t for t in type(self).__mro__ if "GraphModuleImpl" not in t.__qualname__)
        return kind(root, copy.deepcopy(self.graph), copy.deepcopy(self.preserved_attr_names))


class FusedGraphModule(_KeepingGraphModule):
    """A fused model."""


class ObservedGraphModule(_KeepingGraphModule):
    """A model with observers."""


class ObservedStandaloneGraphModule(ObservedGraphModule):
    """A submodule with observers, quantized by itself."""


def is_packed(value: Any) -> bool:
    """Whether a value is the packed weight of an operator: no tensor and no module, but part of the state."""
    return isinstance(value, ScriptObject)


def _save_packed_weight(self: Module, destination: dict[str, Any], prefix: str, keep_vars: Any) -> None:
    for name in dir(self):
        if "_packed_weight" in name and is_packed(getattr(self, name)):
            destination[prefix + name] = getattr(self, name)


def _load_packed_weight(self: Module, state_dict: dict[str, Any], *rest: Any) -> None:
    for name in [n for n in state_dict if n.startswith("_packed_weight") and is_packed(state_dict[n])]:
        setattr(self, name, state_dict.pop(name))


def keep_packed_weights(model: GraphModule) -> None:
    """Make packed weights part of a model's state dict."""
    model._register_state_dict_hook(_save_packed_weight)
    model.register_load_state_dict_pre_hook(_load_packed_weight)


class QuantizedGraphModule(_KeepingGraphModule):
    """A quantized model, whose packed weights are part of its state dict."""

    def __init__(self, root: Module | dict[str, Any], graph: Graph, preserved_attr_names: set[str]) -> None:
        super().__init__(root, graph, preserved_attr_names)
        keep_packed_weights(self)
