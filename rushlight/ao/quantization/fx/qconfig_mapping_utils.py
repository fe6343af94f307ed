"""From a QConfigMapping to the qconfig of each node.

Enters: a traced model, a mapping, and the scope each node was traced in. Leaves: node name -> qconfig; called modules
get theirs as an attribute. Refuses: parts of a fused module with different qconfigs (LookupError), and a mapping given
to convert that contradicts the one given to prepare (AssertionError).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ...._C import float16, float32
from ....fx import Graph, GraphModule
from ....nn import Module
from ...nn.intrinsic import _FusedModule
from ..backend_config import BackendConfig, DTypeConfig
from ..backend_config.utils import get_module_to_qat_module
from ..observer import _is_activation_post_process
from ..qconfig import QConfig, _add_module_to_qconfig_obs_ctr, qconfig_equals
from ..qconfig_mapping import QConfigMapping
from ..utils import _parent_name, get_qconfig_dtypes

__all__: list[str] = []


def _get_module_name_qconfig(mapping: QConfigMapping, module_name: str, fallback: Any) -> Any:
    """The qconfig of a module's name, or of the nearest module around it that has one."""
    while module_name:
        if module_name in mapping.module_name_qconfigs:
            return mapping.module_name_qconfigs[module_name]
        module_name = _parent_name(module_name)[0]
    return fallback


def _qconfig_of(mapping: QConfigMapping, object_type: Any, module_name: str, fallback: Any) -> Any:
    """By name; else by the first pattern that fits the name; else by type; else `fallback`."""
    found = mapping.object_type_qconfigs.get(object_type, fallback)
    found = next((q for p, q in mapping.module_name_regex_qconfigs.items() if re.match(p, module_name)), found)
    return _get_module_name_qconfig(mapping, module_name, found)


def _update_qconfig_for_fusion(model: GraphModule, qconfig_mapping: QConfigMapping) -> None:
    """Give the classes of fused modules the qconfig of their parts' classes, which must agree."""
    by_type = qconfig_mapping.object_type_qconfigs
    if not by_type:
        return
    modules = dict(model.named_modules())
    for node in model.graph.nodes:
        fused = modules.get(str(node.target)) if node.op == "call_module" else None
        if not isinstance(fused, _FusedModule):
            continue
        first, *others = (type(part) for part in fused._modules.values())
        qconfig = by_type.get(first)
        for other in others:
            if not qconfig_equals(by_type.get(other), qconfig):
                raise LookupError(
                    f"{type(fused).__name__} at {node.target}: the classes it is fused of must be given the same "
                    f"qconfig, but {other.__name__}'s is not {first.__name__}'s"
                )
        if qconfig is not None:
            by_type[type(fused)] = qconfig


def _update_qconfig_for_qat(qconfig_mapping: QConfigMapping, backend_config: BackendConfig) -> None:
    """Give the classes that modules are trained as the qconfig of the modules' own."""
    trained = get_module_to_qat_module(backend_config)
    for object_type, qconfig in list(qconfig_mapping.object_type_qconfigs.items()):
        if object_type in trained:
            qconfig_mapping.object_type_qconfigs[trained[object_type]] = qconfig


def _get_flattened_qconfig_dict(qconfig_mapping: QConfigMapping) -> dict[Callable | str, Any]:
    """The global, typed and named qconfigs in one dictionary, as eager preparing takes them."""
    return {
        "": qconfig_mapping.global_qconfig,
        **qconfig_mapping.object_type_qconfigs,
        **qconfig_mapping.module_name_qconfigs,
    }


def _generate_node_name_to_qconfig(
    root: Module, modules: dict[str, Module], input_graph: Graph, qconfig_mapping: QConfigMapping,
    node_name_to_scope: dict[str, tuple[str, type]],
) -> dict[str, Any]:
    """The qconfig of every node but observers. `root` is what the graph was traced from."""
    default = qconfig_mapping.global_qconfig
    seen: dict[tuple[str, Any], int] = defaultdict(int)      # operators of a kind in a module, so far
    result: dict[str, Any] = {}

    def in_order(path: str, kind: Any, qconfig: Any) -> Any:
        number = seen[path, kind]
        seen[path, kind] += 1
        return qconfig_mapping.module_name_object_type_order_qconfigs.get((path, kind, number), qconfig)

    for node in input_graph.nodes:
        result[node.name] = qconfig = None
        if node.op == "get_attr":
            owner = _parent_name(node.target)[0]
            qconfig = _qconfig_of(qconfig_mapping, type(modules[owner]), owner, default)
        elif node.op == "call_function":
            path, kind = node_name_to_scope[node.name]
            by_function = qconfig_mapping.object_type_qconfigs.get(node.target, default)
            qconfig = in_order(path, node.target, _qconfig_of(qconfig_mapping, kind, path, by_function))
        elif node.op == "call_method":
            path, kind = node_name_to_scope[node.name]
            by_method = _qconfig_of(qconfig_mapping, node.target, path, default)
            qconfig = _qconfig_of(qconfig_mapping, kind, path, by_method)
        elif node.op == "call_module":
            module = modules[node.target]
            if _is_activation_post_process(module):
                del result[node.name]
                continue
            qconfig = _qconfig_of(qconfig_mapping, type(module), node.target, default)
            path, kind = node_name_to_scope[node.name]      # of the module itself: it is counted where it is called
            qconfig = in_order(_parent_name(path)[0], kind, qconfig)
        if qconfig is not None:
            called = modules.get(node.target) if isinstance(node.target, str) else None
            result[node.name] = _add_module_to_qconfig_obs_ctr(qconfig, called)
        if node.op == "call_module":
            modules[node.target].qconfig = result[node.name]     # eager preparing knows no patterns of names
    return result


def _compare_prepare_convert_qconfig_mappings(
    prepare_qconfig_mapping: QConfigMapping, convert_qconfig_mapping: QConfigMapping
) -> None:
    """Refuse a mapping for convert that has other qconfigs than prepare's, unless they are None."""
    if not qconfig_equals(prepare_qconfig_mapping.global_qconfig, convert_qconfig_mapping.global_qconfig):
        raise AssertionError("convert: the global qconfig of qconfig_mapping is not the one given to prepare")
    for style in ("object_type", "module_name", "module_name_regex"):
        before = getattr(prepare_qconfig_mapping, f"{style}_qconfigs")
        now = getattr(convert_qconfig_mapping, f"{style}_qconfigs")
        for name, qconfig in before.items():
            if name not in now:
                raise AssertionError(f"convert: qconfig_mapping has no {style} {name}, which prepare was given")
            if now[name] is not None and not qconfig_equals(qconfig, now[name]):
                raise AssertionError(f"convert: {style} {name} has {now[name]}, but prepare was given {qconfig}")


def _is_qconfig_supported_by_dtype_configs(qconfig: QConfig, dtype_configs: list[DTypeConfig]) -> bool:
    """Whether one of the combinations of types is the qconfig's."""
    activation, weight, is_dynamic = get_qconfig_dtypes(qconfig)
    for config in dtype_configs:
        inputs, weights, biases, outputs = (
            getattr(config, f"{what}_dtype") or float32 for what in ("input", "weight", "bias", "output")
        )
        if config.is_dynamic:
            fits = is_dynamic and inputs == activation and outputs == float32 and weights == weight
        else:
            bias = float16 if activation == weight == float16 else float32
            fits = inputs == outputs == activation and weights == weight and biases == bias
        if fits:
            return True
    return False
