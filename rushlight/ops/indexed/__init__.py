"""The indexed definitions, by family. Importing this package registers them all."""

from rushlight.ops.indexed import gather, join, masks, rearrange, reduce_into, scatter

__all__ = ["gather", "join", "masks", "rearrange", "reduce_into", "scatter"]
