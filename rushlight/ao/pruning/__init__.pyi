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
from rushlight.ao.pruning.scheduler.base_scheduler import BaseScheduler as BaseScheduler
from rushlight.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier as BaseSparsifier
from rushlight.ao.pruning.scheduler.cubic_scheduler import CubicSL as CubicSL
from rushlight.ao.pruning.sparsifier.utils import FakeSparsity as FakeSparsity
from rushlight.ao.pruning.scheduler.lambda_scheduler import LambdaSL as LambdaSL
from rushlight.ao.pruning.sparsifier.nearly_diagonal_sparsifier import (
    NearlyDiagonalSparsifier as NearlyDiagonalSparsifier,
)
from rushlight.ao.pruning.sparsifier.weight_norm_sparsifier import WeightNormSparsifier as WeightNormSparsifier
from . import channel_flow as channel_flow
from rushlight.ao.pruning.sparsifier.utils import fqn_to_module as fqn_to_module
from rushlight.ao.pruning.sparsifier.utils import get_arg_info_from_tensor_fqn as get_arg_info_from_tensor_fqn
from rushlight.ao.pruning._mappings import get_dynamic_sparse_quantized_mapping as get_dynamic_sparse_quantized_mapping
from rushlight.ao.pruning._mappings import get_static_sparse_quantized_mapping as get_static_sparse_quantized_mapping
from rushlight.ao.pruning.sparsifier.utils import module_to_fqn as module_to_fqn
from . import scheduler as scheduler
from rushlight.ao.pruning.shrinking import shrink as shrink
from . import shrinking as shrinking
from . import sparsifier as sparsifier
