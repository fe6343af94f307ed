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
from rushlight.op.composite import Composite as Composite
from rushlight.op.extern import Extern as Extern
from rushlight.loops.lowered import Fold as Fold
from rushlight.op.fused import Fused as Fused
from rushlight.op.view import Geometry as Geometry
from rushlight.op.library import Library as Library
from rushlight.op.loops import Loops as Loops
from rushlight.op.definition import Meta as Meta
from rushlight.op.results import NamedResult as NamedResult
from rushlight.op.definition import OpDefinition as OpDefinition
from rushlight.op.extern import OwnPlans as OwnPlans
from rushlight.op.pointwise import Pointwise as Pointwise
from rushlight.op.pointwise import Promote as Promote
from rushlight.op.reduction import Reduction as Reduction
from rushlight.op.extern import Spec as Spec
from rushlight.op.view import View as View
from . import batch_overloads as batch_overloads
from . import batching as batching
from . import bidiagonal as bidiagonal
from . import blas as blas
from . import butterflies as butterflies
from . import composite as composite
from . import convolve as convolve
from . import convolve_lanes as convolve_lanes
from . import convolve_pixels as convolve_pixels
from . import convolve_points as convolve_points
from . import convolve_tiles as convolve_tiles
from . import convolve_walk as convolve_walk
from . import convolve_windows as convolve_windows
from . import definition as definition
definitions: Any
from . import extents as extents
from . import extern as extern
from . import factor_panels as factor_panels
from . import factory as factory
from . import few_first as few_first
from rushlight.op.registry import find_op as find_op
from . import fourier as fourier
from . import fourier_tables as fourier_tables
from . import fused as fused
from . import gemm as gemm
from . import gemm_complex as gemm_complex
from . import gemm_half as gemm_half
from . import gemm_padded as gemm_padded
from . import gemm_spans as gemm_spans
from . import gemm_tiles as gemm_tiles
from . import groups as groups
from . import indexed as indexed
from . import lapack as lapack
from . import levels as levels
from . import library as library
from rushlight.op.registry import load_all as load_all
from . import loops as loops
from . import memory as memory
from . import multi_tensor as multi_tensor
ops: Any
from . import out as out
from . import pack as pack
from . import pointwise as pointwise
from rushlight.op.registry import publish as publish
from rushlight.op.registry import published as published
from . import radix as radix
from . import radix_blocks as radix_blocks
from . import radix_device as radix_device
from . import random_level as random_level
from . import rank_select as rank_select
from . import ranks as ranks
from . import real_fourier as real_fourier
from . import recurrence as recurrence
from . import reduction as reduction
from . import reflections as reflections
from . import registry as registry
def result_type(name: builtins.str, fields: builtins.tuple[builtins.str, ...]) -> Any: ...
from . import results as results
from . import roles as roles
from . import scan as scan
from . import schema as schema
from . import signature as signature
from . import small_factors as small_factors
from . import small_transforms as small_transforms
from rushlight.op.registry import spelled as spelled
from . import triangles as triangles
from . import true_positions as true_positions
from . import view as view
from rushlight.op.view import wrap_dim as wrap_dim
from rushlight.op.view import wrap_dims as wrap_dims
