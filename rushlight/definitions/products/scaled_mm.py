"""Products of float8 matrices with scales beside them.

Enters: two float8 matrices, scales of the whole matrices or of every row (left) and column (right), a bias, the
result's dtype. Leaves: (a * scale_a) @ (b * scale_b) + bias, computed in single precision and rounded once.
Refuses: scales in blocks, which no CPU form of PyTorch takes either.
"""

from __future__ import annotations

from typing import Any

from ... import _C
from ...op import Composite, Library, Pointwise, Spec, find_op, ops
from ...op.extern import own_function
from ...op.step import Step

FLOAT8 = (_C.float8_e4m3fn, _C.float8_e5m2)
TENSORWISE, ROWWISE = 0, 1


def check_scaled(name: str, a: Any, b: Any, scale_a: Any, scale_b: Any) -> None:
    """Refuse what is no scaled product of float8 matrices."""
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


def in_single(a: Any, b: Any, scale_a: Any, scale_b: Any, bias: Any) -> Any:
    """The product in single precision, by ops."""
    if scale_a.numel() == scale_b.numel() == 1:
        scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())
    result = (a.to(_C.float32) * scale_a) @ (b.to(_C.float32) * scale_b)
    return result if bias is None else result + bias


class Rescaled(Pointwise):
    """A product of matrices without their scales, times these, plus a bias, in another dtype."""

    schema = "_rescaled(Tensor product, Tensor scale_a, Tensor scale_b, Tensor? bias, dtype dtype) -> Tensor"
    function = method = inplace = out = differentiable = False

    def expr(self, s, product, scale_a, scale_b, bias, dtype):
        result = product * scale_a * scale_b
        return result if bias is None else result + bias

    def result_dtype(self, common, product, scale_a, scale_b, bias, dtype):
        return dtype


class ScaledMm(Library):
    """Product of float8 matrices times their scales. `use_fast_accum` changes nothing on a CPU, and `scale_result`
    nowhere, as in PyTorch.

    A device with narrow products has a function for it,

        _scaled_product(out, a, b, scale_a, scale_b, bias, use_fast_accum)

    which fills its first argument or returns NotImplemented: then the product is one of single precision.
    """

    schema = (
        "_scaled_mm(Tensor input, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor?"
        " scale_result=None, dtype? out_dtype=None, bool use_fast_accum=False) -> Tensor"
    )
    method = False
    differentiable = False
    exact_out = True

    def meta(self, input, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum):
        check_scaled(self.name, input, mat2, scale_a, scale_b)
        return Spec((input.shape[0], mat2.shape[1]), input.dtype if out_dtype is None else out_dtype)

    def is_planned(self, args):
        return own_function("_scaled_product", args[0].device) is not None

    def steps(self, args, room):
        own, fast = own_function("_scaled_product", args[0].device), args[7]
        has_bias = args[4] is not None      # the plan holds no tensor

        def run(a: Any, b: Any, scale_a: Any, scale_b: Any, *rest: Any) -> None:
            *given, out = rest
            added = given[0] if has_bias else None
            if own(out, a, b, scale_a, scale_b, added, fast) is not NotImplemented:
                return
            whole = a.new_empty(out.shape, dtype=_C.float32)
            one = whole.new_ones(())      # a device may have products, but no scales by rows
            if own(whole, a, b, one, one, None, fast) is NotImplemented:
                out.copy_(in_single(a, b, scale_a, scale_b, added))
            else:
                out.copy_(find_op("_rescaled")(whole, scale_a, scale_b, added, out.dtype))

        return [Step(run, list(range(room.next)), [], 1)]

    def run(self, input, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum):
        result = in_single(input, mat2, scale_a, scale_b, bias)
        return result.to(input.dtype if out_dtype is None else out_dtype)


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
        dims = tuple(contraction_dim) or (1, 0)
        if len(dims) != 2 or input.shape[dims[0]] != mat2.shape[dims[1]]:
            raise ValueError(
                f"_scaled_mm_v2: mat_a and mat_b of shapes {tuple(input.shape)} and {tuple(mat2.shape)} cannot be"
                f" multiplied along contraction_dim={list(contraction_dim)}"
            )
        return ops["_scaled_mm"](
            input, mat2, scale_a[0], scale_b[0], bias, out_dtype=out_dtype, use_fast_accum=use_fast_accum
        )


