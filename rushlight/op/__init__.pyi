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
from rushlight.op.definition import FreedMeta as FreedMeta
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
from . import composite as composite
from . import definition as definition
definitions: Any
from . import extents as extents
from . import extern as extern
from . import factory as factory
from rushlight.op.registry import find_op as find_op
from . import fused as fused
from . import help as help
from . import indexed as indexed
from . import layout as layout
from . import library as library
from rushlight.op.registry import load_all as load_all
from . import loops as loops
from . import memory as memory
from . import multi_tensor as multi_tensor
from . import numbers as numbers
ops: Any
from . import pack as pack
from . import pointwise as pointwise
from rushlight.op.registry import publish as publish
from rushlight.op.registry import published as published
from . import reduction as reduction
from . import registry as registry
def result_type(name: builtins.str, fields: builtins.tuple[builtins.str, ...]) -> Any: ...
from . import results as results
from . import roles as roles
from . import scan as scan
from . import schema as schema
from . import signature as signature
from rushlight.op.registry import spelled as spelled
from . import step as step
from . import stored as stored
from . import view as view
from rushlight.op.view import wrap_dim as wrap_dim
from rushlight.op.view import wrap_dims as wrap_dims
