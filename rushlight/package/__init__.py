"""`torch.package`: a model together with the code it needs, in one archive.

Writing (`PackageExporter`) collects modules by rules: interned ones are copied into the archive, external ones stay
imports, mocked ones are replaced by objects that refuse, denied ones are errors. Reading (`PackageImporter`) runs the
archive's code in modules of its own, apart from `sys.modules`. Reading an archive runs what it holds:
only open what you trust.
"""

from ..base import late
from .importer import Importer, ObjMismatchError, ObjNotFoundError, OrderedImporter, sys_importer
from .patterns import GlobGroup
from .reader import PackageImporter, is_from_package
from .structure import Directory
from .writer import EmptyMatchError, PackageExporter, PackagingError, PackagingErrorReason

__all__ = [
    "Directory", "EmptyMatchError", "GlobGroup", "Importer", "ObjMismatchError", "ObjNotFoundError", "OrderedImporter",
    "PackageExporter", "PackageImporter", "PackagingError", "PackagingErrorReason", "is_from_package", "sys_importer",
]
__getattr__, __dir__ = late.names(
    globals(), {}, ("analyze", "file_structure_representation", "glob_group", "package_exporter", "package_importer")
)
