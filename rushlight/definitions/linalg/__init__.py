"""Linear algebra: factorisations, solvers, eigenvalues, norms and products, over LAPACK.

Ops are registered under PyTorch's operator names (`linalg_svd`) and published in `rushlight.linalg` without the prefix.
"""
