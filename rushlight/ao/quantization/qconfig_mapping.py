"""QConfigMapping: which operators of a model get which `QConfig`.

Enters: qconfigs for the whole model, for classes, functions and methods, for names and patterns of names, and for the
n-th operator of a kind in a module; the narrower setting wins. Leaves: the mapping that `quantize_fx` reads, and
dictionaries of it. A qconfig of None leaves what it names in float.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ... import nn
from ...nn import functional as F  # noqa: N812
from ...op import published
from .fake_quantize import FixedQParamsFakeQuantize, default_weight_fake_quant
from .observer import (
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    default_placeholder_observer,
    default_weight_observer,
)
from .qconfig import (
    QConfig,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    default_symmetric_qnnpack_qat_qconfig,
    default_symmetric_qnnpack_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)

__all__ = ["QConfigMapping", "get_default_qat_qconfig_mapping", "get_default_qconfig_mapping"]

_GLOBAL_DICT_KEY = ""
_OBJECT_TYPE_DICT_KEY = "object_type"
_MODULE_NAME_REGEX_DICT_KEY = "module_name_regex"
_MODULE_NAME_DICT_KEY = "module_name"
_MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY = "module_name_object_type_order"

_functions = published("")
# Operators whose results lie between known bounds, and the observer that knows them.
_FIXED_QPARAMS_OP_TO_OBSERVER: dict[Any, Any] = {
    **dict.fromkeys(
        (nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_", nn.Sigmoid, _functions["sigmoid"], "sigmoid",
         "sigmoid_", nn.Softmax),
        default_fixed_qparams_range_0to1_observer,
    ),
    **dict.fromkeys((nn.Tanh, _functions["tanh"], "tanh", "tanh_"), default_fixed_qparams_range_neg1to1_observer),
}
# The settings, from the widest to the narrowest.
_QCONFIG_STYLE_ORDER = (
    "global_qconfig", "object_type_qconfigs", "module_name_regex_qconfigs", "module_name_qconfigs",
    "module_name_object_type_order_qconfigs",
)


class QConfigMapping:
    """Qconfigs of a model's operators. The setters return the mapping, to be chained."""

    def __init__(self) -> None:
        self.global_qconfig: Any = None
        self.object_type_qconfigs: OrderedDict[Callable | str, Any] = OrderedDict()
        self.module_name_regex_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_object_type_order_qconfigs: OrderedDict[tuple[str, Callable, int], Any] = OrderedDict()

    def set_global(self, global_qconfig: Any) -> QConfigMapping:
        """For every operator that nothing else names."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: Callable | str, qconfig: Any) -> QConfigMapping:
        """For a module class, a function or a method's name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: Any) -> QConfigMapping:
        """For modules whose path begins with a match; the pattern set first wins."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: Any) -> QConfigMapping:
        """For a module, by its path, and what is in it."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Callable, index: int, qconfig: Any
    ) -> QConfigMapping:
        """For the operator that is number `index` of its kind in a module."""
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for style in _QCONFIG_STYLE_ORDER:
            held = getattr(self, style)
            lines.append(f" {style}")
            listed = isinstance(held, OrderedDict) and held
            lines += [f"  {key}: {qconfig}" for key, qconfig in held.items()] if listed else [f"  {held}"]
        return "\n".join([*lines, ")"])

    def to_dict(self) -> dict[str, Any]:
        """The global qconfig under "", the others as lists of tuples that end in their qconfig."""
        return {
            _GLOBAL_DICT_KEY: self.global_qconfig,
            _OBJECT_TYPE_DICT_KEY: list(self.object_type_qconfigs.items()),
            _MODULE_NAME_REGEX_DICT_KEY: list(self.module_name_regex_qconfigs.items()),
            _MODULE_NAME_DICT_KEY: list(self.module_name_qconfigs.items()),
            _MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY: [
                (*key, qconfig) for key, qconfig in self.module_name_object_type_order_qconfigs.items()
            ],
        }

    @classmethod
    def from_dict(cls, qconfig_dict: dict[str, Any]) -> QConfigMapping:
        """From the keys of `to_dict`, each optional."""
        result = cls().set_global(qconfig_dict.get(_GLOBAL_DICT_KEY))
        setters: dict[str, Callable] = {
            _OBJECT_TYPE_DICT_KEY: result.set_object_type,
            _MODULE_NAME_REGEX_DICT_KEY: result.set_module_name_regex,
            _MODULE_NAME_DICT_KEY: result.set_module_name,
            _MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY: result.set_module_name_object_type_order,
        }
        for key, setter in setters.items():
            for entry in qconfig_dict.get(key, []):
                setter(*entry)
        return result


def _get_default_qconfig_mapping(is_qat: bool, backend: str, version: int) -> QConfigMapping:
    """The backend's qconfig everywhere, and others where its kernels or an operator's bounds ask for them."""
    qconfig = (get_default_qat_qconfig if is_qat else get_default_qconfig)(backend, version)
    weight = default_weight_fake_quant if is_qat else default_weight_observer
    # these two have no kernels for transposed convolutions with a scale for each channel
    transposed = QConfig(qconfig.activation, weight) if backend in ("fbgemm", "x86") else qconfig
    unweighted = QConfig(qconfig.activation, default_placeholder_observer)
    mapping = QConfigMapping().set_global(qconfig).set_object_type("reshape", default_reuse_input_qconfig)
    for space, name in ((nn, "ConvTranspose"), (F, "conv_transpose")):
        for d in (1, 2, 3):
            mapping.set_object_type(getattr(space, f"{name}{d}d"), transposed)
    mapping.set_object_type(F.layer_norm, unweighted).set_object_type(nn.LayerNorm, unweighted)
    mapping.set_object_type(nn.PReLU, default_quint8_weight_qconfig)
    made: dict[Any, QConfig] = {}
    for op, observer in _FIXED_QPARAMS_OP_TO_OBSERVER.items():
        if observer not in made:
            activation = FixedQParamsFakeQuantize.with_args(observer=observer) if is_qat else observer
            made[observer] = QConfig(activation, weight)
        mapping.set_object_type(op, made[observer])
    return mapping


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """For quantizing a trained model; `backend` is "x86", "fbgemm", "qnnpack" or "onednn"."""
    return _get_default_qconfig_mapping(False, backend, version)


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """For training a model that will be quantized; `backend` is "x86", "fbgemm", "qnnpack" or "onednn"."""
    return _get_default_qconfig_mapping(True, backend, version)


def _get_default_qconfig_mapping_with_default_qconfig(
    is_qat: bool, backend: str, default_qconfig: QConfig
) -> QConfigMapping:
    """The backend's mapping with another qconfig everywhere but where results have known bounds."""
    mapping = (get_default_qat_qconfig_mapping if is_qat else get_default_qconfig_mapping)(backend)
    mapping.set_global(default_qconfig)
    for op in mapping.object_type_qconfigs:
        if op not in _FIXED_QPARAMS_OP_TO_OBSERVER:
            mapping.set_object_type(op, default_qconfig)
    return mapping


def _get_symmetric_qnnpack_qconfig_mapping() -> QConfigMapping:
    """qnnpack's mapping with symmetric qconfigs."""
    return _get_default_qconfig_mapping_with_default_qconfig(False, "qnnpack", default_symmetric_qnnpack_qconfig)


def _get_symmetric_qnnpack_qat_qconfig_mapping() -> QConfigMapping:
    """The same, for training."""
    return _get_default_qconfig_mapping_with_default_qconfig(True, "qnnpack", default_symmetric_qnnpack_qat_qconfig)
