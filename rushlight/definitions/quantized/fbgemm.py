"""`fbgemm_*`: dynamic linear layers over weights that are tensors, the older form of `ops.quantized.linear_dynamic`.

Enters: floats, weights rounded to bytes (`fbgemm_linear_quantize_weight`) or to half precision, and what
`fbgemm_pack_*` packed of them. Leaves: floats. Refuses: other dtypes, sizes that do not fit. Packed tensors are bytes
of a layout of their own, of this processor.
"""

from __future__ import annotations

import struct
from typing import Any

from ... import _C
from ...op import Composite, find_op, ops
from ...planners.products.byte_plans import packed_weights, strip_width
from .dynamic import chosen

LARGEST_HALF = 65504.0


def of_type(name: str, what: str, t: Any, dtype: Any, ndim: int) -> Any:
    """t; raises where it is of another dtype, or has other dims."""
    if t.dtype is not dtype:
        raise RuntimeError(f"{name}: expected {what} of scalar type {dtype} but found {t.dtype}")
    if t.ndim != ndim:
        raise RuntimeError(f"{name}: expected {what} of {ndim} dims, got {list(t.shape)}")
    return t


class FbgemmLinearQuantizeWeight(Composite):
    """Weights [n, k] as int8 of one scale: (integers, sums of rows less the zero point's, scale, zero point)."""

    schema = "fbgemm_linear_quantize_weight(Tensor input) -> (Tensor, Tensor, float, int)"
    method = out = differentiable = False

    def compute(self, input):
        of_type(self.name, "input", input, _C.float32, 2)
        low, high = (t.item() for t in input.aminmax())
        scale, zero = chosen(low, high, -128, 127)
        scale = struct.unpack("f", struct.pack("f", scale))[0]
        integers = find_op("int_repr")(find_op("quantize_per_tensor")(input, scale, zero, _C.qint8))
        sums = integers.sum(1, dtype=_C.int32) - zero * input.shape[1]
        return integers, sums, scale, zero


class FbgemmPackQuantizedMatrix(Composite):
    """int8 weights [n, k] as products read them, in a tensor of bytes."""

    schema = (
        "fbgemm_pack_quantized_matrix(Tensor input) -> Tensor",
        "fbgemm_pack_quantized_matrix.KN(Tensor input, int K, int N) -> Tensor",
    )
    method = out = differentiable = False

    def compute(self, input, *sizes):
        of_type(self.name, "input", input, _C.int8, 2)
        return packed_weights(input)[0].reshape(-1).view(_C.uint8)


class FbgemmLinearInt8Weight(Composite):
    """Floats, quantized by their own range, times packed int8 weights, plus a bias."""

    schema = (
        "fbgemm_linear_int8_weight(Tensor input, Tensor weight, Tensor packed, Tensor col_offsets, Scalar weight_scale,"
        " Scalar weight_zero_point, Tensor bias) -> Tensor"
    )
    method = out = differentiable = False

    def compute(self, input, weight, packed, col_offsets, weight_scale, weight_zero_point, bias):
        n, k = weight.shape
        if input.dtype is not _C.float32:
            raise RuntimeError(f"{self.name}: expected input of scalar type Float but found {input.dtype}")
        if input.ndim < 2 or input.shape[-1] != k:
            raise RuntimeError(f"{self.name}: expected input of {k} columns and 2 dims or more, got {input.shape}")
        if tuple(bias.shape) != (n,):
            raise RuntimeError(f"{self.name}: expected bias of {n} elements, got {list(bias.shape)}")
        zero = int(weight_zero_point)
        columns = packed.new_zeros((4, -(-n // strip_width()) * strip_width()), dtype=_C.int32)
        numbers = columns.view(_C.float32)
        columns[0, :n], columns[3, :n] = col_offsets, zero
        numbers[1, :n], numbers[2, :n] = float(weight_scale), bias
        rows = input.detach().contiguous()
        return ops["_byte_linear_dynamic"](rows, packed, columns, n, False, False, zero != 0)


class FbgemmLinearInt8WeightFp32Activation(FbgemmLinearInt8Weight):
    """The same, by its later name."""

    schema = (
        "fbgemm_linear_int8_weight_fp32_activation(Tensor input, Tensor weight, Tensor packed, Tensor col_offsets,"
        " Scalar weight_scale, Scalar weight_zero_point, Tensor bias) -> Tensor"
    )


class FbgemmPackGemmMatrixFp16(Composite):
    """Weights [n, k] rounded to half precision, in a tensor of bytes."""

    schema = "fbgemm_pack_gemm_matrix_fp16(Tensor input) -> Tensor"
    method = out = differentiable = False

    def compute(self, input):
        of_type(self.name, "input", input, _C.float32, 2)
        half = input.detach().clamp(-LARGEST_HALF, LARGEST_HALF).to(_C.float16)
        return half.contiguous().reshape(-1).view(_C.uint8)


class FbgemmLinearFp16WeightFp32Activation(Composite):
    """Floats times weights in half precision, plus a bias."""

    schema = (
        "fbgemm_linear_fp16_weight_fp32_activation(Tensor input, Tensor packed_weight, Tensor? bias) -> Tensor"
    )
    method = out = differentiable = False

    def compute(self, input, packed_weight, bias):
        k = input.shape[-1]
        if packed_weight.dtype is not _C.uint8 or packed_weight.numel() % (2 * k):
            raise RuntimeError(
                f"{self.name}: expected packed_weight of fbgemm_pack_gemm_matrix_fp16 with {k} columns, got"
                f" {packed_weight.numel()} elements of {packed_weight.dtype}"
            )
        weight = packed_weight.view(_C.float16).reshape(-1, k).to(_C.float32)
        result = ops["matmul"](input.detach(), weight.t())
        return result if bias is None else result + bias


class FbgemmLinearFp16Weight(FbgemmLinearFp16WeightFp32Activation):
    """The same, where there is a bias."""

    schema = "fbgemm_linear_fp16_weight(Tensor input, Tensor packed_weight, Tensor bias) -> Tensor"
