"""Products that are added to something: addmm and its kin, in place too, and linear."""

from __future__ import annotations

import math
from typing import Any

from ... import _C, rules
from ...loops.contraction import lowered_matmul, with_addend
from ...loops.lowered import spread
from ...op import Composite, Library, Meta, Spec, find_op
from ...op.numbers import check_fits, fitting, wide_of
from ...op.pointwise import check_devices
from ...planners.products.gemm import (
    Matrix,
    biased_step,
    contraction_steps,
    copy_step,
    needs_no_library,
    packed_steps,
    steps,
    tiled_steps,
)
from ...planners.products.half import are_few, half_rows_steps
from ...planners.products.tiles import has_tiles, tile_steps
from ...rules.levels import behind
from ...rules.out import overwrite
from .matmul import _HALF, broadcast_batch, check_product, left_gradient, on_tiles, right_gradient


def rounds_once(a: Any, work: int) -> bool:
    """Whether product and addend of a half type are summed in single precision: always,
    but where tile registers do better."""
    return a.dtype in _HALF and a.device.type == "cpu" and not on_tiles(a, work, 1)


class _AddProduct(Library):
    """beta * input + alpha * (a @ b): the addend is written first, the product accumulates onto it."""

    inplace = False
    exact_out = True
    batch = "body"

    def meta(self, input, a, b, beta, alpha):
        self.check(input, a, b)
        return Spec((*a.shape[:-1], b.shape[-1]), a.dtype)

    def lower(self, args):
        input, a, _, beta, alpha = args
        self.meta(*args)
        check_factors(self.name, a.dtype, beta, alpha)
        _, left, right = [(p.name, t.shape, t.stride()) for p, t in zip(self.spec.params[:3], args[:3], strict=True)]
        product = lowered_matmul(self.name, left, right, a.dtype.code)
        if beta == 0:           # what is in `input` does not matter, be it NaN
            return with_addend(product, None, alpha, 0)
        added = spread(self.spec.params[0].name, a.dtype.code, input.shape, input.stride(), product.shape)
        return with_addend(product, added.but(dims=(*added.dims, None)), alpha, beta)

    def is_planned(self, args):
        input, a, _, beta, _ = args
        if beta != 1 or input.ndim > 2 or a.ndim != 2 or not a.shape[-1]:
            return False
        return not (a.dtype in _HALF and a.device.type == "cpu") or are_few(a.shape[0])

    def steps(self, args, room):
        input, a, b, beta, alpha = args
        check_factors(self.name, a.dtype, beta, alpha)
        if needs_no_library(a.device, a.dtype.code):
            return contraction_steps(self, args, room)
        rows = input.stride(0) if input.ndim == 2 and input.shape[0] != 1 else 0
        cols = input.stride(-1) if input.ndim and input.shape[-1] != 1 else 0
        m, k, n = a.shape[0], a.shape[1], b.shape[1]
        given = (a.dtype.code, a.device, Matrix(1, *a.stride()), Matrix(2, *b.stride()), Matrix(3, n, 1), m, n, k)
        if a.dtype in _HALF and a.device.type == "cpu":
            return half_rows_steps(*given, room, Matrix(0, rows, cols)) if alpha == 1 else None
        tiled = tiled_steps(*given, 4, 1, Matrix(0, rows, cols), room.wishes) if alpha == 1 else None
        if tiled is not None:
            room.temp(a.dtype, (tiled[1],))
            return tiled[0]
        if alpha == 1 and not rows and (cols == 1 or n == 1):
            biased = biased_step(*given[:5], 0, *given[5:])
            if biased is not None:
                return biased
        if isinstance(alpha, complex) or (isinstance(alpha, float) and not a.dtype.is_floating_point):
            return None     # a matrix of integers is scaled by an integer, and a complex factor is no double
        product = steps(*given, 1, float(alpha), 1.0)
        if product is None:
            return None
        return [copy_step(a.device, 0, 3, a.dtype.code, (m, n), (rows, cols), n), *product]

    def check(self, input: Any, a: Any, b: Any) -> None:
        check_product(self.name, a, b)
        check_devices(self.name, (input, a, b))
        if input.dtype is not a.dtype:
            raise RuntimeError(
                f"{self.name}: expected matrices of the dtype of self, {input.dtype.name}, got {a.dtype.name}"
            )

    def run(self, input, a, b, beta, alpha):
        self.check(input, a, b)
        if not (a.dtype.is_floating_point or a.dtype.is_complex):
            beta, alpha = (fitting(self.name, factor, a.dtype) for factor in (beta, alpha))
        check_factors(self.name, a.dtype, beta, alpha)
        if rounds_once(a, a.shape[-2] * a.shape[-1] * b.shape[-1]) and beta != 0:
            wide = find_op(self.name)(*(t.to(_C.float32) for t in (input, a, b)), beta=beta, alpha=alpha)
            return wide.to(a.dtype)
        product = a @ b
        if alpha != 1:
            product = product * alpha
        if beta == 0:
            return product.expand(product.shape)
        return product + (input if beta == 1 else input * beta)


