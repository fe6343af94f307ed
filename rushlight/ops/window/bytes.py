"""Windowed sums of bytes along one dim, in integers: how 8-bit images are interpolated.

Enters: a uint8 tensor, a dim and its axis. Leaves: sums with weights of 16 bits, rounded and clipped to a byte, as image
libraries compute them. Refuses: gradients; bytes have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from rushlight import _C
from rushlight.loops.expr import cast, const, idiv, irem, load, max_, min_, shl, shr, var
from rushlight.loops.nest import Assign, For, Local, Nest, Store, operands, rows
from rushlight.op.definition import KIND_PLANNED, OpDefinition
from rushlight.op.indexed import contiguous_strides
from rushlight.op.memory import check_memory
from rushlight.op.pointwise import compile_for
from rushlight.op.reduction import GRAIN, as_step, product

from .axes import Constants, Table, integers, table_of, unpack
from .layout import ZERO, channels_last_strides, dense, is_channels_last, is_dense

MOST_BITS = 22


class WindowBytes(OpDefinition):
    """Weighted sums along `dim`, counted from the end, of a uint8 tensor."""

    schema = "_window_bytes(Tensor input, int dim, int[] axes) -> Tensor"
    function = method = out = False
    batch = "leading"
    differentiable = False
    kind = KIND_PLANNED

    @cached_property
    def kernels(self) -> dict[tuple, Any]:
        return {}

    def run(self, input: Any, dim: int, axes: Sequence[int]) -> Any:
        """Inputs in another memory order are copied first."""
        input = dense(input, input.ndim - 2)
        return self.plan((input, dim, axes))(input)

    def plan(self, args: tuple) -> Any:
        input, dim, (axis,) = args[0], args[1], unpack(args[2])
        spatial, device = input.ndim - 2, input.device
        if not is_dense(input, spatial):
            return None
        dim += input.ndim
        shape = (*input.shape[:dim], axis.target, *input.shape[dim + 1 :])
        channels = is_channels_last(input, spatial)
        strides = channels_last_strides(shape) if channels else contiguous_strides(shape)
        slots = [("new", input.dtype, shape, strides if channels else None, 0, 0)]
        if device.type == "meta" or 0 in shape:
            return _C.Plan(1, device, slots, [])
        kernel = self.kernels.get(device.type)
        if kernel is None:
            kernel = self.kernels[device.type] = as_step(compile_for(device, bytes_nest()))
        check_memory(shape, input.dtype, device)   # before tables of these lengths
        table, constants = table_of(axis), Constants()
        weights, bits = whole_weights(table)
        places = [constants.add(integers([*table.starts, *table.counts])), constants.add(integers(weights))]
        inner = strides[dim]
        params = [axis.target, axis.source, max(1, table.taps), inner, bits]
        extent = product(shape) // inner
        step = (kernel, [0, *places, 1], params, extent, max(1, GRAIN // (inner * max(1, table.taps))), -1, bytes(constants.data))
        return _C.Plan(1, device, slots, [step])


def whole_weights(table: Table) -> tuple[list[int], int]:
    """Weights as integers of at most 16 bits, and how many of them are behind the point."""
    largest = max((w for own in table.weights for w in own), default=1.0)
    bits = 0
    while bits < MOST_BITS and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    scaled = []
    for own in table.weights:
        padded = own + [0.0] * (table.taps - len(own))
        scaled += [int(w * (1 << bits) + (0.5 if w >= 0 else -0.5)) for w in padded]
    return scaled, bits


def bytes_nest() -> Nest:
    """Rows are positions along the dim; what lies behind it in memory is on lanes."""
    inner, bits = var("inner"), cast(var("bits"), "i32")
    at, outer = var("at"), var("outer")
    x = cast(load(0, (outer * var("source") + var("first") + var("k")) * inner + var("j"), "u8"), "i32")
    weight = cast(load(2, at * var("taps") + var("k"), "i64"), "i32")
    total = var("acc", "i32")
    result = max_(min_(shr(total, bits), const(255, "i32")), const(0, "i32"))
    lanes = For("j", ZERO, inner, (
        Local("acc", shr(shl(const(1, "i32"), bits), const(1, "i32"))),
        For("k", ZERO, var("count"), (Assign("acc", total + x * weight),)),
        Store(3, var("i") * inner + var("j"), cast(result, "u8")),
    ), vector=True)  # fmt: skip
    head = [
        Local("at", irem(var("i"), var("target"))), Local("outer", idiv(var("i"), var("target"))),
        Local("first", load(1, at, "i64")), Local("count", load(1, var("target") + at, "i64")),
    ]  # fmt: skip
    return Nest("window_bytes", operands(["u8", "i64", "i64"], ["u8"]), ("target", "source", "taps", "inner", "bits"), rows(*head, lanes))
