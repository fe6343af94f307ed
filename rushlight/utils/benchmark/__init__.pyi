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
from rushlight.utils.benchmark.callgrind import CallgrindStats as CallgrindStats
from rushlight.utils.benchmark.compare import Colorize as Colorize
from rushlight.utils.benchmark.compare import Compare as Compare
from rushlight.utils.benchmark.callgrind import CopyIfCallgrind as CopyIfCallgrind
from rushlight.utils.benchmark.callgrind import FunctionCount as FunctionCount
from rushlight.utils.benchmark.callgrind import FunctionCounts as FunctionCounts
from rushlight.utils.benchmark.fuzzer import FuzzedParameter as FuzzedParameter
from rushlight.utils.benchmark.fuzzer import FuzzedSparseTensor as FuzzedSparseTensor
from rushlight.utils.benchmark.fuzzer import FuzzedTensor as FuzzedTensor
from rushlight.utils.benchmark.fuzzer import Fuzzer as Fuzzer
from rushlight.utils.benchmark.timing import Language as Language
from rushlight.utils.benchmark.measurement import Measurement as Measurement
from rushlight.utils.benchmark.fuzzer import ParameterAlias as ParameterAlias
from rushlight.utils.benchmark.measurement import TaskSpec as TaskSpec
from rushlight.utils.benchmark.timing import Timer as Timer
from . import examples as examples
from . import op_fuzzers as op_fuzzers
from rushlight.utils.benchmark.measurement import ordered_unique as ordered_unique
from rushlight.utils.benchmark.measurement import select_unit as select_unit
from rushlight.utils.benchmark.measurement import set_torch_threads as set_torch_threads
from rushlight.utils.benchmark.timing import timer as timer
from rushlight.utils.benchmark.measurement import trim_sigfig as trim_sigfig
from rushlight.utils.benchmark.measurement import unit_to_english as unit_to_english
