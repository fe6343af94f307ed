"""The reduction definitions, by family. Importing this package registers them all."""

from rushlight.ops.reduction import extremes, moments, norms, sums, truth

__all__ = ["extremes", "moments", "norms", "sums", "truth"]
