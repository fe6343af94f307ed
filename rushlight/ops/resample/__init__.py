"""Images sampled at other places: sizes, and grids of coordinates."""

from rushlight.ops.resample import interpolate, tables

__all__ = ["interpolate", "tables"]
