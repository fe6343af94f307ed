"""Modules with weights become their reference classes, which hold the weight in float and its qparams.

Enters: a call of such a module in an observed graph. Leaves: the reference module in its place; a trained (QAT) module
becomes a float one first. What has no qconfig, was not observed, or whose weight is not quantized stays in float.
"""

from __future__ import annotations

from typing import Any

from ...._C import qint8
from ....fx import Node
from ....nn import GRU, LSTM, Module, RNNCellBase
from ....nn.utils.parametrize import type_before_parametrizations
from ...nn.intrinsic import _FusedModule
from ..backend_config import BackendConfig
from ..backend_config.utils import get_qat_module_classes, get_root_module_to_quantized_reference_module
from ..utils import _parent_name, get_qparam_dict, weight_is_quantized
from .qconfig_mapping_utils import _is_qconfig_supported_by_dtype_configs
from .utils import assert_and_get_unique_device


def refer(
    node: Node, modules: dict[str, Any], observed: set[str], qconfigs: dict[str, Any], backend: BackendConfig,
    is_decomposed: bool, is_reference: bool, device: Any,
) -> None:
    """Replace the module that a node calls."""
    owner, name = _parent_name(node.target)
    module = modules[str(node.target)]
    qconfig, trained = module.qconfig, None
    if isinstance(module, get_qat_module_classes(backend)):
        trained = module.weight_fake_quant
        module = module.to_float()
        setattr(modules[owner], name, module)
    if qconfig is None or node.name not in observed or qconfigs.get(node.name, qconfig) is None:
        return
    config = backend._pattern_complex_format_to_config.get(type(module))
    if config is None or not _is_qconfig_supported_by_dtype_configs(qconfig, config.dtype_configs):
        return
    if not weight_is_quantized(qconfig):
        return
    weighted = module[0] if isinstance(module, _FusedModule) else module
    qparams = {"is_decomposed": is_decomposed}
    if isinstance(weighted, RNNCellBase):
        qparams.update({w: _observed(qconfig.weight(), getattr(weighted, w)) for w in ("weight_ih", "weight_hh")})
    elif isinstance(weighted, (LSTM, GRU)):
        for w in weighted._flat_weights_names:
            if w.startswith("weight") and hasattr(weighted, w):
                observer = qconfig.weight()
                qparams[w] = _observed(observer, getattr(weighted, w), runs=observer.dtype == qint8)
    else:
        observer = trained if trained is not None else _on_device(qconfig.weight(), weighted, device)
        # training has run it; older programs convert without training, so only decomposed graphs rely on that
        runs = not (is_decomposed and is_reference and trained is not None)
        qparams.update(_observed(observer, weighted.weight, runs))
    kind = type_before_parametrizations(weighted)
    reference = get_root_module_to_quantized_reference_module(backend).get(kind)
    if reference is None:
        raise AssertionError(f"{node.target}: the backend has no reference class for {kind}")
    made = reference.from_float(weighted, qparams)
    if weighted is not module:
        module[0] = made
    else:
        setattr(modules[owner], name, made)


def _observed(observer: Any, weight: Any, runs: bool = True) -> Any:
    """The qparams that an observer finds for a weight."""
    if runs:
        observer(weight)
    return get_qparam_dict(observer)


def _on_device(observer: Module, module: Module, device: Any) -> Module:
    device = assert_and_get_unique_device(module) if device is None else device
    return observer.to(device) if device is not None else observer
