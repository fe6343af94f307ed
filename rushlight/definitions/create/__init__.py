"""Tensors that are made or copied: from sizes and numbers, grids, triangles, copies and casts."""
