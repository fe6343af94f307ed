"""`.pt2` archives as such: their records, and packages of compiled programs (`_package`)."""

from __future__ import annotations

from .records import PT2ArchiveReader, PT2ArchiveWriter, is_pt2_package

__all__ = ["PT2ArchiveReader", "PT2ArchiveWriter", "is_pt2_package"]
