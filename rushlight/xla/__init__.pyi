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
from . import amp as amp
from . import backend as backend
from . import client as client
from rushlight.xla.stepping import compile as compile
from . import core as core
from . import debug as debug
from rushlight import device as device
from rushlight.xla.stepping import device_count as device_count
from rushlight.xla.stepping import devices as devices
from . import distributed as distributed
from . import engine as engine
from rushlight.xla.stored import initialize_cache as initialize_cache
from rushlight.xla.unit import is_available as is_available
from rushlight.xla.stepping import launch as launch
from rushlight.xla.stepping import manual_seed as manual_seed
from rushlight.xla.stepping import real_devices as real_devices
from . import runtime as runtime
from . import stablehlo as stablehlo
from rushlight.xla.stepping import step as step
from . import stored as stored
from rushlight.xla.stepping import sync as sync
