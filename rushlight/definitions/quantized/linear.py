"""Linear layers over bytes: packed weights, with scales, bias and rounding fused to the product.

Enters: rows of bytes, or of floats that are quantized on the way, weights that `packed_linear` packed, and what is
known of their columns. Leaves: bytes, floats or sums. Refuses: other devices than CPUs, sizes that do not fit, NaN in
floats whose range is looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _C
from ...op import Library, Spec
from ...planners.products.byte_plans import Sizes, dynamic_steps, static_steps

LARGEST = {False: 255, True: 127}     # bytes of a dynamic layer, by whether their range is reduced


class ByteLinear(Library):
    """Rows of bytes, or of floats that `head` makes bytes of, times packed weights; `columns` and `head` are those of
    codegen/library/products/requantize.py.

    `flip` is taken from every byte of the rows (128 makes signed ones of unsigned, or the other way)."""

    schema = (
        "_byte_linear(Tensor rows, Tensor weights, Tensor columns, Tensor head, int outputs, dtype dtype, int flip,"
        " bool by_row) -> Tensor"
    )
    function = method = out = differentiable = False

    def meta(self, rows, weights, columns, head, outputs, dtype, flip, by_row):
        return Spec((*rows.shape[:-1], outputs), dtype)

    def steps(self, args, room):
        rows, _, columns, _, outputs, dtype, flip, by_row = args
        return static_steps(room, sizes_of(rows, columns, outputs, by_row), rows.dtype, dtype, flip)


class ByteLinearDynamic(Library):
    """Rows of floats, quantized by their own range, times packed weights, as floats."""

    schema = (
        "_byte_linear_dynamic(Tensor rows, Tensor weights, Tensor columns, int outputs, bool relu, bool reduce_range,"
        " bool by_row) -> Tensor"
    )
    function = method = out = differentiable = False

    def meta(self, rows, weights, columns, outputs, relu, reduce_range, by_row):
        return Spec((*rows.shape[:-1], outputs), _C.float32)

    def steps(self, args, room):
        rows, _, columns, outputs, relu, reduce_range, by_row = args
        return dynamic_steps(room, sizes_of(rows, columns, outputs, by_row), relu, LARGEST[reduce_range])

    def on_error(self, args: tuple) -> Callable[[int], None] | None:
        def raise_for(code: int) -> None:
            raise RuntimeError(
                "linear_dynamic: in choosing quantization params, min should be less than or equal to max: the input"
                " holds NaN"
            )

        return raise_for


def sizes_of(rows: Any, columns: Any, outputs: int, by_row: bool) -> Sizes:
    """The sizes of a product whose rows are the last dim of a tensor."""
    k = rows.shape[-1]
    return Sizes(rows.numel() // max(k, 1), outputs, k, columns.shape[1], by_row)
