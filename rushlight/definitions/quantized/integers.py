"""Products and convolutions of bytes whose zero points are tensors: exact sums, as ONNX and others ask for them.

Enters: int8 or uint8 operands, weights on the right, and their zero points (one, or one for every output of the
weights). Leaves: int32. Refuses: other types. On CPUs the kernels of quantized layers compute them
(`_byte_linear`, `_byte_convolution`); what depends on weights alone is packed once by the compiler's plan.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ... import _C
from ...op import Composite, ops
from ...planners.convolutions.byte_windows import SUMS, Blocks
from ...planners.products.byte_plans import FLIP, row_flip
from .byte_weights import WORD, Weights, packed_weights
from .folded import packed_by_ops

BYTES = (_C.uint8, _C.int8)


class WholeSums(Composite):
    """What stays one call in graphs: which kernels compute it is this processor's own affair."""

    function = method = out = differentiable = False
    is_portable = True

    def records(self) -> bool:
        return True


class IntegerProduct(WholeSums):
    """(input - zero) @ (weight - weight_zero) of bytes: rows of any rank, weights [k, n]."""

    schema = "_integer_mm(Tensor input, Tensor weight, Tensor? zero, Tensor? weight_zero) -> Tensor"

    def compute(self, input, weight, zero, weight_zero):
        check_bytes("_integer_mm", input, weight)
        if weight.ndim != 2 or input.ndim < 1 or input.shape[-1] != weight.shape[0]:
            raise RuntimeError(f"_integer_mm: expected rows that fit weights of two dims, got {list(input.shape)} and"
                               f" {list(weight.shape)}")
        k, n = weight.shape
        if input.device.type != "cpu" or not k or not n or not prod(input.shape):
            return shifted(input, zero, 0) @ shifted(weight, weight_zero, 0)
        packed, sums = packed_by_ops(signed(weight).t())
        padding = [0, sums.shape[0] - n]
        zeros = signed_zero(weight, weight_zero)
        none = sums * 0
        columns = [sums, none, none, none]
        if zeros is not None:
            zeros = ops["constant_pad_nd"](zeros.expand(n), padding)
            columns = [sums - zeros * k, none, none, zeros]
        rows, zero = unsigned(input, zero)
        head = head_of([None, -row_flip(), None, None, None, 0], zero, sums)
        return ops["_byte_linear"](rows.contiguous(), packed, ops["stack"](columns), head, n, _C.int32, row_flip(),
                                   zeros is not None)


