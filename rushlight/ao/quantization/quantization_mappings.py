"""Which class takes whose place: from float layers to reference, trained, static, dynamic and sparse quantized ones.

Enters: nothing, or a float class. Leaves: the tables, copied where callers may change them. Refuses: classes without a
counterpart.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ... import ops
from ...nn import Module, functional as F
from ...nn.modules import activation, batchnorm, conv, dropout, instancenorm, linear, normalization, rnn, sparse
from ...nn.modules.container import Sequential
from ...nn.utils.parametrize import type_before_parametrizations
from ..nn.intrinsic.modules import fused as nni
from ..nn.intrinsic.qat.modules import conv_fused, linear_fused, linear_relu as qat_linear_relu
from ..nn.intrinsic.quantized.dynamic.modules import linear_relu as dynamic_linear_relu
from ..nn.intrinsic.quantized.modules import bn_relu, conv_add, conv_relu, linear_relu
from ..nn.qat.dynamic.modules import linear as dynamic_qat_linear
from ..nn.qat.modules import conv as qat_conv, embedding_ops as qat_tables, linear as qat_linear
from ..nn.quantizable.modules import activation as quantizable_activation, rnn as quantizable_rnn
from ..nn.quantized.dynamic.modules import linear as dynamic_linear, rnn as dynamic_rnn
from ..nn.quantized.modules import (
    activation as q_activation,
    batchnorm as q_batchnorm,
    borders,
    conv as q_conv,
    dropout as q_dropout,
    embedding_ops as q_tables,
    functional_modules,
    linear as q_linear,
    normalization as q_normalization,
)
from ..nn.quantized.reference.modules import conv as r_conv, linear as r_linear, rnn as r_rnn, sparse as r_tables
from ..nn.sparse.quantized import linear as sparse_linear
from ..nn.sparse.quantized.dynamic import linear as sparse_dynamic_linear
from .fake_quantize import (
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
)
from .stubs import DeQuantStub, QuantStub
from .utils import get_combined_dict

__all__ = [
    "DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS", "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_QAT_MODULE_MAPPINGS", "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS",
    "DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS", "DEFAULT_MODULE_TO_ACT_POST_PROCESS",
    "DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS", "DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS", "no_observer_set",
    "get_default_static_quant_module_mappings", "get_default_static_quant_reference_module_mappings",
    "get_embedding_static_quant_module_mappings", "get_default_static_sparse_quant_module_mappings",
    "get_static_quant_module_class", "get_dynamic_quant_module_class", "get_default_qat_module_mappings",
    "get_embedding_qat_module_mappings", "get_default_dynamic_quant_module_mappings",
    "get_default_dynamic_sparse_quant_module_mappings", "get_default_qconfig_propagation_list",
    "get_default_compare_output_module_list", "get_default_float_to_quantized_operator_mappings",
    "get_quantized_operator",
]

Table = dict[Any, Any]


def _by_name(source: Any, target: Any, names: str) -> Table:
    """Classes of one file to those of the same name in another."""
    return {getattr(source, name): getattr(target, name) for name in names.split()}


_BORDERS: Table = {QuantStub: borders.Quantize, DeQuantStub: borders.DeQuantize}
_CONVS = "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d"
_TABLES = "Embedding EmbeddingBag"

DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS: Table = {
    **_BORDERS,
    linear.Linear: r_linear.Linear,
    **_by_name(conv, r_conv, _CONVS),
    **_by_name(sparse, r_tables, _TABLES),
    **_by_name(rnn, r_rnn, "GRUCell LSTMCell RNNCell LSTM"),
}

DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: Table = {
    **_BORDERS,
    **_by_name(batchnorm, q_batchnorm, "BatchNorm2d BatchNorm3d"),
    dropout.Dropout: q_dropout.Dropout,
    **_by_name(conv, q_conv, _CONVS),
    activation.ELU: q_activation.ELU,
    **_by_name(sparse, q_tables, _TABLES),
    normalization.GroupNorm: q_normalization.GroupNorm,
    activation.Hardswish: q_activation.Hardswish,
    **_by_name(instancenorm, q_normalization, "InstanceNorm1d InstanceNorm2d InstanceNorm3d"),
    normalization.LayerNorm: q_normalization.LayerNorm,
    activation.LeakyReLU: q_activation.LeakyReLU,
    linear.NonDynamicallyQuantizableLinear: q_linear.Linear,
    linear.Linear: q_linear.Linear,
    **_by_name(activation, q_activation, "ReLU6 PReLU"),
    functional_modules.FloatFunctional: functional_modules.QFunctional,
    **_by_name(nni, bn_relu, "BNReLU2d BNReLU3d"),
    **_by_name(nni, conv_relu, "ConvReLU1d ConvReLU2d ConvReLU3d"),
    **_by_name(nni, conv_add, "ConvAdd2d ConvAddReLU2d"),
    **_by_name(nni, linear_relu, "LinearReLU LinearLeakyReLU LinearTanh"),
    conv_fused.ConvBn1d: q_conv.Conv1d,
    conv_fused.ConvBn2d: q_conv.Conv2d,
    conv_fused.ConvBn3d: q_conv.Conv3d,
    conv_fused.ConvBnReLU1d: conv_relu.ConvReLU1d,
    conv_fused.ConvBnReLU2d: conv_relu.ConvReLU2d,
    conv_fused.ConvBnReLU3d: conv_relu.ConvReLU3d,
    **_by_name(conv_fused, conv_relu, "ConvReLU2d ConvReLU3d"),
    qat_linear_relu.LinearReLU: linear_relu.LinearReLU,
    linear_fused.LinearBn1d: q_linear.Linear,
    qat_linear.Linear: q_linear.Linear,
    **_by_name(qat_conv, q_conv, "Conv2d Conv3d"),
}

DEFAULT_QAT_MODULE_MAPPINGS: Table = {
    **_by_name(conv, qat_conv, "Conv2d Conv3d"),
    linear.Linear: qat_linear.Linear,
    linear.NonDynamicallyQuantizableLinear: qat_linear.Linear,
    **_by_name(
        nni, conv_fused,
        "ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU2d ConvReLU3d",
    ),
    nni.LinearReLU: qat_linear_relu.LinearReLU,
    nni.LinearBn1d: linear_fused.LinearBn1d,
}

DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: Table = {
    rnn.GRUCell: dynamic_rnn.GRUCell,
    linear.Linear: dynamic_linear.Linear,
    dynamic_qat_linear.Linear: dynamic_linear.Linear,
    linear.NonDynamicallyQuantizableLinear: dynamic_linear.Linear,
    **_by_name(rnn, dynamic_rnn, "LSTM GRU LSTMCell RNNCell"),
    nni.LinearReLU: dynamic_linear_relu.LinearReLU,
    sparse.EmbeddingBag: q_tables.EmbeddingBag,
    sparse.Embedding: q_tables.Embedding,
}

_INCLUDE_QCONFIG_PROPAGATE_LIST: set[Any] = {Sequential}

DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS: Table = {
    getattr(F, name): getattr(ops.quantized, name)
    for name in ("elu", "hardswish", "instance_norm", "layer_norm", "leaky_relu", "dropout")
}

# Layers whose range is known before they have run.
DEFAULT_MODULE_TO_ACT_POST_PROCESS: Table = {
    activation.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    activation.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    activation.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    activation.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}

DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS: Table = {linear.Linear: sparse_linear.Linear}
DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS: Table = {linear.Linear: sparse_dynamic_linear.Linear}


def no_observer_set() -> set[Any]:
    """Observed modules that observe their parts themselves."""
    return {quantizable_rnn.LSTM, quantizable_activation.MultiheadAttention}


def get_default_static_quant_module_mappings() -> Table:
    """From float (or trained) layers to layers of integers."""
    return copy.copy(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_static_quant_reference_module_mappings() -> Table:
    """From float layers to reference layers."""
    return copy.copy(DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS)


def get_embedding_static_quant_module_mappings() -> Table:
    """The static table, with trained tables in it."""
    return {**DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, **_by_name(qat_tables, q_tables, "EmbeddingBag Embedding")}


def get_default_static_sparse_quant_module_mappings() -> Table:
    """From float layers to sparse layers of integers."""
    return copy.copy(DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS)


def _counterpart(table: Table, more: Table | None, float_module_class: Any) -> Any:
    found = get_combined_dict(table, more or {}).get(float_module_class)
    if found is None:
        raise AssertionError(
            f"{float_module_class}: no class of quantized modules stands for it"
        )
    return found


def get_static_quant_module_class(
    float_module_class: Any, additional_static_quant_mapping: Table | None = None, is_reference: bool = False
) -> Any:
    """The layer of integers (or reference layer) for a float class. Refuses classes without one."""
    table = DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS if is_reference else DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    return _counterpart(table, additional_static_quant_mapping, float_module_class)


def get_dynamic_quant_module_class(
    float_module_class: Any, additional_dynamic_quant_mapping: Table | None = None
) -> Any:
    """The dynamic layer for a float class. Refuses classes without one."""
    return _counterpart(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, additional_dynamic_quant_mapping, float_module_class)


def get_default_qat_module_mappings() -> Table:
    """From float layers to those that train with rounding."""
    return copy.copy(DEFAULT_QAT_MODULE_MAPPINGS)


def get_embedding_qat_module_mappings() -> Table:
    """The table for training, with tables in it."""
    return {**DEFAULT_QAT_MODULE_MAPPINGS, **_by_name(sparse, qat_tables, "EmbeddingBag Embedding")}


def get_default_dynamic_quant_module_mappings() -> Table:
    """From float layers to dynamic ones: the table itself."""
    return DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS


def get_default_dynamic_sparse_quant_module_mappings() -> Table:
    """From float layers to sparse dynamic ones: the table itself."""
    return DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS


def get_default_qconfig_propagation_list() -> set[Any]:
    """The classes of modules that get an observer where they have a qconfig."""
    tables = (
        DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS
    )
    return _INCLUDE_QCONFIG_PROPAGATE_LIST.union(*tables)


def get_default_compare_output_module_list() -> set[Any]:
    """The classes whose outputs the numeric suite compares: those of the tables, before and after."""
    tables = (
        DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS
    )
    return get_default_qconfig_propagation_list().union(*(table.values() for table in tables))


def get_default_float_to_quantized_operator_mappings() -> Table:
    """From float functions to ops on integers."""
    return copy.copy(DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS)


def get_quantized_operator(float_op: Callable | str) -> Callable:
    """The op on integers for a float function. Refuses functions without one."""
    found = DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.get(float_op)
    if found is None:
        raise AssertionError(f"Operator {float_op} does not have corresponding quantized op")
    return found


def _get_special_act_post_process(module: Module) -> Callable | None:
    """What observes a layer whose range is known, or None."""
    return DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type_before_parametrizations(module))


def _has_special_act_post_process(module: Module) -> bool:
    """Whether a layer in training has a range that is known."""
    return module.training and type(module) in DEFAULT_MODULE_TO_ACT_POST_PROCESS
