"""torch-mlir as the judge of our texts: it reads, verifies, lowers and runs them.

Enters: the text of a module, and tensors. Leaves: tensors, or the judge's own complaint as `Refused`. Nothing of it is
needed to write a module.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.utils import _pytree as pytree

BUFFERS = (
    "func.func(refback-generalize-tensor-pad,refback-generalize-tensor-concat),canonicalize,"
    "one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map"
    " copy-before-write=true},"
)
CODE = (
    "refback-mlprogram-bufferize,func.func(tm-tensor-to-loops),func.func(refback-munge-memref-copy),"
    "func.func(convert-linalg-to-loops),lower-affine,convert-scf-to-cf,func.func(refback-expand-ops-for-llvm),"
    "func.func(arith-expand{include-bf16=true}),expand-strided-metadata,lower-affine,func.func(convert-complex-to-standard),"
    "func.func(llvm-request-c-wrappers),convert-complex-to-llvm,convert-math-to-llvm,convert-math-to-libm,"
    "convert-arith-to-llvm,convert-index-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm,"
    "convert-cf-to-llvm,reconcile-unrealized-casts"
)
FIRST = {
    "linalg": "",
    "stablehlo": "stablehlo-legalize-to-linalg,",
    "torch": "torchdynamo-export-to-torch-backend-pipeline,torch-backend-to-linalg-on-tensors-backend-pipeline,"
             "func.func(tm-tensor-bufferize),",
}
PLAIN = {torch.bfloat16: torch.int16}       # types that NumPy has not, as their bits


class Refused(AssertionError):
    """The judge does not take the text."""


def context() -> Any:
    from torch_mlir import ir
    from torch_mlir._mlir_libs import _stablehlo
    from torch_mlir.dialects import torch as torch_dialect

    found = ir.Context()
    found.enable_multithreading(False)
    _stablehlo.register_dialect(found)
    _stablehlo.register_stablehlo_passes()
    torch_dialect.register_dialect(found)
    return found


class Program:
    """A module, compiled."""

    def __init__(self, text: str, dialect: str) -> None:
        from torch_mlir import ir
        from torch_mlir.execution_engine import ExecutionEngine
        from torch_mlir.passmanager import PassManager

        with context(), ir.Location.unknown():
            try:
                module = ir.Module.parse(text)
                module.operation.verify()
                self.results = [result_of(str(t)) for t in main_type(module).results]
                PassManager.parse(f"builtin.module({FIRST[dialect]}{BUFFERS}{CODE})").run(module.operation)
            except Exception as error:
                raise Refused(str(error)) from error
            self.engine = ExecutionEngine(module, opt_level=0)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """What @main gives."""
        like = self.results
        arrays = [as_array(t).copy() for t in inputs]
        given = [descriptor(a.ndim).of(a) for a in arrays]
        results = type("Results", (ctypes.Structure,), {
            "_fields_": [(f"r{i}", descriptor(ndim)) for i, (_, ndim) in enumerate(like)]})()
        pointers = [ctypes.pointer(ctypes.pointer(d)) for d in ([results] if like else []) + given]
        self.engine.invoke("main", *pointers)
        return [getattr(results, f"r{i}").tensor(dtype) for i, (dtype, _) in enumerate(like)]


def as_array(t: Any) -> np.ndarray:
    t = t.detach().contiguous()
    return t.view(PLAIN[t.dtype]).numpy() if t.dtype in PLAIN else t.numpy()


_DESCRIPTORS: dict[int, Any] = {}


def descriptor(ndim: int) -> Any:
    """What MLIR hands over for a tensor of so many dims."""
    if ndim not in _DESCRIPTORS:
        fields = [("base", ctypes.c_void_p), ("start", ctypes.c_void_p), ("offset", ctypes.c_int64)]
        if ndim:
            fields += [("sizes", ctypes.c_int64 * ndim), ("strides", ctypes.c_int64 * ndim)]
        _DESCRIPTORS[ndim] = type(f"Descriptor{ndim}", (_Descriptor,), {"_fields_": fields})
    return _DESCRIPTORS[ndim]


class _Descriptor(ctypes.Structure):
    @classmethod
    def of(cls, array: np.ndarray) -> Any:
        own = cls(array.ctypes.data, array.ctypes.data, 0)
        if array.ndim:
            own.sizes[:] = array.shape
            own.strides[:] = [s // array.itemsize for s in array.strides]
        return own

    def tensor(self, dtype: Any) -> Any:
        kind = as_array(torch.empty(0, dtype=dtype)).dtype
        sizes, strides = (tuple(self.sizes), tuple(self.strides)) if hasattr(self, "sizes") else ((), ())
        if 0 in sizes:
            return torch.empty(sizes, dtype=dtype)
        span = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        start = self.start + self.offset * kind.itemsize
        flat = np.frombuffer((ctypes.c_char * (span * kind.itemsize)).from_address(start), kind)
        steps = [s * kind.itemsize for s in strides]
        whole = torch.from_numpy(np.lib.stride_tricks.as_strided(flat, sizes, steps).copy())
        return whole.view(dtype) if dtype in PLAIN else whole


_TYPE = re.compile(r"tensor<(?:\[(.*)\],)?((?:[\d?]+x)*)(.*)>$")
DTYPES = {
    "i1": torch.bool, **{f"{sign}i{n}": getattr(torch, f"int{n}") for sign in ("", "s") for n in (8, 16, 32, 64)},
    **{f"ui{n}": getattr(torch, f"uint{n}") for n in (8, 16, 32, 64)}, "f16": torch.float16, "bf16": torch.bfloat16,
    "f32": torch.float32, "f64": torch.float64, "complex<f32>": torch.complex64, "complex<f64>": torch.complex128,
}


def main_type(module: Any) -> Any:
    """The type of @main."""
    from torch_mlir import ir

    (main,) = [o for o in module.body.operations if ir.StringAttr(o.attributes["sym_name"]).value == "main"]
    return ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)


def result_of(kind: str) -> tuple[Any, int]:
    """The dtype of a type of tensors, and how many dims they have."""
    listed, sizes, element = _TYPE.search(kind).groups()
    ndim = sizes.count("x") if listed is None else len([n for n in listed.split(",") if n])
    return DTYPES[element], ndim


def run(text: str, dialect: str, inputs: Sequence[Any]) -> list[Any]:
    """The results of @main."""
    return Program(text, dialect)(inputs)


def compare(a: Any, b: Any) -> None:
    """Equal, up to signs that the types of linalg do not have."""
    if a.dtype is not b.dtype and not b.dtype.is_floating_point and a.dtype.itemsize == b.dtype.itemsize:
        a = a.view(b.dtype)
    wide = b.dtype.is_floating_point and b.dtype.itemsize <= 4
    torch.testing.assert_close(a, b, equal_nan=True, **({"rtol": 2e-3, "atol": 1e-4} if wide else {}))


def tensors_in(found: Any) -> list[Any]:
    return [t for t in pytree.tree_leaves(found) if isinstance(t, torch.Tensor)]
