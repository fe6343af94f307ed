"""What the tests of `mlir.load` share: the same text run by XLA and by us, in the form given and in the generic one."""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight as torch
from rushlight.mlir import loading
from tests.mlir import judges

NAMES = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i1": "bool",
         **{f"i{n}": f"int{n}" for n in (8, 16, 32, 64)}, **{f"ui{n}": f"uint{n}" for n in (8, 16, 32, 64)},
         "complex<f32>": "complex64", "complex<f64>": "complex128", "f8E5M2": "float8_e5m2",
         "f8E4M3FN": "float8_e4m3fn"}


def by_xla(text: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What XLA computes."""
    return [numbers(t) for t in judges.run(text, [tensor(a) for a in arrays])]


def generic(text: str) -> str:
    """The generic form of a text, as torch-mlir prints it."""
    from torch_mlir import ir
    from torch_mlir._mlir_libs import _stablehlo

    with ir.Context() as context:
        _stablehlo.register_dialect(context)
        return ir.Module.parse(text).operation.get_asm(print_generic_op_form=True)


def array(shape: tuple[int, ...], element: str, seed: int) -> np.ndarray:
    """Numbers of a type, small ones of both signs."""
    rng = np.random.default_rng(seed)
    if element == "i1":
        return rng.random(shape) < 0.5
    if element.startswith("complex"):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(NAMES[element])
    if element.startswith(("i", "ui")):
        low = 0 if element.startswith("u") else -20
        return rng.integers(low, 20, shape).astype(NAMES[element])
    values = rng.standard_normal(shape) * 2
    if NAMES[element].startswith(("b", "float8")):
        import ml_dtypes

        return np.asarray(values).astype(getattr(ml_dtypes, NAMES[element]))
    return np.asarray(values).astype(NAMES[element])


def tensor(a: np.ndarray) -> Any:
    """An array as a tensor; types that NumPy has not itself go by their bits."""
    name = a.dtype.name
    if name.startswith(("bfloat", "float8")):
        bits = torch.from_numpy(np.ascontiguousarray(a).reshape(-1).view(f"u{a.dtype.itemsize}").copy())
        return bits.view(getattr(torch, name)).reshape(a.shape)
    return torch.from_numpy(np.array(a, order="C"))


def numbers(x: Any) -> np.ndarray:
    """A tensor, or an array of such types, as an array that NumPy can compare."""
    if isinstance(x, np.ndarray):
        return x.astype(np.float64) if x.dtype.kind == "V" or x.dtype.name.startswith(("bfloat", "float8")) else x
    x = x.detach()
    return (x.to(torch.float64) if x.dtype.name.startswith(("bfloat", "float8")) else x).numpy()


def by_us(text: str, arrays: list[np.ndarray], compiled: bool = False) -> list[np.ndarray]:
    """What the loaded module computes."""
    module = loading.load(text)
    call = torch.compile(module) if compiled else module
    result = call(*map(tensor, arrays))
    return [numbers(r) for r in (result if isinstance(result, tuple) else (result,))]


def compare(text: str, arrays: list[np.ndarray], tolerance: float = 2e-5, forms: bool = True) -> None:
    """The text gives the same with XLA and with us."""
    wanted = [numbers(a) for a in by_xla(text, arrays)]
    for form in [text, generic(text)] if forms else [text]:
        got = by_us(form, arrays)
        assert len(got) == len(wanted)
        for g, w in zip(got, wanted, strict=True):
            assert g.shape == w.shape
            assert g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)


def function(arguments: list[str], results: list[str], body: str) -> str:
    """A module of one function; its arguments are %0, %1, ... and its results %r, or %r0, %r1, ..."""
    given = ", ".join(f"%a{i}: {t}" for i, t in enumerate(arguments))
    names = ["%r"] if len(results) == 1 else [f"%r{i}" for i in range(len(results))]
    return (f"func.func @main({given}) -> ({', '.join(results)}) {{\n{body}\n"
            f"return {', '.join(names)} : {', '.join(results)}\n}}")
