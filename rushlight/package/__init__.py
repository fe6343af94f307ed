"""`torch.package`: archives of code and data; reading one executes what it holds, so there is no support. Names only."""

from __future__ import annotations

from ..absent import absent_names

globals().update(absent_names("torch.package", "archives of code are not supported", "PackageExporter PackageImporter Importer OrderedImporter sys_importer"))


class PackagingError(Exception):
    """A package could not be written."""
