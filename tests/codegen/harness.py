"""Calls a nest's kernel on NumPy arrays, through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from rushlight import codegen
from rushlight.loops.nest import Nest

SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
NUMPY = {"b1": np.bool_, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "i8": np.int8,
         "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16, "bf16": np.uint16, "f32": np.float32,
         "f64": np.float64, "f8e4m3fn": np.uint8, "f8e5m2": np.uint8, "c64": np.complex64,
         "c128": np.complex128}


def run_nest(nest: Nest, arrays: Sequence[np.ndarray], params: Sequence[int], begin: int, end: int) -> None:
    """Run a kernel over [begin, end); arrays in operand order, outputs written in place."""
    kernel = codegen.compile(nest)
    assert len(arrays) == len(nest.operands) and len(params) == len(nest.params)
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    numbers = (ctypes.c_int64 * max(1, len(params)))(*params)
    SIGNATURE(kernel.address)(pointers, numbers, begin, end)


def run_pointwise(nest: Nest, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
    """Run a pointwise nest on 2-D arrays; inputs broadcast to the outputs' shape."""
    shape = outputs[0].shape
    arrays = [*[np.broadcast_to(a, shape) for a in inputs], *outputs]
    inner, outer = [a.strides[1] for a in arrays], [a.strides[0] for a in arrays]
    run_nest(nest, arrays, [shape[1], *inner, *outer], 0, shape[0])
