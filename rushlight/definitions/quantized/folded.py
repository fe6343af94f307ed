"""Linear layers whose operands were quantized and dequantized around them, as one product of bytes.

Enters: bytes with the numbers that dequantized them, weights as plain int8 with theirs. Leaves: floats, or the bytes
they would have been quantized to. The compiler puts these ops in the place of such patterns
(inductor/quantized_layers.py); what depends on weights alone is packed once, by its plan for what stays the same.
"""

from __future__ import annotations

import struct
from typing import Any

from ... import _C
from ...op import Composite, ops
from ...planners.products.byte_plans import FLIP, packing, row_flip
from .create import in_single


class FoldedLinear(Composite):
    """linear of bytes with int8 weights [n, k], whose `scales` and `zeros` have n elements; floats, or with `is_bytes`
    quantized ones of `out_scale`. `head` and `flip`: what `head_of` gives for the input and the result."""

    schema = (
        "_folded_linear(Tensor input, float scale, Tensor head, int flip, Tensor weight, Tensor scales, Tensor zeros,"
        " Tensor? bias, bool is_bytes, float out_scale) -> Tensor"
    )
    function = method = out = differentiable = False

    def compute(self, input, scale, head, flip, weight, scales, zeros, bias, is_bytes, out_scale):
        n = weight.shape[0]
        packed, sums = packed_by_ops(weight)
        padding = [0, sums.shape[0] - n]
        zeros = zeros.to(_C.int32)
        factors, added = scales.to(_C.float32), None if bias is None else bias.to(_C.float32)
        if is_bytes:
            factors = factors * in_single(scale)
            added = None if added is None else added / factors
            factors = factors / in_single(out_scale)
        rows = [
            sums - ops["constant_pad_nd"](zeros * weight.shape[1], padding),
            ops["constant_pad_nd"](factors, padding).view(_C.int32),
            ops["zeros_like"](sums) if added is None else ops["constant_pad_nd"](added, padding).view(_C.int32),
            ops["constant_pad_nd"](zeros, padding),
        ]
        result_type = _C.uint8 if is_bytes else _C.float32
        return ops["_byte_linear"](input.contiguous(), packed, ops["stack"](rows), head, n, result_type, flip, True)


def packed_by_ops(weight: Any) -> tuple[Any, Any]:
    """What `byte_plans.packed_weights` gives, without writing into anything, for graphs."""
    (width, group), (n, k) = packing(), weight.shape
    strips, groups = -(-n // width), -(-k // group)
    padding = [0, groups * group - k, 0, strips * width - n]
    full = ops["constant_pad_nd"](weight, padding) if any(padding) else weight
    strip = full.reshape(strips, width, groups, group).permute(0, 2, 1, 3)
    return strip.contiguous(), full.sum(1, dtype=_C.int32)


def head_of(dtype: Any, scale: float, zero: int, relu: bool, out_zero: int | None) -> tuple[Any, int]:
    """`HEAD` of codegen/library/products/requantize.py, and what is taken from the bytes of rows, for rows of a dtype,
    a scale and a zero point. `out_zero`: that of results that are bytes; None: floats."""
    is_unsigned = dtype is _C.uint8
    flip = row_flip() if is_unsigned else FLIP - row_flip()
    moved = zero + (0 if not flip else -FLIP if is_unsigned else FLIP)
    low, high = 0.0 if relu else -float("inf"), float("inf")
    if out_zero is not None:
        low, high = float(max(0, out_zero) if relu else 0) - out_zero, 255.0 - out_zero
    words = struct.pack("<fiffiiii", in_single(scale), moved, low, high, out_zero or 0, zero, 0, 0)
    return _C.from_data(struct.unpack("<8i", words), _C.int32, None), flip
