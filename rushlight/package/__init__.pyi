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
from rushlight.package.structure import Directory as Directory
from rushlight.package.writer import EmptyMatchError as EmptyMatchError
from rushlight.package.patterns import GlobGroup as GlobGroup
from rushlight.package.importer import Importer as Importer
from rushlight.package.importer import ObjMismatchError as ObjMismatchError
from rushlight.package.importer import ObjNotFoundError as ObjNotFoundError
from rushlight.package.importer import OrderedImporter as OrderedImporter
from rushlight.package.writer import PackageExporter as PackageExporter
from rushlight.package.reader import PackageImporter as PackageImporter
from rushlight.package.writer import PackagingError as PackagingError
from rushlight.package.writer import PackagingErrorReason as PackagingErrorReason
from . import analyze as analyze
from . import file_structure_representation as file_structure_representation
from . import glob_group as glob_group
from . import importer as importer
from rushlight.package.reader import is_from_package as is_from_package
from . import package_exporter as package_exporter
from . import package_importer as package_importer
from . import patterns as patterns
from . import reader as reader
from . import structure as structure
sys_importer: Any
from . import writer as writer
