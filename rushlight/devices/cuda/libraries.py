"""Library functions of the CUDA device: matrix products by cuBLAS, where NVIDIA's wheel (or a toolkit) is installed.

Enters: tensors on the device. Leaves: results in the tensors given. Without the library the generated kernel serves: slower, and right.
A handle of the library belongs to one unit and one thread, and is told the current stream before each product.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import _C
from ...base import settings

NAMES = ("libcublas.so.13", "libcublas.so.12")
HALF = {_C.float16: 2, _C.bfloat16: 14}
TYPES = {_C.float32: 0, _C.float64: 1, _C.complex64: 4, _C.complex128: 5, **HALF}        # cudaDataType
COMPUTE = {_C.float64: 70, _C.complex128: 70}
SINGLE, TF32 = 68, 77                                                                     # cublasComputeType
WORKSPACE = 32 << 20


def function(op: str) -> Callable | None:
    """The device's own function for an op; None where there is none."""
    return product if op in ("matmul", "mm", "bmm", "mv", "dot") and library() is not None else None


def folders() -> list[Path]:
    """Where NVIDIA's wheels keep their libraries."""
    found = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in found.submodule_search_locations] if found is not None and found.submodule_search_locations else []
    return [folder for root in roots for folder in sorted(root.glob("*/lib"), reverse=True)]


@functools.cache
def library() -> Any:
    """cuBLAS, opened; None where it is not installed."""
    for name in NAMES:
        for path in [*(str(folder / name) for folder in folders() if (folder / name).exists()), name]:
            try:
                light = Path(path).with_name(name.replace("cublas", "cublasLt"))
                if light.exists():      # which cuBLAS looks for by its plain name
                    ctypes.CDLL(str(light), ctypes.RTLD_GLOBAL)
                return ctypes.CDLL(path)
            except OSError:
                continue
    return None


class _Handles(threading.local):
    """A thread's handles, by unit, with the stream each was told last."""

    def __init__(self) -> None:
        self.by_unit: dict[int, list[Any]] = {}


_handles = _Handles()
_workspaces: dict[tuple[int, int], Any] = {}


def check(code: int, what: str) -> None:
    if code:
        raise RuntimeError(f"matmul: cuBLAS {what} failed with status {code}")


def handle(device: Any) -> Any:
    """The handle for the current stream of a unit."""
    stream = _C.stream_handle(device)
    known = _handles.by_unit.get(device.index)
    if known is None:
        _C.cuda_enter(device.index)
        made = ctypes.c_void_p()
        check(library().cublasCreate_v2(ctypes.byref(made)), "create")
        known = _handles.by_unit[device.index] = [made, -1]
    if known[1] != stream:
        check(library().cublasSetStream_v2(known[0], ctypes.c_void_p(stream)), "set_stream")
        space = _workspaces.get((device.index, stream))
        if space is None:
            space = _workspaces[device.index, stream] = _C.empty((WORKSPACE,), None, _C.uint8, device)
        check(library().cublasSetWorkspace_v2(known[0], ctypes.c_void_p(space.data_ptr()), ctypes.c_size_t(WORKSPACE)), "set_workspace")
        known[1] = stream
    return known[0]


def read_as(t: Any) -> tuple[Any, int, int]:
    """(tensor, distance of lines, whether lines are columns) of matrices that the library can read; others are copied."""
    (rows, cols), (down, along) = t.shape[-2:], t.stride()[-2:]
    if along == 1 and (down >= max(1, cols) or rows == 1):
        return t, max(down, cols, 1), 0
    if down == 1 and (along >= max(1, rows) or cols == 1):
        return t, max(along, rows, 1), 1
    return t.contiguous(), max(1, cols), 0


@functools.cache
def numbers(dtype: Any, alpha: float, beta: float) -> tuple[Any, Any]:
    """The factors as the library reads them."""
    if dtype.is_complex:
        form, parts = ("2d" if dtype is _C.complex128 else "2f"), ((alpha, 0.0), (beta, 0.0))
    else:
        form, parts = ("d" if dtype is _C.float64 else "f"), ((alpha,), (beta,))
    return tuple(ctypes.create_string_buffer(struct.pack(form, *part)) for part in parts)


def batch_stride(t: Any, batch: tuple[int, ...]) -> int | None:
    """Elements from one matrix to the next; None where they are not one step apart."""
    sizes, strides = t.shape[:-2], t.stride()[:-2]
    if all(n == 1 for n in sizes):
        return 0
    if tuple(sizes) != batch:
        return None
    step = None
    for n, s in zip(reversed(sizes), reversed(strides), strict=True):
        if n == 1:
            continue
        if step is None:
            step, run = s, s * n
        elif s != run:
            return None
        else:
            run = s * n
    return step


def product(out: Any, a: Any, b: Any) -> None:
    """out = a @ b, for vectors, matrices and batches of them; `out` is dense."""
    if a.dtype not in TYPES:
        raise RuntimeError(f"matmul: expected matrices of floats on a CUDA device, got {a.dtype}. Convert them with .to().")
    if not out.numel():
        return
    a = a.unsqueeze(0) if a.ndim == 1 else a
    b = b.unsqueeze(1) if b.ndim == 1 else b
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if not k:
        out.zero_()
        return
    batch = tuple(out.shape[: max(a.ndim, b.ndim) - 2])
    if b.ndim == 2 and a.ndim > 2 and a.is_contiguous():    # one tall matrix
        a, m, batch = a.reshape(-1, k), a.numel() // k, ()
    (a, a_line, a_turned), (b, b_line, b_turned) = read_as(a), read_as(b)
    a_step, b_step = batch_stride(a, batch), batch_stride(b, batch)
    if a_step is None or b_step is None:
        a, b = (t.expand((*batch, *t.shape[-2:])).contiguous() for t in (a, b))
        (a, a_line, a_turned), (b, b_line, b_turned) = read_as(a), read_as(b)
        a_step, b_step = batch_stride(a, batch), batch_stride(b, batch)
    count = 1
    for s in batch:
        count *= s
    alpha, beta = numbers(a.dtype, 1.0, 0.0)
    kind, compute = TYPES[a.dtype], COMPUTE.get(a.dtype, TF32 if a.dtype is _C.float32 and allows_tf32() else SINGLE)
    p, i, s = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
    # The library counts down columns: it is asked for the transposed product.
    check(library().cublasGemmStridedBatchedEx(
        handle(out.device), i(b_turned), i(a_turned), i(n), i(m), i(k), alpha, p(b.data_ptr()), i(kind), i(b_line), s(b_step),
        p(a.data_ptr()), i(kind), i(a_line), s(a_step), beta, p(out.data_ptr()), i(kind), i(n), s(m * n), i(count), i(compute), i(-1)), "product")  # fmt: skip


def allows_tf32() -> bool:
    """Whether a program allowed float32 products in TF32."""
    return settings.get_float32_matmul_precision() != "highest"
