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
from . import compile_fx as compile_fx
from rushlight.inductor.compile_fx import compile_graph as compile_graph
from . import compiled as compiled
from . import described as described
from . import emit as emit
from . import in_place as in_place
from . import join as join
from . import merge as merge
from . import mixed as mixed
from . import packing as packing
from . import parts as parts
from . import products as products
from . import read_graph as read_graph
from . import replay as replay
from . import report as report
from . import rows as rows
from . import settings as settings
from . import sized as sized
from . import stored as stored
from . import tune as tune
from . import units as units
from . import values as values
