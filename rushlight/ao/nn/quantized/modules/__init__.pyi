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
from rushlight.ao.nn.quantized.modules.batchnorm import BatchNorm2d as BatchNorm2d
from rushlight.ao.nn.quantized.modules.batchnorm import BatchNorm3d as BatchNorm3d
from rushlight.ao.nn.quantized.modules.conv import Conv1d as Conv1d
from rushlight.ao.nn.quantized.modules.conv import Conv2d as Conv2d
from rushlight.ao.nn.quantized.modules.conv import Conv3d as Conv3d
from rushlight.ao.nn.quantized.modules.conv import ConvTranspose1d as ConvTranspose1d
from rushlight.ao.nn.quantized.modules.conv import ConvTranspose2d as ConvTranspose2d
from rushlight.ao.nn.quantized.modules.conv import ConvTranspose3d as ConvTranspose3d
from rushlight.ao.nn.quantized.modules.borders import DeQuantize as DeQuantize
from rushlight.ao.nn.quantized.modules.dropout import Dropout as Dropout
from rushlight.ao.nn.quantized.modules.activation import ELU as ELU
from rushlight.ao.nn.quantized.modules.embedding_ops import Embedding as Embedding
from rushlight.ao.nn.quantized.modules.embedding_ops import EmbeddingBag as EmbeddingBag
from rushlight.ao.nn.quantized.modules.functional_modules import FXFloatFunctional as FXFloatFunctional
from rushlight.ao.nn.quantized.modules.functional_modules import FloatFunctional as FloatFunctional
from rushlight.ao.nn.quantized.modules.normalization import GroupNorm as GroupNorm
from rushlight.ao.nn.quantized.modules.activation import Hardswish as Hardswish
from rushlight.ao.nn.quantized.modules.normalization import InstanceNorm1d as InstanceNorm1d
from rushlight.ao.nn.quantized.modules.normalization import InstanceNorm2d as InstanceNorm2d
from rushlight.ao.nn.quantized.modules.normalization import InstanceNorm3d as InstanceNorm3d
LAYERS: Any
from rushlight.ao.nn.quantized.modules.rnn import LSTM as LSTM
from rushlight.ao.nn.quantized.modules.normalization import LayerNorm as LayerNorm
from rushlight.ao.nn.quantized.modules.activation import LeakyReLU as LeakyReLU
from rushlight.ao.nn.quantized.modules.linear import Linear as Linear
from rushlight.ao.nn.quantized.modules.activation import MultiheadAttention as MultiheadAttention
from rushlight.ao.nn.quantized.modules.activation import PReLU as PReLU
from rushlight.ao.nn.quantized.modules.functional_modules import QFunctional as QFunctional
from rushlight.ao.nn.quantized.modules.borders import Quantize as Quantize
from rushlight.ao.nn.quantized.modules.activation import ReLU6 as ReLU6
from rushlight.ao.nn.quantized.modules.activation import Sigmoid as Sigmoid
from rushlight.ao.nn.quantized.modules.activation import Softmax as Softmax
from . import activation as activation
from . import batchnorm as batchnorm
from . import borders as borders
from . import conv as conv
from . import dropout as dropout
from . import embedding_ops as embedding_ops
from . import functional_modules as functional_modules
from . import linear as linear
from . import normalization as normalization
from . import rnn as rnn
from . import utils as utils