class Addmm(_AddProduct):
    """beta * input + alpha * (mat1 @ mat2)."""

    schema = "addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"

    def check(self, input, a, b):
        if a.ndim != 2 or b.ndim != 2:
            raise RuntimeError(f"addmm: mat1 and mat2 must be matrices, got {a.ndim}-D and {b.ndim}-D tensors")
        super().check(input, a, b)
        try:
            broadcast_ok = broadcast_batch("addmm", tuple(input.shape), (a.shape[0], b.shape[1])) == (
                a.shape[0],
                b.shape[1],
            )
        except RuntimeError:
            broadcast_ok = False
        if not broadcast_ok:
            raise RuntimeError(
                f"addmm: The expanded size of the tensor ({a.shape[0]}, {b.shape[1]}) must match the existing size"
                f" {list(input.shape)}"
            )

    def vjp(self, g, input: Meta, mat1, mat2, beta, alpha):
        scaled = g if alpha == 1 else g * _conj(alpha)
        return {
            "input": (g if beta == 1 else g * _conj(beta)).sum_to_size(input.shape) if _C.vjp_needs() & 1 else None,
            "mat1": left_gradient(scaled, mat1, mat2), "mat2": right_gradient(scaled, mat1, mat2),
        }


def _conj(x: Any) -> Any:
    return x.conjugate() if isinstance(x, complex) else x


class _Inplace(Composite):
    """An add-and-multiply op written over its first argument."""

    function = False
    out = False

    def compute(self, input, a, b, beta, alpha):
        result = getattr(input, self.spec.name[:-1])(a, b, beta=beta, alpha=alpha)
        return overwrite(self.spec.name, input, result)


class AddmmInplace(_Inplace):
    """addmm written over its first argument."""

    schema = "addmm_(Tensor(a!) input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"


class BaddbmmInplace(_Inplace):
    """baddbmm written over its first argument."""

    schema = "baddbmm_(Tensor(a!) input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"


class AddbmmInplace(_Inplace):
    """addbmm written over its first argument."""

    schema = "addbmm_(Tensor(a!) input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"


class AddmvInplace(_Inplace):
    """addmv written over its first argument."""

    schema = "addmv_(Tensor(a!) input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"


class AddrInplace(_Inplace):
    """addr written over its first argument."""

    schema = "addr_(Tensor(a!) input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"


def check_factors(name: str, dtype: Any, *factors: Any) -> None:
    """Refuse factors that do not fit the type a product is computed in."""
    for factor in factors:
        check_fits(name, factor, wide_of(dtype))


