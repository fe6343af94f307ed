"""Linear algebra: factorisations, solvers, eigenvalues, norms and products, over LAPACK.

Ops are registered under PyTorch's operator names (`linalg_svd`) and published in `rushlight.linalg` without the prefix.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
