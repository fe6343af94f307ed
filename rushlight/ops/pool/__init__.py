"""Pools over images, by family. Importing this package registers them all."""

from rushlight.ops.pool import average, largest, unpool

__all__ = ["average", "largest", "unpool"]
