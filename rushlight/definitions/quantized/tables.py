"""Arithmetic of quantized tables of embeddings: rows with a scale and a bias each, quantized, looked up and added.

Enters: codes (integers of 8, 4 or 2 bits, one in each element), scales and biases of rows. Leaves: floats, in PyTorch's
order of operations: code * scale + bias rounded once, terms of a bag added one after another.
"""

from __future__ import annotations

from typing import Any

from rushlight import _C
from rushlight.op import Pointwise


class RowCodes(Pointwise):
    """round((number - bias) * inverse), held between 0 and the largest code."""

    schema = "_row_codes(Tensor input, Tensor bias, Tensor inverse, int most) -> Tensor"
    function = method = inplace = out = differentiable = False

    def expr(self, s, x, bias, inverse, most):
        rounded = s.round((x - bias) * inverse)
        return s.cast(s.clamp(rounded, 0.0, float(most)), "i32")

    def result_dtype(self, common: Any, *args: Any) -> Any:
        return _C.uint8


class BagStep(Pointwise):
    """total + code * scale + bias where `active`: the bias is added first, the product in one step."""

    schema = (
        "_bag_step(Tensor total, Tensor codes, Tensor scale, Tensor bias, Tensor? weight, Tensor active) -> Tensor"
    )
    function = method = inplace = out = differentiable = False
    apart = ("codes", "active")

    def expr(self, s, total, codes, scale, bias, weight, active):
        if weight is not None:
            scale, bias = scale * weight, bias * weight
        return s.where(active, s.fma(scale, s.cast(codes, "f32"), total + bias), total)
