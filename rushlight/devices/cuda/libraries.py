"""Libraries of the CUDA device: cuBLAS for matrix products, where NVIDIA's wheel (or a toolkit) is installed.

Enters: the type of a product's elements. Leaves: a kernel of the core's (csrc/cuda/blas.cpp) that plans run like any
other, or None: then the generated kernel serves, slower and right.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from ... import _C
from ...loops import expr
from ...loops.nest import pointwise_nest
from . import kernels
from .driver import Driver

NAMES = ("libcublas.so.13", "libcublas.so.12")
TYPES = {"f32": 0, "f64": 1, "f16": 2, "c64": 4, "c128": 5, "bf16": 14}     # as the library numbers them
COMPLEX = ("c64", "c128")
# by a type, what the core asks for the kernel of products with one row; None where there is none
OneRow = Callable[[str], Callable[[], int] | None]
PRODUCT = 3                                                                 # the form of such a kernel


def folders() -> list[Path]:
    """Where NVIDIA's wheels keep their libraries."""
    found = importlib.util.find_spec("nvidia")
    roots = (
        [Path(p) for p in found.submodule_search_locations]
        if found is not None and found.submodule_search_locations
        else []
    )
    return [folder for root in roots for folder in sorted(root.glob("*/lib"), reverse=True)]


def places(names: Sequence[str]) -> list[str]:
    """Where a library may be: in NVIDIA's wheels, then where the system looks."""
    return [
        path
        for name in names
        for path in [*(str(folder / name) for folder in folders() if (folder / name).exists()), name]
    ]


def open_ahead() -> None:
    """cuBLAS into the process, in a thread of its own: half a gigabyte, which the system reads while a program is
    captured. cuDNN, which fewer programs need, follows when an op asks for it."""
    for path in places(NAMES):
        with contextlib.suppress(OSError):
            for name in (light_of(path), Path(path)):
                ctypes.CDLL(str(name), ctypes.RTLD_GLOBAL)      # here other threads go on, in the core they do not
            has_blas()
            return


def light_of(path: str) -> Path:
    """cuBLASLt beside a cuBLAS."""
    return Path(path).with_name(Path(path).name.replace("cublas", "cublasLt"))


_opening = threading.Lock()


def has_blas() -> bool:
    """Whether cuBLAS is installed; it is opened then."""
    with _opening:
        return _has_blas()


@functools.cache
def _has_blas() -> bool:
    for path in places(NAMES):
        try:
            light = light_of(path)
            if light.exists():      # which cuBLAS looks for by its plain name
                ctypes.CDLL(str(light), ctypes.RTLD_GLOBAL)
            _C.cuda_blas(path)
            with contextlib.suppress(OSError):      # products with a bias are two kernels then
                _C.cuda_blas_light(str(light))
            return True
        except OSError:
            continue
    return False


@functools.cache
def product(code: str, for_one_row: OneRow) -> int | None:
    """The kernel of products of a type; None where the library has none."""
    if code not in TYPES or not has_blas():
        return None
    return _C.cuda_kernel(for_one_row(code), PRODUCT, TYPES[code], (), -1, (), 1, False, 0)


@functools.cache
def product_with_bias(code: str, driver: Driver, for_one_row: OneRow) -> int | None:
    """The kernel of products of a real type with a bias added to each row."""
    if product(code, for_one_row) is None or code in COMPLEX:
        return None
    nest = pointwise_nest("copy", [code], [code], [expr.arg(0, code)])
    copy = kernels.load(nest, driver)[0]
    return _C.cuda_kernel(for_one_row(code), PRODUCT, TYPES[code], (), -1, (), 1, False, 0, copy)