class IntegerConvolution(WholeSums):
    """convolution of (input - zero) under (weight - weight_zero), of bytes; padding is `zero`, so that it counts as
    nothing."""

    schema = (
        "_integer_convolution(Tensor input, Tensor weight, Tensor? zero, Tensor? weight_zero, int[] stride,"
        " int[] padding, int[] dilation, int groups) -> Tensor"
    )

    def compute(self, input, weight, zero, weight_zero, stride, padding, dilation, groups):
        check_bytes("_integer_convolution", input, weight)
        channels = weight.shape[1] * groups
        if weight.ndim != input.ndim or not 3 <= weight.ndim <= 5 or input.shape[1] != channels:
            raise RuntimeError(f"_integer_convolution: expected images of {channels} channels in {weight.ndim - 2}"
                               f" dims, got {list(input.shape)} under weights {list(weight.shape)}")
        window = list(stride), list(padding), list(dilation)
        if input.device.type != "cpu" or not prod(input.shape) or not prod(weight.shape):
            return by_floats(input, weight, zero, weight_zero, window, groups)
        input, zero = unsigned(input, zero)
        input = input.movedim(1, -1).contiguous().movedim(-1, 1)
        zeros = signed_zero(weight, weight_zero)
        weight = signed(weight)
        outs = weight.shape[0]
        if zeros is None:
            return sums_of(input, weight, zero, window, groups)
        if groups == 1:                   # the sum of a window is one output more, of ones
            ones = weight[:1] * 0 + 1
            both = sums_of(input, ops["cat"]([weight, ones]), zero, window, 1)
            found, windows = both[:, :outs], both[:, outs:]
        else:
            found = sums_of(input, weight, zero, window, groups)
            windows = sums_of(input, weight[:groups] * 0 + 1, zero, window, groups)
            windows = windows.repeat_interleave(outs // groups, 1) if outs > groups else windows
        return ops["addcmul"](found, zeros.expand(outs).reshape(-1, *(1,) * (weight.ndim - 2)), windows, value=-1)


def check_bytes(name: str, *operands: Any) -> None:
    """Refuse what is no tensor of bytes."""
    for t in operands:
        if t.dtype not in BYTES:
            raise RuntimeError(f"{name}: expected int8 or uint8 operands, got {t.dtype}")


def unsigned(rows: Any, zero: Any) -> tuple[Any, Any]:
    """Activations as kernels take them, uint8, and their zero point."""
    if rows.dtype is _C.uint8:
        return rows, zero
    return (rows ^ -FLIP).view(_C.uint8), FLIP if zero is None else zero.to(_C.int32) + FLIP


def signed(weight: Any) -> Any:
    """Weights as int8."""
    return (weight ^ FLIP).view(_C.int8) if weight.dtype is _C.uint8 else weight


def signed_zero(weight: Any, zero: Any) -> Any:
    """The zero points of `signed(weight)`, one dim of int32; None: none."""
    flip = FLIP if weight.dtype is _C.uint8 else 0
    if zero is None:
        return None if not flip else ops["full"]((1,), -flip, dtype=_C.int32, device=weight.device)
    return zero.to(_C.int32).reshape(-1) - flip


def head_of(moves: list[int | None], zero: Any, like: Any) -> Any:
    """Eight words, some of which are the zero point and so much more."""
    places = like.new_tensor([int(m is not None) for m in moves] + [0] * (8 - len(moves)))
    found = like.new_tensor([m or 0 for m in moves] + [0] * (8 - len(moves)))
    if zero is None:
        return found
    return found + places * (zero if isinstance(zero, int) else zero.to(_C.int32).reshape(()))


def sums_of(input: Any, weight: Any, zero: Any, window: tuple, groups: int) -> Any:
    """The sums of uint8 activations less their zero point under int8 weights, by kernels."""
    ready = packed_weights(weight, groups)
    stride, padding, dilation = window
    return ops["_byte_convolution"](
        input, ready.packed, columns_of(ready, zero), head_of([0], zero, ready.sums), None, weight.shape[0],
        tuple(weight.shape[2:]), stride, padding, dilation, groups, SUMS,
    )


def columns_of(ready: Weights, zero: Any) -> Any:
    """`COLUMNS` of codegen/library/convolution/byte_finish.py for sums, which read where each starts and nothing else;
    behind those of depthwise weights, a pixel of padding."""
    flip = FLIP if ready.packing.form.signed else 0
    number = 0 if zero is None else zero if isinstance(zero, int) else zero.to(_C.int32).reshape(())
    sums = ready.spread(ready.sums)
    starts = sums * (flip - number)
    if not isinstance(ready.packing, Blocks):
        return starts
    words = -(-ready.packing.channels // WORD)
    return ops["cat"]([starts, sums * 0, sums * 0, ready.sums.new_full((words,), 0x01010101) * number])


def shifted(x: Any, zero: Any, dims: int, dtype: Any = _C.int32) -> Any:
    """Bytes less their zero point; `dims` follow the dim that it runs along."""
    x = x.to(dtype)
    return x if zero is None else x - (zero.to(dtype).reshape(-1, *(1,) * dims) if zero.numel() > 1 else zero.to(
        dtype).reshape(()))


def by_floats(input: Any, weight: Any, zero: Any, weight_zero: Any, window: tuple, groups: int) -> Any:
    """The same sums on devices without such kernels: in float64, which has all of them."""
    dims = weight.ndim - 2
    wide = shifted(input, zero, dims, _C.float64), shifted(weight, weight_zero, weight.ndim - 1, _C.float64)
    stride, padding, dilation = window
    found = ops["convolution"](*wide, None, stride, padding, dilation, False, [0] * dims, groups)
    return found.round().to(_C.int32)
