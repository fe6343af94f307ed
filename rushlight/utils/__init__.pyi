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
from rushlight.utils.throughput_benchmark import ThroughputBenchmark as ThroughputBenchmark
from . import backend_registration as backend_registration
from . import benchmark as benchmark
from . import bundled_inputs as bundled_inputs
from . import checkpoint as checkpoint
from . import checkpoint_policy as checkpoint_policy
cmake_prefix_path: builtins.str
from . import collect_env as collect_env
from . import cpp_backtrace as cpp_backtrace
from . import cpp_extension as cpp_extension
from . import data as data
from . import deterministic as deterministic
from . import dlpack as dlpack
from rushlight.utils.drawing import draw as draw
from . import drawing as drawing
from . import flop_counter as flop_counter
from rushlight.utils.backend_registration import (
    generate_methods_for_privateuse1_backend as generate_methods_for_privateuse1_backend,
)
from rushlight.utils.cpp_backtrace import get_cpp_backtrace as get_cpp_backtrace
from . import hooks as hooks
from . import mkldnn as mkldnn
from . import mobile_optimizer as mobile_optimizer
from . import model_zoo as model_zoo
from . import module_tracker as module_tracker
from . import progress as progress
from rushlight.utils.backend_registration import rename_privateuse1_backend as rename_privateuse1_backend
from . import serialization as serialization
from rushlight.utils.naming import set_module as set_module
from rushlight.utils.swapping import swap_tensors as swap_tensors
from . import swapping as swapping
from . import tensorboard as tensorboard
from . import throughput_benchmark as throughput_benchmark
from . import viz as viz
from . import weak as weak
