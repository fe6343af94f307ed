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
from rushlight.aot.compile_graph import AotConfig as AotConfig
from rushlight.aot.capture import Captured as Captured
from rushlight.aot.metadata import GraphMeta as GraphMeta
from rushlight.aot.refused import NotCaptured as NotCaptured
from rushlight.aot.partition import Partition as Partition
from rushlight.aot.specialized import Specialized as Specialized
from rushlight.aot.capture import capture as capture
from rushlight.aot.compile_graph import compile_captured as compile_captured
from . import compile_graph as compile_graph
from . import compiled_autograd as compiled_autograd
from rushlight.aot.partition import default_partition as default_partition
from . import functional_graph as functional_graph
from . import graphs as graphs
from . import max_flow as max_flow
from . import metadata as metadata
from . import min_cut as min_cut
from . import module_state as module_state
from . import partition as partition
from . import refused as refused
from . import repro as repro
from . import runtime as runtime
from . import schema_arguments as schema_arguments
from . import settings as settings
from . import specialized as specialized
from . import thread_casts as thread_casts
