"""`torch.ao.quantization`: trained models made smaller, in integers.

Enters: a float model, and qconfigs that say how to observe it. Leaves: the model prepared (it observes, or trains with
rounding), and converted (its layers compute in integers). Refuses: models that cannot be fused, observed or converted,
by the module's path.

Every file is imported when one of its names is first used.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ...base import late
from ...base.refusals import names_of

_SOURCES = late.by_name({
    "observer": (
        "AffineQuantizedObserverBase FixedQParamsObserver Granularity HistogramObserver MappingType MinMaxObserver"
        " MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver NoopObserver ObserverBase PerAxis PerBlock"
        " PerChannelMinMaxObserver PerGroup PerRow PerTensor PerToken PlaceholderObserver RecordingObserver"
        " ReuseInputObserver TorchAODType UniformQuantizationObserverBase ZeroPointDomain"
        " default_affine_fixed_qparams_observer default_debug_observer default_dynamic_quant_observer"
        " default_fixed_qparams_range_0to1_observer default_fixed_qparams_range_neg1to1_observer"
        " default_float_qparams_observer default_float_qparams_observer_4bit default_histogram_observer"
        " default_observer default_per_channel_weight_observer default_placeholder_observer"
        " default_reuse_input_observer default_symmetric_fixed_qparams_observer default_weight_observer"
        " get_block_size get_observer_state_dict load_observer_state_dict"
        " per_channel_weight_observer_range_neg_127_to_127 weight_observer_range_neg_127_to_127"
    ),
    "fake_quantize": (
        "FakeQuantize FakeQuantizeBase FixedQParamsFakeQuantize FusedMovingAvgObsFakeQuantize ObserverOrFakeQuantize"
        " default_affine_fixed_qparams_fake_quant default_dynamic_fake_quant default_embedding_fake_quant"
        " default_embedding_fake_quant_4bit default_fake_quant default_fixed_qparams_range_0to1_fake_quant"
        " default_fixed_qparams_range_neg1to1_fake_quant default_fused_act_fake_quant"
        " default_fused_per_channel_wt_fake_quant default_fused_wt_fake_quant default_histogram_fake_quant"
        " default_per_channel_weight_fake_quant default_symmetric_fixed_qparams_fake_quant default_weight_fake_quant"
        " disable_fake_quant disable_observer enable_fake_quant enable_observer"
        " fused_per_channel_wt_fake_quant_range_neg_127_to_127 fused_wt_fake_quant_range_neg_127_to_127"
    ),
    "qconfig": (
        "QConfig QConfigAny QConfigDynamic default_activation_only_qconfig default_debug_qconfig"
        " default_dynamic_qat_qconfig default_dynamic_qconfig default_embedding_qat_qconfig"
        " default_embedding_qat_qconfig_4bit default_per_channel_qconfig default_per_channel_symmetric_qnnpack_qconfig"
        " default_per_channel_symmetric_qnnpack_qat_qconfig default_qat_qconfig default_qat_qconfig_v2 default_qconfig"
        " default_quint8_weight_qconfig default_reuse_input_qconfig default_symmetric_qnnpack_qat_qconfig"
        " default_symmetric_qnnpack_qconfig default_weight_only_qconfig float16_dynamic_qconfig float16_static_qconfig"
        " float_qparams_weight_only_qconfig float_qparams_weight_only_qconfig_4bit get_default_qat_qconfig"
        " get_default_qat_qconfig_dict get_default_qconfig get_default_qconfig_dict per_channel_dynamic_qconfig"
        " qconfig_equals"
    ),
    "qconfig_mapping": "QConfigMapping get_default_qat_qconfig_mapping get_default_qconfig_mapping",
    "quant_type": "QuantType",
    "quantization_mappings": (
        "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS"
        " DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS DEFAULT_MODULE_TO_ACT_POST_PROCESS DEFAULT_QAT_MODULE_MAPPINGS"
        " DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS DEFAULT_STATIC_QUANT_MODULE_MAPPINGS"
        " DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS get_default_compare_output_module_list"
        " get_default_dynamic_quant_module_mappings get_default_dynamic_sparse_quant_module_mappings"
        " get_default_float_to_quantized_operator_mappings get_default_qat_module_mappings"
        " get_default_qconfig_propagation_list get_default_static_quant_module_mappings"
        " get_default_static_quant_reference_module_mappings get_default_static_sparse_quant_module_mappings"
        " get_dynamic_quant_module_class get_embedding_qat_module_mappings get_embedding_static_quant_module_mappings"
        " get_quantized_operator get_static_quant_module_class no_observer_set"
    ),
    "quantize": (
        "add_quant_dequant convert default_eval_fn get_default_custom_config_dict prepare prepare_qat"
        " propagate_qconfig_ quantize quantize_dynamic quantize_qat swap_module"
    ),
    "stubs": "DeQuantStub QuantStub QuantWrapper",
    "fuse_modules": "fuse_modules fuse_modules_qat",
    "fuser_method_mappings": (
        "fuse_conv_bn fuse_conv_bn_relu fuse_convtranspose_bn fuse_linear_bn get_fuser_method get_fuser_method_new"
    ),
    "utils": "MatchAllNode Pattern get_combined_dict",
})
_HIDDEN = {"_DerivedObserverOrFakeQuantize": "fake_quantize"}     # names that programs ask for and `*` leaves out
_FILES = (
    "_learnable_fake_quantize", "backend_config", "fake_quantize", "fuser_method_mappings", "fx", "observer",
    "qconfig", "qconfig_mapping", "quant_type", "quantization_mappings", "quantize_fx", "stubs", "utils",
)
_CLASHES = frozenset(_SOURCES.values()) & _SOURCES.keys()     # files with a function of their own name

__all__ = list(_SOURCES)
__getattr__, __dir__ = late.names(globals(), {**_SOURCES, **_HIDDEN}, _FILES)
globals().update(names_of("torch.ao.quantization"))


class _Package(ModuleType):
    """The package, in which `quantize` means the function of that name also after its file was imported by itself."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _CLASHES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
