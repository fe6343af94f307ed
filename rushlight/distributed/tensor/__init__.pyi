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
from rushlight.distributed.tensor._api import DTensor as DTensor
from rushlight.distributed.tensor._dtensor_spec import DTensorSpec as DTensorSpec
from rushlight.distributed.device_mesh import DeviceMesh as DeviceMesh
from rushlight.distributed.tensor.placement_types import Partial as Partial
from rushlight.distributed.tensor.placement_types import Placement as Placement
from rushlight.distributed.tensor.placement_types import Replicate as Replicate
from rushlight.distributed.tensor.placement_types import Shard as Shard
from rushlight.distributed.tensor._dtensor_spec import TensorMeta as TensorMeta
from rushlight.serialization.allowed import add_safe_globals as add_safe_globals
from rushlight.distributed.tensor._modules import distribute_module as distribute_module
from rushlight.distributed.tensor._api import distribute_tensor as distribute_tensor
def empty(
    *size: Any, requires_grad: builtins.bool = ..., dtype: Any = ..., layout: Any = ..., device_mesh: Any = ...,
    placements: Any = ...,
) -> Any: ...
from . import experimental as experimental
from rushlight.distributed.tensor._factories import full as full
from rushlight.distributed.device_mesh import init_device_mesh as init_device_mesh
def ones(
    *size: Any, requires_grad: builtins.bool = ..., dtype: Any = ..., layout: Any = ..., device_mesh: Any = ...,
    placements: Any = ...,
) -> Any: ...
from . import parallel as parallel
from . import placement_types as placement_types
def rand(
    *size: Any, requires_grad: builtins.bool = ..., dtype: Any = ..., layout: Any = ..., device_mesh: Any = ...,
    placements: Any = ...,
) -> Any: ...
def randn(
    *size: Any, requires_grad: builtins.bool = ..., dtype: Any = ..., layout: Any = ..., device_mesh: Any = ...,
    placements: Any = ...,
) -> Any: ...
def zeros(
    *size: Any, requires_grad: builtins.bool = ..., dtype: Any = ..., layout: Any = ..., device_mesh: Any = ...,
    placements: Any = ...,
) -> Any: ...