def scaled_sum(name: str, input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta * input + alpha * product. Tensors of integers are scaled by integers, tensors of truth values by truth."""
    check_factors(name, product.dtype, beta, alpha)
    if not (product.dtype.is_floating_point or product.dtype.is_complex):
        beta, alpha = (fitting(name, factor, product.dtype) for factor in (beta, alpha))
    if alpha != 1:
        product = product * alpha
    return product if beta == 0 else product + (input if beta == 1 else input * beta)


class Baddbmm(Composite):
    """beta * input + alpha * (batch1 @ batch2), per matrix of a batch."""

    schema = "baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"

    def compute(self, input, batch1, batch2, beta, alpha):
        return scaled_sum(self.name, input, batch1.bmm(batch2), beta, alpha)


class Addbmm(Composite):
    """beta * input + alpha * the sum over the batch of batch1 @ batch2."""

    schema = "addbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"
    inplace = False

    def compute(self, input, batch1, batch2, beta, alpha):
        return scaled_sum(self.name, input, batch1.bmm(batch2).sum(0, dtype=batch1.dtype), beta, alpha)


class Addmv(Composite):
    """beta * input + alpha * (mat @ vec)."""

    schema = "addmv(Tensor input, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"

    def compute(self, input, mat, vec, beta, alpha):
        return scaled_sum(self.name, input, mat.mv(vec), beta, alpha)


class Addr(Composite):
    """beta * input + alpha * outer(vec1, vec2)."""

    schema = "addr(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"
    replays = True

    def compute(self, input, vec1, vec2, beta, alpha):
        if any(isinstance(f, float) for f in (beta, alpha)) and not (
            input.dtype.is_floating_point or input.dtype.is_complex
        ):
            raise RuntimeError(
                "addr: for integral input tensors, arguments beta and alpha must not be floating point numbers, got"
                f" {beta} and {alpha}"
            )
        return scaled_sum(self.name, input, vec1.outer(vec2), beta, alpha)


class Linear(_AddProduct):
    """input @ weight.T + bias."""

    schema = "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"
    namespace = "nn.functional"
    method = False

    def meta(self, input, weight, bias):
        self.check_linear(input, weight, bias)
        return Spec((*input.shape[:-1], *weight.shape[:-1]), input.dtype)

    def lower(self, args):
        input, weight, bias = args
        self.meta(*args)
        sizes, strides = (tuple(weight.shape)[::-1], tuple(weight.stride())[::-1])
        left, right = ("input", tuple(input.shape), input.stride()), ("weight", sizes, strides)
        product = lowered_matmul("linear", left, right, input.dtype.code)
        if bias is None:
            return product
        added = spread("bias", bias.dtype.code, bias.shape, bias.stride(), product.shape)
        return with_addend(product, added.but(dims=(*added.dims, None)))

    def is_planned(self, args):
        input, weight, bias = args
        if not input._is_contiguous() or not weight.shape[-1]:
            return False
        if input.dtype in _HALF and input.device.type == "cpu" and not are_few(math.prod(input.shape[:-1])):
            return self.is_on_tiles(*args)
        # other biases are broadcast, or refused, as an addition
        return bias is None or (weight.ndim == 2 and tuple(bias.shape) == (weight.shape[0],))

    def is_on_tiles(self, input, weight, bias) -> bool:
        """Whether tile registers multiply, and add the bias before they round."""
        if bias is None or weight.ndim != 2 or bias.shape != weight.shape[:1] or bias.stride(0) != 1:
            return False
        lies_in_lines = 1 in weight.stride()
        return has_tiles() and lies_in_lines and on_tiles(input, math.prod(input.shape[:-1]) * weight.numel(), 1)

    def steps(self, args, room):
        input, weight, bias = args
        if needs_no_library(input.device, input.dtype.code):
            return contraction_steps(self, args, room)
        rows = 1
        for s in input.shape[:-1]:
            rows *= s
        n, k = weight.shape if weight.ndim == 2 else (1, weight.shape[0])
        wr, wc = weight.stride() if weight.ndim == 2 else (k, weight.stride(0))
        out = room.inputs
        given = (input.dtype.code, input.device, Matrix(0, k, 1), Matrix(1, wc, wr), Matrix(out, n, 1), rows, n, k)
        if input.dtype in _HALF and input.device.type == "cpu" and not are_few(rows):
            found, sizes = tile_steps("bf16", *given[2:5], out + 1, rows, n, k, bias=2)
            for size in sizes:
                room.temp(_C.int8, (size,))
            return found
        if input.dtype in _HALF and input.device.type == "cpu":
            return half_rows_steps(*given, room, None if bias is None else Matrix(2, 0, bias.stride(0)))
        if bias is None or bias.stride(0) == 1 or n == 1:
            packed = packed_steps(*given, out + 1, None if bias is None else Matrix(2, 0, 1), room.wishes)
            if packed is not None:
                room.temp(input.dtype, (packed[1],))
                return packed[0]
        if bias is not None and (bias.stride(0) == 1 or n == 1):
            biased = biased_step(*given[:5], 2, *given[5:])
            if biased is not None:
                return biased
        result = steps(*given, 1, 1.0, 1.0 if bias is not None else 0.0)
        if result is None:
            return None
        if bias is not None and rows:
            result = [copy_step(input.device, 2, 3, input.dtype.code, (rows, n), (0, bias.stride(0)), n), *result]
        return result

    def vmap(self, level: Any, overload: Any, args: tuple) -> Any:
        input, weight, bias = args
        if any(t is not None and behind(t, level) is not None for t in (weight, bias)):
            return rules.batching.body(level, overload, args)
        return rules.batching.wrapped(overload.call(rules.batching.front(input, level), weight, bias), level)

    def check_linear(self, input: Any, weight: Any, bias: Any) -> None:
        check_devices("linear", (input, weight, bias))
        if input.ndim == 0 or weight.ndim not in (1, 2):
            raise RuntimeError(
                f"linear: input must be at least 1-D and weight 1-D or 2-D, got {input.ndim}-D and {weight.ndim}-D"
            )
        if input.dtype is not weight.dtype or (bias is not None and bias.dtype is not input.dtype):
            raise RuntimeError(
                f"linear: input and weight must have the same dtype, got {input.dtype.name} and {weight.dtype.name}"
            )
        if input.shape[-1] != weight.shape[-1]:
            raise RuntimeError(
                f"linear: mat1 and mat2 shapes cannot be multiplied: input {tuple(input.shape)} has {input.shape[-1]}"
                f" features, weight {tuple(weight.shape)} expects {weight.shape[-1]}"
            )

    def run(self, input, weight, bias):
        self.check_linear(input, weight, bias)
        if bias is not None and rounds_once(input, input.numel() * weight.numel()):
            return find_op("linear")(*(t.to(_C.float32) for t in (input, weight, bias))).to(input.dtype)
        product = input @ (weight.t() if weight.ndim == 2 else weight)
        return product if bias is None else product + bias

    def vjp(self, g, input, weight, bias):
        if weight.ndim == 1:
            return {
                "input": left_gradient(g, input, weight),
                "weight": right_gradient(g, input, weight),
                "bias": None if bias is None else g.sum_to_size(bias.shape),
            }
        flat, x, w = g, input, weight
        if g.ndim != 2:
            rows = math.prod(g.shape[:-1])  # not -1: without features it could be any number
            flat, x = g.reshape(rows, g.shape[-1]), input.reshape(rows, input.shape[-1])
        if weight.is_complex():
            x, w = x.conj(), w.conj()
        return {
            "input": g @ w if input.requires_grad else None,
            "weight": flat.t() @ x if weight.requires_grad else None,
            "bias": bias_gradient(flat, bias) if bias is not None and bias.requires_grad else None,
        }


def bias_gradient(rows: Any, bias: Any) -> Any:
    """What comes to the bias of every row."""
    total = rows.sum(0)
    return total if bias.ndim == 1 and bias.shape[0] == rows.shape[1] else total.sum_to_size(bias.shape)


class AddmmActivation(Composite):
    """relu, or gelu, of beta * input + alpha * (mat1 @ mat2)."""

    schema = (
        "_addmm_activation(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool"
        " use_gelu=False) -> Tensor"
    )

    def compute(self, input, mat1, mat2, beta, alpha, use_gelu):
        result = input.addmm(mat1, mat2, beta=beta, alpha=alpha)
        return find_op("gelu")(result) if use_gelu else result.relu()
