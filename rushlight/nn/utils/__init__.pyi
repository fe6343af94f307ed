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
from . import clip_grad as clip_grad
from rushlight.nn.utils.clip_grad import clip_grad_norm as clip_grad_norm
from rushlight.nn.utils.clip_grad import clip_grad_norm_ as clip_grad_norm_
from rushlight.nn.utils.clip_grad import clip_grad_value_ as clip_grad_value_
from rushlight.nn.utils.clip_grad import clip_grads_with_norm_ as clip_grads_with_norm_
from rushlight.nn.utils.memory_format import convert_conv2d_weight_memory_format as convert_conv2d_weight_memory_format
from rushlight.nn.utils.memory_format import convert_conv3d_weight_memory_format as convert_conv3d_weight_memory_format
from . import convert_parameters as convert_parameters
from rushlight.nn.utils.fusion import fuse_conv_bn_eval as fuse_conv_bn_eval
from rushlight.nn.utils.fusion import fuse_conv_bn_weights as fuse_conv_bn_weights
from rushlight.nn.utils.fusion import fuse_linear_bn_eval as fuse_linear_bn_eval
from rushlight.nn.utils.fusion import fuse_linear_bn_weights as fuse_linear_bn_weights
from . import fusion as fusion
from rushlight.nn.utils.clip_grad import get_total_norm as get_total_norm
from . import init as init
from . import memory_format as memory_format
from rushlight.nn.utils.convert_parameters import parameters_to_vector as parameters_to_vector
from . import parametrizations as parametrizations
from . import parametrize as parametrize
from . import prune as prune
from rushlight.nn.utils.spectral_norm import remove_spectral_norm as remove_spectral_norm
from rushlight.nn.utils.weight_norm import remove_weight_norm as remove_weight_norm
from . import rnn as rnn
from rushlight.nn.utils.init import skip_init as skip_init
from rushlight.nn.utils.spectral_norm import spectral_norm as spectral_norm
from . import stateless as stateless
from rushlight.nn.utils.convert_parameters import vector_to_parameters as vector_to_parameters
from rushlight.nn.utils.weight_norm import weight_norm as weight_norm
