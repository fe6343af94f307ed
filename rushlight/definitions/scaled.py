"""Matrix products of numbers that carry a scale: float8.

Enters: matrices and the factors their elements stand for. Leaves: composites that multiply in float32.
Refuses: scales of other shapes than one number, one per row or one per column, and swizzled layouts.
"""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.op import Composite, find_op

FLOAT8 = (_C.float8_e4m3fn, _C.float8_e5m2)
TENSOR_WISE, ROW_WISE = 0, 1


def scaled_product(
    name: str, a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any, scale_result: Any, out_dtype: Any
) -> Any:
    """(a * scale_a) @ (b * scale_b) + bias, in `out_dtype`."""
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(f"{name}: expected two matrices, got {a.ndim} and {b.ndim} dims")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{name}: mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and"
            f" {b.shape[0]}x{b.shape[1]})"
        )
    for which, t in (("mat1", a), ("mat2", b)):
        if t.dtype not in FLOAT8:
            raise RuntimeError(f"{name}: Expected {which} to be Float8 matrix, got {t.dtype.name}")
    result = (a.to(_C.float32) * scale(name, scale_a, a.shape[0], 0)) @ (
        b.to(_C.float32) * scale(name, scale_b, b.shape[1], 1)
    )
    if bias is not None:
        result = result + bias.to(_C.float32)
    out_dtype = out_dtype or a.dtype
    if scale_result is not None and out_dtype in FLOAT8:
        result = result * scale_result
    return result.to(out_dtype)


def scale(name: str, factor: Any, length: int, dim: int) -> Any:
    """The factors of one operand, shaped to multiply it: one number, or one per row (dim 0) or column (dim 1)."""
    if factor.dtype is not _C.float32:
        raise RuntimeError(f"{name}: scales must be float32, got {factor.dtype.name}")
    if factor.numel() == 1:
        return factor.reshape(())
    if tuple(factor.shape) != ((length, 1) if dim == 0 else (1, length)):
        raise RuntimeError(
            f"{name}: expected one scale, or one for each of {length} along dim {dim}, got shape {list(factor.shape)}"
        )
    return factor


class ScaledMm(Composite):
    """The product of two float8 matrices, each with the factors its elements stand for."""

    schema = (
        "_scaled_mm(Tensor input, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor?"
        " scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor"
    )
    method = False
    differentiable = False

    def compute(self, input, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum):
        return scaled_product("_scaled_mm", input, mat2, scale_a, scale_b, bias, scale_result, out_dtype)


class ScaledMmV2(Composite):
    """`_scaled_mm` with the kind of each scale stated: 0 for one number, 1 for one per row."""

    schema = (
        "_scaled_mm_v2(Tensor input, Tensor mat2, Tensor[] scale_a, any recipe_a, any swizzle_a, Tensor[] scale_b, any"
        " recipe_b, any swizzle_b, Tensor? bias=None, dtype? out_dtype=None, int[] contraction_dim=[], bool"
        " use_fast_accum=False) -> Tensor"
    )
    method = False
    differentiable = False

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
        for recipe, swizzle in ((recipe_a, swizzle_a), (recipe_b, swizzle_b)):
            if len(recipe) != 1 or number(recipe[0]) not in (TENSOR_WISE, ROW_WISE):
                raise NotImplementedError(
                    f"_scaled_mm_v2: scales of one number or one per row are implemented, got recipe {list(recipe)}"
                )
            if any(number(s) for s in swizzle):
                raise NotImplementedError(f"_scaled_mm_v2: swizzled scales are not implemented, got {list(swizzle)}")
        return scaled_product("_scaled_mm_v2", input, mat2, scale_a[0], scale_b[0], bias, None, out_dtype)


def number(choice: Any) -> int:
    """An enumeration's value, whoever made it."""
    return int(getattr(choice, "value", choice))


class AddmmActivation(Composite):
    """relu, or gelu, of beta * input + alpha * (mat1 @ mat2)."""

    schema = (
        "_addmm_activation(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool"
        " use_gelu=False) -> Tensor"
    )

    def compute(self, input, mat1, mat2, beta, alpha, use_gelu):
        result = input.addmm(mat1, mat2, beta=beta, alpha=alpha)
        return find_op("gelu")(result) if use_gelu else result.relu()
