"""The BLAS library that products call: found, and loaded when the first of them is planned.

Enters: nothing. Leaves: the addresses of the kernels that call it, by dtype code. Refuses: to go on without one.
"""

from __future__ import annotations

import importlib.util
import os

from ... import _C

_kernels: dict[str, int] = {}


def kernels() -> dict[str, int]:
    """Kernel addresses by dtype code; loads the library once."""
    if not _kernels:
        spec = importlib.util.find_spec("scipy_openblas64")
        if spec is None or not spec.submodule_search_locations:
            raise RuntimeError("matmul: no BLAS library found. Install it with: pip install scipy-openblas64")
        folder = os.path.join(spec.submodule_search_locations[0], "lib")
        library = next(
            (f for f in sorted(os.listdir(folder)) if "openblas" in f and f.endswith((".so", ".dylib"))), None
        )
        if library is None:
            raise RuntimeError("matmul: the scipy-openblas64 package holds no library in its lib folder. Reinstall it.")
        _kernels.update(_C.load_blas(os.path.join(folder, library), "scipy_", "64_"))
    return _kernels


def code_of(address: int) -> str | None:
    """The dtype code whose kernel lies at an address; None for other addresses."""
    return next((code for code, known in _kernels.items() if known == address), None)
