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
from rushlight.lazy.engine import Engine as Engine
from rushlight.lazy.closures import add_step_closure as add_step_closure
from . import cache as cache
from . import closures as closures
from . import computation as computation
from . import debug as debug
from . import device as device
from . import engine as engine
from . import engines as engines
from rushlight.lazy.step import get_tensor_id as get_tensor_id
from . import graph as graph
from rushlight.lazy.step import mark_step as mark_step
from . import metrics as metrics
from . import native as native
from rushlight.lazy.engines import register_engine as register_engine
from rushlight.lazy.closures import run_step_closures as run_step_closures
from rushlight.lazy.step import save as save
from . import settings as settings
from . import step as step
from rushlight.lazy.step import sync_multi as sync_multi
from . import tape as tape
from rushlight.lazy.step import to_cpu as to_cpu
from rushlight.lazy.step import wait_device_ops as wait_device_ops
