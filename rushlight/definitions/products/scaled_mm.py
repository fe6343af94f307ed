"""Products of float8 matrices with scales beside them.

Enters: two float8 matrices, scales of the whole matrices or of every row (left) and column (right), a bias, the
result's dtype. Leaves: (a * scale_a) @ (b * scale_b) + bias, computed in single precision and rounded once.
Refuses: scales in blocks, which no CPU form of PyTorch takes either.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...op import Composite

FLOAT8 = (_C.float8_e4m3fn, _C.float8_e5m2)
TENSORWISE, ROWWISE = 0, 1


def scaled_product(name: str, a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any, dtype: Any) -> Any:
    """The scaled product, with everything checked."""
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(
            f"{name}: {'mat1' if a.ndim != 2 else 'mat2'} must be a matrix, got {a.ndim}-D and {b.ndim}-D tensors"
        )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{name}: mat_a and mat_b shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and"
            f" {b.shape[0]}x{b.shape[1]})"
        )
    whole = scale_a.numel() == scale_b.numel() == 1
    by_row = tuple(scale_a.shape) == (a.shape[0], 1) and tuple(scale_b.shape) == (1, b.shape[1])
    if (
        a.dtype not in FLOAT8
        or b.dtype not in FLOAT8
        or not (scale_a.dtype is scale_b.dtype is _C.float32)
        or not (whole or by_row)
    ):
        raise ValueError(
            f"{name}: Invalid scaling configuration: expected float8 matrices and float32 scales, one each or one per"
            f" row and column; got {a.dtype.name} and {b.dtype.name}, scales of shapes {list(scale_a.shape)} and"
            f" {list(scale_b.shape)} ({scale_a.dtype.name}, {scale_b.dtype.name})"
        )
    if whole:
        scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())
    result = (a.to(_C.float32) * scale_a) @ (b.to(_C.float32) * scale_b)
    if bias is not None:
        result = result + bias
    return result.to(a.dtype if dtype is None else dtype)


class ScaledMm(Composite):
    """Product of float8 matrices times their scales. `scale_result` and `use_fast_accum` change nothing on a CPU."""

    schema = (
        "_scaled_mm(Tensor input, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor?"
        " scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor"
    )
    method = False
    differentiable = False
    exact_out = True

    def compute(self, input, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum):
        return scaled_product("_scaled_mm", input, mat2, scale_a, scale_b, bias, out_dtype)


class ScaledMmV2(Composite):
    """_scaled_mm with the kinds of scales said by name; there is one scale per operand on a CPU."""

    schema = (
        "_scaled_mm_v2(Tensor input, Tensor mat2, Tensor[] scale_a, any recipe_a, any swizzle_a, Tensor[] scale_b, any"
        " recipe_b, any swizzle_b, Tensor? bias=None, dtype? out_dtype=None, int[] contraction_dim=[], bool"
        " use_fast_accum=False) -> Tensor"
    )
    method = False
    differentiable = False
    exact_out = True

    def compute(
        self,
        input,
        mat2,
        scale_a,
        recipe_a,
        swizzle_a,
        scale_b,
        recipe_b,
        swizzle_b,
        bias,
        out_dtype,
        contraction_dim,
        use_fast_accum,
    ):
        recipes = [int(getattr(r, "value", r)) for r in (*recipe_a, *recipe_b)]
        if len(scale_a) != 1 or len(scale_b) != 1 or any(r not in (TENSORWISE, ROWWISE) for r in recipes):
            raise ValueError(
                "_scaled_mm_v2: Invalid scaling configuration: one scale per operand, of the whole or by rows, is"
                f" supported; got recipes {recipes}"
            )
        if any(int(getattr(s, "value", s)) for s in (*swizzle_a, *swizzle_b)):
            raise ValueError(f"_scaled_mm_v2: scales cannot be swizzled, got {list(swizzle_a)} and {list(swizzle_b)}")
        return scaled_product("_scaled_mm_v2", input, mat2, scale_a[0], scale_b[0], bias, out_dtype)
