"""Made by tools/make_stubs.py from the op registry. Do not edit: run the tool."""

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self, SupportsIndex, TypeVar, overload

Number = builtins.int | builtins.float | builtins.complex | builtins.bool
_E = TypeVar("_E")
_F = TypeVar("_F")


from rushlight import return_types as _return_types
from rushlight.base.shape import layout as _layout, memory_format as _memory_format
from rushlight import Generator as _Generator, Tensor, device as _device, dtype as _dtype
from rushlight.ao.quantization.bases import AffineQuantizedObserverBase as AffineQuantizedObserverBase
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: Any
DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS: Any
DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS: Any
DEFAULT_MODULE_TO_ACT_POST_PROCESS: Any
DEFAULT_QAT_MODULE_MAPPINGS: Any
DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS: Any
DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: Any
DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS: Any
from rushlight.ao.quantization.stubs import DeQuantStub as DeQuantStub
from rushlight.ao.quantization.fake_quantize import FakeQuantize as FakeQuantize
from rushlight.ao.quantization.bases import FakeQuantizeBase as FakeQuantizeBase
from rushlight.ao.quantization.fake_quantize import FixedQParamsFakeQuantize as FixedQParamsFakeQuantize
from rushlight.ao.quantization.observer import FixedQParamsObserver as FixedQParamsObserver
from rushlight.ao.quantization.fake_quantize import FusedMovingAvgObsFakeQuantize as FusedMovingAvgObsFakeQuantize
from rushlight.ao.quantization.bases import Granularity as Granularity
from rushlight.ao.quantization.observer import HistogramObserver as HistogramObserver
class MappingType:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
from rushlight.ao.quantization.utils import MatchAllNode as MatchAllNode
from rushlight.ao.quantization.observer import MinMaxObserver as MinMaxObserver
class ModuleType:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
from rushlight.ao.quantization.observer import MovingAverageMinMaxObserver as MovingAverageMinMaxObserver
from rushlight.ao.quantization.observer import (
    MovingAveragePerChannelMinMaxObserver as MovingAveragePerChannelMinMaxObserver,
)
from rushlight.ao.quantization.observer import NoopObserver as NoopObserver
from rushlight.ao.quantization.bases import ObserverBase as ObserverBase
ObserverOrFakeQuantize: Any
from rushlight.ao.quantization.bases import PerAxis as PerAxis
from rushlight.ao.quantization.bases import PerBlock as PerBlock
from rushlight.ao.quantization.observer import PerChannelMinMaxObserver as PerChannelMinMaxObserver
from rushlight.ao.quantization.bases import PerGroup as PerGroup
from rushlight.ao.quantization.bases import PerRow as PerRow
from rushlight.ao.quantization.bases import PerTensor as PerTensor
from rushlight.ao.quantization.bases import PerToken as PerToken
from rushlight.ao.quantization.observer import PlaceholderObserver as PlaceholderObserver
from rushlight.ao.quantization.qconfig import QConfig as QConfig
QConfigAny: Any
from rushlight.ao.quantization.qconfig import QConfigDynamic as QConfigDynamic
from rushlight.ao.quantization.qconfig_mapping import QConfigMapping as QConfigMapping
from rushlight.ao.quantization.stubs import QuantStub as QuantStub
from rushlight.ao.quantization.quant_type import QuantType as QuantType
from rushlight.ao.quantization.stubs import QuantWrapper as QuantWrapper
from rushlight.ao.quantization.observer import RecordingObserver as RecordingObserver
from rushlight.ao.quantization.observer import ReuseInputObserver as ReuseInputObserver
class TorchAODType:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
from rushlight.ao.quantization.observer import UniformQuantizationObserverBase as UniformQuantizationObserverBase
class ZeroPointDomain:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
from rushlight.ao.quantization.quantize import add_quant_dequant as add_quant_dequant
annotations: Any
from . import backend_config as backend_config
from . import bases as bases
from rushlight.ao.quantization.quantize import convert as convert
class convert_dynamic_jit:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
class convert_jit:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
default_activation_only_qconfig: Any
def default_affine_fixed_qparams_fake_quant(*args: Any, **keywords: Any) -> Any: ...
def default_affine_fixed_qparams_observer(*args: Any, **keywords: Any) -> Any: ...
from rushlight.ao.quantization.observer import RecordingObserver as default_debug_observer
default_debug_qconfig: Any
def default_dynamic_fake_quant(*args: Any, **keywords: Any) -> Any: ...
default_dynamic_qat_qconfig: Any
default_dynamic_qconfig: Any
def default_dynamic_quant_observer(*args: Any, **keywords: Any) -> Any: ...
def default_embedding_fake_quant(*args: Any, **keywords: Any) -> Any: ...
def default_embedding_fake_quant_4bit(*args: Any, **keywords: Any) -> Any: ...
default_embedding_qat_qconfig: Any
default_embedding_qat_qconfig_4bit: Any
from rushlight.ao.quantization.quantize import default_eval_fn as default_eval_fn
def default_fake_quant(*args: Any, **keywords: Any) -> Any: ...
def default_fixed_qparams_range_0to1_fake_quant(*args: Any, **keywords: Any) -> Any: ...
def default_fixed_qparams_range_0to1_observer(*args: Any, **keywords: Any) -> Any: ...
def default_fixed_qparams_range_neg1to1_fake_quant(*args: Any, **keywords: Any) -> Any: ...
def default_fixed_qparams_range_neg1to1_observer(*args: Any, **keywords: Any) -> Any: ...
def default_float_qparams_observer(*args: Any, **keywords: Any) -> Any: ...
def default_float_qparams_observer_4bit(*args: Any, **keywords: Any) -> Any: ...
def default_fused_act_fake_quant(*args: Any, **keywords: Any) -> Any: ...
def default_fused_per_channel_wt_fake_quant(*args: Any, **keywords: Any) -> Any: ...
def default_fused_wt_fake_quant(*args: Any, **keywords: Any) -> Any: ...
def default_histogram_fake_quant(*args: Any, **keywords: Any) -> Any: ...
def default_histogram_observer(*args: Any, **keywords: Any) -> Any: ...
def default_observer(*args: Any, **keywords: Any) -> Any: ...
default_per_channel_qconfig: Any
default_per_channel_symmetric_qnnpack_qat_qconfig: Any
default_per_channel_symmetric_qnnpack_qconfig: Any
def default_per_channel_weight_fake_quant(*args: Any, **keywords: Any) -> Any: ...
def default_per_channel_weight_observer(*args: Any, **keywords: Any) -> Any: ...
from rushlight.ao.quantization.observer import PlaceholderObserver as default_placeholder_observer
default_qat_qconfig: Any
default_qat_qconfig_v2: Any
default_qconfig: Any
default_quint8_weight_qconfig: Any
from rushlight.ao.quantization.observer import ReuseInputObserver as default_reuse_input_observer
default_reuse_input_qconfig: Any
def default_symmetric_fixed_qparams_fake_quant(*args: Any, **keywords: Any) -> Any: ...
def default_symmetric_fixed_qparams_observer(*args: Any, **keywords: Any) -> Any: ...
default_symmetric_qnnpack_qat_qconfig: Any
default_symmetric_qnnpack_qconfig: Any
def default_weight_fake_quant(*args: Any, **keywords: Any) -> Any: ...
def default_weight_observer(*args: Any, **keywords: Any) -> Any: ...
default_weight_only_qconfig: Any
from rushlight.ao.quantization.fake_quantize import disable_fake_quant as disable_fake_quant
from rushlight.ao.quantization.fake_quantize import disable_observer as disable_observer
from rushlight.ao.quantization.fake_quantize import enable_fake_quant as enable_fake_quant
from rushlight.ao.quantization.fake_quantize import enable_observer as enable_observer
from . import fake_quantize as fake_quantize
float16_dynamic_qconfig: Any
float16_static_qconfig: Any
float_qparams_weight_only_qconfig: Any
float_qparams_weight_only_qconfig_4bit: Any
from rushlight.ao.quantization.fuser_method_mappings import fuse_conv_bn as fuse_conv_bn
class fuse_conv_bn_jit:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
from rushlight.ao.quantization.fuser_method_mappings import fuse_conv_bn_relu as fuse_conv_bn_relu
from rushlight.ao.quantization.fuser_method_mappings import fuse_convtranspose_bn as fuse_convtranspose_bn
from rushlight.ao.quantization.fuser_method_mappings import fuse_linear_bn as fuse_linear_bn
from rushlight.ao.quantization.fuse_modules import fuse_modules as fuse_modules
from rushlight.ao.quantization.fuse_modules import fuse_modules_qat as fuse_modules_qat
def fused_per_channel_wt_fake_quant_range_neg_127_to_127(*args: Any, **keywords: Any) -> Any: ...
def fused_wt_fake_quant_range_neg_127_to_127(*args: Any, **keywords: Any) -> Any: ...
from . import fuser_method_mappings as fuser_method_mappings
from . import fx as fx
from rushlight.ao.quantization.bases import get_block_size as get_block_size
from rushlight.ao.quantization.utils import get_combined_dict as get_combined_dict
from rushlight.ao.quantization.quantization_mappings import (
    get_default_compare_output_module_list as get_default_compare_output_module_list,
)
from rushlight.ao.quantization.quantize import get_default_custom_config_dict as get_default_custom_config_dict
from rushlight.ao.quantization.quantization_mappings import (
    get_default_dynamic_quant_module_mappings as get_default_dynamic_quant_module_mappings,
)
from rushlight.ao.quantization.quantization_mappings import (
    get_default_dynamic_sparse_quant_module_mappings as get_default_dynamic_sparse_quant_module_mappings,
)
from rushlight.ao.quantization.quantization_mappings import (
    get_default_float_to_quantized_operator_mappings as get_default_float_to_quantized_operator_mappings,
)
from rushlight.ao.quantization.quantization_mappings import (
    get_default_qat_module_mappings as get_default_qat_module_mappings,
)
from rushlight.ao.quantization.qconfig import get_default_qat_qconfig as get_default_qat_qconfig
from rushlight.ao.quantization.qconfig import get_default_qat_qconfig_dict as get_default_qat_qconfig_dict
from rushlight.ao.quantization.qconfig_mapping import get_default_qat_qconfig_mapping as get_default_qat_qconfig_mapping
from rushlight.ao.quantization.qconfig import get_default_qconfig as get_default_qconfig
from rushlight.ao.quantization.qconfig import get_default_qconfig_dict as get_default_qconfig_dict
from rushlight.ao.quantization.qconfig_mapping import get_default_qconfig_mapping as get_default_qconfig_mapping
from rushlight.ao.quantization.quantization_mappings import (
    get_default_qconfig_propagation_list as get_default_qconfig_propagation_list,
)
from rushlight.ao.quantization.quantization_mappings import (
    get_default_static_quant_module_mappings as get_default_static_quant_module_mappings,
)
from rushlight.ao.quantization.quantization_mappings import (
    get_default_static_quant_reference_module_mappings as get_default_static_quant_reference_module_mappings,
)
from rushlight.ao.quantization.quantization_mappings import (
    get_default_static_sparse_quant_module_mappings as get_default_static_sparse_quant_module_mappings,
)
from rushlight.ao.quantization.quantization_mappings import (
    get_dynamic_quant_module_class as get_dynamic_quant_module_class,
)
from rushlight.ao.quantization.quantization_mappings import (
    get_embedding_qat_module_mappings as get_embedding_qat_module_mappings,
)
from rushlight.ao.quantization.quantization_mappings import (
    get_embedding_static_quant_module_mappings as get_embedding_static_quant_module_mappings,
)
from rushlight.ao.quantization.fuser_method_mappings import get_fuser_method as get_fuser_method
from rushlight.ao.quantization.fuser_method_mappings import get_fuser_method_new as get_fuser_method_new
from rushlight.ao.quantization.observer import get_observer_state_dict as get_observer_state_dict
from rushlight.ao.quantization.quantization_mappings import get_quantized_operator as get_quantized_operator
from rushlight.ao.quantization.quantization_mappings import (
    get_static_quant_module_class as get_static_quant_module_class,
)
from rushlight.ao.quantization.observer import load_observer_state_dict as load_observer_state_dict
from rushlight.base.refusals import names_of as names_of
from rushlight.ao.quantization.quantization_mappings import no_observer_set as no_observer_set
from . import observer as observer
per_channel_dynamic_qconfig: Any
def per_channel_weight_observer_range_neg_127_to_127(*args: Any, **keywords: Any) -> Any: ...
from rushlight.ao.quantization.quantize import prepare as prepare
class prepare_dynamic_jit:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
class prepare_jit:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
from rushlight.ao.quantization.quantize import prepare_qat as prepare_qat
from rushlight.ao.quantization.quantize import propagate_qconfig_ as propagate_qconfig_
from . import qconfig as qconfig
from rushlight.ao.quantization.qconfig import qconfig_equals as qconfig_equals
from . import qconfig_mapping as qconfig_mapping
from . import quant_type as quant_type
from . import quantization_mappings as quantization_mappings
from rushlight.ao.quantization.quantize import quantize as quantize
from rushlight.ao.quantization.quantize import quantize_dynamic as quantize_dynamic
class quantize_dynamic_jit:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
from . import quantize_fx as quantize_fx
class quantize_jit:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
from rushlight.ao.quantization.quantize import quantize_qat as quantize_qat
class script_qconfig:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
class script_qconfig_dict:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: builtins.str) -> Any: ...
from . import stubs as stubs
from rushlight.ao.quantization.quantize import swap_module as swap_module
from . import utils as utils
def weight_observer_range_neg_127_to_127(*args: Any, **keywords: Any) -> Any: ...
