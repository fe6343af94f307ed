"""Register tiles of matrix products: shapes on each target, strips, and the functions that kernels call."""
