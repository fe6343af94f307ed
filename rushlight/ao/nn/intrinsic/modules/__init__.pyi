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
from rushlight.ao.nn.intrinsic.modules.fused import BNReLU2d as BNReLU2d
from rushlight.ao.nn.intrinsic.modules.fused import BNReLU3d as BNReLU3d
from rushlight.ao.nn.intrinsic.modules.fused import ConvAdd2d as ConvAdd2d
from rushlight.ao.nn.intrinsic.modules.fused import ConvAddReLU2d as ConvAddReLU2d
from rushlight.ao.nn.intrinsic.modules.fused import ConvBn1d as ConvBn1d
from rushlight.ao.nn.intrinsic.modules.fused import ConvBn2d as ConvBn2d
from rushlight.ao.nn.intrinsic.modules.fused import ConvBn3d as ConvBn3d
from rushlight.ao.nn.intrinsic.modules.fused import ConvBnReLU1d as ConvBnReLU1d
from rushlight.ao.nn.intrinsic.modules.fused import ConvBnReLU2d as ConvBnReLU2d
from rushlight.ao.nn.intrinsic.modules.fused import ConvBnReLU3d as ConvBnReLU3d
from rushlight.ao.nn.intrinsic.modules.fused import ConvReLU1d as ConvReLU1d
from rushlight.ao.nn.intrinsic.modules.fused import ConvReLU2d as ConvReLU2d
from rushlight.ao.nn.intrinsic.modules.fused import ConvReLU3d as ConvReLU3d
LAYERS: Any
from rushlight.ao.nn.intrinsic.modules.fused import LinearBn1d as LinearBn1d
from rushlight.ao.nn.intrinsic.modules.fused import LinearLeakyReLU as LinearLeakyReLU
from rushlight.ao.nn.intrinsic.modules.fused import LinearReLU as LinearReLU
from rushlight.ao.nn.intrinsic.modules.fused import LinearTanh as LinearTanh
from . import fused as fused