def listed(given: Any) -> list[Any]:
    """One or several of them, or none, as a list."""
    return [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]


class FunctionalScaledMm(Composite):
    """_scaled_mm_v2 as nn.functional spells it: kinds of factors by `ScalingType`, each argument alone or in a list."""

    schema = (
        "scaled_mm(Tensor mat_a, Tensor mat_b, any scale_a, any scale_recipe_a, any scale_b, any scale_recipe_b, any"
        " swizzle_a=None, any swizzle_b=None, Tensor? bias=None, any output_dtype=bfloat16, int[]"
        " contraction_dim=[], bool use_fast_accum=False) -> Tensor"
    )
    namespace = "nn.functional"
    method = out = differentiable = False

    def compute(
        self,
        mat_a,
        mat_b,
        scale_a,
        scale_recipe_a,
        scale_b,
        scale_recipe_b,
        swizzle_a,
        swizzle_b,
        bias,
        output_dtype,
        contraction_dim,
        use_fast_accum,
    ):
        factors = [listed(x) for x in (scale_a, scale_recipe_a, swizzle_a, scale_b, scale_recipe_b, swizzle_b)]
        dtype = _C.bfloat16 if output_dtype == "bfloat16" else output_dtype      # the default, as the schema spells it
        return ops["_scaled_mm_v2"](
            mat_a, mat_b, *factors, bias, dtype, list(contraction_dim), use_fast_accum
        )


class FunctionalScaledGroupedMm(Composite):
    """Groups of rows of float8 `mat_a`, each with a matrix of the stack `mat_b`; one factor a row of `mat_a` ([rows])
    and one a column of each matrix ([groups, columns]). The factors are applied in single precision; `use_fast_accum`
    changes nothing on a CPU, as in `_scaled_mm`."""

    schema = (
        "scaled_grouped_mm(Tensor mat_a, Tensor mat_b, any scale_a, any scale_recipe_a, any scale_b, any"
        " scale_recipe_b, any swizzle_a=None, any swizzle_b=None, Tensor? bias=None, Tensor? offs=None, any"
        " output_dtype=bfloat16, int[] contraction_dim=[], bool use_fast_accum=False) -> Tensor"
    )
    namespace = "nn.functional"
    method = out = differentiable = False

    def compute(
        self,
        mat_a,
        mat_b,
        scale_a,
        scale_recipe_a,
        scale_b,
        scale_recipe_b,
        swizzle_a,
        swizzle_b,
        bias,
        offs,
        output_dtype,
        contraction_dim,
        use_fast_accum,
    ):
        recipes = [int(getattr(r, "value", r)) for r in (*listed(scale_recipe_a), *listed(scale_recipe_b))]
        if recipes != [ROWWISE, ROWWISE] or any(int(s) for s in (*listed(swizzle_a), *listed(swizzle_b))):
            raise NotImplementedError(
                f"scaled_grouped_mm: one factor a row, in their own order, is supported; got recipes {recipes}"
            )
        if list(contraction_dim):
            raise NotImplementedError(
                f"scaled_grouped_mm: other dims than the inner ones are not contracted, got {list(contraction_dim)}"
            )
        if mat_b.ndim != 3 or bias is not None:
            raise NotImplementedError(
                f"scaled_grouped_mm: expected mat_b to be a stack of matrices and no bias, got a {mat_b.ndim}-D tensor"
            )
        (rows,), (columns,) = listed(scale_a), listed(scale_b)
        left = mat_a.to(_C.float32) * rows.unsqueeze(-1)
        right = mat_b.to(_C.float32) * columns.unsqueeze(-2)
        dtype = _C.bfloat16 if output_dtype in ("bfloat16", None) else output_dtype
        return ops["_grouped_mm"](left, right, offs, None, dtype)
