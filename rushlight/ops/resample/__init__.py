"""Images sampled at other places: sizes, and grids of coordinates."""

from rushlight.ops.resample import affine, grid, interpolate, tables

__all__ = ["affine", "grid", "interpolate", "tables"]
