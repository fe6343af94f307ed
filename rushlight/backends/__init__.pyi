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
from rushlight.backends.flags_of_modules import ContextProp as ContextProp
from rushlight.backends.flags_of_modules import PropModule as PropModule
from . import cpu as cpu
from . import cuda as cuda
from . import cudnn as cudnn
from . import cusparselt as cusparselt
from rushlight.backends.flags_of_modules import disable_global_flags as disable_global_flags
def flags(fp32_precision: Any = ...) -> Any: ...
from rushlight.backends.flags_of_modules import flags_frozen as flags_frozen
from . import flags_of_modules as flags_of_modules
from . import kleidiai as kleidiai
from . import mha as mha
from . import miopen as miopen
from . import mkl as mkl
from . import mkldnn as mkldnn
from . import mps as mps
from . import nnpack as nnpack
from . import openmp as openmp
from . import opt_einsum as opt_einsum
from . import quantized as quantized
def set_flags(_fp32_precision: Any = ...) -> Any: ...
from . import xeon as xeon
from . import xnnpack as xnnpack
