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
from rushlight.ao.nn.quantized.reference.modules.conv import Conv1d as Conv1d
from rushlight.ao.nn.quantized.reference.modules.conv import Conv2d as Conv2d
from rushlight.ao.nn.quantized.reference.modules.conv import Conv3d as Conv3d
from rushlight.ao.nn.quantized.reference.modules.conv import ConvTranspose1d as ConvTranspose1d
from rushlight.ao.nn.quantized.reference.modules.conv import ConvTranspose2d as ConvTranspose2d
from rushlight.ao.nn.quantized.reference.modules.conv import ConvTranspose3d as ConvTranspose3d
from rushlight.ao.nn.quantized.reference.modules.sparse import Embedding as Embedding
from rushlight.ao.nn.quantized.reference.modules.sparse import EmbeddingBag as EmbeddingBag
from rushlight.ao.nn.quantized.reference.modules.rnn import GRU as GRU
from rushlight.ao.nn.quantized.reference.modules.rnn import GRUCell as GRUCell
LAYERS: Any
from rushlight.ao.nn.quantized.reference.modules.rnn import LSTM as LSTM
from rushlight.ao.nn.quantized.reference.modules.rnn import LSTMCell as LSTMCell
from rushlight.ao.nn.quantized.reference.modules.linear import Linear as Linear
from rushlight.ao.nn.quantized.reference.modules.rnn import RNNCell as RNNCell
from . import conv as conv
from . import linear as linear
from . import rnn as rnn
from . import sparse as sparse
from . import utils as utils
